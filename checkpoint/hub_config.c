/*
 * config.json under GGUF's keys. Where a class of transformers has a default of its own for a missing key, a row of
 * `defaults` says so; what it can ask for and nothing here computes is in `required`.
 */
#include "hub.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GELU_TANH " gelu_new gelu_pytorch_tanh gelu_fast "

static const HubFamily families[] = {
    {"gpt2", "gpt2", GELU_TANH, .tied = true},
    {"gpt_neo", "gpt_neo", GELU_TANH, .tied = true},
    {"gpt_neox", "gptneox", " gelu ", .has_rope = true},
    {"gptj", "gptj", GELU_TANH, .has_rope = true},
    {"codegen", "codegen", GELU_TANH, .has_rope = true},
    {"gpt_bigcode", "starcoder", GELU_TANH, .tied = true},
    {"starcoder2", "starcoder2", GELU_TANH, .has_rope = true, .tied = true},
    {"opt", "opt", " relu ", .tied = true},
    {"bloom", "bloom", NULL, .tied = true},
    {"mpt", "mpt", NULL, .tied = true},
    {"falcon", "falcon", " gelu ", .has_rope = true, .tied = true},
    {"llama", "llama", " silu ", .halves = true, .has_rope = true},
    {"mistral", "llama", " silu ", .halves = true, .has_rope = true},
    {"mixtral", "llama", " silu ", .halves = true, .has_rope = true},
    {"granite", "granite", " silu ", .halves = true, .has_rope = true},
    {"granitemoe", "granitemoe", " silu ", .halves = true, .has_rope = true},
    {"smollm3", "smollm3", " silu ", .halves = true, .has_rope = true, .tied = true},
    {"internlm2", "internlm2", " silu ", .halves = true, .has_rope = true},
    {"baichuan", "baichuan", " silu ", .halves = true, .has_rope = true},
    {"olmo", "olmo", " silu ", .halves = true, .has_rope = true},
    {"olmo2", "olmo2", " silu ", .has_rope = true},
    {"olmo3", "olmo2", " silu ", .has_rope = true},
    {"olmoe", "olmoe", " silu ", .has_rope = true},
    {"qwen2", "qwen2", " silu ", .has_rope = true},
    {"qwen2_moe", "qwen2moe", " silu ", .has_rope = true},
    {"qwen3", "qwen3", " silu ", .has_rope = true},
    {"qwen3_moe", "qwen3moe", " silu ", .has_rope = true},
    {"gpt_oss", "gpt-oss", " silu ", .has_rope = true},
    {"stablelm", "stablelm", " silu ", .has_rope = true},
    {"exaone", "exaone", " silu ", .has_rope = true},
    {"gemma", "gemma", NULL, .gain_minus_one = true, .has_rope = true, .tied = true},
    {"gemma2", "gemma2", GELU_TANH, .gain_minus_one = true, .has_rope = true, .tied = true},
    {"gemma3", "gemma3", GELU_TANH, .gain_minus_one = true, .has_rope = true, .tied = true},
    {"gemma3_text", "gemma3", GELU_TANH, .gain_minus_one = true, .has_rope = true, .tied = true},
    {"phi", "phi2", GELU_TANH, .has_rope = true},
    {"phi3", "phi3", " silu ", .has_rope = true},
    {"cohere", "command-r", " silu ", .has_rope = true, .tied = true},
    {"cohere2", "cohere2", " silu ", .has_rope = true, .tied = true},
    {"nemotron", "nemotron", " relu2 ", .gain_minus_one = true, .has_rope = true},
};

/* A key of GGUF, its type, and the names that config.json may give it, the first that is there. */
typedef struct KeyRow {
    const char *gguf;
    ValueType type;
    const char *names[7];
} KeyRow;

