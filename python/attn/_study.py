"""The views: the program `study`, asked for its JSON. It lies in the package, for libattn.so has no views."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from typing import Any, Dict, List, Union

import numpy as np
from numpy.typing import NDArray

from ._library import AttnError, find
from ._show import View


def _words(options: Dict[str, Any]) -> List[bytes]:
    """As UTF-8, whatever the locale; paths as the system has them."""
    words: List[Union[str, bytes]] = []
    for name, value in options.items():
        option = ("--" if len(name) > 1 else "-") + name.replace("_", "-")
        if isinstance(value, (range, np.ndarray)) and np.ndim(value) > 0:
            value = list(value)
        if value is None or isinstance(value, (bool, np.bool_)):
            words += [option] if value else []
        elif isinstance(value, (list, tuple)):
            if len(value) == 0:
                raise ValueError(f"{name} is empty")
            if any(isinstance(each, str) for each in value) and not all(isinstance(each, str) for each in value):
                raise TypeError(f"{name} has texts and others: {value!r}")
            for each in value if isinstance(value[0], str) else [",".join(map(str, value))]:
                words += [option, each]
        else:
            words += [option, os.fsencode(value) if isinstance(value, os.PathLike) else str(value)]
    return [word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape") for word in words]


def _arrays(value: Any) -> Any:
    """
    JSON with an array where it has a list of numbers, or of such lists of one length, and so on: float64, or int64 if there
    is no fraction among them, nor in lists of other lengths beside them.
    """
    if isinstance(value, dict):
        return {key: _arrays(each) for key, each in value.items()}
    if not isinstance(value, list) or not value:
        return value
    if all(type(each) in (int, float) for each in value):
        return np.array(value)
    parts = [_arrays(each) for each in value]
    if not all(isinstance(part, np.ndarray) for part in parts):
        return parts
    dtype = np.result_type(*parts)
    return np.array(parts, dtype) if len({part.shape for part in parts}) == 1 else [part.astype(dtype) for part in parts]


def run(view: str, model: str, text: Union[None, str, NDArray[np.int32]], options: Dict[str, Any]) -> View:
    """
    The object that `study VIEW MODEL` prints with --json, with arrays where there are numbers; of a page that is written, its
    file. The text comes by stdin, so it may be long and begin with anything; ids are an argument, which may have 128 KiB.
    """
    if view == "case":
        raise ValueError("case is of a JSON file, and of no model: study case FILE.json")
    other = options.pop("other", None)
    file = options.get("output") if view == "view" else None
    program = find("ATTN_STUDY", "study", "study")
    command = [os.fsencode(word) for word in [program, view, model, *([] if other is None else [other]),
                                              *([] if file else ["--json"])]]
    given = b""
    if isinstance(text, str):
        command += [b"-f", b"-"]
        given = text.encode() + b"\r\n"  # the one end of line that is dropped, whatever the text ends with
    elif text is not None:
        command += [b"--ids", ",".join(map(str, text)).encode()]
    command += _words(options)
    try:
        ended = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.E2BIG:
            raise ValueError(f"study {view}: {max(map(len, command))} characters are more than an argument of a program may "
                             "have: ids and options are arguments, while a text (a str) may be of any length") from None
        raise AttnError(f"{program}: {error}") from None
    said = ended.stderr.decode("utf-8", "replace").strip()
    if ended.returncode != 0:
        raise AttnError(said.split("\n")[-1] or f"study {view}: ended with {ended.returncode}")
    if file:
        return View({"command": view, "model": model, "file": str(file)})
    try:
        return View(_arrays(json.loads(ended.stdout)))
    except ValueError:
        raise AttnError(f"study {view}: printed no JSON; is it a view?") from None
