"""The view attribute: what every part of the model adds to a logit, and what made a score of attention (docs/STUDY.md).

A part's share is measured, not derived: what comes behind it, with the scales of norms as the run has them, is applied to the
part and to nothing at all, and the difference is taken.
"""
import json
from dataclasses import replace

import torch

import study_gradients
from formula import alibi_slopes
from study_cases import TEXTS
from study_runs import Run, behind, encode, prompt_run, top, vocabulary_of


def token_id(text, vocabulary):
    return int(text[1:]) if text[0] == "#" else vocabulary.pieces.index(text.encode())


def attention_made(run, layer, q):
    bias = run.model.optional(f"blk.{layer}.attn_output.bias")
    return run.site("result", layer)[:, q].sum(0) + (0 if bias is None else bias)


def writers(run, q, n_layer):
    """(name, layer, head, vector) of everything that wrote into the stream at q below a layer, but for biases."""
    parts = [("embed", None, None, run.site("embed", 0)[q])]
    if ("pos_embed", 0) in run.sites:
        parts.append(("pos_embed", None, None, run.site("pos_embed", 0)[q]))
    for layer in range(n_layer):
        if ("result", layer) in run.sites:
            made = attention_made(run, layer, q)
            for head, x in enumerate(run.site("result", layer)[:, q]):
                parts.append((f"L{layer}H{head}", layer, head, behind(run, layer, "post_attention_norm", made, x)))
        else:
            parts.append((f"L{layer}attn", layer, None, run.site("attn_out", layer)[q]))
        parts.append((f"L{layer}MLP", layer, None, run.site("mlp_out", layer)[q]))
    return parts


class Asked:
    """The number that is asked for, of the logits that a vector would give by the final norm's scale at q."""

    def __init__(self, run, q, answer, wrong):
        self.run, self.scale, self.answer, self.wrong = run, run.final_scale(q), answer, wrong
        run.config = replace(run.config, logit_cap=0)

    def __call__(self, x):
        logits = self.run.unembed(x, self.scale)
        return logits[self.answer] - (logits.mean() if self.wrong is None else logits[self.wrong])

    def share(self, x):
        return self(x) - self(torch.zeros_like(x))


def direct(run, q, answer, wrong):
    """(names, values, logit): the last is the biases'."""
    asked, resid = Asked(run, q, answer, wrong), run.site("resid_post", run.config.n_layer - 1)[q]
    parts = writers(run, q, run.config.n_layer)
    values = [asked.share(x) for *_, x in parts]
    logit = asked(resid)
    names = [part[:3] for part in parts] + [("bias", None, None)]
    return names, torch.stack(values + [logit - sum(values)]), logit


def sources(run, q, layer, head, asked):
    weights, values = run.site("pattern", layer)[head][q][:q + 1], run.site("v", layer)[run.kv_head(head)]
    moved = values @ run.output_weight(layer, head).T / run.behind_scale(layer, q)
    shares = [a * asked.share(x) for a, x in zip(weights, moved)]
    keys = [{"key": k, **run.vocabulary.token(run.ids[k]), "weight": weights[k], "value": shares[k]} for k in range(q + 1)]
    return {"layer": layer, "head": head, "sum": sum(shares), "sources": keys}


def neuron_values(run, q, layer, asked):
    """(activations, values, what the biases give)"""
    down = run.model.weight(f"blk.{layer}.ffn_down.weight")
    post, made = run.site("mlp_post", layer)[q], run.model.linear(f"blk.{layer}.ffn_down", run.site("mlp_post", layer)[q])
    values = torch.stack([asked.share(behind(run, layer, "post_ffw_norm", made, post[j] * down[:, j]))
                          for j in range(len(post))])
    return post, values, asked.share(run.site("mlp_out", layer)[q]) - values.sum()


def neurons(layer, n_top, activations, values, bias):
    strongest = top(values.abs(), n_top)
    return {"layer": layer, "n": len(values), "bias": bias, "others": values.sum() - values[strongest].sum(),
            "strongest": [{"neuron": j, "activation": activations[j], "value": values[j]} for j in strongest]}


