"""
attn: a tiny GPT-style inference engine, from Python. docs/PYTHON.md has a start, and what is where for those who know
TransformerLens.

    import attn
    model = attn.load("model.bin")
    logits, cache = model.run_with_cache("The Eiffel")
    cache["blocks.0.attn.hook_pattern"]  # [head][query][key]
"""

from ._generation import Generation
from ._gradients import Metric, logit, logprob, loss
from ._hooks import Cache
from ._library import AttnError, library
from ._model import Config, Model, load
from ._page import Page, page
from ._session import Session
from ._show import Grid, Heads, View
from ._weights import Weights

__version__: str = library.attn_version().decode()
__all__ = ["AttnError", "Cache", "Config", "Generation", "Grid", "Heads", "Metric", "Model", "Page", "Session", "View",
           "Weights", "load", "logit", "logprob", "loss", "page"]
