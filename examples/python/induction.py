#!/usr/bin/env python3
"""
Finds the induction heads of a model: on tokens drawn at random and repeated, such a head looks from each token at the one that
followed its first occurrence (Olsson et al. 2022, arXiv:2209.11895).

    python3 examples/python/induction.py [MODEL]

Prints the heads that score most, the first first: how much weight lies there on average over the second copy.
"""
import sys

import numpy as np

import attn

REPEATED = 50  # tokens, where the context has room


def scores(model):
    """[layer][head] mean weight on the token behind the first occurrence; what attention to all alike would score."""
    n = min(REPEATED, model.config.n_ctx // 2 - 1)
    half = np.random.default_rng(1).integers(0, model.config.n_vocab, n)
    _, cache = model.run_with_cache(np.concatenate([half, half]), lambda name: name.endswith("hook_pattern"))
    found = np.zeros((model.config.n_layer, model.config.n_head))
    for name, pattern in cache.items():  # [head][query][key]
        layer = int(name.split(".")[1])
        found[layer] = pattern.diagonal(1 - n, axis1=1, axis2=2)[:, 1:].mean(axis=1)  # of queries n … to keys query − n + 1
    return found, float(np.mean(1 / np.arange(n + 1, 2 * n + 1)))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "model.bin"
    try:
        with attn.load(path) as model:
            found, chance = scores(model)
    except attn.AttnError as error:
        sys.exit(str(error))
    for place in np.argsort(-found, axis=None)[:5]:
        layer, head = np.unravel_index(place, found.shape)
        print(f"L{layer}H{head}  {found[layer, head]:.3f}   (looking everywhere alike: {chance:.3f})")


if __name__ == "__main__":
    main()
