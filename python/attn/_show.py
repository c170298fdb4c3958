"""How results show themselves in a notebook: HTML with SVG in it, no script. What tokens say is text there, never markup."""

from __future__ import annotations

from html import escape
from typing import List, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

LEAST = 0.02  # lighter weights are left out of a picture
_SIDE = 160  # pixels of a head


def shown(token: str) -> str:
    """A token as it may stand in a page: what has no shape, or turns the direction of writing, as Python escapes it."""
    return escape("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in token))


class Heads:
    """
    The attention of a layer's heads: `pattern` [head][query][key] and the tokens. In a notebook a picture of each head: rows are
    queries, from above, columns keys; the darker a place, the more weight; each says under the pointer whose it is.
    """

    def __init__(self, layer: int, pattern: NDArray[np.float32], str_tokens: Sequence[str]) -> None:
        self.layer = layer
        self.pattern = pattern
        self.str_tokens: List[str] = list(str_tokens)

    def __repr__(self) -> str:
        return f"<attn.Heads of layer {self.layer}: {len(self.pattern)} heads, {len(self.str_tokens)} tokens>"

    def _repr_html_(self) -> str:
        pictures = "".join(f'<figure style="margin:0">{self._svg(head)}<figcaption>L{self.layer}H{head}</figcaption></figure>'
                           for head in range(len(self.pattern)))
        return f'<div style="display:flex;flex-wrap:wrap;gap:1em;font:small sans-serif;text-align:center">{pictures}</div>'

    def _svg(self, head: int) -> str:
        n, tokens, weights = len(self.str_tokens), [shown(token) for token in self.str_tokens], self.pattern[head]
        places = "".join(
            f'<rect x="{key}" y="{query}" width="1" height="1" fill-opacity="{min(weights[query, key], 1):.2f}">'
            f"<title>{query} “{tokens[query]}” looks at {key} “{tokens[key]}”: {weights[query, key]:.3f}</title></rect>"
            for query, key in np.argwhere(weights >= LEAST))
        return (f'<svg width="{_SIDE}" height="{_SIDE}" viewBox="0 0 {n} {n}" role="img"'
                f' aria-label="attention of L{self.layer}H{head}" shape-rendering="crispEdges" style="background:#f4f4f8"><g fill="#1d3f9c">{places}</g></svg>')


def table(arrays: Mapping[str, NDArray[np.float32]]) -> str:
    """Names, shapes and sizes of arrays."""
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{' × '.join(map(str, array.shape))}</td><td>{array.nbytes:,}</td></tr>"
                   for name, array in arrays.items())
    return f"<table><thead><tr><th>hook</th><th>shape</th><th>bytes</th></tr></thead><tbody>{rows}</tbody></table>"
