/*
 * A folder's keys out of config.json, against what transformers' classes read of it: tests/data/config.txt has every key of
 * every class, what a missing one means, and another value. No weights are bound: what the keys become is compared.
 */
#define _GNU_SOURCE /* open_memstream */

#include "cli/info.h"
#include "config.h"
#include "folder.h"
#include "open.h"
#include "test.h"

#include <unistd.h>

#define ALL                                                                                                          \
    "gpt2,gpt_neo,gpt_neox,gptj,codegen,gpt_bigcode,starcoder2,opt,bloom,mpt,falcon,llama,mistral,mixtral,"          \
    "granite,granitemoe,smollm3,internlm2,baichuan,olmo,olmo2,olmo3,olmoe,qwen2,qwen2_moe,qwen3,qwen3_moe,"          \
    "gpt_oss,stablelm,exaone,gemma,gemma2,gemma3,gemma3_text,phi,phi3,cohere,cohere2,nemotron,qwen3_5,qwen3_5_text," \
    "qwen3_vl,qwen3_vl_text,lfm2"

/* The sizes that every config has here, but for those that are another name of the key in question. */
static const char *const sizes[][2] = {
    {"hidden_size", "128"},       {"num_hidden_layers", "8"},
    {"num_attention_heads", "2"}, {"max_position_embeddings", "64"},
    {"vocab_size", "3"},
};

static bool is_size(size_t i, const char *key) {
    return strcmp(sizes[i][0], key) == 0 || (i == 3 && strcmp(key, "n_positions") == 0);
}

/* Writes a config with one more key, unless its value is NULL; "a.b" is member b of a. */
static void put_config(const char *type, const char *key, const char *value) {
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"model_type\": \"%s\"", type);
    const char *dot = strchr(key, '.');
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!is_size(i, key))
            n += (size_t)snprintf(text + n, sizeof text - n, ", \"%s\": %s", sizes[i][0], sizes[i][1]);
    if (value && dot)
        n += (size_t)snprintf(text + n, sizeof text - n, ", \"%.*s\": {\"%s\": %s}", (int)(dot - key), key,
                              dot + 1, value);
    if (value && !dot) n += (size_t)snprintf(text + n, sizeof text - n, ", \"%s\": %s", key, value);
    snprintf(text + n, sizeof text - n, "}");
    put_text("config.json", text);
}

enum { ROOM = 1 << 14, MAX_VALUES = 128 };

static int by_key(const void *a, const void *b) {
    return string_compare(((const Value *)a)->key, ((const Value *)b)->key);
}

/* All that the folder's config.json became, as bytes; false where it was refused, with `error`. */
static bool read_config(char said[ROOM], size_t *n) {
    Checkpoint *checkpoint = checkpoint_open(scratch_folder, &error);
    *n = 0;
    if (!checkpoint) return false;
    Value values[MAX_VALUES];
    size_t n_values = checkpoint_n_values(checkpoint);
    for (size_t i = 0; i < n_values && i < MAX_VALUES; i++) values[i] = checkpoint_value(checkpoint, i);
    qsort(values, n_values, sizeof *values, by_key);
    for (size_t i = 0; i < n_values; i++) {
        Value value = values[i];
        if (value.key.n > 10 && memcmp(value.key.data, "tokenizer.", 10) == 0) continue;
        *n +=
            (size_t)snprintf(said + *n, ROOM - *n, "%.*s %u ", (int)value.key.n, value.key.data, value.type);
        memcpy(said + *n, value.data, value.n_bytes), *n += value.n_bytes;
    }
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        if (tensor->dims[1] != 1) continue; /* factors of RoPE */
        memcpy(said + *n, tensor->data, (size_t)tensor->n_bytes), *n += (size_t)tensor->n_bytes;
    }
    checkpoint_close(checkpoint);
    return true;
}

