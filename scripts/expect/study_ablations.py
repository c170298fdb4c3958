"""The views of what changes when parts of a model are switched off, or the model is another: ablate, view, compare. Each takes
the parsed options and gives the keys that are its own (docs/STUDY.md).
"""
import numpy as np
import torch

from study_cases import TEXTS
from study_heads import head_scores, label, mean_scores, view_explain
from study_runs import Run, encode, entropy, kl, prompt_run, rank, top


def replacements(options, run):
    """{(site, layer, head): what stands in for it}, for every head and MLP of the model."""
    reference, by, c = run, options.by or "zero", run.config
    if options.with_file:
        ids = encode(options, run.vocabulary, TEXTS[options.with_file])[0]
        assert by != "resample" or len(ids) == len(run.ids), (len(ids), len(run.ids))
        reference = Run(options.model, ids)
    values = {}
    for layer, head in run.heads():
        z = reference.site("z", layer)[head]
        zero = torch.zeros(c.d_head).double() if options.hard_zero else run.value_bias(layer, head)
        values["z", layer, head] = {"zero": zero, "mean": z.mean(0), "resample": z}[by]
    for layer in range(c.n_layer):
        out = reference.site("mlp_out", layer)
        values["mlp_out", layer, None] = {"zero": out.mean(0) * 0, "mean": out.mean(0), "resample": out}[by]
    return values


def ablated_run(options, run, values, parts, factors=None):
    def edit(site, layer, x):
        for (part_site, part_layer, head), factor in zip(parts, factors or [0] * len(parts)):
            if (site, layer) == (part_site, part_layer):
                x, at = x.clone(), ... if head is None else head
                x[at] = factor * x[at] + (1 - factor) * values[part_site, part_layer, head]
        return x
    return Run(options.model, run.ids, edit)


def change(run, ablated):
    before, after = ([top(row, 1)[0] for row in r.logits] for r in (run, ablated))
    return {"delta_nll_nats": ablated.nll().mean() - run.nll().mean(), "kl_nats": kl(run.logp, ablated.logp).mean(),
            "top1_changed": np.mean([a != b for a, b in zip(before, after)])}


def view_ablate(options):
    run = prompt_run(options)
    values = replacements(options, run)
    result = {"by": options.by or "zero", "baseline": {"n": len(run.ids) - 1, "nll_nats": run.nll().mean()}}
    if options.sweep:
        cells = []
        for site, layer, head in values:
            if site == {"heads": "z", "mlps": "mlp_out"}[options.sweep]:
                cell = change(run, ablated_run(options, run, values, [(site, layer, head)]))
                cells.append({"layer": layer, **({} if head is None else {"head": head}), **cell})
        return {**result, "sweep": options.sweep, "cells": cells}
    heads = []
    for name in (options.heads or "").split(",") if options.heads else []:
        layer, *one = map(int, name[1:].split("H"))
        heads += [(layer, head) for head in one or range(run.config.n_head)]
    mlps = [int(layer) for layer in (options.mlps or "").split(",") if layer]
    ablated = ablated_run(options, run, values, [("z", *head) for head in heads] + [("mlp_out", l, None) for l in mlps])
    return {**result, "ablated": [f"L{l}H{h}" for l, h in heads] + [f"L{l}MLP" for l in mlps],
            "ablation": {"nll_nats": ablated.nll().mean(), **change(run, ablated)}}


