"""A small model of each family of families.py, with the names of tensors and keys that llama.cpp's converter gives a
real file of it: random weights, a vocabulary without text, texts that cross windows and what RoPE factors speak of.

Tensors are listed as name:shape, each letter a size. A + says that there is a bias as well, a dot that .weight does not
follow.

    d  the residual stream       h  a head          e  experts                 n  positions
    H, K  heads, kv heads        q  H·h             x  an expert's hidden      p  pairs of RoPE
    f  the MLP's hidden layer    k  K·h             s  the shared one's        V  tokens
    F  2f                        c  q + 2k          Q  2q                      N  positions and opt's two

    w  the reach of lfm2's convolution    T  3d
    Y  value heads of qwen35's delta net, S  numbers of each, y  Y·S, X  y + those of queries and keys, u  the reach of
    its convolution"""
from dataclasses import dataclass, replace

import numpy as np

import dtype_models
import gguf
from families import FAMILIES
from formula import Model

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
SHARED = "ffn_gate_shexp:sd ffn_up_shexp:sd ffn_down_shexp:ds "
PHI3 = "attn_norm:d attn_qkv:cd attn_output:dq ffn_norm:d ffn_up:Fd ffn_down:df "
LONG_ROPE = "rope_factors_long:p rope_factors_short:p "
GPT_OSS = ("attn_norm:d attn_q:qd+ attn_k:kd+ attn_v:kd+ attn_output:dq+ attn_sinks:H post_attention_norm:d "
           "ffn_gate_inp:ed+ ffn_gate_exps:exd+ ffn_up_exps:exd+ ffn_down_exps:edx+ ")
OLMO2 = "attn_q:qd attn_k:kd attn_v:kd attn_output:dq ffn_gate:fd ffn_up:fd ffn_down:df " + ROW_NORMS + POST_NORMS
COMMAND_R = SPLIT + "ffn_gate:fd ffn_up:fd ffn_down:df "
CONVOLUTION = "attn_norm:d shortconv.conv:dw shortconv.in_proj:Td shortconv.out_proj:dd " + GATED
BEHIND_MIXER = "post_attention_norm:d ffn_gate:fd ffn_up:fd ffn_down:df "
GATED_ATTENTION = "attn_norm:d attn_q:Qd attn_k:kd attn_v:kd attn_output:dq " + HEAD_NORMS + BEHIND_MIXER
DELTA_NET = ("attn_norm:d attn_qkv:Xd attn_gate:yd ssm_conv1d:Xu ssm_a.:Y ssm_dt.bias:Y ssm_alpha:Yd ssm_beta:Yd "
             "ssm_norm:S ssm_out:dy " + BEHIND_MIXER)
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
    spreads: tuple = ()     # (part of a name, how wide its weights spread): before SPREADS
    omitted: bool = False   # only compared with llama.cpp: not among the committed files

    def __getattr__(self, letter):
        sizes = {**SIZES, **self.sizes, "n": self.n_ctx}
        sizes.setdefault("K", sizes["H"])
        sizes.update(q=sizes["H"] * sizes["h"], k=sizes["K"] * sizes["h"], F=2 * sizes["f"], T=3 * sizes["d"],
                     Q=2 * sizes["H"] * sizes["h"], w=3)
        sizes["c"] = sizes["q"] + 2 * sizes["k"]
        if letter not in sizes:
            raise AttributeError(letter)
        return sizes[letter]


SIZES = dict(d=16, H=4, h=4, f=24, V=37)
u32, f32 = np.uint32, np.float32


# Keys; a letter stands for its size.
LENGTHS = {"attention.key_length": "h", "attention.value_length": "h"}
ROPE = {"rope.dimension_count": "h", "rope.freq_base": f32(1000)}
DELTA = dict(S=6, Y=4, y=24, X=24 + 2 * 2 * 6, u=4)  # two heads of queries and keys
DELTA_KEYS = {"ssm.conv_kernel": "u", "ssm.inner_size": "y", "ssm.state_size": "S", "ssm.time_step_rank": "Y",
              "ssm.group_count": u32(2), "full_attention_interval": u32(2), "rope.dimension_count": u32(4),
              "rope.freq_base": f32(1000), "rope.dimension_sections": np.array([1, 1, 0, 0], "<i4")}
