"""libattn.so by ctypes: the words of attn.h, as they stand there, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

ABI = "0.5"  # the first two numbers of attn_version() with which the structs below are laid out as here


class AttnError(RuntimeError):
    """The library could not do something: it says so in one line for a person: what, where, what to do."""


def count(n: int, what: str) -> str:
    """So many of them, as one says it."""
    return f"{n} {what}{'s' * (n != 1)}"


def find(variable: str, installed: str, in_tree: str) -> str:
    """The path that the environment names, else that of the installed file, else that of the tree this package lies in."""
    here = Path(__file__).resolve().parent
    named = os.environ.get(variable)
    if named:
        return named
    for path in (here / installed, here.parents[1] / in_tree):
        if path.is_file():
            return str(path)
    raise AttnError(f"there is no {installed} beside the package: pip install ./python, or run make, or set {variable}")


class ModelOptions(ctypes.Structure):
    _fields_ = [("tokenizer", c_char_p)]


class Shape(ctypes.Structure):
    _fields_ = [(name, c_size_t) for name in
                ("n_layer", "n_head", "n_head_kv", "d_model", "d_head", "d_ff", "n_vocab", "n_ctx")]


class Error(ctypes.Structure):
    _fields_ = [("message", c_char * 512)]


class Activation(ctypes.Structure):
    _fields_ = [("site", c_int), ("layer", c_size_t), ("head", c_size_t), ("position", c_size_t), ("n_rows", c_size_t),
                ("n_cols", c_size_t), ("stride", c_size_t), ("data", c_void_p)]


WANTS = ctypes.CFUNCTYPE(c_bool, c_void_p, c_int, c_size_t, c_size_t)
VISIT = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
STOP = ctypes.CFUNCTYPE(c_bool, c_void_p)
MOVE = ctypes.CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t)  # takes, or fills, so many bytes


class Probe(ctypes.Structure):
    _fields_ = [("user", c_void_p), ("wants", WANTS), ("visit", VISIT)]


VISIT_GRADIENT = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)


class Copy(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("head", c_size_t), ("row", c_size_t)]


class Copies(ctypes.Structure):
    _fields_ = [("n_layer", c_size_t), ("places", POINTER(Copy)), ("visit", VISIT), ("user", c_void_p)]


class GradientProbe(ctypes.Structure):
    _fields_ = [("user", c_void_p), ("wants", WANTS), ("visit", VISIT_GRADIENT)]


class Term(ctypes.Structure):
    _fields_ = [("position", c_size_t), ("token", c_int32), ("logprob", c_bool), ("weight", c_double)]


class Matrix(ctypes.Structure):
    _fields_ = [("n_rows", c_size_t), ("n_cols", c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p), ("thoughts", c_char_p)]


class ChatOptions(ctypes.Structure):
    _fields_ = [("source", c_char_p), ("complete", c_bool), ("variables", c_char_p)]


class SessionOptions(ctypes.Structure):
    _fields_ = [("n_ctx", c_size_t), ("n_threads", c_uint), ("cache", c_int), ("fast", c_bool), ("probe", Probe),
                ("stop", STOP), ("stop_user", c_void_p), ("beside", c_void_p)]


class Part(ctypes.Structure):
    _fields_ = [("session", c_void_p), ("tokens", c_void_p), ("n", c_size_t), ("logits", c_void_p), ("n_logits", c_size_t)]


class Sampling(ctypes.Structure):
    _fields_ = [("repeat_penalty", c_float), ("presence_penalty", c_float), ("frequency_penalty", c_float),
                ("penalty_window", c_size_t), ("top_k", c_size_t), ("top_p", c_float), ("min_p", c_float),
                ("temperature", c_float), ("seed", c_uint64), ("order", c_uint64)]


TOKENIZE_ENDS, TOKENIZE_SPECIAL = 1, 2
CACHES = {"f16": 0, "f32": 1, "q8_0": 2}

# Every function of attn.h that this package calls: what it returns, and what it takes.
_FUNCTIONS = {
    "attn_version": (c_char_p, []),
    "attn_model_open": (c_void_p, [c_char_p, POINTER(ModelOptions), POINTER(Error)]),
    "attn_model_close": (None, [c_void_p]),
    "attn_model_shape": (Shape, [c_void_p]),
    "attn_model_architecture": (c_char_p, [c_void_p]),
    "attn_weight_name": (c_char_p, [c_int]),
    "attn_weight": (c_bool, [c_void_p, c_int, c_size_t, c_size_t, c_size_t, c_void_p, POINTER(Matrix), POINTER(Error)]),
    "attn_model_n_paired": (c_size_t, [c_void_p]),
    "attn_model_n_striped": (c_size_t, [c_void_p]),
    "attn_tokenize": (c_bool, [c_void_p, c_char_p, c_size_t, c_uint, c_void_p, c_size_t, POINTER(c_size_t),
                               POINTER(Error)]),
    "attn_chat": (c_bool, [c_void_p, POINTER(Message), c_size_t, POINTER(ChatOptions), c_void_p, c_size_t,
                           POINTER(c_size_t), POINTER(Error)]),
    "attn_token_text": (c_void_p, [c_void_p, c_int32, POINTER(c_size_t)]),
    "attn_token_bos": (c_int32, [c_void_p]),
    "attn_token_is_end": (c_bool, [c_void_p, c_int32]),
    "attn_site_name": (c_char_p, [c_int]),
    "attn_copy": (None, [c_void_p, c_void_p]),
    "attn_session_new": (c_void_p, [c_void_p, POINTER(SessionOptions), POINTER(Error)]),
    "attn_session_free": (None, [c_void_p]),
    "attn_session_fork": (c_void_p, [c_void_p, POINTER(SessionOptions), POINTER(Error)]),
    "attn_session_bytes": (c_size_t, [c_void_p]),
    "attn_session_save": (c_bool, [c_void_p, MOVE, c_void_p, POINTER(Error)]),
    "attn_session_restore": (c_bool, [c_void_p, MOVE, c_void_p, POINTER(Error)]),
    "attn_session_tokens": (POINTER(c_int32), [c_void_p, POINTER(c_size_t)]),
    "attn_session_n_ctx": (c_size_t, [c_void_p]),
    "attn_rewind": (None, [c_void_p, c_size_t]),
    "attn_feed": (c_bool, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, POINTER(Error)]),
    "attn_feed_many": (c_bool, [POINTER(Part), c_size_t, POINTER(Error)]),
    "attn_sync": (c_bool, [c_void_p, c_void_p, c_size_t, c_void_p, POINTER(Error)]),
    "attn_hidden": (c_bool, [c_void_p, c_void_p, c_size_t, c_void_p, POINTER(Error)]),
    "attn_unembed": (c_bool, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "attn_gradient": (c_bool, [c_void_p, c_void_p, c_size_t, POINTER(Term), c_size_t, POINTER(GradientProbe),
                               POINTER(c_double), POINTER(Error)]),
    "attn_sampling": (c_bool, [c_void_p, POINTER(Sampling), POINTER(Error)]),
    "attn_sampler_new": (c_void_p, [c_void_p, POINTER(Sampling), POINTER(Error)]),
    "attn_sampler_free": (None, [c_void_p]),
    "attn_sample": (c_int32, [c_void_p, c_void_p]),
    "attn_sampler_accept": (None, [c_void_p, c_int32]),
}


def _load() -> Any:
    path = find("ATTN_LIBRARY", "libattn.so", "build/libattn.so")
    try:
        opened = ctypes.CDLL(path)  # which gives up the interpreter's lock while the engine works
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(opened, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise AttnError(f"{path}: is no libattn.so that this package can use: {error}") from None
    version = opened.attn_version().decode()
    if version.rsplit(".", 1)[0] != ABI:
        raise AttnError(f"{path}: is attn {version}, but this package is written for attn {ABI}")
    return opened


library = _load()


def check(ok: Any, error: Error) -> Any:
    """Returns what a function returned, unless it is NULL or false: then the library's line is raised."""
    if not ok:
        raise AttnError(error.message.decode("utf-8", "replace"))
    return ok
