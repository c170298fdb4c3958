/*
 * Tensors of Hugging Face folders and their names in GGUF. Which prefixes a class puts before them ("model.",
 * "transformer." …), and what it calls its list of layers, tells nothing, so that one table serves all families. Rows
 * that hold for some architectures come before the others of that name.
 */
#include "hub.h"

#include <stdio.h>
#include <string.h>

typedef struct Row {
    const char *hub, *gguf; /* without ".weight" and ".bias"; '#' is an expert's number */
    Arrangement arrangement;
    const char *only; /* architectures between spaces, or NULL */
} Row;

static const Row beside_layers[] = {
    {.hub = "embed_tokens", .gguf = "token_embd"},
    {.hub = "wte", .gguf = "token_embd"},
    {.hub = "embed_in", .gguf = "token_embd"},
    {.hub = "word_embeddings", .gguf = "token_embd"},
    {.hub = "tok_embeddings", .gguf = "token_embd"},
    {.hub = "word_embeddings_layernorm", .gguf = "token_embd_norm"},
    {.hub = "wpe", .gguf = "position_embd"},
    {.hub = "embed_positions", .gguf = "position_embd"},
    {.hub = "embedding_norm", .gguf = "token_embd_norm"},
    {.hub = "norm", .gguf = "output_norm"},
    {.hub = "norm_f", .gguf = "output_norm"},
    {.hub = "ln_f", .gguf = "output_norm"},
    {.hub = "final_layernorm", .gguf = "output_norm"},
    {.hub = "final_layer_norm", .gguf = "output_norm"},
    {.hub = "lm_head", .gguf = "output"},
    {.hub = "embed_out", .gguf = "output"},
    {.hub = "output", .gguf = "output"},
};

static const char qkv[] = "attn_q attn_k attn_v", gate_up[] = "ffn_gate_exps ffn_up_exps";

