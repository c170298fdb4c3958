/*
 * The keys of config.json on layers that keep a state (Qwen3.5's delta nets, LFM2's convolutions), and of a text model that
 * has one for pictures beside it: GGUF's keys, as llama.cpp's converter writes them. Defaults are those of transformers'
 * classes.
 */
#include "hub.h"

#include <inttypes.h>
#include <math.h>
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
static uint64_t read_size(Maker *maker, const Json *config, const char *key, uint64_t otherwise) {
    const Json *value = hub_get(config, key);
    int64_t size = (int64_t)otherwise;
    if (value && (!json_integer(value, &size) || size < 0 || size > 1 << 24)) {
        make_fail(maker, "config.json: \"%s\" should be an integer from 0 to %d", key, 1 << 24);
        return 0;
    }
    return (uint64_t)size;
}

/* How the three or four numbers of a position, which are one number in a text, share RoPE's pairs. */
static void add_sections(Maker *maker, const Json *config, const int32_t otherwise[4]) {
    const Json *rope = hub_get(config, "rope_parameters");
    if (!rope) rope = hub_get(config, "rope_scaling");
    const Json *list = hub_not_null(json_get(rope, "mrope_section"));
    int32_t *sections = make_room(maker, 4 * sizeof *sections);
    if (!sections) return;
    memcpy(sections, otherwise, 4 * sizeof *sections);
    if (list && (list->kind != JSON_ARRAY || list->n > 4))
        make_fail(maker, "config.json: \"mrope_section\" of RoPE should be three or four integers");
    for (size_t i = 0; maker->ok && list && i < 4; i++) {
        int64_t size = 0;
        if (i < list->n && (!json_integer(&list->items[i], &size) || size < 0 || size > 1 << 24))
            make_fail(maker, "config.json: \"mrope_section\" of RoPE should be three or four integers");
        sections[i] = (int32_t)size;
    }
    make_array(maker, ".rope.dimension_sections", VALUE_I32, 4, sections, 4 * sizeof *sections);
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
static void add_recurrent_layers(Maker *maker, const Json *config, uint64_t n_layer) {
    uint64_t interval = hub_number(maker, ".full_attention_interval");
    unsigned char *keeps = n_layer <= MAX_LAYERS ? make_room(maker, (size_t)n_layer + 1) : NULL;
    bool is_implied = true;
    for (size_t i = 0; keeps && i < n_layer; i++) {
        keeps[i] = !has_attention(config, i, interval);
        is_implied = is_implied && interval && keeps[i] == ((i + 1) % interval != 0);
    }
    if (keeps && !is_implied)
        make_array(maker, ".attention.recurrent_layers", VALUE_BOOL, n_layer, keeps, (size_t)n_layer);
}

/* LFM2 has no kv heads where a layer has no attention. */
static void add_lfm2_heads(Maker *maker, const Json *config, uint64_t n_layer, uint64_t n_head_kv) {
    int32_t *heads = n_layer <= MAX_LAYERS ? make_room(maker, ((size_t)n_layer + 1) * sizeof *heads) : NULL;
    for (size_t i = 0; heads && i < n_layer; i++)
        heads[i] = has_attention(config, i, 0) ? (int32_t)n_head_kv : 0;
    if (heads)
        make_array(maker, ".attention.head_count_kv", VALUE_I32, n_layer, heads,
                   (size_t)n_layer * sizeof *heads);
}

/* LFM2's config may say the width of an MLP of two matrices; three of as many weights are two thirds as wide. */
static void add_lfm2_width(Maker *maker, const Json *config) {
    const Json *multiplies = hub_find(config, "block_ffn_dim_multiplier");
    uint64_t width = read_size(maker, config, "block_ff_dim",
                               read_size(maker, config, "intermediate_size", 12288)),
             multiple = read_size(maker, config, "block_multiple_of", 256);
    if (hub_bool(maker, config, "block_auto_adjust_ff_dim", true)) {
        double factor = hub_real(maker, config, "block_ffn_dim_multiplier", 1);
        width = 2 * width / 3;
        if (!(factor >= 0 && factor <= 1024) || multiple == 0)
            make_fail(maker, "config.json: \"block_ffn_dim_multiplier\" or \"block_multiple_of\" is absurd");
        else if (!multiplies || multiplies->kind != JSON_NULL)
            width = ((uint64_t)(factor * (double)width) + multiple - 1) / multiple * multiple;
    }
    make_u32(maker, ".feed_forward_length", width);
}

void hub_states(Maker *maker, const Json *config) {
    static const int32_t qwen35[4] = {11, 11, 10, 0}, qwen3vl[4] = {24, 20, 20, 0};
    const char *architecture = maker->architecture;
    bool is_qwen35 = strcmp(architecture, "qwen35") == 0, is_qwen3vl = strcmp(architecture, "qwen3vl") == 0,
         is_lfm2 = strcmp(architecture, "lfm2") == 0;
    if (!is_qwen35 && !is_qwen3vl && !is_lfm2) return;
    uint64_t n_layer = read_size(maker, config, "num_hidden_layers", 32);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(architecture, sizes[i].architecture) != 0) continue;
        uint64_t size = read_size(maker, config, sizes[i].key, sizes[i].otherwise);
        if (strcmp(sizes[i].gguf, ".attention.head_count_kv") == 0)
            add_lfm2_heads(maker, config, n_layer, size);
        else
            make_u32(maker, sizes[i].gguf, size);
    }
    if (is_lfm2) {
        add_lfm2_width(maker, config);
        make_f32(maker, ".attention.layer_norm_rms_epsilon", hub_real(maker, config, "norm_eps", 1e-5));
    }
    if (is_qwen35) {
        uint64_t n_head = hub_number(maker, ".ssm.time_step_rank");
        make_u32(maker, ".ssm.inner_size", n_head * read_size(maker, config, "linear_value_head_dim", 128));
        if (n_head != hub_number(maker, ".ssm.group_count")) /* its value heads follow their key head */
            make_string(maker, "attn.delta_heads", (String){"grouped", 7});
        add_recurrent_layers(maker, config, n_layer);
        add_sections(maker, config, qwen35);
    }
    if (is_qwen3vl) {
        const Json *vision = json_get(config, "vision_config"),
                   *layers = hub_not_null(json_get(vision, "deepstack_visual_indexes"));
        add_sections(maker, config, qwen3vl);
        make_u32(maker, ".n_deepstack_layers",
                 !vision || !layers || layers->kind != JSON_ARRAY ? 0 : layers->n);
    }
}
