"""A session: one text under way. Here is also what Python can hear while the engine works."""

from __future__ import annotations

import copy
import ctypes
import operator
import os
import reprlib
import signal
import threading
import weakref
from typing import Any, Callable, Dict, List, NoReturn, Optional, Protocol, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._library import (CACHES, MOVE, STOP, VISIT, WANTS, AttnError, Copies, Error, GradientProbe, Probe, SessionOptions, check,
                       count, library)

Floats = NDArray[np.float32]
Int = Union[int, "np.integer[Any]"]
Ids = Union[Sequence[int], NDArray[Any]]


def as_ids(tokens: Ids) -> NDArray[np.int32]:
    """[n] ids in one dimension, a copy. ValueError: they are no whole numbers, or not in one dimension."""
    try:
        ids = np.asarray(tokens)
    except ValueError:  # lists of several lengths
        ids = np.empty(())
    if ids.size == 0:
        ids = ids.astype(np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        said = f"{ids.dtype} {list(ids.shape)}" if ids is tokens else " ".join(reprlib.repr(tokens).split())
        raise ValueError(f"tokens are whole numbers in one dimension, not {said}")
    if ids.size and (ids.min() < 0 or ids.max() > 2**31 - 1):
        raise AttnError(f"token {ids.min() if ids.min() < 0 else ids.max()} is outside the vocabulary")
    return np.array(ids, np.int32)


def whole(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """A whole number within these. TypeError: it is none. ValueError: it is less, or more."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}, which is {f'less than {least}' if number < least else f'more than {most}'}")
    return number


def as_floats(values: Any, name: str) -> Floats:
    """Numbers as float32, their own if they are, one row behind another. ValueError: they are complex, or no numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} are numbers, not {array.dtype}")
    return np.ascontiguousarray(array, np.float32)


class OpenFile:
    """An AttnModel, which is closed when nobody refers to it any more: neither a Model nor a Session."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer
        weakref.finalize(self, library.attn_model_close, pointer).atexit = False


class Watch:
    """
    Signals and exceptions while the engine is at work. Neither passes through C: they are kept here, `stop` has the engine
    end, and who waited for it raises them. A handler that Python code installed is called as soon as it can be.
    """

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None
        self.wants_end = False  # somebody else wishes the call to end
        self.at_work = False
        self._handlers: Dict[int, Callable[[int, Any], Any]] = {}
        self._pending: List[Tuple[int, Any]] = []
        self._in_python = False

    def __enter__(self) -> Watch:
        self.raised, self.wants_end = None, False
        if threading.current_thread() is threading.main_thread():
            try:
                for number in signal.valid_signals():
                    handler = signal.getsignal(number)
                    if callable(handler) and not isinstance(handler, signal.Handlers):
                        self._handlers[number] = handler
                        signal.signal(number, self._hear)
            except BaseException:  # one that is still in its place raised
                self._give_back()
                raise
        self.at_work = True
        return self

    def __exit__(self, *_: object) -> None:
        self.at_work = False
        self._give_back()

    def _give_back(self) -> None:
        """Each handler is put in its place, and gets what was heard; what they raise meanwhile comes out behind all that."""
        handlers, raised = dict(self._handlers), None
        while self._handlers:
            number = next(iter(self._handlers))
            try:
                if signal.getsignal(number) == self._hear:  # else one of them has put another there
                    signal.signal(number, handlers[number])
                del self._handlers[number]
            except BaseException as error:
                raised = raised or error
        while self._pending:
            number, frame = self._pending.pop(0)
            try:
                handlers[number](number, frame)
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised

    def _hear(self, number: int, frame: Any) -> None:
        if self._in_python and number in self._handlers:
            self._handlers[number](number, frame)
        else:  # an exception between here and the engine would be lost
            self._pending.append((number, frame))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what a function of the user does; None if it raised, which is kept, and ends the engine's work."""
        try:
            self._in_python = True
            result = function(*arguments)
            self._in_python = False
            return result
        except BaseException as error:  # whatever it is, C code must not see it
            self._in_python = False
            self.raised = error
            return None

    def stop(self, _user: Optional[int]) -> bool:
        while self._pending and self.raised is None:
            number, frame = self._pending.pop(0)
            self.call(self._handlers[number], number, frame)
        return self.wants_end or self.raised is not None


def _free(pointer: int, process: int, _file: OpenFile) -> None:
    if os.getpid() == process:  # a forked child has not the threads that would have to end
        library.attn_session_free(pointer)


class Probing(Protocol):
    """One that looks into a session, which tells it its `watch`."""

    watch: Watch
    copies: Optional[Copies]  # places whose rows the library copies itself
    edits: bool  # whether it may change what passes

    def wants(self, _user: Optional[int], site: int, layer: int, head: int) -> bool: ...

    def visit(self, _user: Optional[int], seen: int) -> None: ...


class Session:
    """
    The tokens of one text, and the keys and values of all layers, so that what follows costs only itself.

    n_ctx: positions to make room for (0: as many as the model was trained for). cache: "f32", "f16" or "q8_0". fast:
    activations in 8 bits where that is faster: fit for text, not to compare runs. It belongs to one thread at a time; the
    model's file stays open as long as it lives. AttnError: there is not so much memory, or not so many positions.
    """

    def __init__(self, model: Any, n_ctx: int = 0, *, cache: str = "f32", fast: bool = False,
                 _probe: Optional[Probing] = None, _parent: Optional[Session] = None,
                 _beside: Optional[Session] = None) -> None:
        if cache not in CACHES:
            raise ValueError(f"cache is one of {', '.join(CACHES)}, not {cache!r}")
        n_ctx = whole("n_ctx", n_ctx)
        self._model, self._given, self._probe = model, (n_ctx, cache, fast), _probe
        self._file: OpenFile = model._opened() if _parent is None else _parent._file
        self._n_vocab: int = model.config.n_vocab
        self._d_model: int = model.config.d_model
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._watch = Watch()
        options = SessionOptions(n_ctx=n_ctx, n_threads=model.n_threads, cache=CACHES[cache], fast=fast)
        if _beside is not None:
            options.beside = _beside._pointer
        # The struct alone would not keep its functions alive.
        self._callbacks: List[Any] = [STOP(self._watch.stop)]
        options.stop = self._callbacks[0]
        if _probe is not None:
            _probe.watch = self._watch
            self._callbacks += [WANTS(_probe.wants), VISIT(_probe.visit)]
            options.probe = Probe(None, *self._callbacks[1:])
            if _probe.copies is not None:
                _probe.copies.visit = options.probe.visit
                options.probe.user = ctypes.addressof(_probe.copies)
                options.probe.visit = ctypes.cast(library.attn_copy, VISIT)
        error = Error()
        begin, of = library.attn_session_new, self._file.pointer
        if _parent is not None:
            begin, of = library.attn_session_fork, _parent._pointer
        pointer: int = check(begin(of, ctypes.byref(options), ctypes.byref(error)), error)
        self._free = weakref.finalize(self, _free, pointer, self._process, self._file)
        self._free.atexit = False
        self._pointer: int = pointer

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session is neither copied nor pickled: fork() makes a second one, save() gives its bytes")

    def __repr__(self) -> str:
        if not self._free.alive:
            return "<attn.Session, closed>"
        return f"<attn.Session of {count(len(self.tokens), 'token')}, room for {self.n_ctx}>"

    def close(self) -> None:
        """Gives its memory back; a second time does nothing."""
        with _Held(self, closed=True):
            self._free()
            # They and the probe refer to each other, and the probe to its arrays, which would wait for the garbage collector.
            self._callbacks.clear()
            if self._probe is not None:
                self._probe.copies = None

    @property
    def tokens(self) -> NDArray[np.int32]:
        """[n] the tokens that it holds: a copy."""
        with _Held(self):
            n = ctypes.c_size_t()
            ids = library.attn_session_tokens(self._pointer, ctypes.byref(n))
            return np.array(ids[:n.value], np.int32)

    @property
    def n_ctx(self) -> int:
        """Positions that there is room for."""
        with _Held(self):
            return int(library.attn_session_n_ctx(self._pointer))

    def rewind(self, position: Int) -> None:
        """Forgets all positions from `position` on; or all there are, if a layer keeps a state, which cannot go back."""
        position = whole("position", position)
        with _Held(self):
            library.attn_rewind(self._pointer, position)

    def feed(self, tokens: Ids, n_logits: int = 1) -> Floats:
        """
        Feeds tokens behind those that it holds; the logits [n_logits][n_vocab] of the last n_logits of them. AttnError: there
        are none, one does not exist, the context is too short, logits are not finite. ValueError: n_logits is more than they
        are. After these, and exceptions of functions on hooks, nothing is fed; but a layer that keeps a state cannot go back,
        and the session may hold nothing then.
        """
        ids = as_ids(tokens)
        n_logits = whole("n_logits", n_logits)
        if n_logits > ids.size > 0:
            raise ValueError(f"logits of {n_logits} tokens are wanted, but {ids.size} are fed")
        logits = np.empty((min(n_logits, ids.size), self._n_vocab), np.float32)  # the engine refuses no tokens
        self._feed_into(ids, logits)
        return logits

    def _feed_into(self, ids: NDArray[np.int32], logits: Floats) -> None:
        """`feed`, with memory for the logits [n_logits][n_vocab] that is there already."""
        n = ctypes.c_size_t()
        with _Held(self):
            library.attn_session_tokens(self._pointer, ctypes.byref(n))
        self._work(library.attn_feed, ids.ctypes.data, ids.size, logits.ctypes.data, len(logits), back=n.value)

    def _feed_many(self, parts: Any) -> None:
        """attn_feed_many: the first part is this session's, and the others' were made beside it."""
        self._work(lambda _pointer, *arguments: library.attn_feed_many(*arguments), parts, len(parts))

    def sync(self, tokens: Ids) -> Floats:
        """
        Makes it hold exactly these tokens, computing only what it did not hold; the logits [n_vocab] of the last.
        AttnError: as `feed`, but some of the tokens may have been fed. After an exception of a function it holds what it held
        of them before; nothing, where a layer keeps a state.
        """
        ids = as_ids(tokens)
        logits = np.empty(self._n_vocab, np.float32)
        self._work(library.attn_sync, ids.ctypes.data, ids.size, logits.ctypes.data, back=self._held_of(ids))
        return logits

    def _held_of(self, ids: NDArray[np.int32]) -> int:
        """How many of these tokens, from the first on and but for the last, attn_sync does not compute again."""
        held = self.tokens[:max(ids.size - 1, 0)]
        others = np.flatnonzero(held != ids[:held.size])
        return int(others[0]) if others.size else held.size

    def hidden(self, tokens: Ids) -> Floats:
        """
        [d_model] what the model makes of the last of these tokens, behind the final norm: a vector for the text. It holds them
        then, as by `sync`. AttnError: as `sync`, and on numbers that are not finite.
        """
        ids = as_ids(tokens)
        hidden = np.empty(self._d_model, np.float32)
        self._work(library.attn_hidden, ids.ctypes.data, ids.size, hidden.ctypes.data, back=self._held_of(ids))
        return hidden

    def fork(self) -> Session:
        """A second session with the same tokens, keys and values, whose memory they share, and options. AttnError: no memory."""
        with _Held(self):
            n_ctx, cache, fast = self._given
            return Session(self._model, n_ctx, cache=cache, fast=fast, _probe=copy.copy(self._probe), _parent=self)

    def save(self) -> bytes:
        """All that it holds, for `restore`, into a file perhaps: about as many bytes as its part of the cache has."""
        with _Held(self):
            kept, at = bytearray(library.attn_session_bytes(self._pointer)), 0
        to = (ctypes.c_char * len(kept)).from_buffer(kept)

        def write(_user: Optional[int], piece: int, n: int) -> bool:
            nonlocal at
            if n > len(kept) - at:
                return False
            ctypes.memmove(ctypes.addressof(to) + at, piece, n)
            at += n
            return True

        self._work(library.attn_session_save, MOVE(write), None)
        return bytes(kept)

    def restore(self, saved: bytes) -> None:
        """
        Makes it hold what was saved, whatever it held: of a session of the same model, with the same cache, and with no more tokens than it has room
        for.
        AttnError: the bytes are of no such session, and it holds what it held; or damaged, and it holds nothing.
        """
        data, at = bytes(memoryview(saved)), 0

        def read(_user: Optional[int], piece: int, n: int) -> bool:
            nonlocal at
            if n > len(data) - at:
                return False
            ctypes.memmove(piece, data[at:at + n], n)
            at += n
            return True

        self._work(library.attn_session_restore, MOVE(read), None)
        if at < len(data):
            self.rewind(0)
            raise AttnError(f"{len(data) - at} bytes follow the saved session")

    def unembed(self, resid: NDArray[Any]) -> Floats:
        """The logits [n][n_vocab] that residual vectors [n][d_model] would give if they left the last layer: the logit lens."""
        rows = as_floats(resid, "residual vectors")
        if rows.ndim != 2 or rows.shape[1] != self._d_model:
            raise ValueError(f"residual vectors are [n][{self._d_model}], not {list(rows.shape)}")
        logits = np.empty((len(rows), self._n_vocab), np.float32)
        with _Held(self):
            library.attn_unembed(self._pointer, rows.ctypes.data, len(rows), logits.ctypes.data)
        return logits

    def _gradient(self, ids: NDArray[np.int32], terms: Any, probe: GradientProbe, value: ctypes.c_double) -> None:
        """attn_gradient."""
        self._work(library.attn_gradient, ids.ctypes.data, ids.size, terms, len(terms), ctypes.byref(probe),
                   ctypes.byref(value))

    def _work(self, function: Any, *arguments: Any, back: Optional[int] = None) -> None:
        """Calls a function of attn.h. back: the position to rewind to if a function on a hook, or Ctrl-C, raised."""
        error = Error()
        with _Held(self):
            try:
                with self._watch:
                    ok = function(self._pointer, *arguments, ctypes.byref(error))
                raised, self._watch.raised = self._watch.raised, None
                if raised is not None:
                    raise raised
            except BaseException:
                if back is not None:  # behind the last layer nobody asks whether to end: the tokens were fed all the same
                    library.attn_rewind(self._pointer, back)
                raise
            if self._watch.wants_end:
                return
            if not ok and self._probe is not None and self._probe.edits and b"not finite" in error.message:
                raise AttnError(f"{error.message.decode('utf-8', 'replace')}; or a function on a hook gave such numbers")
            check(ok, error)


class _Held:
    """A session while one thread is at it. AttnError: another is, or it is closed (unless it may be), or of another process."""

    def __init__(self, session: Session, closed: bool = False) -> None:
        self._session, self._closed = session, closed

    def __enter__(self) -> None:
        session = self._session
        if os.getpid() != session._process:
            raise AttnError("the session belongs to the process that made it")
        free = session._lock.acquire(blocking=False)
        # A thread that has it already, while the engine rests, was interrupted by a signal before it could give it back.
        if free and session._watch.at_work:
            session._lock.release()
        if not free or session._watch.at_work:
            raise AttnError("the session is at work: it serves one call at a time")
        if not (session._free.alive or self._closed):
            session._lock.release()
            raise AttnError("the session is closed")

    def __exit__(self, *_: object) -> None:
        self._session._lock.release()