static const KeyRow keys[] = {
    {".context_length",
     VALUE_U32,
     {"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"}},
    {".embedding_length", VALUE_U32, {"hidden_size", "n_embd", "n_embed", "d_model"}},
    {".block_count", VALUE_U32, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}},
    {".feed_forward_length", VALUE_U32, {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}},
    {".attention.head_count", VALUE_U32, {"num_attention_heads", "n_head", "num_heads", "n_heads"}},
    {".attention.head_count_kv",
     VALUE_U32,
     {"num_key_value_heads", "num_kv_heads", "n_head_kv", "attn_config.kv_n_heads"}},
    {".attention.key_length", VALUE_U32, {"head_dim"}},
    {".attention.value_length", VALUE_U32, {"head_dim"}},
    {".attention.layer_norm_rms_epsilon", VALUE_F32, {"rms_norm_eps"}},
    {".attention.layer_norm_epsilon",
     VALUE_F32,
     {"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"}},
    {".attention.clamp_kqv", VALUE_F32, {"clip_qkv", "attn_config.clip_qkv"}},
    {".attention.scale", VALUE_F32, {"attention_multiplier"}},
    {".attention.causal", VALUE_BOOL, {"is_causal"}},
    {".attn_logit_softcapping", VALUE_F32, {"attn_logit_softcapping"}},
    {".final_logit_softcapping", VALUE_F32, {"final_logit_softcapping"}},
    {".logit_scale", VALUE_F32, {"logit_scale", "logits_scaling"}},
    {".embedding_scale", VALUE_F32, {"embedding_multiplier"}},
    {".residual_scale", VALUE_F32, {"residual_multiplier"}},
    {".use_parallel_residual", VALUE_BOOL, {"use_parallel_residual"}},
    {".expert_count", VALUE_U32, {"num_local_experts", "num_experts"}},
    {".expert_used_count", VALUE_U32, {"num_experts_per_tok"}},
    {".expert_feed_forward_length", VALUE_U32, {"moe_intermediate_size"}},
    {".expert_shared_feed_forward_length",
     VALUE_U32,
     {"shared_expert_intermediate_size", "shared_intermediate_size"}},
    {".vocab_size", VALUE_U32, {"vocab_size"}},
};

/* What a missing key means to a class, or what the class has fixed and no key says. */
static const struct {
    const char *architecture, *gguf;
    ValueType type;
    double value;
} defaults[] = {
    {"opt", ".attention.layer_norm_epsilon", VALUE_F32, 1e-5},
    {"opt", ".position_offset", VALUE_U32, 2},
    {"olmo", ".attention.layer_norm_epsilon", VALUE_F32, 1e-5},
    {"mpt", ".attention.layer_norm_epsilon", VALUE_F32, 1e-5},
    {"bloom", ".context_length", VALUE_U32, 2048},
    {"falcon", ".context_length", VALUE_U32, 2048},
    {"gpt_neo", ".attention.scale", VALUE_F32, 1},
    {"gptneox", ".use_parallel_residual", VALUE_BOOL, 1},
    {"gemma3", ".attention.head_count", VALUE_U32, 8},
    {"gemma3", ".attention.head_count_kv", VALUE_U32, 4},
    {"gemma3", ".attention.key_length", VALUE_U32, 256},
    {"gemma3", ".attention.value_length", VALUE_U32, 256},
    {"gemma3", ".context_length", VALUE_U32, 131072},
    {"gemma3", ".rope.freq_base", VALUE_F32, 1e6}, /* of layers without a window */
    {"gemma3", ".rope.freq_base_swa", VALUE_F32, 1e4},
    {"gemma", ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-6},
    {"gemma2", ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-6},
    {"gemma3", ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-6},
    {"olmoe", ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-5},
    {"llama", ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-6},
    {"qwen2", ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-6},
};

