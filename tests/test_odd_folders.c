/*
 * Folders that are odd: tensors of other shapes than config.json asks for, keys of another kind than they should be, counts
 * that no reader takes, names and ids out of bounds.
 */
#include "folder.h"
#include "packing/layout.h"
#include "test.h"

#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>

#define SIZES "\"hidden_size\": 4, \"num_hidden_layers\": 1, \"vocab_size\": 3"
#define HEADS SIZES ", \"num_attention_heads\": 2"

static void put_config(const char *type, const char *keys) {
    char text[2048];
    snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s}", type, keys);
    put_text("config.json", text);
}

/* One tensor, or two: the second lies behind the first. */
typedef struct Given {
    const char *name, *type, *shape;
    size_t n_bytes;
} Given;

static void put_tensors(const Given *given, size_t n) {
    char header[2048];
    size_t end = 0, at = (size_t)snprintf(header, sizeof header, "{");
    for (size_t i = 0; i < n && given[i].name; end += given[i++].n_bytes)
        at += (size_t)snprintf(header + at, sizeof header - at,
                               "%s\"%s\": {\"dtype\": \"%s\", \"shape\": %s, \"data_offsets\": [%zu, %zu]}",
                               i ? ", " : "", given[i].name, given[i].type, given[i].shape, end,
                               end + given[i].n_bytes);
    snprintf(header + at, sizeof header - at, "}");
    put_safetensors("model.safetensors", header, 0, end);
}

#define LAYER "model.layers.0."
#define DOWN LAYER "mlp.experts.down_proj_"
#define UP LAYER "mlp.experts.gate_up_proj"
#define BLOCKS(type)                                                                                         \
    { DOWN "blocks", type, "[2, 2, 1, 16]", 64 }
#define SCALES(...)                                                                                          \
    { DOWN "scales", __VA_ARGS__ }
#define EXPERT(name, ...)                                                                                    \
    { LAYER "block_sparse_moe.experts." name, __VA_ARGS__ }
#define EXPERT_0 EXPERT("0.w1.weight", "F32", "[2, 4]", 32)
#define ATTENTION(letter, ...)                                                                               \
    { LAYER "self_attn." letter "_proj.weight", __VA_ARGS__ }
#define STATE LAYER "linear_attn."
#define A_LOG                                                                                                \
    { STATE "A_log", "F32", "[4]", 16 }
#define DELTA(values, keys, width)                                                                           \
    HEADS ", \"linear_num_value_heads\": " #values ", \"linear_num_key_heads\": " #keys                      \
          ", \"linear_key_head_dim\": " #width
#define NO_HEADS "rows of q and k are no whole heads"
#define UNCOUNTED "heads cannot be counted"
#define MISSHAPEN "does not have the shape that config.json asks for"

