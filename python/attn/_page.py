"""The page of `study view` in a notebook."""

from __future__ import annotations

import os
import tempfile
from html import escape
from pathlib import Path
from typing import Any, Union

from ._model import Model, Text
from ._session import whole


class Page:
    """One HTML file with all that the views say of a text, which needs no network: `html` is the whole of it."""

    def __init__(self, html: str, title: str, height: int) -> None:
        self.html = html
        self._title, self._height = title, height

    def __repr__(self) -> str:
        return f"<attn.Page of {self._title}, {len(self.html) / 1e6:.1f} MB; .save(path) writes it for a browser>"

    def _repr_html_(self) -> str:
        # An origin of its own: what a model or a text may say reaches neither the notebook nor its server.
        return (f'<iframe title="{escape(self._title)}" sandbox="allow-scripts allow-downloads allow-popups"'
                f' style="width:100%;height:{self._height}px;border:1px solid #ccc" srcdoc="{escape(self.html)}"></iframe>')

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes it as a file, to be opened in a browser."""
        Path(path).write_text(self.html, encoding="utf-8")


def page(model: Model, text: Text, *, live: bool = False, height: int = 800, **options: Any) -> Page:
    """
    The page of a text, which a notebook shows in a frame of `height` pixels. Without `live` it shows this text; with it, engine
    and model lie in the page, so that other texts can be typed, heads be switched off, and the model write: the notebook then
    holds 4/3 of the model's size. Options are those of `study view`: `n=4`, `ablate="L3H4"`, `layers=[4, 5]`; `yes=True` for
    a page of more than 200 MB. AttnError: the program's line.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        model.study("view", text, output=path, live=live, **options)
        html = Path(path).read_text(encoding="utf-8").replace(path, "page.html")  # the page says how it was made
    said = text if isinstance(text, str) else f"{len(text)} tokens"
    return Page(html, repr(said if len(said) <= 40 else said[:39] + "…"), whole("height", height))
