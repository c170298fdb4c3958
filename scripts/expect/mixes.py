#!/usr/bin/python3
"""Which type llama-quantize gives each tensor, for models of several shapes: what tests/test_mixes.c expects.

    scripts/expect/mixes.py ~/oracle/build/bin/llama-quantize > tests/data/mixes.txt

The models have right names and row lengths, and two rows in every matrix: that is all it looks at (--dry-run).
"""
import itertools
import re
import subprocess
import sys
import tempfile

import numpy as np

import gguf

PRESETS = ("F16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_1 Q4_0 IQ4_NL IQ4_XS MXFP4_MOE "
           "Q3_K_L Q3_K_M Q3_K_S Q2_K").split()

# family, layers, columns, columns of ffn_down, heads, key heads, experts, whether the embedding is the output, too
SHAPES = [
    ("gpt2", 1, 256, 512, 4, 4, 0, True),
    ("gpt2", 6, 384, 1536, 6, 6, 0, True),
    ("gpt2", 40, 512, 2048, 8, 8, 0, False),
    ("gpt2", 5, 80, 320, 4, 4, 0, True),
    ("llama", 2, 256, 768, 4, 1, 0, True),
    ("llama", 7, 64, 172, 8, 4, 0, True),
    ("llama", 22, 256, 352, 8, 2, 0, False),
    ("llama", 33, 288, 768, 6, 6, 0, False),
    ("llama", 80, 256, 512, 8, 1, 0, False),
    ("qwen2", 80, 256, 512, 4, 4, 0, False),
    ("llama", 32, 256, 512, 8, 2, 8, False),
    ("llama", 16, 256, 512, 8, 2, 4, True),
]


def kinds_of(family, n_expert, tied):
    """Names of matrices: those beside the layers, those in each."""
    attention = ["attn_qkv"] if family == "gpt2" else ["attn_q", "attn_k", "attn_v"]
    ffn = ["ffn_up", "ffn_down"] if family == "gpt2" else ["ffn_gate", "ffn_up", "ffn_down"]
    return (["token_embd"] + ([] if tied else ["output"]),
            attention + ["attn_output"] + [name + ("_exps" if n_expert else "") for name in ffn])


def write_model(path, family, n_layer, cols, down, n_head, n_head_kv, n_expert, tied):
    keys = {"context_length": 64, "embedding_length": cols, "feed_forward_length": down, "block_count": n_layer,
            "attention.head_count": n_head, "attention.head_count_kv": n_head_kv, "vocab_size": 2}
    if n_expert:
        keys.update({"expert_count": n_expert, "expert_used_count": 2})
    metadata = {"general.architecture": family, "tokenizer.ggml.model": "no_vocab"}
    metadata.update({f"{family}.{key}": np.uint32(value) for key, value in keys.items()})
    norm = "layer_norm_epsilon" if family == "gpt2" else "layer_norm_rms_epsilon"
    metadata[f"{family}.attention.{norm}"] = np.float32(1e-5)
    outside, inside = kinds_of(family, n_expert, tied)
    shapes = {name: (2, cols) for name in outside}
    shapes["output_norm"] = (cols,)
    for layer in range(n_layer):
        for name in inside:
            row = (2, down if name.startswith("ffn_down") else cols)
            shapes[f"blk.{layer}.{name}"] = (n_expert,) + row if name.endswith("_exps") else row
        shapes[f"blk.{layer}.ffn_norm"] = (cols,)
        if n_expert:
            shapes[f"blk.{layer}.ffn_gate_inp"] = (n_expert, cols)
    gguf.write(path, metadata, {name + ".weight": gguf.Tensor.pack(np.zeros(shape, "f4"), "F32")
                                for name, shape in shapes.items()})


def types_of(program, path, preset):
    """{name of a tensor: type}, as llama-quantize prints them."""
    output = subprocess.run([program, "--dry-run", path, preset], capture_output=True, text=True, check=True)
    line = re.compile(r"\[ *\d+/ *\d+\] (\S+)\.weight +- \[.*\], type = +(\S+), size = .*?(?:\((\S+)\))?$")
    found = (line.match(text) for text in (output.stdout + output.stderr).splitlines())
    return {match[1]: (match[3] or match[2]).upper() for match in found if match}


def summary(types, n_layer, outside, inside):
    """Kinds with the same types together: "attn_q,attn_k Q4_K*12"; types in the order of layers."""
    groups = {}
    for name in outside + inside:
        names = [name] if name in outside else [f"blk.{layer}.{name}" for layer in range(n_layer)]
        runs = [(kind, len(list(run))) for kind, run in itertools.groupby(types[name] for name in names)]
        text = " ".join(kind + (f"*{n}" if n > 1 else "") for kind, n in runs)
        groups.setdefault(text, []).append(name)
    return "; ".join(",".join(names) + " " + text for text, names in groups.items())


def main():
    print("# Made by scripts/expect/mixes.py from llama-quantize's own words (llama.cpp 0.5.0, September 2026).")
    for shape in SHAPES:
        family, n_layer, cols, down, n_head, n_head_kv, n_expert, tied = shape
        print(f"model {family} layers {n_layer} cols {cols} down {down} heads {n_head} {n_head_kv} "
              f"experts {n_expert} tied {tied:d}")
        outside, inside = kinds_of(family, n_expert, tied)
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            write_model(file.name, *shape)
            for preset in PRESETS:
                types = types_of(sys.argv[1], file.name, preset)
                kept = [name for name in types if "norm" in name or name.endswith("gate_inp")]
                assert kept and all(types[name] == "F32" for name in kept)
                print(f"{preset}: {summary(types, n_layer, outside, inside)}")


if __name__ == "__main__":
    main()