static void test_shapes(void) {
    static const struct {
        const char *type, *keys;
        Given given[2];
        const char *says;
    } cases[] = {
        /* gpt-oss: blocks [experts][rows][blocks of a row][16], scales [experts][rows][blocks of a row] */
        {"gpt_oss", HEADS, {BLOCKS("U8")}, MISSHAPEN},
        {"gpt_oss", HEADS, {BLOCKS("I8"), SCALES("U8", "[2, 2, 1]", 4)}, MISSHAPEN},
        {"gpt_oss", HEADS, {BLOCKS("U8"), SCALES("I8", "[2, 2, 1]", 4)}, MISSHAPEN},
        {"gpt_oss",
         HEADS,
         {{DOWN "blocks", "U8", "[2, 2, 1, 8]", 32}, SCALES("U8", "[2, 2, 1]", 4)},
         MISSHAPEN},
        {"gpt_oss", HEADS, {BLOCKS("U8"), SCALES("U8", "[2, 2, 2]", 8)}, MISSHAPEN},
        {"gpt_oss", HEADS, {BLOCKS("U8"), SCALES("U8", "[2, 1, 1]", 2)}, MISSHAPEN},
        {"gpt_oss", HEADS, {BLOCKS("U8"), SCALES("U8", "[3, 2, 1]", 6)}, MISSHAPEN},
        {"gpt_oss", HEADS, {BLOCKS("U8"), SCALES("U8", "[2, 2, 2, 1]", 8)}, MISSHAPEN},
        {"gpt_oss",
         HEADS,
         {{UP "_blocks", "U8", "[2, 3, 1, 16]", 96}, {UP "_scales", "U8", "[2, 3, 1]", 6}},
         MISSHAPEN},
        {"gpt_oss", HEADS, {{UP, "F16", "[2, 2]", 8}}, MISSHAPEN},
        {"gpt_oss", HEADS, {{UP, "F16", "[2, 2, 3]", 24}}, MISSHAPEN},
        {"gpt_oss", HEADS, {{UP "_bias", "F16", "[2, 2, 2]", 16}}, MISSHAPEN},
        /* experts in one tensor */
        {"granitemoe",
         HEADS ", \"num_local_experts\": 2",
         {{LAYER "block_sparse_moe.input_linear.weight", "F16", "[2, 3, 4]", 48}},
         "does not hold the weights of 2 experts"},
        {"granitemoe",
         HEADS ", \"num_local_experts\": 2",
         {{LAYER "block_sparse_moe.output_linear.weight", "F16", "[2, 2, 2, 2]", 32}},
         "does not hold the weights of 2 experts"},
        {"granitemoe",
         HEADS ", \"num_local_experts\": 65537",
         {{LAYER "block_sparse_moe.output_linear.weight", "F16", "[65537, 2, 1]", 262148}},
         "does not hold the weights of 65537 experts"},
        /* matrices that lie the other way round */
        {"gpt2", HEADS, {{"h.0.mlp.c_fc.weight", "F32", "[4]", 16}}, MISSHAPEN},
        {"gpt2", HEADS, {{"h.0.mlp.c_fc.weight", "F32", "[2, 1, 1, 2]", 16}}, MISSHAPEN},
        {"baichuan", HEADS ", \"z_loss_weight\": 0", {{"lm_head.weight", "F32", "[4]", 16}}, MISSHAPEN},
        {"stablelm",
         HEADS ", \"use_parallel_residual\": true, \"rope_pct\": 1",
         {{LAYER "post_attention_layernorm.weight", "F32", "[4]", 16}},
         "\"use_parallel_residual\" is true, but 'model.layers.0.post_attention_layernorm.weight' is there"},
        /* q, k and v in one */
        {"bloom",
         SIZES ", \"n_head\": 0",
         {{"h.0.self_attention.query_key_value.weight", "F32", "[3, 4]", 48}},
         MISSHAPEN},
        {"bloom",
         SIZES ", \"n_head\": 16777217",
         {{"h.0.self_attention.query_key_value.weight", "F32", "[3, 4]", 48}},
         MISSHAPEN},
        {"internlm2",
         SIZES ", \"num_attention_heads\": 3, \"num_key_value_heads\": 2, \"head_dim\": 4",
         {{LAYER "attention.wqkv.weight", "F32", "[8, 4]", 128}},
         MISSHAPEN},
        {"llama", HEADS, {{LAYER "self_attn.W_pack.weight", "F32", "[2, 6, 2]", 96}}, MISSHAPEN},
        {"codegen",
         "\"n_embd\": 6, \"n_layer\": 1, \"n_head\": 2, \"rotary_dim\": 2",
         {{"h.0.attn.qkv_proj.weight", "F32", "[18, 2]", 144}},
         MISSHAPEN},
        {"codegen",
         HEADS ", \"rotary_dim\": 2, \"num_key_value_heads\": 1",
         {{"h.0.attn.qkv_proj.weight", "F32", "[8, 4]", 128}},
         MISSHAPEN},
        {"gpt_oss",
         HEADS ", \"quantization_config\": {\"quant_method\": \"mxfp4\"}",
         {{DOWN "blocks", "U8", "[2, 2, 1, 16]", 64}},
         MISSHAPEN},
        {"llama",
         HEADS ", \"quantization_config\": {\"quant_method\": \"mxfp4\"}",
         {{LAYER "mlp.up_proj.weight", "F32", "[4]", 16}},
         "its weights are quantised (mxfp4)"},
        /* headers */
        {"llama", HEADS, {{LAYER "mlp.up_proj.weight", "F4", "[3]", 1}}, "bytes, which do not fit its shape"},
        {"llama",
         HEADS,
         {{LAYER "mlp.up_proj.weight", "F32", "4", 16}},
         "lacks its dtype, shape or data_offsets"},
        {"llama",
         HEADS,
         {{LAYER "mlp.up_proj.weight", "F32", "[2, -4]", 16}},
         "a shape that cannot be counted"},
        {"llama",
         HEADS,
         {{LAYER "mlp.experts.12345678.up_proj.weight", "F32", "[4]", 16}},
         "is not known in a model"},
        {"llama",
         HEADS,
         {{"model.layers.12345678.mlp.up_proj.weight", "F32", "[4]", 16}},
         "is not known in a model"},
        {"llama", HEADS, {{"w", "F32", "[4]", 16}}, "tensor 'w' is not known in a model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_config(cases[i].type, cases[i].keys);
        put_tensors(cases[i].given, 2);
        refuse(cases[i].says);
    }
    /* a name longer than any tensor's */
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    put_tensors(&(Given){name, "F32", "[4]", 16}, 1);
    refuse("is not known in a model");
}

/* Folders that quantize cannot lay out as GGUF has them. */
static void test_layouts(void) {
    static const struct {
        const char *type, *keys;
        Given given[2];
        const char *says; /* NULL: it can */
    } cases[] = {
        {"llama", HEADS, {ATTENTION("q", "F32", "[3, 4]", 48)}, NO_HEADS},
        {"llama", HEADS, {ATTENTION("k", "F32", "[2, 2, 2]", 32)}, NO_HEADS},
        {"llama",
         "\"hidden_size\": 6, \"num_hidden_layers\": 1, \"num_attention_heads\": 2",
         {ATTENTION("q", "F32", "[6, 2]", 48)},
         NO_HEADS},
        {"llama",
         SIZES ", \"num_attention_heads\": 0, \"head_dim\": 2",
         {ATTENTION("q", "F32", "[4, 4]", 64)},
         NULL},
        {"mixtral",
         HEADS,
         {EXPERT_0, EXPERT("2.w1.weight", "F32", "[2, 4]", 32)},
         "the experts of a layer are not all there, or not alike"},
        {"mixtral", HEADS, {EXPERT_0, EXPERT("1.w1.weight", "F16", "[2, 4]", 16)}, "not alike"},
        {"mixtral", HEADS, {EXPERT_0, EXPERT("1.w1.weight", "F32", "[4, 2]", 32)}, "not alike"},
        {"mixtral", HEADS, {EXPERT("0.w1.weight", "F32", "[2, 2, 2]", 32)}, "not alike"},
        {"mixtral", HEADS, {EXPERT_0, EXPERT("0.w1.bias", "F32", "[2]", 8)}, NULL},
        {"qwen3_5_text", DELTA(0, 2, 2), {A_LOG}, UNCOUNTED},
        {"qwen3_5_text", DELTA(4, 2, 0), {A_LOG}, UNCOUNTED},
        {"qwen3_5_text", DELTA(4, 0, 2), {A_LOG}, UNCOUNTED},
        {"qwen3_5_text", DELTA(4, 3, 2), {A_LOG}, UNCOUNTED},
        {"qwen3_5_text",
         DELTA(4, 2, 2),
         {A_LOG, {STATE "in_proj_qkv.weight", "F32", "[2, 2, 2]", 32}},
         UNCOUNTED},
        {"qwen3_5_text",
         DELTA(4, 2, 2),
         {A_LOG, {STATE "out_proj.weight", "F32", "[2, 3]", 24}},
         "delta nets have no whole heads"},
        {"qwen3_5_text",
         DELTA(4, 2, 2),
         {A_LOG, {STATE "in_proj_z.weight", "F32", "[3, 2]", 24}},
         "delta nets have no whole heads"},
        {"qwen3_5_text", DELTA(4, 2, 2), {A_LOG, {STATE "in_proj_a.weight", "F32", "[4, 2]", 32}}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_config(cases[i].type, cases[i].keys);
        put_tensors(cases[i].given, 2);
        Checkpoint *checkpoint = accept(scratch_folder);
        if (!checkpoint) continue;
        bool ok = checkpoint_lay_out(checkpoint, &error);
        CHECK(ok == !cases[i].says && (ok || strstr(error.message, cases[i].says)), "%s: %s: %s",
              cases[i].type, cases[i].given[0].name, ok ? "laid out" : error.message);
        checkpoint_close(checkpoint);
    }
}

/* Half of a head turns: of its eight rows those of the first four stand in pairs, and the others where they were. */
static void test_partial_rope(void) {
    static const unsigned char rows[] = {0, 2, 1, 3, 4, 5, 6, 7};
    put_config("llama",
               SIZES ", \"num_attention_heads\": 1, \"head_dim\": 8, \"partial_rotary_factor\": 0.5");
    put_tensors(&(Given){LAYER "self_attn.q_proj.weight", "F32", "[8, 1]", 32}, 1);
    Checkpoint *checkpoint = accept(scratch_folder);
    if (!checkpoint) return;
    CHECK(checkpoint_lay_out(checkpoint, &error), "%s", error.message);
    const unsigned char *weights = checkpoint_weights(checkpoint, 0, &error);
    for (size_t i = 0; i < 8; i++)
        CHECK(weights[4 * i] == 4 * rows[i], "row %zu is %d", i, weights[4 * i] / 4);
    checkpoint_close(checkpoint);
}

/* Numbers of a header that are refused, of both kinds. */
static void test_headers(void) {
    static const char *const cases[] = {
        "{\"w\": {\"dtype\": 7, \"shape\": [4], \"data_offsets\": [0, 16]}}",
        "{\"w\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": 16}}",
        "{\"w\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [-1, 16]}}",
    };
    put_config("llama", HEADS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_safetensors("model.safetensors", cases[i], 0, 16);
        refuse("lacks its dtype, shape or data_offsets");
    }
    put_safetensors("model.safetensors", "{}", 0, 0);
    refuse("this Hugging Face folder has no weights");
    /* in another order than they lie in, and one without weights at the place of another */
    put_safetensors(
        "model.safetensors",
        "{\"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [48, 64]}, "
        "\"model.embed_tokens.weight\": {\"dtype\": \"F32\", \"shape\": [3, 4], \"data_offsets\": [0, 48]}, "
        "\"vision_tower.a\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [48, 48]}, "
        "\"vision_tower.b\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [48, 48]}}",
        0, 64);
    Checkpoint *checkpoint = accept(scratch_folder);
    const Tensor *norm = checkpoint ? checkpoint_find(checkpoint, "output_norm.weight") : NULL;
    CHECK(norm && ((const unsigned char *)norm->data)[0] == 48, "the norm is another tensor");
    checkpoint_close(checkpoint);
}