static void put_weights(void) {
    static const char header[] =
        "{\"model.embed_tokens.weight\": {\"dtype\": \"F32\", \"shape\": [3, 4], \"data_offsets\": [0, 48]}}";
    char bytes[8 + sizeof header - 1 + 48] = {0};
    uint64_t n = sizeof header - 1;
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    scratch_put("model.safetensors", bytes, sizeof bytes);
}

/* A line of the table for one model_type: absent, as the class has it, another value, another type. */
static void check_key(const char *type, const char *key, const char *usual, const char *other,
                      const char *verdict) {
    static char absent[ROOM], said[ROOM];
    size_t n_absent, n;
    bool is_idle = strcmp(verdict, "idle") == 0, is_only = strcmp(verdict, "only") == 0;
    bool is_word = *other == '"' || *other == '[' || *other == '{';
    put_config(type, *usual == '-' ? "" : key, NULL);
    bool ok = read_config(absent, &n_absent);
    CHECK(ok, "%s without %s: %s", type, key, error.message);
    if (*usual != '-') {
        put_config(type, key, usual);
        ok = read_config(said, &n);
        CHECK(ok && n == n_absent && memcmp(said, absent, n) == 0,
              "%s: \"%s\": %s is not what a missing one is%s%s", type, key, usual, ok ? "" : ": ",
              ok ? "" : error.message);
    }
    put_config(type, key, other);
    ok = read_config(said, &n);
    bool same = ok && n == n_absent && memcmp(said, absent, n) == 0;
    const char *name = strrchr(key, '.') ? strrchr(key, '.') + 1 : key;
    bool named = strstr(error.message, name) || strstr(error.message, "RoPE") ||
                 strstr(error.message, "YaRN") || strstr(error.message, "activation");
    if (is_idle && strcmp(key, "vocab_size") != 0)
        CHECK(same, "%s: \"%s\": %s changes something: %s", type, key, other, ok ? "keys" : error.message);
    else if (is_only)
        CHECK(!ok && named, "%s: \"%s\": %s: %s", type, key, other, ok ? "accepted" : error.message);
    else if (!is_idle)
        CHECK(ok && !same, "%s: \"%s\": %s: %s", type, key, other, ok ? "changes nothing" : error.message);
    if (is_idle) return;
    put_config(type, key, is_word ? "7" : "\"odd\"");
    ok = read_config(said, &n);
    CHECK(!ok && (strstr(error.message, name) || strstr(error.message, "activation")), "%s: \"%s\": %s: %s",
          type, key, is_word ? "7" : "\"odd\"", ok ? "accepted" : error.message);
}

static void test_table(void) {
    FILE *in = fopen("tests/data/config.txt", "r");
    char line[2048];
    size_t n_lines = 0;
    CHECK(in, "tests/data/config.txt");
    while (in && fgets(line, sizeof line, in)) {
        char types[1024], key[64], usual[512], other[512], verdict[16], *rest = NULL;
        if (*line == '#' || *line == '\n') continue;
        bool ok = sscanf(line, "%1023s %63s %511s %511s %15s", types, key, usual, other, verdict) == 5;
        CHECK(ok, "no line: %s", line);
        if (strcmp(types, "*") == 0) snprintf(types, sizeof types, "%s", ALL);
        for (char *type = strtok_r(types, ",", &rest); ok && type; type = strtok_r(NULL, ",", &rest))
            check_key(type, key, usual, other, verdict), n_lines++;
    }
    CHECK(n_lines > 700, "%zu keys", n_lines);
    if (in) fclose(in);
}

static Checkpoint *opened(const char *config) {
    put_text("config.json", config);
    return accept(scratch_folder);
}

static double number_at(const Checkpoint *checkpoint, const char *key) {
    uint64_t integer = 0;
    float real = 0;
    if (checkpoint && checkpoint_u64(checkpoint, key, &integer, NULL) && checkpoint_has(checkpoint, key))
        return (double)integer;
    return checkpoint && checkpoint_has(checkpoint, key) && checkpoint_f32(checkpoint, key, &real, NULL)
               ? (double)real
               : -1;
}

#define BASE "\"hidden_size\": 128, \"num_hidden_layers\": 30, \"num_attention_heads\": 2, \"vocab_size\": 3"

