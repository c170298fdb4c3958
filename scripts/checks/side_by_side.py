#!/usr/bin/python3
"""
The Python package beside PyTorch: a GPT-2 of random weights, written here in plain PyTorch with a hook at every place that
TransformerLens names, and the same folder by attn. Compares names, shapes and values, then the time of what one does all day,
in turns, and prints docs/PYTHON.md's table.

    PYTHONPATH=python scripts/checks/side_by_side.py [--small] [--cpu] [--turns N] [--tokens N] [--folder F [--task WORD]]

Needs Debian's python3-torch (with libopenblas0), and GPT-2's vocabulary in ../shared/data/vocab. --small: 2 layers of 64, and no
times. --cpu: CPU time of one thread, where a machine has other work; else all cores and the clock. --folder: the model lies
there, and is made if it does not. --task: only the time of tasks with this word, and nothing compared: a short run, where others
wait for the machine. Exits with 1 where a value differs by more than 1e-4 of the largest of its array.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import attn

TREE = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY = TREE.parent / "shared/data/vocab"
WITHIN = 1e-4
CLEAN = "When Mary and John went to the shop, John gave a book to"
CORRUPTED = "When Mary and John went to the shop, Mary gave a book to"


class Layer(nn.Module):
    def __init__(self, d, n_head):
        super().__init__()
        self.n_head = n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.c_fc, self.mlp_proj = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        for name in ("resid_pre", "scale1", "q", "k", "v", "scores", "pattern", "z", "attn_out", "resid_mid", "scale2", "pre",
                     "post", "mlp_out", "resid_post"):
            setattr(self, f"hook_{name}", nn.Identity())

    def forward(self, x):  # [pos][d]
        n, d = x.shape
        x = self.hook_resid_pre(x)
        self.hook_scale1(scale(x))
        q, k, v = (part.view(n, self.n_head, d // self.n_head) for part in self.c_attn(self.ln_1(x)).split(d, dim=1))
        q, k, v = self.hook_q(q), self.hook_k(k), self.hook_v(v)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(d // self.n_head)
        masked = torch.ones(n, n, dtype=torch.bool).triu(1)
        scores = self.hook_scores(scores.masked_fill(masked, -math.inf))
        pattern = self.hook_pattern(scores.softmax(-1))
        z = self.hook_z(torch.einsum("hqk,khd->qhd", pattern, v))
        x = self.hook_resid_mid(x + self.hook_attn_out(self.c_proj(z.reshape(n, d))))
        self.hook_scale2(scale(x))
        hidden = self.hook_post(F.gelu(self.hook_pre(self.c_fc(self.ln_2(x))), approximate="tanh"))
        return self.hook_resid_post(x + self.hook_mlp_out(self.mlp_proj(hidden)))


class GPT2(nn.Module):
    NAMES = {"resid_pre": "hook_resid_pre", "scale1": "ln1.hook_scale", "q": "attn.hook_q", "k": "attn.hook_k",
             "v": "attn.hook_v", "scores": "attn.hook_attn_scores", "pattern": "attn.hook_pattern", "z": "attn.hook_z",
             "attn_out": "hook_attn_out", "resid_mid": "hook_resid_mid", "scale2": "ln2.hook_scale", "pre": "mlp.hook_pre",
             "post": "mlp.hook_post", "mlp_out": "hook_mlp_out", "resid_post": "hook_resid_post"}

    def __init__(self, config):
        super().__init__()
        d = config["n_embd"]
        self.wte, self.wpe = nn.Embedding(config["vocab_size"], d), nn.Embedding(config["n_positions"], d)
        self.h = nn.ModuleList(Layer(d, config["n_head"]) for _ in range(config["n_layer"]))
        self.ln_f = nn.LayerNorm(d)
        self.hook_embed, self.hook_pos, self.hook_final, self.hook_logits = (nn.Identity() for _ in range(4))

    def forward(self, ids):
        x = self.hook_embed(self.wte(ids)) + self.hook_pos(self.wpe(torch.arange(len(ids))))
        for layer in self.h:
            x = layer(x)
        self.hook_final(scale(x))
        return self.hook_logits(F.linear(self.ln_f(x), self.wte.weight))

    def points(self):
        """TransformerLens's names, and the module whose output each is."""
        found = {"hook_embed": self.hook_embed, "hook_pos_embed": self.hook_pos}
        for i, layer in enumerate(self.h):
            found.update({f"blocks.{i}.{name}": getattr(layer, f"hook_{own}") for own, name in self.NAMES.items()})
        return {**found, "ln_final.hook_scale": self.hook_final, "logits": self.hook_logits}

    def with_hooks(self, ids, hooks):
        """The logits; hooks: pairs of a name and f(tensor), which may return another one."""
        points = self.points()
        handles = [points[name].register_forward_hook(lambda _, __, out, f=f: f(out)) for name, f in hooks]
        try:
            return self(ids)
        finally:
            for handle in handles:
                handle.remove()

    def with_cache(self, ids):
        cache = {}
        return self.with_hooks(ids, [(name, lambda out, name=name: cache.update({name: out})) for name in self.points()]), cache


