/*
 * config.json under GGUF's keys: which family it is, then key by key. What it can ask for and nothing here computes is in
 * check.c, what holds for some layers alone in layers.c.
 */
#include "hub.h"

#include <math.h>
#include <stdio.h>
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
    {"exaone", "exaone", "silu", .has_rope = true, .tied = true},
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

/* Weights that are stored in fewer bits than floats have, by some tool's own layout. */
static void refuse_quantised(Builder *builder, const Json *config) {
    const Json *quantisation = hub_get(config, "quantization_config");
    String method = json_string(json_get(quantisation, "quant_method"));
    if (!quantisation || (string_equals(method, "mxfp4") && strcmp(builder->architecture, "gpt-oss") == 0))
        return;
    builder_fail(
        builder,
        "its weights are quantised (%.*s), which is not read: take the folder of the original weights, or the "
        "model as GGUF",
        method.n ? string_shown(method) : 14, method.n ? method.data : "by some method");
}

const HubFamily *hub_family(Builder *builder, const Json *config) {
    String type = json_string(hub_get(config, "model_type")),
           outer = json_string(json_get(config, "model_type"));
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const HubFamily *family = &families[i];
        if (!string_equals(type, family->model_type)) continue;
        builder->architecture = family->architecture;
        refuse_quantised(builder, config);
        hub_check(builder, family, config);
        return builder->ok ? family : NULL;
    }
    if (type.n == 0)
        builder_fail(builder, "config.json names no \"model_type\"; is this the folder of a model?");
    else
        builder_fail(
            builder,
            "config.json: a model of type '%.*s' is not supported; docs/FOLDERS.md lists those that are",
            string_shown(outer.n ? outer : type), outer.n ? outer.data : type.data);
    return NULL;
}

/* Kv heads that another key says than that of their number. */
static void add_kv_heads(Builder *builder, const Json *config) {
    const char *architecture = builder->architecture;
    if (strcmp(architecture, "starcoder") == 0) builder_u32(builder, ".attention.head_count_kv", 1);
    if (strcmp(architecture, "falcon") == 0 && hub_bool(builder, config, "multi_query", true) &&
        !hub_bool(builder, config, "new_decoder_architecture", false))
        builder_u32(builder, ".attention.head_count_kv", 1);
}

/* How MPT's attention knows places: a missing "alibi" is true to transformers' class. */
static void add_mpt(Builder *builder, const Json *config) {
    bool alibi = hub_bool(builder, config, "attn_config.alibi", true);
    double max = hub_real(builder, config, "attn_config.alibi_bias_max", 8),
           ratio = hub_real(builder, config, "expansion_ratio", 4);
    builder_f32(builder, ".attention.max_alibi_bias", alibi ? max : 0);
    if (!(ratio > 0 && ratio <= 1024)) builder_fail(builder, "config.json: \"expansion_ratio\" is %g", ratio);
    if (builder->ok && !builder_has(builder, ".feed_forward_length"))
        builder_u32(builder, ".feed_forward_length",
                    (uint64_t)(ratio * (double)hub_number(builder, ".embedding_length")));
}

/* Caps that are null are none, where a missing one is its class's. */
static void add_no_caps(Builder *builder, const Json *config) {
    static const char *const caps[][2] = {{".attn_logit_softcapping", "attn_logit_softcapping"},
                                          {".final_logit_softcapping", "final_logit_softcapping"}};
    for (size_t i = 0; i < 2; i++)
        if (hub_find(config, caps[i][1]) && !hub_get(config, caps[i][1]))
            builder_f32(builder, caps[i][0], 0x1p60); /* that no number reaches; readers divide by it */
}

/* The scale of scores, where it is not that which GGUF's readers know by the sizes. */
static void add_query_scale(Builder *builder, const Json *config) {
    double scalar = hub_real(builder, config, "query_pre_attn_scalar", 256);
    uint64_t n_layer = hub_number(builder, ".block_count"),
             n_head = hub_number(builder, ".attention.head_count");
    bool odd = n_layer == (strcmp(builder->architecture, "gemma2") == 0 ? 46 : 62) && n_head;
    uint64_t known = odd ? hub_number(builder, ".embedding_length") / n_head
                         : hub_number(builder, ".attention.key_length");
    if (!(scalar > 0)) builder_fail(builder, "config.json: \"query_pre_attn_scalar\" is %g", scalar);
    if (scalar != (double)known) builder_f32(builder, ".attention.scale", 1 / sqrt(scalar));
}

/* Values that one key of config.json does not say alone. */
static void add_special(Builder *builder, const HubFamily *family, const Json *config) {
    const char *architecture = builder->architecture;
    if (strcmp(architecture, "falcon") == 0)
        builder_string(builder, ".tensor_data_layout", string_from("jploski"));
    if (strcmp(architecture, "phi3") == 0)
        builder_u32(
            builder, ".rope.scaling.original_context_length",
            (uint64_t)fmin(fmax(hub_real(builder, config, "original_max_position_embeddings", 4096), 0),
                           UINT32_MAX));
    if (strcmp(architecture, "gpt-oss") == 0)
        builder_u32(builder, ".expert_feed_forward_length", hub_number(builder, ".feed_forward_length"));
    if (hub_listed(" gemma2 gemma3 ", architecture)) add_query_scale(builder, config);
    if (family->activation) hub_activation(builder, family, config);
}

void hub_config(Builder *builder, const HubFamily *family, const Json *config) {
    builder_string(builder, "general.architecture", string_from(family->architecture));
    add_kv_heads(builder, config);
    hub_states(builder, config);
    hub_add_keys(builder, family, config);
    if (strcmp(family->model_type, "mpt") == 0) add_mpt(builder, config);
    if (strcmp(family->model_type, "gemma2") == 0) add_no_caps(builder, config);
    hub_add_defaults(builder, family);
    add_special(builder, family, config);
    hub_layers(builder, family, config);
    if (family->has_rope) hub_rope(builder, family, config);
    hub_list_unread(builder, family, config);
}
