#include "shapes.h"

#include "cli/program.h"

#include <errno.h>
#include <string.h>

enum { ALIGNMENT = 32, MAX_TENSORS = 256 };

const ModelShape model_shapes[N_MODEL_SHAPES] = {
    {"gpt2-124m", "gpt2", .n_layer = 12, .n_head = 12, .n_head_kv = 12, .d_model = 768, .d_ff = 3072,
     .n_vocab = 50257, .n_ctx = 1024},
    {"tinyllama-1.1b", "llama", .n_layer = 22, .n_head = 32, .n_head_kv = 4, .d_model = 2048, .d_ff = 5632,
     .n_vocab = 32000, .n_ctx = 2048},
};

/* [rows][cols], or a vector [cols] in F32 when rows is 0. */
typedef struct TensorShape {
    char name[40];
    uint64_t rows, cols;
} TensorShape;

typedef struct TensorList {
    TensorShape items[MAX_TENSORS];
    size_t n;
} TensorList;

static void add(TensorList *list, const char *prefix, const char *name, uint64_t rows, uint64_t cols) {
    TensorShape *tensor = &list->items[list->n++];
    tensor->rows = rows, tensor->cols = cols;
    snprintf(tensor->name, sizeof tensor->name, "%s%s", prefix, name);
}

static void add_gpt2_layer(TensorList *list, const ModelShape *shape, const char *prefix) {
    uint32_t d = shape->d_model, d_ff = shape->d_ff;
    add(list, prefix, "attn_norm.weight", 0, d);
    add(list, prefix, "attn_norm.bias", 0, d);
    add(list, prefix, "attn_qkv.weight", 3 * d, d);
    add(list, prefix, "attn_qkv.bias", 0, 3 * d);
    add(list, prefix, "attn_output.weight", d, d);
    add(list, prefix, "attn_output.bias", 0, d);
    add(list, prefix, "ffn_norm.weight", 0, d);
    add(list, prefix, "ffn_norm.bias", 0, d);
    add(list, prefix, "ffn_up.weight", d_ff, d);
    add(list, prefix, "ffn_up.bias", 0, d_ff);
    add(list, prefix, "ffn_down.weight", d, d_ff);
    add(list, prefix, "ffn_down.bias", 0, d);
}

static void add_llama_layer(TensorList *list, const ModelShape *shape, const char *prefix) {
    uint32_t d = shape->d_model, d_ff = shape->d_ff, d_kv = d / shape->n_head * shape->n_head_kv;
    add(list, prefix, "attn_norm.weight", 0, d);
    add(list, prefix, "attn_q.weight", d, d);
    add(list, prefix, "attn_k.weight", d_kv, d);
    add(list, prefix, "attn_v.weight", d_kv, d);
    add(list, prefix, "attn_output.weight", d, d);
    add(list, prefix, "ffn_norm.weight", 0, d);
    add(list, prefix, "ffn_gate.weight", d_ff, d);
    add(list, prefix, "ffn_up.weight", d_ff, d);
    add(list, prefix, "ffn_down.weight", d, d_ff);
}

static TensorList list_tensors(const ModelShape *shape) {
    TensorList list = {.n = 0};
    bool gpt2 = strcmp(shape->family, "gpt2") == 0;
    add(&list, "", "token_embd.weight", shape->n_vocab, shape->d_model);
    if (gpt2) add(&list, "", "position_embd.weight", shape->n_ctx, shape->d_model);
    for (uint32_t layer = 0; layer < shape->n_layer; layer++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "blk.%u.", layer);
        (gpt2 ? add_gpt2_layer : add_llama_layer)(&list, shape, prefix);
    }
    add(&list, "", "output_norm.weight", 0, shape->d_model);
    if (gpt2) add(&list, "", "output_norm.bias", 0, shape->d_model);
    if (!gpt2) add(&list, "", "output.weight", shape->n_vocab, shape->d_model);
    return list;
}

static uint64_t tensor_bytes(const TensorShape *tensor, DType dtype) {
    return tensor->rows ? tensor->rows * dtype_bytes(dtype, tensor->cols) : tensor->cols * sizeof(float);
}

static uint64_t aligned(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

uint64_t shape_bytes(const ModelShape *shape, DType dtype) {
    TensorList list = list_tensors(shape);
    uint64_t bytes = 0;
    for (size_t i = 0; i < list.n; i++) bytes += aligned(tensor_bytes(&list.items[i], dtype));
    return bytes;
}

static void put(FILE *file, const void *value, size_t n) { fwrite(value, 1, n, file); }

static void put_string(FILE *file, const char *text) {
    uint64_t n = strlen(text);
    put(file, &n, sizeof n);
    put(file, text, n);
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
    put(file, zeros, aligned(at) - at);
}

static void put_header(FILE *file, const ModelShape *shape, const TensorList *list, DType dtype) {
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
        put(file, &(uint32_t){tensor->rows ? (uint32_t)dtype : DTYPE_F32}, 4);
        put(file, &offset, 8);
        offset += aligned(tensor_bytes(tensor, dtype));
    }
    pad(file);
}

/* Random bits that are small numbers in every dtype: exponents and scales are set, the rest is noise. */
static void random_weights(unsigned char *bytes, size_t n, DType dtype, uint64_t *state) {
    size_t block = dtype_info(dtype)->block_bytes;
    for (size_t i = 0; i < n; i += block) {
        for (size_t j = 0; j < block; j++)
            bytes[i + j] =
                (unsigned char)((*state = *state * 6364136223846793005u + 1442695040888963407u) >> 56);
        float value = ((float)bytes[i] - 127.5f) * 2e-4f;
        float scale = dtype == DTYPE_Q8_0 ? 2e-4f : 2e-3f;
        uint16_t half = f32_to_f16(dtype == DTYPE_F16 ? value : scale);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint16_t upper = (uint16_t)(bits >> 16);
        if (dtype == DTYPE_F32)
            memcpy(bytes + i, &bits, sizeof bits);
        else
            memcpy(bytes + i, dtype == DTYPE_BF16 ? &upper : &half, sizeof half);
    }
}

bool shape_write(const ModelShape *shape, DType dtype, FILE *file, Error *error) {
    enum { BUFFER = 1 << 16 };
    TensorList list = list_tensors(shape);
    uint64_t state = 1;
    put_header(file, shape, &list, dtype);
    for (size_t i = 0; i < list.n; i++) {
        DType own = list.items[i].rows ? dtype : DTYPE_F32;
        size_t block = dtype_info(own)->block_bytes, buffer = BUFFER / block * block;
        unsigned char bytes[BUFFER];
        for (uint64_t left = tensor_bytes(&list.items[i], dtype), n; left > 0; left -= n) {
            n = left < buffer ? left : buffer;
            random_weights(bytes, n, own, &state);
            put(file, bytes, n);
            if (interrupted()) return error_set(error, "interrupted");
        }
        pad(file);
    }
    if (fflush(file) == 0 && !ferror(file)) return true;
    return error_set(error, "the checkpoint of %s: cannot write: %s", shape->name, strerror(errno));
}
