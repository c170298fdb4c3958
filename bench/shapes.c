#include "shapes.h"

#include "cli/process.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 32, MAX_TENSORS = 256 };

const ModelShape model_shapes[N_MODEL_SHAPES] = {
    {"gpt2-124m", "gpt2", .n_layer = 12, .n_head = 12, .n_head_kv = 12, .d_model = 768, .d_ff = 3072,
     .n_vocab = 50257, .n_ctx = 1024},
    {"tinyllama-1.1b", "llama", .n_layer = 22, .n_head = 32, .n_head_kv = 4, .d_model = 2048, .d_ff = 5632,
     .n_vocab = 32000, .n_ctx = 2048},
};

#define SAME(dtype) dtype, dtype, dtype, dtype, dtype, dtype

/* This is not true to the layer: some presets give the first one or two a larger type still. */
static const Mix presets[] = {
    /* name, most, output, v, down, out, qkv, some */
    {"F32", SAME(DTYPE_F32)},
    {"F16", SAME(DTYPE_F16)},
    {"BF16", SAME(DTYPE_BF16)},
    {"Q8_0", SAME(DTYPE_Q8_0)},
    {"Q6_K", SAME(DTYPE_Q6_K)},
    {"Q5_K_M", DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_Q6_K, DTYPE_Q6_K, DTYPE_Q5_K, DTYPE_Q6_K, true},
    {"Q5_K_S", DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_Q5_K, DTYPE_Q5_K, DTYPE_Q5_K, DTYPE_Q5_K},
    {"Q4_K_M", DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q6_K, DTYPE_Q6_K, DTYPE_Q4_K, DTYPE_Q5_K, true},
    {"Q4_K_S", DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q4_K, DTYPE_Q4_K, DTYPE_Q4_K, DTYPE_Q4_K},
    {"Q3_K_L", DTYPE_Q3_K, DTYPE_Q6_K, DTYPE_Q5_K, DTYPE_Q5_K, DTYPE_Q5_K, DTYPE_Q4_K},
    {"Q3_K_M", DTYPE_Q3_K, DTYPE_Q6_K, DTYPE_Q4_K, DTYPE_Q4_K, DTYPE_Q4_K, DTYPE_Q4_K},
    {"Q3_K_S", DTYPE_Q3_K, DTYPE_Q6_K, DTYPE_Q3_K, DTYPE_Q3_K, DTYPE_Q3_K, DTYPE_Q3_K},
    {"Q2_K", DTYPE_Q2_K, DTYPE_Q6_K, DTYPE_Q4_K, DTYPE_Q3_K, DTYPE_Q3_K, DTYPE_Q2_K},
    {"IQ4_XS", DTYPE_IQ4_XS, DTYPE_Q6_K, DTYPE_Q5_K, DTYPE_IQ4_XS, DTYPE_IQ4_XS, DTYPE_IQ4_XS},
    {"IQ4_NL", DTYPE_IQ4_NL, DTYPE_Q6_K, DTYPE_Q5_K, DTYPE_IQ4_NL, DTYPE_IQ4_NL, DTYPE_IQ4_NL},
    {"Q5_1", DTYPE_Q5_1, DTYPE_Q6_K, DTYPE_Q5_1, DTYPE_Q5_1, DTYPE_Q5_1, DTYPE_Q5_1},
    {"Q5_0", DTYPE_Q5_0, DTYPE_Q6_K, DTYPE_Q5_0, DTYPE_Q5_0, DTYPE_Q5_0, DTYPE_Q5_0},
    {"Q4_1", DTYPE_Q4_1, DTYPE_Q6_K, DTYPE_Q4_1, DTYPE_Q4_1, DTYPE_Q4_1, DTYPE_Q4_1},
    {"Q4_0", DTYPE_Q4_0, DTYPE_Q6_K, DTYPE_Q4_0, DTYPE_Q4_0, DTYPE_Q4_0, DTYPE_Q4_0},
};

