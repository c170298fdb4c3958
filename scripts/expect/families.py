"""The families that formula.py computes: what all files of one share, and how a file's metadata says the rest.

Written from the papers and the published code of each family. Names of keys are those of GGUF; gpt_neo and opt, which
GGUF does not know, and gptj (Hugging Face's codegen is the same function) follow its style. Names of tensors are in
family_models.py."""
import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rope:
    """How one layer turns queries and keys (arXiv:2104.09864)."""
    base: float
    scale: float = 1.0      # positions are divided by this
    magnitude: float = 1.0  # of what has been turned
    original_ctx: int = 0   # positions before the model was made to see further
    # YaRN (arXiv:2309.00071): pairs that turn more than beta_fast times in the original context keep their pace, those
    # that turn less than beta_slow times are slowed down by `scale`, between them it is a mix.
    yarn: bool = False
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    whole_pairs: bool = True  # the two bounds are rounded outwards to whole pairs


@dataclass(frozen=True)
class Config:
    n_layer: int
    n_head: int
    n_head_kv: int
    d_head: int
    norm: str         # "layer" | "rms"
    norm_eps: float
    mlp: str          # a key of formula.ACTIVATIONS; there is a gate where the file has one
    rope: str         # "none" | "neighbours": pairs (2i, 2i + 1) | "halves": pairs (i, i + rope_dim/2)
    rope_dim: int     # dimensions of a head that rotate: the first rope_dim
    ropes: tuple      # a Rope for each layer, or None
    windows: tuple    # for each layer: how many keys a query sees, itself among them; None: all before it
    parallel_residual: object       # True, False, or "without ffn_norm": where a layer has no such norm
    norms: str = "before"           # a branch | "behind" | "both"
    ffn_norm: str = "ffn_norm"      # the name of the norm before the MLP
    output_norm: str = "output_norm"
    embedding_norm: bool = False
    position_offset: int = 0        # rows of position_embd before that of position 0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0     # of what a branch adds
    score_scale: float = 1.0
    score_cap: float = 0.0          # cap·tanh(score/cap); 0: none
    logit_scale: float = 1.0
    logit_cap: float = 0.0
    clamp: float = 0.0              # q, k, v to [−clamp, clamp]; 0: not
    clamp_normed: bool = False      # q and k behind their norms
    alibi: float = 0.0              # arXiv:2108.12409: the first head's slope is 2^(−alibi/n_head); 0: none
    n_key_heads: int = 0            # of a delta net
    d_state: int = 0                # numbers of its queries, keys and values
    n_expert_used: int = 0
    renormalised: bool = True       # the weights of the chosen experts sum to 1
    f16_cache: bool = False         # keys and values are rounded to binary16 before they are used


LAYER, RMS = dict(norm="layer"), dict(norm="rms")
NEIGHBOURS, HALVES = dict(rope="neighbours"), dict(rope="halves")
ONE_NORM = dict(parallel_residual="without ffn_norm")

