"""A small model of each family of families.py, with the names of tensors and keys that llama.cpp's converter gives a real
file of it: random weights, a vocabulary without text, texts that cross windows and what RoPE factors speak of.

Tensors are listed as name:shape, each letter a size: d the residual stream, h a head, H heads, K kv heads, q = H·h,
k = K·h, c = q + 2k, f the MLP's hidden layer, F = 2f, e experts, x the hidden layer of one, s of the shared one, n
positions, p pairs of RoPE, V tokens. A + says that there is a bias as well."""
from dataclasses import dataclass

import numpy as np

import dtype_models
import gguf
from reference import Model

SPLIT = "attn_norm:d attn_q:qd attn_k:kd attn_v:kd attn_output:dq "
SPLIT_BIASES = "attn_norm:d attn_q:qd+ attn_k:kd+ attn_v:kd+ attn_output:dq "
ALL_BIASES = "attn_norm:d+ attn_q:qd+ attn_k:kd+ attn_v:kd+ attn_output:dq+ "
FUSED_BIASES = "attn_norm:d+ attn_qkv:cd+ attn_output:dq+ "
HEAD_NORMS = "attn_q_norm:h attn_k_norm:h "
ROW_NORMS = "attn_q_norm:q attn_k_norm:k "
EACH_HEAD_NORMS = "attn_q_norm:Hh attn_k_norm:Kh "
MLP_BIASES = "ffn_norm:d+ ffn_up:fd+ ffn_down:df+ "
GATED = "ffn_norm:d ffn_gate:fd ffn_up:fd ffn_down:df "
POST_NORMS = "post_attention_norm:d post_ffw_norm:d "
EXPERTS = "ffn_norm:d ffn_gate_inp:ed ffn_gate_exps:exd ffn_up_exps:exd ffn_down_exps:edx "
TIED, UNTIED = "token_embd:Vd output_norm:d ", "token_embd:Vd output_norm:d output:Vd "
TIED_BIASES, UNTIED_BIASES = "token_embd:Vd output_norm:d+ ", "token_embd:Vd output_norm:d+ output:Vd "


@dataclass(frozen=True)
class Small:
    name: str
    seed: int
    sizes: dict    # what differs from SIZES
    outer: str     # tensors beside the layers
    layer: str     # tensors of a layer
    keys: dict     # beyond those of every family
    architecture: str = ""
    n_layer: int = 2
    n_tokens: int = 20
    n_ctx: int = 32
    packed: tuple = ()      # (part of a name, its type of weights): F32 where none is found
    omitted: bool = False   # only compared with llama.cpp: not among the committed files

    def __getattr__(self, letter):
        sizes = {**SIZES, **self.sizes, "n": self.n_ctx}
        sizes.setdefault("K", sizes["H"])
        sizes.update(q=sizes["H"] * sizes["h"], k=sizes["K"] * sizes["h"], F=2 * sizes["f"])
        sizes["c"] = sizes["q"] + 2 * sizes["k"]
        if letter not in sizes:
            raise AttributeError(letter)
        return sizes[letter]


SIZES = dict(d=16, H=4, h=4, f=24, V=37)
GQA = dict(K=2)
u32, f32 = np.uint32, np.float32


def heads(h, **more):
    """Sizes of heads that do not divide the residual stream, as the keys say."""
    return dict(h=h, **more)


LENGTHS = {"attention.key_length": "h", "attention.value_length": "h"}
ROPE = {"rope.dimension_count": "h", "rope.freq_base": f32(10000)}

MODELS = [
    Small("qwen2", 101, GQA, UNTIED, SPLIT_BIASES + GATED, {"rope.freq_base": f32(1000)}),
    Small("qwen2-tied-yarn", 102, dict(K=1), TIED, SPLIT_BIASES + GATED, {
        "rope.freq_base": f32(1000), "rope.scaling.type": "yarn", "rope.scaling.factor": f32(4),
        "rope.scaling.original_context_length": u32(16)}, n_ctx=64),
    Small("qwen3", 103, heads(6, K=2), TIED, SPLIT + HEAD_NORMS + GATED, {**LENGTHS, "rope.freq_base": f32(1000)}),
    Small("gptneox", 104, dict(H=2, h=8), UNTIED_BIASES, FUSED_BIASES + MLP_BIASES, {
        "rope.dimension_count": u32(4), "use_parallel_residual": True}),
    Small("gptneox-sequential", 105, dict(H=2, h=8), UNTIED_BIASES, FUSED_BIASES + MLP_BIASES, {
        "rope.dimension_count": u32(2), "use_parallel_residual": False}),
    Small("gemma", 106, heads(6, K=1), TIED, SPLIT + GATED, LENGTHS),
    Small("gemma2", 107, heads(6, K=2), TIED, SPLIT + GATED + POST_NORMS, {
        **LENGTHS, "attn_logit_softcapping": f32(2.5), "final_logit_softcapping": f32(3),
        "attention.sliding_window": u32(5)}),
    Small("gemma3", 108, heads(6, K=1), TIED, SPLIT + HEAD_NORMS + GATED + POST_NORMS, {
        **LENGTHS, "attention.sliding_window": u32(4), "rope.freq_base": f32(1e6),
        "rope.scaling.type": "linear", "rope.scaling.factor": f32(8)}, n_layer=7),
    Small("gemma3-long", 109, heads(6, K=2), TIED, SPLIT + HEAD_NORMS + GATED + POST_NORMS, {
        **LENGTHS, "attention.sliding_window": u32(40), "attention.sliding_window_pattern": u32(2),
        "rope.freq_base": f32(1e6), "rope.freq_base_swa": f32(500)}, n_tokens=150, n_ctx=160),
    Small("gemma2-wide", 110, heads(6, K=2), TIED, SPLIT + GATED + POST_NORMS, {
        **LENGTHS, "attn_logit_softcapping": f32(2.5), "final_logit_softcapping": f32(3),
        "attention.sliding_window": u32(5)}, n_layer=46, omitted=True),
    Small("gemma3-wide", 111, heads(6, K=1), TIED, SPLIT + HEAD_NORMS + GATED + POST_NORMS, {
        **LENGTHS, "attention.sliding_window": u32(4), "rope.freq_base": f32(1e6)}, n_layer=62, omitted=True),
]
BY_NAME = {model.name: model for model in MODELS}


