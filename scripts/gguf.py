#!/usr/bin/python3
"""Reads and writes GGUF checkpoints (versions 2 and 3, little-endian) with numpy.

    metadata, tensors = gguf.read("model.gguf")
    tensors["token_embd.weight"].numpy()                        # float32 [rows][cols]
    tensors["output.weight"] = gguf.Tensor.pack(array, "Q8_0")  # quantised along the last axis
    gguf.write("copy.gguf", metadata, tensors)

Metadata is a dict in the file's order whose values carry their own types: numpy scalars (np.uint32(7),
np.float32(1e-5)), bool, str; for arrays numpy arrays, lists of str, lists of lists. Reading a file
and writing what was read gives the same content again. Format: docs/gguf.md in the ggml repository.
"""
import argparse
import math
import struct
from dataclasses import dataclass

import numpy as np

MAGIC = b"GGUF"
ALIGNMENT = 32  # of tensor data, unless general.alignment says otherwise

# Value types of metadata; 8 (string) and 9 (array) are no numbers.
SCALARS = {number: np.dtype(name) for number, name in [
    (0, "u1"), (1, "i1"), (2, "<u2"), (3, "<i2"), (4, "<u4"), (5, "<i4"), (6, "<f4"), (7, "?"),
    (10, "<u8"), (11, "<i8"), (12, "<f8")]}
SCALAR_NUMBERS = {dtype: number for number, dtype in SCALARS.items()}
BOOL, STRING, ARRAY = 7, 8, 9

# How a tensor's weights lie: one block of each dtype, with the weights in q after the block's scale d.
BLOCKS = {
    "F32": np.dtype([("q", "<f4")]),
    "F16": np.dtype([("q", "<f2")]),
    "BF16": np.dtype([("q", "<u2")]),  # the upper half of a binary32
    "Q8_0": np.dtype([("d", "<f2"), ("q", "i1", 32)]),  # d·q
    "Q4_0": np.dtype([("d", "<f2"), ("q", "u1", 16)]),  # d·(nibble − 8); j (low) and j + 16 in byte j
}
BLOCK_WEIGHTS = {"F32": 1, "F16": 1, "BF16": 1, "Q8_0": 32, "Q4_0": 32}
DTYPE_NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "BF16": 30}
DTYPE_NAMES = {number: name for name, number in DTYPE_NUMBERS.items()}


def quantise(values, dtype):
    """The bytes (uint8) of float32 values in a tensor dtype; the last axis must hold whole blocks."""
    values = np.ascontiguousarray(values, "<f4")
    if values.shape[-1] % BLOCK_WEIGHTS[dtype]:
        raise ValueError(f"a row of {values.shape[-1]} weights is no whole number of {dtype} blocks")
    if dtype == "BF16":
        bits = values.view("<u4")
        nearest_even = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        quiet_nan = bits >> 16 | 0x40
        raw = np.where(np.isnan(values), quiet_nan, nearest_even).astype("<u2")
    elif dtype in ("Q8_0", "Q4_0"):
        raw = quantise_blocks(values.reshape(-1, 32), dtype)
    else:
        raw = values.astype(BLOCKS[dtype]["q"])
    return raw.reshape(-1).view(np.uint8)


def quantise_blocks(x, dtype):
    """x [n][32] → n blocks. The scale puts the largest weight on the last step: ±127 or, for Q4_0, −8."""
    largest = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)
    d = np.abs(largest) / np.float32(127) if dtype == "Q8_0" else largest / np.float32(-8)
    steps = x * np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)
    blocks = np.empty(len(x), BLOCKS[dtype])
    blocks["d"] = d[:, 0]
    if dtype == "Q8_0":
        blocks["q"] = np.trunc(steps + np.copysign(0.5, steps.astype("f8")))  # halves away from zero
    else:
        nibbles = np.minimum(steps + np.float32(8.5), 15).astype("u1")
        blocks["q"] = nibbles[:, :16] | nibbles[:, 16:] << 4
    return blocks


def dequantise(raw, dtype, shape):
    """The inverse of quantise: float32 of the given shape."""
    blocks = np.frombuffer(raw, BLOCKS[dtype])
    if dtype == "BF16":
        values = (blocks["q"].astype("<u4") << 16).view("<f4")
    elif dtype == "Q8_0":
        values = blocks["d"][:, None].astype("f4") * blocks["q"]
    elif dtype == "Q4_0":
        nibbles = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1)
        values = blocks["d"][:, None].astype("f4") * (nibbles.astype("f4") - 8)
    else:
        values = blocks["q"].astype("f4")
    return values.reshape(shape)


@dataclass
class Tensor:
    dtype: str       # a key of BLOCKS
    shape: tuple     # slowest first, as numpy: a matrix is (rows, cols)
    raw: np.ndarray  # uint8, as in the file

    @classmethod
    def pack(cls, values, dtype="F32"):
        values = np.asarray(values)
        return cls(dtype, values.shape, quantise(values, dtype))

    def numpy(self):
        return dequantise(self.raw, self.dtype, self.shape)