# No fields of Config:
#   scale_embedding  by √d_model
#   base, stretch    θ, and the factor of linear scaling for 131,072 positions and more, where no key of Gemma 3 says it
#   period           of `period` layers all but the last have a window; 1: all have, where the file says how wide
#   window           where the file does not say
#   local_scaling    layers with a window turn as the others do; without it by their own base (local_base), unscaled
#   rope_on          which layers turn, by their number and window
#   wide_layers      a model of so many layers takes d_model/n_head for d_head in the scale of its scores
#   alibi_layers     a model of so many layers has ALiBi in place of RoPE
#   divide_logits    by the key logit_scale; others multiply
FAMILIES = {
    "gpt2": {**LAYER, "mlp": "gelu_tanh"},
    "llama": {**RMS, **NEIGHBOURS, "mlp": "silu"},
    "qwen2": {**RMS, **HALVES, "mlp": "silu"},
    "qwen3": {**RMS, **HALVES, "mlp": "silu"},
    "qwen3vl": {**RMS, **HALVES, "mlp": "silu"},  # positions of a text, whose three numbers are one
    "gptneox": {**LAYER, **HALVES, "mlp": "gelu"},
    "gemma": {**RMS, **HALVES, "mlp": "gelu_tanh", "scale_embedding": True},
    "gemma2": {**RMS, **HALVES, "mlp": "gelu_tanh", "scale_embedding": True, "norms": "both", "period": 2,
               "window": 4096, "local_scaling": True, "wide_layers": 46, "score_cap": 50.0, "logit_cap": 30.0},
    "gemma3": {**RMS, **HALVES, "mlp": "gelu_tanh", "scale_embedding": True, "norms": "both", "period": 6,
               "base": 1e6, "local_base": 10000.0, "stretch": 8.0, "eps": 1e-6, "wide_layers": 62},
    "phi2": {**LAYER, **HALVES, **ONE_NORM, "mlp": "gelu_tanh"},
    "phi3": {**RMS, **HALVES, "mlp": "silu"},
    "gptj": {**LAYER, **NEIGHBOURS, **ONE_NORM, "mlp": "gelu_tanh"},
    "bloom": {**LAYER, "mlp": "gelu_tanh", "embedding_norm": True, "alibi": 8.0},
    "mpt": {**LAYER, "mlp": "gelu"},
    "qwen2moe": {**RMS, **HALVES, "mlp": "silu", "renormalised": False},
    "qwen3moe": {**RMS, **HALVES, "mlp": "silu"},
    "olmoe": {**RMS, **HALVES, "mlp": "silu", "renormalised": False, "clamp_normed": True},
    "granitemoe": {**RMS, **NEIGHBOURS, "mlp": "silu", "divide_logits": True},
    "gpt-oss": {**RMS, **HALVES, "mlp": "clamped_swiglu", "ffn_norm": "post_attention_norm", "period": 2,
                "local_scaling": True, "whole_pairs": False},
    "gpt_neo": {**LAYER, "mlp": "gelu_tanh"},
    "opt": {**LAYER, "mlp": "relu"},
    "olmo": {**LAYER, **NEIGHBOURS, "mlp": "silu"},
    "olmo2": {**RMS, **HALVES, "mlp": "silu", "norms": "behind", "period": 4},
    "granite": {**RMS, **NEIGHBOURS, "mlp": "silu", "divide_logits": True},
    "smollm3": {**RMS, **NEIGHBOURS, "mlp": "silu", "rope_on": lambda layer, window: layer % 4 != 3},
    "stablelm": {**LAYER, **HALVES, **ONE_NORM, "mlp": "silu"},
    "falcon": {**LAYER, **HALVES, **ONE_NORM, "mlp": "gelu"},
    "starcoder": {**LAYER, "mlp": "gelu_tanh"},
    "starcoder2": {**LAYER, **HALVES, "mlp": "gelu_tanh"},
    "exaone": {**RMS, **HALVES, "mlp": "silu"},
    "internlm2": {**RMS, **NEIGHBOURS, "mlp": "silu"},
    "baichuan": {**RMS, **NEIGHBOURS, "mlp": "silu", "alibi_layers": 40},
    "command-r": {**LAYER, **NEIGHBOURS, **ONE_NORM, "mlp": "silu"},
    "cohere2": {**LAYER, **NEIGHBOURS, **ONE_NORM, "mlp": "silu", "period": 4, "local_scaling": True,
                "rope_on": lambda layer, window: window is not None},
    "nemotron": {**LAYER, **HALVES, "mlp": "relu2"},
    "lfm2": {**RMS, **HALVES, "mlp": "silu", "output_norm": "token_embd_norm"},
    "qwen35": {**RMS, **HALVES, "mlp": "silu", "ffn_norm": "post_attention_norm"},
}


# The key hidden_activation by transformers' names.
NAMED = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu", "relu2": "relu2", "silu": "silu"}


class Metadata:
    """A file's keys, without the architecture before them."""

    def __init__(self, metadata):
        self.architecture, self.metadata = metadata["general.architecture"], metadata

    def __call__(self, key, default=None):
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise SystemExit(f"the metadata lacks {self.architecture}.{key}")
        return np.asarray(value).item() if np.ndim(value) == 0 else list(value)

    def largest(self, key, default):
        """Of a number for each layer, or the one for all: a layer without attention has 0."""
        value = self(key, default)
        return int(max(value)) if isinstance(value, list) else value


def read_windows(family, get, n_layer):
    window, period = get("attention.sliding_window", family.get("window", 0)), family.get("period", 1)
    pattern = get("attention.sliding_window_pattern", period)
    if not isinstance(pattern, list):
        pattern = [pattern in (0, 1) or layer % pattern < pattern - 1 for layer in range(n_layer)]
    return tuple(window if window and local else None for local in pattern)