static const Row in_layers[] = {
    /* norms */
    {.hub = "input_layernorm", .gguf = "attn_norm"},
    {.hub = "post_attention_layernorm",
     .gguf = "post_attention_norm",
     .only = " gemma2 gemma3 olmo2 gpt-oss qwen35 "},
    {.hub = "post_attention_layernorm", .gguf = "ffn_norm"},
    {.hub = "pre_feedforward_layernorm", .gguf = "ffn_norm"},
    {.hub = "post_feedforward_layernorm", .gguf = "post_ffw_norm"},
    {.hub = "ln_1", .gguf = "attn_norm"},
    {.hub = "ln_2", .gguf = "ffn_norm"},
    {.hub = "norm_1", .gguf = "attn_norm"},
    {.hub = "norm_2", .gguf = "ffn_norm"},
    {.hub = "self_attn_layer_norm", .gguf = "attn_norm"},
    {.hub = "final_layer_norm", .gguf = "ffn_norm"},
    {.hub = "attention_norm", .gguf = "attn_norm"},
    {.hub = "operator_norm", .gguf = "attn_norm"},
    {.hub = "ffn_norm", .gguf = "ffn_norm"},
    {.hub = "ln_mlp", .gguf = "attn_norm"},
    {.hub = "ln_attn", .gguf = "attn_norm_2"},
    {.hub = "self_attn.q_norm", .gguf = "attn_q_norm"},
    {.hub = "self_attn.k_norm", .gguf = "attn_k_norm"},
    {.hub = "self_attn.q_layernorm", .gguf = "attn_q_norm"},
    {.hub = "self_attn.k_layernorm", .gguf = "attn_k_norm"},
    /* attention */
    {.hub = "self_attn.q_proj", .gguf = "attn_q"},
    {.hub = "self_attn.k_proj", .gguf = "attn_k"},
    {.hub = "self_attn.v_proj", .gguf = "attn_v"},
    {.hub = "self_attn.qkv_proj", .gguf = "attn_qkv"},
    {.hub = "self_attn.W_pack", .gguf = qkv},
    {.hub = "self_attn.o_proj", .gguf = "attn_output"},
    {.hub = "self_attn.out_proj", .gguf = "attn_output"},
    {.hub = "self_attn.dense", .gguf = "attn_output"},
    {.hub = "self_attn.sinks", .gguf = "attn_sinks"},
    {.hub = "attn.c_attn", .gguf = "attn_qkv", .arrangement = ARRANGE_TRANSPOSE, .only = " gpt2 "},
    {.hub = "attn.c_proj", .gguf = "attn_output", .arrangement = ARRANGE_TRANSPOSE, .only = " gpt2 "},
    {.hub = "attn.c_attn", .gguf = "attn_qkv"},
    {.hub = "attn.c_proj", .gguf = "attn_output"},
    {.hub = "attn.attention.q_proj", .gguf = "attn_q"},
    {.hub = "attn.attention.k_proj", .gguf = "attn_k"},
    {.hub = "attn.attention.v_proj", .gguf = "attn_v"},
    {.hub = "attn.attention.out_proj", .gguf = "attn_output"},
    {.hub = "attn.q_proj", .gguf = "attn_q"},
    {.hub = "attn.k_proj", .gguf = "attn_k"},
    {.hub = "attn.v_proj", .gguf = "attn_v"},
    {.hub = "attn.qkv_proj", .gguf = qkv, .arrangement = ARRANGE_CODEGEN},
    {.hub = "attn.out_proj", .gguf = "attn_output"},
    {.hub = "attn.Wqkv", .gguf = "attn_qkv"},
    {.hub = "attention.query_key_value", .gguf = "attn_qkv", .arrangement = ARRANGE_QKV},
    {.hub = "self_attention.query_key_value", .gguf = "attn_qkv", .arrangement = ARRANGE_QKV},
    {.hub = "attention.wqkv", .gguf = qkv, .arrangement = ARRANGE_QKV},
    {.hub = "attention.dense", .gguf = "attn_output"},
    {.hub = "self_attention.dense", .gguf = "attn_output"},
    {.hub = "attention.wo", .gguf = "attn_output"},
    /* states */
    {.hub = "conv.in_proj", .gguf = "shortconv.in_proj"},
    {.hub = "conv.conv", .gguf = "shortconv.conv"},
    {.hub = "conv.out_proj", .gguf = "shortconv.out_proj"},
    {.hub = "linear_attn.in_proj_qkv", .gguf = "attn_qkv"},
    {.hub = "linear_attn.in_proj_z", .gguf = "attn_gate"},
    {.hub = "linear_attn.in_proj_a", .gguf = "ssm_alpha"},
    {.hub = "linear_attn.in_proj_b", .gguf = "ssm_beta"},
    {.hub = "linear_attn.conv1d", .gguf = "ssm_conv1d"},
    {.hub = "linear_attn.A_log", .gguf = "ssm_a", .arrangement = ARRANGE_DECAY},
    {.hub = "linear_attn.dt_bias", .gguf = "ssm_dt"},
    {.hub = "linear_attn.norm", .gguf = "ssm_norm"},
    {.hub = "linear_attn.out_proj", .gguf = "ssm_out"},
    /* MLP */
    {.hub = "mlp.gate_proj", .gguf = "ffn_gate"},
    {.hub = "mlp.up_proj", .gguf = "ffn_up"},
    {.hub = "mlp.down_proj", .gguf = "ffn_down"},
    {.hub = "mlp.gate_up_proj", .gguf = "ffn_up"},
    {.hub = "mlp.fc1", .gguf = "ffn_up"},
    {.hub = "mlp.fc2", .gguf = "ffn_down"},
    {.hub = "fc1", .gguf = "ffn_up"},
    {.hub = "fc2", .gguf = "ffn_down"},
    {.hub = "mlp.c_fc", .gguf = "ffn_up", .arrangement = ARRANGE_TRANSPOSE, .only = " gpt2 "},
    {.hub = "mlp.c_proj", .gguf = "ffn_down", .arrangement = ARRANGE_TRANSPOSE, .only = " gpt2 "},
    {.hub = "mlp.c_fc", .gguf = "ffn_up"},
    {.hub = "mlp.c_fc_0", .gguf = "ffn_gate"},
    {.hub = "mlp.c_fc_1", .gguf = "ffn_up"},
    {.hub = "mlp.c_proj", .gguf = "ffn_down"},
    {.hub = "mlp.fc_in", .gguf = "ffn_up"},
    {.hub = "mlp.fc_out", .gguf = "ffn_down"},
    {.hub = "mlp.dense_h_to_4h", .gguf = "ffn_up"},
    {.hub = "mlp.dense_4h_to_h", .gguf = "ffn_down"},
    {.hub = "ffn.up_proj", .gguf = "ffn_up"},
    {.hub = "ffn.down_proj", .gguf = "ffn_down"},
    {.hub = "feed_forward.w1", .gguf = "ffn_gate"},
    {.hub = "feed_forward.w2", .gguf = "ffn_down"},
    {.hub = "feed_forward.w3", .gguf = "ffn_up"},
    /* experts */
    {.hub = "mlp.gate", .gguf = "ffn_gate_inp"},
    {.hub = "mlp.router", .gguf = "ffn_gate_inp"},
    {.hub = "block_sparse_moe.gate", .gguf = "ffn_gate_inp"},
    {.hub = "block_sparse_moe.router.layer", .gguf = "ffn_gate_inp"},
    {.hub = "mlp.experts.#.gate_proj", .gguf = "ffn_gate.#"},
    {.hub = "mlp.experts.#.up_proj", .gguf = "ffn_up.#"},
    {.hub = "mlp.experts.#.down_proj", .gguf = "ffn_down.#"},
    {.hub = "block_sparse_moe.experts.#.w1", .gguf = "ffn_gate.#"},
    {.hub = "block_sparse_moe.experts.#.w2", .gguf = "ffn_down.#"},
    {.hub = "block_sparse_moe.experts.#.w3", .gguf = "ffn_up.#"},
    {.hub = "mlp.experts.gate_up_proj", .gguf = gate_up, .arrangement = ARRANGE_COLUMNS, .only = " gpt-oss "},
    {.hub = "mlp.experts.gate_up_proj_bias",
     .gguf = gate_up,
     .arrangement = ARRANGE_COLUMNS,
     .only = " gpt-oss "},
    {.hub = "mlp.experts.gate_up_proj_blocks",
     .gguf = gate_up,
     .arrangement = ARRANGE_MXFP4,
     .only = " gpt-oss "},
    {.hub = "mlp.experts.down_proj",
     .gguf = "ffn_down_exps",
     .arrangement = ARRANGE_TRANSPOSE,
     .only = " gpt-oss "},
    {.hub = "mlp.experts.down_proj_bias", .gguf = "ffn_down_exps", .only = " gpt-oss "},
    {.hub = "mlp.experts.down_proj_blocks",
     .gguf = "ffn_down_exps",
     .arrangement = ARRANGE_MXFP4,
     .only = " gpt-oss "},
    {.hub = "mlp.experts.gate_up_proj", .gguf = "ffn_gate.# ffn_up.#", .arrangement = SPLIT_GATE_UP},
    {.hub = "mlp.experts.down_proj", .gguf = "ffn_down.#", .arrangement = SPLIT_EXPERTS},
    {.hub = "block_sparse_moe.input_linear", .gguf = "ffn_gate.# ffn_up.#", .arrangement = SPLIT_GATE_UP},
    {.hub = "block_sparse_moe.output_linear", .gguf = "ffn_down.#", .arrangement = SPLIT_EXPERTS},
    {.hub = "shared_mlp.input_linear", .gguf = "ffn_gate_shexp ffn_up_shexp", .arrangement = SPLIT_GATE_UP},
    {.hub = "shared_mlp.output_linear", .gguf = "ffn_down_shexp"},
    {.hub = "mlp.shared_expert.gate_proj", .gguf = "ffn_gate_shexp"},
    {.hub = "mlp.shared_expert.up_proj", .gguf = "ffn_up_shexp"},
    {.hub = "mlp.shared_expert.down_proj", .gguf = "ffn_down_shexp"},
    {.hub = "mlp.shared_expert_gate", .gguf = "ffn_gate_inp_shexp"},
};