def view_view(options):
    """The page's numbers of the model with --ablate; "unpacked" is what stands there as base64."""
    run = prompt_run(options)
    names, factors = zip(*((name, float(factor or 0)) for name, _, factor in
                           (part.partition("=") for part in options.ablate.split(","))))
    parts = []
    for name in names:
        layer, head = name[1:].split("MLP" if name.endswith("MLP") else "H")
        parts.append(("z", int(layer), int(head)) if head else ("mlp_out", int(layer), None))
    changed = ablated_run(options, run, replacements(options, run), parts, factors)
    n, c, q = len(run.ids), run.config, len(run.ids) - 1
    layers = changed.layers_with_heads()
    streams = [changed.site("resid_pre", layer) for layer in range(c.n_layer)] + [changed.site("resid_post", c.n_layer - 1)]
    lens = []
    for position in range(n):
        final = top(changed.logp[position], 1)[0]
        rows = [changed.unembed(x[position]) for x in streams]
        lens.append({"final": final, "rows": [
            [row.softmax(-1)[final], rank(row, final)] + [y for i in top(row, 5) for y in (i, row.softmax(-1)[i])]
            for row in rows]})
    scores = [mean_scores([head_scores(changed.site("pattern", layer)[head], run.ids, None, None, c.windows[layer])])
              for layer, head in changed.heads()]
    columns = ["entropy_nats", "entropy_share", "confidence", "sink", "self", "prev", "dup", "ind", "tl_diag", "tl_mul",
               "tl_abs", "distance"]
    triangle = torch.tril_indices(n, n).tolist()
    lengths = {name: [changed.site(name + "_out", layer).norm(dim=-1) for layer in range(c.n_layer)] for name in ("attn", "mlp")}

    def moved(site, layer, head):
        x = changed.site(site, layer)[changed.kv_head(head) if site == "v" else head]
        return (x @ changed.output_weight(layer, head).T).norm(dim=-1)

    def written(layer, head):
        if not changed.site("z", layer)[head][q].any():
            return {"output_norm": 0}  # it moves no token, all of them alike
        one = view_explain(options, changed, layer, head)
        return {"output_norm": one["output_norm"],
                **{side: [y for token in one[side] for y in (token["id"], token["effect"])] for side in ("raised", "lowered")}}

    return {
        "ablation": {
            "heads": names, "factors": factors,
            "positions": [None] + [{"surprisal_nats": -changed.logp[i, id], "rank": rank(changed.logits[i], id),
                                    "entropy_nats": entropy(changed.logp[i].exp())} for i, id in enumerate(run.ids[1:])],
            "next": [{"entropy_nats": entropy(logp.exp())} for logp in changed.logp],
            "lens": {"rows": [f"{layer}_pre" for layer in range(c.n_layer)] + ["final_post"], "positions": lens},
            "text": {"columns": columns, "rows": [[score[column] for column in columns] for score in scores],
                     "labels": [label(score) for score in scores]},
            "explained": {"query": q, "heads": [[written(layer, head) for head in range(c.n_head)] for layer in layers]},
        },
        "unpacked": {
            "patterns": [[None if layer <= min(l for _, l, _ in parts) else changed.site("pattern", layer)[head][triangle]
                          for head in range(c.n_head)] for layer in layers],
            "scores": [[changed.site("scores", layer)[head][triangle] for head in range(c.n_head)] for layer in layers],
            "value_norms": [[v.norm(dim=-1) for v in changed.site("v", layer)] for layer in layers],
            "output_norms": [[moved("v", layer, head) for head in range(c.n_head)] for layer in layers],
            "resid": [x.norm(dim=-1) for x in streams], **lengths,
            "heads": [[moved("z", layer, head) for head in range(c.n_head)] for layer in layers],
        },
    }


def view_compare(options):
    a, b = prompt_run(options), prompt_run(options, options.other)
    n, layers = len(a.ids), []
    for layer in range(a.config.n_layer):
        difference = (b.site("pattern", layer) - a.site("pattern", layer)).abs()
        mean = difference.sum() / (a.config.n_head * n * (n + 1) / 2)
        layers.append({"layer": layer, "largest": difference.max(), "mean": mean})
    nll_a, nll_b = a.nll().mean(), b.nll().mean()
    return {"n": n - 1, "a_nll_nats": nll_a, "b_nll_nats": nll_b, "delta_nll_nats": nll_b - nll_a,
            "kl_nats": kl(a.logp, b.logp).mean(), "top1_agreement": 1 - change(a, b)["top1_changed"],
            "layers": layers}
