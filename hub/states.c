/*
 * The keys of config.json on layers that keep a state (Qwen3.5's delta nets, LFM2's convolutions), and of a text model that
 * has one for pictures beside it: GGUF's keys, as llama.cpp's converter writes them. Defaults are those of transformers'
 * classes.
 */
#include "hub.h"

#include <string.h>

static const struct {
    const char *architecture, *gguf, *key;
    uint64_t otherwise;
} sizes[] = {
    {"qwen35", ".ssm.conv_kernel", "linear_conv_kernel_dim", 4},
    {"qwen35", ".ssm.state_size", "linear_key_head_dim", 128},
    {"qwen35", ".ssm.group_count", "linear_num_key_heads", 16},
    {"qwen35", ".ssm.time_step_rank", "linear_num_value_heads", 32},
    {"qwen35", ".full_attention_interval", "full_attention_interval", 4},
    {"lfm2", ".shortconv.l_cache", "conv_L_cache", 3},
    {"lfm2", ".attention.head_count_kv", "num_key_value_heads", 8},
};

/* An integer of config.json that is no larger than any reader takes; 0, and it fails, where it is something else. */
static uint64_t read_size(Builder *builder, const Json *config, const char *key, uint64_t otherwise) {
    const Json *value = hub_get(config, key);
    int64_t size = (int64_t)otherwise;
    if (value && (!json_integer(value, &size) || size < 0 || size > 1 << 24)) {
        builder_fail(builder, "config.json: \"%s\" should be an integer from 0 to %d", key, 1 << 24);
        return 0;
    }
    return (uint64_t)size;
}

/* How the three or four numbers of a position, which are one number in a text, share RoPE's pairs. */
static void add_sections(Builder *builder, const Json *config, const int32_t otherwise[4]) {
    const Json *rope = hub_get(config, "rope_parameters");
    if (!rope) rope = hub_get(config, "rope_scaling");
    const Json *list = hub_not_null(json_get(rope, "mrope_section"));
    int32_t *sections = builder_room(builder, 4 * sizeof *sections);
    if (!sections) return;
    memcpy(sections, otherwise, 4 * sizeof *sections);
    if (list && (list->kind != JSON_ARRAY || list->n > 4))
        builder_fail(builder, "config.json: \"mrope_section\" of RoPE should be three or four integers");
    for (size_t i = 0; builder->ok && list && i < 4; i++) {
        int64_t size = 0;
        if (i < list->n && (!json_integer(&list->items[i], &size) || size < 0 || size > 1 << 24))
            builder_fail(builder, "config.json: \"mrope_section\" of RoPE should be three or four integers");
        sections[i] = (int32_t)size;
    }
    builder_array(builder, ".rope.dimension_sections", VALUE_I32, 4, sections, 4 * sizeof *sections);
}

enum { MAX_LAYERS = 65536 /* more than any reader takes */ };

/* Whether a layer has attention: by layer_types, or, before there were these, by a list of such layers. */
static bool has_attention(const Json *config, size_t layer, uint64_t interval) {
    const Json *types = hub_get(config, "layer_types"), *list = hub_get(config, "full_attn_idxs");
    if (types && types->kind == JSON_ARRAY && layer < types->n)
        return json_equals(&types->items[layer], "full_attention");
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->n; i++) {
        int64_t index;
        if (json_integer(&list->items[i], &index) && index == (int64_t)layer) return true;
    }
    return interval ? (layer + 1) % interval == 0 : !list;
}

/* Which layers keep a state, for readers that do not ask the tensors. */
static void add_recurrent_layers(Builder *builder, const Json *config, uint64_t n_layer) {
    uint64_t interval = hub_number(builder, ".full_attention_interval");
    unsigned char *keeps = n_layer <= MAX_LAYERS ? builder_room(builder, (size_t)n_layer + 1) : NULL;
    bool is_implied = true;
    for (size_t i = 0; keeps && i < n_layer; i++) {
        keeps[i] = !has_attention(config, i, interval);
        is_implied = is_implied && interval && keeps[i] == ((i + 1) % interval != 0);
    }
    if (keeps && !is_implied)
        builder_array(builder, ".attention.recurrent_layers", VALUE_BOOL, n_layer, keeps, (size_t)n_layer);
}