/* Published files. */
static void test_published(void) {
    /* baichuan-inc/Baichuan-13B-Base */
    Checkpoint *checkpoint = opened("{\"model_type\": \"baichuan\", " BASE ", \"model_max_length\": 4096}");
    CHECK(number_at(checkpoint, "baichuan.context_length") == 4096, "Baichuan-13B");
    checkpoint_close(checkpoint);
    /* CohereForAI/c4ai-command-r-v01 says both, and means the former */
    checkpoint = opened("{\"model_type\": \"cohere\", " BASE
                        ", \"model_max_length\": 131072, \"max_position_embeddings\": 8192}");
    CHECK(number_at(checkpoint, "command-r.context_length") == 131072, "Command R");
    CHECK(number_at(checkpoint, "command-r.logit_scale") == 0.0625, "Command R's logits");
    checkpoint_close(checkpoint);
    /* EleutherAI/gpt-neox-20b */
    checkpoint = opened("{\"model_type\": \"gpt_neox\", " BASE
                        ", \"hidden_act\": \"gelu_fast\", \"rotary_pct\": 0.25, "
                        "\"rotary_emb_base\": 10000, \"max_position_embeddings\": 2048}");
    String act = {"", 0};
    CHECK(checkpoint && checkpoint_string(checkpoint, "gptneox.hidden_activation", &act, NULL) &&
              string_equals(act, "gelu_new"),
          "GPT-NeoX-20B's activation");
    CHECK(number_at(checkpoint, "gptneox.rope.dimension_count") == 16, "GPT-NeoX-20B's RoPE");
    checkpoint_close(checkpoint);
    /* google/gemma-2-27b: d_model/n_head in place of d_head, which the layers alone tell readers */
    checkpoint = opened("{\"model_type\": \"gemma2\", \"hidden_size\": 4608, \"num_hidden_layers\": 46, "
                        "\"num_attention_heads\": 32, \"head_dim\": 128, \"query_pre_attn_scalar\": 144}");
    CHECK(!checkpoint_has(checkpoint, "gemma2.attention.scale"), "Gemma 2 27B's scale");
    checkpoint_close(checkpoint);
    checkpoint = opened("{\"model_type\": \"gemma2\", \"hidden_size\": 4608, \"num_hidden_layers\": 46, "
                        "\"num_attention_heads\": 32, \"head_dim\": 128, \"query_pre_attn_scalar\": 256}");
    CHECK(number_at(checkpoint, "gemma2.attention.scale") == 1.0 / 16, "another scale");
    checkpoint_close(checkpoint);
    /* google/gemma-3-4b-it: what its text_config lacks is the class's */
    checkpoint = opened(
        "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\", \"hidden_size\": 2560, "
        "\"intermediate_size\": 10240, \"num_hidden_layers\": 34, \"sliding_window\": 1024, \"rope_scaling\": "
        "{\"factor\": 8.0, \"rope_type\": \"linear\"}}, \"vision_config\": {\"hidden_size\": 1152}, "
        "\"mm_tokens_per_image\": 256}");
    CHECK(number_at(checkpoint, "gemma3.attention.sliding_window") == 1024 &&
              number_at(checkpoint, "gemma3.attention.key_length") == 256 &&
              number_at(checkpoint, "gemma3.rope.freq_base") == 1e6 &&
              number_at(checkpoint, "gemma3.rope.scaling.factor") == 8 &&
              !checkpoint_has(checkpoint, "gemma3.attention.scale") &&
              !checkpoint_has(checkpoint, "attn.unread_keys"),
          "Gemma 3 4B");
    checkpoint_close(checkpoint);
    /* as transformers 5 writes it: a RoPE for the layers that see all, another for those with a window */
    checkpoint =
        opened("{\"model_type\": \"gemma3_text\", " BASE ", \"rope_parameters\": {\"full_attention\": "
               "{\"rope_type\": \"linear\", \"factor\": 8.0, \"rope_theta\": 500.0}, "
               "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 250.0}}}");
    CHECK(number_at(checkpoint, "gemma3.rope.freq_base") == 500 &&
              number_at(checkpoint, "gemma3.rope.scaling.factor") == 8 &&
              number_at(checkpoint, "gemma3.rope.freq_base_swa") == 250,
          "two RoPEs: %g, %g", number_at(checkpoint, "gemma3.rope.freq_base"),
          number_at(checkpoint, "gemma3.rope.freq_base_swa"));
    checkpoint_close(checkpoint);
}

