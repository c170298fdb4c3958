#!/usr/bin/python3
"""Every family three ways: llama.cpp, float64 (formula.py) and attn, on the small models of family_models.py and on
those that llama.cpp writes of each architecture.

    scripts/expect/oracle_families.py [--oracle DIR] [--attn build/libattn.so] [--varied N] [--json FILE] [NAME …]

DIR is what ../shared/oracle/build.sh made (default ~/oracle). Prints the normalised mean square of differences between
logits, Σ(a − b)²/Σb², for each pair:

    f64:llama    float64 of the published formula, and llama.cpp
    same:llama   float64 of what llama.cpp computes where it knowingly deviates (deviations), and llama.cpp: nothing but
                 this is between the two
    attn:llama, attn:f64    where libattn opens the file
    largest      the largest difference of attn's logits from float64's, as a share of the largest logit

llama.cpp's own models carry every optional tensor and key. What real files of a family lack is left out here: all keys
but those of KEYS, and the tensors of STRANGE. Of experts that are almost equally good, rounding chooses others: rows of
models with experts may stand out for that alone when --varied draws them."""
import argparse
import ctypes
import json
import math
import os
import re
import subprocess
import tempfile
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

import family_models
import formula
import gguf
from families import FAMILIES, read_config

BASE_KEYS = ("context_length embedding_length feed_forward_length block_count vocab_size attention.head_count "
             "attention.head_count_kv attention.key_length attention.value_length rope.dimension_count "
             "rope.freq_base").split()
EXPERTS = ["expert_count", "expert_used_count"]
GRANITE = ["attention.scale", "embedding_scale", "residual_scale", "logit_scale"]
KEYS = {
    "gptneox": ["use_parallel_residual"],
    "gemma2": ["attn_logit_softcapping", "final_logit_softcapping", "attention.sliding_window"],
    "gemma3": ["attention.sliding_window"],
    "phi3": ["rope.scaling.original_context_length", "rope.scaling.attn_factor", "attention.sliding_window"],
    "mpt": ["attention.clamp_kqv", "attention.max_alibi_bias"],
    "llama": EXPERTS,
    "qwen2moe": [*EXPERTS, "expert_feed_forward_length", "expert_shared_feed_forward_length"],
    "qwen3moe": [*EXPERTS, "expert_feed_forward_length"],
    "olmoe": EXPERTS,
    "granite": GRANITE,
    "granitemoe": [*EXPERTS, *GRANITE, "expert_shared_feed_forward_length"],
    "gpt-oss": [*EXPERTS, "expert_feed_forward_length", "attention.sliding_window"],
    "olmo": ["attention.clamp_kqv"],
    "olmo2": ["attention.sliding_window"],
    "falcon": ["tensor_data_layout"],
    "command-r": ["logit_scale"],
    "qwen3vl": ["rope.dimension_sections"],
    "lfm2": ["shortconv.l_cache", "attention.sliding_window"],
    "qwen35": ["ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "ssm.group_count",
               "attention.recurrent_layers", "rope.dimension_sections"],
    "cohere2": ["logit_scale", "attention.sliding_window"],
}
STRANGE_ALWAYS = r"\.(input_)?scale$"
STRANGE = {
    "qwen2": r"^output\.bias",
    "qwen3": r"^cls|attn_[qkv]\.bias",
    "qwen3vl": r"^cls|attn_[qkv]\.bias",
    "mpt": r"attn_k_norm|act\.scales",  # a norm without that of q; AWQ
    "baichuan": r"attn_[qkv]\.bias",
    "gemma": r"attn_[qkv]\.bias",
    "gemma2": r"attn_[qkv]\.bias",
    "gemma3": r"attn_[qkv]\.bias|^dense",
}
# The oracle's file of a family, where it is not FAMILY-dense.gguf.
FILES = {"baichuan": [],  # two layers: llama.cpp knows by 32 and 40 what to compute
         "llama": ["llama-dense", "llama-moe"], "granitemoe": ["granitemoe-dense", "granitemoe-moe"],
         **{family: [family + "-moe"] for family in ("qwen2moe", "qwen3moe", "olmoe", "gpt-oss")}}


def without_strange(path):
    """(metadata, tensors) of one of llama.cpp's own models, as a real file has them."""
    metadata, tensors = gguf.read(path)
    family = metadata["general.architecture"]
    norm = "layer_norm_epsilon" if FAMILIES[family]["norm"] == "layer" else "layer_norm_rms_epsilon"
    kept = {f"{family}.{key}" for key in [*BASE_KEYS, "attention." + norm, *KEYS.get(family, [])]}
    metadata = {key: value for key, value in metadata.items() if key in kept or key == "general.architecture"}
    metadata["tokenizer.ggml.model"] = "no_vocab"
    strange = "|".join(filter(None, [STRANGE_ALWAYS, STRANGE.get(family)]))
    return metadata, {name: tensor for name, tensor in tensors.items() if not re.search(strange, name)}