#define EMBEDDING                                                                                            \
    &(Given) { "model.embed_tokens.weight", "F32", "[3, 4]", 48 }

/* The number that the folder has under a key, UINT64_MAX where it has none. `what` names the case. */
static void check_key(const char *key, uint64_t expected, const char *what) {
    uint64_t value = UINT64_MAX;
    Checkpoint *checkpoint = accept(scratch_folder);
    CHECK(checkpoint && checkpoint_u64(checkpoint, key, &value, &error) && value == expected,
          "%s: %s: %" PRIu64, what, key, value);
    checkpoint_close(checkpoint);
}

/* Other values of keys, and what becomes of them. */
static void test_keys(void) {
    static const struct {
        const char *type, *keys, *key;
        uint64_t value; /* UINT64_MAX: there is none */
    } cases[] = {
        {"qwen3_vl", HEADS ", \"vision_config\": {}", "qwen3vl.n_deepstack_layers", 0},
        {"qwen3_vl", HEADS ", \"vision_config\": {\"deepstack_visual_indexes\": 3}",
         "qwen3vl.n_deepstack_layers", 0},
        {"qwen3_5_text", HEADS ", \"full_attention_interval\": 0", "qwen35.full_attention_interval", 0},
        {"lfm2", HEADS ", \"full_attn_idxs\": 7", "lfm2.shortconv.l_cache", 3},
        {"mpt", "\"d_model\": 4, \"n_layers\": 1, \"n_heads\": 2, \"expansion_ratio\": 2",
         "mpt.feed_forward_length", 8},
        {"gpt2", "\"n_embd\": 2000000000, \"n_layer\": 1, \"n_head\": 2", "gpt2.feed_forward_length", 0},
        {"llama", HEADS ", \"tie_word_embeddings\": 7", "llama.embedding_length", 4},
        {"gemma2", HEADS ", \"query_pre_attn_scalar\": 256, \"head_dim\": 2", "gemma2.attention.key_length",
         2},
    };
    put_tensors(EMBEDDING, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_config(cases[i].type, cases[i].keys);
        check_key(cases[i].key, cases[i].value, cases[i].keys);
    }
}

