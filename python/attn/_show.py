"""How results show themselves in a notebook: HTML with SVG in it, no script. What tokens say is text there, never markup."""

from __future__ import annotations

import os
from html import escape
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from ._library import count

LEAST = 0.02  # lighter weights are left out of a picture
ROWS = 50  # of a table
_SIDE = 160  # pixels of a head
_CELL = 22  # pixels of a cell of a grid
_VALUES = ("effect", "kl_nats", "score_nats", "value", "ind")  # the number of a view's cell that a grid shows


def shown(token: str) -> str:
    """A token as it may stand in a page: what has no shape, or turns the direction of writing, as Python escapes it."""
    return escape("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in token))


class Heads:
    """
    The attention of a layer's heads: `pattern` [head][query][key] and the tokens. In a notebook a picture of each head: rows
    are queries, from above, columns keys; the darker a place, the more weight; each says under the pointer whose it is.
    """

    def __init__(self, layer: int, pattern: NDArray[np.float32], str_tokens: Sequence[str]) -> None:
        self.layer = layer
        self.pattern = pattern
        self.str_tokens: List[str] = list(str_tokens)

    def __repr__(self) -> str:
        return f"<attn.Heads of layer {self.layer}: {count(len(self.pattern), 'head')}, {count(len(self.str_tokens), 'token')}>"

    def _repr_html_(self) -> str:
        return _pictures([(f"L{self.layer}H{head}", weights) for head, weights in enumerate(self.pattern)], self.str_tokens)


def _pictures(patterns: Sequence[Tuple[str, NDArray[Any]]], str_tokens: Sequence[str]) -> str:
    """Patterns [query][key], each with its name."""
    tokens = [shown(token) for token in str_tokens]
    pictures = "".join(f'<figure style="margin:0">{_pattern(name, weights, tokens)}<figcaption>{name}</figcaption></figure>'
                       for name, weights in patterns)
    return f'<div style="display:flex;flex-wrap:wrap;gap:1em;font:small sans-serif;text-align:center">{pictures}</div>'


def _pattern(name: str, weights: NDArray[Any], tokens: Sequence[str]) -> str:
    n = len(tokens)
    places = "".join(
        f'<rect x="{key}" y="{query}" width="1" height="1" fill-opacity="{min(weights[query, key], 1):.2f}">'
        f"<title>{query} “{tokens[query]}” looks at {key} “{tokens[key]}”: {weights[query, key]:.3f}</title></rect>"
        for query, key in np.argwhere(weights >= LEAST))
    return (f'<svg width="{_SIDE}" height="{_SIDE}" viewBox="0 0 {n} {n}" role="img" aria-label="attention of {name}"'
            f' shape-rendering="crispEdges" style="background:#f4f4f8"><g fill="#1d3f9c">{places}</g></svg>')


class Grid:
    """
    Numbers [row][column] as a picture for a notebook: blue above 0, red below it, as strong as the number is large; each says
    under the pointer what it is. `rows` and `columns` name them; None: L0, L1 …, and 0, 1 …
    """

    def __init__(self, values: Any, rows: Optional[Sequence[str]] = None, columns: Optional[Sequence[str]] = None) -> None:
        self.values = np.asarray(values, float)
        if self.values.ndim != 2:
            raise ValueError(f"a grid has rows and columns, but these numbers are {list(self.values.shape)}")
        n_rows, n_columns = self.values.shape
        self.rows = [f"L{row}" for row in range(n_rows)] if rows is None else list(map(str, rows))
        self.columns = [str(column) for column in range(n_columns)] if columns is None else list(map(str, columns))
        if (len(self.rows), len(self.columns)) != self.values.shape:
            raise ValueError(f"the numbers are {n_rows} × {n_columns}, the names {len(self.rows)} × {len(self.columns)}")

    def __repr__(self) -> str:
        finite = self.values[np.isfinite(self.values)]
        between = f", {finite.min():.4g} … {finite.max():.4g}" if finite.size else ""
        return f"<attn.Grid of {len(self.rows)} × {len(self.columns)}{between}>"

    def _repr_html_(self) -> str:
        rows, columns = [shown(row) for row in self.rows], [shown(column) for column in self.columns]
        left = 12 + 7 * max(map(len, self.rows), default=0)
        longest = max(map(len, self.columns), default=0)
        upright = longest > 2
        top = 12 + 7 * longest if upright else 18
        width, height = left + _CELL * len(columns) + 2, top + _CELL * len(rows) + 2
        most = float(np.max(np.abs(self.values), where=np.isfinite(self.values), initial=0)) or 1.0
        parts = [f'<text x="{left - 5}" y="{top + _CELL * i + 15}" text-anchor="end">{row}</text>'
                 for i, row in enumerate(rows)]
        for i, column in enumerate(columns):
            middle = left + _CELL * i + _CELL // 2 + (4 if upright else 0)
            turned = f'transform="rotate(-90 {middle} {top - 4})"' if upright else 'text-anchor="middle"'
            parts.append(f'<text x="{middle}" y="{top - 4}" {turned}>{column}</text>')
        for (y, x), value in np.ndenumerate(self.values):
            if np.isfinite(value):
                parts.append(f'<rect x="{left + _CELL * x}" y="{top + _CELL * y}" width="{_CELL}" height="{_CELL}" '
                             f'fill="{"#1d3f9c" if value >= 0 else "#b3261e"}" fill-opacity="{abs(value) / most:.2f}" '
                             f'stroke="#ddd"><title>{rows[y]}, {columns[x]}: {value:.4g}</title></rect>')
        return (f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"'
                f' aria-label="a grid of {len(rows)} by {len(columns)} numbers, at most {most:.4g}" fill="currentColor"'
                f' style="font:12px sans-serif;max-width:100%">{"".join(parts)}</svg>')


class View(Dict[str, Any]):
    """A view's JSON. In a notebook it shows itself: what has a layer and a head or a position as a grid, the rest as tables."""

    def __repr__(self) -> str:
        return f"<attn.View {self.get('command')}: {', '.join(key for key in self if key not in _COMMON)}>"

    def _repr_html_(self) -> str:
        model = os.path.basename(str(self.get("model", "")))
        n = count(len(self.get("tokens", [])), "token")
        parts = [f"<p><b>{shown(str(self.get('command')))}</b> {shown(model)}, {n}</p>"]
        facts = {key: _said(value) for key, value in self.items() if key not in _COMMON and value is not None}
        parts.append(f"<p>{' · '.join(f'{shown(key)} {value}' for key, value in facts.items() if value)}</p>")
        tokens = [str(token["token"]) for token in self.get("tokens", [])]
        for key, value in self.items():
            if key == "patterns" and isinstance(value, list) and "words" not in self and self.get("query") is None:
                parts.append(_pictures([_full(pattern, len(tokens)) for pattern in value], tokens))
            elif (key not in _COMMON or (key == "tokens" and _COMMON.issuperset(self))) and isinstance(value, list) and value \
                    and isinstance(value[0], dict):
                parts.append(_items(key, value, tokens))
        return f'<div style="overflow-x:auto">{"".join(parts)}</div>'


_COMMON = frozenset({"command", "model", "architecture", "type", "n_tokens", "bos", "seed", "tokens", "corrupted_tokens"})


def _full(pattern: Mapping[str, Any], n: int) -> Tuple[str, NDArray[Any]]:
    """A pattern of `attend`, whose rows end with their query, as [query][key], and its name."""
    weights = np.zeros((n, n))
    for query, row in enumerate(pattern["rows"]):
        weights[query, :query + 1] = row[:query + 1]
    layer, head = pattern.get("layer"), pattern.get("head")
    return f"{'all layers' if layer is None else f'L{layer}'}{'' if head is None else f'H{head}'}", weights


def _said(value: Any) -> str:
    """A number, text, token or small object in a few words; "" of what is larger."""
    if value is None:
        return "–"
    if isinstance(value, (bool, str)):
        return shown(str(value))
    if isinstance(value, (int, float, np.number)):
        return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
    if isinstance(value, dict) and "token" in value:
        return f"“{shown(str(value['token']))}”"
    if isinstance(value, dict):
        return ", ".join(f"{shown(name)} {_said(each)}" for name, each in value.items() if not isinstance(each, (list, dict)))
    if isinstance(value, list) and len(value) <= 8 and all(isinstance(each, (str, int, float)) for each in value):
        return ", ".join(map(_said, value))
    return ""


def _items(key: str, items: Sequence[Mapping[str, Any]], tokens: Sequence[str]) -> str:
    """Those with a place as a grid, others, or if they have no number to show, all, as a table."""
    number = next((name for name in _VALUES if name in items[0]), None)
    placed = [item for item in items if _place(item) is not None]
    grid = None if number is None else _grid(placed, number, tokens)
    if grid is None:
        return f"<p>{shown(key)}</p>{_rows(items, number)}"
    others = _rows([item for item in items if _place(item) is None], number)
    return f"<p>{shown(key)}: {number}</p>{grid._repr_html_()}{others}"


def _place(item: Mapping[str, Any]) -> Optional[Tuple[str, int]]:
    """Row and column of an item: layer and head, layer and position, or layer with head and position; None: it has none."""
    layer, head, position = (item.get(name) for name in ("layer", "head", "position"))
    if layer is None or (head is None and position is None) or item.get("neuron") is not None or "site" in item:
        return None
    if position is None:
        return f"L{layer}", int(head or 0)
    return f"L{layer}" if head is None else f"L{layer}H{head}", int(position)


def _grid(items: Sequence[Mapping[str, Any]], number: str, tokens: Sequence[str]) -> Optional[Grid]:
    """None: there are none, or two at the same place."""
    places = [place for place in map(_place, items) if place is not None]
    if not places or len(set(places)) != len(places):
        return None
    rows = list(dict.fromkeys(row for row, _ in places))
    values = np.full((len(rows), max(column for _, column in places) + 1), np.nan)
    for (row, column), item in zip(places, items):
        values[rows.index(row), column] = np.nan if item[number] is None else item[number]
    named = tokens if items[0].get("position") is not None and len(tokens) == values.shape[1] else None
    return Grid(values, rows, None if named is None else [f"{at} {token}" for at, token in enumerate(named)])


def _rows(items: Sequence[Mapping[str, Any]], number: Optional[str]) -> str:
    """A table; of more than ROWS the largest by a number, or the first."""
    if not items:
        return ""
    left_out = len(items) - ROWS
    if left_out > 0 and number is not None:
        order = np.argsort([-abs(item[number] or 0) for item in items], kind="stable")
        items = [items[i] for i in order]
    names = list(dict.fromkeys(name for item in items[:ROWS] for name in item if name != "id"))
    columns = {shown(name): [_cell(name, item.get(name)) for item in items[:ROWS]] for name in names}
    used = {name: cells for name, cells in columns.items() if any(cell not in ("", "–") for cell in cells)}
    return _table(list(used), list(zip(*used.values()))) + (f"<p>… and {left_out} more</p>" if left_out > 0 else "")


def _cell(name: str, value: Any) -> str:
    if name == "token":
        return _said({"token": value})
    if isinstance(value, list) and value and isinstance(value[0], dict) and "token" in value[0]:
        return ", ".join(_said(each) + (f" {each['probability']:.3f}" if "probability" in each else "") for each in value[:3])
    return _said(value)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """HTML, escaped already."""
    if not rows:
        return ""
    heading = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"


def table(arrays: Mapping[str, NDArray[np.float32]]) -> str:
    """Names, shapes and sizes of arrays."""
    return _table(["hook", "shape", "bytes"], [(escape(name), " × ".join(map(str, array.shape)), f"{array.nbytes:,}")
                                               for name, array in arrays.items()])