/*
 * Tensors that PyTorch stores beside weights: masks (the modules themselves have no bias here), tables of RoPE; and the
 * scales of MXFP4, which ARRANGE_MXFP4 looks for.
 */
static const char *const buffers[] = {"attn.bias",
                                      "attn.masked_bias",
                                      "attention.bias",
                                      "attention.masked_bias",
                                      "attn.attention.bias",
                                      "attn.attention.masked_bias",
                                      "attn.causal_mask",
                                      "rotary_emb.inv_freq",
                                      "attn.rotary_emb.inv_freq",
                                      "self_attn.rotary_emb.inv_freq",
                                      "attention.rotary_emb.inv_freq",
                                      "mlp.experts.gate_up_proj_scales",
                                      "mlp.experts.down_proj_scales"};

/* Tensors that a model has for pictures, and for tokens further on; its language model stands alone. */
static const char *const beside[] = {"vision_tower.",
                                     "multi_modal_projector.",
                                     "model.vision_tower.",
                                     "model.multi_modal_projector.",
                                     "model.visual.",
                                     "visual.",
                                     "mtp."};

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Moves *at behind the first of the prefixes that it begins with. */
static bool strip(const char **at, const char *const *prefixes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (begins(*at, prefixes[i])) {
            *at += strlen(prefixes[i]);
            return true;
        }
    return false;
}