/* A config.json of so many layers. */
static void put_layers(const char *type, unsigned n_layer, const char *keys) {
    char all[512];
    snprintf(
        all, sizeof all,
        "\"hidden_size\": 512, \"num_attention_heads\": 2, \"vocab_size\": 3, \"num_hidden_layers\": %u, %s",
        n_layer, keys);
    put_config(type, all);
}

/* More layers than any reader takes: nothing is listed for each of them. */
static void test_many_layers(void) {
    static const struct {
        const char *type, *keys, *key;
    } cases[] = {
        {"qwen3_5_text", "\"layer_types\": [\"full_attention\"]", "qwen35.attention.recurrent_layers"},
        {"lfm2", "\"full_attn_idxs\": [0]", "lfm2.attention.head_count_kv"},
        {"gemma2", "\"sliding_window\": 8, \"sliding_window_pattern\": 3",
         "gemma2.attention.sliding_window_pattern"},
        {"smollm3", "\"no_rope_layer_interval\": 2", "smollm3.rope.layer_pattern"},
    };
    put_tensors(EMBEDDING, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned n_layer = 2; n_layer < 70000; n_layer += 65535) {
            put_layers(cases[i].type, n_layer, cases[i].keys);
            Checkpoint *checkpoint = accept(scratch_folder);
            CHECK(checkpoint && checkpoint_has(checkpoint, cases[i].key) == (n_layer == 2),
                  "%s: %u layers: %s", cases[i].type, n_layer, cases[i].key);
            checkpoint_close(checkpoint);
        }
}

/* Where the architecture alone tells which layers have a window, nothing is listed. */
static void test_implied_windows(void) {
    static const struct {
        const char *type, *keys, *architecture;
        bool listed;
    } cases[] = {
        {"mistral", "\"sliding_window\": 8", "llama", false},
        {"gemma2", "\"sliding_window\": 8", "gemma2", false},
        {"gemma2", "\"sliding_window\": 8, \"sliding_window_pattern\": 3", "gemma2", true},
        {"qwen2", "\"sliding_window\": 8, \"use_sliding_window\": true, \"max_window_layers\": 0", "qwen2",
         false},
        {"qwen2", "\"sliding_window\": 8, \"use_sliding_window\": true, \"max_window_layers\": 2", "qwen2",
         true},
    };
    put_tensors(EMBEDDING, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char key[64];
        uint64_t window = 0;
        put_layers(cases[i].type, 4, cases[i].keys);
        Checkpoint *checkpoint = accept(scratch_folder);
        snprintf(key, sizeof key, "%s.attention.sliding_window", cases[i].architecture);
        CHECK(checkpoint && checkpoint_u64(checkpoint, key, &window, &error) && window == 8, "%zu: %s", i,
              key);
        strcat(key, "_pattern");
        CHECK(checkpoint && checkpoint_has(checkpoint, key) == cases[i].listed, "%zu: %s", i, key);
        checkpoint_close(checkpoint);
    }
}

/* Which layers have attention, by lists that tell of some or say nonsense. */
static void test_layer_lists(void) {
    static const struct {
        const char *type, *keys;
        unsigned char keeps[4];
    } cases[] = {
        {"qwen3_5_text", "\"full_attention_interval\": 0, \"full_attn_idxs\": [\"a\", 2]", {1, 1, 0, 1}},
        {"qwen3_5_text",
         "\"full_attention_interval\": 3, \"layer_types\": [\"full_attention\"]",
         {0, 1, 0, 1}},
        {"qwen3_5_text",
         "\"full_attention_interval\": 0, \"layer_types\": {}, \"full_attn_idxs\": [0]",
         {0, 1, 1, 1}},
        {"gpt_neo",
         "\"num_layers\": 4, \"window_size\": 2, \"attention_types\": [[[\"global\", \"local\", \"local\"], 9]]",
         {0, 1, 1, 0}},
    };
    put_tensors(EMBEDDING, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FlagArray keeps = {0};
        put_layers(cases[i].type, 4, cases[i].keys);
        Checkpoint *checkpoint = accept(scratch_folder);
        CHECK(checkpoint &&
                  checkpoint_flags(checkpoint,
                                   *cases[i].type == 'q' ? "qwen35.attention.recurrent_layers"
                                                         : "gpt_neo.attention.sliding_window_pattern",
                                   &keeps, &error) &&
                  keeps.n == 4,
              "%s: %s", cases[i].keys, error.message);
        for (size_t k = 0; k < keeps.n; k++)
            CHECK(keeps.data[k * keeps.stride] == cases[i].keeps[k], "%s: layer %zu", cases[i].keys, k);
        checkpoint_close(checkpoint);
    }
}

/* A file that is made of a folder scales RoPE as the folder says. */
static void test_dynamic_stays(void) {
    put_config("llama", HEADS ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}");
    put_tensors(EMBEDDING, 1);
    Checkpoint *checkpoint = accept(scratch_folder);
    bool is_dynamic = false;
    CHECK(checkpoint && checkpoint_lay_out(checkpoint, &error) &&
              checkpoint_bool(checkpoint, "llama.rope.scaling.dynamic", &is_dynamic, &error) && is_dynamic,
          "%s", error.message);
    checkpoint_close(checkpoint);
}

