#!/usr/bin/python3
"""Makes test checkpoints of every family with the numbers that formula.py expects, or prints logits of any checkpoint."""
import argparse

import numpy as np
import torch

import dtype_models
import family_models
import gguf
from formula import Model

EXAMPLES = """examples:
  scripts/expect/reference.py make tests/data/reference
  scripts/expect/reference.py make tests/data/reference qwen2 gemma
  scripts/expect/reference.py run tests/data/reference/gpt2-f32.gguf --tokens 1,2,3
  scripts/expect/reference.py run model.gguf --tokens 464,412,733,417 -o logits.npy

Runs any GGUF of the families in families.py whose tensors gguf.py reads."""


def run(path, tokens, out):
    try:
        model = Model(*gguf.read(path))
        n_vocab = len(model.weight("token_embd.weight"))
    except (OSError, ValueError) as error:
        raise SystemExit(error)
    except KeyError as missing:
        raise SystemExit(f"{path}: lacks {missing}")
    if any(not 0 <= token < n_vocab for token in tokens):
        raise SystemExit(f"tokens must be in [0, {n_vocab})")
    logits = model.forward(tokens).numpy().astype("f4")
    if out:
        np.save(out, logits)
    for token in logits[-1].argsort()[::-1][:5]:
        print(f"{token:7} {logits[-1][token]:.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("make", help="write the test checkpoints and their expected numbers")
    command.add_argument("folder")
    command.add_argument("names", nargs="*", help="only those whose name begins so")
    command = commands.add_parser("run", help="print the five likeliest next tokens and their logits")
    command.add_argument("model", help="a GGUF checkpoint")
    command.add_argument("--tokens", required=True, type=lambda text: [int(t) for t in text.split(",")],
                         help="ids, separated by commas")
    command.add_argument("-o", metavar="FILE.npy", help="write the logits [n][n_vocab] of all positions")
    args = parser.parse_args()
    torch.set_num_threads(1)  # sums in one order: the same bytes every time
    if args.command == "make":
        for models in (dtype_models, family_models):
            models.make(args.folder, lambda name: name.startswith(tuple(args.names or [""])))
    else:
        run(args.model, args.tokens, args.o)


if __name__ == "__main__":
    main()
