#!/usr/bin/env python3
"""The folders in tests/data/torch, whose weights torch.save wrote, from models in tests/data/reference.

    scripts/expect/torch_folders.py

Needs PyTorch. gpt_neo is a state dict in F32 with the masks and the tied head that such files have; opt is one in F16,
in two parts, of which the second holds parameters, in another protocol of pickle.
"""
import collections
import json
import os
import tempfile

import folders
import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "data")
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def tensors_of(path):
    """A safetensors file's tensors."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    out = collections.OrderedDict()
    for name, info in header.items():
        if name != "__metadata__":
            begin, end = info["data_offsets"]
            out[name] = torch.frombuffer(data[begin:end], dtype=TYPES[info["dtype"]]).reshape(info["shape"])
    return out


def folder_of(name):
    """The same model's config.json, where it is to lie, and its tensors."""
    folder = os.path.join(ROOT, "torch", name)
    with tempfile.TemporaryDirectory() as scratch:
        folders.convert(os.path.join(ROOT, "reference", name + ".gguf"), scratch)
        os.makedirs(folder, exist_ok=True)
        os.replace(os.path.join(scratch, "config.json"), os.path.join(folder, "config.json"))
        return folder, tensors_of(os.path.join(scratch, "model.safetensors"))


def write_gpt_neo():
    folder, tensors = folder_of("gpt_neo")
    state = collections.OrderedDict()
    for name, tensor in tensors.items():
        state[name] = tensor
        if name.endswith("ln_1.weight"):
            before = name[:-len("ln_1.weight")] + "attn.attention."
            state[before + "bias"] = torch.tril(torch.ones(8, 8, dtype=torch.bool)).view(1, 1, 8, 8)
            state[before + "masked_bias"] = torch.tensor(-1e9)
    state["lm_head.weight"] = state["transformer.wte.weight"]
    state._metadata = collections.OrderedDict([("", {"version": 1}), ("transformer", {"version": 1})])
    torch.save(state, os.path.join(folder, "pytorch_model.bin"))


def write_opt():
    folder, tensors = folder_of("opt")
    names, index = list(tensors), {}
    for i in range(2):
        file = "pytorch_model-%05d-of-00002.bin" % (i + 1)
        part = {name: tensors[name].half() for name in names[i::2]}
        if i == 1:
            part = {name: torch.nn.Parameter(tensor) for name, tensor in part.items()}
        torch.save(part, os.path.join(folder, file), pickle_protocol=2 + 2 * i)
        index.update((name, file) for name in part)
    with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": index}, file, indent=1)


write_gpt_neo()
write_opt()
