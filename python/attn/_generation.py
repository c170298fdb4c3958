"""A text that a model writes, piece by piece."""

from __future__ import annotations

import codecs
import ctypes
import weakref
from typing import Callable, Generator, Iterable, Iterator, List, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from ._library import Error, Sampling, check, count, library
from ._session import OpenFile, Session


class Generation(Iterator[str]):
    """A text that comes piece by piece."""

    def __init__(self, session: Session, prompt: NDArray[np.int32], sampling: Sampling, n_tokens: int, stops: List[str],
                 shown: Callable[[OpenFile, int], bytes]) -> None:
        self._writer = _Writer(session, sampling, shown)
        # All goes with this object: nothing below refers to it.
        self._pieces = _held_back(self._writer.texts(prompt, n_tokens), stops, self._writer)

    def __next__(self) -> str:
        if self._pieces.gi_running:
            raise ValueError("this text is being written: by another thread, or by whom its hook was called")
        try:
            return next(self._pieces)
        except BaseException:  # at the end, too
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<attn.Generation of {count(len(self.tokens), 'token')}, {self.end or 'under way'}>"

    @property
    def tokens(self) -> List[int]:
        """The ids that were written so far."""
        return list(self._writer.tokens)

    @property
    def end(self) -> Optional[str]:
        """None while more may come; then "limit", "token" (the model ended it), "stop", "context" (it is full), or "closed"."""
        return self._writer.end

    def close(self) -> None:
        """Ends it, and gives the memory back."""
        self._pieces.close()
        self._writer.end = self._writer.end or "closed"
        self._writer.session.close()


class _Writer:
    """The loop of a language model: samples a token, shows it, feeds it. shown: the bytes that a token adds to the text."""

    def __init__(self, session: Session, sampling: Sampling, shown: Callable[[OpenFile, int], bytes]) -> None:
        error = Error()
        self.tokens: List[int] = []
        self.end: Optional[str] = None
        self.session = session
        self._file, self._shown = session._file, shown
        self._sampler = check(library.attn_sampler_new(self._file.pointer, ctypes.byref(sampling), ctypes.byref(error)), error)
        weakref.finalize(self, _free_sampler, self._sampler, self._file).atexit = False

    def texts(self, prompt: NDArray[np.int32], n_tokens: int) -> Iterator[str]:
        """The text of each token, in whole characters, perhaps none yet."""
        session, n_ctx = self.session, self.session.n_ctx
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        logits = session.sync(prompt)
        for id_ in prompt:
            library.attn_sampler_accept(self._sampler, int(id_))
        for _ in range(n_tokens):
            if self.tokens and len(prompt) + len(self.tokens) > n_ctx:
                self.end = "context"
                break
            if self.tokens:
                logits = session.feed(self.tokens[-1:])[0]
            id_ = library.attn_sample(self._sampler, logits.ctypes.data)
            self.tokens.append(id_)
            yield decoder.decode(self._shown(self._file, id_))
            if library.attn_token_is_end(self._file.pointer, id_):
                self.end = "token"
                break
        yield decoder.decode(b"", final=True)
        self.end = self.end or "limit"


def _free_sampler(pointer: int, _file: OpenFile) -> None:
    library.attn_sampler_free(pointer)  # before its model, which _file keeps


def _held_back(texts: Iterable[str], stops: Sequence[str], writer: _Writer) -> Generator[str, None, None]:
    """Pieces that cannot be the beginning of a stop text; one that is complete ends the text before it."""
    held = ""
    for text in texts:
        held += text
        shown = len(held)
        for at in range(len(held)):
            if any(held.startswith(each, at) for each in stops):
                writer.end = "stop"
                if at:
                    yield held[:at]
                return
            if any(each.startswith(held[at:]) for each in stops):
                shown = min(shown, at)
        if shown:
            yield held[:shown]
        held = held[shown:]
    if held:
        yield held
