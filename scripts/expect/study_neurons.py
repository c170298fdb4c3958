"""Numbers of the view neurons: the hidden numbers of MLPs, and heads by the length of what they add."""
import re

import torch

from study_cases import TEXTS
from study_runs import Run, encode, prompt_run, top, vocabulary_of

BEFORE, AFTER = 24, 12  # tokens of an example around the strongest


def unit_values(run, options):
    """[n]: of a neuron its hidden number, of a head the length of its result."""
    layer, index = (int(number) for number in re.findall(r"\d+", options.neuron or options.head))
    if options.neuron:
        return run.site("mlp_post", layer)[:, index]
    return run.site("result", layer)[index].norm(dim=-1)


def column(run, layer, neuron):
    """Of W_down, with the gains of a norm behind the MLP, but not its division, and the residual scale."""
    matrix = run.model.weight(f"blk.{layer}.ffn_down.weight")
    if run.config.norms != "before":
        matrix = run.model.weight(f"blk.{layer}.post_ffw_norm.weight")[:, None] * matrix
    return matrix[:, neuron] * run.config.residual_scale


def behind_scale(run, layer, position):
    if run.config.norms == "before":
        return 1
    return run.model.scale(run.model.linear(f"blk.{layer}.ffn_down", run.site("mlp_post", layer)[position]))


def strongest(run, options):
    layers = range(run.config.n_layer) if options.layer is None else [options.layer]
    values = torch.stack([run.site("mlp_post", layer) for layer in layers])  # [layer][position][neuron]
    sizes, positions = values.abs().max(1)
    rows = []
    for place in top(sizes.flatten(), 20 if options.top is None else options.top):
        i, neuron = divmod(place, values.shape[2])
        position = int(positions[i, neuron])
        top(values[i, :, neuron].abs(), 1)
        value = values[i, position, neuron]
        rows.append({"layer": layers[i], "neuron": neuron, "value": value, "position": position,
                     **run.vocabulary.token(run.ids[position]),
                     "output_norm": (value * column(run, layers[i], neuron)).norm()})
    return {"neurons": rows}


def trace(run, options, layer, index):
    values = unit_values(run, options)
    at = top(values.abs(), 1)[0]
    result = {"values": [{"position": i, **run.vocabulary.token(id), "value": values[i]} for i, id in enumerate(run.ids)],
              "strongest": at}
    if options.head:
        return result
    output = values[at] * column(run, layer, index) / behind_scale(run, layer, at)
    centred = output - output.mean() if run.config.norm == "layer" else output
    effect = run.unembedding() @ (centred * run.final_gain() / run.final_scale(at)) * run.config.logit_scale
    effect = effect - effect.mean()
    n = 5 if options.top is None else options.top
    return {**result, "output_norm": output.norm(),
            "raised": [{**run.vocabulary.token(i), "effect": effect[i]} for i in top(effect, n)],
            "lowered": [{**run.vocabulary.token(i), "effect": effect[i]} for i in top(-effect, n)]}


def corpus(options):
    vocabulary, text = vocabulary_of(options.model), TEXTS[options.corpus]
    ids, bos = encode(options, vocabulary, text + "\n" * text.endswith("\n"))
    front, ids, width = ids[:bos], ids[bos:], options.c - bos
    all_values, windows = [], []
    for begin in range(0, len(ids), width):
        run = Run(options.model, front + ids[begin:begin + width])
        values = unit_values(run, options)[bos:]
        all_values.append(values)
        at = top(values.abs(), 1)[0] if len(values) > 1 else 0
        first, end = max(0, at - BEFORE), at + AFTER + 1
        line = 1 + sum(vocabulary.pieces[id].count(b"\n") for id in ids[:begin + at])
        windows.append((values[at], {
            "value": values[at], "position": begin + at, "line": line, "at": at - first,
            "tokens": [vocabulary.token(id) for id in ids[begin:begin + width][first:end]]}))
    everything, best = torch.cat(all_values), torch.stack([value for value, _ in windows]).abs()
    n = min(10 if options.top is None else options.top, len(windows))
    return {"n_corpus_tokens": len(ids), "n_windows": len(windows), "window": options.c, "mean": everything.mean(),
            "deviation": everything.std(unbiased=False), "examples": [windows[i][1] for i in top(best, n)]}


def view_neurons(options):
    unit = options.neuron or options.head
    if not unit:
        return strongest(prompt_run(options), options)
    layer, index = (int(number) for number in re.findall(r"\d+", unit))
    name = {"layer": layer, "neuron" if options.neuron else "head": index}
    return {**name, **(corpus(options) if options.corpus else trace(prompt_run(options), options, layer, index))}