def scale(x):
    return (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


CONV = {"c_attn": "attn.c_attn", "c_proj": "attn.c_proj", "c_fc": "mlp.c_fc", "mlp_proj": "mlp.c_proj"}


def huggingface(state):
    """The same weights under Hugging Face's names; its matrices are [in][out]."""
    saved = {}
    for name, value in state.items():
        parts = name.split(".")
        if parts[0] == "h" and parts[2] in CONV:
            value, parts[2] = value.t().contiguous() if value.ndim == 2 else value, CONV[parts[2]]
        saved[".".join(parts)] = value
    return saved


def from_huggingface(saved):
    back = {own: name for name, own in CONV.items()}
    state = {}
    for name, value in saved.items():
        parts = name.split(".")
        own = back.get(".".join(parts[2:4]))
        if own:
            parts[2:4], value = [own], value.t() if value.ndim == 2 else value
        state[".".join(parts)] = value
    return state


def make(folder, small):
    """A folder as transformers saves it, with weights as large as a trained model's."""
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_positions": 1024, "n_ctx": 1024,
              "n_embd": 64 if small else 768, "n_layer": 2 if small else 12, "n_head": 4 if small else 12,
              "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "bos_token_id": 50256, "eos_token_id": 50256}
    torch.manual_seed(1)
    model = GPT2(config)
    for name, value in model.named_parameters():
        with torch.no_grad():
            if "ln_" in name:
                value.normal_(1.0 if name.endswith("weight") else 0.0, 0.1)
            elif name.endswith("bias"):
                value.normal_(0, 0.1)
            elif value.shape[0] > 1000 and "w" in name.split(".")[0]:
                value.normal_(0, 0.1)
            else:
                value.normal_(0, 1 / math.sqrt(value.shape[1]))
    torch.save(huggingface(model.state_dict()), folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("vocab.json", "merges.txt"):
        shutil.copyfile(VOCABULARY / f"gpt2_{name}", folder / name)
    return config


def load_torch(folder, config):
    model = GPT2(config)
    model.load_state_dict(from_huggingface(torch.load(folder / "pytorch_model.bin")))
    return model.requires_grad_(False).eval()


# The five tasks, in both.

def metric(logits, answer, wrong):
    return logits[-1, answer] - logits[-1, wrong]


def patch_torch(model, cache, corrupted, answer, wrong, layers, positions):
    """[layer][pos][head] the metric with each head's z of a cache at each position, by a run for each, as in TransformerLens."""
    values = np.zeros((len(layers), len(positions), model.h[0].n_head), np.float32)
    with torch.no_grad():
        for i, j, head in np.ndindex(*values.shape):
            name = f"blocks.{layers[i]}.attn.hook_z"

            def give(z):
                z[positions[j], head] = cache[name][positions[j], head]
                return z

            values[i, j, head] = metric(model.with_hooks(corrupted, [(name, give)]), answer, wrong)
    return values


def patch_attn(model, answer, wrong):
    view = model.patch(CLEAN, CORRUPTED, answer, wrong, what="head-pos")
    values = np.zeros((model.config.n_layer, view["n_tokens"], model.config.n_head), np.float32)
    for cell in view["cells"]:
        values[cell["layer"], cell["position"], cell["head"]] = cell["value_nats"]
    return values


def gradient_torch(model, clean, corrupted, answer, wrong):
    """[layer][head] Σ (clean − corrupted)·gradient of z: attribution patching."""
    with torch.no_grad():
        _, there = model.with_cache(clean)
    model.wte.weight.requires_grad_(True)
    logits, here = model.with_cache(corrupted)
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(len(model.h))]
    grads = torch.autograd.grad(metric(logits, answer, wrong), [here[name] for name in names])
    model.wte.weight.requires_grad_(False)
    return np.stack([((there[name] - here[name].detach()) * grad).sum((0, 2)).numpy() for name, grad in zip(names, grads)])


def gradient_attn(model, answer, wrong):
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(model.config.n_layer)]
    _, there = model.run_with_cache(CLEAN, names)
    _, here = model.run_with_cache(CORRUPTED, names)
    _, grads = model.grad(CORRUPTED, attn.logit(answer) - attn.logit(wrong), names)
    return np.stack([((there[name] - here[name]) * grads[name]).sum((0, 2)) for name in names])


def differs(theirs, ours):
    """The largest difference, of the largest number."""
    theirs, ours = np.asarray(theirs), np.asarray(ours)
    assert theirs.shape == ours.shape, (theirs.shape, ours.shape)
    finite = np.isfinite(theirs)
    assert np.array_equal(finite, np.isfinite(ours))
    return float(np.abs(theirs[finite] - ours[finite]).max() / np.abs(theirs[finite]).max())


