/* The keys of config.json on some layers alone: which see a window only, which do not turn their queries and keys. */
#include "hub.h"

#include <math.h>
#include <string.h>

/*
 * The model_types whose code has windows: how wide where no key says it, 0: none, and how many layers one is global of.
 */
static const struct {
    const char *only, *key;
    uint32_t width;
    size_t period;
} windows[] = {
    {" mixtral starcoder2 phi3 ", "sliding_window", 0, 0}, {" mistral ", "sliding_window", 4096, 0},
    {" qwen2 qwen3 ", "sliding_window", 4096, 0},          {" gemma2 ", "sliding_window", 4096, 2},
    {" gemma3 gemma3_text ", "sliding_window", 4096, 6},   {" gpt_oss ", "sliding_window", 128, 2},
    {" cohere2 olmo3 ", "sliding_window", 4096, 4},        {" gpt_neo ", "window_size", 256, 2},
};

enum { N_WINDOWS = sizeof windows / sizeof *windows, MAX_LAYERS = 65536 /* more than any reader takes */ };

/* The row of windows[] for a model_type; N_WINDOWS: its layers have none. */
static size_t window_row(const HubFamily *family) {
    size_t row = 0;
    while (row < N_WINDOWS && !hub_listed(windows[row].only, family->model_type)) row++;
    return row;
}

/* A list with a word for each layer, of which `local` says that it has a window. */
static void read_words(Builder *builder, const char *key, const Json *list, const char *local,
                       const char *global, size_t n_layer, unsigned char *pattern) {
    bool ok = list->kind == JSON_ARRAY && list->n >= n_layer;
    for (size_t i = 0; ok && i < n_layer; i++) {
        pattern[i] = json_equals(&list->items[i], local);
        ok = pattern[i] || json_equals(&list->items[i], global);
    }
    if (!ok)
        builder_fail(builder, "config.json: \"%s\" should be \"%s\" or \"%s\" for each of %zu layers", key,
                     local, global, n_layer);
}

/* GPT-Neo's [[words, n], …]: the words, n times over. */
static void read_types(Builder *builder, const Json *types, size_t n_layer, unsigned char *pattern) {
    size_t layer = 0;
    for (size_t i = 0; types->kind == JSON_ARRAY && i < types->n; i++) {
        const Json *group = &types->items[i],
                   *words = group->kind == JSON_ARRAY && group->n ? group->items : NULL;
        int64_t times = 0;
        if (!words || words->kind != JSON_ARRAY || group->n != 2 || !json_integer(&group->items[1], &times))
            break;
        for (; times > 0 && layer < n_layer && words->n; times--)
            for (size_t k = 0; k < words->n && layer < n_layer; k++)
                pattern[layer++] = json_equals(&words->items[k], "local");
    }
    if (layer < n_layer)
        builder_fail(builder, "config.json: \"attention_types\" tells of %zu layers of %zu", layer, n_layer);
}

/* Which layers see a window: as config.json lists them, or by the rule of its class. */
static void read_pattern(Builder *builder, const HubFamily *family, const Json *config, size_t n_layer,
                         unsigned char *pattern) {
    const bool is_neo = strcmp(family->model_type, "gpt_neo") == 0,
               is_qwen = hub_listed(" qwen2 qwen3 ", family->model_type);
    size_t period = windows[window_row(family)].period;
    const Json *types = hub_get(config, "layer_types"), *layers = hub_get(config, "attention_layers"),
               *groups = hub_get(config, "attention_types");
    if (is_neo && layers) {
        read_words(builder, "attention_layers", layers, "local", "global", n_layer, pattern);
    } else if (is_neo && groups) {
        read_types(builder, groups, n_layer, pattern);
    } else if (!is_neo && (period || is_qwen) && types) {
        read_words(builder, "layer_types", types, "sliding_attention", "full_attention", n_layer, pattern);
    } else if (is_qwen) {
        double first = hub_real(builder, config, "max_window_layers", 28);
        for (size_t i = 0; i < n_layer; i++) pattern[i] = (double)i >= first;
    } else {
        double every = period ? hub_real(builder, config, "sliding_window_pattern", (double)period) : 0;
        if (!(every >= 0 && every <= MAX_LAYERS && floor(every) == every) || (period && every == 0))
            builder_fail(builder, "config.json: \"sliding_window_pattern\" is %g", every);
        for (size_t i = 0; i < n_layer && builder->ok; i++)
            pattern[i] = is_neo ? i % 2 == 1 : every == 0 || (i + 1) % (size_t)every != 0;
    }
}