bool mix_find(Mix *mix, const char *name) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(name, presets[i].name) == 0) return *mix = presets[i], true;
    const char *type = strncmp(name, "all-", 4) == 0 ? name + 4 : name;
    for (uint32_t i = 0; i < DTYPE_LIMIT; i++)
        if (dtype_info(i) && strcmp(type, dtype_info(i)->name) == 0)
            return *mix = (Mix){name, SAME((DType)i)}, true;
    return false;
}

/* [rows][cols], or a vector [cols] in F32 when rows is 0. */
typedef struct TensorShape {
    char name[40];
    DType dtype;
    uint64_t rows, cols;
} TensorShape;

typedef struct TensorList {
    TensorShape items[MAX_TENSORS];
    size_t n;
} TensorList;

static void add(TensorList *list, const char *prefix, const char *name, DType dtype, uint64_t rows,
                uint64_t cols) {
    TensorShape *tensor = &list->items[list->n++];
    tensor->dtype = dtype, tensor->rows = rows, tensor->cols = cols;
    snprintf(tensor->name, sizeof tensor->name, "%s%s", prefix, name);
}

static void add_vector(TensorList *list, const char *prefix, const char *name, uint64_t cols) {
    add(list, prefix, name, DTYPE_F32, 0, cols);
}

static void add_gpt2_layer(TensorList *list, const ModelShape *shape, const Mix *mix, const char *prefix) {
    uint32_t d = shape->d_model, d_ff = shape->d_ff;
    add_vector(list, prefix, "attn_norm.weight", d);
    add_vector(list, prefix, "attn_norm.bias", d);
    add(list, prefix, "attn_qkv.weight", mix->qkv, 3 * d, d);
    add_vector(list, prefix, "attn_qkv.bias", 3 * d);
    add(list, prefix, "attn_output.weight", mix->out, d, d);
    add_vector(list, prefix, "attn_output.bias", d);
    add_vector(list, prefix, "ffn_norm.weight", d);
    add_vector(list, prefix, "ffn_norm.bias", d);
    add(list, prefix, "ffn_up.weight", mix->most, d_ff, d);
    add_vector(list, prefix, "ffn_up.bias", d_ff);
    add(list, prefix, "ffn_down.weight", mix->down, d, d_ff);
    add_vector(list, prefix, "ffn_down.bias", d);
}

static void add_llama_layer(TensorList *list, const ModelShape *shape, const Mix *mix, const char *prefix) {
    uint32_t d = shape->d_model, d_ff = shape->d_ff, d_kv = d / shape->n_head * shape->n_head_kv;
    add_vector(list, prefix, "attn_norm.weight", d);
    add(list, prefix, "attn_q.weight", mix->most, d, d);
    add(list, prefix, "attn_k.weight", mix->most, d_kv, d);
    add(list, prefix, "attn_v.weight", mix->v, d_kv, d);
    add(list, prefix, "attn_output.weight", mix->out, d, d);
    add_vector(list, prefix, "ffn_norm.weight", d);
    add(list, prefix, "ffn_gate.weight", mix->most, d_ff, d);
    add(list, prefix, "ffn_up.weight", mix->most, d_ff, d);
    add(list, prefix, "ffn_down.weight", mix->down, d, d_ff);
}

/* The layers that llama-quantize gives more bits: the first and the last eighth, and each third between them. */
static bool gets_more(uint32_t layer, uint32_t n_layer) {
    return layer < n_layer / 8 || layer >= 7 * n_layer / 8 || (layer - n_layer / 8) % 3 == 2;
}

static TensorList list_tensors(const ModelShape *shape, const Mix *mix) {
    TensorList list = {.n = 0};
    bool gpt2 = strcmp(shape->family, "gpt2") == 0;
    add(&list, "", "token_embd.weight", gpt2 ? mix->output : mix->most, shape->n_vocab, shape->d_model);
    if (gpt2) add(&list, "", "position_embd.weight", DTYPE_F32, shape->n_ctx, shape->d_model);
    for (uint32_t layer = 0; layer < shape->n_layer; layer++) {
        Mix own = *mix;
        char prefix[16];
        snprintf(prefix, sizeof prefix, "blk.%u.", layer);
        if (mix->some && !gets_more(layer, shape->n_layer)) own.v = own.down = mix->most;
        (gpt2 ? add_gpt2_layer : add_llama_layer)(&list, shape, &own, prefix);
    }
    add_vector(&list, "", "output_norm.weight", shape->d_model);
    if (gpt2) add_vector(&list, "", "output_norm.bias", shape->d_model);
    if (!gpt2) add(&list, "", "output.weight", mix->output, shape->n_vocab, shape->d_model);
    return list;
}

