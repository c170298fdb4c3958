/* How config.json says that RoPE turns, as GGUF's keys and tensors. */
#include "hub.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A tensor of n floats that config.json says in words. */
static float *add_factors(Builder *builder, const char *name, uint64_t n) {
    float *factors = builder_room(builder, (size_t)n * sizeof *factors);
    Tensor tensor = {.dtype = DTYPE_F32,
                     .n_dims = 1,
                     .dims = {n, 1, 1, 1},
                     .data = factors,
                     .n_bytes = n * sizeof *factors};
    if (factors) builder_tensor(builder, &tensor, "%s", name);
    return factors;
}

/* By how much positions are stretched: a key, or what the context has grown by. */
static double read_factor(Builder *builder, const Json *config, const Json *rope) {
    double n_old = hub_real(builder, rope, "original_max_position_embeddings", 0),
           grown = n_old > 0 ? hub_real(builder, config, "max_position_embeddings", 0) / n_old : 0,
           factor = hub_real(builder, rope, "factor", grown);
    if (!(factor > 0 && factor < 1e9))
        builder_fail(builder, "config.json: RoPE scaling by \"factor\" %g", factor);
    return factor;
}

/*
 * Llama 3.1's factors of RoPE's wavelengths: long waves are stretched by `factor`, short ones stay, and between them
 * goes a smooth way (Grattafiori et al. 2024, arXiv:2407.21783; config.json's rope_type "llama3").
 */
