#!/usr/bin/env python3
"""Makes a model as sure as it is right (Guo et al. 2017): all logits times a factor, which costs nothing.

    scripts/train/calibrate.py weights/model.gguf data                                # bits per byte of held-out text by factor
    scripts/train/calibrate.py weights/model.gguf --factor 0.9 -o calibrated.gguf   # the model with that factor

A model that has read the same text many times is too sure of itself elsewhere. The table has a row for every other
window of each held-out text of corpus.py, and one for the windows between: a factor that is good for both rows is not
good by chance. Each window is n_ctx tokens, of which the second half count.

The factor goes into the weight and the bias of the last norm, which GGUF keeps in F32, so nothing is rounded. What is
likelier stays likelier. The file's wishes for sampling change with it, temp to temp × factor and min_p to min_p^factor, to
four places: so asked it draws from the same probabilities as before, but where top_p cuts.
"""
import argparse
import math
import pathlib

import numpy as np
import torch
from torch.nn import functional as F

import gguf
from tokenizer import Tokenizer
from train import HELD_OUT, SHAPE, Config, Model, start_from

FACTORS = 0.8, 0.84, 0.88, 0.9, 0.92, 0.96, 1.0, 1.04


@torch.no_grad()
def bits_by_factor(model, ids, piece_bytes, n_windows):
    """[2][factors]: of every other window, and of those between."""
    n_ctx = model.config.n_ctx
    n_windows = max(2, min(n_windows, 2 * (len(ids) - 1) // n_ctx - 1))
    nats, n_bytes = np.zeros((2, len(FACTORS))), np.zeros((2, 1))
    for i, start in enumerate(np.linspace(0, max(len(ids) - 1 - n_ctx, 0), n_windows).astype(int)):
        rows = torch.from_numpy(ids[start:start + n_ctx + 1].astype(np.int64))
        logits, targets = model(rows[None, :-1])[0, n_ctx // 2:], rows[1 + n_ctx // 2:]
        nats[i % 2] += [F.cross_entropy(logits * factor, targets, reduction="sum").item() for factor in FACTORS]
        n_bytes[i % 2] += piece_bytes[targets.numpy()].sum()
    return nats / math.log(2) / n_bytes


def print_table(path, data, n_windows):
    tokenizer = Tokenizer.load(data / "tokenizer.json")
    metadata, _ = gguf.read(path)
    shape = {name: int(metadata[key]) for key, name in SHAPE.items()}
    model = Model(Config(**shape, batch=1, micro_batch=1, learning_rate=0, dropout=0, n_vocab=tokenizer.n_vocab)).eval()
    start_from(path, model, tokenizer)
    piece_bytes = np.array([len(piece) for piece in tokenizer.bytes])
    print(f"{'factor':12}", *(f"{factor:7.2f}" for factor in FACTORS))
    for name in HELD_OUT:
        for row in bits_by_factor(model, np.fromfile(data / f"{name}.bin", np.uint16), piece_bytes, n_windows):
            print(f"{name:12}", *(f"{bits:7.4f}" for bits in row), flush=True)


def write_calibrated(path, factor, output):
    metadata, tensors = gguf.read(path)
    for name in ("output_norm.weight", "output_norm.bias"):
        tensors[name] = gguf.Tensor.pack(tensors[name].numpy() * np.float32(factor), "F32")
    for name, changed in (("temp", lambda temp: temp * factor), ("min_p", lambda min_p: min_p ** factor)):
        key = f"general.sampling.{name}"
        if key in metadata:
            metadata[key] = np.float32(round(changed(float(metadata[key])), 4))
    gguf.write(output, metadata, tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a GPT-2 in GGUF, as export.py writes it")
    parser.add_argument("data", type=pathlib.Path, nargs="?", help="folder that corpus.py wrote, for the table")
    parser.add_argument("-n", type=int, default=48, help="windows of each held-out text (48)")
    parser.add_argument("--factor", type=float, help="write the model with this factor")
    parser.add_argument("-o", "--output", help="that file")
    args = parser.parse_args()
    if (args.factor is None) != (args.output is None) or (args.factor is None) == (args.data is None):
        parser.error("either a folder, or --factor and -o")
    if args.data:
        print_table(args.model, args.data, args.n)
    elif 0 < args.factor < math.inf:
        write_calibrated(args.model, args.factor, args.output)
    else:
        parser.error("--factor is a number above 0")


if __name__ == "__main__":
    main()
