#!/usr/bin/python3
"""The independent implementation: GPT-2 and Llama checkpoints (GGUF) in PyTorch, written from the papers.

Everything is the plain formula on whole matrices in float64, so that its rounding is far below that of
any engine compared with it. Model.forward calls a hook at every site that attn's probe.h names, with the
same names and values; the hook may look, or return something else to go on with.
"""
import argparse
import hashlib
import os
import re
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F

import gguf

EXAMPLES = """examples:
  scripts/reference.py make tests/data/reference
  scripts/reference.py run tests/data/reference/gpt2-f32.gguf --tokens 1,2,3
  scripts/reference.py run model.gguf --tokens 464,412,733,417 -o logits.npy

Runs any GGUF of the families gpt2 and llama whose tensors gguf.py reads."""


@dataclass(frozen=True)
class Config:
    n_layer: int
    n_head: int
    n_head_kv: int
    d_head: int
    norm: str         # "layer" | "rms"
    norm_eps: float
    mlp: str          # "gelu_tanh" | "swiglu"
    rope: str         # "none" | "neighbours": pairs (2i, 2i + 1) | "halves": pairs (i, i + rope_dim/2)
    rope_dim: int     # dimensions of a head that rotate: the first rope_dim
    rope_base: float
    rope_scale: float  # positions are divided by this
    parallel_residual: bool
    f16_cache: bool = False  # keys and values are rounded to binary16 before they are used


FAMILIES = {
    "gpt2": dict(norm="layer", mlp="gelu_tanh", rope="none"),
    "llama": dict(norm="rms", mlp="swiglu", rope="neighbours"),
}