def by_layer(names, values, n_layer):
    rows, so_far = [], 0
    for layer in range(-1, n_layer):
        inside = [i for i, (name, at, _) in enumerate(names) if name != "bias" and (-1 if at is None else at) == layer]
        so_far = so_far + values[inside].sum()
        if layer >= 0:
            rows.append({"layer": layer, "attention": values[inside[:-1]].sum(), "mlp": values[inside[-1]], "so_far": so_far})
    return rows


def named(names, **columns):
    return [{"part": name, "layer": layer, "head": head, **{key: values[i] for key, values in columns.items()}}
            for i, (name, layer, head) in enumerate(names)]


def attribute_text(options):
    run = prompt_run(options)
    cap, vocabulary = run.config.logit_cap, run.vocabulary
    q = len(run.ids) - 1 if options.query is None else options.query
    answer = token_id(options.answer, vocabulary) if options.answer else top(run.logits[q], 1)[0]
    wrong = token_id(options.wrong, vocabulary) if options.wrong else None
    names, values, logit = direct(run, q, answer, wrong)
    asked = Asked(run, q, answer, wrong)
    result = {"by": "direct", "query": q, "answer": vocabulary.token(answer),
              "wrong": None if wrong is None else vocabulary.token(wrong), "scale": run.final_scale(q),
              "soft_cap": cap or None, "sum": logit, "logit": logit, "parts": named(names, value=values),
              "layers": by_layer(names, values, run.config.n_layer)}
    if options.head:
        places = [name[1:].split("H") for name in options.head.split(",")]
        result["heads"] = [sources(run, q, int(layer), int(head), asked) for layer, head in places]
    if options.neurons is not None:
        result["neurons"] = neurons(options.neurons, options.top or 10, *neuron_values(run, q, options.neurons, asked))
    return result


def mean_and_error(x):
    """Of the rows."""
    return x.mean(0), x.std(0, unbiased=True) / len(x) ** 0.5


def attribute_pairs(options):
    vocabulary, rows, logits = vocabulary_of(options.model), [], []
    for line in TEXTS[options.pairs].splitlines():
        pair = json.loads(line)
        run = Run(options.model, encode(options, vocabulary, pair["clean"])[0])
        following = [vocabulary.pieces.index(pair[key][:1].encode()) if pair.get(key) else None for key in ("answer", "wrong")]
        names, values, logit = direct(run, len(run.ids) - 1, *following)
        rows.append(values), logits.append(logit)
    (means, errors), (logit, error) = mean_and_error(torch.stack(rows)), mean_and_error(torch.stack(logits))
    return {"by": "direct", "n_texts": len(rows), "n_left_out": 0, "logit": logit, "logit_error": error, "sum": logit,
            "parts": named(names, value=means, error=errors), "layers": by_layer(names, means, run.config.n_layer)}


# Scores.

