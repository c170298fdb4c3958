/*
 * For tests of wrong input: good files, the smallest there can be, of both families and of llama2.c, and the form of a
 * refusal, one line that names the file and holds the telling words.
 */
#ifndef ATTN_TESTS_BAD_H
#define ATTN_TESTS_BAD_H

#include "gguf.h"
#include "model.h"

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#define ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define ADDRESS_SANITIZER 0
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The file under construction. */
static unsigned char file[1 << 18];
static size_t n_file;

typedef enum Which { LLAMA, GPT2 } Which;

static const char *const families[] = {"llama", "gpt2"};

/* ---- Good files ---- */

enum { N_CTX = 8, N_VOCAB = 8, D_MODEL = 4, N_HEAD = 2, D_HEAD = 2, D_KV = 2, D_FF = 6 };

static const struct ModelKey {
    const char *name[2]; /* by Which; NULL: not a key of that family */
    uint32_t type;       /* U32 or F32 */
    float value;
    bool required;
} model_keys[] = {
    {{"llama.context_length", "gpt2.context_length"}, U32, N_CTX, true},
    {{"llama.embedding_length", "gpt2.embedding_length"}, U32, D_MODEL, true},
    {{"llama.block_count", "gpt2.block_count"}, U32, 1, true},
    {{"llama.attention.head_count", "gpt2.attention.head_count"}, U32, N_HEAD, true},
    {{"llama.feed_forward_length", "gpt2.feed_forward_length"}, U32, D_FF, false},
    {{"llama.attention.head_count_kv", NULL}, U32, 1, false},
    {{"llama.attention.key_length", NULL}, U32, D_HEAD, false},
    {{"llama.attention.value_length", NULL}, U32, D_HEAD, false},
    {{"llama.rope.dimension_count", NULL}, U32, D_HEAD, false},
    {{"llama.attention.layer_norm_rms_epsilon", "gpt2.attention.layer_norm_epsilon"}, F32, 1e-5f, true},
    {{"llama.rope.freq_base", NULL}, F32, 10000, false},
    {{"llama.rope.scaling.factor", NULL}, F32, 2, false},
};

static const struct ModelTensor {
    const char *name;
    uint64_t rows, cols; /* rows 0: a vector */
    bool in[2];
} model_tensors[] = {
    {"token_embd.weight", N_VOCAB, D_MODEL, {true, true}},
    {"position_embd.weight", N_CTX, D_MODEL, {false, true}},
    {"blk.0.attn_norm.weight", 0, D_MODEL, {true, true}},
    {"blk.0.attn_norm.bias", 0, D_MODEL, {false, true}},
    {"blk.0.attn_qkv.weight", 3 * D_MODEL, D_MODEL, {false, true}},
    {"blk.0.attn_qkv.bias", 0, 3 * D_MODEL, {false, true}},
    {"blk.0.attn_q.weight", D_MODEL, D_MODEL, {true, false}},
    {"blk.0.attn_k.weight", D_KV, D_MODEL, {true, false}},
    {"blk.0.attn_v.weight", D_KV, D_MODEL, {true, false}},
    {"blk.0.attn_output.weight", D_MODEL, D_MODEL, {true, true}},
    {"blk.0.attn_output.bias", 0, D_MODEL, {false, true}},
    {"blk.0.ffn_norm.weight", 0, D_MODEL, {true, true}},
    {"blk.0.ffn_norm.bias", 0, D_MODEL, {false, true}},
    {"blk.0.ffn_gate.weight", D_FF, D_MODEL, {true, false}},
    {"blk.0.ffn_up.weight", D_FF, D_MODEL, {true, true}},
    {"blk.0.ffn_up.bias", 0, D_FF, {false, true}},
    {"blk.0.ffn_down.weight", D_MODEL, D_FF, {true, true}},
    {"blk.0.ffn_down.bias", 0, D_MODEL, {false, true}},
    {"output_norm.weight", 0, D_MODEL, {true, true}},
    {"output_norm.bias", 0, D_MODEL, {false, true}},
};

static inline void add_vocabulary(Gguf *gguf, Which which) {
    static const char *const texts[][N_VOCAB] = {
        {"<unk>", "<s>", "</s>", "<0x0A>", "\xe2\x96\x81", "a", "b", "ab"},
        {"a", "b", "ab", "\xc4\xa0", "\xc4\x8a", "c", "bc", "<|endoftext|>"},
    };
    static const int32_t types[][N_VOCAB] = {{2, 3, 3, 6, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 3}};
    static const float scores[N_VOCAB] = {0, 0, 0, 0, -1, -2, -3, -4};
    gguf_string(gguf, "tokenizer.ggml.model", families[which]);
    gguf_strings(gguf, "tokenizer.ggml.tokens", texts[which], N_VOCAB);
    gguf_array(gguf, "tokenizer.ggml.token_type", I32, N_VOCAB, types[which], sizeof types[which]);
    gguf_u32(gguf, "tokenizer.ggml.bos_token_id", which == GPT2 ? 7 : 1);
    gguf_key(gguf, "tokenizer.ggml.add_bos_token", BOOL, "\1", 1);
    if (which == GPT2)
        gguf_strings(gguf, "tokenizer.ggml.merges", (const char *const[]){"a b", "b c"}, 2);
    else
        gguf_array(gguf, "tokenizer.ggml.scores", F32, N_VOCAB, scores, sizeof scores);
}