/* Qwen 2's layers from the 28th on see a window where it is used, and no key says from which. */
static void test_late_windows(void) {
    static const char *const configs[] = {
        "{\"model_type\": \"qwen2\", " BASE ", \"use_sliding_window\": true}",
        "{\"model_type\": \"qwen2\", " BASE ", \"use_sliding_window\": true, \"max_window_layers\": 29}",
        "{\"model_type\": \"qwen3\", " BASE
        ", \"use_sliding_window\": true, \"layer_types\": [" /* goes before max_window_layers */
    };
    for (size_t i = 0; i < 3; i++) {
        char text[2048];
        FlagArray layers = {0};
        size_t n = (size_t)snprintf(text, sizeof text, "%s", configs[i]);
        for (size_t layer = 0; i == 2 && layer < 30; layer++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s_attention\"", layer ? ", " : "",
                                  layer < 27 ? "full" : "sliding");
        if (i == 2) snprintf(text + n, sizeof text - n, "]}");
        Checkpoint *checkpoint = opened(text);
        const char *key =
            i == 2 ? "qwen3.attention.sliding_window_pattern" : "qwen2.attention.sliding_window_pattern";
        CHECK(checkpoint && checkpoint_flags(checkpoint, key, &layers, &error) && layers.n == 30,
              "no pattern");
        size_t first = i == 0 ? 28 : i == 1 ? 29 : 27;
        for (size_t layer = 0; layer < layers.n && layers.data; layer++)
            CHECK(layers.data[layer * layers.stride] == (layer >= first), "config %zu: layer %zu", i, layer);
        CHECK(number_at(checkpoint,
                        i == 2 ? "qwen3.attention.sliding_window" : "qwen2.attention.sliding_window") == 4096,
              "its width");
        checkpoint_close(checkpoint);
    }
}

/* A key that nothing reads is told, and refuses nothing. */
static void test_unread(void) {
    Checkpoint *checkpoint = opened(
        "{\"model_type\": \"llama\", " BASE
        ", \"magic_scale\": 3, \"hidden_dropout\": 0.1, \"sliding_window\": 9, "
        "\"nothing\": null, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"attn_factor\": 0.8, "
        "\"original_max_position_embeddings\": 16}}");
    String unread = {"", 0};
    CHECK(checkpoint && checkpoint_string(checkpoint, "attn.unread_keys", &unread, NULL) &&
              string_equals(unread, "magic_scale, sliding_window, rope_scaling.attn_factor"),
          "'%.*s'", (int)unread.n, unread.data);
    checkpoint_close(checkpoint);
    /* whose class has no such key */
    checkpoint = opened("{\"model_type\": \"gpt_neox\", " BASE ", \"num_key_value_heads\": 1}");
    CHECK(checkpoint && checkpoint_string(checkpoint, "attn.unread_keys", &unread, NULL) &&
              string_equals(unread, "num_key_value_heads") &&
              !checkpoint_has(checkpoint, "gptneox.attention.head_count_kv"),
          "'%.*s'", (int)unread.n, unread.data);
    checkpoint_close(checkpoint);
    /* in a RoPE of some layers, too: those with a window read less of theirs */
    checkpoint = opened(
        "{\"model_type\": \"gemma3_text\", " BASE
        ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
        "\"linear\", \"factor\": 8.0, \"rope_theta\": 1e6, \"magic\": 1}, \"sliding_attention\": {\"rope_type\": "
        "\"default\", \"rope_theta\": 1e4, \"factor\": 2.0}}}");
    CHECK(checkpoint && checkpoint_string(checkpoint, "attn.unread_keys", &unread, NULL) &&
              string_equals(unread,
                            "rope_parameters.full_attention.magic, rope_parameters.sliding_attention.factor"),
          "'%.*s'", (int)unread.n, unread.data);
    checkpoint_close(checkpoint);
    put_text("config.json",
             "{\"model_type\": \"llama\", " BASE
             ", \"magic_scale\": 3, \"sliding_window\": 9, \"rope_scaling\": {\"rope_type\": \"yarn\", "
             "\"factor\": 4.0, \"attn_factor\": 0.8, \"original_max_position_embeddings\": 16}}");
    char *printed = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&printed, &n);
    if (!out) abort();
    CHECK(print_info(out, scratch_folder, NULL, &error), "%s", error.message);
    fclose(out);
    CHECK(
        strstr(printed,
               "\nnot read     of config.json: \"magic_scale, sliding_window, rope_scaling.attn_factor\"\n"),
        "%s", printed);
    free(printed);
}

