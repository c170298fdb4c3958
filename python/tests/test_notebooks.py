"""
The notebooks of examples/notebooks: their code, cell by cell, says what is stored in them. What stands there is text alone;
pictures come when they are run.

    python3 python/tests/test_notebooks.py     stores what they say now
"""
import ast
import contextlib
import io
import json
import os
import re
import sys

from common import SANITIZED, TREE

NOTEBOOKS = sorted((TREE / "examples/notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"[-+]?\d+\.\d+")


def said(code, names):
    """Output of a cell, and the repr of its last expression, as a notebook stores them."""
    lines = ast.parse(code)
    last = lines.body.pop() if lines.body and isinstance(lines.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(lines, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        getattr(value, "_repr_html_", str)()
        outputs.append({"data": {"text/plain": [repr(value)]}, "execution_count": None, "metadata": {},
                        "output_type": "execute_result"})
    return outputs


def run(path):
    """The notebook with what its cells say."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names, before = {}, os.getcwd()
    os.chdir(path.parent)
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = said("".join(cell["source"]), names)
    finally:
        os.chdir(before)
    return notebook


def is_said(got, stored):
    """The same words, and the same numbers to two in the last digit that is printed: kernels round differently."""
    if NUMBER.sub("#", got) != NUMBER.sub("#", stored):
        return False
    pairs = zip(NUMBER.findall(got), NUMBER.findall(stored))
    return all(abs(float(a) - float(b)) < 2.5 * 10.0 ** -len(b.split(".")[1]) for a, b in pairs)


def test_the_notebooks_say_what_is_stored():
    if SANITIZED:  # the same calls stand in other tests; this would take minutes
        return
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        stored = json.loads(path.read_text(encoding="utf-8"))
        for cell, again in zip(stored["cells"], run(path)["cells"]):
            got, wanted = (json.dumps(each.get("outputs"), indent=1, ensure_ascii=False) for each in (again, cell))
            assert is_said(got, wanted), f"{path.name}, {cell['id']} says {got}"
        assert path.stat().st_size < 20000


if __name__ == "__main__":
    for each in map(str, sys.argv[1:] or NOTEBOOKS):
        path = TREE / each
        path.write_text(json.dumps(run(path), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