def read_config(metadata):
    architecture = metadata["general.architecture"]
    if architecture not in FAMILIES:
        raise SystemExit(f"architecture {architecture} is not implemented here; {', '.join(FAMILIES)} are")

    def get(key, default=None):
        value = metadata.get(f"{architecture}.{key}", default)
        if value is None:
            raise SystemExit(f"the metadata lacks {architecture}.{key}")
        return np.asarray(value).item()

    family = FAMILIES[architecture]
    n_head = get("attention.head_count")
    d_head = get("attention.key_length", get("embedding_length") // n_head)
    scaling = get("rope.scaling.type", "linear")
    if scaling not in ("none", "linear"):
        raise SystemExit(f"rope scaling {scaling} is not implemented here")
    scale = get("rope.scaling.factor", get("rope.scale_linear", 1.0)) if scaling == "linear" else 1.0
    return Config(
        n_layer=get("block_count"), n_head=n_head, n_head_kv=get("attention.head_count_kv", n_head),
        d_head=d_head,
        norm_eps=get("attention.layer_norm_epsilon" if family["norm"] == "layer" else
                     "attention.layer_norm_rms_epsilon"),
        rope_dim=get("rope.dimension_count", d_head), rope_base=get("rope.freq_base", 10000.0),
        rope_scale=scale, parallel_residual=get("use_parallel_residual", False), **family)


def rotate(x, angles, pairing):
    """RoPE (arXiv:2104.09864, section 3.4): each pair of the first 2·n_pairs dimensions of x [..., n, d] as a
    complex number, turned by angles [n][n_pairs]. The other dimensions pass."""
    rotating, passing = x[..., :2 * angles.shape[1]], x[..., 2 * angles.shape[1]:]
    turn = torch.polar(torch.ones_like(angles), angles)
    if pairing == "neighbours":
        turned = torch.view_as_complex(rotating.unflatten(-1, (-1, 2)).contiguous()) * turn
        rotated = torch.view_as_real(turned).flatten(-2)
    else:
        real, imaginary = rotating.chunk(2, -1)
        turned = torch.complex(real, imaginary) * turn
        rotated = torch.cat([turned.real, turned.imag], -1)
    return torch.cat([rotated, passing], -1)


def unchanged(site, layer, x):
    return x


class Model:
    def __init__(self, metadata, tensors, **changes):
        self.config = replace(read_config(metadata), **changes)
        self.tensors = tensors

    def weight(self, name):
        return torch.from_numpy(self.tensors[name].numpy().astype("f8"))

    def optional(self, name):
        return self.weight(name) if name in self.tensors else None

    def linear(self, name, x):
        return F.linear(x, self.weight(name + ".weight"), self.optional(name + ".bias"))

    def norm(self, name, x):
        gain, eps = self.weight(name + ".weight"), self.config.norm_eps
        if self.config.norm == "layer":  # arXiv:1607.06450
            return F.layer_norm(x, gain.shape, gain, self.optional(name + ".bias"), eps)
        return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain  # arXiv:1910.07467

    def rope_angles(self, n):
        """[n][rope_dim/2]: position·base^(−2i/rope_dim), divided by the scale and by the file's factors."""
        c = self.config
        frequencies = c.rope_base ** (-torch.arange(0, c.rope_dim, 2, dtype=torch.float64) / c.rope_dim)
        if "rope_freqs.weight" in self.tensors:
            frequencies = frequencies / self.weight("rope_freqs.weight")
        return torch.outer(torch.arange(n, dtype=torch.float64) / c.rope_scale, frequencies)

    def attention(self, layer, x, hook=unchanged):
        """Causal multi-head attention (arXiv:1706.03762), kv heads shared by groups (arXiv:2305.13245)."""
        c, n, block = self.config, len(x), f"blk.{layer}."
        if block + "attn_qkv.weight" in self.tensors:
            q, k, v = self.linear(block + "attn_qkv", x).split(
                [c.n_head * c.d_head, c.n_head_kv * c.d_head, c.n_head_kv * c.d_head], -1)
        else:
            q, k, v = (self.linear(block + name, x) for name in ("attn_q", "attn_k", "attn_v"))
        q, k, v = (hook(site, layer, rows.unflatten(-1, (-1, c.d_head)).transpose(0, 1))  # [head][n][d_head]
                   for site, rows in (("q", q), ("k", k), ("v", v)))
        if c.rope != "none":
            angles = self.rope_angles(n)
            q, k = rotate(q, angles, c.rope), rotate(k, angles, c.rope)
        if c.f16_cache:
            k, v = k.half().double(), v.half().double()
        k, v = (rows.repeat_interleave(c.n_head // c.n_head_kv, 0) for rows in (k, v))
        scores = hook("scores", layer, torch.tril(q @ k.transpose(1, 2) / c.d_head ** 0.5))
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        pattern = hook("pattern", layer, scores.masked_fill(future, -torch.inf).softmax(-1))
        z = hook("z", layer, pattern @ v)
        return self.linear(block + "attn_output", z.transpose(0, 1).flatten(1))

    def mlp(self, layer, x):
        block = f"blk.{layer}."
        hidden = self.linear(block + "ffn_up", x)
        if self.config.mlp == "swiglu":  # arXiv:2002.05202
            hidden = F.silu(self.linear(block + "ffn_gate", x)) * hidden
        else:  # arXiv:1606.08415, by the tanh formula
            hidden = F.gelu(hidden, approximate="tanh")
        return self.linear(block + "ffn_down", hidden)

    def forward(self, tokens, hook=unchanged):
        """Logits [n][n_vocab] of all positions."""
        x = self.weight("token_embd.weight")[tokens]
        if "position_embd.weight" in self.tensors:
            x = x + self.weight("position_embd.weight")[:len(tokens)]
        for layer in range(self.config.n_layer):
            x = hook("resid_pre", layer, x)
            attn_out = self.attention(layer, self.norm(f"blk.{layer}.attn_norm", x), hook)
            attn_out = hook("attn_out", layer, attn_out)
            mid = x if self.config.parallel_residual else hook("resid_mid", layer, x + attn_out)
            mlp_out = hook("mlp_out", layer, self.mlp(layer, self.norm(f"blk.{layer}.ffn_norm", mid)))
            x = mid + mlp_out + (attn_out if self.config.parallel_residual else 0)
            x = hook("resid_post", layer, x)
        x = self.norm("output_norm", x)
        unembedding = "output" if "output.weight" in self.tensors else "token_embd"
        return hook("logits", self.config.n_layer, self.linear(unembedding, x))


# From here on: the committed checkpoints, tiny, random and of odd shapes, and what they must compute.

N_VOCAB = {"gpt2": 257, "llama": 261}

# Which tensors get which dtype: the first expression found in the name decides.
VECTORS = ("norm|bias|position|rope_freqs", "F32")
MIXES = {
    "mixed": (("blk.0.attn_norm.weight", "F16"), ("position", "Q8_0"), VECTORS, ("token_embd", "F16"),
              ("attn", "Q8_0"), ("ffn", "Q4_0"), ("", "BF16")),
    "mixed-32": (("blk.0.attn_norm.weight", "Q4_1"), ("position", "Q5_0"), VECTORS, ("token_embd", "Q5_1"),
                 ("0.attn_qkv", "Q5_0"), ("0.attn_out", "Q4_1"), ("0.ffn_up", "IQ4_NL"), ("0.ffn_down", "Q4_K"),
                 ("1.attn_qkv", "MXFP4"), ("1.attn_out", "Q8_0"), ("1.ffn_up", "Q5_1"), ("1.ffn_down", "Q6_K")),
    "mixed-k": (("blk.0.attn_norm.weight", "Q6_K"), VECTORS, ("token_embd", "Q3_K"), ("^output", "Q6_K"),
                ("0.attn_q", "Q4_K"), ("0.attn_k", "Q5_K"), ("0.attn_v", "Q6_K"), ("0.attn_out", "Q5_0"),
                ("0.ffn_gate", "Q2_K"), ("0.ffn_up", "Q3_K"), ("0.ffn_down", "IQ4_XS"),
                ("1.attn_q", "IQ4_XS"), ("1.attn_k", "Q3_K"), ("1.attn_v", "Q2_K"), ("1.attn_out", "IQ4_NL"),
                ("1.ffn_gate", "Q4_K"), ("1.ffn_up", "Q2_K"), ("1.ffn_down", "Q5_K")),
}


@dataclass(frozen=True)
class Case:
    name: str
    seed: int
    dtype: str  # of the matrices, or a key of MIXES
    n_layer: int
    n_head: int
    n_head_kv: int
    d_head: int
    d_model: int
    d_ff: int
    n_tokens: int = 67
    tied: bool = True
    biases: str = ""  # llama: layers (a regular expression) that have one nevertheless
    rope_freqs: bool = False
    version: int = 3
    metadata: tuple = ()  # keys (without the architecture) beyond the usual ones

    @property
    def architecture(self):
        return self.name.split("-")[0]

    @property
    def file_dtype(self):
        """What the file is called after."""
        return "Q8_0" if self.dtype in MIXES else self.dtype

    @property
    def n_ctx(self):
        return 192 if self.n_tokens > 80 else 80


# Keys are split into tiles of 64 and prompts into chunks, so the sequences are longer than that.
# After the dtype: n_layer, n_head, n_head_kv, d_head, d_model, d_ff.
CASES = [
    Case("gpt2-f32", 1, "F32", 2, 2, 2, 20, 40, 84, n_tokens=150),
    Case("gpt2-f32-untied", 2, "F32", 3, 5, 5, 8, 40, 53, tied=False,
         metadata=(("attention.layer_norm_epsilon", np.float32(0.05)),)),
    Case("gpt2-f16", 3, "F16", 2, 9, 9, 8, 72, 106),
    Case("gpt2-bf16", 4, "BF16", 2, 3, 3, 20, 60, 212, tied=False, version=2),
    Case("gpt2-q8_0", 5, "Q8_0", 2, 3, 3, 32, 96, 160, metadata=(("general.alignment", np.uint32(64)),)),
    Case("gpt2-q4_0", 6, "Q4_0", 2, 2, 2, 80, 160, 160),
    Case("gpt2-mixed", 7, "mixed", 2, 1, 1, 64, 64, 160, tied=False),
    Case("llama-f32", 8, "F32", 2, 4, 2, 20, 72, 60, n_tokens=150, tied=False),
    Case("llama-f32-rope", 9, "F32", 3, 6, 1, 8, 36, 53, biases="attn_[qkv]$", rope_freqs=True,
         metadata=(("rope.dimension_count", np.uint32(6)), ("rope.freq_base", np.float32(500)),
                   ("rope.scaling.type", "linear"), ("rope.scaling.factor", np.float32(4)),
                   ("attention.layer_norm_rms_epsilon", np.float32(0.05)))),
    Case("llama-f32-parallel", 10, "F32", 2, 2, 1, 128, 36, 53, biases="attn_[a-z]*$|ffn_[a-z]*$",
         metadata=(("rope.scale_linear", np.float32(2.5)), ("use_parallel_residual", True))),
    Case("llama-f16", 11, "F16", 2, 9, 3, 8, 72, 106, tied=False),
    Case("llama-bf16", 12, "BF16", 2, 1, 1, 80, 80, 53),
    Case("llama-q8_0", 13, "Q8_0", 2, 3, 1, 32, 96, 160, tied=False),
    Case("llama-q4_0", 14, "Q4_0", 2, 2, 1, 64, 160, 160, tied=False),
    Case("llama-mixed", 15, "mixed", 2, 2, 1, 128, 96, 128, tied=False),
    Case("gpt2-mixed-32", 16, "mixed-32", 2, 3, 3, 32, 96, 256),
    Case("llama-mixed-k", 17, "mixed-k", 2, 2, 1, 32, 256, 256, tied=False),
]


def byte_vocabulary():
    """GPT-2's names of the 256 bytes: the printable ones of Latin-1 are themselves and come first, the others
    are U+0100 and on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(byte) for byte in printable] + [chr(0x100 + i) for i in range(256 - len(printable))]


def tokenizer_metadata(architecture):
    """A vocabulary of single bytes, so that the checkpoints can be tried with text."""
    if architecture == "gpt2":
        tokens, types = byte_vocabulary() + ["<|endoftext|>"], [1] * 256 + [3]
        specific = {"tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": []}
        bos, eos = 256, 256
    else:
        tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["▁", "▁t"]
        types = [2, 3, 3] + [6] * 256 + [1, 1]
        specific = {"tokenizer.ggml.scores": np.array([0] * 259 + [-1, -2], "<f4"),
                    "tokenizer.ggml.unknown_token_id": np.uint32(0),
                    "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": False}
        bos, eos = 1, 2
    return {"tokenizer.ggml.model": architecture, "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": np.array(types, "<i4"), **specific,
            "tokenizer.ggml.bos_token_id": np.uint32(bos), "tokenizer.ggml.eos_token_id": np.uint32(eos)}


def model_metadata(case):
    a, usual = case.architecture, {
        "context_length": np.uint32(case.n_ctx), "embedding_length": np.uint32(case.d_model),
        "feed_forward_length": np.uint32(case.d_ff), "block_count": np.uint32(case.n_layer),
        "attention.head_count": np.uint32(case.n_head)}
    if a == "gpt2":
        usual["attention.layer_norm_epsilon"] = np.float32(1e-5)
    else:
        usual.update({
            "attention.layer_norm_rms_epsilon": np.float32(1e-6), "vocab_size": np.uint32(N_VOCAB[a]),
            "rope.dimension_count": np.uint32(case.d_head), "rope.freq_base": np.float32(10000)})
        if case.n_head_kv != case.n_head:
            usual["attention.head_count_kv"] = np.uint32(case.n_head_kv)
        if case.n_head * case.d_head != case.d_model:
            usual["attention.key_length"] = usual["attention.value_length"] = np.uint32(case.d_head)
    usual.update({key: value for key, value in case.metadata if not key.startswith("general.")})
    metadata = {"general.architecture": a, "general.type": "model", "general.name": case.name,
                "general.description": f"random weights, seed {case.seed}, made by scripts/reference.py"}
    metadata.update({key: value for key, value in case.metadata if key.startswith("general.")})
    metadata.update({f"{a}.{key}": value for key, value in usual.items()})
    metadata["general.file_type"] = np.uint32(gguf.TYPES[case.file_dtype].file_type)
    if gguf.TYPES[case.file_dtype].q:
        metadata["general.quantization_version"] = np.uint32(2)
    return {**metadata, **tokenizer_metadata(a)}


def linear_layers(case):
    """(name, outputs, inputs, gain) of the linear layers of one block. The gains give scores a spread of
    about two, so that attention has preferences, and keep the residual stream near one."""
    q, kv, d = case.n_head * case.d_head, case.n_head_kv * case.d_head, case.d_model
    if case.architecture == "gpt2":
        yield "attn_qkv", 3 * d, d, 1.4
    else:
        yield from [("attn_q", q, d, 1.4), ("attn_k", kv, d, 1.4), ("attn_v", kv, d, 1.0)]
        yield "ffn_gate", case.d_ff, d, 1.5
    yield from [("attn_output", d, q, 1.0), ("ffn_up", case.d_ff, d, 1.5), ("ffn_down", d, case.d_ff, 1.0)]


def random_weights(case):
    """name → float32 array. RandomState, because numpy promises that its numbers never change."""
    random = np.random.RandomState(case.seed).normal
    gpt2, weights = case.architecture == "gpt2", {}

    def add_norm(name):
        weights[name + ".weight"] = random(1, 0.3, case.d_model)
        if gpt2:
            weights[name + ".bias"] = random(0, 0.2, case.d_model)

    weights["token_embd.weight"] = random(0, 0.5, (N_VOCAB[case.architecture], case.d_model))
    if gpt2:
        weights["position_embd.weight"] = random(0, 0.2, (case.n_ctx, case.d_model))
    if case.rope_freqs:
        weights["rope_freqs.weight"] = random(2, 0.3, read_config(model_metadata(case)).rope_dim // 2)
    for layer in range(case.n_layer):
        add_norm(f"blk.{layer}.attn_norm")
        add_norm(f"blk.{layer}.ffn_norm")
        for name, outputs, inputs, gain in linear_layers(case):
            weights[f"blk.{layer}.{name}.weight"] = random(0, gain / inputs ** 0.5, (outputs, inputs))
            if gpt2 or case.biases and re.match(case.biases, name):
                weights[f"blk.{layer}.{name}.bias"] = random(0, 0.3, outputs)
    add_norm("output_norm")
    if not case.tied:
        weights["output.weight"] = random(0, 2 / case.d_model ** 0.5, weights["token_embd.weight"].shape)
    return {name: values.astype("f4") for name, values in weights.items()}


def pack_weights(case):
    dtypes = MIXES.get(case.dtype, (VECTORS, ("", case.dtype)))
    return {name: gguf.Tensor.pack(values, next(dtype for part, dtype in dtypes if part_of(part, name)))
            for name, values in random_weights(case).items()}


def part_of(expression, name):
    return re.search(expression, name) is not None


def edited_runs(model, n):
    """Hooks that change the forward pass: (name of the run, hook)."""
    def ablate(site, layer, x):
        """Head 0 of layer 1 adds nothing."""
        if (site, layer) == ("z", 1):
            x = x.clone()
            x[0] = 0
        return x

    def spread(site, layer, x):
        """The last head of layer 0 looks everywhere alike from the last position."""
        if (site, layer) == ("pattern", 0):
            x = x.clone()
            x[-1, -1] = 1 / n
        return x

    return [("ablate", ablate), ("pattern_edit", spread)]


def expected(case, metadata, tensors):
    """name → array: what the checkpoint must compute. Rows of sites are those of the positions recorded."""
    model, random = Model(metadata, tensors), np.random.RandomState(1000 + case.seed)
    n = case.n_tokens
    tokens = random.randint(N_VOCAB[case.architecture], size=n)
    positions = [p for p in (0, 1, 7, 63, 64, 66, 128, 149) if p < n]  # whose sites are recorded
    out = {"tokens": tokens, "positions": np.array(positions)}

    def record(site, layer, x):
        rows = x if site == "logits" else x[..., positions, :]
        out["logits" if site == "logits" else f"blk.{layer}.{site}"] = rows.numpy()
        return x

    model.forward(tokens, record)
    for name, hook in edited_runs(model, n):
        out[f"{name}.logits"] = model.forward(tokens, hook)[positions].numpy()
    out["f16_cache.logits"] = Model(metadata, tensors, f16_cache=True).forward(tokens)[positions].numpy()
    if case.name == "llama-f32":  # layer 0's attention with RoPE's other pairing, which neither family has
        x = random.normal(size=(20, case.d_model)).astype("f4")
        out["halves.x"] = x
        out["halves.attn_out"] = Model(metadata, tensors, rope="halves").attention(
            0, torch.from_numpy(x).double()).numpy()
    return {name: values.astype("f4") for name, values in out.items()}


def make(folder):
    os.makedirs(folder, exist_ok=True)
    for case in CASES:
        path = os.path.join(folder, case.name + ".gguf")
        gguf.write(path, model_metadata(case), pack_weights(case), case.version)
        metadata, tensors = gguf.read(path)
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        gguf.write(os.path.join(folder, case.name + ".expected.gguf"), {
            "general.architecture": "expected",
            "general.name": f"{case.name}: sites at some positions, logits at all",
            "expected.command": "scripts/reference.py make tests/data/reference",
            "expected.seed": np.uint32(case.seed), "expected.checkpoint_sha256": digest,
        }, expected(case, metadata, tensors))
        print(path)


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
    command = commands.add_parser("run", help="print the five likeliest next tokens and their logits")
    command.add_argument("model", help="a GGUF checkpoint")
    command.add_argument("--tokens", required=True, type=lambda text: [int(t) for t in text.split(",")],
                         help="ids, separated by commas")
    command.add_argument("-o", metavar="FILE.npy", help="write the logits [n][n_vocab] of all positions")
    args = parser.parse_args()
    torch.set_num_threads(1)  # sums in one order: the same bytes every time
    if args.command == "make":
        make(args.folder)
    else:
        run(args.model, args.tokens, args.o)


if __name__ == "__main__":
    main()
