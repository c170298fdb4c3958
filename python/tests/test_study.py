"""The views, by the program: their JSON as it stands, options in Python's words, errors as exceptions."""
import json
import os
import re
import subprocess
import sys
import tempfile
import typing
import zipfile
from pathlib import Path

import numpy as np

import attn
from attn import _library, _study
from common import LETTERS, LONG, REFERENCES, TREE, fails, model, opened, reference

GPT2 = str(reference("gpt2-f32"))
STUDY = _library.find("ATTN_STUDY", "study", "study")


def plain(value):
    """As json.loads gives it."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_words_are_utf8():
    """Whatever the locale: its own encoding would say other tokens."""
    words = _study._words({"answer": "ü", "layers": [1, 2], "p": True, "directions": Path("ü")})
    assert words == [b"--answer", b"\xc3\xbc", b"--layers", b"1,2", b"-p", b"--directions", os.fsencode("ü")]


def test_numbers_are_arrays():
    attend = model().study("attend", "the cat", layer=1, head=0)
    rows = attend["patterns"][0]["rows"]
    assert [row.shape for row in rows] == [(i + 1,) for i in range(7)] and {row.dtype for row in rows} == {np.dtype("f8")}
    _, cache = model().run_with_cache("the cat", "blocks.1.attn.hook_pattern")
    assert all(np.allclose(row, cache["pattern", 1][0, i, :i + 1], atol=1e-8) for i, row in enumerate(rows))
    grid = _study._arrays({"a": [[1, 2], [3, 4.5]], "b": [[1], [2]], "c": [[1], [2, 0.5]], "d": [], "e": [1, None], "f": ["x"],
                           "g": [True, False], "h": [{"i": [1, 2]}], "j": [[], [1]]})
    assert grid["a"].dtype == np.float64 and grid["a"].tolist() == [[1, 2], [3, 4.5]]
    assert grid["b"].dtype == np.int64 and grid["b"].shape == (2, 1) and grid["h"][0]["i"].tolist() == [1, 2]
    assert [each.dtype for each in grid["c"]] == [np.float64] * 2
    assert [grid[key] for key in "defg"] == [[], [1, None], ["x"], [True, False]] and grid["j"][0] == []


def test_every_view_is_what_the_program_prints():
    text = "the cat sat on the mat"
    for view, options, words in (
            ("tokens", {}, []), ("next", {"top": 3, "token": ["a", "b"]}, ["--top", "3", "--token", "a", "--token", "b"]),
            ("score", {}, []), ("attend", {"layer": 1, "head": 0}, ["--layer", "1", "--head", "0"]), ("heads", {}, []),
            ("lens", {}, []), ("explain", {"layer": 1, "head": 1, "query": 4}, ["--layer", "1", "--head", "1", "--query", "4"]),
            ("ablate", {"heads": "L0H1"}, ["--heads", "L0H1"]), ("attribute", {"answer": "x"}, ["--answer", "x"]),
            ("steer", {"plus": "a", "minus": "b", "layers": [1], "n": 3},
             ["--plus", "a", "--minus", "b", "--layers", "1", "-n", "3"]), ("neurons", {}, []), ("rollout", {}, [])):
        ended = subprocess.run([STUDY, view, GPT2, "-p", text, "--json", *words], stdout=subprocess.PIPE, check=True)
        assert plain(model().study(view, text, **options)) == json.loads(ended.stdout), view
    for name in REFERENCES if LONG else ():
        other = opened(name)
        words = [str(reference(name)), *(["-z", LETTERS] if other._tokenizer else []), "--ids", "1,2,3,2,1,4", "--json"]
        for view in ("next", "score", "attend", "heads", "lens"):
            ended = subprocess.run([STUDY, view, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if ended.returncode:
                with fails(attn.AttnError, re.escape(ended.stderr.decode().strip().split("\n")[-1])):
                    other.study(view, [1, 2, 3, 2, 1, 4])
            else:
                assert plain(other.study(view, [1, 2, 3, 2, 1, 4])) == json.loads(ended.stdout), (view, name)
    for view, options in (("circuit", {}), ("shape", {}), ("selfcheck", {}), ("compare", {"other": reference("gpt2-q8_0")})):
        given = text if view in ("compare", "selfcheck") else None
        assert model().study(view, given, **options)["command"] == view
    with tempfile.TemporaryDirectory() as folder:
        npz = os.path.join(folder, "x.npz")
        assert model().study("dump", "ab", output=npz, what="pattern", layers=[0, 1])["file"] == npz
        assert np.load(npz)["blocks.1.attn.hook_pattern"].shape == (2, 2, 2)


def test_the_usual_ones_have_names():
    assert model().attribute("the cat", "x")["command"] == "attribute"
    assert model().patch("the cat", "the rat", "x", what="z", noising=True)["direction"] == "noising"
    assert model().ablate("the cat", by="mean", sweep="heads")["sweep"] == "heads"
    assert model().steer("the cat", "a", "b", layers=[1])["command"] == "steer"


def test_hints_say_what_is_given_and_taken():
    for name in ("study", "patch", "attribute", "ablate", "steer"):
        assert typing.get_type_hints(getattr(attn.Model, name))["return"] is attn.View
    assert typing.get_type_hints(attn.load)["tokenizer"] == typing.Optional[typing.get_type_hints(attn.load)["path"]]


def test_errors_are_the_program_s_line():
    with fails(attn.AttnError, "^study: there is no command 'nxt'; did you mean next"):
        model().study("nxt", "a")
    with fails(attn.AttnError, "^study --help: printed no JSON"):
        model().study("--help")
    with fails(attn.AttnError, "^study: .*--no-such"):
        model().study("next", "a", no_such=3)
    with fails(attn.AttnError, "^study: .*empty"):
        model().study("next", "")
    with fails(attn.AttnError, "192"):
        model().study("attend", "a" * 300)


def test_options_of_the_model_go_where_they_are_taken():
    """Those of `load`, to every view that runs something; `shape` runs nothing, `case` has no model."""
    with attn.load(GPT2, tokenizer=reference("gpt2-f32"), n_threads=1) as loaded:
        for view in ("tokens", "score", "heads", "circuit", "shape"):
            assert loaded.study(view, None if view in ("heads", "circuit", "shape") else "the cat")["command"] == view
    for loaded in (model(), attn.load(GPT2, n_threads=1)):
        with fails(ValueError, "^case is of a JSON file"):
            loaded.study("case")


def test_texts_and_ids_as_they_are_given():
    for text in ("a\r", "a\r\r", "a\r\n", "a\n", "a\n\r", "a", "\r\n", "\n", "-p", "\r"):
        ids = [token["id"] for token in model().study("tokens", text)["tokens"]]
        assert ids == model().to_tokens(text).tolist(), (text, ids)
    assert model().study("score", np.full(40000, 65))["n_tokens"] == 40000
    for ids, options in ((np.full(50000, 65), {}), ([1], {"token": "a" * 140000})):
        with fails(ValueError, "study score: 1[0-9]{5} characters are more than .* a text .a str. may be of any length"):
            model().study("score", ids, **options)
    assert model().study("tokens", "a" * 150000)["n_tokens"] == 150000


def test_the_wheel_holds_all_that_it_needs():
    """As pip would have it built, with the library that is there; then it is used from an empty folder, with no tree about."""
    sys.path.insert(0, str(TREE / "python"))
    import backend
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(ATTN_LIBRARY=_library.find("ATTN_LIBRARY", "libattn.so", "build/libattn.so"), ATTN_STUDY=STUDY)
        name = backend.build_wheel(folder)
        assert name.startswith(f"attn-{attn.__version__}-py3-none-linux_")
        site = os.path.join(folder, "site")
        with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
            wheel.extractall(site)
            record = wheel.read(f"attn-{attn.__version__}.dist-info/RECORD").decode().split()
            assert {line.split(",")[0] for line in record} == set(wheel.namelist())
            assert wheel.getinfo("attn/study").external_attr >> 16 & 0o111
            assert "attn/py.typed" in wheel.namelist()
        os.chmod(os.path.join(site, "attn/study"), 0o755)  # as pip does
        code = ("import attn, sys; model = attn.load(sys.argv[1]); print(attn.__file__, len(model.run('the cat')),"
                " model.study('next', 'the cat')['command'])")
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ATTN_")}
        said = subprocess.run([sys.executable, "-c", code, GPT2], cwd=folder, env={**clean, "PYTHONPATH": site}, check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        assert said == f"{site}/attn/__init__.py 7 next\n", said
        none = subprocess.run([sys.executable, "-c", "import attn"], cwd=folder, capture_output=True, text=True,
                              env={**clean, "PYTHONPATH": site, "ATTN_LIBRARY": "/none.so"})
        assert none.returncode and "AttnError: /none.so: is no libattn.so" in none.stderr


def test_the_lines_of_the_documents_work():
    """In one go, from a folder where model.bin is the default model."""
    blocks, on = [], False
    for document in ("README.md", "docs/PYTHON.md"):
        for line in (TREE / document).read_text().split("\n"):
            if line.startswith("```"):
                on = line == "```python"
            elif on:
                blocks.append(line)
    assert len(blocks) > 25
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(TREE / "weights/model.gguf", os.path.join(folder, "model.bin"))
        subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(blocks)], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(TREE / "python")})


def test_the_example_finds_the_head_that_is_known():
    example = TREE / "examples/python/induction.py"
    for path, found, score in ((TREE / "tests/data/known/induction.gguf", "L1H0", 0.5), (TREE / "weights/model.gguf", "L", 0.1)):
        said = subprocess.run([sys.executable, example, path], stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": str(TREE / "python")}).stdout
        assert said.startswith(found) and float(said.split()[1]) > score, said
    ended = subprocess.run([sys.executable, example, "/none.gguf"], stderr=subprocess.PIPE, text=True,
                           env={**os.environ, "PYTHONPATH": str(TREE / "python")})
    assert ended.returncode == 1 and ended.stderr.startswith("/none.gguf: ") and ended.stderr.count("\n") == 1


def test_options_are_what_they_seem():
    loaded = model("gpt2-f32")
    ids = loaded.to_tokens("the cat")
    with fails(TypeError, "corrupted is a text"):
        loaded.patch(ids, ids, " a", " b")
    with fails(TypeError, "plus is a text"):
        loaded.steer("the cat", [1, 2], "a")
    assert loaded.attribute("the cat", 5)["answer"]["id"] == 5
    with fails(ValueError, "layers is empty"):
        loaded.study("attend", "the cat", layers=[])
    with fails(TypeError, "top has texts and others"):
        loaded.study("next", "the cat", top=["a", 5])
    assert "words" not in loaded.study("attend", "the cat", words=np.False_)
    chosen = [plain(loaded.steer("the cat", "a", "b", layers=layers, n=0)["layers"]) for layers in ([0, 1], range(2), np.arange(2))]
    assert chosen[0] == chosen[1] == chosen[2] and len(chosen[0]) == 2
    assert "<table" in loaded.study("tokens", "the cat")._repr_html_()


def test_caches_and_weights_are_compared_as_objects():
    loaded = model("gpt2-f32")
    first, second = (loaded.run_with_cache("the cat")[1] for _ in range(2))
    assert first == first and first != second and second in [first, second]
    assert loaded.weights != second


def test_saved_sessions_end_where_they_end():
    loaded = model("gpt2-f32")
    session, other = loaded.session(), loaded.session()
    session.feed([1, 2, 3])
    with fails(attn.AttnError, "4 bytes follow"):
        other.restore(session.save() + b"junk")
    assert len(other.tokens) == 0