class Side:
    """A query, or a key, as a function of what wrote into the stream at its position."""

    def __init__(self, run, kind, layer, head, position):
        self.run, self.kind, self.layer, self.head, self.position = run, kind, layer, head, position
        self.block = f"blk.{layer}."
        self.norm = self.block + ("attn_norm_2" if self.block + "attn_norm_2.weight" in run.model.tensors else "attn_norm")
        self.scale = run.model.scale(run.site("resid_pre", layer)[position])

    def project(self, x):
        """[head][d_head]"""
        c, model = self.run.config, self.run.model
        if self.block + "attn_qkv.weight" in model.tensors:
            sizes = [c.n_head * c.d_head, c.n_head_kv * c.d_head, c.n_head_kv * c.d_head]
            x = model.linear(self.block + "attn_qkv", x).split(sizes, -1)["qk".index(self.kind)]
        else:
            x = model.linear(self.block + "attn_" + self.kind, x)
        if self.kind == "q" and len(x) == 2 * c.n_head * c.d_head:
            x = x.unflatten(0, (c.n_head, 2, c.d_head))[:, 0].flatten()
        return x.unflatten(0, (-1, c.d_head))

    def before_norm(self, x):
        c, model = self.run.config, self.run.model
        if c.norms != "behind":
            x = (x - x.mean() if c.norm == "layer" else x) / self.scale
            gain, bias = model.optional(self.norm + ".weight"), model.optional(self.norm + ".bias")
            x = (x if gain is None else x * gain) + (0 if bias is None else bias)
        return self.project(x)

    def behind_norm(self, x):
        """The norm of queries and keys, with its scales in the run."""
        name, model, c = f"{self.block}attn_{self.kind}_norm", self.run.model, self.run.config
        gain, bias = model.optional(name + ".weight"), model.optional(name + ".bias")
        if gain is None:
            return x
        whole, together = self.run.site(self.kind, self.layer)[:, self.position], gain.dim() == 1 and len(gain) != c.d_head
        if together:
            x, whole = x.flatten(), whole.flatten()
        x = (x - x.mean(-1, keepdim=True) if c.norm == "layer" else x) / model.scale(whole) * gain
        return (x if bias is None else x + bias).view(-1, c.d_head)

    def turned(self, x):
        rows = torch.zeros(1, len(self.run.ids), x.shape[-1]).double()
        rows[0, self.position] = x
        return self.run.model.turned(self.layer, rows)[0, self.position]

    def parts(self):
        """[part][d_head] of the writers, the biases, and what was cut."""
        run, c = self.run, self.run.config
        xs = [x for *_, x in writers(run, self.position, self.layer)]
        resid, nothing = run.site("resid_pre", self.layer)[self.position], torch.zeros(len(xs[0])).double()
        projected = [self.before_norm(x) - self.before_norm(nothing) for x in xs]
        whole = self.before_norm(resid)
        projected.append(whole - sum(projected))
        if c.clamp and not c.clamp_normed:
            projected.append(run.site(self.kind, self.layer)[:, self.position] - whole)
        zero = torch.zeros_like(whole)
        parts = [self.behind_norm(x) - self.behind_norm(zero) for x in projected]
        parts[len(xs)] = parts[len(xs)] + self.behind_norm(zero)
        if c.clamp and c.clamp_normed:
            parts.append(sum(parts).clamp(-c.clamp, c.clamp) - sum(parts))
        return torch.stack([self.turned(part[self.head]) for part in parts])


def attribute_score(options):
    run = prompt_run(options)
    c, (place, keys) = run.config, options.score.split(":")
    layer, head = map(int, place[1:].split("H"))
    query, key = map(int, keys.split(">"))
    sides = Side(run, "q", layer, head, query), Side(run, "k", layer, run.kv_head(head), key)
    cells = sides[0].parts() @ sides[1].parts().T * (c.score_scale or c.d_head ** -0.5)
    names = [part[:3] for part in writers(run, query, layer)] + [("bias", None, None)]
    if c.clamp:
        names.append(("clamp", None, None))
    alibi = -alibi_slopes(c.n_head, c.alibi)[head] * (query - key) if c.alibi else None
    score = run.site("scores", layer)[head][query][key]
    uncapped = c.score_cap * torch.atanh(score / c.score_cap) if c.score_cap else score
    order = top(cells.abs().flatten(), 10 if options.top is None else options.top)
    return {"by": "score", "layer": layer, "head": head, "kv_head": run.kv_head(head), "query": query, "key": key,
            "query_token": run.vocabulary.token(run.ids[query]), "key_token": run.vocabulary.token(run.ids[key]),
            "weight": run.site("pattern", layer)[head][query][key], "score": score, "soft_cap": c.score_cap or None,
            "uncapped": uncapped, "sum": uncapped, "alibi": alibi,
            "strongest": [{"query": names[i // len(names)][0], "key": names[i % len(names)][0], "value": cells.flatten()[i]}
                          for i in order],
            "parts": named(names, query=cells.sum(1), key=cells.sum(0)), "cells": cells}


def view_attribute(options):
    if options.by in ("gradient", "ig"):
        return study_gradients.by_gradient(options)
    return attribute_score(options) if options.score else attribute_pairs(options) if options.pairs else attribute_text(options)