/* Weights that are a head alone. */
static void put_head(void) {
    static const char header[] =
        "{\"lm_head.weight\": {\"dtype\": \"F32\", \"shape\": [3, 4], \"data_offsets\": [0, 48]}}    ";
    char bytes[8 + sizeof header - 1 + 48] = {0};
    uint64_t n = sizeof header - 1;
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t i = 0; i < 12; i++) memcpy(bytes + 8 + n + 4 * i, &(float){i < 8 ? 3 : 0}, 4);
    scratch_put("model.safetensors", bytes, sizeof bytes);
}

/* The head of Baichuan 2 is turned, known by its vocabulary; that of Baichuan 1 stays where it lies. */
static void test_head_by_vocabulary(void) {
    put_head();
    for (int newer = 0; newer < 2; newer++) {
        char config[300];
        snprintf(config, sizeof config,
                 "{\"model_type\": \"baichuan\", \"hidden_size\": 128, \"num_hidden_layers\": 30, "
                 "\"num_attention_heads\": 2, \"vocab_size\": %d}",
                 newer ? 125696 : 64000);
        Checkpoint *checkpoint = opened(config);
        const Tensor *head = checkpoint ? checkpoint_find(checkpoint, "output.weight") : NULL;
        float first = 0, last = 1;
        if (head) memcpy(&first, head->data, 4), memcpy(&last, (const char *)head->data + 44, 4);
        CHECK(head && first == (newer ? 0.5F : 3.0F) && last == 0, "%s: %g", config, (double)first);
        checkpoint_close(checkpoint);
    }
}

/* A config of four layers with these keys, whose quotes are single ones here. */
static void put_keys(const char *type, const char *keys) {
    char text[1024];
    snprintf(text, sizeof text,
             "{'model_type': '%s', 'hidden_size': 128, 'num_hidden_layers': 4, 'num_attention_heads': 2, "
             "'max_position_embeddings': 64%s%s}",
             type, *keys ? ", " : "", keys);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    put_text("config.json", text);
}

/* Whether a head of its own counts: what a missing key means is the class's, and LFM2 has a second one, which goes first. */
static void test_tied(void) {
    static const struct {
        const char *type, *keys;
        bool has_head;
    } cases[] = {
        {"exaone", "", false},
        {"exaone", "'tie_word_embeddings': false", true},
        {"llama", "", true},
        {"llama", "'tie_word_embeddings': true", false},
        {"lfm2", "", false},
        {"lfm2", "'tie_embedding': false", true},
        {"lfm2", "'tie_embedding': false, 'tie_word_embeddings': true", true},
        {"lfm2", "'tie_embedding': true, 'tie_word_embeddings': false, 'theta': 5, 'rope_theta': 6", false},
    };
    put_head();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_keys(cases[i].type, cases[i].keys);
        Checkpoint *checkpoint = accept(scratch_folder);
        CHECK(checkpoint && !checkpoint_find(checkpoint, "output.weight") == !cases[i].has_head, "%s: %s",
              cases[i].type, cases[i].keys);
        CHECK(checkpoint && !checkpoint_has(checkpoint, "attn.unread_keys"), "%s: %s: not read",
              cases[i].type, cases[i].keys);
        if (i == 7) CHECK(number_at(checkpoint, "lfm2.rope.freq_base") == 5, "theta");
        checkpoint_close(checkpoint);
    }
}