static uint64_t tensor_bytes(const TensorShape *tensor) {
    return (tensor->rows ? tensor->rows : 1) * dtype_bytes(tensor->dtype, (size_t)tensor->cols);
}

static uint64_t aligned(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

uint64_t shape_bytes(const ModelShape *shape, const Mix *mix) {
    TensorList list = list_tensors(shape, mix);
    uint64_t bytes = 0;
    for (size_t i = 0; i < list.n; i++) bytes += aligned(tensor_bytes(&list.items[i]));
    return bytes;
}

static void put(FILE *file, const void *value, size_t n) { fwrite(value, 1, n, file); }

static void put_string(FILE *file, const char *text) {
    uint64_t n = strlen(text);
    put(file, &n, sizeof n);
    put(file, text, (size_t)n);
}

/* A key of the family and its value of 4 bytes; type 4: uint32, 6: float32. */
static void put_key(FILE *file, const ModelShape *shape, const char *key, uint32_t type, const void *value) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", shape->family, key);
    put_string(file, name);
    put(file, &type, 4);
    put(file, value, 4);
}

static void pad(FILE *file) {
    static const char zeros[ALIGNMENT];
    uint64_t at = (uint64_t)ftello(file);
    put(file, zeros, (size_t)(aligned(at) - at));
}

static void put_header(FILE *file, const ModelShape *shape, const TensorList *list) {
    const float epsilon = 1e-5f;
    put(file, "GGUF\3\0\0\0", 8);
    put(file, &(uint64_t){list->n}, 8);
    put(file, &(uint64_t){9}, 8); /* keys */
    put_string(file, "general.architecture");
    put(file, &(uint32_t){8}, 4); /* string */
    put_string(file, shape->family);
    put_key(file, shape, "block_count", 4, &shape->n_layer);
    put_key(file, shape, "context_length", 4, &shape->n_ctx);
    put_key(file, shape, "embedding_length", 4, &shape->d_model);
    put_key(file, shape, "feed_forward_length", 4, &shape->d_ff);
    put_key(file, shape, "attention.head_count", 4, &shape->n_head);
    put_key(file, shape, "attention.head_count_kv", 4, &shape->n_head_kv);
    put_key(file, shape, "attention.layer_norm_epsilon", 6, &epsilon);
    put_key(file, shape, "attention.layer_norm_rms_epsilon", 6, &epsilon);
    uint64_t offset = 0;
    for (size_t i = 0; i < list->n; i++) {
        const TensorShape *tensor = &list->items[i];
        put_string(file, tensor->name);
        put(file, &(uint32_t){tensor->rows ? 2 : 1}, 4);
        put(file, &tensor->cols, 8);
        if (tensor->rows) put(file, &tensor->rows, 8);
        put(file, &(uint32_t){(uint32_t)tensor->dtype}, 4);
        put(file, &offset, 8);
        offset += aligned(tensor_bytes(tensor));
    }
    pad(file);
}

/* Where a block has its scale in F16, and where what it takes off, and values that make weights of about ±0.03. */
typedef struct Scales {
    size_t at, min_at;
    float scale, min; /* min 0: the type has none */
} Scales;

