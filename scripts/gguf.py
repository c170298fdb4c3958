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

# Sixteen values that are not evenly spaced: IQ4's, and E2M1 doubled (OCP Microscaling Formats 1.0, section 5.3.3).
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], "f4")
E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], "f4")


class Type:
    """A tensor dtype: how a block of its weights lies (ggml's ggml-common.h).

        weight = d·scale·(q − zero) − d_min·min, or d·scale·values[q]

    Small blocks have d and a minimum m = −min alone. Where whole numbers lie is told from their lowest bits up, as
    (field, bits, run): the lowest bits of a run of so many bytes are the first numbers, the bits above them the next
    ones, then comes the next run."""

    def __init__(self, number, file_type, fields, weights=1, q=(), zero=0, values=None, scales=(), scale_zero=0,
                 span=32, scale_reach=None):
        self.number, self.file_type = number, file_type  # ggml_type; general.file_type of a file of them
        self.layout, self.weights = np.dtype(fields), weights  # of a block
        self.q, self.zero, self.values = q, zero, values
        self.span = span  # weights that share a scale
        self.scales, self.scale_zero = scales, scale_zero  # of a large block's spans
        self.scale_reach = scale_reach  # what the scale farthest from 0 is stored as

    @property
    def bits(self):
        return sum(bits for _, bits, _ in self.q)