def read_ropes(family, get, windows):
    """The Rope of each layer."""
    kind = get("rope.scaling.type", "linear")
    if kind not in ("none", "linear", "yarn", "longrope"):
        raise SystemExit(f"rope scaling {kind} is not implemented here")
    stretch = family.get("stretch", 1.0) if get("context_length") >= 131072 and get("rope.freq_base", 0) == 0 else 1.0
    scale = get("rope.scaling.factor", get("rope.scale_linear", stretch)) or stretch
    magnitude = get("rope.scaling.attn_factor", 1.0)
    if kind == "yarn" and scale > 1:
        magnitude *= 0.1 * math.log(scale) + 1
    far = Rope(
        base=get("rope.freq_base", get("rope.global.freq_base", family.get("base", 10000.0))), scale=scale if kind in ("linear", "yarn") else 1.0, magnitude=magnitude,
        original_ctx=get("rope.scaling.original_context_length", get("context_length")), yarn=kind == "yarn",
        beta_fast=get("rope.scaling.yarn_beta_fast", 32.0), beta_slow=get("rope.scaling.yarn_beta_slow", 1.0),
        whole_pairs=family.get("whole_pairs", True))
    near = far if family.get("local_scaling") else Rope(
        get("rope.freq_base_swa", get("rope.local.freq_base", family.get("local_base", far.base))))
    turns = family.get("rope_on", lambda layer, window: True)
    listed = get("rope.layer_pattern", [turns(layer, window) for layer, window in enumerate(windows)])
    return tuple((near if window and family.get("period") else far) if on else None
                 for on, window in zip(listed, windows))


def read_config(metadata):
    get = Metadata(metadata)
    if get.architecture not in FAMILIES:
        raise SystemExit(f"architecture {get.architecture} is not implemented here; {', '.join(FAMILIES)} are")
    family = FAMILIES[get.architecture]
    n_layer, n_head, d_model = get("block_count"), get.largest("attention.head_count", None), get("embedding_length")
    d_head = get("attention.key_length", d_model // n_head)
    windows = read_windows(family, get, n_layer)
    logit_scale = get("logit_scale", 1.0) or 1.0
    alibi = 8.0 if n_layer == family.get("alibi_layers") else family.get("alibi", 0.0)
    alibi = get("attention.max_alibi_bias", alibi)
    # Gemma's largest models take d_model/n_head for d_head here; their files do not say so.
    score_scale = (d_model // n_head if n_layer == family.get("wide_layers") else d_head) ** -0.5
    rope = "none" if "alibi_layers" in family and alibi else family.get("rope", "none")
    return Config(
        n_layer=n_layer, n_head=n_head, d_head=d_head,
        n_head_kv=get.largest("attention.head_count_kv", n_head),
        norm=family["norm"], mlp=NAMED.get(get("hidden_activation", ""), family["mlp"]), rope=rope,
        norm_eps=get("attention.layer_norm_epsilon" if family["norm"] == "layer" else
                     "attention.layer_norm_rms_epsilon", family.get("eps")),
        rope_dim=get("rope.dimension_count", d_head), ropes=read_ropes(family, get, windows), windows=windows,
        parallel_residual=family.get("parallel_residual", get("use_parallel_residual", False)),
        norms=family.get("norms", "before"), ffn_norm=family.get("ffn_norm", "ffn_norm"),
        output_norm=family.get("output_norm", "output_norm"), embedding_norm=family.get("embedding_norm", False),
        position_offset=get("position_offset", 0),
        embedding_scale=d_model ** 0.5 if family.get("scale_embedding") else get("embedding_scale", 1.0) or 1.0,
        residual_scale=get("residual_scale", 1.0) or 1.0,
        score_scale=get("attention.scale", score_scale) or score_scale,
        score_cap=get("attn_logit_softcapping", family.get("score_cap", 0.0)),
        logit_cap=get("final_logit_softcapping", family.get("logit_cap", 0.0)),
        logit_scale=1 / logit_scale if family.get("divide_logits") else logit_scale,
        clamp=get("attention.clamp_kqv", 0.0), alibi=alibi,
        n_key_heads=get("ssm.group_count", 0), d_state=get("ssm.state_size", 0),
        n_expert_used=get("expert_used_count", 0), clamp_normed=family.get("clamp_normed", False),
        renormalised=get("expert_weights_norm", family.get("renormalised", True)))
