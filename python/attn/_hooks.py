"""Runs in which somebody looks: arrays are kept of what passes, and functions edit it."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import struct
import weakref
from typing import Any, Callable, Container, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._library import Activation, Copies, Copy, count, library
from ._session import Floats, Session, Watch
from ._show import Heads, table
from ._sites import HEADED, KEYED, PIECEMEAL, SCALES, SIDE_BY_SIDE, TURNED, Hooks, Place, Site

Hook = Callable[[Floats, str], Optional[NDArray[Any]]]
Names = Union[None, str, Iterable[str], Callable[[str], bool]]

_N_SITES = len(Site)
_SITES = tuple(Site)
# An AttnActivation's fields, in its C layout; reading them at once is faster than one by one.
_FIELDS = struct.Struct("@i6QP")
assert _FIELDS.size == ctypes.sizeof(Activation)


def select(hooks: Hooks, names: Names, but: Container[Site] = (Site.RESULT,)) -> List[Place]:
    """
    The places of names, or of all names that a function is true of; None: all but those of some sites (results, which are
    large). In the order of the forward pass. KeyError: the model has not such a name.
    """
    if callable(names):
        chosen = {place for place, name in hooks.names.items() if names(name)}
    elif names is None:
        chosen = {place for place in hooks.names if place[0] not in but}
    elif isinstance(names, bytes) or not isinstance(names, Iterable):
        raise TypeError(f"names are a hook's name, some of them, or a function that is true of names, not {names!r}")
    else:
        chosen = {hooks.find(name) for name in ([names] if isinstance(names, str) else names)}
    return [place for place in hooks.names if place in chosen]


class Cache(Mapping[str, Floats]):
    """
    The arrays that passed in a run, by hook names, HookedTransformer's. It answers to TransformerBridge's names, too, and to a
    site and layer, `cache["pattern", 3]`. Shapes are those of TransformerLens without the batch: [pos][head][d_head] of q, z …,
    [head][query][key] of the pattern and scores, [pos][d_model] of the residual stream. The arrays are the caller's own.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__  # arrays have no truth value

    def __init__(self, hooks: Hooks, arrays: Dict[Place, Floats], tokens: NDArray[np.int32], str_tokens: List[str]) -> None:
        self.tokens = tokens
        self.str_tokens = str_tokens
        self._hooks = hooks
        self._arrays = {hooks.names[place]: array for place, array in arrays.items()}

    def __getitem__(self, name: Union[str, Tuple[str, int]]) -> Floats:
        place = _named(self._hooks, name) if isinstance(name, tuple) else self._hooks.find(name)
        full = self._hooks.names[place]
        if full not in self._arrays:
            raise KeyError(f"{full!r} was not kept in this run; kept are {', '.join(self._arrays)}")
        return self._arrays[full]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        size = sum(array.nbytes for array in self._arrays.values())
        return f"<attn.Cache of {count(len(self), 'array')}, {count(len(self.tokens), 'token')}, {size / 1e6:.1f} MB>"

    def _repr_html_(self) -> str:
        return table(self._arrays)

    def heads(self, layer: int) -> Heads:
        """A layer's pattern as a picture for a notebook. KeyError: it was not kept, or the layer has none."""
        pattern = self["pattern", layer]
        return Heads(layer % self._hooks.n_layer, pattern, self.str_tokens)


def _named(hooks: Hooks, name: Tuple[str, int]) -> Place:
    """The place of ("pattern", 3); a negative layer counts from the end."""
    if len(name) != 2 or not isinstance(name[1], (int, np.integer)):
        raise KeyError(f"{name!r} is no site and layer, such as ('pattern', 3)")
    site, layer = name
    names = {site_name(place[0]) for place in hooks.names}
    if site not in names:
        raise KeyError(f"there is no site {site!r}; there are {', '.join(sorted(names))}")
    wanted = layer + hooks.n_layer if layer < 0 else layer
    for place in hooks.names:
        if site_name(place[0]) == site and place[1] == wanted:
            return place
    raise KeyError(f"layer {layer} has no {site!r}")


def site_name(site: Site) -> str:
    """ "resid_pre", "pattern" … """
    return str(library.attn_site_name(site).decode())


class Asking:
    """A probe that lets nobody look, and remembers what it could have: the places of a model, and how many heads each has."""

    watch: Watch  # its session's

    copies: Optional[Copies] = None
    edits = False

    def __init__(self) -> None:
        self.heads: Dict[Place, int] = {}

    def wants(self, _user: Optional[int], site: int, layer: int, head: int) -> bool:
        place = (_SITES[site], layer)
        self.heads[place] = max(self.heads.get(place, 0), head + 1)
        return False

    def visit(self, _user: Optional[int], _seen: int) -> None:
        pass