static void test_refused_keys(void) {
    static const struct {
        const char *type, *keys, *says;
    } cases[] = {
        {"mpt", "\"d_model\": 4, \"n_layers\": 1, \"n_heads\": 2, \"expansion_ratio\": 0",
         "\"expansion_ratio\" is 0"},
        {"mpt", "\"d_model\": 4, \"n_layers\": 1, \"n_heads\": 2, \"expansion_ratio\": 1025",
         "\"expansion_ratio\" is 1025"},
        {"llama", HEADS ", \"tie_word_embeddings\": false",
         "\"tie_word_embeddings\" is false, but the weights have no lm_head.weight"},
        {"gemma2", HEADS ", \"query_pre_attn_scalar\": 0", "\"query_pre_attn_scalar\" is 0"},
        {"llama", HEADS ", \"quantization_config\": {}", "its weights are quantised (by some method)"},
        {"llama", HEADS ", \"quantization_config\": {\"quant_method\": \"mxfp4\"}",
         "its weights are quantised (mxfp4)"},
        {"llama", HEADS ", \"head_dim\": 1048577", "RoPE over 1.04858e+06 dimensions of heads of 1048577"},
        {"gpt_neo", HEADS ", \"attention_types\": [[[\"global\"], 1.5]]",
         "\"attention_types\" tells of 0 layers of 1"},
        {"gpt_neo", HEADS ", \"attention_types\": {}", "\"attention_types\" tells of 0 layers of 1"},
        {"llama", HEADS ", \"hidden_act\": \"silu silu\"",
         "with the activation 'silu silu' is not supported"},
        {"llama", HEADS ", \"hidden_act\": {\"a\": 1}", "with the activation '{…}' is not supported"},
        {"llama", HEADS ", \"hidden_act\": \"a name of many more than forty characters, which is cut\"",
         "with the activation 'a name of many more than forty characte' is not"},
        {"gpt_oss", HEADS ", \"hidden_act\": \"\"", "\"hidden_act\":  is not supported"},
        {"gpt_oss", HEADS ", \"hidden_act\": \"silu or\"", "\"hidden_act\": silu or is not supported"},
    };
    put_tensors(EMBEDDING, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_config(cases[i].type, cases[i].keys);
        refuse(cases[i].says);
    }
    put_text("config.json", "{\"text_config\": {\"model_type\": \"bert\"}}");
    refuse("a model of type 'bert' is not supported");
}

/* Keys that nothing reads are told, if a line can hold them. */
static void test_unread(void) {
    char keys[4096], want[2048] = "";
    size_t n = (size_t)snprintf(keys, sizeof keys,
                                HEADS ", \"with a space\": 1, \"cut\\u0000short\": 1, "
                                      "\"a_name_of_more_bytes_than_anybody_reads_to_its_end\": 1");
    for (int i = 0; i < 60; i++) {
        n += (size_t)snprintf(keys + n, sizeof keys - n, ", \"nobody_reads_this_key_%02d\": 1", i);
        if (strlen(want) + 2 + 24 + 1 < 1000)
            snprintf(want + strlen(want), sizeof want - strlen(want), "%snobody_reads_this_key_%02d",
                     i ? ", " : "", i);
    }
    put_tensors(EMBEDDING, 1);
    char text[4300];
    snprintf(text, sizeof text, "{\"model_type\": \"llama\", %s}", keys);
    put_text("config.json", text);
    Checkpoint *checkpoint = accept(scratch_folder);
    String unread = {"", 0};
    CHECK(checkpoint && checkpoint_string(checkpoint, "attn.unread_keys", &unread, &error) &&
              string_equals(unread, want),
          "%.*s\nnot %s", (int)unread.n, unread.data, want);
    checkpoint_close(checkpoint);
}

/* Tokens with a role, by files that say it in odd ways. */
static void test_roles(void) {
    static const struct {
        const char *config, *tokenizer, *generation, *key;
        uint64_t value; /* UINT64_MAX: there is none */
    } cases[] = {
        {"\"eos_token_id\": [7, 8]", "{}", "{}", "tokenizer.ggml.eos_token_id", 7},
        {"\"eos_token_id\": []", "{}", "{\"eos_token_id\": 5}", "tokenizer.ggml.eos_token_id", 5},
        {"\"bos_token_id\": -1", "{}", "{}", "tokenizer.ggml.bos_token_id", UINT64_MAX},
        {"\"bos_token_id\": 2",
         "{\"bos_token\": \"<b>\", \"added_tokens_decoder\": [{\"content\": \"<b>\"}]}", "{}",
         "tokenizer.ggml.bos_token_id", 2},
        {"\"bos_token_id\": 2",
         "{\"bos_token\": \"<b>\", \"added_tokens_decoder\": {\"x\": {\"content\": \"<b>\"}, \"\": {\"content\": \"<b>\"}, "
         "\"1234567890\": {\"content\": \"<b>\"}}}",
         "{}", "tokenizer.ggml.bos_token_id", 2},
        {"\"bos_token_id\": 2",
         "{\"bos_token\": \"<b>\", \"added_tokens_decoder\": {\"3\": {\"content\": \"<c>\"}, \"4\": {\"content\": \"<b>\"}}}",
         "{}", "tokenizer.ggml.bos_token_id", 4},
        {"\"vocab_size\": 3", "{\"add_bos_token\": \"yes\"}", "{}", "tokenizer.ggml.add_bos_token",
         UINT64_MAX},
        {"\"vocab_size\": 3", "{}", "{\"do_sample\": 0, \"top_k\": 3}", "general.sampling.top_k", 3},
        {"\"vocab_size\": 3", "{\"chat_template\": []}", "{}", "tokenizer.chat_template", UINT64_MAX},
        {"\"vocab_size\": 3", "{\"chat_template\": {}}", "{}", "tokenizer.chat_template", UINT64_MAX},
    };
    put_tensors(EMBEDDING, 1);
    put_text("tokenizer.json", "{}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char keys[512];
        snprintf(keys, sizeof keys,
                 "\"hidden_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, %s",
                 cases[i].config);
        put_config("llama", keys);
        put_text("tokenizer_config.json", cases[i].tokenizer);
        put_text("generation_config.json", cases[i].generation);
        check_key(cases[i].key, cases[i].value, cases[i].config);
    }
    drop("tokenizer_config.json");
    drop("generation_config.json");
}

