/* How config.json says that RoPE turns, as GGUF's keys and tensors. */
#include "hub.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A tensor of n floats that config.json says in words. */
static float *add_factors(Maker *maker, const char *name, uint64_t n) {
    float *factors = make_room(maker, (size_t)n * sizeof *factors);
    Tensor tensor = {.dtype = DTYPE_F32,
                     .n_dims = 1,
                     .dims = {n, 1, 1, 1},
                     .data = factors,
                     .n_bytes = n * sizeof *factors};
    if (factors) make_tensor(maker, &tensor, "%s", name);
    return factors;
}

/*
 * Llama 3.1's factors of RoPE's wavelengths: long waves are stretched by `factor`, short ones stay, and between them
 * goes a smooth way (Grattafiori et al. 2024, arXiv:2407.21783; config.json's rope_type "llama3").
 */
static void add_llama3(Maker *maker, const Json *rope, double base, uint64_t rope_dim) {
    const double factor = hub_real(rope, "factor", 8), low = hub_real(rope, "low_freq_factor", 1),
                 high = hub_real(rope, "high_freq_factor", 4),
                 n_ctx = hub_real(rope, "original_max_position_embeddings", 8192),
                 pi = 3.14159265358979323846;
    float *factors = add_factors(maker, "rope_freqs.weight", rope_dim / 2);
    for (uint64_t i = 0; factors && i < rope_dim / 2; i++) {
        double turns = n_ctx * pow(base, -2.0 * (double)i / (double)rope_dim) / (2 * pi); /* within n_ctx */
        double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
        factors[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
}

static void copy_factors(Maker *maker, const char *name, const char *key, const Json *list, uint64_t n) {
    if (!list || list->kind != JSON_ARRAY || list->n != n) {
        make_fail(maker, "config.json: \"%s\" of RoPE should be %" PRIu64 " numbers", key, n);
        return;
    }
    float *factors = add_factors(maker, name, n);
    for (uint64_t i = 0; factors && i < n; i++) {
        factors[i] = (float)list->items[i].number;
        if (list->items[i].kind != JSON_NUMBER)
            make_fail(maker, "config.json: \"%s\" of RoPE should be numbers", key);
    }
}

/* LongRoPE (Ding et al. 2024, arXiv:2402.13753) with the attention factor that Phi-3 gives it. */
static void add_longrope(Maker *maker, const Json *config, const Json *rope, uint64_t rope_dim) {
    double n_ctx = (double)hub_number(maker, ".context_length"),
           n_old = hub_real(rope, "original_max_position_embeddings",
                            hub_real(config, "original_max_position_embeddings", 0));
    double scale = n_ctx / n_old, factor = scale > 1 ? sqrt(1 + log(scale) / log(n_old)) : 1;
    if (!(n_old > 1)) {
        make_fail(maker, "config.json: \"original_max_position_embeddings\" of RoPE is missing");
        return;
    }
    make_string(maker, ".rope.scaling.type", (String){"longrope", 8});
    if (!make_has(maker, ".rope.scaling.original_context_length"))
        make_u32(maker, ".rope.scaling.original_context_length", (uint64_t)fmin(n_old, UINT32_MAX));
    make_f32(maker, ".rope.scaling.attn_factor", hub_real(rope, "attention_factor", factor));
    copy_factors(maker, "rope_factors_long.weight", "long_factor", json_get(rope, "long_factor"),
                 rope_dim / 2);
    copy_factors(maker, "rope_factors_short.weight", "short_factor", json_get(rope, "short_factor"),
                 rope_dim / 2);
}

/* YaRN (Peng et al. 2023, arXiv:2309.00071). */
static void add_yarn(Maker *maker, const Json *config, const Json *rope) {
    static const char *const floats[][2] = {{".rope.scaling.yarn_ext_factor", "extrapolation_factor"},
                                            {".rope.scaling.yarn_attn_factor", "attention_factor"},
                                            {".rope.scaling.yarn_beta_fast", "beta_fast"},
                                            {".rope.scaling.yarn_beta_slow", "beta_slow"}};
    double n_old =
        hub_real(rope, "original_max_position_embeddings", hub_real(config, "max_position_embeddings", 0));
    make_string(maker, ".rope.scaling.type", (String){"yarn", 4});
    make_f32(maker, ".rope.scaling.factor", hub_real(rope, "factor", 1));
    make_u32(maker, ".rope.scaling.original_context_length", (uint64_t)fmin(fmax(n_old, 0), UINT32_MAX));
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        const Json *value = hub_not_null(json_get(rope, floats[i][1]));
        if (value) hub_add(maker, floats[i][0], VALUE_F32, floats[i][1], value);
    }
    const Json *truncate = hub_not_null(json_get(rope, "truncate"));
    bool is_exact = truncate && truncate->kind == JSON_BOOL && !truncate->boolean;
    if (is_exact != (strcmp(maker->architecture, "gpt-oss") == 0))
        make_fail(maker, "config.json: YaRN with \"truncate\": %s is not supported in this family",
                  is_exact ? "false" : "true");
    if (hub_not_null(json_get(rope, "mscale")) || hub_not_null(json_get(rope, "mscale_all_dim")))
        make_fail(maker, "config.json: YaRN with \"mscale\" is not supported");
}

void hub_rope(Maker *maker, const HubFamily *family, const Json *config) {
    const Json *rope = hub_get(config, "rope_parameters"), *local = NULL;
    if (!rope) rope = hub_get(config, "rope_scaling");
    local = json_get(rope, "sliding_attention");
    if (json_get(rope, "full_attention")) rope = json_get(rope, "full_attention");
    uint64_t n_head = hub_number(maker, ".attention.head_count"),
             d_head = hub_number(maker, ".attention.key_length");
    if (!d_head && n_head) d_head = hub_number(maker, ".embedding_length") / n_head;
    double share = hub_real(config, "partial_rotary_factor",
                            hub_real(config, "rotary_pct", hub_real(config, "rope_pct", 1)));
    double rope_dim = hub_real(config, "rotary_dim",
                               floor(hub_real(rope, "partial_rotary_factor", share) * (double)d_head));
    if (!(rope_dim >= 2 && rope_dim <= (double)d_head) || d_head > 1 << 20) {
        make_fail(maker, "config.json: RoPE over %g dimensions of heads of %" PRIu64, rope_dim, d_head);
        return;
    }
    double base = hub_real(rope, "rope_theta",
                           hub_real(config, "rope_theta",
                                    hub_real(config, "rotary_emb_base",
                                             hub_default(maker->architecture, ".rope.freq_base")))),
           local_base = hub_real(local, "rope_theta",
                                 hub_real(config, "rope_local_base_freq",
                                          hub_default(maker->architecture, ".rope.freq_base_swa")));
    make_u32(maker, ".rope.dimension_count", (uint64_t)rope_dim);
    if (base != 0) make_f32(maker, ".rope.freq_base", base);
    if (local_base != 0) make_f32(maker, ".rope.freq_base_swa", local_base);
    if (family->halves) make_string(maker, "attn.rope.pairing", (String){"halves", 6});

    String type = json_string(hub_not_null(json_get(rope, "rope_type")));
    if (!type.n) type = json_string(hub_not_null(json_get(rope, "type")));
    if (string_equals(type, "linear")) {
        make_string(maker, ".rope.scaling.type", (String){"linear", 6});
        make_f32(maker, ".rope.scaling.factor", hub_real(rope, "factor", 1));
    } else if (string_equals(type, "llama3")) {
        add_llama3(maker, rope, base != 0 ? base : 10000, (uint64_t)rope_dim);
    } else if (string_equals(type, "yarn")) {
        add_yarn(maker, config, rope);
    } else if (string_equals(type, "longrope") || string_equals(type, "su")) {
        add_longrope(maker, config, rope, (uint64_t)rope_dim);
    } else if (type.n && !string_equals(type, "default") && !string_equals(type, "dynamic")) {
        /* "dynamic" changes nothing within the context that the model was trained for */
        make_fail(maker, "config.json: RoPE scaling '%.*s' is not supported", string_shown(type), type.data);
    }
}