def compare(theirs, ours, answer, wrong, *texts):
    """Prints by how much arrays of texts [n] of ids, patching and gradients differ; whether all are near enough."""
    found = {}
    for ids in texts:
        with torch.no_grad():
            _, their_cache = theirs.with_cache(torch.tensor(ids, dtype=torch.long))
        _, our_cache = ours.run_with_cache(ids)
        assert list(their_cache) == list(our_cache), set(their_cache) ^ set(our_cache)
        arrays = {name: differs(array.numpy(), our_cache[name]) for name, array in their_cache.items()}
        worst = max(arrays, key=arrays.get)
        found[f"{len(arrays)} arrays of {len(ids)} tokens, names and shapes the same (most: {worst})"] = arrays[worst]
    clean, corrupted = (torch.tensor(ours.to_tokens(text), dtype=torch.long) for text in (CLEAN, CORRUPTED))
    chosen = [ours.to_single_token(token) for token in (answer, wrong)]
    layers = sorted({0, ours.config.n_layer // 2})
    with torch.no_grad():
        _, cache = theirs.with_cache(clean)
    found["head × position patching"] = differs(patch_torch(theirs, cache, corrupted, *chosen, layers, range(len(clean))),
                                                patch_attn(ours, answer, wrong)[layers])
    found["gradient"] = differs(gradient_torch(theirs, clean, corrupted, *chosen), gradient_attn(ours, answer, wrong))
    for name, difference in found.items():
        print(f"{name}: {difference:.1e}", flush=True)
    return max(found.values()) <= WITHIN


def seconds(function, cpu):
    """Of the clock, or of CPU time, that of the program `study` included."""
    def now():
        return sum(os.times()[:4]) if cpu else time.perf_counter()
    started = now()
    function()
    return now() - started


def times(folder, config, theirs, ours, ids, answer, wrong, options):
    torch_ids = torch.tensor(ids, dtype=torch.long)
    clean, corrupted = (torch.tensor(ours.to_tokens(text), dtype=torch.long) for text in (CLEAN, CORRUPTED))
    chosen = [ours.to_single_token(token) for token in (answer, wrong)]

    def quiet(function):
        def run():
            with torch.no_grad():
                function()
        return run

    n_layer, n = config["n_layer"], len(clean)
    with torch.no_grad():
        _, cache = theirs.with_cache(clean)
    tasks = [
        ("load", lambda: load_torch(folder, config), lambda: attn.load(folder).close(), 1),
        (f"one forward pass, {len(ids)} tokens", quiet(lambda: theirs(torch_ids)), lambda: ours.run(ids), 1),
        (f"everything kept, {len(ids)} tokens", quiet(lambda: theirs.with_cache(torch_ids)),
         lambda: ours.run_with_cache(ids), 1),
        (f"head × position patching, {n_layer} × {config['n_head']} × {n}; PyTorch: a layer at two positions, times {n_layer * n // 2}",
         lambda: patch_torch(theirs, cache, corrupted, *chosen, [n_layer // 2], [n // 2, n - 1]),
         lambda: patch_attn(ours, answer, wrong), n_layer * n // 2),
        (f"attribution patching by gradient, {n} tokens",
         lambda: gradient_torch(theirs, clean, corrupted, *chosen), lambda: gradient_attn(ours, answer, wrong), 1),
    ]
    print("| task | PyTorch | attn | |\n|---|---|---|---|")
    for name, their, our, times_over in tasks:
        if options.task not in name:
            continue
        pairs = [(times_over * seconds(their, options.cpu), seconds(our, options.cpu))
                 for _ in range(options.turns + 1)][1:]  # the first warms up
        a, b = (statistics.median(each) for each in zip(*pairs))
        print(f"| {name} | {said(a)} | {said(b)} | {statistics.median(x / y for x, y in pairs):.2f} × |", flush=True)


def said(t):
    return f"{t:.1f} s" if t >= 10 else f"{t:.2f} s" if t >= 1 else f"{1000 * t:.3g} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--task", default="")
    options = parser.parse_args()
    if not VOCABULARY.is_dir():
        sys.exit(f"{VOCABULARY}: is not there, and has GPT-2's vocabulary")
    n_threads = 1 if options.cpu else os.cpu_count()
    torch.set_num_threads(n_threads)
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or pathlib.Path(name)
        folder.mkdir(exist_ok=True)
        made = folder / "config.json"
        config = json.loads(made.read_text()) if made.exists() else make(folder, options.small)
        theirs, ours = load_torch(folder, config), attn.load(folder, n_threads=n_threads)
        ids = np.random.default_rng(1).integers(0, config["vocab_size"], options.tokens)
        same = options.task or compare(theirs, ours, " Mary", " John", ids[:16], ids)
        if not options.small:
            times(folder, config, theirs, ours, ids, " Mary", " John", options)
    return not same


if __name__ == "__main__":
    sys.exit(main())