/* Of all that end a text no more are listed than there is room for, and no nonsense. */
static void test_ends(void) {
    char keys[1024];
    size_t n = (size_t)snprintf(keys, sizeof keys,
                                HEADS ", \"eos_token_id\": [100, \"a\", -1, 4294967296, 100, 101");
    for (int i = 0; i < 70; i++) n += (size_t)snprintf(keys + n, sizeof keys - n, ", %d", 200 + i);
    snprintf(keys + n, sizeof keys - n, "]");
    put_config("llama", keys);
    Checkpoint *checkpoint = accept(scratch_folder);
    NumberArray ends = {0};
    CHECK(checkpoint && checkpoint_i32s(checkpoint, "attn.eos_token_ids", &ends, &error) && ends.n == 64,
          "%zu", ends.n);
    for (size_t i = 0; i < ends.n; i++)
        CHECK(i32_at(&ends, i) == (i < 2 ? 100 + (int32_t)i : 198 + (int32_t)i), "%zu: %d", i,
              i32_at(&ends, i));
    checkpoint_close(checkpoint);
    put_config("llama", HEADS ", \"eos_token_id\": 4294967296");
    refuse("'tokenizer.ggml.eos_token_id' would be 4294967296, which is too large");
    for (int i = 0; i < 2; i++) { /* an end that is none */
        put_config("llama", i ? HEADS ", \"eos_token_id\": -1" : HEADS ", \"eos_token_id\": 3000000000");
        put_text("generation_config.json", "{\"eos_token_id\": [4, 5]}");
        checkpoint = accept(scratch_folder);
        CHECK(checkpoint && checkpoint_i32s(checkpoint, "attn.eos_token_ids", &ends, &error) && ends.n == 2 &&
                  i32_at(&ends, 0) == 4 && i32_at(&ends, 1) == 5,
              "%d: %zu", i, ends.n);
        checkpoint_close(checkpoint);
    }
    drop("generation_config.json");
    drop("tokenizer.json");
}

/* Files of a folder that are no texts, or too large for what they are; names that are too long. */
static void test_files(void) {
    char name[300], index[400];
    put_config("llama", HEADS);
    put_tensors(EMBEDDING, 1);
    CHECK(mkdir(scratch_file("tokenizer.json"), 0700) == 0, "mkdir");
    refuse("tokenizer.json: is no regular file");
    rmdir(scratch_file("tokenizer.json"));
    put_text("tokenizer.json", "version https://git-lfs.github.com/spec/v1\n");
    refuse("tokenizer.json: this is a Git-LFS pointer");
    drop("tokenizer.json");
    put_text("tokenizer_config.json", "version https://git-lfs.github.com/spec/v1\n");
    refuse("tokenizer_config.json: this is a Git-LFS pointer");
    drop("tokenizer_config.json");
    put_text("chat_template.jinja", "");
    CHECK(truncate(scratch_file("chat_template.jinja"), 1l << 30) == 0, "truncate");
    refuse("chat_template.jinja: is too large for what it is");
    drop("chat_template.jinja");
    drop("model.safetensors");
    memset(name, 'n', 256);
    name[256] = '\0';
    snprintf(index, sizeof index, "{\"weight_map\": {\"a\": \"%s\"}}", name);
    put_text("model.safetensors.index.json", index);
    refuse("is no name of a file in the folder");
    size_t room = 200000, n = 0;
    char *many = malloc(room);
    n += (size_t)snprintf(many, room, "{\"weight_map\": {");
    for (int i = 0; i <= 4096; i++)
        n += (size_t)snprintf(many + n, room - n, "%s\"t%d\": \"f%d.safetensors\"", i ? ", " : "", i, i);
    snprintf(many + n, room - n, "}}");
    put_text("model.safetensors.index.json", many);
    free(many);
    refuse("model.safetensors.index.json lists more than 4096 files");
    drop("model.safetensors.index.json");
    /* a folder's path to which no name of a file can be added any more */
    char deep[PATH_MAX + 16];
    n = (size_t)snprintf(deep, sizeof deep, "%s", scratch_folder);
    while (n < 4090) n += (size_t)snprintf(deep + n, 4091 - n, "/.");
    Checkpoint *checkpoint = checkpoint_open(deep, &error);
    CHECK(!checkpoint && strstr(error.message, "its path is too long"), "%s", error.message);
    checkpoint_close(checkpoint);
}

/* A vocabulary alone knows the embedding's rows by config.json, if that says a number that can be. */
static void test_rows(void) {
    static const struct {
        const char *size;
        uint64_t rows;
    } cases[] = {
        {"3", 3}, {"0", UINT64_MAX}, {"\"3\"", UINT64_MAX}, {"16777216", UINT64_MAX}, {"16777215", 16777215}};
    put_text("tokenizer.json", "{}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[64];
        uint64_t rows = UINT64_MAX;
        snprintf(config, sizeof config, "{\"model_type\": \"llama\", \"vocab_size\": %s}", cases[i].size);
        put_text("config.json", config);
        Checkpoint *checkpoint = checkpoint_open_vocabulary(scratch_folder, &error);
        CHECK(checkpoint && checkpoint_u64(checkpoint, "attn.embedding_rows", &rows, &error) &&
                  rows == cases[i].rows,
              "%s: %" PRIu64, cases[i].size, rows);
        checkpoint_close(checkpoint);
    }
    drop("tokenizer.json");
}

