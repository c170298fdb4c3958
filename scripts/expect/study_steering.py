"""The view of what changes when a direction is added to the residual stream, or taken out of it: steer. It takes the parsed
options and gives the keys that are its own (docs/STUDY.md).
"""
import numpy as np
import torch

from study_ablations import change
from study_cases import CONTROLS, TEXTS
from study_neurons import column
from study_runs import Run, encode, prompt_run, top, vocabulary_of


def chosen(text, n):
    """Of a list such as 0,3-5."""
    spans = [[int(i) for i in part.split("-")] for part in text.split(",")]
    return {i for span in spans for i in range(span[0], span[-1] + 1) if i < n}


def mean_of(options, text, path, site, layer):
    """Over texts, of the site's mean over positions but a BOS, or at the last one."""
    means = []
    for line in [text] if text else TEXTS[path].split("\n"):
        if line:
            ids, bos = encode(options, vocabulary_of(options.model), line)
            x = Run(options.model, ids).site(site, layer)
            means.append(x[-1] if options.average == "last" else x[bos:].mean(0))
    return torch.stack(means).mean(0)


def directions(options, run, site, layers):
    """{layer: direction}"""
    if options.plus or options.plus_file:
        found = {l: mean_of(options, options.plus, options.plus_file, site, l) -
                 mean_of(options, options.minus, options.minus_file, site, l) for l in layers}
    elif options.neuron:
        layer, neuron = map(int, options.neuron[1:].split("N"))
        found = {l: column(run, layer, neuron) for l in layers}
    elif options.token:
        found = {l: run.unembedding()[int(options.token[1:])] for l in layers}
    else:
        rows = torch.tensor(control(options.direction)).double()
        found = {l: rows if rows.ndim == 1 else rows[l] for l in layers}
    return {l: d / d.norm() if options.unit else d for l, d in found.items()}


def control(name):
    """[n_layer][d_model] or [d_model], of float32, which study_reference.py writes to a file."""
    return np.random.default_rng(CONTROLS[name][1]).standard_normal(CONTROLS[name][0]).astype("f4") * np.float32(0.5)


def default_layers(options, n_layer):
    if options.direction and len(CONTROLS[options.direction][0]) == 2:
        return range(1 if options.direction.endswith(".gguf") else 0, n_layer)
    if options.sweep_on:
        return range(n_layer)
    return [int(options.neuron[1:].split("N")[0]) if options.neuron else n_layer // 2]


def is_steered(options, i, n_prompt):
    """Whether a position is: of those of the prompt, and what follows counts where all do."""
    at = options.positions or "all"
    return at == "all" or (i == n_prompt - 1 if at == "last" else i in chosen(at, n_prompt))


def steered(options, ids, n_prompt, site, found, strength):
    """The run with these directions."""
    def edit(now, layer, x):
        if now != site or layer not in found:
            return x
        u, here = found[layer], torch.tensor([is_steered(options, i, n_prompt) for i in range(len(x))])
        move = -(x @ u)[:, None] * u / (u @ u) if options.project else u
        return x + here[:, None] * strength * move
    return Run(options.model, ids, edit)


def written(options, ids, site, found, strength):
    """Greedily, n tokens behind the text."""
    n, run = len(ids), None
    for _ in range(options.n):
        run = steered(options, ids, n, site, found, strength)
        ids = ids + top(run.logits[-1], 1)
    return run.vocabulary.text(ids[n:])


def view_steer(options):
    run = prompt_run(options)
    n_layer, ids = run.config.n_layer, run.ids
    site = options.site or ("resid_post" if options.neuron or options.direction else "resid_pre")
    layers = sorted(chosen(options.layers, n_layer)) if options.layers else default_layers(options, n_layer)
    found = directions(options, run, site, layers)
    sources = {"texts": options.plus or options.plus_file, "neuron": options.neuron, "token": options.token,
               "file": options.direction}
    result = {"source": [name for name, given in sources.items() if given][0], "site": site,
              "positions": options.positions or "all", "project": options.project, "unit": options.unit}
    if options.sweep_on:
        def metric(run):
            return {"probability": run.logp[-1][int(options.answer[1:])].exp()} if options.answer else {"nll_nats": run.nll().mean()}
        return {**result, "layers": [{"layer": l, "direction": found[l].norm()} for l in layers], "baseline": metric(run),
                "cells": [{"layer": l, "strength": s, **metric(steered(options, ids, len(ids), site, {l: found[l]}, s))}
                          for l in layers for s in map(float, options.strengths.split(","))]}
    after, bos = steered(options, ids, len(ids), site, found, options.strength), encode(options, run.vocabulary, "")[1]
    meant = [i for i in range(len(ids)) if is_steered(options, i, len(ids))]
    meant = [i for i in meant if i >= bos] or meant  # a BOS, unless it alone is steered
    p, q = run.logp[-1].exp(), after.logp[-1].exp()
    order = top(q, options.top) + [i for i in top(p, options.top) if i not in top(q, options.top)]
    def pair(id):
        return {**run.vocabulary.token(id), "baseline": p[id], "steered": q[id]}
    def text(found):
        return {"text": written(options, ids, site, found, options.strength)} if options.n else {}
    return {**result, "strength": options.strength,
            "layers": [{"layer": l, "direction": found[l].norm(), "stream": run.site(site, l)[meant].norm(dim=-1).mean()}
                       for l in layers],
            "baseline": {"n": len(ids) - 1, "nll_nats": run.nll().mean(), **text({})},
            "steered": {"nll_nats": after.nll().mean(), **change(run, after), **text(found)},
            "next": [pair(id) for id in order], **({"answer": pair(int(options.answer[1:]))} if options.answer else {})}
