"""Output in a notebook: well-formed, all of it text, and the numbers that it says."""
import html
import os
import re
import tempfile
from xml.etree import ElementTree

import numpy as np

import attn
from common import fails, model


def test_a_layer_s_heads_are_pictures_of_their_weights():
    text = '<b>&"a\u202e\n'
    _, cache = model().run_with_cache(text)
    heads = cache.heads(-1)
    assert repr(heads) == f"<attn.Heads of layer 1: 2 heads, {len(cache.tokens)} tokens>" and heads.pattern is cache["pattern", 1]
    root = ElementTree.fromstring(heads._repr_html_())
    pictures = root.findall(".//svg")
    assert [caption.text for caption in root.iter("figcaption")] == ["L1H0", "L1H1"] and len(pictures) == 2
    assert not root.findall(".//b") and not root.findall(".//script")
    for head, picture in enumerate(pictures):
        drawn = {(int(rect.get("y")), int(rect.get("x"))): float(rect.get("fill-opacity")) for rect in picture.iter("rect")}
        weights = cache["pattern", 1][head]
        assert set(drawn) == set(map(tuple, np.argwhere(weights >= 0.02))) and len(drawn) >= len(cache.tokens)
        assert all(abs(weights[place] - opacity) < 0.006 for place, opacity in drawn.items())
    said = [title.text for title in root.iter("title")]
    assert any("“<” looks at 0 “<”: 1.000" in line for line in said)
    assert any("“\\n”" in line for line in said) and all(line.isprintable() for line in said)
    with fails(KeyError, "not kept"):
        model().run_with_cache(text, "hook_embed")[1].heads(0)


def test_a_cache_is_a_table():
    _, cache = model().run_with_cache("abc", ["hook_embed", "blocks.0.attn.hook_q"])
    rows = [[cell.text for cell in row] for row in ElementTree.fromstring(cache._repr_html_()).iter("tr")]
    assert rows == [["hook", "shape", "bytes"], ["hook_embed", "3 × 40", "480"], ["blocks.0.attn.hook_q", "3 × 2 × 20", "480"]]


def cells(root):
    """Numbers in the cells of grids: {(row, column): number}."""
    said = (re.fullmatch("(.*), (.*): (.*)", title.text) for title in root.iter("title"))
    return {(each[1], each[2]): float(each[3]) for each in said}


def test_a_grid_says_its_numbers():
    grid = attn.Grid([[1, -2.5, np.nan], [0, np.inf, 0.123456]], columns=["a", "<b>", "\u202e"])
    assert repr(grid) == "<attn.Grid of 2 × 3, -2.5 … 1>"
    root = ElementTree.fromstring(grid._repr_html_())
    assert cells(root) == {("L0", "a"): 1, ("L0", "<b>"): -2.5, ("L1", "a"): 0, ("L1", "\\u202e"): 0.1235}
    strength = {rect.find("title").text: (rect.get("fill"), float(rect.get("fill-opacity"))) for rect in root.iter("rect")}
    assert strength["L0, a: 1"] == ("#1d3f9c", 0.4) and strength["L0, <b>: -2.5"] == ("#b3261e", 1.0)
    assert [text.text for text in root.iter("text")] == ["L0", "L1", "a", "<b>", "\\u202e"]
    ElementTree.fromstring(attn.Grid(np.zeros((0, 0)))._repr_html_())
    for wrong in (lambda: attn.Grid([1, 2]), lambda: attn.Grid([[1, 2]], rows=["a", "b"])):
        with fails(ValueError, "numbers are"):
            wrong()


def test_a_view_is_grids_and_tables():
    text = "<b>&\u202e the cat"
    view = model().patch(text, text.replace("cat", "rat"), "x", what="z")
    root = ElementTree.fromstring(view._repr_html_())
    wanted = {(f"L{cell['layer']}", str(cell["head"])): float(f"{cell['effect']:.4g}") for cell in view["cells"]}
    assert cells(root) == wanted and len(wanted) == 4 and not root.findall(".//table")
    assert "<attn.View patch: what, " in repr(view) and len(repr(view)) < 300
    root = ElementTree.fromstring(model().patch(text, text.replace("cat", "rat"), "x", what="resid_pre")._repr_html_())
    assert {column for _, column in cells(root)} == {f"{at} {token}" for at, token in enumerate(model().to_str_tokens(text))}
    assert not root.findall(".//b/b") and len(root.findall(".//b")) == 1

    view = model().study("next", text, top=3)
    table = ElementTree.fromstring(view._repr_html_()).find(".//table")
    rows = [[cell.text for cell in row] for row in table.iter("tr")]
    assert rows[0][:3] == ["token", "rank", "probability"] and len(rows) == 4
    assert [float(row[2]) for row in rows[1:]] == [float(f"{top['probability']:.4g}") for top in view["top"]]

    view = model().attribute(text, "x", corrupted=text.replace("cat", "rat"), by="gradient")
    root = ElementTree.fromstring(view._repr_html_())
    shares = [abs(float(row[4].text)) for row in root.find(".//table/tbody")]
    assert len(view["nodes"]) > len(shares) == 50 and shares == sorted(shares, reverse=True)
    assert any(f"… and {len(view['nodes']) - 50} more" == line.text for line in root.iter("p"))

    pictures = ElementTree.fromstring(model().study("attend", text, layer=1)._repr_html_())
    heads = ElementTree.fromstring(model().run_with_cache(text)[1].heads(1)._repr_html_())
    assert [each.text for each in pictures.iter("title")] == [each.text for each in heads.iter("title")]


def test_every_view_can_show_itself():
    for view, options in (("tokens", {}), ("score", {"words": True}), ("lens", {}), ("explain", {"layer": 1, "head": 1}),
                          ("heads", {}), ("attend", {"layer": 0, "words": True}), ("attend", {"layer": 0, "head": 0, "query": 3}),
                          ("attend", {"reduce": "mean"}), ("ablate", {"sweep": "mlps"}), ("neurons", {}), ("rollout", {}),
                          ("steer", {"plus": "a", "minus": "b", "layers": [1]}), ("circuit", {"composition": "k"}),
                          ("circuit", {"head": "L0H1"}), ("shape", {}), ("selfcheck", {}),
                          ("attribute", {"answer": "x", "neurons": 1})):
        text = None if view in ("circuit", "shape", "selfcheck") else "the cat sat"
        ElementTree.fromstring(model().study(view, text, **options)._repr_html_())


def test_the_page_lies_in_a_frame():
    text = '"><script>alert(1)</script>'
    page = attn.page(model(), text, n=2, height=300)
    assert page.html.startswith("<!doctype html>") and "</script>alert" not in page.html
    frame = re.fullmatch(r'<iframe title="([^"]*)" sandbox="([^"]*)" style="([^"]*)" srcdoc="([^"]*)"></iframe>', page._repr_html_())
    assert frame and html.unescape(frame[4]) == page.html and "same-origin" not in frame[2] and "height:300px" in frame[3]
    assert html.unescape(frame[1]) == repr(text) and repr(page).startswith(f"<attn.Page of {text!r}, 0.")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.html")
        page.save(path)
        with open(path, encoding="utf-8", newline="") as file:
            assert file.read() == page.html
        assert model().study("view", text, output=path, n=2)["file"] == path
        with open(path, encoding="utf-8") as file:
            assert file.read().replace(path, "page.html") == page.html
    assert "WebAssembly" in attn.page(model(), "ab", live=True).html
    assert repr(attn.page(model(), [1, 2, 3])).startswith("<attn.Page of '3 tokens', ")
    with fails(attn.AttnError, "empty"):
        attn.page(model(), "")