def with_vocabulary(metadata, n):
    return {**metadata, "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [f"t{i}" for i in range(n)],
            "tokenizer.ggml.scores": np.zeros(n, "<f4"),
            "tokenizer.ggml.token_type": np.array([2] + [1] * (n - 1), "<i4"),
            "tokenizer.ggml.unknown_token_id": np.uint32(0)}


def table_gelu(x):
    """ggml's: the tanh formula, from and to binary16, but for numbers beyond 10."""
    rounded = F.gelu(x.half().double(), approximate="tanh").half().double()
    return torch.where(x <= -10, torch.zeros_like(x), torch.where(x >= 10, x, rounded))


formula.ACTIVATIONS["table_gelu"] = table_gelu


# Keys that folders and attn have in a family, and llama.cpp does not read there.
UNREAD = {"gemma2": ("attention.scale",), "mpt": ("attention.scale",), "smollm3": ("rope.layer_pattern",),
          "olmoe": ("attention.clamp_kqv", "expert_weights_norm"), "qwen3moe": ("expert_weights_norm",)}


def deviations(metadata):
    """Changes of Config that make it what llama.cpp computes."""
    config, family = read_config(metadata), metadata["general.architecture"]
    changes = {}
    if config.mlp in ("gelu", "gelu_tanh"):  # one table for both, of binary16
        changes["mlp"] = "table_gelu"
    plain = read_config({key: value for key, value in metadata.items() if not key.endswith(UNREAD.get(family, ()))})
    for field in "score_scale", "clamp", "renormalised", "ropes":
        if getattr(plain, field) != getattr(config, field):
            changes[field] = getattr(plain, field)
    if family == "phi3":  # leaves the window out
        changes["windows"] = (None,) * config.n_layer
    if any(rope and rope.yarn for rope in config.ropes):
        # Rounds YaRN's bounds to whole pairs, for gpt-oss too, whose authors do not; reads neither the bounds nor the
        # magnitude that a file states.
        attn_factor = metadata.get(f"{family}.rope.scaling.attn_factor", 1.0)
        changes["ropes"] = tuple(
            rope and (replace(rope, whole_pairs=True, beta_fast=32.0, beta_slow=1.0,
                              magnitude=attn_factor * (0.1 * math.log(rope.scale) + 1)) if rope.yarn else rope)
            for rope in config.ropes)
    return changes


def halved(matrix, config):
    """The rows of a projection of heads, so that RoPE's pairs of neighbours lie in two halves."""
    order = np.arange(config.d_head)
    order[:config.rope_dim] = np.concatenate([order[:config.rope_dim:2], order[1:config.rope_dim:2]])
    return matrix.reshape(-1, config.d_head, matrix.shape[-1])[:, order].reshape(matrix.shape)


def as_known(metadata, tensors):
    """The same function as a file that llama.cpp computes exactly: all weights as floats, since it rounds to 8 bits
    what it multiplies quantised ones with; gptj as phi2, gpt_neo (its text shorter than its window) as gpt2."""
    family, config = metadata["general.architecture"], read_config(metadata)
    known = {"gptj": "phi2", "gpt_neo": "gpt2"}.get(family)
    weights = {name: tensor.numpy() for name, tensor in tensors.items()}
    if not known:
        return metadata, weights
    metadata = {key.replace(family + ".", known + "."): value for key, value in metadata.items()
                if "sliding_window" not in key and "attention.scale" not in key}
    metadata["general.architecture"] = known
    for layer in range(config.n_layer):
        block, no_bias = f"blk.{layer}.", np.zeros(config.n_head * config.d_head, "f4")
        q, k, v = (f"{block}attn_{name}." for name in "qkv")
        if family == "gptj":
            for name in (q, k):
                weights[name + "weight"] = halved(weights[name + "weight"], config)
            weights.update({name + "bias": no_bias for name in (q, k, v, block + "attn_output.")})
        else:
            weights[q + "weight"] = weights[q + "weight"] * np.float32(config.score_scale * config.d_head ** 0.5)
            weights[block + "attn_qkv.weight"] = np.concatenate([weights.pop(name + "weight") for name in (q, k, v)])
            weights[block + "attn_qkv.bias"] = np.concatenate([no_bias] * 3)
    return metadata, weights


def nmse(a, b):
    a, b = a.astype("f8"), b.astype("f8")
    return float(((a - b) ** 2).sum() / (b ** 2).sum())


def oracle_logits(oracle, path, tokens, folder):
    out = os.path.join(folder, "logits")
    done = subprocess.run([os.path.join(oracle, "logits"), path, ",".join(map(str, tokens)), out], capture_output=True,
                          text=True)
    if done.returncode != 0:
        return None
    return np.fromfile(out, "<f4").reshape(len(tokens), -1)