TWO_EXPERTS = {"expert_count": "e", "expert_used_count": u32(2)}
EXPERT_LENGTH = {"expert_feed_forward_length": "x"}
GRANITE = {"attention.scale": f32(0.4), "embedding_scale": f32(3), "residual_scale": f32(0.5), "logit_scale": f32(2.5)}
OSS_KEYS = {**LENGTHS, **TWO_EXPERTS, "attention.sliding_window": u32(5), "rope.freq_base": f32(150),
            "rope.scaling.type": "yarn", "rope.scaling.factor": f32(32),
            "rope.scaling.original_context_length": u32(64), "rope.scaling.yarn_beta_fast": f32(4),
            "rope.scaling.yarn_beta_slow": f32(1)}
# Beyond gpt-oss's limit of 7.
LOUD = (("ffn_gate_exps.weight", 4.0), ("ffn_up_exps.weight", 4.0), ("ffn_down_exps.weight", 0.4))
COMMAND_R_KEYS = {"rope.freq_base": f32(1000), "rope.scaling.type": "none", "logit_scale": f32(0.4)}

MODELS = [
    Small("qwen2", 101, dict(K=2), UNTIED, SPLIT_BIASES + GATED, {"rope.freq_base": f32(1000)}),
    Small("qwen2-tied-yarn", 102, dict(H=2, h=8, K=1), TIED, SPLIT_BIASES + GATED, {
        "rope.freq_base": f32(150), "rope.scaling.type": "yarn", "rope.scaling.factor": f32(4),
        "rope.scaling.original_context_length": u32(64)}, n_ctx=256),
    Small("qwen3", 103, dict(h=6, K=2), TIED, SPLIT + HEAD_NORMS + GATED, {**LENGTHS, "rope.freq_base": f32(1000)}),
    Small("gptneox", 104, dict(H=2, h=8), UNTIED_BIASES, FUSED_BIASES + MLP_BIASES, {
        "rope.dimension_count": u32(4), "use_parallel_residual": True}),
    Small("gptneox-sequential", 105, dict(H=2, h=8), UNTIED_BIASES, FUSED_BIASES + MLP_BIASES, {
        "rope.dimension_count": u32(4), "use_parallel_residual": False}),
    Small("gptneox-tanh", 157, dict(H=2, h=8), UNTIED_BIASES, FUSED_BIASES + MLP_BIASES, {
        "rope.dimension_count": u32(4), "use_parallel_residual": True, "hidden_activation": "gelu_new"},
        spreads=(("ffn_up", 4.0), ("ffn_down.weight", 4.0))),
    Small("gemma", 106, dict(h=6, K=1), TIED, SPLIT + GATED, LENGTHS),
    Small("gemma2", 107, dict(h=6, K=2), TIED, SPLIT + GATED + POST_NORMS, {
        **LENGTHS, "attn_logit_softcapping": f32(2.5), "final_logit_softcapping": f32(3),
        "attention.sliding_window": u32(20)}, n_tokens=70, n_ctx=80),
    Small("gemma2-bare", 156, dict(h=6, K=2), TIED, SPLIT + GATED + POST_NORMS, {
        **LENGTHS, "attn_logit_softcapping": f32(2 ** 60), "final_logit_softcapping": f32(2 ** 60),
        "attention.sliding_window": u32(5), "attention.scale": f32(0.25)}),
    # As converted in June 2024: no word of windows, which are of 4,096 tokens.
    Small("gemma2-june", 161, dict(h=6, K=2), TIED, SPLIT + GATED + POST_NORMS, {
        **LENGTHS, "attn_logit_softcapping": f32(2.5), "final_logit_softcapping": f32(3)}),
    Small("gemma3", 108, dict(h=6, K=1), TIED, SPLIT + HEAD_NORMS + GATED + POST_NORMS, {
        **LENGTHS, "attention.sliding_window": u32(4), "rope.freq_base": f32(1e6),
        "rope.scaling.type": "linear", "rope.scaling.factor": f32(8)}, n_layer=7),
    Small("gemma3-long", 109, dict(h=6, K=2), TIED, SPLIT + HEAD_NORMS + GATED + POST_NORMS, {
        **LENGTHS, "attention.sliding_window": u32(40), "attention.sliding_window_pattern": u32(2),
        "rope.freq_base": f32(1e6), "rope.freq_base_swa": f32(500)}, n_tokens=150, n_ctx=160),
    # As Ollama first wrote it: keys of its own, a tower for pictures beside the text, no word of ε and of what is stretched.
    Small("gemma3-ollama", 160, dict(h=6, K=1), TIED + "v.patch_embedding:dh mm.mm_soft_emb_norm:d ",
          SPLIT + HEAD_NORMS + GATED + POST_NORMS, {
              **LENGTHS, "attention.sliding_window": u32(4), "rope.global.freq_base": f32(300),
              "rope.local.freq_base": f32(20), "vision.block_count": u32(2), "mm.tokens_per_image": u32(256),
              "attention.sliding_window_pattern": np.array([1, 1, 0], "<i4")}, n_layer=3, n_ctx=131072),
    Small("gemma2-wide", 110, dict(h=6, K=2), TIED, SPLIT + GATED + POST_NORMS, {
        **LENGTHS, "attn_logit_softcapping": f32(2.5), "final_logit_softcapping": f32(3),
        "attention.sliding_window": u32(5)}, n_layer=46, omitted=True),
    Small("gemma3-wide", 111, dict(h=6, K=1), TIED, SPLIT + HEAD_NORMS + GATED + POST_NORMS, {
        **LENGTHS, "attention.sliding_window": u32(4), "rope.freq_base": f32(1e6)}, n_layer=62, omitted=True),
    Small("phi2", 112, dict(H=2, h=8), "token_embd:Vd output_norm:d+ output:Vd+",
          ALL_BIASES + "ffn_up:fd+ ffn_down:df+", {"rope.dimension_count": u32(4)}),
    Small("phi3", 113, dict(H=2, h=8), UNTIED, PHI3, {
        **ROPE, "rope.scaling.original_context_length": u32(32), "attention.sliding_window": u32(6)}),
    Small("phi3-long", 114, dict(H=2, h=8, K=1, p=3), TIED + LONG_ROPE, PHI3, {
        "rope.dimension_count": u32(6), "rope.freq_base": f32(100), "rope.scaling.original_context_length": u32(16),
        "rope.scaling.attn_factor": f32(1.19), "attention.sliding_window": u32(0)}, n_ctx=48, n_tokens=24),
    Small("phi3-short", 115, dict(H=2, h=8, p=4), UNTIED + LONG_ROPE, PHI3, {
        **ROPE, "rope.scaling.original_context_length": u32(512), "rope.scaling.attn_factor": f32(1.19),
        "attention.sliding_window": u32(512)}, n_ctx=512),
    Small("gptj", 116, dict(H=2, h=8), "token_embd:Vd output_norm:d+ output:Vd+",
          "attn_norm:d+ attn_q:qd attn_k:kd attn_v:kd attn_output:dq ffn_up:fd+ ffn_down:df+",
          {"rope.dimension_count": u32(4)}),
    Small("bloom", 117, dict(H=6, d=24), "token_embd:Vd token_embd_norm:d+ output_norm:d+",
          FUSED_BIASES + MLP_BIASES, {}),
    Small("mpt", 118, {}, TIED, "attn_norm:d attn_qkv:cd attn_output:dq ffn_norm:d ffn_up:fd ffn_down:df", {
        "attention.clamp_kqv": f32(1.5), "attention.max_alibi_bias": f32(8)}, n_tokens=70, n_ctx=80),
    Small("mpt-scale", 158, {}, TIED, "attn_norm:d attn_qkv:cd attn_output:dq ffn_norm:d ffn_up:fd ffn_down:df", {
        "attention.max_alibi_bias": f32(8), "attention.scale": f32(1.2)}),
    Small("mpt-learned", 119, {}, TIED_BIASES + "position_embd:nd",
          FUSED_BIASES + MLP_BIASES, {"attention.max_alibi_bias": f32(0)}),
    Small("llama-yarn", 120, dict(H=2, h=8, K=1), TIED, SPLIT + GATED, {
        "rope.dimension_count": "h", "rope.freq_base": f32(100), "rope.scaling.type": "yarn",
        "rope.scaling.factor": f32(4), "rope.scaling.original_context_length": u32(64),
        "rope.scaling.attn_factor": f32(1.1)}, n_ctx=256),
    Small("llama-longrope", 121, dict(H=2, h=8, p=4), TIED + LONG_ROPE, SPLIT + GATED, {
        **ROPE, "rope.scaling.type": "longrope", "rope.scaling.original_context_length": u32(16),
        "rope.scaling.attn_factor": f32(1.19)}, n_ctx=64),
    Small("llama-experts", 1122, dict(K=2, e=4, x=24), UNTIED, SPLIT + EXPERTS, {**ROPE, **TWO_EXPERTS}),
    Small("qwen2moe", 123, dict(K=2, e=4, x=12, s=20), UNTIED,
          SPLIT_BIASES + EXPERTS + "ffn_gate_inp_shexp:d " + SHARED, {
              "rope.freq_base": f32(1000), **TWO_EXPERTS, **EXPERT_LENGTH, "expert_shared_feed_forward_length": "s"}),
    Small("qwen3moe", 2124, dict(h=6, K=2, e=6, x=12), UNTIED, SPLIT + HEAD_NORMS + EXPERTS, {
        **LENGTHS, "rope.freq_base": f32(1000), "expert_count": "e", "expert_used_count": u32(3), **EXPERT_LENGTH}),
    Small("olmoe", 2125, dict(e=4, x=24), UNTIED, SPLIT + ROW_NORMS + EXPERTS, TWO_EXPERTS),
    Small("qwen3moe-raw", 5154, dict(h=6, K=2, e=6, x=12), UNTIED, SPLIT + HEAD_NORMS + EXPERTS, {
        **LENGTHS, "rope.freq_base": f32(1000), "expert_count": "e", "expert_used_count": u32(3), **EXPERT_LENGTH,
        "expert_weights_norm": False}),
    Small("olmoe-clipped", 4155, dict(e=4, x=24), UNTIED, SPLIT + ROW_NORMS + EXPERTS, {
        **TWO_EXPERTS, "attention.clamp_kqv": f32(0.9), "expert_weights_norm": True}),
    Small("granitemoe", 3126, dict(K=2, e=4, x=24, s=16), TIED, SPLIT + EXPERTS + SHARED, {
        **ROPE, **GRANITE, **TWO_EXPERTS, "expert_shared_feed_forward_length": "s"}),
    Small("gpt-oss", 23127, dict(h=8, H=2, K=1, e=4, x=12), UNTIED, GPT_OSS, {
        **OSS_KEYS, "expert_feed_forward_length": "x"}, "gpt-oss", n_layer=3, n_ctx=256, n_tokens=70,
        spreads=LOUD),
    Small("gpt-oss-mxfp4", 3128, dict(h=8, H=2, K=1, d=32, e=4, x=32, f=32), UNTIED, GPT_OSS, {
        **OSS_KEYS, "expert_feed_forward_length": "x"}, "gpt-oss", n_ctx=256,
        packed=(("exps.weight", "MXFP4"),), spreads=LOUD),
    Small("gpt_neo", 129, {}, TIED_BIASES + "position_embd:nd",
          "attn_norm:d+ attn_q:qd attn_k:kd attn_v:kd attn_output:dq+ " + MLP_BIASES, {
              "attention.scale": f32(1), "attention.sliding_window": u32(6),
              "attention.sliding_window_pattern": np.array([False, True, False])}, n_layer=3),
    Small("opt", 130, dict(N=34), TIED_BIASES + "position_embd:Nd", ALL_BIASES + MLP_BIASES,
          {"position_offset": u32(2), "attention.layer_norm_epsilon": f32(1e-5)}),
    Small("olmo", 131, {}, "token_embd:Vd ",
          "attn_q:qd attn_k:kd attn_v:kd attn_output:dq ffn_gate:fd ffn_up:fd ffn_down:df", {
              **ROPE, "attention.clamp_kqv": f32(1.5), "attention.layer_norm_epsilon": f32(1e-5)}),
    Small("olmo2", 132, {}, UNTIED, OLMO2, {"rope.freq_base": f32(1000)}),
    Small("olmo2-3", 133, dict(H=2, h=8), UNTIED, OLMO2, {
        "rope.freq_base": f32(150), "rope.scaling.type": "yarn", "rope.scaling.factor": f32(8),
        "rope.scaling.original_context_length": u32(64), "rope.scaling.yarn_attn_factor": f32(0.878),  # which nobody obeys
        "rope.scaling.yarn_beta_fast": f32(32), "rope.scaling.yarn_beta_slow": f32(1),
        "attention.sliding_window": u32(5),
        "attention.sliding_window_pattern": np.array([True, True, False])}, n_layer=3, n_ctx=512),
    Small("granite", 134, dict(K=2), TIED, SPLIT + GATED, {**ROPE, **GRANITE}),
    Small("smollm3", 135, dict(K=2), TIED, SPLIT + GATED, ROPE, n_layer=5),
    Small("smollm3-layers", 159, dict(K=2), TIED, SPLIT + GATED, {
        **ROPE, "rope.layer_pattern": np.array([False, True, True, False, True])}, n_layer=5),
    Small("stablelm", 136, dict(H=2, h=8), UNTIED_BIASES,
          "attn_norm:d+ attn_q:qd+ attn_k:kd+ attn_v:kd+ attn_output:dq "
          "ffn_norm:d+ ffn_gate:fd ffn_up:fd ffn_down:df",
          {"rope.dimension_count": u32(4), "use_parallel_residual": True}),  # as converters write it
    Small("stablelm-parallel", 137, dict(H=2, h=8, K=1), UNTIED_BIASES,
          "attn_norm:d+ attn_q:qd attn_k:kd attn_v:kd attn_output:dq " + EACH_HEAD_NORMS +
          "ffn_gate:fd ffn_up:fd ffn_down:df", {"rope.dimension_count": u32(4), "use_parallel_residual": True}),
    Small("falcon", 138, dict(K=1), TIED_BIASES, "attn_norm:d+ attn_qkv:cd attn_output:dq ffn_up:fd ffn_down:df",
          {"tensor_data_layout": "jploski"}),
    Small("falcon-two-norms", 139, dict(K=2), UNTIED_BIASES,
          "attn_norm:d+ attn_norm_2:d+ attn_qkv:cd attn_output:dq ffn_up:fd ffn_down:df",
          {"tensor_data_layout": "jploski"}),
    Small("starcoder", 140, dict(K=1), TIED_BIASES + "position_embd:nd", FUSED_BIASES + MLP_BIASES, {}),
    Small("starcoder2", 141, dict(K=2), TIED_BIASES, ALL_BIASES + MLP_BIASES, {"rope.freq_base": f32(1000)}),
    Small("exaone", 142, dict(K=2, p=2), TIED + "rope_freqs:p", SPLIT + GATED, ROPE),
    Small("internlm2", 143, dict(K=2), UNTIED, SPLIT + GATED, ROPE),
    Small("baichuan", 144, dict(d=8, H=2, f=8), UNTIED, SPLIT + GATED, {"rope.dimension_count": "h"}, n_layer=32),
    Small("baichuan-alibi", 145, dict(d=8, H=2, f=8), UNTIED, SPLIT + GATED, {"rope.dimension_count": "h"},
          n_layer=40),
    Small("command-r", 146, dict(K=2), TIED, COMMAND_R, COMMAND_R_KEYS, "command-r"),
    Small("command-r-plus", 147, dict(K=2), TIED, COMMAND_R + EACH_HEAD_NORMS, COMMAND_R_KEYS, "command-r"),
    Small("command-r-64", 148, dict(K=2), TIED, COMMAND_R + EACH_HEAD_NORMS, COMMAND_R_KEYS, "command-r", n_layer=64,
          omitted=True),
    Small("cohere2", 149, dict(K=2), TIED, COMMAND_R, {
        **COMMAND_R_KEYS, "rope.dimension_count": "h", "attention.sliding_window": u32(5)}, n_layer=5),
    Small("nemotron", 150, dict(H=2, h=8, K=1), UNTIED_BIASES,
          "attn_norm:d+ attn_q:qd attn_k:kd attn_v:kd attn_output:dq ffn_norm:d+ ffn_up:fd ffn_down:df", {
              "rope.dimension_count": u32(4), "rope.scaling.type": "none"}),
    Small("lfm2", 151, dict(H=2, h=8, K=1), "token_embd:Vd token_embd_norm:d", [
        CONVOLUTION, SPLIT + HEAD_NORMS + GATED, CONVOLUTION], {
            "attention.head_count_kv": np.array([0, 1, 0], "<u4"), "shortconv.l_cache": u32(3),
            "rope.freq_base": f32(1000)}, n_layer=3),
    Small("qwen35", 152, dict(H=2, h=8, K=1, **DELTA), TIED, [DELTA_NET, GATED_ATTENTION] * 2, {
        **LENGTHS, **DELTA_KEYS, "attention.layer_norm_rms_epsilon": f32(1e-6)}, n_layer=4),
    # Heads wide enough for what is done sixteen numbers at a time, and some behind.
    Small("qwen35-wide", 153, dict(d=8, H=2, h=8, K=1, S=36, Y=2, y=72, X=72 + 2 * 36, u=4), TIED,
          [DELTA_NET, GATED_ATTENTION], {
              **LENGTHS, **DELTA_KEYS, "ssm.group_count": u32(1), "attention.layer_norm_rms_epsilon": f32(1e-6)}),
    Small("qwen3vl", 154, dict(h=6, K=2), UNTIED, SPLIT + HEAD_NORMS + GATED, {
        **LENGTHS, "rope.freq_base": f32(1000), "rope.dimension_sections": np.array([1, 1, 1, 0], "<i4"),
        "n_deepstack_layers": u32(2)}),
]