/* Numbers that GGUF has in another place, or as a float. */
static void test_floats(void) {
    static const struct {
        const char *type, *keys, *generation, *key;
        float value;
    } cases[] = {
        {"llama", HEADS, "{\"top_k\": 5000000000}", "general.sampling.top_k", 5e9F},
        /* YaRN that stretches nothing has no magnitude of its own. */
        {"llama",
         HEADS ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 1.0, \"attention_factor\": 0.5}",
         "{}", "llama.rope.scaling.attn_factor", 0.5F},
        /* Gemma 2 of 46 layers divides by the width of a head that its sizes say; there are none here. */
        {"gemma2",
         "\"hidden_size\": 4, \"num_hidden_layers\": 46, \"num_attention_heads\": 0, \"query_pre_attn_scalar\": 64",
         "{}", "gemma2.attention.scale", 0.125F},
    };
    put_tensors(EMBEDDING, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float value = 0;
        put_config(cases[i].type, cases[i].keys);
        put_text("generation_config.json", cases[i].generation);
        Checkpoint *checkpoint = accept(scratch_folder);
        CHECK(checkpoint && checkpoint_f32(checkpoint, cases[i].key, &value, &error) &&
                  value == cases[i].value,
              "%s: %g", cases[i].key, (double)value);
        checkpoint_close(checkpoint);
    }
    drop("generation_config.json");
}

/* Gemma's norms are stored without 1; who turns them tells of it, and may stop there. */
static bool count_calls(void *calls, const char *what, size_t done, size_t total) {
    (void)what, (void)done, (void)total;
    return ++*(int *)calls < 2;
}

static void test_turned(void) {
    const Given norms[] = {{"model.norm.weight", "BF16", "[600]", 1200},
                           {LAYER "input_layernorm.weight", "BF16", "[600]", 1200},
                           {LAYER "post_attention_layernorm.weight", "BF16", "[600]", 1200}};
    int calls = 0;
    put_config("gemma", HEADS);
    put_tensors(norms, 3);
    Checkpoint *checkpoint = accept(scratch_folder);
    const Tensor *norm = checkpoint ? checkpoint_find(checkpoint, "output_norm.weight") : NULL;
    for (uint32_t i = 0; norm && i < 600; i++) { /* its bytes count from 0 on */
        uint32_t bits = ((2 * i) & 0xff) << 16 | ((2 * i + 1) & 0xff) << 24;
        float stored;
        memcpy(&stored, &bits, 4);
        float is = ((const float *)norm->data)[i];
        CHECK(is == stored + 1 || (isnan(is) && isnan(stored)), "%u: %g", i, (double)is);
    }
    CHECK(norm, "no norm");
    checkpoint_close(checkpoint);
    checkpoint = checkpoint_open_with(scratch_folder, count_calls, &calls, &error);
    CHECK(!checkpoint && calls == 2 && strstr(error.message, "interrupted"), "%d calls: %s", calls,
          error.message);
    checkpoint_close(checkpoint);
}

/* Of named templates the default one counts, and no other; chat_template.json has the template where no other file does. */
static void test_templates(void) {
    static const char *const lists[][2] = {
        {"[{\"name\": \"default\", \"template\": \"A\"}, {\"name\": \"b\", \"template\": \"B\"}]", "A"},
        {"[{\"name\": \"a\", \"template\": \"A\"}, {\"name\": \"b\", \"template\": \"B\"}]", ""},
        {"\"C\"", "C"},
        {"\"D\"", "D"}};
    put_config("llama", HEADS);
    put_tensors(EMBEDDING, 1);
    put_text("tokenizer.json", "{}");
    for (size_t i = 0; i < 4; i++) {
        char text[256];
        String chosen = {"", 0};
        snprintf(text, sizeof text, "{\"chat_template\": %s}", lists[i][0]);
        put_text(i < 3 ? "tokenizer_config.json" : "chat_template.json", text);
        Checkpoint *checkpoint = accept(scratch_folder);
        CHECK(checkpoint && checkpoint_string(checkpoint, "tokenizer.chat_template", &chosen, &error) &&
                  string_equals(chosen, lists[i][1]),
              "%zu: '%.*s'", i, (int)chosen.n, chosen.data ? chosen.data : "");
        checkpoint_close(checkpoint);
        drop(i < 3 ? "tokenizer_config.json" : "chat_template.json");
    }
    drop("tokenizer.json");
}

/* A file of weights that is named is read alone, unless an index lists it, from whatever folder one stands in. */
static void test_named(void) {
    char before[512];
    put_config("llama", HEADS);
    put_tensors(EMBEDDING, 1);
    put_text("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"part\", \"b\": \"q\"}}");
    CHECK(getcwd(before, sizeof before) && chdir(scratch_folder) == 0, "chdir");
    Checkpoint *checkpoint = accept("model.safetensors");
    CHECK(checkpoint && checkpoint_n_tensors(checkpoint) == 1, "one tensor");
    checkpoint_close(checkpoint);
    CHECK(chdir(before) == 0, "%s", before);
    drop("model.safetensors");
    put_text("part", "long enough to be a header");
    put_text("q", "");
    refuse("part: no safetensors file, or cut");
    drop("part");
    drop("q");
    drop("model.safetensors.index.json");
    /* A folder without weights is refused by what it has in their place. */
    put_text("other.pt", "x");
    refuse("has weights, but not where they are looked for");
    put_text("tokenizer.json", "{}");
    refuse("has weights, but not where they are looked for");
    drop("tokenizer.json");
    drop("other.pt");
    drop("config.json");
    put_text("other.safetensors", "x");
    refuse("has weights, but no config.json");
    drop("other.safetensors");
}

