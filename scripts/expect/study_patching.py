"""The view patch: one activation of a run put into another, or one edge between two parts of it. Every cell is a run of its
own, of the whole text, with a hook (docs/STUDY.md).
"""
import json

import numpy as np

from study_cases import TEXTS
from study_runs import Run, Unsure, encode, vocabulary_of

LEAST = 0.5  # by which the metric of the two runs must differ, for effects are divided by it


class Pair:
    """The runs and ids of one pair; `base` is changed, `source` is what is put there."""

    def __init__(self, options, clean, corrupted, answer, wrong):
        self.options, self.answer, self.wrong = options, answer, wrong
        self.clean, self.corrupted = Run(options.model, clean), Run(options.model, corrupted)
        self.base, self.source = (self.clean, self.corrupted) if options.noising else (self.corrupted, self.clean)
        self.kind = options.metric or ("logit_diff" if wrong is not None else "logprob")
        if abs(self.metric(self.clean) - self.metric(self.corrupted)) < LEAST:
            raise Unsure(f"both texts have the metric {self.metric(self.clean)}")

    def metric(self, run):
        logits = run.logits[-1]
        if self.kind == "logprob":
            return float(run.logp[-1][self.answer])
        return float(logits[self.answer] - (logits[self.wrong] if self.kind == "logit_diff" else 0))

    def run(self, edit):
        return Run(self.options.model, self.base.ids, edit)


def cells_of(options, pair):
    """(cell, what its hook puts where): all layers, then heads, then positions."""
    run, c = pair.base, pair.base.config
    what = options.what or "resid_pre"
    site = {"resid": "resid_pre", "head-pos": "z", "neurons": "mlp_post"}.get(what, what)
    if what == "neurons":
        for neuron in range(run.site(site, options.layer).shape[1]):
            yield {"layer": options.layer, "neuron": neuron}, site, options.layer, neuron, None
        return
    with_heads = site not in ("resid_pre", "attn_out", "mlp_out")
    positions = range(len(run.ids)) if not with_heads or what == "head-pos" else [None]
    for layer in range(c.n_layer):
        if options.layer not in (None, layer) or (with_heads and layer not in run.layers_with_heads()):
            continue
        for head in range(len(run.site(site, layer))) if with_heads else [None]:
            for position in positions:
                cell = {"layer": layer, **({"head": head} if with_heads else {}),
                        **({} if position is None else {"position": position})}
                yield cell, site, layer, head, position


def patched(pair, site, layer, head, position):
    def edit(at_site, at_layer, x):
        if pair.options.freeze and at_site == pair.options.freeze:
            x = pair.base.site(at_site, at_layer)
        if (at_site, at_layer) != (site, layer):
            return x
        x, source = x.clone(), pair.source.site(site, layer)
        rows = slice(None) if position is None else position
        at = rows if head is None else (rows, head) if site == "mlp_post" else (head, rows)
        x[at] = source[at]
        return x
    return pair.metric(pair.run(edit))


def parse_end(text):
    """(site, layer, head)"""
    if text == "final":
        return "final", None, None
    layer, *rest = text[1:].split("MLP") if "MLP" in text else text[1:].split("H")
    if "MLP" in text:
        return "mlp_out", int(layer), None
    head, *site = rest[0].split(".")
    return (site or ["z"])[0], int(layer), int(head)


def sent(pair, site, layer, head):
    """The sender's output in the source, less that in the base."""
    difference = pair.source.site(site, layer) - pair.base.site(site, layer)
    if head is None:
        return difference
    if pair.base.config.norms == "before":
        return difference[head] @ pair.base.output_weight(layer, head).T

    def edit(at_site, at_layer, x):  # a norm behind it divides all heads' output together
        if (at_site, at_layer) == (site, layer):
            x = x.clone()
            x[head] = pair.source.site(site, layer)[head]
        return x
    return pair.run(edit).site("attn_out", layer) - pair.base.site("attn_out", layer)


def along(pair, edge):
    sender, receiver = map(parse_end, edge.split(":"))
    delta, (site, layer, head), c = sent(pair, *sender), receiver, pair.base.config
    read = ("resid_post", c.n_layer - 1) if site == "final" else (
        "resid_mid" if site == "mlp_out" and not c.parallel_residual else "resid_pre", layer)
    read_too = pair.run(lambda *at: at[2] + delta if at[:2] == read else at[2])
    if site == "final":
        return pair.metric(read_too)
    received = read_too.site(site, layer)

    def edit(at_site, at_layer, x):
        if (at_site, at_layer) == (site, layer):
            x = x.clone()
            x[... if head is None else head] = received[... if head is None else head]
        return x
    return pair.metric(pair.run(edit))


def token_of(vocabulary, text):
    return None if text is None else int(text[1:]) if text.startswith("#") else vocabulary.encode(text)[-1]


def pairs_of(options):
    vocabulary = vocabulary_of(options.model)
    if not options.pairs:
        ids = [encode(options, vocabulary, text)[0] for text in (options.prompt, options.corrupted)]
        yield *ids, token_of(vocabulary, options.answer), token_of(vocabulary, options.wrong)
        return
    for line in TEXTS[options.pairs].splitlines():
        pair = json.loads(line) if line.strip() else None
        if pair:
            ids = [encode(options, vocabulary, pair[key])[0] for key in ("clean", "corrupted")]
            follows = [encode(options, vocabulary, pair["clean"] + pair[key])[0][len(ids[0])] for key in ("answer", "wrong")]
            yield *ids, *follows


def mean_of(values):
    return float(np.mean(values))


def error_of(values):
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def view_patch(options):
    pairs = [Pair(options, *pair) for pair in pairs_of(options) if len(pair[0]) == len(pair[1])]
    clean, corrupted = (np.array([pair.metric(getattr(pair, name)) for pair in pairs]) for name in ("clean", "corrupted"))
    whole = clean - corrupted

    def effects(values):
        moved = np.array(values) - corrupted
        effect = moved.sum() / whole.sum()
        numbers = {"effect": effect, "value_nats": mean_of(values)}
        if options.pairs:
            numbers["effect_error"] = error_of(moved - effect * whole) / abs(whole.mean())
            numbers["value_error_nats"] = error_of(values)
        return numbers

    result = {"direction": "noising" if options.noising else "denoising", "metric": pairs[0].kind, "n_pairs": len(pairs),
              "clean_nats": clean.mean(), "corrupted_nats": corrupted.mean()}
    if options.path:
        edges = options.path.split(",")
        return {**result, "what": "path",
                "paths": [{"path": edge, **effects([along(pair, edge) for pair in pairs])} for edge in edges]}
    cells = [[(cell, patched(pair, *at)) for cell, *at in cells_of(options, pair)] for pair in pairs]
    return {**result, "cells": [{**each[0][0], **effects([value for _, value in each])} for each in zip(*cells)]}