SIX_BITS = ("six", "u1", 12)
TYPES = {
    "F32": Type(0, 0, [("q", "<f4")]),
    "F16": Type(1, 1, [("q", "<f2")]),
    "BF16": Type(30, 32, [("q", "<u2")]),  # the upper half of a binary32
    "Q8_0": Type(8, 7, [("d", "<f2"), ("q", "i1", 32)], 32, [("q", 8, 1)]),
    "Q4_0": Type(2, 2, [("d", "<f2"), ("q", "u1", 16)], 32, [("q", 4, 16)], 8),
    "Q4_1": Type(3, 3, [("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)], 32, [("q", 4, 16)]),
    "Q5_0": Type(6, 8, [("d", "<f2"), ("high", "u1", 4), ("q", "u1", 16)], 32, [("q", 4, 16), ("high", 1, 1)], 16),
    "Q5_1": Type(7, 9, [("d", "<f2"), ("m", "<f2"), ("high", "u1", 4), ("q", "u1", 16)], 32,
                 [("q", 4, 16), ("high", 1, 1)]),
    "Q2_K": Type(10, 10, [("scales", "u1", 16), ("q", "u1", 64), ("d", "<f2"), ("d_min", "<f2")], 256, [("q", 2, 32)],
                 scales=[("scales", 4, 16)], span=16, scale_reach=15),
    "Q3_K": Type(11, 11, [("high", "u1", 32), ("q", "u1", 64), ("scales", "u1", 8), ("scales_high", "u1", 4),
                          ("d", "<f2")], 256, [("q", 2, 32), ("high", 1, 32)], 4,
                 scales=[("scales", 4, 8), ("scales_high", 2, 4)], scale_zero=32, span=16, scale_reach=-32),
    "Q4_K": Type(12, 14, [("d", "<f2"), ("d_min", "<f2"), SIX_BITS, ("q", "u1", 128)], 256, [("q", 4, 32)],
                 scale_reach=63),
    "Q5_K": Type(13, 16, [("d", "<f2"), ("d_min", "<f2"), SIX_BITS, ("high", "u1", 32), ("q", "u1", 128)], 256,
                 [("q", 4, 32), ("high", 1, 32)], scale_reach=63),
    "Q6_K": Type(14, 18, [("q", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("d", "<f2")], 256,
                 [("q", 4, 64), ("high", 2, 32)], 32, scales=[("scales", 8, 1)], span=16, scale_reach=-128),
    "IQ4_NL": Type(20, 25, [("d", "<f2"), ("q", "u1", 16)], 32, [("q", 4, 16)], values=IQ4),
    "IQ4_XS": Type(23, 30, [("d", "<f2"), ("scales_high", "u1", 2), ("scales", "u1", 4), ("q", "u1", 128)], 256,
                   [("q", 4, 16)], values=IQ4, scales=[("scales", 4, 1), ("scales_high", 2, 1)], scale_zero=32,
                   scale_reach=-32),
    "MXFP4": Type(39, 38, [("e", "u1"), ("q", "u1", 16)], 32, [("q", 4, 16)], values=E2M1),
}
NAMES = {type.number: name for name, type in TYPES.items()}

# llama-quantize takes these where rows are no whole number of blocks of 256.
INSTEAD = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "IQ4_XS": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}


def fitting(dtype, cols):
    """dtype, or the one that stands in for it where rows of so many columns do not divide into its blocks."""
    while cols % TYPES[dtype].weights:
        dtype = INSTEAD.get(dtype, "F16")
    return dtype


def get_numbers(blocks, pieces):
    """The whole numbers (int32) [n][count] of a type's q or scales."""
    total, shift = np.int32(0), 0
    for field, bits, run in pieces:
        part = blocks[field].astype("i4")
        if bits < 8:
            runs = part.reshape(len(blocks), -1, 1, run) >> np.arange(0, 8, bits)[:, None]
            part = (runs & (1 << bits) - 1).reshape(len(blocks), -1)
        total, shift = total | part << shift, shift + bits
    return total


def put_numbers(blocks, pieces, numbers):
    """The inverse."""
    for field, bits, run in pieces:
        part = numbers
        if bits < 8:
            runs = (part & (1 << bits) - 1).reshape(len(blocks), -1, 8 // bits, run) << np.arange(0, 8, bits)[:, None]
            part = runs.sum(2).reshape(len(blocks), -1)
        blocks[field], numbers = part, numbers >> bits


def get_scales(blocks, type):
    """(scales, minima or None), float32 [n][spans], of blocks."""
    fields = type.layout.names
    if "e" in fields:  # 2^(e − 128), half of what E8M0 says, because the values are doubled
        return np.ldexp(np.float32(1), blocks["e"].astype("i4") - 128)[:, None], None
    d = blocks["d"].astype("f4")[:, None]
    d_min = blocks["d_min"].astype("f4")[:, None] if "d_min" in fields else None
    if "six" in fields:
        a, b, c = np.split(blocks["six"], 3, axis=1)
        return (d * np.concatenate([a & 63, c & 15 | a >> 6 << 4], 1).astype("f4"),
                d_min * np.concatenate([b & 63, c >> 4 | b >> 6 << 4], 1).astype("f4"))
    if type.scales:
        scales = get_numbers(blocks, type.scales) - type.scale_zero
        if d_min is not None:
            return d * scales[:, :16].astype("f4"), d_min * scales[:, 16:].astype("f4")
        return d * scales.astype("f4"), None
    return d, -blocks["m"].astype("f4")[:, None] if "m" in fields else None


def put_scales(blocks, type, scales, mins):
    """Stores them as near as the type can; returns what a weight is to be divided by, and what is added before."""
    fields = type.layout.names
    if "e" in fields:
        blocks["e"] = np.clip(scales[:, 0], 0, 254)
        return get_scales(blocks, type)
    if not type.scale_reach:  # small blocks: weights are divided by what is not yet rounded, as ggml does
        blocks["d"] = scales[:, 0]
        if mins is not None:
            blocks["m"] = -mins[:, 0]
        return scales, mins

    def whole(numbers, field, reach):
        """The numbers as multiples of a d that is stored, and gives the largest of a block that multiple."""
        blocks[field] = largest(numbers) / np.float32(reach)
        d = blocks[field].astype("f4")[:, None]
        low, high = (0, reach) if reach > 0 else (reach, -reach - 1)
        return np.clip(np.rint(numbers * inverse(d)), low, high).astype("i4")

    stored = whole(scales, "d", type.scale_reach)
    stored_mins = whole(mins, "d_min", type.scale_reach) if mins is not None else None
    if "six" in fields:
        blocks["six"] = np.concatenate([stored[:, :4] | stored[:, 4:] >> 4 << 6,
                                        stored_mins[:, :4] | stored_mins[:, 4:] >> 4 << 6,
                                        stored[:, 4:] & 15 | (stored_mins[:, 4:] & 15) << 4], 1)
    else:
        both = stored if mins is None else np.concatenate([stored, stored_mins], 1)
        put_numbers(blocks, type.scales, both + type.scale_zero)
    return get_scales(blocks, type)


def inverse(d):
    return np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)


def largest(x):
    """The number farthest from 0, with its sign, along the last axis."""
    return np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)[..., 0]


def quantise_blocks(x, dtype):
    """x [n][weights of a block] → n blocks. The weight that is farthest from 0 (with minima: the largest and the
    smallest) gets the last step. quantize and llama-quantize search for scales with a smaller error."""
    type = TYPES[dtype]
    blocks, x = np.zeros(len(x), type.layout), x.reshape(len(x), type.weights // type.span, type.span)
    fields, mins, extreme = type.layout.names, None, largest(x)
    if "m" in fields or "d_min" in fields:
        low = x.min(2) if "m" in fields else np.minimum(x.min(2), 0)
        scales, mins = (x.max(2) - low) / np.float32(2 ** type.bits - 1), -low
    elif "e" in fields:  # the exponent that puts the largest in [4, 8), where E2M1 ends with 6
        scales = np.frexp(np.abs(extreme))[1] - 3 + 127
        scales[extreme == 0] = 0
    elif type.values is not None:
        scales = extreme / type.values[0]
    else:
        scales = extreme / np.float32(-type.zero) if type.zero else np.abs(extreme) / np.float32(127)
    divisors, mins = put_scales(blocks, type, scales, mins)
    steps = (x if mins is None else x + mins[:, :, None]) * inverse(divisors)[:, :, None]
    if type.values is None:
        steps = steps + np.float32(type.zero)
        q = np.trunc(steps + np.copysign(np.float32(0.5), steps))  # halves away from zero
        q = q if dtype == "Q8_0" else np.clip(q, 0, 2 ** type.bits - 1)
    else:
        values, indices = np.unique(type.values, return_index=True)
        q = indices[np.searchsorted((values[1:] + values[:-1]) / 2, steps)]
    put_numbers(blocks, type.q, q.reshape(len(x), -1).astype("i4"))
    return blocks


def dequantise_blocks(blocks, dtype):
    """n blocks → float32 [n][weights of a block]."""
    type = TYPES[dtype]
    scales, mins = get_scales(blocks, type)
    q = get_numbers(blocks, type.q)
    values = type.values[q] if type.values is not None else (q - type.zero).astype("f4")
    weights = scales[:, :, None] * values.reshape(*scales.shape, -1)
    return (weights if mins is None else weights - mins[:, :, None]).reshape(len(blocks), -1)


def by_parts(function, rows, dtype):
    """function(rows, dtype), a part of the rows at a time, so that what lies between takes little memory."""
    return np.concatenate([function(part, dtype) for part in np.array_split(rows, len(rows) // 65536 + 1)])


def quantise(values, dtype):
    """The bytes (uint8) of float32 values in a tensor dtype; the last axis must hold whole blocks."""
    values, type = np.ascontiguousarray(values, "<f4"), TYPES[dtype]
    if values.shape[-1] % type.weights:
        raise ValueError(f"a row of {values.shape[-1]} weights is no whole number of {dtype} blocks")
    if dtype == "BF16":
        bits = values.view("<u4")
        nearest_even = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        quiet_nan = bits >> 16 | 0x40
        raw = np.where(np.isnan(values), quiet_nan, nearest_even).astype("<u2")
    elif type.q:
        raw = by_parts(quantise_blocks, values.reshape(-1, type.weights), dtype)
    else:
        raw = values.astype(type.layout["q"])
    return raw.reshape(-1).view(np.uint8)


def dequantise(raw, dtype, shape):
    """The inverse of quantise: float32 of the given shape."""
    blocks = np.frombuffer(raw, TYPES[dtype].layout)
    if dtype == "BF16":
        values = (blocks["q"].astype("<u4") << 16).view("<f4")
    elif TYPES[dtype].q:
        values = by_parts(dequantise_blocks, blocks, dtype)
    else:
        values = blocks["q"].astype("f4")
    return values.reshape(shape)


@dataclass
class Tensor:
    dtype: str       # a key of TYPES
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
        if number not in NAMES:
            raise ValueError(f"{path}: tensor {name} has type {number}; known here are {', '.join(TYPES)}")
        places.append((name, NAMES[number], shape, offset))
    start = reader.at + padding(reader.at, int(metadata.get("general.alignment", ALIGNMENT)))
    tensors = {}
    for name, dtype, shape, offset in places:
        reader.at = start + offset
        n_blocks = math.prod(shape) // TYPES[dtype].weights
        tensors[name] = Tensor(dtype, shape, reader.bytes(n_blocks * TYPES[dtype].layout.itemsize))
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
                 struct.pack("<IQ", TYPES[t.dtype].number, offset)]
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
        print(f"{name:32} {t.dtype:6} {list(t.shape)}")


if __name__ == "__main__":
    main()