class Reader:
    """Walks through the bytes of a file."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, n):
        if n > len(self.data) - self.at:
            raise ValueError(f"the file ends within the {n} bytes at {self.at}")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.bytes(struct.calcsize(code)))[0]

    def string(self):
        return self.bytes(self.number("Q")).tobytes().decode("utf-8", "surrogateescape")

    def value(self, type):
        if type == STRING:
            return self.string()
        if type == ARRAY:
            element, n = self.number("I"), self.number("Q")
            if element in (STRING, ARRAY):
                return [self.value(element) for _ in range(n)]
            return np.frombuffer(self.bytes(n * SCALARS[element].itemsize), SCALARS[element])
        if type not in SCALARS:
            raise ValueError(f"unknown type {type} of metadata")
        value = np.frombuffer(self.bytes(SCALARS[type].itemsize), SCALARS[type])[0]
        return bool(value) if type == BOOL else value


def padding(n, alignment):
    return -n % alignment


def read(path):
    """(metadata, tensors): dicts in the file's order. The tensors' bytes stay in the mapped file."""
    reader = Reader(np.memmap(path, np.uint8, "r"))
    if reader.bytes(4).tobytes() != MAGIC:
        raise ValueError(f"{path}: not a GGUF file")
    version = reader.number("I")
    if version not in (2, 3):
        raise ValueError(f"{path}: GGUF version {version}; 2 and 3 are read here")
    n_tensors, n_metadata = reader.number("Q"), reader.number("Q")
    metadata = {reader.string(): reader.value(reader.number("I")) for _ in range(n_metadata)}
    places = []
    for _ in range(n_tensors):
        name = reader.string()
        shape = tuple(reader.number("Q") for _ in range(reader.number("I")))[::-1]
        number, offset = reader.number("I"), reader.number("Q")
        if number not in DTYPE_NAMES:
            raise ValueError(f"{path}: tensor {name} has type {number}; known here are {', '.join(BLOCKS)}")
        places.append((name, DTYPE_NAMES[number], shape, offset))
    start = reader.at + padding(reader.at, int(metadata.get("general.alignment", ALIGNMENT)))
    tensors = {}
    for name, dtype, shape, offset in places:
        reader.at = start + offset
        n_blocks = math.prod(shape) // BLOCK_WEIGHTS[dtype]
        tensors[name] = Tensor(dtype, shape, reader.bytes(n_blocks * BLOCKS[dtype].itemsize))
    return metadata, tensors


def string_bytes(text):
    text = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(text)) + text


def value_bytes(value):
    """(type, bytes) of a metadata value."""
    if isinstance(value, str):
        return STRING, string_bytes(value)
    if isinstance(value, bool):
        return BOOL, bytes([value])
    if isinstance(value, list):
        elements = [value_bytes(element) for element in value]
        types = {type for type, _ in elements} or {STRING}
        if len(types) > 1 or types - {STRING, ARRAY}:
            raise TypeError("a list holds strings or arrays; numbers go into a numpy array")
        return ARRAY, struct.pack("<IQ", types.pop(), len(elements)) + b"".join(raw for _, raw in elements)
    if not isinstance(value, (np.generic, np.ndarray)):
        raise TypeError(f"{value!r} does not say its type: write np.uint32({value!r}) or the like")
    value = np.asarray(value)
    number = SCALAR_NUMBERS[value.dtype.newbyteorder("<")]
    if value.ndim == 0:
        return number, value.tobytes()
    return ARRAY, struct.pack("<IQ", number, value.size) + value.tobytes()


def write(path, metadata, tensors, version=3):
    """Writes a file; tensors are Tensor objects or arrays (stored as F32)."""
    tensors = {name: t if isinstance(t, Tensor) else Tensor.pack(t) for name, t in tensors.items()}
    alignment = int(metadata.get("general.alignment", ALIGNMENT))
    head = [MAGIC, struct.pack("<IQQ", version, len(tensors), len(metadata))]
    for key, value in metadata.items():
        type, raw = value_bytes(value)
        head += [string_bytes(key), struct.pack("<I", type), raw]
    offset = 0
    for name, t in tensors.items():
        head += [string_bytes(name), struct.pack(f"<I{len(t.shape)}Q", len(t.shape), *t.shape[::-1]),
                 struct.pack("<IQ", DTYPE_NUMBERS[t.dtype], offset)]
        offset += len(t.raw) + padding(len(t.raw), alignment)
    head = b"".join(head)
    with open(path, "wb") as file:
        file.write(head + bytes(padding(len(head), alignment)))
        for t in tensors.values():
            file.write(t.raw.tobytes() + bytes(padding(len(t.raw), alignment)))


def main():
    parser = argparse.ArgumentParser(description="Prints a GGUF file's metadata and tensors.")
    parser.add_argument("file")
    metadata, tensors = read(parser.parse_args().file)
    for key, value in metadata.items():
        is_array = isinstance(value, (list, np.ndarray))
        print(f"{key} = {f'array of {len(value)}' if is_array else value}")
    for name, t in tensors.items():
        print(f"{name:32} {t.dtype:5} {list(t.shape)}")


if __name__ == "__main__":
    main()