_BLOCK = 16 << 20  # bytes
_HUGE = 2 << 20  # of a large page


class Room:
    """
    Memory for arrays of float32 that are kept, all 0. Large ones lie in pages of 2 MiB and nothing else, those of some size
    side by side in blocks: NumPy asks for such pages, too, but leaves up to 4 MiB of an array to small ones, whose first touch
    takes microseconds each, in a virtual machine more than the run. What nobody holds any more of a block is given back, so
    that one array of many costs its own size.
    """

    def __init__(self) -> None:
        self._blocks: List[mmap.mmap] = []
        self._at = self._end = 0  # of what is left of the last one
        self._n_small = 0  # bytes of arrays in small pages: as long as they are few, a large page would be mostly empty

    def array(self, *shape: int) -> Floats:
        size = math.prod(shape) * 4
        if size < _BLOCK // 128 or self._n_small + size <= _HUGE:
            self._n_small += size
            return np.zeros(shape, np.float32)
        if size > _BLOCK // 2:
            mapped, at, _ = _mapped(size)
            return np.frombuffer(mapped, np.float32, size // 4, at).reshape(shape)
        if size > self._end - self._at:
            self._give_rest()
            block, self._at, self._end = _mapped(_BLOCK)
            self._blocks.append(block)
        own: Any = (ctypes.c_char * size).from_buffer(self._blocks[-1], self._at)  # which views of the array hold, too
        weakref.finalize(own, _advise, self._blocks[-1], mmap.MADV_DONTNEED, self._at, size).atexit = False
        self._at += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE  # pages that it shares with no other
        return np.ndarray(shape, np.float32, own)

    def _give_rest(self) -> None:
        if self._at < self._end:
            _advise(self._blocks[-1], mmap.MADV_DONTNEED, self._at, self._end - self._at)
        self._at = self._end

    def close(self) -> None:
        """All is filled: what is given back from now on does not become part of a large page again."""
        self._give_rest()
        for block in self._blocks:
            _advise(block, mmap.MADV_NOHUGEPAGE)
        self._blocks.clear()


def _advise(mapped: mmap.mmap, *advice: int) -> None:
    with contextlib.suppress(OSError):  # a system without large pages, or pages that are locked in memory
        mapped.madvise(*advice)


def _mapped(size: int) -> Tuple[mmap.mmap, int, int]:
    """Zeros in large pages, and from where to where they are those that are wanted. MemoryError: there are not so many."""
    try:
        mapped = mmap.mmap(-1, size + 2 * _HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        raise MemoryError(f"there is no memory for an array of {size} bytes") from None
    _advise(mapped, mmap.MADV_HUGEPAGE)
    at = -np.frombuffer(mapped, np.uint8).ctypes.data % _HUGE
    return mapped, at, at + size


class Kept:
    """
    An array that is filled as rows come by: [n][cols], [n][head][cols], or [head][n][n] where columns are keys; `unseen` is the
    score of those behind their query.
    """

    def __init__(self, room: Room, site: Site, n: int, n_heads: int, n_cols: int, unseen: float = -np.inf) -> None:
        if site in KEYED:
            self.array: Floats = room.array(n_heads, n, n)
            if site == Site.SCORES and unseen:
                self.array.fill(unseen)
        elif site in HEADED:
            self.array = room.array(n, n_heads, n_cols)
        else:
            self.array = room.array(n, n_cols)
        self.missing = n * n_heads if site in PIECEMEAL else n  # rows


def part(site: Site, array: Floats, head: int, position: int, n_rows: int, n_cols: int) -> Floats:
    """The rows of such an array that a visit is about: [n_rows][n_cols], or [n_rows][head][n_cols] where it shows all heads."""
    if site in KEYED:
        return array[head, position:position + n_rows, :n_cols]
    if site == Site.RESULT:
        return array[position:position + n_rows, head]
    return array[position:position + n_rows]


class Seen:
    """The numbers of an AttnActivation, and the engine's own numbers, for use within the visit: rows as those of `part`."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._headers: Dict[int, Any] = {}

    def fields(self, seen: int) -> Tuple[int, ...]:
        """Those of the struct at this address."""
        header = self._headers.get(seen)  # the engine shows its struct at few addresses
        if header is None:
            header = self._headers[seen] = (ctypes.c_char * _FIELDS.size).from_address(seen)
        return _FIELDS.unpack_from(header)

    def rows(self, site: Site, layer: int, address: int, n_rows: int, n_cols: int, stride: int) -> Floats:
        """Those at an address. Of heads side by side, the first of which is there, all."""
        heads = self._hooks.heads[site, layer] if site in SIDE_BY_SIDE else 0
        buffer: Any = (ctypes.c_char * (((n_rows - 1) * stride + max(heads, 1) * n_cols) * 4)).from_address(address)
        if heads:
            return np.ndarray((n_rows, heads, n_cols), np.float32, buffer, 0, (stride * 4, n_cols * 4, 4))
        return np.ndarray((n_rows, n_cols), np.float32, buffer, 0, (stride * 4, 4))

    def read(self, site: Site, rows: Floats) -> Floats:
        """Rows as they are shown: a head's numbers in the order of training."""
        order = self._hooks.order
        return rows if order is None or site not in TURNED else rows[..., order]

    def write(self, site: Site, rows: Floats, values: Floats) -> None:
        """Likewise the other way."""
        order = self._hooks.order
        if order is None or site not in TURNED:
            rows[...] = values
        else:
            rows[..., order] = values


def wanted(hooks: Hooks, places: Iterable[Place]) -> List[int]:
    """[site][layer] how many heads of it are visited, the first ones: a single one of those that lie side by side."""
    most = [0] * (_N_SITES * (hooks.n_layer + 1))
    for site, layer in places:
        most[site * (hooks.n_layer + 1) + layer] = 1 if site in SIDE_BY_SIDE else hooks.heads[site, layer]
    return most


class Run:
    """
    One run over n tokens: keeps the arrays of some places, and calls the functions of others.

    A function gets all heads and positions of its place at once, but the engine shows them as it comes by: all at a time
    in most places of a text of one chunk (256 tokens), head behind head in others. There the run first goes as far as the
    place, to see it whole; the function is called; and the run begins anew, with what it gave put in the place of what is
    computed. So no function is called twice, whatever the way. repeats: tokens are fed once more behind the run.
    """

    watch: Watch  # its session's

    def __init__(self, hooks: Hooks, n: int, keep: Sequence[Place], functions: Mapping[Place, Sequence[Hook]],
                 repeats: bool = False) -> None:
        self._hooks, self._n, self.edits = hooks, n, bool(functions)
        self._layers = hooks.n_layer + 1
        self._logits = [place for place in keep if place[0] == Site.LOGITS]  # which the run returns anyway
        keep = [place for place in keep if place[0] != Site.LOGITS]
        self._keep = {self._index(place) for place in keep}
        self._functions = {self._index(place): (place, list(list_)) for place, list_ in functions.items()}
        self._seen = Seen(hooks)
        self._given: Dict[int, Floats] = {}  # what functions gave, for the passes that follow …
        self._repeats = repeats or any(site in PIECEMEAL for site, _ in functions)  # … if any do
        self._kept: Dict[int, Kept] = {}
        self._gathered: Dict[int, Kept] = {}  # of functions that have not been called
        self._again = False
        self._wanted = wanted(hooks, [*keep, *functions])
        # Scores and patterns come in so many rows that a call of Python for each would take longer than the run.
        places = (Copy * len(self._wanted))()
        self._room = Room()
        self._copied = {place: Kept(self._room, place[0], n, hooks.heads[place], n).array
                        for place in keep if place[0] in KEYED and place not in functions}
        for place, array in self._copied.items():
            places[self._index(place)] = Copy(array.ctypes.data, n * n, n)
        self.copies: Optional[Copies] = Copies(hooks.n_layer, places) if self._copied else None

    def _index(self, place: Place) -> int:
        return place[0] * self._layers + place[1]

    def wants(self, _user: Optional[int], site: int, layer: int, head: int) -> bool:
        return head < self._wanted[site * self._layers + layer]

    def feed(self, session: Session, ids: NDArray[np.int32], logits: Floats) -> None:
        """Feeds an empty session whose probe this is, as often as the functions take."""
        while True:
            self._again = False
            self._kept, self._gathered = {}, {}
            session.rewind(0)
            session._feed_into(ids, logits)
            if not self._again:
                break
        self._room.close()
        self._copied.update({place: logits for place in self._logits})

    def arrays(self, places: Iterable[Place]) -> Dict[Place, Floats]:
        """The arrays that were kept, in the order of places."""
        kept = {**self._copied, **{place: self._kept[self._index(place)].array for place in places
                                   if self._index(place) in self._kept}}
        return {place: kept[place] for place in places if place in kept}

    def visit(self, _user: Optional[int], seen: int) -> None:
        try:
            if self._again or self.watch.raised is not None:
                return
            number, layer, head, position, n_rows, n_cols, stride, data = self._seen.fields(seen)
            site = _SITES[number]
            rows = self._seen.rows(site, layer, data, n_rows, n_cols, stride)
            self._visit(number * self._layers + layer, site, layer, head, position, rows)
        except BaseException as error:  # C code must not see it
            self.watch.raised = error

    def _visit(self, index: int, site: Site, layer: int, head: int, position: int, rows: Floats) -> None:
        if index in self._functions or index in self._given:
            self._change(index, site, layer, head, position, rows)
            return
        array = self._array(self._kept, index, site, layer, rows.shape[-1]).array
        part(site, array, head, position, len(rows), rows.shape[-1])[...] = self._seen.read(site, rows)

    def _array(self, of: Dict[int, Kept], index: int, site: Site, layer: int, n_cols: int) -> Kept:
        """That of a place, made when its first rows come by."""
        if index not in of:
            of[index] = Kept(self._room, site, self._n, self._hooks.heads[site, layer], n_cols)
        return of[index]

    def _change(self, index: int, site: Site, layer: int, head: int, position: int, rows: Floats) -> None:
        n_rows, n_cols = len(rows), rows.shape[-1]
        given = self._given.get(index)
        if given is not None:
            values = part(site, given, head, position, n_rows, n_cols)
            self._seen.write(site, rows, values)
            if index in self._keep:
                kept = self._array(self._kept, index, site, layer, n_cols).array
                part(site, kept, head, position, n_rows, n_cols)[...] = values
            return
        if n_rows == self._n and site not in PIECEMEAL:
            array = np.array(self._seen.read(site, rows))
        else:
            self._repeats = True
            gathered = self._array(self._gathered, index, site, layer, n_cols)
            part(site, gathered.array, head, position, n_rows, n_cols)[...] = self._seen.read(site, rows)
            gathered.missing -= n_rows
            if gathered.missing > 0:
                return
            array = gathered.array
        given = self._call(index, array)
        if given is None:
            return
        if self._repeats:
            self._given[index] = given.copy()  # the function may keep its own, and change it
        if site not in SCALES and (site in PIECEMEAL or n_rows < self._n):
            self._again = self.watch.wants_end = True
            return
        if site not in SCALES:
            self._seen.write(site, rows, given)
        if index in self._keep:
            self._array(self._kept, index, site, layer, n_cols).array[...] = given

    def _call(self, index: int, array: Floats) -> Optional[Floats]:
        """Gives the functions of a place its array, and returns what they make of it; None if one raised."""
        place, functions = self._functions.pop(index)
        return applied(self.watch, functions, array, place[0], self._hooks.names[place])


def applied(watch: Watch, functions: Sequence[Hook], array: Floats, site: Site, name: str) -> Optional[Floats]:
    """Calls functions on an array in turn and returns what they made of it; None if one raised, which `watch` keeps."""
    shape = array.shape
    array.setflags(write=site not in SCALES)
    for function in functions:
        result = watch.call(function, array, name)
        if watch.raised is not None:
            return None
        if array.shape != shape or array.dtype != np.float32:
            raise ValueError(f"{name} is {list(shape)}, but the function made it {list(array.shape)} of {array.dtype}")
        if result is None:
            continue
        if site in SCALES:
            raise ValueError(f"{name} is to be looked at only: the function must return nothing")
        result = np.asarray(result)
        if result.shape != shape:
            raise ValueError(f"{name} is {list(shape)}, but the function returned {list(result.shape)}")
        if result.dtype.kind not in "biuf":
            raise ValueError(f"{name} has numbers, but the function returned {result.dtype}")
        array = np.array(result, np.float32)  # a copy: what the function keeps is its own
    return array


class Stream:
    """Functions on the hooks of a text that comes piece by piece: each is called with the tokens that pass together."""

    watch: Watch  # its session's

    def __init__(self, hooks: Hooks, functions: Mapping[Place, Sequence[Hook]]) -> None:
        for place in functions:
            if place[0] in PIECEMEAL:
                raise ValueError(f"{hooks.names[place]} comes row by row: it is changed by run_with_hooks alone")
        self.copies: Optional[Copies] = None
        self.edits = True
        self._hooks, self._functions = hooks, functions
        self._seen = Seen(hooks)
        self._wanted = wanted(hooks, functions)

    def wants(self, _user: Optional[int], site: int, layer: int, head: int) -> bool:
        return head < self._wanted[site * (self._hooks.n_layer + 1) + layer]

    def visit(self, _user: Optional[int], seen: int) -> None:
        watch = self.watch
        if watch.raised is not None:
            return
        try:
            number, layer, _, _, n_rows, n_cols, stride, data = self._seen.fields(seen)
            site = _SITES[number]
            rows = self._seen.rows(site, layer, data, n_rows, n_cols, stride)
            array = np.array(self._seen.read(site, rows))
            given = applied(watch, self._functions[site, layer], array, site, self._hooks.names[site, layer])
            if given is not None and site not in SCALES:
                self._seen.write(site, rows, given)
        except BaseException as error:  # C code must not see it
            watch.raised = error