def architecture(model):
    return model.architecture or model.name.split("-")[0]


def model_metadata(model):
    a = architecture(model)
    norm = "layer_norm_epsilon" if FAMILIES[a]["norm"] == "layer" else "layer_norm_rms_epsilon"
    usual = {"context_length": u32(model.n_ctx), "embedding_length": u32(model.d), "block_count": u32(model.n_layer),
             "feed_forward_length": u32(model.f), "attention.head_count": u32(model.H),
             "attention.head_count_kv": u32(model.K), "attention." + norm: f32(3e-4), "vocab_size": u32(model.V)}
    if "rope.global.freq_base" in model.keys:
        del usual["attention." + norm]
    usual.update({key: u32(getattr(model, value)) if isinstance(value, str) and len(value) == 1 else value
                  for key, value in model.keys.items()})
    return {"general.architecture": a, "general.type": "model", "general.name": model.name,
            "general.description": f"random weights, seed {model.seed}, made by scripts/expect/reference.py",
            **{f"{a}.{key}": value for key, value in usual.items()}, "tokenizer.ggml.model": "no_vocab"}


def varied(model, seed):
    """The same family with other sizes, lengths and numbers, drawn by a seed."""
    random = np.random.RandomState(seed)
    draw = lambda low, high: int(random.randint(low, high + 1))
    keys, sizes = dict(model.keys), dict(SIZES, **model.sizes)
    packed = bool(model.packed)  # whose rows are whole blocks
    if "Y" not in sizes:
        sizes["h"], heads = 2 * draw(2, 24), draw(1, 8)
        K = sizes.get("K", sizes["H"])
        shared = random.choice([k for k in range(1, heads + 1) if heads % k == 0])
        sizes["K"] = heads if K == sizes["H"] else 1 if K == 1 else int(shared)
        sizes["H"] = heads
        if not packed:
            sizes["d"] = 2 * draw(4, 40) if "attention.key_length" in keys else heads * sizes["h"]
    for letter, low, high in (("f", 3, 150), ("V", 11, 300), ("x", 3, 60), ("s", 3, 60), ("e", 3, 9)):
        if letter in sizes and not (packed and letter in "xf"):
            sizes[letter] = draw(low, high)
    if "x" in sizes and "expert_feed_forward_length" not in keys:
        sizes["x"] = sizes["f"]
    turning = keys.get("rope.dimension_count")
    if turning is not None and turning != "h" and "Y" not in sizes:
        turning = 2 * draw(1, sizes["h"] // 2)
        keys["rope.dimension_count"] = u32(turning)
    if "p" in sizes:
        sizes["p"] = (sizes["h"] if turning == "h" else int(turning)) // 2
    n_tokens = draw(17 if "rope_factors_long" in model.outer else 2, 200)
    n_ctx = max(model.n_ctx, n_tokens)
    if "N" in sizes:
        sizes["N"] = n_ctx + 2
    if "expert_used_count" in keys:
        keys["expert_used_count"] = u32(draw(1, sizes["e"] - 1))
    for key, value in keys.items():
        if key == "attention.sliding_window" and value > 0 and model.name != "phi3-short":
            keys[key] = u32(draw(1, n_tokens + 10))
        elif isinstance(value, np.float32) and "yarn" not in key and value > 0:
            keys[key] = f32(value * np.exp(random.uniform(-0.7, 0.7)))
    free = isinstance(model.layer, str) and model.n_layer < 12 and not isinstance(
        keys.get("attention.sliding_window_pattern"), np.ndarray)
    return replace(model, name=f"{model.name}-{seed}", architecture=architecture(model), seed=seed, sizes=sizes,
                   keys=keys, n_layer=draw(1, 6) if free else model.n_layer, n_tokens=n_tokens, n_ctx=n_ctx)


# How wide the weights of a tensor spread: the first part found in its name decides. Matrices divide by √inputs.
SPREADS = [("attn_q", 1.5), ("attn_k", 1.5), ("attn_qkv", 1.3), ("ffn_gate_inp", 5.0), ("ffn_gate", 1.5),
           ("ffn_up", 1.5), ("output.weight", 2.0), ("", 1.0)]


def random_tensor(random, name, shape, spreads=()):
    if name.endswith("ssm_a"):  # less than 0: how fast a head forgets
        return -np.abs(random(0.5, 0.3, shape)) - 0.05
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
    return random(0, next(spread for part, spread in [*spreads, *SPREADS] if part in name) / shape[-1] ** 0.5, shape)


def random_weights(model):
    """name → float32 array, of names and shapes as listed."""
    random, weights = np.random.RandomState(model.seed).normal, {}

    def add(prefix, tensors):
        for tensor in tensors.split():
            name, shape = tensor.split(":")
            shape, has_bias = tuple(getattr(model, letter) for letter in shape.rstrip("+")), shape.endswith("+")
            full = name if name.endswith(".bias") else name.rstrip(".") if name.endswith(".") else name + ".weight"
            weights[prefix + full] = random_tensor(random, prefix + full, shape, model.spreads)
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
    layers = range(model.n_layer + 1) if model.n_layer < 12 else (0, 1, model.n_layer - 1, model.n_layer)
    out = dtype_models.expected(metadata, tensors, model.seed, n, positions, model.V, all_edits=True)
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