/* Values of config.json that change what a model computes, and the only ones that are computed here. */
static const struct {
    const char *model_type, *key, *value;
} required[] = {
    {"gpt2", "scale_attn_weights", "true"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false"},
    {"gpt2", "add_cross_attention", "false"},
    {"gpt_bigcode", "scale_attn_weights", "true"},
    {"gpt_bigcode", "multi_query", "true"},
    {"gpt_neox", "attention_bias", "true"},
    {"opt", "do_layer_norm_before", "true"},
    {"opt", "_remove_final_layer_norm", "false"},
    {"opt", "enable_bias", "true"},
    {"opt", "layer_norm_elementwise_affine", "true"},
    {"bloom", "apply_residual_connection_post_layernorm", "false"},
    {"falcon", "alibi", "false"},
    {"falcon", "parallel_attn", "true"},
    {"mpt", "attn_config.qk_ln", "false"},
    {"phi", "qk_layernorm", "false"},
    {"stablelm", "qk_layernorm", "false"},
    {"starcoder2", "norm_type", "layer_norm"},
    {"starcoder2", "mlp_type", "default"},
    {"smollm3", "no_rope_layer_interval", "4"},
    {"smollm3", "use_sliding_window", "false"},
    {"qwen2_moe", "decoder_sparse_step", "1"},
    {"qwen3_moe", "decoder_sparse_step", "1"},
    {"qwen2_moe", "norm_topk_prob", "false"},
    {"qwen3_moe", "norm_topk_prob", "true"},
    {"olmoe", "norm_topk_prob", "false"},
    {"qwen2_moe", "mlp_only_layers", "[]"},
    {"qwen3_moe", "mlp_only_layers", "[]"},
    {"gemma3", "use_bidirectional_attention", "false"},
    {"gemma3_text", "use_bidirectional_attention", "false"},
};

const Json *hub_not_null(const Json *json) { return json && json->kind != JSON_NULL ? json : NULL; }

const Json *hub_get(const Json *config, const char *key) {
    const char *dot = strchr(key, '.');
    if (dot) {
        char first[32];
        snprintf(first, sizeof first, "%.*s", (int)(dot - key), key);
        return hub_get(json_get(config, first), dot + 1);
    }
    const Json *own = hub_not_null(json_get(json_get(config, "text_config"), key));
    return own ? own : hub_not_null(json_get(config, key));
}

/* A value in a few words, for a comparison or an error. */
static void to_text(const Json *json, char text[static 40]) {
    String string = json_string(json);
    if (json->kind == JSON_BOOL) snprintf(text, 40, "%s", json->boolean ? "true" : "false");
    if (json->kind == JSON_NUMBER) snprintf(text, 40, "%.15g", json->number);
    if (json->kind == JSON_TEXT) snprintf(text, 40, "%.*s", string.n < 39 ? (int)string.n : 39, string.data);
    if (json->kind == JSON_ARRAY) snprintf(text, 40, "%s", json->n ? "[…]" : "[]");
    if (json->kind == JSON_OBJECT) snprintf(text, 40, "{…}");
}

static void check_required(Maker *maker, const HubFamily *family, const Json *config) {
    static const char *const activations[] = {"hidden_activation", "activation_function", "hidden_act"};
    char text[40], word[44];
    const Json *act = NULL;
    for (size_t i = 0; i < 3 && !act; i++) act = hub_get(config, activations[i]);
    if (act && family->activation) {
        to_text(act, text);
        snprintf(word, sizeof word, " %s ", text);
        if (!strstr(family->activation, word))
            make_fail(
                maker,
                "config.json: a model of type '%s' with the activation '%s' is not supported; these are:%s",
                family->model_type, text, family->activation);
    }
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        const Json *value = hub_get(config, required[i].key);
        if (!value || strcmp(family->model_type, required[i].model_type) != 0) continue;
        to_text(value, text);
        if (strcmp(text, required[i].value) != 0)
            make_fail(maker, "config.json: \"%s\": %s is not supported in a model of type '%s'; %s is",
                      required[i].key, text, family->model_type, required[i].value);
    }
}

/* Weights that are stored in fewer bits than floats have, by some tool's own layout. */
static void refuse_quantised(Maker *maker, const Json *config) {
    const Json *quantisation = hub_get(config, "quantization_config");
    String method = json_string(json_get(quantisation, "quant_method"));
    if (!quantisation || (string_equals(method, "mxfp4") && strcmp(maker->architecture, "gpt-oss") == 0))
        return;
    make_fail(
        maker,
        "its weights are quantised (%.*s), which is not read: take the folder of the original weights, or the "
        "model as GGUF",
        method.n ? string_shown(method) : 14, method.n ? method.data : "by some method");
}

const HubFamily *hub_family(Maker *maker, const Json *config) {
    String type = json_string(hub_get(config, "model_type")),
           outer = json_string(json_get(config, "model_type"));
    char known[400] = "";
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const HubFamily *family = &families[i];
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", family->model_type);
        if (!string_equals(type, family->model_type)) continue;
        maker->architecture = family->architecture;
        refuse_quantised(maker, config);
        check_required(maker, family, config);
        return maker->ok ? family : NULL;
    }
    if (type.n == 0)
        make_fail(maker, "config.json names no \"model_type\"; is this the folder of a model?");
    else
        make_fail(maker, "config.json: a model of type '%.*s' is not supported; these are: %s",
                  string_shown(outer.n ? outer : type), outer.n ? outer.data : type.data, known);
    return NULL;
}

