"""The view of heads by their weights alone: circuit. It takes the parsed options and gives the keys that are its own
(docs/STUDY.md). Everything is computed on whole matrices, [n_vocab][n_vocab] or [d_model][d_model], whose low rank is not
made use of.
"""
import numpy as np

from formula import Model
from study_runs import MARGIN, Unsure, checkpoint, top, vocabulary_of

import torch


class Folded:
    """Weights as TransformerLens folds and centres them; rows of e and u are tokens."""

    def __init__(self, name):
        self.model, self.vocabulary = Model(*checkpoint(name)), vocabulary_of(name)
        c, weight, optional = self.model.config, self.model.weight, self.model.optional
        self.config, self.layered = c, c.norm == "layer"
        e = weight("token_embd.weight") * c.embedding_scale
        self.e = self.centred(self.model.norm("token_embd_norm", e) if c.embedding_norm else e)
        u = weight("output.weight" if "output.weight" in self.model.tensors else "token_embd.weight")
        gain = optional(c.output_norm + ".weight")
        self.u = self.centred((u - u.mean(0)) * (1 if gain is None else gain) * c.logit_scale)

    def centred(self, rows):
        return rows - rows.mean(-1, keepdim=True) if self.layered else rows

    def reading(self, layer, name, head, n_heads):
        """[d_head][d_model] of q, k or v."""
        c, block = self.config, f"blk.{layer}."
        fused = self.model.optional(block + "attn_qkv.weight")
        sizes = [c.n_head * c.d_head, c.n_head_kv * c.d_head, c.n_head_kv * c.d_head]
        w = self.model.weight(f"{block}attn_{name}.weight") if fused is None else fused.split(sizes)["qkv".index(name)]
        w = w.unflatten(0, (n_heads, -1))[head][:c.d_head]  # behind a query may stand its gate
        gain = self.model.optional(f"{block}attn_{name}_norm.weight") if name != "v" else None
        if gain is not None:
            w = w * (gain if gain.numel() == c.d_head else gain.reshape(n_heads, -1)[head])[:, None]
        if name != "v" and self.model.turns(layer):  # at relative position 0, but longer (YaRN, LongRoPE)
            w = torch.cat([w[:c.rope_dim] * c.ropes[layer].magnitude, w[c.rope_dim:]])
        if c.norms == "behind":
            return w
        second = self.model.optional(block + "attn_norm_2.weight")
        before = self.model.optional(block + "attn_norm.weight") if second is None else second
        return self.centred(w if before is None else w * before)

    def head(self, layer, head):
        """OV and QK, [d_model][d_model]: columns are what is looked at, rows what is written, or the query."""
        c, kv = self.config, head * self.config.n_head_kv // self.config.n_head
        o = self.model.weight(f"blk.{layer}.attn_output.weight")[:, head * c.d_head:(head + 1) * c.d_head]
        if c.norms != "before":
            o = o * self.model.weight(f"blk.{layer}.post_attention_norm.weight")[:, None]
        o = self.centred(o.T).T * c.residual_scale
        q, k, v = (self.reading(layer, x, h, n) for x, h, n in (("q", head, c.n_head), ("k", kv, c.n_head_kv), ("v", kv, c.n_head_kv)))
        return o @ v, q.T @ k

    def heads(self):
        return [(layer, head) for layer in range(self.config.n_layer) for head in range(self.config.n_head)
                if f"blk.{layer}.attn_output.weight" in self.model.tensors]


def eigenvalues(matrix, n):
    values = np.linalg.eigvals(matrix.numpy())
    values = sorted(values, key=lambda x: (-abs(x), -x.imag))[:n]
    sizes = np.abs(values)
    for i in range(n - 1):
        if sizes[i] - sizes[i + 1] < 1e-6 * sizes[0] and values[i] != np.conj(values[i + 1]):
            raise Unsure(f"eigenvalues {i} and {i + 1}")
    return np.array(values)


def share(values):
    return float(values.sum().real / np.abs(values).sum())


