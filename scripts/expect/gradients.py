#!/usr/bin/env python3
"""The gradients that tests/test_backward.c expects, by PyTorch's autograd in float64.

    scripts/expect/gradients.py make tests/data/reference tests/data/gradients [NAME …]   # those whose name begins so

For each checkpoint of the first folder, NAME.gguf in the second one has the gradient of

    m = Σ_i −ln p(token i+1 | tokens up to i) + logits[last][token 0] − logits[last][token 1]

with respect to every site of the forward pass (formula.py) at a few positions: "m" itself, "tokens", "positions", and
"blk.L.SITE" [head][position][columns]. In the texts of reference.py.
"""
import argparse
import pathlib

import numpy as np
import torch

import gguf
from formula import Model, differentiate


def metric(logits, tokens):
    following = torch.tensor(tokens[1:])
    nll = -torch.log_softmax(logits[:-1], -1).gather(1, following[:, None]).sum()
    return nll + logits[-1][tokens[0]] - logits[-1][tokens[1]]


def chosen_layers(n_layer):
    return {0, n_layer // 2, n_layer - 1}


def make(path, expected, out):
    model, tokens = Model(*gguf.read(path)), [int(t) for t in gguf.read(expected)[1]["tokens"].numpy()]
    n = len(tokens)
    positions = sorted({1, n // 2, n - 1})
    m, _, found = differentiate(model, tokens, lambda logits: metric(logits, tokens))
    tensors = {"tokens": np.array(tokens, "f4"), "positions": np.array(positions, "f4"), "m": np.array([m], "f4")}
    for (site, layer), g in found.items():
        if layer in chosen_layers(model.config.n_layer):
            rows = g if g.dim() == 3 else g[None]
            tensors[f"blk.{layer}.{site}"] = rows[:, positions].numpy().astype("f4")
    gguf.write(out, {"general.architecture": "gradients"}, tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["make"])
    parser.add_argument("models")
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(1)
    pathlib.Path(args.folder).mkdir(parents=True, exist_ok=True)
    for expected in sorted(pathlib.Path(args.models).glob("*.expected.gguf")):
        name = expected.name.removesuffix(".expected.gguf")
        path = expected.with_name(name + ".gguf")
        if name.startswith(tuple(args.names or [""])):
            make(path, expected, pathlib.Path(args.folder, name + ".gguf"))


if __name__ == "__main__":
    main()
