"""The committed checkpoints of GPT-2 and Llama: tiny, random, of odd shapes and every type of weights. And what any
checkpoint must compute, in a file beside it. The other families are in family_models.py; reference.py make writes
all."""
import hashlib
import os
import re
from dataclasses import dataclass

import numpy as np
import torch

import gguf
from families import read_config
from formula import Model

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
        """A part of the file's name."""
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
                "general.description": f"random weights, seed {case.seed}, made by scripts/expect/reference.py"}
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


def edited_runs(n):
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


HALVED = "embed", "pos_embed", "rot_q", "rot_k", "result", "mlp_pre", "mlp_pre_linear", "mlp_post"


def halved_run(halved):
    """A hook by which all numbers of a site, of head 0 where it has heads, are half of what they are."""
    def hook(site, layer, x):
        if site == halved:
            x = x.clone()
            x[0 if x.dim() == 3 else slice(None)] /= 2
        return x

    return hook


class Decided(Model):
    """A mixture of experts whose routers hesitate so little that no engine's rounding lets others win."""
    LEAST = 0.05  # between the logits of the last expert chosen and the first that is not

    def linear(self, name, x):
        out = super().linear(name, x)
        if name.endswith("ffn_gate_inp"):
            logits, last = out.sort(-1, descending=True).values, self.config.n_expert_used - 1
            gap = (logits[:, last] - logits[:, last + 1]).min()
            if gap < self.LEAST:
                raise SystemExit(f"{name}: experts are {gap:.3f} apart: another seed is needed")
        return out


def expected(metadata, tensors, seed, n, positions, n_vocab, halves=False, all_edits=False):
    """name → array: what the checkpoint must compute. Rows of sites are those of the positions recorded."""
    model, random = Decided(metadata, tensors), np.random.RandomState(1000 + seed)
    tokens = random.randint(n_vocab, size=n)
    positions = [p for p in positions if p < n]  # whose sites are recorded
    out = {"tokens": tokens, "positions": np.array(positions)}

    def record(site, layer, x):
        rows = x if site == "logits" else x[..., positions, :]
        out["logits" if site == "logits" else f"blk.{layer}.{site}"] = rows.numpy()
        return x

    model.forward(tokens, record)
    for name, hook in edited_runs(n):
        out[f"{name}.logits"] = model.forward(tokens, hook)[positions].numpy()
    for site in HALVED:  # not where so large a change could let other experts win
        if all_edits and not model.config.n_expert_used and any(name.endswith("." + site) for name in out):
            out[f"{site}_half.logits"] = model.forward(tokens, halved_run(site))[positions].numpy()
    out["f16_cache.logits"] = Decided(metadata, tensors, f16_cache=True).forward(tokens)[positions].numpy()
    if halves:  # layer 0's attention with RoPE's other pairing, which neither family has
        x = random.normal(size=(20, tensors["token_embd.weight"].shape[1])).astype("f4")
        out["halves.x"] = x
        out["halves.attn_out"] = Model(metadata, tensors, rope="halves").attention(
            0, torch.from_numpy(x).double()).numpy()
    return {name: values.astype("f4") for name, values in out.items()}


def write(folder, name, seed, metadata, tensors, compute, version=3):
    """NAME.gguf, and NAME.expected.gguf with what compute(metadata, tensors) returns, both as read from the first."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + ".gguf")
    gguf.write(path, metadata, tensors, version)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    gguf.write(os.path.join(folder, name + ".expected.gguf"), {
        "general.architecture": "expected",
        "general.name": f"{name}: sites at some positions, logits at all",
        "expected.command": "scripts/expect/reference.py make tests/data/reference",
        "expected.seed": np.uint32(seed), "expected.checkpoint_sha256": digest,
    }, compute(*gguf.read(path)))
    print(path)


def make(folder, wanted):
    for case in CASES:
        if wanted(case.name):
            write(folder, case.name, case.seed, model_metadata(case), pack_weights(case),
                  lambda metadata, tensors: expected(
                      metadata, tensors, case.seed, case.n_tokens, (0, 1, 7, 63, 64, 66, 128, 149),
                      N_VOCAB[case.architecture], case.name == "llama-f32", case.dtype == "F32"), case.version)