double hub_real(const Json *config, const char *key, double otherwise) {
    const Json *value = hub_get(config, key);
    return value && value->kind == JSON_NUMBER ? value->number : otherwise;
}

void hub_add(Maker *maker, const char *gguf, ValueType type, const char *name, const Json *value) {
    int64_t integer = 0;
    if (type == VALUE_BOOL && value->kind == JSON_BOOL)
        make_bool(maker, gguf, value->boolean);
    else if (type == VALUE_F32 && value->kind == JSON_NUMBER)
        make_f32(maker, gguf, value->number);
    else if (type == VALUE_U32 && json_integer(value, &integer) && integer >= 0)
        make_u32(maker, gguf, (uint64_t)integer);
    else
        make_fail(maker, "config.json: \"%s\" should be %s", name,
                  type == VALUE_BOOL  ? "true or false"
                  : type == VALUE_F32 ? "a number"
                                      : "an integer of 0 or more");
}

double hub_default(const char *architecture, const char *gguf) {
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(architecture, defaults[i].architecture) == 0 && strcmp(gguf, defaults[i].gguf) == 0)
            return defaults[i].value;
    return 0;
}

uint64_t hub_number(const Maker *maker, const char *gguf) {
    char key[96];
    uint64_t value = (uint64_t)hub_default(maker->architecture, gguf);
    snprintf(key, sizeof key, "%s%s", maker->architecture, gguf);
    for (size_t i = 0; i < maker->checkpoint->n_entries; i++)
        if (string_equals(maker->checkpoint->entries[i].key, key))
            format_unsigned(&maker->checkpoint->entries[i], &value);
    return value;
}

/* What a class knows better than the key of that name does, and is therefore said first. */
static void add_first(Maker *maker, const Json *config) {
    const char *architecture = maker->architecture;
    const Json *n_ctx = hub_get(config, "model_max_length");
    if (strcmp(architecture, "command-r") == 0 && n_ctx)
        hub_add(maker, ".context_length", VALUE_U32, "model_max_length", n_ctx);
    if (strcmp(architecture, "starcoder") == 0) make_u32(maker, ".attention.head_count_kv", 1);
    if (strcmp(architecture, "falcon") != 0) return;
    const Json *multi = hub_get(config, "multi_query"), *is_new = hub_get(config, "new_decoder_architecture");
    if ((!multi || multi->boolean) && !(is_new && is_new->boolean))
        make_u32(maker, ".attention.head_count_kv", 1);
}

static void add_keys(Maker *maker, const Json *config) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t k = 0; keys[i].names[k] && !make_has(maker, keys[i].gguf); k++) {
            const Json *value = hub_get(config, keys[i].names[k]);
            if (value) hub_add(maker, keys[i].gguf, keys[i].type, keys[i].names[k], value);
        }
}

static void add_defaults(Maker *maker) {
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        const char *gguf = defaults[i].gguf;
        if (strcmp(maker->architecture, defaults[i].architecture) != 0 || make_has(maker, gguf)) continue;
        if (defaults[i].type == VALUE_U32) make_u32(maker, gguf, (uint64_t)defaults[i].value);
        if (defaults[i].type == VALUE_F32) make_f32(maker, gguf, defaults[i].value);
        if (defaults[i].type == VALUE_BOOL) make_bool(maker, gguf, defaults[i].value != 0);
    }
    uint64_t d_model = hub_number(maker, ".embedding_length");
    if (!make_has(maker, ".feed_forward_length"))
        make_u32(maker, ".feed_forward_length", d_model < UINT32_MAX / 4 ? 4 * d_model : 0);
}

