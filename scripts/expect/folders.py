#!/usr/bin/env python3
"""GGUF models as Hugging Face folders, for tests: the weights' names and layouts of transformers' classes.

    scripts/expect/folders.py MODEL.gguf FOLDER [MODEL.gguf FOLDER ...]

A FOLDER that ends in -parts gets its weights in three files, in -cut weights of F32 cut to BF16; GPT-J's in one that ends
in -codegen become CodeGen's, which differ in how they lie, in -codegen2 CodeGen2's. Baichuan's in -baichuan2 become those of
Baichuan 2, whose code makes the head's rows as long as each other.
The inverse of what hub/folder.c does, written from transformers' modelling code. Plain Python, so that `make test`
can run it anywhere; made for models of some thousand weights, of F32, F16 or BF16.
"""
import json
import math
import os
import re
import struct
import sys

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TYPES = {0: ("F32", 4), 1: ("F16", 2), 30: ("BF16", 2), 39: ("MXFP4", 17 / 32)}


class Gguf:
    """Metadata, and tensors as (type, shape, bytes), the shape with rows first."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.at = 8
        n_tensors, n_keys = self.take("QQ")
        self.keys = {}
        for _ in range(n_keys):
            key = self.string()
            self.keys[key] = self.value(self.take("I")[0])
        infos = []
        for _ in range(n_tensors):
            name = self.string()
            shape = self.take("%dQ" % self.take("I")[0])[::-1]
            infos.append((name, shape) + self.take("IQ"))
        alignment = self.keys.get("general.alignment", 32)
        data = (self.at + alignment - 1) // alignment * alignment
        self.tensors = {}
        for name, shape, number, offset in infos:
            n = 1
            for size in shape:
                n *= size
            begin = data + offset
            self.tensors[name] = TYPES[number][0], shape, self.bytes[begin:begin + int(n * TYPES[number][1])]

    def take(self, layout):
        values = struct.unpack_from("<" + layout, self.bytes, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def string(self):
        n = self.take("Q")[0]
        self.at += n
        return self.bytes[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            kind, n = self.take("IQ")
            return [self.value(kind) for _ in range(n)]
        return self.take(SCALARS[kind])[0]


def rows(data, n):
    """Cuts bytes into n equal rows."""
    size = len(data) // n
    return [data[i * size:(i + 1) * size] for i in range(n)]


def transposed(data, shape, size):
    items = [data[i:i + size] for i in range(0, len(data), size)]
    return b"".join(items[i * shape[1] + j] for j in range(shape[1]) for i in range(shape[0]))


class Writer:
    def __init__(self, model, architecture=None):
        self.model = model
        self.prefix = model.keys["general.architecture"]
        self.architecture = architecture or self.prefix
        self.n_head = self.key("attention.head_count")
        self.n_head_kv = self.key("attention.head_count_kv", self.n_head)
        self.d_model = self.key("embedding_length")
        self.d_head = self.key("attention.key_length", self.d_model // self.n_head)
        self.out = {}

    def key(self, name, otherwise=None):
        return self.model.keys.get(self.prefix + "." + name, otherwise)

    def paired(self, data, n_head):
        """Rows of q or k of Llama's kin: GGUF has a pair's rows side by side, the folder the first of all pairs first."""
        out = []
        for head in rows(data, n_head):
            lines = rows(head, self.d_head)
            n = self.key("rope.dimension_count", self.d_head)
            out += lines[0:n:2] + lines[1:n:2] + lines[n:]
        return b"".join(out)

    def spread(self, data, n_before=0):
        """Rows of a delta net: behind n_before others those of each value head, beside which the folder has the others
        of its key head, and GGUF the same of the next key head."""
        n_head, n_key_head = self.key("ssm.time_step_rank"), self.key("ssm.group_count")
        lines = rows(data, n_before + n_head)
        times = n_head // n_key_head
        return b"".join(lines[:n_before] + [lines[n_before + i * n_key_head + key_head]
                                            for key_head in range(n_key_head) for i in range(times)])

    def parts(self, data):
        """Rows of q, k, v that follow each other, by heads."""
        lines = rows(data, self.n_head + 2 * self.n_head_kv)
        return lines[:self.n_head], lines[self.n_head:-self.n_head_kv], lines[-self.n_head_kv:]

    def grouped(self, data):
        """For each kv head its queries, its key, its value."""
        q, k, v = self.parts(data)
        each = self.n_head // self.n_head_kv
        return b"".join(b"".join(q[i * each:(i + 1) * each]) + k[i] + v[i] for i in range(self.n_head_kv))

    def put(self, name, kind, shape, data):
        self.out[name] = kind, list(shape), data


LLAMA = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
         "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "": "model.layers."}
AROUND = dict(LLAMA, ffn_norm="pre_feedforward_layernorm", post_attention_norm="post_attention_layernorm",
              post_ffw_norm="post_feedforward_layernorm")
QWEN_EXPERTS = dict(LLAMA, ffn_gate_inp="mlp.gate", ffn_gate_exps="mlp.experts.#.gate_proj",
                    ffn_up_exps="mlp.experts.#.up_proj", ffn_down_exps="mlp.experts.#.down_proj",
                    ffn_gate_inp_shexp="mlp.shared_expert_gate", ffn_gate_shexp="mlp.shared_expert.gate_proj",
                    ffn_up_shexp="mlp.shared_expert.up_proj", ffn_down_shexp="mlp.shared_expert.down_proj")
MIXTRAL = dict(LLAMA, ffn_gate_inp="block_sparse_moe.gate", ffn_gate_exps="block_sparse_moe.experts.#.w1",
               ffn_up_exps="block_sparse_moe.experts.#.w3", ffn_down_exps="block_sparse_moe.experts.#.w2")
GPT2 = {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f",
        "output": "lm_head", "attn_norm": "ln_1", "ffn_norm": "ln_2", "attn_qkv": "attn.c_attn",
        "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj", "": "transformer.h."}
GPTJ = dict(GPT2, attn_q="attn.q_proj", attn_k="attn.k_proj", attn_v="attn.v_proj", attn_output="attn.out_proj",
            ffn_up="mlp.fc_in", ffn_down="mlp.fc_out")
QWEN35 = dict(LLAMA, post_attention_norm="post_attention_layernorm", attn_qkv="linear_attn.in_proj_qkv",
              attn_gate="linear_attn.in_proj_z", ssm_alpha="linear_attn.in_proj_a", ssm_beta="linear_attn.in_proj_b",
              ssm_conv1d="linear_attn.conv1d", ssm_a="linear_attn.A_log", ssm_dt="linear_attn.dt_bias",
              ssm_norm="linear_attn.norm", ssm_out="linear_attn.out_proj")
LFM2 = dict(LLAMA, token_embd_norm="model.embedding_norm", attn_norm="operator_norm", ffn_norm="ffn_norm",
            attn_output="self_attn.out_proj", attn_q_norm="self_attn.q_layernorm", attn_k_norm="self_attn.k_layernorm",
            ffn_gate="feed_forward.w1", ffn_up="feed_forward.w3", ffn_down="feed_forward.w2")
LFM2.update({"shortconv." + name: "conv." + name for name in ("conv", "in_proj", "out_proj")})
NAMES = {
    "qwen35": QWEN35, "lfm2": LFM2,
    "gpt2": GPT2, "starcoder": GPT2, "gptj": GPTJ, "codegen": GPTJ,
    "gpt_neo": dict(GPT2, attn_q="attn.attention.q_proj", attn_k="attn.attention.k_proj",
                    attn_v="attn.attention.v_proj", attn_output="attn.attention.out_proj"),
    "gptneox": {"token_embd": "gpt_neox.embed_in", "output_norm": "gpt_neox.final_layer_norm", "output": "embed_out",
                "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
                "attn_qkv": "attention.query_key_value", "attn_output": "attention.dense",
                "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h", "": "gpt_neox.layers."},
    "bloom": {"token_embd": "transformer.word_embeddings", "token_embd_norm": "transformer.word_embeddings_layernorm",
              "output_norm": "transformer.ln_f", "output": "lm_head", "attn_norm": "input_layernorm",
              "ffn_norm": "post_attention_layernorm", "attn_qkv": "self_attention.query_key_value",
              "attn_output": "self_attention.dense", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
              "": "transformer.h."},
    "falcon": {"token_embd": "transformer.word_embeddings", "output_norm": "transformer.ln_f", "output": "lm_head",
               "attn_norm": "input_layernorm", "attn_qkv": "self_attention.query_key_value",
               "attn_output": "self_attention.dense", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
               "": "transformer.h."},
    "mpt": {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.norm_f",
            "attn_norm": "norm_1", "ffn_norm": "norm_2", "attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj",
            "ffn_up": "ffn.up_proj", "ffn_down": "ffn.down_proj", "": "transformer.blocks."},
    "opt": {"token_embd": "model.decoder.embed_tokens", "position_embd": "model.decoder.embed_positions",
            "output_norm": "model.decoder.final_layer_norm", "attn_norm": "self_attn_layer_norm",
            "ffn_norm": "final_layer_norm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj", "attn_output": "self_attn.out_proj", "ffn_up": "fc1", "ffn_down": "fc2",
            "": "model.decoder.layers."},
    "phi2": dict(LLAMA, output_norm="model.final_layernorm", attn_output="self_attn.dense", ffn_up="mlp.fc1",
                 ffn_down="mlp.fc2"),
    "phi3": dict(LLAMA, attn_qkv="self_attn.qkv_proj", ffn_up="mlp.gate_up_proj"),
    "starcoder2": dict(LLAMA, ffn_up="mlp.c_fc", ffn_down="mlp.c_proj"),
    "gemma2": AROUND, "gemma3": AROUND,
    "olmo2": dict(LLAMA, post_attention_norm="post_attention_layernorm", post_ffw_norm="post_feedforward_layernorm"),
    "qwen2moe": QWEN_EXPERTS, "qwen3moe": QWEN_EXPERTS, "olmoe": QWEN_EXPERTS, "llama": MIXTRAL,
    "granitemoe": dict(LLAMA, ffn_gate_inp="block_sparse_moe.router.layer",
                       ffn_down_exps="block_sparse_moe.output_linear", ffn_down_shexp="shared_mlp.output_linear"),
    "gpt-oss": dict(LLAMA, post_attention_norm="post_attention_layernorm", ffn_gate_inp="mlp.router",
                    attn_sinks="self_attn.sinks"),
    "exaone": dict(GPT2, attn_q="attn.attention.q_proj", attn_k="attn.attention.k_proj",
                   attn_v="attn.attention.v_proj", attn_output="attn.attention.out_proj", ffn_gate="mlp.c_fc_0",
                   ffn_up="mlp.c_fc_1"),
    "internlm2": dict(LLAMA, token_embd="model.tok_embeddings", output="output", attn_norm="attention_norm",
                      ffn_norm="ffn_norm", attn_output="attention.wo", ffn_gate="feed_forward.w1",
                      ffn_up="feed_forward.w3", ffn_down="feed_forward.w2"),
}

# model_type, activation under its key, and other keys that say nothing new
CONFIGS = {
    "gpt2": ("gpt2", "activation_function", "gelu_new"), "starcoder": ("gpt_bigcode", "activation_function", "gelu_pytorch_tanh"),
    "gptj": ("gptj", "activation_function", "gelu_new"), "codegen": ("codegen", "activation_function", "gelu_new"),
    "gpt_neo": ("gpt_neo", "activation_function", "gelu_new"), "gptneox": ("gpt_neox", "hidden_act", "gelu"),
    "bloom": ("bloom", None, None), "falcon": ("falcon", "activation", "gelu"), "mpt": ("mpt", None, None),
    "opt": ("opt", "activation_function", "relu"), "phi2": ("phi", "hidden_act", "gelu_new"),
    "starcoder2": ("starcoder2", "hidden_act", "gelu_pytorch_tanh"), "gemma": ("gemma", "hidden_act", "gelu"),
    "gemma2": ("gemma2", "hidden_activation", "gelu_pytorch_tanh"),
    "gemma3": ("gemma3_text", "hidden_activation", "gelu_pytorch_tanh"), "nemotron": ("nemotron", "hidden_act", "relu2"),
    "command-r": ("cohere", "hidden_act", "silu"), "gpt-oss": ("gpt_oss", "hidden_act", "silu"),
    "qwen2moe": ("qwen2_moe", "hidden_act", "silu"), "qwen3moe": ("qwen3_moe", "hidden_act", "silu"),
    "exaone": ("exaone", "activation_function", "silu"), "qwen35": ("qwen3_5_text", "hidden_act", "silu"),
    "qwen3vl": ("qwen3_vl_text", "hidden_act", "silu"), "lfm2": ("lfm2", None, None),
}
OLD = {"gpt2", "starcoder", "gptj", "codegen"}
NEIGHBOURS = {"llama", "granite", "granitemoe", "smollm3", "internlm2", "baichuan", "olmo"}
GAINS = {"gemma", "gemma2", "gemma3", "nemotron", "qwen35"}

# GGUF's keys and config.json's, in most families and in the old ones that begin with n_
KEYS = [("context_length", "max_position_embeddings", "n_positions"), ("embedding_length", "hidden_size", "n_embd"),
        ("block_count", "num_hidden_layers", "n_layer"), ("feed_forward_length", "intermediate_size", "n_inner"),
        ("attention.head_count", "num_attention_heads", "n_head"),
        ("attention.head_count_kv", "num_key_value_heads", None),
        ("attention.key_length", "head_dim", None), ("attention.layer_norm_rms_epsilon", "rms_norm_eps", None),
        ("attention.layer_norm_epsilon", "layer_norm_eps", "layer_norm_epsilon"), ("vocab_size", "vocab_size", "vocab_size"),
        ("attention.clamp_kqv", "clip_qkv", None), ("attn_logit_softcapping", "attn_logit_softcapping", None),
        ("final_logit_softcapping", "final_logit_softcapping", None), ("logit_scale", "logit_scale", None),
        ("embedding_scale", "embedding_multiplier", None), ("residual_scale", "residual_multiplier", None),
        ("attention.sliding_window", "sliding_window", None), ("use_parallel_residual", "use_parallel_residual", None),
        ("expert_count", "num_local_experts", None), ("expert_used_count", "num_experts_per_tok", None),
        ("rope.freq_base", "rope_theta", None), ("rope.freq_base_swa", "rope_local_base_freq", None),
        ("hidden_activation", "hidden_act", "activation_function")]

# How classes call the ε of LayerNorm that do not call it layer_norm_eps; None: it is 1e-5 and has no key.
EPSILONS = {"gpt_neo": "layer_norm_epsilon", "bloom": "layer_norm_epsilon", "mpt": "layer_norm_epsilon",
            "falcon": "layer_norm_epsilon", "nemotron": "norm_eps", "starcoder2": "norm_epsilon", "opt": None, "olmo": None}


def rope_of(writer, tensors):
    """rope_scaling, where there is any."""
    kind = writer.key("rope.scaling.type")
    rope = {"rope_type": kind, "factor": writer.key("rope.scaling.factor")}
    old = writer.key("rope.scaling.original_context_length")
    if kind == "yarn":
        rope["original_max_position_embeddings"] = old
        for key, name in (("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow"),
                          ("yarn_attn_factor", "attn_factor")):
            if writer.key("rope.scaling." + key) is not None:
                rope[name] = writer.key("rope.scaling." + key)
        if writer.key("rope.scaling.attn_factor"):
            usual = 1 + 0.1 * math.log(rope["factor"])
            rope["attention_factor"] = usual * writer.key("rope.scaling.attn_factor")
        if writer.architecture == "gpt-oss":
            rope["truncate"] = False
    if "rope_factors_long.weight" in tensors:
        rope = {"type": "longrope", "original_max_position_embeddings": old,
                "attention_factor": writer.key("rope.scaling.attn_factor")}
        for kind in "long", "short":
            data = tensors["rope_factors_%s.weight" % kind][2]
            rope[kind + "_factor"] = list(struct.unpack("<%df" % (len(data) // 4), data))
        return rope
    return rope if kind in ("linear", "yarn") else None


def config_of(writer):
    architecture = writer.architecture
    kind, act, activation = CONFIGS.get(architecture, (architecture, "hidden_act", "silu"))
    config = {"model_type": kind, "architectures": ["Any"]}
    if architecture == "llama" and writer.key("expert_count"):
        config["model_type"] = "mixtral"
    if act:
        config[act] = activation
    for gguf, name, old in KEYS:
        value, name = writer.key(gguf), old if architecture in OLD else name
        if value is not None and name:
            config[name] = value
    for name in ("num_key_value_heads", "head_dim"):
        if architecture in ("opt", "gpt_neo", "bloom", "gptneox", "baichuan"):
            config.pop(name, None)
    if architecture in EPSILONS:
        epsilon = config.pop("layer_norm_eps")
        if EPSILONS[architecture]:
            config[EPSILONS[architecture]] = epsilon
    tensors = writer.model.tensors
    if architecture == "stablelm":
        config["use_parallel_residual"] = "blk.0.ffn_norm.weight" not in tensors
    if "output.weight" in tensors or architecture in ("opt", "mpt"):
        config["tie_word_embeddings"] = "output.weight" not in tensors
    elif architecture not in ("gpt2", "gemma", "gemma2", "gemma3", "bloom", "falcon"):
        config["tie_word_embeddings"] = True
    rope = rope_of(writer, tensors)
    if rope:
        config["rope_scaling"] = rope
    share = writer.key("rope.dimension_count", writer.d_head) / writer.d_head
    if architecture in ("gptj", "codegen"):
        config["rotary_dim"] = writer.key("rope.dimension_count")
    elif architecture == "gptneox":
        config["rotary_pct"] = share
        config["rotary_emb_base"] = config.pop("rope_theta", 10000)
    elif share != 1:
        config["partial_rotary_factor"] = share
    special(config, writer)
    return config


def special(config, writer):
    """Keys that a class calls otherwise, or says in another way."""
    architecture, pattern = writer.architecture, writer.key("attention.sliding_window_pattern")
    if architecture == "gpt_neo":
        config["window_size"] = config.pop("sliding_window")
        config["attention_layers"] = ["local" if local else "global" for local in pattern]
    elif isinstance(pattern, int):
        config["sliding_window_pattern"] = pattern
    elif pattern:
        config["layer_types"] = ["sliding_attention" if local else "full_attention" for local in pattern]
    if architecture == "olmo2" and pattern:
        config["model_type"] = "olmo3"
    if architecture in ("granite", "granitemoe"):
        config["attention_multiplier"] = writer.key("attention.scale")
        config["logits_scaling"] = config.pop("logit_scale")
    if architecture == "granitemoe":
        config["shared_intermediate_size"] = writer.key("expert_shared_feed_forward_length", 0)
    if architecture in ("qwen2moe", "qwen3moe", "olmoe"):
        config["num_experts"] = config.pop("num_local_experts")
        config["norm_topk_prob"] = writer.key("expert_weights_norm", architecture == "qwen3moe")
    if architecture in ("qwen2moe", "qwen3moe"):
        config["moe_intermediate_size"] = writer.key("expert_feed_forward_length")
    if architecture == "qwen2moe":
        config["shared_expert_intermediate_size"] = writer.key("expert_shared_feed_forward_length")
    if architecture == "gpt-oss":
        config["intermediate_size"] = writer.key("expert_feed_forward_length")
    if architecture == "falcon":
        config["num_kv_heads"] = config.pop("num_key_value_heads")
        config.update(new_decoder_architecture=writer.n_head_kv > 1, multi_query=True, alibi=False, parallel_attn=True)
        config["ffn_hidden_size"] = config.pop("intermediate_size")
    if architecture == "mpt":
        alibi = writer.key("attention.max_alibi_bias")
        names = {"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                 "max_position_embeddings": "max_seq_len"}
        for name, mpt in names.items():
            config[mpt] = config.pop(name)
        config.pop("num_key_value_heads", None)
        config["attn_config"] = {"alibi": alibi > 0, "alibi_bias_max": alibi, "clip_qkv": config.pop("clip_qkv", None),
                                 "softmax_scale": writer.key("attention.scale")}
    if architecture == "bloom":
        config["n_layer"] = config.pop("num_hidden_layers")
        config["seq_length"] = config.pop("max_position_embeddings")
    if architecture == "exaone":
        config["layer_norm_epsilon"] = config.pop("rms_norm_eps")
    if architecture in ("gemma2", "gemma3"):
        config["query_pre_attn_scalar"] = writer.d_head
    if architecture == "gemma2" and writer.key("attention.scale"):
        config["query_pre_attn_scalar"] = writer.key("attention.scale") ** -2
    for cap in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.get(cap, 0) >= 2 ** 50:
            config[cap] = None
    if architecture == "smollm3" and writer.key("rope.layer_pattern"):
        config["no_rope_layers"] = [int(on) for on in writer.key("rope.layer_pattern")]
    if architecture == "opt":
        config["ffn_dim"] = config.pop("intermediate_size")
        config["do_layer_norm_before"] = True
    if architecture == "phi3":
        config["original_max_position_embeddings"] = writer.key("rope.scaling.original_context_length")
    if architecture == "gemma":
        config["hidden_activation"] = None
    if architecture == "lfm2":
        heads = config["num_key_value_heads"]
        config["num_key_value_heads"] = max(heads)
        config["full_attn_idxs"] = [layer for layer, n in enumerate(heads) if n]
        config["conv_L_cache"] = writer.key("shortconv.l_cache")
        config["norm_eps"] = config.pop("rms_norm_eps")
        # three halves of the width, which the class takes two thirds of
        config.update(block_ff_dim=config.pop("intermediate_size") * 3 // 2, block_multiple_of=8,
                      block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True, conv_bias=False)
    if architecture in ("qwen35", "qwen3vl"):
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta"), "mrope_interleaved": True,
                                     "mrope_section": writer.key("rope.dimension_sections")[:3]}
    if architecture == "qwen35":
        config["rope_parameters"]["partial_rotary_factor"] = config.pop("partial_rotary_factor")
        config.update(linear_conv_kernel_dim=writer.key("ssm.conv_kernel"), linear_key_head_dim=writer.key("ssm.state_size"),
                      linear_value_head_dim=writer.key("ssm.state_size"), linear_num_key_heads=writer.key("ssm.group_count"),
                      linear_num_value_heads=writer.key("ssm.time_step_rank"), attn_output_gate=True,
                      full_attention_interval=writer.key("full_attention_interval"))
        config["layer_types"] = ["linear_attention" if "blk.%d.ssm_a" % layer in writer.model.tensors else "full_attention"
                                 for layer in range(config["num_hidden_layers"])]


def beside_pictures(config, writer):
    """The text model as a part of one that sees."""
    text = dict(config)
    config.clear()
    config.update(model_type=text["model_type"].replace("_text", ""), text_config=text,
                  tie_word_embeddings=text["tie_word_embeddings"],
                  vision_config={"hidden_size": 4, "deepstack_visual_indexes": [1, 3], "model_type": "any"})
    writer.out = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in writer.out.items()}
    writer.put("model.visual.patch_embed.proj.weight", "F32", (4, 3, 2, 2, 2), bytes(4 * 96))
    writer.put("model.visual.blocks.0.attn.qkv.bias", "F32", (12,), bytes(4 * 12))
    writer.put("mtp.layers.0.input_layernorm.weight", "F32", (4,), bytes(16))


def put_tensor(writer, layer, base, ending, kind, shape, data):
    """One tensor of GGUF as one or more of the folder."""
    architecture = writer.architecture
    names = NAMES.get(architecture, LLAMA)
    before = names[""] + layer + "." if layer else ""
    size = TYPES[[n for n in TYPES if TYPES[n][0] == kind][0]][1]
    if architecture in NEIGHBOURS and base in ("attn_q", "attn_k"):
        data = writer.paired(data, writer.n_head if base == "attn_q" else writer.n_head_kv)
    if architecture == "qwen35":
        data, shape = of_delta_net(writer, base, shape, data)
    if base == "shortconv.conv":
        shape = (shape[0], 1, shape[1])
    if architecture in GAINS and base.endswith("norm") and base != "ssm_norm" and ending == "weight":
        values = struct.unpack("<%df" % (len(data) // 4), data)
        data = struct.pack("<%df" % len(values), *(value - 1 for value in values))
    if architecture == "gpt2" and base in ("attn_qkv", "attn_output", "ffn_up", "ffn_down") and ending == "weight":
        data, shape = transposed(data, shape, size), shape[::-1]
    if architecture in ("gptneox", "bloom", "falcon") and base == "attn_qkv":
        data = writer.grouped(data)
    if architecture == "falcon" and "blk.0.attn_norm_2.weight" in writer.model.tensors:
        names = dict(names, attn_norm="ln_mlp", attn_norm_2="ln_attn")
    if architecture == "gpt-oss" and base.endswith("_exps"):
        writer.out.setdefault(before, {})[base, ending] = kind, shape, data
        return
    if architecture == "granitemoe" and base in ("ffn_gate_exps", "ffn_up_exps", "ffn_gate_shexp", "ffn_up_shexp"):
        writer.out.setdefault(before, {})[base, ending] = kind, shape, data
        return
    if architecture in ("internlm2", "baichuan", "codegen") and base in ("attn_q", "attn_k", "attn_v"):
        writer.out.setdefault(before, {})[base, ending] = kind, shape, data
        return
    name = names[base]
    if "#" in name:
        for i, part in enumerate(rows(data, shape[0])):
            writer.put(before + name.replace("#", str(i)) + "." + ending, kind, shape[1:], part)
        return
    bare = base in ("attn_sinks", "ssm_a", "ssm_dt")
    writer.put(before + name + ("" if bare else "." + ending), kind, shape, data)


def of_delta_net(writer, base, shape, data):
    """The data and shape of a tensor of Qwen3.5 in its folder."""
    if base in ("ssm_alpha", "ssm_beta", "ssm_a", "ssm_dt", "attn_gate"):
        data = writer.spread(data)
    if base == "ssm_conv1d" or base == "attn_qkv" and shape[0] == writer.key("ssm.inner_size") + 2 * writer.key(
            "ssm.group_count") * writer.key("ssm.state_size"):
        data = writer.spread(data, 2 * writer.key("ssm.group_count"))
    if base == "ssm_out":
        data = b"".join(writer.spread(row) for row in rows(data, shape[0]))
    if base == "ssm_conv1d":
        shape = (shape[0], 1, shape[1])
    if base == "ssm_a":
        values = struct.unpack("<%df" % (len(data) // 4), data)
        data = struct.pack("<%df" % len(values), *(math.log(-value) for value in values))
    return data, shape


def put_together(writer, before, parts):
    """Tensors of a layer that the folder has as one."""
    architecture = writer.architecture
    if architecture == "granitemoe":
        for suffix, name in (("exps", "block_sparse_moe.input_linear"), ("shexp", "shared_mlp.input_linear")):
            if ("ffn_gate_" + suffix, "weight") not in parts:
                continue
            kind, shape, gate = parts["ffn_gate_" + suffix, "weight"]
            up = parts["ffn_up_" + suffix, "weight"][2]
            n = shape[0] if suffix == "exps" else 1
            data = b"".join(a + b for a, b in zip(rows(gate, n), rows(up, n)))
            writer.put(before + name + ".weight", kind, shape[:-2] + (2 * shape[-2], shape[-1]), data)
    elif architecture == "gpt-oss":
        put_gpt_oss(writer, before, parts)
    else:
        kind, shape, q = parts["attn_q", "weight"]
        k, v = (parts[name, "weight"][2] for name in ("attn_k", "attn_v"))
        shape = (shape[0] + 2 * parts["attn_k", "weight"][1][0], shape[1])
        if architecture == "internlm2":
            writer.put(before + "attention.wqkv.weight", kind, shape, writer.grouped(q + k + v))
        elif architecture == "baichuan":
            writer.put(before + "self_attn.W_pack.weight", kind, shape, q + k + v)
        else:
            parts = writer.codegen_parts
            data = b"".join(a + b + c for a, b, c in zip(*(rows(matrix, parts) for matrix in (q, v, k))))
            writer.put(before + "attn.qkv_proj.weight", kind, shape, data)


def put_gpt_oss(writer, before, parts):
    """Gate and up take turns in rows; weights of F32 lie [expert][cols][rows], those of MXFP4 as blocks and scales."""
    kind, (n, n_rows, cols), gate = parts["ffn_gate_exps", "weight"]
    up, down = parts["ffn_up_exps", "weight"][2], parts["ffn_down_exps", "weight"]
    turns = b"".join(a + b for a, b in zip(rows(gate, n * n_rows), rows(up, n * n_rows)))
    for name, shape, data in (("gate_up_proj", (n, 2 * n_rows, cols), turns), ("down_proj", down[1], down[2])):
        name = before + "mlp.experts." + name
        if kind == "MXFP4":
            blocks = rows(data, len(data) // 17)
            scales = b"".join(block[:1] for block in blocks)
            nibbles = b"".join(pairs(block[1:]) for block in blocks)
            writer.put(name + "_blocks", "U8", (shape[0], shape[1], shape[2] // 32, 16), nibbles)
            writer.put(name + "_scales", "U8", (shape[0], shape[1], shape[2] // 32), scales)
        else:
            turned = b"".join(transposed(part, shape[1:], 4) for part in rows(data, n))
            writer.put(name, kind, (shape[0], shape[2], shape[1]), turned)
    biases = [parts["ffn_%s_exps" % name, "bias"][2] for name in ("gate", "up")]
    turns = b"".join(a + b for a, b in zip(rows(biases[0], n * n_rows), rows(biases[1], n * n_rows)))
    writer.put(before + "mlp.experts.gate_up_proj_bias", "F32", (n, 2 * n_rows), turns)
    writer.put(before + "mlp.experts.down_proj_bias", *parts["ffn_down_exps", "bias"])


def pairs(block):
    """ggml's byte i has weights i and i + 16, the folder's weights 2i and 2i + 1, the first in the low half."""
    weights = [byte & 15 for byte in block] + [byte >> 4 for byte in block]
    return bytes(weights[2 * i] | weights[2 * i + 1] << 4 for i in range(16))


def halves(data):
    """The upper halves of floats."""
    return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def convert(source, folder, n_files=1):
    writer = Writer(Gguf(source), "codegen" if "-codegen" in folder else None)
    writer.codegen_parts = 8 if folder.endswith("-codegen2") else 4
    for name, (kind, shape, data) in writer.model.tensors.items():
        match = re.fullmatch(r"(?:blk\.(\d+)\.)?([\w.]+?)(?:\.(weight|bias))?", name)
        if match[2] not in ("rope_factors_long", "rope_factors_short", "rope_freqs"):
            put_tensor(writer, match[1], match[2], match[3], kind, shape, data)
    for before in [name for name, parts in writer.out.items() if isinstance(parts, dict)]:
        put_together(writer, before, writer.out.pop(before))
    if folder.endswith("-cut"):
        writer.out = {name: ("BF16", shape, halves(data)) for name, (kind, shape, data) in writer.out.items()}
    config = config_of(writer)
    if "qwen3" in config["model_type"] and writer.key("rope.dimension_sections") and writer.key("ssm.group_count") != 1:
        beside_pictures(config, writer)
    os.makedirs(folder, exist_ok=True)
    if folder.endswith("-codegen2"):
        config["head_dim"] = writer.d_head
    if folder.endswith("-baichuan2"):
        config["z_loss_weight"] = 0
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    names = list(writer.out)
    if n_files == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), writer.out)
        return
    index = {"metadata": {}, "weight_map": {}}
    for i in range(n_files):
        path = "model-%05d-of-%05d.safetensors" % (i + 1, n_files)
        part = {name: writer.out[name] for name in names[i::n_files]}
        write_safetensors(os.path.join(folder, path), part)
        index["weight_map"].update((name, path) for name in part)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump(index, file)


def main():
    if len(sys.argv) < 3 or len(sys.argv) % 2 == 0:
        sys.exit(__doc__)
    for source, folder in zip(sys.argv[1::2], sys.argv[2::2]):
        convert(source, folder, 3 if folder.endswith("-parts") else 1)


if __name__ == "__main__":
    main()
