"""Numbers made of logits, and their gradients at every hook."""

from __future__ import annotations

import ctypes
from numbers import Real
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._hooks import Kept, Room, Seen, part, wanted
from ._library import VISIT_GRADIENT, WANTS, AttnError, GradientProbe, Term
from ._session import Floats, Int, Session, whole
from ._sites import KEYED, SCALES, Hooks, Place, Site

if TYPE_CHECKING:
    from ._model import Model

NO_GRADIENT = SCALES
_SITES = tuple(Site)


class _Part(NamedTuple):
    """weight · logit or ln p of a token behind a position; of every token behind the one before it, if token is None."""

    weight: float
    token: Union[None, int, str]
    position: int
    logprob: bool


class Metric:
    """A number made of a text's logits: what `logit`, `logprob` and `loss` give, added, subtracted, and times numbers."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = tuple(parts)

    def __add__(self, other: Metric) -> Metric:
        if not isinstance(other, Metric):
            return NotImplemented
        return Metric(self._parts + other._parts)

    def __radd__(self, nothing: int) -> Metric:  # sum() begins with 0
        if nothing != 0:
            return NotImplemented
        return self

    def __mul__(self, factor: float) -> Metric:
        if not isinstance(factor, Real):
            return NotImplemented
        return Metric([each._replace(weight=each.weight * factor) for each in self._parts])

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Metric:
        return self * (1 / divisor)

    def __neg__(self) -> Metric:
        return self * -1.0

    def __sub__(self, other: Metric) -> Metric:
        return self + -other

    def __repr__(self) -> str:
        return f"<attn.Metric of {len(self._parts)} terms>"

    def terms(self, model: Model, ids: NDArray[np.int32]) -> Any:
        """The AttnTerms of a text. IndexError: a position that it has not. ValueError: a text that is not one token."""
        found: List[Term] = []
        n = len(ids)
        for each in self._parts:
            if each.token is None:
                if n < 2:
                    raise AttnError(f"a text of {n} token{'' if n == 1 else 's'} has none whose probability is known")
                found += [Term(i, int(ids[i + 1]), True, each.weight / (n - 1)) for i in range(n - 1)]
                continue
            if not -n <= each.position < n:
                raise IndexError(f"position {each.position} is not one of the {n} of the text")
            token = model.to_single_token(each.token) if isinstance(each.token, str) else each.token
            found.append(Term(each.position % n, token, each.logprob, each.weight))
        return (Term * len(found))(*found)


def _of_token(token: Union[Int, str], position: int, logprob: bool) -> Metric:
    chosen: Union[int, str] = token if isinstance(token, str) else whole("token", token, 0, 2**31 - 1)
    return Metric([_Part(1.0, chosen, whole("position", position, -2**31), logprob)])


def logit(token: Union[Int, str], position: int = -1) -> Metric:
    """The logit of a token, an id or a text that is one, after a position (negative: from the end)."""
    return _of_token(token, position, False)


def logprob(token: Union[Int, str], position: int = -1) -> Metric:
    """Likewise its ln p."""
    return _of_token(token, position, True)


def loss() -> Metric:
    """The mean surprisal of a text's tokens but the first, in nats, as `Model.loss`."""
    return Metric([_Part(-1.0, None, 0, True)])


class WayBack:
    """A way there and back over n tokens, on which the gradients at some places are kept."""

    def __init__(self, hooks: Hooks, n: int, places: Sequence[Place]) -> None:
        self._hooks, self._n = hooks, n
        self._seen = Seen(hooks)
        self._kept: Dict[Place, Kept] = {}
        self._rows: Dict[Tuple[int, int], int] = {}  # where an array lies whose rows are copied as they come, [head][n][n]
        self._room = Room()
        self._wanted = wanted(hooks, places)

    def go(self, session: Session, ids: NDArray[np.int32], terms: Any) -> float:
        """The metric. AttnError: as Session.feed."""
        self._watch = session._watch
        value = ctypes.c_double()
        probe = GradientProbe(None, WANTS(self._wants), VISIT_GRADIENT(self._visit))
        session._gradient(ids, terms, probe, value)
        self._room.close()
        return value.value

    def arrays(self, places: Iterable[Place]) -> Dict[Place, Floats]:
        """The gradients, in the order of places."""
        return {place: self._kept[place].array for place in places if place in self._kept}

    def _wants(self, _user: Optional[int], site: int, layer: int, head: int) -> bool:
        return head < self._wanted[site * (self._hooks.n_layer + 1) + layer]

    def _visit(self, _user: Optional[int], seen: int, gradient: int) -> None:
        try:
            if self._watch.raised is not None:
                return
            number, layer, head, position, n_rows, n_cols, stride, _ = self._seen.fields(seen)
            address = self._rows.get((number, layer))
            if address is not None:
                ctypes.memmove(address + (head * self._n + position) * self._n * 4, gradient, n_cols * 4)
                return
            place = (_SITES[number], layer)
            if place not in self._kept:
                self._kept[place] = Kept(self._room, place[0], self._n, self._hooks.heads[place], n_cols, 0)
            rows = self._seen.rows(place[0], layer, gradient, n_rows, n_cols, stride)
            to = part(place[0], self._kept[place].array, head, position, n_rows, n_cols)
            to[...] = self._seen.read(place[0], rows)
            if place[0] in KEYED:
                self._rows[number, layer] = self._kept[place].array.ctypes.data  # for the rows that follow, which are many
        except BaseException as error:  # C code must not see it
            self._watch.raised = error
