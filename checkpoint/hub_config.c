/*
 * config.json under GGUF's keys. Where a class of transformers has a default of its own for a missing key, a row of
 * `defaults` says so. What it can ask for and nothing here computes is in hub_check.c, what holds for some layers alone in
 * hub_layers.c.
 */
#include "hub.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const HubFamily families[] = {
    {"gpt2", "gpt2", "gelu_new", .tied = true},
    {"gpt_neo", "gpt_neo", "gelu_new", .tied = true},
    {"gpt_neox", "gptneox", "gelu", .has_rope = true},
    {"gptj", "gptj", "gelu_new", .has_rope = true},
    {"codegen", "codegen", "gelu_new", .has_rope = true},
    {"gpt_bigcode", "starcoder", "gelu_new", .tied = true},
    {"starcoder2", "starcoder2", "gelu_new", .has_rope = true, .tied = true},
    {"opt", "opt", "relu", .tied = true},
    {"bloom", "bloom", NULL, .tied = true},
    {"mpt", "mpt", NULL, .tied = true},
    {"falcon", "falcon", "gelu", .has_rope = true, .tied = true},
    {"llama", "llama", "silu", .halves = true, .has_rope = true},
    {"mistral", "llama", "silu", .halves = true, .has_rope = true},
    {"mixtral", "llama", "silu", .halves = true, .has_rope = true},
    {"granite", "granite", "silu", .halves = true, .has_rope = true},
    {"granitemoe", "granitemoe", "silu", .halves = true, .has_rope = true},
    {"smollm3", "smollm3", "silu", .halves = true, .has_rope = true, .tied = true},
    {"internlm2", "internlm2", "silu", .halves = true, .has_rope = true},
    {"baichuan", "baichuan", "silu", .halves = true, .has_rope = true},
    {"olmo", "olmo", "silu", .halves = true, .has_rope = true},
    {"olmo2", "olmo2", "silu", .has_rope = true},
    {"olmo3", "olmo2", "silu", .has_rope = true},
    {"olmoe", "olmoe", "silu", .has_rope = true},
    {"qwen2", "qwen2", "silu", .has_rope = true},
    {"qwen2_moe", "qwen2moe", "silu", .has_rope = true},
    {"qwen3", "qwen3", "silu", .has_rope = true},
    {"qwen3_moe", "qwen3moe", "silu", .has_rope = true},
    {"qwen3_vl", "qwen3vl", "silu", .has_rope = true},
    {"qwen3_vl_text", "qwen3vl", "silu", .has_rope = true},
    {"qwen3_5", "qwen35", "silu", .gain_minus_one = true, .has_rope = true},
    {"qwen3_5_text", "qwen35", "silu", .gain_minus_one = true, .has_rope = true},
    {"lfm2", "lfm2", NULL, .has_rope = true, .tied = true},
    {"gpt_oss", "gpt-oss", "silu", .has_rope = true},
    {"stablelm", "stablelm", "silu", .has_rope = true},
    {"exaone", "exaone", "silu", .has_rope = true},
    {"gemma", "gemma", "gelu_new", .gated = true, .gain_minus_one = true, .has_rope = true, .tied = true},
    {"gemma2", "gemma2", "gelu_new", .gated = true, .gain_minus_one = true, .has_rope = true, .tied = true},
    {"gemma3", "gemma3", "gelu_new", .gated = true, .gain_minus_one = true, .has_rope = true, .tied = true},
    {"gemma3_text", "gemma3", "gelu_new", .gated = true, .gain_minus_one = true, .has_rope = true,
     .tied = true},
    {"phi", "phi2", "gelu_new", .has_rope = true},
    {"phi3", "phi3", "silu", .has_rope = true},
    {"cohere", "command-r", "silu", .has_rope = true, .tied = true},
    {"cohere2", "cohere2", "silu", .has_rope = true, .tied = true},
    {"nemotron", "nemotron", "relu2", .gain_minus_one = true, .has_rope = true},
};

/*
 * A key of GGUF, its type, the names that config.json may give it, the first that is there, and the model_types whose code
 * reads them, between spaces; NULL: all. A first name goes before a second in a row, and a first row before a second.
 */
typedef struct KeyRow {
    const char *gguf;
    ValueType type;
    const char *names[7];
    const char *only;
} KeyRow;

