"""
A model's weights as arrays, under TransformerLens's names and in its shapes; what that has no name for under those of
transformers, and in its shapes. They are read from the file at each access.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Union, overload

import numpy as np
from numpy.typing import NDArray

from ._library import Error, Matrix, check, count, library
from ._session import Floats

if TYPE_CHECKING:
    from ._model import Model


class Row(NamedTuple):
    weight: int  # AttnWeight
    layer: int
    n_rows: int
    n_cols: int


def _whole_model(name: str) -> bool:
    return name.startswith(("embed.", "pos_embed.", "ln_final.", "unembed.", "rope_"))


def _list(model: Model) -> Dict[str, Row]:
    """All weights that a model has."""
    file, shape, number = model._opened(), Matrix(), 0
    rows: Dict[str, Row] = {}
    while True:
        name = library.attn_weight_name(number).decode()
        if not name:
            return rows
        for layer in range(1 if _whole_model(name) else model.config.n_layer):
            if library.attn_weight(file.pointer, number, layer, 0, 0, None, ctypes.byref(shape), None):
                full = name if _whole_model(name) else f"blocks.{layer}.{name}"
                rows[full] = Row(number, layer, shape.n_rows, shape.n_cols)
        number += 1


class Weights(Mapping[str, Floats]):
    """
    Names to arrays: "embed.W_E", "blocks.3.attn.W_Q" … as in TransformerLens's state_dict, but that nothing is folded or
    centred, and that keys and values have their kv heads only. "blocks.3.conv.in_proj.weight" and others that end so are
    transformers', [outputs][inputs]. Each access unpacks the array anew. KeyError: the model has not such a weight; the message
    lists what there is.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__  # arrays have no truth value

    def __init__(self, model: Model) -> None:
        self._model = model
        model._opened()
        if not model._weight_rows:
            model._weight_rows = _list(model)
        self._rows = model._weight_rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<attn.Weights of {self._model!r}: {count(len(self), 'array')}>"

    def __getitem__(self, name: str) -> Floats:
        row = self._rows.get(name)
        if row is None:
            raise KeyError(f"{self._model._name} has no {name!r}; there are {', '.join(self._short_names())}")
        rows = np.empty((row.n_rows, row.n_cols), np.float32)
        self._read(row, rows)
        return self._shaped(_short(name), row.layer, rows)

    def stacked(self, short: str) -> Optional[Floats]:
        """A weight of all layers, [n_layer] in front, or of the whole model; None: not every layer has it."""
        if _whole_model(short):
            return self[short] if short in self else None
        names = [f"blocks.{layer}.{short}" for layer in range(self._model.config.n_layer)]
        rows = [self._rows[name] for name in names if name in self._rows]
        if len(rows) < len(names) or len({row[2:] for row in rows}) > 1:
            return None
        array = np.empty((len(rows), rows[0].n_rows, rows[0].n_cols), np.float32)
        for row, part in zip(rows, array):
            self._read(row, part)
        return self._shaped(short, 0, array)

    def _read(self, row: Row, to: Floats) -> None:
        file, error = self._model._opened(), Error()
        check(library.attn_weight(file.pointer, row.weight, row.layer, 0, row.n_rows, to.ctypes.data, None,
                                  ctypes.byref(error)), error)

    def _short_names(self) -> List[str]:
        """ "embed.W_E", "blocks.*.attn.W_Q", "blocks.[1, 3].attn.sinks" … """
        layers: Dict[str, List[int]] = {}
        for name, row in self._rows.items():
            layers.setdefault(_short(name), []).append(row.layer)
        every = self._model.config.n_layer
        return [name if _whole_model(name) else f"blocks.{'*' if len(have) == every else have}.{name}"
                for name, have in layers.items()]

    def _shaped(self, short: str, layer: int, rows: Floats) -> Floats:
        """Rows [… outputs][inputs] as attn.h has them, in the shape of who gave the name: TransformerLens's heads, turned."""
        lead, (n_rows, n_cols) = rows.shape[:-2], rows.shape[-2:]
        kind = short.rsplit(".", 1)[-1]
        of_attention = short.startswith("attn.")
        if short.startswith(("conv.", "linear_attn.")):
            return self._of_state(short, layer, rows)
        order = self._model._order
        if order is not None and short[5:] in ("W_Q", "W_K", "b_Q", "b_K", "q_norm.w", "k_norm.w"):
            axis = len(lead) + (1 if kind.startswith("W") else n_cols > 1)
            heads = rows.reshape(*lead, -1, len(order), n_cols) if kind.startswith("W") else rows
            rows = np.take(heads, order, axis=axis).reshape(rows.shape)
        if kind in ("W_Q", "W_K", "W_V") or of_attention and kind == "W_gate":
            return rows.reshape(*lead, -1, self._model.config.d_head, n_cols).swapaxes(-1, -2)
        if kind == "W_O":
            return np.moveaxis(rows.reshape(*lead, n_rows, -1, self._model.config.d_head), -3, -1)
        if of_attention and kind in ("b_Q", "b_K", "b_V", "b_gate"):
            return rows
        if kind in ("W_E", "W_pos"):
            return rows
        if kind in ("W_gate", "W_in", "W_out", "b_gate", "b_in", "b_out") and self._n_expert(layer):
            n = self._n_expert(layer)
            return rows.reshape(*lead, n, n_rows // n, n_cols).swapaxes(-1, -2) if kind.startswith("W") else rows
        if kind.startswith("W"):
            return rows.swapaxes(-1, -2)
        return rows[..., 0, :] if n_rows == 1 and kind != "weight" or short.startswith("rope_") else rows

    def _of_state(self, short: str, layer: int, rows: Floats) -> Floats:
        """Likewise of a layer that keeps a state: transformers' shape, and its order of value heads."""
        if short.endswith(("conv.weight", "conv1d.weight")):
            rows = rows.swapaxes(-1, -2)
        elif rows.shape[-2] == 1:
            rows = rows[..., 0, :]
        file = self._model._opened()  # which another thread may close
        n_key = int(library.attn_model_n_striped(file.pointer))
        if n_key == 0 or short.endswith("norm.weight"):
            return rows
        n_value, d_inner = (self._rows[f"blocks.{layer}.linear_attn.{each}"].n_cols for each in ("A", "out_proj.weight"))
        axis = -1 if rows.ndim == 1 or short.endswith("out_proj.weight") else -2
        of_head = 1 if rows.shape[axis] == n_value else d_inner // n_value
        first = rows.shape[axis] - n_value * of_head  # queries and keys stand before
        heads = np.arange(n_value).reshape(-1, n_key).T.ravel()
        places = first + (heads[:, None] * of_head + np.arange(of_head)).ravel()
        rows = np.take(rows, np.concatenate([np.arange(first), places]), axis=axis)
        return rows

    def _n_expert(self, layer: int) -> int:
        router = self._rows.get(f"blocks.{layer}.mlp.W_router")
        return router.n_rows if router else 0


def _short(name: str) -> str:
    return name.split(".", 2)[2] if name.startswith("blocks.") else name


class Stacked:
    """An attribute of a model that is made when it is asked for, and not kept: TransformerLens's name of a weight."""

    def __init__(self, short: str, shape: str) -> None:
        self._short = short
        self.__doc__ = f"{shape} float32, unpacked anew at each access."

    def __repr__(self) -> str:
        return f"<{self._short}: {self.__doc__}>"

    @overload
    def __get__(self, model: None, owner: Any = None) -> Stacked: ...

    @overload
    def __get__(self, model: Model, owner: Any = None) -> Floats: ...

    def __get__(self, model: Optional[Model], owner: Any = None) -> Union[Stacked, Floats]:
        if model is None:
            return self
        weights = model.weights
        array = weights.stacked(self._short)
        if array is None:
            short = self._short.rsplit(".", 1)[-1]
            lacks = f"{model._name} has no" if _whole_model(self._short) else f"not every layer of {model._name} has"
            raise AttributeError(f"{lacks} {short}; model.weights has {', '.join(weights._short_names())}")
        return array

    def __set__(self, model: Model, value: Any) -> None:
        raise AttributeError(f"{self._short} is the file's, which nothing changes: a function on a hook changes what passes")


def order_of(model_pointer: int, d_head: int) -> Optional[NDArray[np.intp]]:
    """[d_head] where the file has each number of a query or key; None: in its place. attn_model_n_paired says what moves."""
    n = int(library.attn_model_n_paired(model_pointer))
    places = np.arange(d_head)
    return None if n == 0 else np.concatenate([places[0:n:2], places[1:n:2], places[n:]])