class Attn:
    """libattn, by attn.h."""

    class Options(ctypes.Structure):
        _fields_ = [("n_ctx", ctypes.c_size_t), ("n_threads", ctypes.c_uint), ("cache", ctypes.c_int),
                    ("fast", ctypes.c_bool), ("probe", ctypes.c_void_p * 3), ("stop", ctypes.c_void_p),
                    ("stop_user", ctypes.c_void_p), ("beside", ctypes.c_void_p)]

    def __init__(self, path):
        self.library = ctypes.CDLL(os.path.abspath(path))
        for name in ("attn_model_open", "attn_session_new"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.attn_feed.restype = ctypes.c_bool

    def logits(self, path, tokens, n_vocab):
        """(logits or None, error)"""
        library, error = self.library, ctypes.create_string_buffer(512)
        model = ctypes.c_void_p(library.attn_model_open(path.encode(), None, error))
        session, out = ctypes.c_void_p(), np.zeros((len(tokens), n_vocab), "f4")
        if model:
            options = self.Options(n_ctx=len(tokens), n_threads=1, cache=1)
            session = ctypes.c_void_p(library.attn_session_new(model, ctypes.byref(options), error))
        ids = np.array(tokens, "i4")
        ok = bool(session) and library.attn_feed(session, ids.ctypes, ctypes.c_size_t(len(ids)), out.ctypes,
                                                 ctypes.c_size_t(len(ids)), error)
        library.attn_session_free(session)
        library.attn_model_close(model)
        return (out if ok else None), error.value.decode()


def cases(oracle, folder, n_varied):
    """(name, path of a file, number of tokens)"""
    models = family_models.MODELS
    if n_varied:
        models = [family_models.varied(model, seed)
                  for model in models if not model.omitted for seed in range(n_varied)]
    for model in models:
        path, n = os.path.join(folder, model.name + ".gguf"), model.n_tokens
        if model.name.startswith("gpt_neo"):  # which llama.cpp gets as a family without windows
            n = min(n, int(model.keys["attention.sliding_window"]))
        yield model.name, path, n, lambda: gguf.write(
            path, family_models.model_metadata(model), family_models.pack_weights(model))
    for family in FAMILIES if not n_varied else []:
        for file in FILES.get(family, [family + "-dense"]):
            source = os.path.join(oracle, "archs", file + ".gguf")
            path = os.path.join(folder, "llama.cpp.gguf")
            if os.path.exists(source):
                yield "llama.cpp's " + file, path, 40, lambda: gguf.write(path, *without_strange(source))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", default=os.path.expanduser("~/oracle"))
    parser.add_argument("--attn", help="libattn.so")
    parser.add_argument("--json", help="write the table there as well")
    parser.add_argument("--varied", type=int, metavar="N",
                        help="N variants of each small model, of other sizes and lengths")
    parser.add_argument("names", nargs="*", help="only those whose name, or file of llama.cpp's, begins so")
    args = parser.parse_args()
    torch.set_num_threads(1)
    attn, rows = Attn(args.attn) if args.attn else None, []
    print(f"{'model':34} {'f64:llama':>10} {'same:llama':>10} {'attn:llama':>10} {'attn:f64':>10} {'largest':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, path, n, write in cases(args.oracle, folder, args.varied):
            if args.names and not name.removeprefix("llama.cpp's ").startswith(tuple(args.names)):
                continue
            write()
            rows.append(compare(args.oracle, attn, name, path, n, folder))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


def compare(oracle, attn, name, path, n, folder):
    metadata, tensors = gguf.read(path)
    metadata = {key: np.array(value) if isinstance(value, np.ndarray) else value for key, value in metadata.items()}
    tensors = {name: gguf.Tensor(t.dtype, t.shape, np.array(t.raw))  # copied: the file is written over
               for name, t in tensors.items()}
    n_vocab = len(tensors["token_embd.weight"].numpy())
    tokens = np.random.RandomState(7).randint(n_vocab, size=n).tolist()
    exact = formula.Model(metadata, tensors).forward(tokens).numpy()
    same = formula.Model(metadata, tensors, **deviations(metadata)).forward(tokens).numpy()
    gguf.write(path, *as_known(metadata, tensors))
    theirs = oracle_logits(oracle, path, tokens, folder)
    gguf.write(path, metadata, tensors)
    row = {"model": name, "family": metadata["general.architecture"]}
    if theirs is not None:
        row.update({"f64:llama": nmse(exact, theirs), "same:llama": nmse(same, theirs)})
    ours, error = None, ""
    if attn:  # which opens no file without a vocabulary
        gguf.write(path, with_vocabulary(metadata, n_vocab), tensors)
        ours, error = attn.logits(path, tokens, n_vocab)
    if ours is not None:
        if theirs is not None:
            row["attn:llama"] = nmse(ours, theirs)
        row["attn:f64"] = nmse(ours, exact)
        row["largest"] = float(np.abs(ours - exact).max() / np.abs(exact).max())
    columns = ("f64:llama", "same:llama", "attn:llama", "attn:f64")
    numbers = " ".join(f"{row[key]:10.1e}" if key in row else f"{'':10}" for key in columns)
    last = f"{row['largest']:9.1e}" if "largest" in row else error.split(": ")[-1][:60]
    print(f"{name:34} {numbers} {last}", flush=True)
    return row


if __name__ == "__main__":
    main()