static const KeyRow keys[] = {
    {".context_length", VALUE_U32, {"model_max_length"}, " cohere "},
    {".context_length",
     VALUE_U32,
     {"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"}},
    {".context_length", VALUE_U32, {"model_max_length"}, " baichuan "},
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
    {".attention.layer_norm_rms_epsilon", VALUE_F32, {"layer_norm_epsilon"}, " exaone "},
    {".attention.layer_norm_epsilon", VALUE_F32, {"norm_epsilon"}, " starcoder2 "},
    {".attention.layer_norm_epsilon", VALUE_F32, {"norm_eps"}, " nemotron "},
    {".attention.layer_norm_epsilon",
     VALUE_F32,
     {"layer_norm_eps"},
     " gpt_neox stablelm phi cohere cohere2 "},
    {".attention.layer_norm_epsilon",
     VALUE_F32,
     {"layer_norm_epsilon"},
     " gpt2 gpt_neo gptj codegen gpt_bigcode bloom mpt falcon "},
    {".attention.clamp_kqv", VALUE_F32, {"clip_qkv"}, " olmo olmoe "},
    {".attention.clamp_kqv", VALUE_F32, {"attn_config.clip_qkv"}, " mpt "},
    {".attention.scale", VALUE_F32, {"attention_multiplier"}, " granite granitemoe "},
    {".attention.scale", VALUE_F32, {"attn_config.softmax_scale"}, " mpt "},
    {".attention.causal", VALUE_BOOL, {"is_causal"}},
    {".attn_logit_softcapping", VALUE_F32, {"attn_logit_softcapping"}, " gemma2 "},
    {".final_logit_softcapping", VALUE_F32, {"final_logit_softcapping"}, " gemma2 gemma3 gemma3_text "},
    {".logit_scale", VALUE_F32, {"logit_scale"}, " cohere cohere2 "},
    {".logit_scale", VALUE_F32, {"logits_scaling"}, " granite granitemoe "},
    {".embedding_scale", VALUE_F32, {"embedding_multiplier"}, " granite granitemoe "},
    {".residual_scale", VALUE_F32, {"residual_multiplier"}, " granite granitemoe "},
    {".use_parallel_residual", VALUE_BOOL, {"use_parallel_residual"}, " gpt_neox stablelm "},
    {".expert_count",
     VALUE_U32,
     {"num_local_experts", "num_experts"},
     " mixtral granitemoe olmoe qwen2_moe qwen3_moe gpt_oss "},
    {".expert_used_count",
     VALUE_U32,
     {"num_experts_per_tok"},
     " mixtral granitemoe olmoe qwen2_moe qwen3_moe gpt_oss "},
    {".expert_weights_norm", VALUE_BOOL, {"norm_topk_prob"}, " olmoe qwen2_moe qwen3_moe "},
    {".expert_feed_forward_length", VALUE_U32, {"moe_intermediate_size"}, " qwen2_moe qwen3_moe "},
    {".expert_shared_feed_forward_length",
     VALUE_U32,
     {"shared_expert_intermediate_size", "shared_intermediate_size"},
     " granitemoe qwen2_moe "},
    {".vocab_size", VALUE_U32, {"vocab_size"}},
};

/* The default of a class for a missing key, or the value that the class has fixed and no key says. */
static const struct {
    const char *only, *gguf;
    ValueType type;
    double value;
} defaults[] = {
    {" opt ", ".position_offset", VALUE_U32, 2},
    {" bloom falcon ", ".context_length", VALUE_U32, 2048},
    {" gemma3 gemma3_text ", ".context_length", VALUE_U32, 131072},
    {" qwen3_vl qwen3_vl_text lfm2 ", ".context_length", VALUE_U32, 128000},
    {" gemma3 gemma3_text ", ".attention.head_count", VALUE_U32, 8},
    {" gemma3 gemma3_text ", ".attention.head_count_kv", VALUE_U32, 4},
    {" gemma gemma2 gemma3 gemma3_text ", ".attention.key_length", VALUE_U32, 256},
    {" gemma gemma2 gemma3 gemma3_text ", ".attention.value_length", VALUE_U32, 256},
    {" qwen3_5 qwen3_5_text ", ".attention.key_length", VALUE_U32, 256},
    {" qwen3_5 qwen3_5_text ", ".attention.value_length", VALUE_U32, 256},
    {" qwen3 qwen3_vl qwen3_vl_text ", ".attention.key_length", VALUE_U32, 128},
    {" qwen3 qwen3_vl qwen3_vl_text ", ".attention.value_length", VALUE_U32, 128},
    {" gpt_oss ", ".attention.key_length", VALUE_U32, 64},
    {" gpt_oss ", ".attention.value_length", VALUE_U32, 64},
    {" gpt2 gpt_neo gpt_neox gptj codegen gpt_bigcode starcoder2 opt bloom mpt falcon olmo stablelm phi cohere "
     "cohere2 nemotron ",
     ".attention.layer_norm_epsilon", VALUE_F32, 1e-5},
    {" mixtral olmo2 olmo3 olmoe gpt_oss phi3 exaone ", ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-5},
    {" llama mistral granite granitemoe smollm3 internlm2 baichuan qwen2 qwen2_moe qwen3 qwen3_moe qwen3_vl "
     "qwen3_vl_text qwen3_5 qwen3_5_text gemma gemma2 gemma3 gemma3_text ",
     ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-6},
    {" gpt_neo ", ".attention.scale", VALUE_F32, 1},
    {" granite granitemoe ", ".attention.scale", VALUE_F32, 1},
    {" granite granitemoe ", ".logit_scale", VALUE_F32, 1},
    {" granite granitemoe ", ".embedding_scale", VALUE_F32, 1},
    {" granite granitemoe ", ".residual_scale", VALUE_F32, 1},
    {" cohere cohere2 ", ".logit_scale", VALUE_F32, 0.0625},
    {" gemma2 ", ".attn_logit_softcapping", VALUE_F32, 50},
    {" gemma2 ", ".final_logit_softcapping", VALUE_F32, 30},
    {" gpt_neox ", ".use_parallel_residual", VALUE_BOOL, 1},
    {" mixtral granitemoe ", ".expert_count", VALUE_U32, 8},
    {" mixtral granitemoe ", ".expert_used_count", VALUE_U32, 2},
    {" olmoe ", ".expert_count", VALUE_U32, 64},
    {" olmoe qwen3_moe ", ".expert_used_count", VALUE_U32, 8},
    {" qwen2_moe ", ".expert_count", VALUE_U32, 60},
    {" qwen2_moe gpt_oss ", ".expert_used_count", VALUE_U32, 4},
    {" qwen3_moe gpt_oss ", ".expert_count", VALUE_U32, 128},
    {" olmoe qwen2_moe qwen3_moe ", ".expert_weights_norm", VALUE_BOOL, 0},
};