static const Scales scales[DTYPE_LIMIT] = {
    [DTYPE_Q8_0] = {0, 0, 2e-4f, 0},       [DTYPE_Q6_K] = {208, 0, 1e-5f, 0},
    [DTYPE_Q5_K] = {0, 2, 2e-5f, 3e-4f},   [DTYPE_Q4_K] = {0, 2, 4e-5f, 3e-4f},
    [DTYPE_Q3_K] = {108, 0, 2e-4f, 0},     [DTYPE_Q2_K] = {80, 82, 1e-3f, 1.5e-3f},
    [DTYPE_Q5_1] = {0, 2, 2e-3f, -0.031f}, [DTYPE_Q5_0] = {0, 0, 2e-3f, 0},
    [DTYPE_Q4_1] = {0, 2, 4e-3f, -0.03f},  [DTYPE_Q4_0] = {0, 0, 4e-3f, 0},
    [DTYPE_IQ4_NL] = {0, 0, 2e-4f, 0},     [DTYPE_IQ4_XS] = {0, 0, 8e-6f, 0},
};

/* Turns a block of random bits into one of small numbers. */
static void make_small(unsigned char *block, DType dtype) {
    float value = ((float)block[0] - 127.5f) * 2e-4f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == DTYPE_F32)
        memcpy(block, &bits, sizeof bits);
    else if (dtype == DTYPE_F16)
        memcpy(block, &(uint16_t){f32_to_f16(value)}, 2);
    else if (dtype == DTYPE_BF16)
        memcpy(block, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
    else if (dtype == DTYPE_MXFP4)
        block[0] = 127 - 8; /* E8M0: 2⁻⁸ times up to 6 */
    else
        memcpy(block + scales[dtype].at, &(uint16_t){f32_to_f16(scales[dtype].scale)}, 2);
    if (scales[dtype].min != 0)
        memcpy(block + scales[dtype].min_at, &(uint16_t){f32_to_f16(scales[dtype].min)}, 2);
}

static void random_weights(unsigned char *bytes, size_t n, DType dtype, uint64_t *state) {
    size_t block = dtype_info(dtype)->block_bytes;
    for (size_t i = 0; i < n; i += block) {
        for (size_t j = 0; j < block; j++)
            bytes[i + j] =
                (unsigned char)((*state = *state * 6364136223846793005u + 1442695040888963407u) >> 56);
        make_small(bytes + i, dtype);
    }
}

bool shape_write(const ModelShape *shape, const Mix *mix, FILE *file, Error *error) {
    enum { BUFFER = 1 << 16 };
    TensorList list = list_tensors(shape, mix);
    uint64_t state = 1;
    put_header(file, shape, &list);
    for (size_t i = 0; i < list.n; i++) {
        DType dtype = list.items[i].dtype;
        size_t block = dtype_info(dtype)->block_bytes, buffer = BUFFER / block * block;
        unsigned char bytes[BUFFER];
        for (uint64_t left = tensor_bytes(&list.items[i]), n; left > 0; left -= n) {
            n = left < buffer ? left : buffer;
            random_weights(bytes, (size_t)n, dtype, &state);
            put(file, bytes, (size_t)n);
            if (interrupted()) return error_set(error, "interrupted");
        }
        pad(file);
    }
    if (fflush(file) == 0 && !ferror(file)) return true;
    return error_set(error, "the checkpoint of %s: cannot write: %s", shape->name, strerror(errno));
}

Model *shape_open(const char *asked, Error *error) {
    if (access(asked, R_OK) == 0) return model_open(asked, error);
    const char *colon = strchr(asked, ':'), *type = colon ? colon + 1 : asked;
    const ModelShape *shape = colon ? NULL : &model_shapes[1];
    for (size_t i = 0; colon && i < N_MODEL_SHAPES; i++) {
        size_t n = strlen(model_shapes[i].name);
        if ((size_t)(colon - asked) == n && strncmp(asked, model_shapes[i].name, n) == 0)
            shape = &model_shapes[i];
    }
    Mix mix;
    char path[32];
    FILE *file = shape && mix_find(&mix, type) ? tmpfile() : NULL;
    if (!file) {
        error_set(error, "%s: neither a checkpoint nor a type, or no room", asked);
        return NULL;
    }
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(file));
    return shape_write(shape, &mix, file, error) ? model_open(path, error) : NULL;
}