/* Whether GGUF's readers know by the architecture alone that this layer sees a window only. */
static bool is_windowed(const char *architecture, size_t layer) {
    size_t period = hub_listed(" gemma2 gpt-oss ", architecture) ? 2
                    : strcmp(architecture, "cohere2") == 0       ? 4
                    : strcmp(architecture, "gemma3") == 0        ? 6
                                                                 : 0;
    return !period || layer % period < period - 1;
}

/* .attention.sliding_window, and which layers have it, where it is not as the architecture alone says. */
static void add_windows(Builder *builder, const HubFamily *family, const Json *config) {
    const char *architecture = builder->architecture;
    size_t row = window_row(family), n_layer = (size_t)hub_number(builder, ".block_count");
    if (row == N_WINDOWS || n_layer > MAX_LAYERS) return;
    const Json *width = hub_find(config, windows[row].key);
    bool used = !hub_listed(" qwen2 qwen3 ", family->model_type) ||
                hub_bool(builder, config, "use_sliding_window", false);
    if (width && width->kind == JSON_NULL &&
        hub_listed(" gemma3 gemma3_text cohere2 olmo3 ", family->model_type))
        builder_fail(builder,
                     "config.json: \"%s\" is null: which layers would turn as those with a window do?",
                     windows[row].key);
    if (width && width->kind != JSON_NULL && used)
        hub_add(builder, ".attention.sliding_window", VALUE_U32, windows[row].key, width);
    else if ((!width && used && windows[row].width) || strcmp(architecture, "phi3") == 0)
        builder_u32(builder, ".attention.sliding_window", windows[row].width);
    if (!builder->ok || !hub_number(builder, ".attention.sliding_window")) return;
    unsigned char *pattern = builder_room(builder, n_layer + 1);
    bool is_implied = !hub_listed(" gpt_neo olmo2 ", architecture);
    if (pattern) read_pattern(builder, family, config, n_layer, pattern);
    for (size_t i = 0; pattern && i < n_layer; i++)
        is_implied = is_implied && pattern[i] == is_windowed(architecture, i);
    if (pattern && !is_implied)
        builder_array(builder, ".attention.sliding_window_pattern", VALUE_BOOL, n_layer, pattern, n_layer);
}

/*
 * SmolLM3's layers without RoPE: a list with 0 for each of them, or every so many one, which GGUF's readers take for 4.
 */
static void add_rope_layers(Builder *builder, const Json *config) {
    enum { KNOWN = 4 };
    const Json *list = hub_get(config, "no_rope_layers");
    size_t n_layer = (size_t)hub_number(builder, ".block_count");
    double every = hub_real(builder, config, "no_rope_layer_interval", KNOWN);
    unsigned char *turns = n_layer <= MAX_LAYERS ? builder_room(builder, n_layer + 1) : NULL;
    bool is_implied = true, ok = list ? list->kind == JSON_ARRAY && list->n >= n_layer
                                      : every >= 1 && every <= MAX_LAYERS && floor(every) == every;
    for (size_t i = 0; turns && ok && i < n_layer; i++) {
        const Json *item = list ? &list->items[i] : NULL;
        if (item)
            ok = item->kind == JSON_BOOL ||
                 (item->kind == JSON_NUMBER && (item->number == 0 || item->number == 1));
        bool turned = !item                     ? (i + 1) % (size_t)every != 0
                      : item->kind == JSON_BOOL ? item->boolean
                                                : item->number != 0;
        turns[i] = turned;
        is_implied = is_implied && turns[i] == ((i + 1) % KNOWN != 0);
    }
    if (!ok)
        builder_fail(builder, "config.json: \"%s\" should be %s",
                     list ? "no_rope_layers" : "no_rope_layer_interval",
                     list ? "0 or 1 for each layer" : "an integer of 1 or more");
    if (turns && !is_implied)
        builder_array(builder, ".rope.layer_pattern", VALUE_BOOL, n_layer, turns, n_layer);
}

void hub_layers(Builder *builder, const HubFamily *family, const Json *config) {
    add_windows(builder, family, config);
    if (strcmp(family->model_type, "smollm3") == 0) add_rope_layers(builder, config);
}