/* LFM2 has no kv heads where a layer has no attention. */
static void add_lfm2_heads(Builder *builder, const Json *config, uint64_t n_layer, uint64_t n_head_kv) {
    int32_t *heads =
        n_layer <= MAX_LAYERS ? builder_room(builder, ((size_t)n_layer + 1) * sizeof *heads) : NULL;
    for (size_t i = 0; heads && i < n_layer; i++)
        heads[i] = has_attention(config, i, 0) ? (int32_t)n_head_kv : 0;
    if (heads)
        builder_array(builder, ".attention.head_count_kv", VALUE_I32, n_layer, heads,
                      (size_t)n_layer * sizeof *heads);
}

/* LFM2's config may say the width of an MLP of two matrices; three of as many weights are two thirds as wide. */
static void add_lfm2_width(Builder *builder, const Json *config) {
    const Json *multiplies = hub_find(config, "block_ffn_dim_multiplier");
    uint64_t width = read_size(builder, config, "block_ff_dim",
                               read_size(builder, config, "intermediate_size", 12288)),
             multiple = read_size(builder, config, "block_multiple_of", 256);
    if (hub_bool(builder, config, "block_auto_adjust_ff_dim", true)) {
        double factor = hub_real(builder, config, "block_ffn_dim_multiplier", 1);
        width = 2 * width / 3;
        if (!(factor >= 0 && factor <= 1024) || multiple == 0)
            builder_fail(builder,
                         "config.json: \"block_ffn_dim_multiplier\" or \"block_multiple_of\" is absurd");
        else if (!multiplies || multiplies->kind != JSON_NULL)
            width = ((uint64_t)(factor * (double)width) + multiple - 1) / multiple * multiple;
    }
    builder_u32(builder, ".feed_forward_length", width);
}

void hub_states(Builder *builder, const Json *config) {
    static const int32_t qwen35[4] = {11, 11, 10, 0}, qwen3vl[4] = {24, 20, 20, 0};
    const char *architecture = builder->architecture;
    bool is_qwen35 = strcmp(architecture, "qwen35") == 0, is_qwen3vl = strcmp(architecture, "qwen3vl") == 0,
         is_lfm2 = strcmp(architecture, "lfm2") == 0;
    if (!is_qwen35 && !is_qwen3vl && !is_lfm2) return;
    uint64_t n_layer = read_size(builder, config, "num_hidden_layers", 32);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(architecture, sizes[i].architecture) != 0) continue;
        uint64_t size = read_size(builder, config, sizes[i].key, sizes[i].otherwise);
        if (strcmp(sizes[i].gguf, ".attention.head_count_kv") == 0)
            add_lfm2_heads(builder, config, n_layer, size);
        else
            builder_u32(builder, sizes[i].gguf, size);
    }
    if (is_lfm2) {
        add_lfm2_width(builder, config);
        builder_f32(builder, ".attention.layer_norm_rms_epsilon",
                    hub_real(builder, config, "norm_eps", 1e-5));
    }
    if (is_qwen35) {
        uint64_t n_head = hub_number(builder, ".ssm.time_step_rank");
        builder_u32(builder, ".ssm.inner_size",
                    n_head * read_size(builder, config, "linear_value_head_dim", 128));
        if (n_head != hub_number(builder, ".ssm.group_count")) /* its value heads follow their key head */
            builder_string(builder, "attn.delta_heads", string_from("grouped"));
        add_recurrent_layers(builder, config, n_layer);
        add_sections(builder, config, qwen35);
    }
    if (is_qwen3vl) {
        const Json *vision = json_get(config, "vision_config"),
                   *layers = hub_not_null(json_get(vision, "deepstack_visual_indexes"));
        add_sections(builder, config, qwen3vl);
        builder_u32(builder, ".n_deepstack_layers",
                    !vision || !layers || layers->kind != JSON_ARRAY ? 0 : layers->n);
    }
}