static void test_refused(void) {
    put_text("config.json", "{\"model_type\": \"gpt_oss\", " BASE ", \"swiglu_limit\": 6.5}");
    refuse("\"swiglu_limit\": 6.5 is not supported in a model of type 'gpt_oss'; 7 is");
    put_text("config.json", "{\"model_type\": \"mpt\", " BASE ", \"logit_scale\": \"inv_sqrt_d_model\"}");
    refuse("\"logit_scale\": inv_sqrt_d_model is not supported in a model of type 'mpt'; null is");
    put_text("config.json", "{\"model_type\": \"opt\", " BASE ", \"activation_function\": \"gelu_10\"}");
    refuse(
        "the activation 'gelu_10' is not supported; these are: gelu_new gelu_fast gelu_pytorch_tanh gelu_accurate "
        "gelu_python_tanh gelu gelu_python relu relu2");
    put_text("config.json",
             "{\"model_type\": \"llama\", " BASE ", \"rope_scaling\": {\"rope_type\": \"linear\"}}");
    refuse("RoPE scaling by \"factor\" 0");
    put_text("config.json", "{\"model_type\": \"llama\", " BASE ", \"rope_scaling\": {\"rope_type\": 5}}");
    refuse("\"rope_type\" should be a name");
}

#define ROPE(type, more) "'rope_scaling': {'rope_type': '" type "'" more "}"
#define HALVES                                                                                               \
    "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"
#define LONG_ROPE ", 'original_max_position_embeddings': 16, 'short_factor': " HALVES ", 'long_factor': "