static void add_llama3(Builder *builder, const Json *rope, double base, uint64_t rope_dim) {
    const double factor = hub_real(builder, rope, "factor", 8),
                 low = hub_real(builder, rope, "low_freq_factor", 1),
                 high = hub_real(builder, rope, "high_freq_factor", 4),
                 n_ctx = hub_real(builder, rope, "original_max_position_embeddings", 8192),
                 pi = 3.14159265358979323846;
    float *factors = add_factors(builder, "rope_freqs.weight", rope_dim / 2);
    for (uint64_t i = 0; factors && i < rope_dim / 2; i++) {
        double turns = n_ctx * pow(base, -2.0 * (double)i / (double)rope_dim) / (2 * pi); /* within n_ctx */
        double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
        factors[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
}

static void copy_factors(Builder *builder, const char *name, const char *key, const Json *list, uint64_t n) {
    if (!list || list->kind != JSON_ARRAY || list->n != n) {
        builder_fail(builder, "config.json: \"%s\" of RoPE should be %" PRIu64 " numbers", key, n);
        return;
    }
    float *factors = add_factors(builder, name, n);
    for (uint64_t i = 0; factors && i < n; i++) {
        factors[i] = (float)list->items[i].number;
        if (list->items[i].kind != JSON_NUMBER)
            builder_fail(builder, "config.json: \"%s\" of RoPE should be numbers", key);
    }
}

/* LongRoPE (Ding et al. 2024, arXiv:2402.13753) with the attention factor that Phi-3 gives it. */
static void add_longrope(Builder *builder, const Json *config, const Json *rope, uint64_t rope_dim) {
    double n_ctx = (double)hub_number(builder, ".context_length"),
           n_old = hub_real(builder, rope, "original_max_position_embeddings",
                            hub_real(builder, config, "original_max_position_embeddings", 0));
    double scale = n_ctx / n_old;
    if (!hub_get(config, "original_max_position_embeddings"))
        scale = hub_real(builder, rope, "factor", scale);
    double factor = scale > 1 ? sqrt(1 + log(scale) / log(n_old)) : 1;
    if (!(n_old > 1)) {
        builder_fail(builder, "config.json: \"original_max_position_embeddings\" of RoPE is missing");
        return;
    }
    builder_string(builder, ".rope.scaling.type", string_from("longrope"));
    if (!builder_has(builder, ".rope.scaling.original_context_length"))
        builder_u32(builder, ".rope.scaling.original_context_length", (uint64_t)fmin(n_old, UINT32_MAX));
    builder_f32(builder, ".rope.scaling.attn_factor", hub_real(builder, rope, "attention_factor", factor));
    copy_factors(builder, "rope_factors_long.weight", "long_factor", json_get(rope, "long_factor"),
                 rope_dim / 2);
    copy_factors(builder, "rope_factors_short.weight", "short_factor", json_get(rope, "short_factor"),
                 rope_dim / 2);
}

/* YaRN (Peng et al. 2023, arXiv:2309.00071). */
static void add_yarn(Builder *builder, const Json *config, const Json *rope) {
    static const char *const floats[][2] = {{".rope.scaling.yarn_beta_fast", "beta_fast"},
                                            {".rope.scaling.yarn_beta_slow", "beta_slow"}};
    double n_old = hub_real(builder, rope, "original_max_position_embeddings",
                            hub_real(builder, config, "max_position_embeddings", 0));
    builder_string(builder, ".rope.scaling.type", string_from("yarn"));
    double factor = read_factor(builder, config, rope), magnitude = factor > 1 ? 1 + 0.1 * log(factor) : 1;
    builder_f32(builder, ".rope.scaling.factor", factor);
    builder_u32(builder, ".rope.scaling.original_context_length", (uint64_t)fmin(fmax(n_old, 0), UINT32_MAX));
    if (hub_not_null(json_get(
            rope, "attention_factor"))) /* the whole magnitude; GGUF's key is a factor of YaRN's own */
        builder_f32(builder, ".rope.scaling.attn_factor",
                    hub_real(builder, rope, "attention_factor", magnitude) / magnitude);
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        const Json *value = hub_not_null(json_get(rope, floats[i][1]));
        if (value) hub_add(builder, floats[i][0], VALUE_F32, floats[i][1], value);
    }
    bool is_exact = !hub_bool(builder, rope, "truncate", true);
    if (is_exact != (strcmp(builder->architecture, "gpt-oss") == 0))
        builder_fail(builder, "config.json: YaRN with \"truncate\": %s is not supported in this family",
                     is_exact ? "false" : "true");
    if (hub_not_null(json_get(rope, "mscale")) || hub_not_null(json_get(rope, "mscale_all_dim")))
        builder_fail(builder, "config.json: YaRN with \"mscale\" is not supported");
}

/* The defaults of a class: the base θ, that of layers with a window, and how much of a head turns. */
static const struct {
    const char *only;
    double base, local_base, share, dim;
} defaults[] = {
    {" mixtral ", 1e6, 0, 1, 0},
    {" smollm3 ", 2e6, 0, 1, 0},
    {" cohere olmo3 ", 5e5, 0, 1, 0},
    {" qwen3_vl qwen3_vl_text ", 5e5, 0, 1, 0},
    {" lfm2 ", 1e6, 0, 1, 0},
    {" gpt_oss ", 150000, 0, 1, 0},
    {" gemma3 gemma3_text ", 1e6, 1e4, 1, 0},
    {" gpt_neox stablelm qwen3_5 qwen3_5_text ", 1e4, 0, 0.25, 0},
    {" phi nemotron ", 1e4, 0, 0.5, 0},
    {" gptj codegen ", 1e4, 0, 1, 64},
    {NULL, 1e4, 0, 1, 0},
};

/* How many dimensions of a head turn. */
static double read_dim(Builder *builder, const HubFamily *family, const Json *config, const Json *rope,
                       uint64_t d_head, double share, double dim) {
    if (dim != 0) /* null is all of it */
        return hub_real(builder, config, "rotary_dim", hub_find(config, "rotary_dim") ? (double)d_head : dim);
    if (strcmp(family->model_type, "gpt_neox") == 0) share = hub_real(builder, config, "rotary_pct", share);
    if (strcmp(family->model_type, "stablelm") == 0) share = hub_real(builder, config, "rope_pct", share);
    share = hub_real(builder, config, "partial_rotary_factor", share);
    return floor(hub_real(builder, rope, "partial_rotary_factor", share) * (double)d_head);
}

/* gpt-oss without a word about it: YaRN as its class has it. */
static void add_gpt_oss(Builder *builder) {
    builder_string(builder, ".rope.scaling.type", string_from("yarn"));
    builder_f32(builder, ".rope.scaling.factor", 32);
    builder_u32(builder, ".rope.scaling.original_context_length", 4096);
}

void hub_rope(Builder *builder, const HubFamily *family, const Json *config) {
    const Json *rope = hub_get(config, "rope_scaling"), *newer = hub_get(config, "rope_parameters");
    size_t row = 0;
    while (!hub_listed(defaults[row].only, family->model_type)) row++;
    const char *name = rope ? "rope_scaling" : "rope_parameters"; /* the older one goes before */
    const Json *local = json_get(newer, "sliding_attention");
    if (!rope) rope = newer;
    if (rope && rope->kind != JSON_OBJECT)
        builder_fail(builder, "config.json: \"%s\" should be an object", name);
    if (json_get(rope, "full_attention")) rope = json_get(rope, "full_attention");
    uint64_t n_head = hub_number(builder, ".attention.head_count"),
             d_head = hub_number(builder, ".attention.key_length");
    if (!d_head && n_head) d_head = hub_number(builder, ".embedding_length") / n_head;
    if (!d_head) {
        builder_fail(builder, "config.json lacks \"hidden_size\" or \"num_attention_heads\"");
        return;
    }
    double rope_dim = read_dim(builder, family, config, rope, d_head, defaults[row].share, defaults[row].dim);
    if (!(rope_dim >= 2 && rope_dim <= (double)d_head) || d_head > 1 << 20) {
        builder_fail(builder, "config.json: RoPE over %g dimensions of heads of %" PRIu64, rope_dim, d_head);
        return;
    }
    double base = hub_real(builder, config, "rope_theta", defaults[row].base),
           local_base = hub_real(builder, config, "rope_local_base_freq", defaults[row].local_base);
    if (strcmp(family->model_type, "gpt_neox") == 0)
        base = hub_real(builder, config, "rotary_emb_base", base);
    if (strcmp(family->model_type, "lfm2") == 0) base = hub_real(builder, config, "theta", base);
    base = hub_real(builder, rope, "rope_theta", base);
    local_base = hub_real(builder, local, "rope_theta", local_base);
    builder_u32(builder, ".rope.dimension_count", (uint64_t)rope_dim);
    builder_own_name(builder, ".rope.freq_base", "rope_theta");
    builder_own_name(builder, ".rope.freq_base_swa", "rope_local_base_freq");
    builder_f32(builder, ".rope.freq_base", base);
    if (local_base != 0) builder_f32(builder, ".rope.freq_base_swa", local_base);
    if (family->halves) builder_string(builder, "attn.rope.pairing", string_from("halves"));

    const Json *kind = hub_get(rope, "rope_type") ? hub_get(rope, "rope_type") : hub_get(rope, "type");
    String type = json_string(kind);
    if (kind && !type.n) builder_fail(builder, "config.json: \"rope_type\" should be a name");
    String local_type = json_string(hub_not_null(json_get(local, "rope_type")));
    if (local_type.n && !string_equals(local_type, "default"))
        builder_fail(builder, "config.json: RoPE scaling '%.*s' of layers with a window is not supported",
                     string_shown(local_type), local_type.data);
    if (!rope && strcmp(family->model_type, "gpt_oss") == 0) {
        add_gpt_oss(builder);
    } else if (string_equals(type, "linear")) {
        builder_string(builder, ".rope.scaling.type", string_from("linear"));
        builder_f32(builder, ".rope.scaling.factor", read_factor(builder, config, rope));
    } else if (string_equals(type, "llama3")) {
        add_llama3(builder, rope, base, (uint64_t)rope_dim);
    } else if (string_equals(type, "yarn") && strcmp(family->model_type, "phi3") != 0) {
        add_yarn(builder, config, rope);
    } else if (string_equals(type, "longrope") || string_equals(type, "su") || string_equals(type, "yarn")) {
        add_longrope(builder, config, rope, (uint64_t)rope_dim);
    } else if (string_equals(type, "dynamic")) {
        builder_bool(builder, ".rope.scaling.dynamic",
                     true); /* it begins behind the context of the training */
    } else if (type.n && !string_equals(type, "default")) {
        builder_fail(builder, "config.json: RoPE scaling '%.*s' is not supported", string_shown(type),
                     type.data);
    }
}
