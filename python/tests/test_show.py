"""What a notebook is given: well-formed, all of it text, and the numbers that it says."""
from xml.etree import ElementTree

import numpy as np

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