def scores(folded, layer, head):
    ov, qk = folded.head(layer, head)
    n = folded.config.d_head
    full = eigenvalues(folded.u @ ov @ folded.e.T, n)
    return {"layer": layer, "head": head, "copying": share(full), "ov_copying": share(eigenvalues(ov, n)),
            "matching": share(eigenvalues(folded.e @ qk @ folded.e.T, n)), "ov_norm": ov.norm(), "qk_norm": qk.norm()}, full


def pairs(folded, matrix, k, only, name):
    """The k largest of matrix[from][to]."""
    matrix = matrix if only is None else torch.full_like(matrix, -torch.inf).index_copy(
        0, torch.tensor([only]), matrix[only:only + 1])
    flat = matrix.flatten()
    values = flat.sort(descending=True).values[:k + 1]
    if (values[:-1] - values[1:]).min() <= MARGIN * flat[flat.isfinite()].abs().max():
        raise Unsure(f"the pairs of {name}")
    places = flat.argsort(descending=True)[:k].tolist()
    n = matrix.shape[1]
    return [{"from": folded.vocabulary.token(p // n), "to": folded.vocabulary.token(p % n), name: flat[p]} for p in places]


def directions(folded, ov, n, k):
    left, sigma, right = np.linalg.svd(ov.numpy())
    result = []
    for i in range(n):
        if sigma[i] - sigma[i + 1] < 1e-4 * sigma[0]:
            raise Unsure(f"singular value {i}")
        writes, reads = folded.u @ torch.tensor(left[:, i]), folded.e @ torch.tensor(right[i])
        if abs(writes.max() + writes.min()) < 1e-4 * writes.abs().max():
            raise Unsure(f"the sign of direction {i}")
        sign = 1 if writes.max() > -writes.min() else -1
        result.append({"singular": sigma[i], "share": sigma[i] ** 2 / (sigma ** 2).sum(),
                       "writes": [{"to": folded.vocabulary.token(t), "effect": sign * writes[t]} for t in top(sign * writes, k)],
                       "reads": [{"to": folded.vocabulary.token(t), "product": sign * reads[t]} for t in top(sign * reads, k)]})
    return result


def compositions(folded, kind):
    parts = {place: folded.head(*place) for place in folded.heads()}
    found = []
    for (layer, head), (ov, qk) in parts.items():
        reader = {"q": qk.T, "k": qk, "v": ov}[kind]
        for (from_layer, from_head), (earlier, _) in parts.items():
            if from_layer < layer:
                found.append({"layer": layer, "head": head, "from_layer": from_layer, "from_head": from_head,
                              "score": (reader @ earlier).norm() / (reader.norm() * earlier.norm())})
    found.sort(key=lambda pair: -pair["score"])
    for a, b in zip(found, found[1:]):
        if a["score"] - b["score"] < 1e-6:
            raise Unsure("two compositions")
    return found


def view_circuit(options):
    folded = Folded(options.model)
    if options.composition:
        return {"composition": options.composition, "pairs": compositions(folded, options.composition)}
    if not options.head_name:
        return {"heads": [scores(folded, *place)[0] for place in folded.heads()]}
    layer, head = map(int, options.head_name[1:].split("H"))
    ov, qk = folded.head(layer, head)
    row, full = scores(folded, layer, head)
    only = int(options.token[1:]) if options.token else None
    effects, k = (folded.u @ ov @ folded.e.T).T, 5 if options.top is None else options.top
    lowered = [{**pair, "effect": -pair["effect"]} for pair in pairs(folded, -effects, k, only, "effect")]
    scale = folded.config.score_scale
    return {"heads": [row], "eigenvalues": [{"re": x.real, "im": x.imag} for x in full],
            **({} if only is None else {"source": folded.vocabulary.token(only)}),
            "raised": pairs(folded, effects, k, only, "effect"), "lowered": lowered,
            "sought": pairs(folded, folded.e @ qk @ folded.e.T * scale, k, only, "score"),
            "directions": directions(folded, ov, 4, k)}