const Json *hub_not_null(const Json *json) { return json && json->kind != JSON_NULL ? json : NULL; }

const Json *hub_find(const Json *config, const char *key) {
    const char *dot = strchr(key, '.');
    if (dot) {
        char first[32];
        snprintf(first, sizeof first, "%.*s", (int)(dot - key), key);
        return hub_find(hub_find(config, first), dot + 1);
    }
    const Json *own = json_get(json_get(config, "text_config"), key), *outer = json_get(config, key);
    return hub_not_null(own) || !outer ? own : outer;
}

const Json *hub_get(const Json *config, const char *key) { return hub_not_null(hub_find(config, key)); }

bool hub_listed(const char *list, const char *word) {
    char spaced[96];
    snprintf(spaced, sizeof spaced, " %s ", word);
    return !list || strstr(list, spaced);
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
        hub_check(maker, family, config);
        return maker->ok ? family : NULL;
    }
    if (type.n == 0)
        make_fail(maker, "config.json names no \"model_type\"; is this the folder of a model?");
    else
        make_fail(maker, "config.json: a model of type '%.*s' is not supported; these are: %s",
                  string_shown(outer.n ? outer : type), outer.n ? outer.data : type.data, known);
    return NULL;
}

double hub_real(Maker *maker, const Json *config, const char *key, double otherwise) {
    const Json *value = hub_get(config, key);
    if (value && value->kind != JSON_NUMBER) make_fail(maker, "config.json: \"%s\" should be a number", key);
    return value && value->kind == JSON_NUMBER ? value->number : otherwise;
}

bool hub_bool(Maker *maker, const Json *config, const char *key, bool otherwise) {
    const Json *value = hub_get(config, key);
    if (value && value->kind != JSON_BOOL)
        make_fail(maker, "config.json: \"%s\" should be true or false", key);
    return value && value->kind == JSON_BOOL ? value->boolean : otherwise;
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

uint64_t hub_number(const Maker *maker, const char *gguf) {
    char key[96];
    uint64_t value = 0;
    snprintf(key, sizeof key, "%s%s", maker->architecture, gguf);
    for (size_t i = 0; i < maker->checkpoint->n_entries; i++)
        if (string_equals(maker->checkpoint->entries[i].key, key))
            format_unsigned(&maker->checkpoint->entries[i], &value);
    return value;
}

bool hub_is_key(const HubFamily *family, const char *name) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t k = 0; hub_listed(keys[i].only, family->model_type) && keys[i].names[k]; k++)
            if (strcmp(keys[i].names[k], name) == 0) return true;
    return false;
}

/* Kv heads that another key says than that of their number. */
static void add_kv_heads(Maker *maker, const Json *config) {
    const char *architecture = maker->architecture;
    if (strcmp(architecture, "starcoder") == 0) make_u32(maker, ".attention.head_count_kv", 1);
    if (strcmp(architecture, "falcon") == 0 && hub_bool(maker, config, "multi_query", true) &&
        !hub_bool(maker, config, "new_decoder_architecture", false))
        make_u32(maker, ".attention.head_count_kv", 1);
}