/* Moves *at behind a number of at most six digits. */
static bool take_number(const char **at, uint64_t *number) {
    const char *begin = *at;
    for (*number = 0; **at >= '0' && **at <= '9' && *at - begin < 7; ++*at)
        *number = 10 * *number + (uint64_t)(**at - '0');
    return *at > begin && *at - begin < 7;
}

/* Whether the pattern is all of the module, with one number where it has a '#'. */
static bool matches(const char *pattern, const char *module, uint64_t *number) {
    for (; *pattern && *pattern != '#' && *pattern == *module; pattern++) module++;
    if (*pattern == '#' && take_number(&module, number)) return strcmp(pattern + 1, module) == 0;
    return !*pattern && !*module;
}

static bool holds(const Row *row, const HubFamily *family) {
    char word[40];
    snprintf(word, sizeof word, " %s ", family->architecture);
    return !row->only || strstr(row->only, word);
}

bool hub_name(HubName *name, const HubFamily *family, String stored) {
    static const char *const prefixes[] = {"language_model.", "model.", "transformer.", "gpt_neox.",
                                           "decoder."},
                             *const lists[] = {"layers.", "h.", "blocks."};
    char text[256];
    *name = (HubName){.kind = "weight", .layer = -1};
    if (stored.n >= sizeof text || memchr(stored.data, '\0', stored.n)) return false;
    memcpy(text, stored.data, stored.n);
    text[stored.n] = '\0';
    const char *at = text, *part = text;
    if (strip(&part, beside, sizeof beside / sizeof *beside)) return name->ignored = name->is_beside = true;
    while (strip(&at, prefixes, sizeof prefixes / sizeof *prefixes)) continue;
    uint64_t layer = 0;
    if (strip(&at, lists, sizeof lists / sizeof *lists)) {
        if (!take_number(&at, &layer) || *at++ != '.') return false;
        name->layer = (int64_t)layer;
    }
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (strcmp(at, buffers[i]) == 0) return name->ignored = true;
    char *end = text + stored.n;
    const String named = string_from(at);
    if (string_ends(named, ".bias") || string_ends(named, "_bias")) name->kind = "bias";
    if (string_ends(named, ".bias")) end -= 5;
    if (string_ends(named, ".weight")) end -= 7;
    *end = '\0';
    const Row *rows = name->layer < 0 ? beside_layers : in_layers;
    size_t n = name->layer < 0 ? sizeof beside_layers / sizeof *rows : sizeof in_layers / sizeof *rows;
    for (size_t i = 0; i < n; i++) {
        if (!holds(&rows[i], family) || !matches(rows[i].hub, at, &name->expert)) continue;
        name->gguf = rows[i].gguf;
        name->arrangement = rows[i].arrangement;
        bool is_vector = strcmp(name->kind, "bias") == 0;
        if (name->arrangement == ARRANGE_TRANSPOSE && is_vector) name->arrangement = ARRANGE_NONE;
        bool is_gain = string_ends(string_from(name->gguf), "norm") && strcmp(name->gguf, "ssm_norm") != 0;
        if (family->gain_minus_one && is_gain && !is_vector) name->arrangement = ARRANGE_GAIN;
        if (name->arrangement == ARRANGE_DECAY) name->kind = "";
        return true;
    }
    return false;
}