def model_metadata(model):
    a = model.architecture or model.name.split("-")[0]
    norm = "layer_norm_epsilon" if norm_kind(a) == "layer" else "layer_norm_rms_epsilon"
    usual = {"context_length": u32(model.n_ctx), "embedding_length": u32(model.d), "block_count": u32(model.n_layer),
             "feed_forward_length": u32(model.f), "attention.head_count": u32(model.H),
             "attention.head_count_kv": u32(model.K), "attention." + norm: f32(1e-5), "vocab_size": u32(model.V)}
    usual.update({key: u32(getattr(model, value)) if value in ("h",) else value for key, value in model.keys.items()})
    return {"general.architecture": a, "general.type": "model", "general.name": model.name,
            "general.description": f"random weights, seed {model.seed}, made by scripts/reference.py",
            **{f"{a}.{key}": value for key, value in usual.items()}, "tokenizer.ggml.model": "no_vocab"}


def norm_kind(architecture):
    from families import FAMILIES
    return FAMILIES[architecture]["norm"]


# How wide the weights of a tensor spread: the first part found in its name decides. Matrices divide by √inputs.
SPREADS = [("attn_q", 1.5), ("attn_k", 1.5), ("attn_qkv", 1.3), ("ffn_gate_inp", 4.0), ("ffn_gate", 1.5), ("ffn_up", 1.5),
           ("output.weight", 2.0), ("", 1.0)]


def random_tensor(random, name, shape):
    if name.endswith(".bias"):
        return random(0, 0.2 if "norm" in name else 0.3, shape)
    if "norm" in name:
        return random(1.3 if "_q_" in name or "_k_" in name else 1, 0.3, shape)
    if "rope_f" in name:
        return np.abs(random(4 if "long" in name else 1.5, 0.5, shape)) + 0.5
    if "sinks" in name:
        return random(1, 1, shape)
    if "token_embd" in name:
        return random(0, 0.5, shape)
    if "position_embd" in name:
        return random(0, 0.2, shape)
    return random(0, next(spread for part, spread in SPREADS if part in name) / shape[-1] ** 0.5, shape)


def random_weights(model):
    """name → float32 array, of names and shapes as listed."""
    random, weights = np.random.RandomState(model.seed).normal, {}

    def add(prefix, tensors):
        for tensor in tensors.split():
            name, shape = tensor.split(":")
            shape, has_bias = tuple(getattr(model, letter) for letter in shape.rstrip("+")), shape.endswith("+")
            weights[f"{prefix}{name}.weight"] = random_tensor(random, f"{prefix}{name}.weight", shape)
            if has_bias:  # one for each row, where there are rows
                rows = shape[:max(1, len(shape) - 1)]
                weights[f"{prefix}{name}.bias"] = random_tensor(random, f"{prefix}{name}.bias", rows)

    add("", model.outer)
    for layer in range(model.n_layer):
        add(f"blk.{layer}.", model.layer if isinstance(model.layer, str) else model.layer[layer])
    return {name: values.astype("f4") for name, values in weights.items()}


def pack_weights(model):
    return {name: gguf.Tensor.pack(values, next((dtype for part, dtype in model.packed if part in name), "F32"))
            for name, values in random_weights(model).items()}


def expected(model, metadata, tensors):
    n = model.n_tokens
    positions = (0, 1, 6, 13, n - 1) if n < 64 else (0, 39, 40, 64, 103, n - 1)
    layers = range(model.n_layer) if model.n_layer < 12 else (0, 1, model.n_layer - 1)
    out = dtype_models.expected(metadata, tensors, model.seed, n, positions, model.V)
    windows = Model(metadata, tensors).config.windows
    for layer, window in enumerate(windows):
        if window:  # scores of keys that are no longer there are not compared
            scores = out[f"blk.{layer}.scores"]
            for row, position in enumerate(p for p in positions if p < n):
                scores[:, row, :max(0, position + 1 - window)] = np.nan
    return {name: values for name, values in out.items()
            if not name.startswith("blk.") or int(name.split(".")[1]) in layers}


def make(folder, wanted):
    for model in MODELS:
        if wanted(model.name) and not model.omitted:
            dtype_models.write(folder, model.name, model.seed, model_metadata(model), pack_weights(model),
                               lambda metadata, tensors: expected(model, metadata, tensors))
