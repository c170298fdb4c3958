"""For all tests: models of the tree, and how something is expected to fail."""
import contextlib
import functools
import os
import pathlib
import re

import attn

TREE = pathlib.Path(__file__).resolve().parents[2]
DATA = TREE / "tests/data"
DEFAULT = TREE / "weights/model.gguf"
LETTERS = str(DATA / "study/letters.gguf")  # the vocabulary of models that have none
LONG = bool(os.environ.get("ATTN_LONG_TESTS"))
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")  # memory and time are then others


def reference(name):
    return DATA / f"reference/{name}.gguf"


REFERENCES = sorted(path.stem for path in (DATA / "reference").glob("*.gguf") if ".expected" not in path.name)


def opened(name):
    """A reference checkpoint, with the vocabulary of LETTERS where it has none."""
    loaded = attn.load(reference(name))
    try:
        loaded.to_tokens("a")
        return loaded
    except attn.AttnError:
        return attn.load(reference(name), tokenizer=LETTERS)


@functools.lru_cache(maxsize=None)
def model(name="gpt2-f32"):
    """gpt2-f32: 2 layers of 2 heads, a token for each byte and <|endoftext|>, 192 positions."""
    return attn.load(reference(name))


@contextlib.contextmanager
def fails(kind, words):
    """The block raises this, with a line in which the words stand."""
    try:
        yield
    except kind as error:
        text = str(error)
        assert re.search(words, text), f"{words!r} is not in {text!r}"
        assert "\n" not in text.strip(), text
    else:
        raise AssertionError(f"no {kind.__name__} with {words!r}")