/* Parts of a tensor, and of which shape they are then. */
static void test_parts(void) {
    static const struct {
        const char *type, *keys;
        Given given;
        const char *name;
        uint32_t n_dims;
        uint64_t dims[2];
        unsigned char first;
    } cases[] = {
        {"llama",
         HEADS,
         {LAYER "self_attn.W_pack.bias", "F32", "[12]", 48},
         "blk.0.attn_k.bias",
         1,
         {4, 1},
         16},
        {"qwen3_5_text",
         DELTA(4, 2, 2),
         {STATE "conv1d.weight", "F32", "[4, 1, 3]", 48},
         "blk.0.ssm_conv1d.weight",
         2,
         {3, 4},
         0},
        {"qwen3_5_text",
         DELTA(4, 2, 2),
         {STATE "conv1d.weight", "F32", "[1, 3]", 12},
         "blk.0.ssm_conv1d.weight",
         1,
         {3, 1},
         0},
        {"qwen3_5_text",
         DELTA(4, 2, 2),
         {STATE "conv1d.weight", "F32", "[4, 3]", 48},
         "blk.0.ssm_conv1d.weight",
         2,
         {3, 4},
         0},
        {"qwen3_5_text",
         DELTA(4, 2, 2),
         {STATE "conv1d.weight", "F32", "[4, 2, 3]", 96},
         "blk.0.ssm_conv1d.weight",
         3,
         {3, 2},
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_config(cases[i].type, cases[i].keys);
        put_tensors(&cases[i].given, 1);
        Checkpoint *checkpoint = accept(scratch_folder);
        const Tensor *tensor = checkpoint ? checkpoint_find(checkpoint, cases[i].name) : NULL;
        CHECK(tensor && tensor->n_dims == cases[i].n_dims &&
                  memcmp(tensor->dims, cases[i].dims, sizeof cases[i].dims) == 0 &&
                  *(const unsigned char *)tensor->data == cases[i].first,
              "%s %s", cases[i].given.name, cases[i].given.shape);
        checkpoint_close(checkpoint);
    }
}

/* A token that a role names, among those of vocab.json and those added; one whose id is none, and one that is nowhere. */
static void test_named_tokens(void) {
    static const struct {
        const char *name;
        uint64_t id;
    } cases[] = {{"a", 0}, {"<x>", 2}, {"<none>", UINT64_MAX}, {"odd", UINT64_MAX}};
    put_config("gpt2", "\"n_embd\": 4, \"n_layer\": 1, \"n_head\": 2");
    put_tensors(&(Given){"wpe.weight", "F32", "[1, 4]", 16}, 1);
    put_text("merges.txt", "#version: 0.2\n");
    put_text("added_tokens.json", "{\"<x>\": 2}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        uint64_t id = UINT64_MAX;
        put_text("vocab.json", i == 3 ? "{\"a\": 0, \"b\": 1, \"odd\": -1}" : "{\"a\": 0, \"b\": 1}");
        snprintf(text, sizeof text, "{\"bos_token\": \"%s\"}", cases[i].name);
        put_text("tokenizer_config.json", text);
        Checkpoint *checkpoint = checkpoint_open(scratch_folder, &error);
        CHECK(checkpoint && checkpoint_u64(checkpoint, "tokenizer.ggml.bos_token_id", &id, &error) &&
                  id == cases[i].id,
              "%s: %" PRIu64 " %s", cases[i].name, id, error.message);
        checkpoint_close(checkpoint);
    }
    static const char *const names[] = {"merges.txt", "added_tokens.json", "vocab.json",
                                        "tokenizer_config.json"};
    for (size_t i = 0; i < 4; i++) drop(names[i]);
}

/* A row of the embedding is a token, unless there are more than any vocabulary has: then those of tokenizer.model are all. */
static void test_rows_of_weights(void) {
    static const uint32_t rows[] = {40, 310, 1 << 24};
    static char model[1 << 16];
    FILE *from = fopen("tests/data/tokenizer/folders/plain/tokenizer.model", "rb");
    size_t n = from ? fread(model, 1, sizeof model, from) : 0, n_tokens = 0;
    if (from) fclose(from);
    scratch_put("tokenizer.model", model, n);
    put_config("llama", HEADS);
    for (size_t i = 0; i < 3; i++) {
        char header[256];
        n = (size_t)snprintf(
            header, sizeof header,
            "{\"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16]}, "
            "\"model.embed_tokens.weight\": {\"dtype\": \"BF16\", \"shape\": [%u, 1], \"data_offsets\": [16, %u]}}",
            rows[i], 2 * rows[i] + 16);
        put_safetensors("model.safetensors", header, 0, 0);
        CHECK(truncate(scratch_file("model.safetensors"), (off_t)(8 + n + 2 * rows[i] + 16)) == 0,
              "truncate");
        Checkpoint *checkpoint = accept(scratch_folder);
        StringArray tokens = {0};
        CHECK(checkpoint && checkpoint_strings(checkpoint, "tokenizer.ggml.tokens", &tokens, &error), "%s",
              error.message);
        if (i == 0) n_tokens = tokens.n;
        CHECK(tokens.n == n_tokens + (i == 1 ? 10 : 0), "%zu tokens, %u rows", tokens.n, rows[i]);
        checkpoint_close(checkpoint);
    }
    drop("tokenizer.model");
}

int main(void) {
    scratch_begin();
    RUN(test_shapes);
    RUN(test_layouts);
    RUN(test_partial_rope);
    RUN(test_headers);
    RUN(test_keys);
    RUN(test_many_layers);
    RUN(test_implied_windows);
    RUN(test_layer_lists);
    RUN(test_dynamic_stays);
    RUN(test_refused_keys);
    RUN(test_unread);
    RUN(test_roles);
    RUN(test_ends);
    RUN(test_files);
    RUN(test_rows);
    RUN(test_floats);
    RUN(test_turned);
    RUN(test_templates);
    RUN(test_named);
    RUN(test_parts);
    RUN(test_named_tokens);
    RUN(test_rows_of_weights);
    drop("config.json");
    drop("model.safetensors");
    scratch_end();
    return test_end();
}