static void test_refused_keys(void) {
    static const struct {
        const char *type, *keys, *words;
    } wrong[] = {
        {"llama", ROPE("yarn", ", 'factor': 1e9"), "RoPE scaling by \"factor\" 1e+09"},
        {"llama", ROPE("yarn", ", 'factor': 2, 'truncate': false"), "YaRN with \"truncate\": false"},
        {"gpt_oss", ROPE("yarn", ", 'factor': 2"), "YaRN with \"truncate\": true"},
        {"llama", ROPE("yarn", ", 'factor': 2, 'mscale': 1"), "YaRN with \"mscale\""},
        {"llama", ROPE("yarn", ", 'factor': 2, 'mscale_all_dim': 1"), "YaRN with \"mscale\""},
        {"llama", ROPE("of_tomorrow", ""), "RoPE scaling 'of_tomorrow' is not supported"},
        {"phi3", ROPE("su", LONG_ROPE "5"), "\"long_factor\" of RoPE should be 32 numbers"},
        {"phi3", ROPE("yarn", LONG_ROPE "[1, 2]"), "\"long_factor\" of RoPE should be 32 numbers"},
        {"phi3", ROPE("longrope", ", 'original_max_position_embeddings': 16, 'short_factor': " HALVES),
         "\"long_factor\" of RoPE should be 32 numbers"},
        {"phi3", ROPE("longrope", ", 'short_factor': " HALVES ", 'long_factor': " HALVES),
         "\"original_max_position_embeddings\" of RoPE is missing"},
        {"phi3",
         ROPE("longrope",
              LONG_ROPE "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
                        "1, 1, 1, 1, 1, 1, '1']"),
         "\"long_factor\" of RoPE should be numbers"},
        {"gpt_neox", "'rotary_pct': 0.01", "RoPE over 0 dimensions of heads of 64"},
        {"gpt_neo", "'attention_types': 5", "\"attention_types\" tells of 0 layers of 4"},
        {"gpt_neo", "'attention_types': [5]", "\"attention_types\" tells of 0 layers of 4"},
        {"gpt_neo", "'attention_types': [[]]", "\"attention_types\" tells of 0 layers of 4"},
        {"gpt_neo", "'attention_types': [[5, 2]]", "\"attention_types\" tells of 0 layers of 4"},
        {"gpt_neo", "'attention_types': [[[], 2]]", "\"attention_types\" tells of 0 layers of 4"},
        {"gpt_neo", "'attention_types': [[['global', 'local'], 1, 1]]", "tells of 0 layers of 4"},
        {"gpt_neo", "'attention_types': [[['global', 'local'], 'x']]", "tells of 0 layers of 4"},
        {"gpt_neo", "'attention_types': [[['global', 'local'], 1]]", "tells of 2 layers of 4"},
        {"gpt_neo", "'attention_layers': ['global', 'local', 'local', 'sliding']",
         "\"attention_layers\" should be \"local\" or \"global\" for each of 4 layers"},
        {"cohere2", "'sliding_window_pattern': -1", "\"sliding_window_pattern\" is -1"},
        {"cohere2", "'sliding_window_pattern': 0", "\"sliding_window_pattern\" is 0"},
        {"cohere2", "'sliding_window_pattern': 1.5", "\"sliding_window_pattern\" is 1.5"},
        {"cohere2", "'sliding_window_pattern': 70000", "\"sliding_window_pattern\" is 70000"},
        {"smollm3", "'no_rope_layers': [1, 0]", "\"no_rope_layers\" should be 0 or 1 for each layer"},
        {"smollm3", "'no_rope_layers': [1, 0, 1, 2]", "\"no_rope_layers\" should be 0 or 1 for each layer"},
        {"smollm3", "'no_rope_layers': [1, 0, 1, 'x']", "\"no_rope_layers\" should be 0 or 1 for each layer"},
        {"smollm3", "'no_rope_layer_interval': 0", "\"no_rope_layer_interval\" should be an integer of 1 or"},
        {"smollm3", "'no_rope_layer_interval': 1.5",
         "\"no_rope_layer_interval\" should be an integer of 1 or"},
        {"smollm3", "'no_rope_layer_interval': 70000",
         "\"no_rope_layer_interval\" should be an integer of 1"},
        {"lfm2", "'block_ffn_dim_multiplier': -1", "\"block_ffn_dim_multiplier\" or"},
        {"lfm2", "'block_ffn_dim_multiplier': 2000", "\"block_ffn_dim_multiplier\" or"},
        {"lfm2", "'block_multiple_of': 0", "\"block_multiple_of\" is absurd"},
        {"lfm2", "'block_ff_dim': 99999999", "\"block_ff_dim\" should be an integer from 0 to 16777216"},
        {"qwen3_5_text", "'rope_parameters': {'mrope_section': 5}",
         "\"mrope_section\" of RoPE should be three"},
        {"qwen3_5_text", "'rope_parameters': {'mrope_section': [1, 2, 3, 4, 5]}",
         "\"mrope_section\" of RoPE"},
        {"qwen3_5_text", "'rope_parameters': {'mrope_section': [1, -2, 3]}", "\"mrope_section\" of RoPE"},
        {"qwen3_5_text", "'rope_parameters': {'mrope_section': [1, 99999999, 3]}",
         "\"mrope_section\" of RoPE"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_keys(wrong[i].type, wrong[i].keys);
        refuse(wrong[i].words);
    }
}

/* The model names the key that it refuses as config.json does, where it stands or should. */
static void test_own_names(void) {
    static const struct {
        const char *type, *key, *value, *words;
    } wrong[] = {
        {"llama", "max_position_embeddings", NULL, ": \"max_position_embeddings\" of config.json is missing"},
        {"gpt2", "n_positions", NULL, ": \"max_position_embeddings\" of config.json is missing"},
        {"gpt2", "n_positions", "0", ": \"n_positions\" of config.json is 0, expected 1 to 1073741824"},
        {"llama", "num_hidden_layers", NULL, ": \"num_hidden_layers\" of config.json is missing"},
        {"llama", "num_hidden_layers", "0",
         ": \"num_hidden_layers\" of config.json is 0, expected 1 to 16777216"},
        {"llama", "rms_norm_eps", "-1", ": \"rms_norm_eps\" of config.json is -1, expected a number from"},
        {"llama", "rope_theta", "0", ": \"rope_theta\" of config.json is 0, expected a number from"},
        {"mpt", "attn_config.kv_n_heads", "0",
         ": \"attn_config.kv_n_heads\" of config.json is 0, expected 1 to"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_config(wrong[i].type, wrong[i].key, wrong[i].value);
        Checkpoint *checkpoint = accept(scratch_folder);
        Config config;
        CHECK(checkpoint && !config_read(&config, checkpoint, &error) &&
                  strstr(error.message, wrong[i].words),
              "%s, %s: %s", wrong[i].type, wrong[i].key, error.message);
        checkpoint_close(checkpoint);
    }
}

/* Two ways to say one thing: a key's default, another name, a list in place of a rule. */
static void test_same_keys(void) {
    static const struct {
        const char *type, *keys, *others;
    } cases[] = {
        {"llama", ROPE("llama3", ""),
         ROPE("llama3", ", 'factor': 8, 'low_freq_factor': 1, 'high_freq_factor': 4, "
                        "'original_max_position_embeddings': 8192")},
        {"llama", ROPE("dynamic", ", 'factor': 2"), "'rope_scaling': {'type': 'dynamic', 'factor': 3}"},
        {"llama", ROPE("yarn", ", 'original_max_position_embeddings': 16"),
         ROPE("yarn", ", 'original_max_position_embeddings': 16, 'factor': 4")},
        {"llama", "'rope_scaling': {'type': 'linear', 'factor': 2}", ROPE("linear", ", 'factor': 2")},
        {"phi3", ROPE("su", LONG_ROPE HALVES), ROPE("longrope", LONG_ROPE HALVES)},
        {"phi3", ROPE("yarn", LONG_ROPE HALVES), ROPE("longrope", LONG_ROPE HALVES)},
        {"gpt_neo", "'attention_types': [[['global', 'local'], 9]]",
         "'attention_layers': ['global', 'local', 'global', 'local']"},
        {"gpt_neo", "", "'attention_layers': ['global', 'local', 'global', 'local']"},
        {"smollm3", "'no_rope_layers': [true, 1, 1, false]", "'no_rope_layer_interval': 4"},
        {"smollm3", "'no_rope_layers': [1, 0, true, 0]", "'no_rope_layer_interval': 2"},
        {"lfm2", "'full_attn_idxs': [1, 3]",
         "'layer_types': ['conv', 'full_attention', 'conv', 'full_attention']"},
        {"qwen3_5_text", "'full_attention_interval': 2",
         "'full_attention_interval': 2, 'layer_types': ['linear_attention', 'full_attention', 'linear_attention', "
         "'full_attention']"},
    };
    static char said[ROOM], others[ROOM];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n, n_others;
        put_keys(cases[i].type, cases[i].keys);
        bool ok = read_config(said, &n);
        CHECK(ok, "%s: %s: %s", cases[i].type, cases[i].keys, error.message);
        put_keys(cases[i].type, cases[i].others);
        ok = read_config(others, &n_others);
        CHECK(ok && n == n_others && memcmp(said, others, n) == 0, "%s: %s is not %s %s", cases[i].type,
              cases[i].keys, cases[i].others, ok ? "" : error.message);
    }
}

int main(void) {
    scratch_begin();
    put_weights();
    RUN(test_table);
    RUN(test_published);
    RUN(test_late_windows);
    RUN(test_unread);
    RUN(test_refused);
    RUN(test_refused_keys);
    RUN(test_own_names);
    RUN(test_same_keys);
    RUN(test_head_by_vocabulary);
    RUN(test_tied);
    unlink(scratch_file("config.json"));
    unlink(scratch_file("model.safetensors"));
    scratch_end();
    return test_end();
}