static inline Gguf good_model(Which which) {
    Gguf gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", families[which]);
    gguf_u32(&gguf, "general.alignment", 32);
    for (size_t i = 0; i < COUNT(model_keys); i++) {
        const struct ModelKey *key = &model_keys[i];
        if (key->name[which] && key->type == U32) gguf_u32(&gguf, key->name[which], (uint32_t)key->value);
        if (key->name[which] && key->type == F32) gguf_f32(&gguf, key->name[which], key->value);
    }
    if (which == LLAMA) gguf_string(&gguf, "llama.rope.scaling.type", "linear");
    add_vocabulary(&gguf, which);
    for (size_t i = 0; i < COUNT(model_tensors); i++)
        if (model_tensors[i].in[which])
            gguf_tensor(&gguf, model_tensors[i].name, T_F32, model_tensors[i].rows, model_tensors[i].cols);
    return gguf;
}

/* A small LLaMA under another family's name. */
static inline Gguf model_as(const char *architecture) {
    static char names[40][64];
    Gguf gguf = good_model(LLAMA);
    gguf_string(&gguf, "general.architecture", architecture);
    for (size_t i = 0; i < gguf.n_keys; i++) {
        if (strncmp(gguf.keys[i].name, "llama.", 6) != 0) continue;
        snprintf(names[i], sizeof names[i], "%s%s", architecture, gguf.keys[i].name + 5);
        gguf.keys[i].name = names[i];
    }
    snprintf(names[gguf.n_keys], sizeof *names, "%.32s.attention.layer_norm_epsilon", architecture);
    gguf_f32(&gguf, names[gguf.n_keys], 1e-5f);
    return gguf;
}

/* llama2.c's model: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len, then the floats. */
static inline void write_llama2c_model_of(int n_vocab) {
    const int32_t header[] = {D_MODEL, D_FF, 1, N_HEAD, 1, n_vocab, N_CTX};
    size_t n_floats = (size_t)n_vocab * D_MODEL + 2 * D_MODEL + 2 * D_MODEL * D_MODEL + 2 * D_KV * D_MODEL +
                      3 * D_MODEL * D_FF + D_MODEL + N_CTX * D_HEAD;
    memcpy(file, header, sizeof header);
    n_file = sizeof header;
    for (size_t i = 0; i < n_floats; i++, n_file += 4) memcpy(file + n_file, &(float){(float)(i % 9) / 8}, 4);
}

static inline void write_llama2c_model(void) { write_llama2c_model_of(N_VOCAB); }

/* The first n tokens of its tokenizer.bin: a score, a length and the text of each. */
static inline void write_llama2c_vocabulary(size_t n) {
    memcpy(file, &(uint32_t){6}, 4);
    n_file = 4;
    for (size_t id = 0; id < n; id++) {
        char text[8];
        snprintf(text, sizeof text, id < 3 ? "<unk>" : "<0x%02X>", (unsigned)(id - 3) & 255);
        int32_t length = (int32_t)strlen(text);
        memset(file + n_file, 0, 4);
        memcpy(file + n_file + 4, &length, 4);
        memcpy(file + n_file + 8, text, (size_t)length);
        n_file += 8 + (size_t)length;
    }
}

/* ---- Refusals ---- */

/* `what` tells in our own messages which case it was. */
static inline void check_message(const Error *error, const char *path, const char *tells, const char *what) {
    const char *message = error->message;
    size_t n = strlen(message);
    CHECK(strncmp(message, path, strlen(path)) == 0, "%s: '%s' does not name the file", what, message);
    CHECK(strstr(message, tells) != NULL, "%s: '%s' does not say '%s'", what, message, tells);
    CHECK(n > 0 && n < sizeof error->message - 1, "%s: '%s' is cut", what, message);
    for (size_t i = 0; i < n; i++)
        CHECK((unsigned char)message[i] >= 0x20 && message[i] != 0x7f, "%s: character %zu of '%s'", what, i,
              message);
}

static inline void refuse_path(const char *path, const char *tells, const char *what) {
    Error error = {{0}};
    Model *model = model_open(path, &error);
    CHECK(model == NULL, "%s: accepted", what);
    if (model == NULL) check_message(&error, path, tells, what);
    model_close(model);
}

static inline void refuse_file(const char *tells, const char *what) {
    scratch_write(file, n_file);
    refuse_path(scratch_path(), tells, what);
}

static inline void refuse(Gguf *gguf, const char *tells, const char *what) {
    n_file = gguf_write(gguf, file);
    refuse_file(tells, what);
}

/* A good model but for this value under a key. */
static inline void refuse_value(Which which, const char *key, uint32_t type, const void *value, size_t n,
                                const char *tells) {
    Gguf gguf = good_model(which);
    gguf_key(&gguf, key, type, value, n);
    refuse(&gguf, tells, key);
}

/* Opens the file, which is good enough for that; NULL, with a CHECK failed, if it is not. */
static inline Model *accept_file(void) {
    Error error = {{0}};
    scratch_write(file, n_file);
    Model *model = model_open(scratch_path(), &error);
    CHECK(model != NULL, "%s", error.message);
    return model;
}

static inline Model *accept(Gguf *gguf) {
    n_file = gguf_write(gguf, file);
    return accept_file();
}

/* Gives a tensor other dimensions; rows 0: a vector. */
static inline void resize(Gguf *gguf, const char *name, uint64_t rows, uint64_t cols) {
    GgufTensor *tensor = gguf_find_tensor(gguf, name);
    tensor->dims[0] = cols, tensor->dims[1] = rows;
    tensor->n_bytes = (size_t)(4 * (rows ? rows : 1) * cols);
}

/* xorshift64*, Vigna 2016, arXiv:1402.6246 */
static inline size_t any_below(size_t n) {
    static uint64_t state = 42;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (size_t)((state * 0x2545f4914f6cdd1d >> 11) % n);
}

#endif