static void add_keys(Maker *maker, const HubFamily *family, const Json *config) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t k = 0; keys[i].names[k] && !make_has(maker, keys[i].gguf); k++) {
            const Json *value = hub_get(config, keys[i].names[k]);
            if (value && hub_listed(keys[i].only, family->model_type))
                hub_add(maker, keys[i].gguf, keys[i].type, keys[i].names[k], value);
        }
}

static void add_defaults(Maker *maker, const HubFamily *family) {
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        const char *gguf = defaults[i].gguf;
        if (!hub_listed(defaults[i].only, family->model_type) || make_has(maker, gguf)) continue;
        if (defaults[i].type == VALUE_U32) make_u32(maker, gguf, (uint64_t)defaults[i].value);
        if (defaults[i].type == VALUE_F32) make_f32(maker, gguf, defaults[i].value);
        if (defaults[i].type == VALUE_BOOL) make_bool(maker, gguf, defaults[i].value != 0);
    }
    uint64_t d_model = hub_number(maker, ".embedding_length");
    if (!make_has(maker, ".feed_forward_length"))
        make_u32(maker, ".feed_forward_length", d_model < UINT32_MAX / 4 ? 4 * d_model : 0);
}

/* How MPT's attention knows places: a missing "alibi" is true to transformers' class. */
static void add_mpt(Maker *maker, const Json *config) {
    bool alibi = hub_bool(maker, config, "attn_config.alibi", true);
    double max = hub_real(maker, config, "attn_config.alibi_bias_max", 8),
           ratio = hub_real(maker, config, "expansion_ratio", 4);
    make_f32(maker, ".attention.max_alibi_bias", alibi ? max : 0);
    if (!(ratio > 0 && ratio <= 1024)) make_fail(maker, "config.json: \"expansion_ratio\" is %g", ratio);
    if (maker->ok && !make_has(maker, ".feed_forward_length"))
        make_u32(maker, ".feed_forward_length",
                 (uint64_t)(ratio * (double)hub_number(maker, ".embedding_length")));
}

/* Caps that are null are none, where a missing one is its class's. */
static void add_no_caps(Maker *maker, const Json *config) {
    static const char *const caps[][2] = {{".attn_logit_softcapping", "attn_logit_softcapping"},
                                          {".final_logit_softcapping", "final_logit_softcapping"}};
    for (size_t i = 0; i < 2; i++)
        if (hub_find(config, caps[i][1]) && !hub_get(config, caps[i][1]))
            make_f32(maker, caps[i][0], 0x1p60); /* that no number reaches; readers divide by it */
}

/* The scale of scores, where it is not that which GGUF's readers know by the sizes. */
static void add_query_scale(Maker *maker, const Json *config) {
    double scalar = hub_real(maker, config, "query_pre_attn_scalar", 256);
    uint64_t n_layer = hub_number(maker, ".block_count"), n_head = hub_number(maker, ".attention.head_count");
    bool odd = n_layer == (strcmp(maker->architecture, "gemma2") == 0 ? 46 : 62) && n_head;
    uint64_t known =
        odd ? hub_number(maker, ".embedding_length") / n_head : hub_number(maker, ".attention.key_length");
    if (!(scalar > 0)) make_fail(maker, "config.json: \"query_pre_attn_scalar\" is %g", scalar);
    if (scalar != (double)known) make_f32(maker, ".attention.scale", 1 / sqrt(scalar));
}

/* Values that one key of config.json does not say alone. */
static void add_special(Maker *maker, const HubFamily *family, const Json *config) {
    const char *architecture = maker->architecture;
    if (strcmp(architecture, "falcon") == 0)
        make_string(maker, ".tensor_data_layout", (String){"jploski", 7});
    if (strcmp(architecture, "phi3") == 0)
        make_u32(maker, ".rope.scaling.original_context_length",
                 (uint64_t)fmin(fmax(hub_real(maker, config, "original_max_position_embeddings", 4096), 0),
                                UINT32_MAX));
    if (strcmp(architecture, "gpt-oss") == 0)
        make_u32(maker, ".expert_feed_forward_length", hub_number(maker, ".feed_forward_length"));
    if (hub_listed(" gemma2 gemma3 ", architecture)) add_query_scale(maker, config);
    if (family->activation) hub_activation(maker, family, config);
}

void hub_config(Maker *maker, const HubFamily *family, const Json *config) {
    make_string(maker, "general.architecture", (String){family->architecture, strlen(family->architecture)});
    add_kv_heads(maker, config);
    hub_states(maker, config);
    add_keys(maker, family, config);
    if (strcmp(family->model_type, "mpt") == 0) add_mpt(maker, config);
    if (strcmp(family->model_type, "gemma2") == 0) add_no_caps(maker, config);
    add_defaults(maker, family);
    add_special(maker, family, config);
    hub_layers(maker, family, config);
    if (family->has_rope) hub_rope(maker, family, config);
    hub_list_unread(maker, family, config);
}
