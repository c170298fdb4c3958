#!/usr/bin/python3
"""Writes tests/data/blocks.gguf: random blocks of each quantised type, and what ggml's own gguf-py makes of them.

    scripts/expect/blocks.py ~/oracle/source/gguf-py tests/data/blocks.gguf

Tensor Q4_K holds blocks, Q4_K.floats their weights as F32, to the bit. Half of the scales of small blocks are numbers
that are easily got wrong. Packing is compared, too, where gguf-py can pack. How to get gguf-py:
../shared/oracle/README.md."""
import argparse
import importlib
import sys

import numpy as np

import gguf as ours

HALVES = [0x0001, 0x8000, 0x83FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]  # tiny, −0, tiny, largest, ∞, NaN
EXPONENTS = [0, 1, 2, 3, 127, 253, 254, 255]


def random_blocks(random, type):
    n = 2 if type.weights == 256 else 16
    blocks = random.randint(0, 256, (n, type.layout.itemsize)).astype("u1").view(type.layout).reshape(n)
    if n == 16 and "d" in type.layout.names:
        blocks["d"][:8] = np.array(HALVES, "<u2").view("<f2")
    elif n == 16:
        blocks["e"][:8] = EXPONENTS
    return blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf_py", help="folder of ggml's Python package")
    parser.add_argument("output")
    args = parser.parse_args()
    del sys.modules["gguf"]  # theirs has the same name
    sys.path.insert(0, args.gguf_py)
    theirs, numbers = importlib.import_module("gguf.quants"), importlib.import_module("gguf").GGMLQuantizationType
    random, tensors = np.random.RandomState(1), {}
    for name, type in ours.TYPES.items():
        if not type.q:
            continue
        blocks = random_blocks(random, type)
        raw, shape = blocks.view("u1").reshape(1, -1), (1, len(blocks) * type.weights)
        with np.errstate(all="ignore"):
            floats, mine = theirs.dequantize(raw, numbers[name]), ours.dequantise(raw[0], name, shape)
        if not np.all((floats.view("u4") == mine.view("u4")) | np.isnan(floats) & np.isnan(mine)):
            raise SystemExit(f"gguf.py unpacks {name} otherwise")
        values = random.normal(size=(64, 256)).astype("f4")
        try:
            if not np.array_equal(theirs.quantize(values, numbers[name]).reshape(-1), ours.quantise(values, name)):
                raise SystemExit(f"gguf.py packs {name} otherwise")
        except NotImplementedError:
            pass
        tensors[name] = ours.Tensor(name, shape, raw[0])
        tensors[name + ".floats"] = ours.Tensor.pack(floats)
    ours.write(args.output, {"general.architecture": "blocks", "blocks.command": "scripts/expect/blocks.py"}, tensors)


if __name__ == "__main__":
    main()