/* What one key of config.json does not say alone. */
static void add_special(Maker *maker, const Json *config) {
    const char *architecture = maker->architecture;
    if (strcmp(architecture, "falcon") == 0)
        make_string(maker, ".tensor_data_layout", (String){"jploski", 7});
    if (strcmp(architecture, "mpt") == 0) {
        const Json *alibi = hub_get(config, "attn_config.alibi");
        bool has_alibi = alibi && alibi->boolean;
        make_f32(maker, ".attention.max_alibi_bias",
                 has_alibi ? hub_real(config, "attn_config.alibi_bias_max", 8) : 0);
    }
    if (strcmp(architecture, "exaone") == 0)
        make_f32(maker, ".attention.layer_norm_rms_epsilon", hub_real(config, "layer_norm_epsilon", 1e-5));
    if (strcmp(architecture, "phi3") == 0)
        make_u32(maker, ".rope.scaling.original_context_length",
                 (uint64_t)hub_real(config, "original_max_position_embeddings", 4096));
    if (strcmp(architecture, "gpt-oss") == 0)
        make_u32(maker, ".expert_feed_forward_length", hub_number(maker, ".feed_forward_length"));
    if (strncmp(architecture, "gemma", 5) == 0) {
        double scalar = hub_real(config, "query_pre_attn_scalar", 0);
        if (scalar > 0 && scalar != (double)hub_number(maker, ".attention.key_length"))
            make_f32(maker, ".attention.scale", 1 / sqrt(scalar));
    }
}

/* Whether GGUF's readers know by the architecture alone that this layer sees a window only. */
static bool is_windowed(const char *architecture, size_t layer) {
    size_t period = strcmp(architecture, "gemma2") == 0    ? 2
                    : strcmp(architecture, "gpt-oss") == 0 ? 2
                    : strcmp(architecture, "gemma3") == 0  ? 6
                                                           : 0;
    return !period || layer % period < period - 1;
}

/* Which layers see a window: as config.json lists them, or by the rule of its class. */
static bool layer_windowed(const char *architecture, const Json *config, size_t layer) {
    const Json *types = hub_get(config, "layer_types"), *neo = hub_get(config, "attention_layers");
    double period = hub_real(config, "sliding_window_pattern", 0),
           first = hub_real(config, "max_window_layers", 0);
    if (types && types->kind == JSON_ARRAY && layer < types->n)
        return json_equals(&types->items[layer], "sliding_attention");
    if (neo && neo->kind == JSON_ARRAY && layer < neo->n) return json_equals(&neo->items[layer], "local");
    if (strcmp(architecture, "gpt_neo") == 0) return layer % 2 == 1;
    if (strncmp(architecture, "qwen", 4) == 0) return (double)layer >= first;
    if (strcmp(architecture, "olmo2") == 0) return layer % 4 != 3;
    if (period >= 1) return fmod((double)layer + 1, period) != 0;
    return is_windowed(architecture, layer);
}

/* .attention.sliding_window, and which layers have it, where it is not as the architecture alone says. */
static void add_windows(Maker *maker, const Json *config) {
    const char *architecture = maker->architecture;
    const Json *use = hub_get(config, "use_sliding_window"), *width = hub_get(config, "sliding_window");
    bool is_qwen = strncmp(architecture, "qwen", 4) == 0;
    uint64_t n_layer = hub_number(maker, ".block_count");
    if (strcmp(architecture, "gpt_neo") == 0) width = hub_get(config, "window_size");
    if (strcmp(architecture, "phi3") == 0 && !width) make_u32(maker, ".attention.sliding_window", 0);
    if (!width || (use ? use->kind == JSON_BOOL && !use->boolean : is_qwen)) return;
    hub_add(maker, ".attention.sliding_window", VALUE_U32, "sliding_window", width);
    if (n_layer > 65536) return; /* more than any reader takes */
    unsigned char *pattern = make_room(maker, (size_t)n_layer + 1);
    bool is_implied = strcmp(architecture, "gpt_neo") != 0 && strcmp(architecture, "olmo2") != 0;
    for (size_t i = 0; pattern && i < n_layer; i++) {
        pattern[i] = layer_windowed(architecture, config, i);
        is_implied = is_implied && pattern[i] == is_windowed(architecture, i);
    }
    if (pattern && !is_implied)
        make_array(maker, ".attention.sliding_window_pattern", VALUE_BOOL, n_layer, pattern, (size_t)n_layer);
}

void hub_config(Maker *maker, const HubFamily *family, const Json *config) {
    make_string(maker, "general.architecture", (String){family->architecture, strlen(family->architecture)});
    add_first(maker, config);
    add_keys(maker, config);
    add_special(maker, config);
    add_windows(maker, config);
    if (family->has_rope) hub_rope(maker, family, config);
    add_defaults(maker);
}
