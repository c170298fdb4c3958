/*
 * GGUF files that a test builds for itself, from the format's description (docs/gguf.md of ggml-org/ggml):
 * right ones, or as wrong as the test wants them. A Gguf is a plain value: a copy is a file to edit.
 * And the scratch folder that they go to.
 */
#ifndef ATTN_TESTS_GGUF_H
#define ATTN_TESTS_GGUF_H

#include "test.h"

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 }; /* types of metadata values */

/* Types of tensors. */
enum {
    T_F32 = 0,
    T_F16 = 1,
    T_Q4_0 = 2,
    T_Q4_1 = 3,
    T_Q5_0 = 6,
    T_Q5_1 = 7,
    T_Q8_0 = 8,
    T_Q2_K = 10,
    T_Q3_K = 11,
    T_Q4_K = 12,
    T_Q5_K = 13,
    T_Q6_K = 14,
    T_IQ4_NL = 20,
    T_IQ4_XS = 23,
    T_BF16 = 30,
    T_MXFP4 = 39,
};

/* Weights and bytes of a block of each. */
static const struct GgufType {
    uint32_t type;
    size_t block, bytes;
} gguf_types[] = {
    {T_F32, 1, 4},      {T_F16, 1, 2},      {T_BF16, 1, 2},     {T_Q4_0, 32, 18},
    {T_Q4_1, 32, 20},   {T_Q5_0, 32, 22},   {T_Q5_1, 32, 24},   {T_Q8_0, 32, 34},
    {T_IQ4_NL, 32, 18}, {T_MXFP4, 32, 17},  {T_Q2_K, 256, 84},  {T_Q3_K, 256, 110},
    {T_Q4_K, 256, 144}, {T_Q5_K, 256, 176}, {T_Q6_K, 256, 210}, {T_IQ4_XS, 256, 136},
};

enum { N_GGUF_TYPES = sizeof gguf_types / sizeof *gguf_types };

typedef struct GgufKey {
    const char *name; /* borrowed */
    uint32_t type;
    unsigned char value[2048]; /* [n] as it lies in the file */
    size_t n;
} GgufKey;

typedef struct GgufTensor {
    const char *name; /* borrowed */
    uint32_t type, n_dims;
    uint64_t dims[5];
    size_t n_bytes;        /* of data; stays when dims or type are edited */
    uint64_t offset_error; /* added to the right offset */
    uint64_t offset;       /* that gguf_write gave it */
    size_t data_at;        /* where gguf_write put the data in the file */
} GgufTensor;

typedef struct Gguf {
    uint32_t version;
    size_t alignment;   /* that gguf_write keeps to */
    bool data_reversed; /* the last tensor's data comes first */
    GgufKey keys[40];
    size_t n_keys;
    GgufTensor tensors[40];
    size_t n_tensors;
} Gguf;

static inline Gguf gguf_begin(uint32_t version) { return (Gguf){.version = version, .alignment = 32}; }

static inline GgufKey *gguf_find(Gguf *gguf, const char *name) {
    for (size_t i = 0; i < gguf->n_keys; i++)
        if (strcmp(gguf->keys[i].name, name) == 0) return &gguf->keys[i];
    return NULL;
}

static inline GgufTensor *gguf_find_tensor(Gguf *gguf, const char *name) {
    for (size_t i = 0; i < gguf->n_tensors; i++)
        if (strcmp(gguf->tensors[i].name, name) == 0) return &gguf->tensors[i];
    return NULL;
}

/* Appends bytes to a key's value. */
static inline void gguf_put(GgufKey *key, const void *bytes, size_t n) {
    if (n > sizeof key->value - key->n) abort();
    if (n) memcpy(key->value + key->n, bytes, n);
    key->n += n;
}

static inline void gguf_put_string(GgufKey *key, const char *text) {
    uint64_t n = strlen(text);
    gguf_put(key, &n, sizeof n);
    gguf_put(key, text, (size_t)n);
}

/* The key of that name with this value, new or in the place of its old one. */
static inline GgufKey *gguf_key(Gguf *gguf, const char *name, uint32_t type, const void *value, size_t n) {
    GgufKey *key = gguf_find(gguf, name);
    if (!key) key = &gguf->keys[gguf->n_keys++];
    key->name = name, key->type = type, key->n = 0;
    gguf_put(key, value, n);
    return key;
}

static inline void gguf_u32(Gguf *gguf, const char *name, uint32_t value) {
    gguf_key(gguf, name, U32, &value, sizeof value);
}

static inline void gguf_f32(Gguf *gguf, const char *name, float value) {
    gguf_key(gguf, name, F32, &value, sizeof value);
}

static inline void gguf_string(Gguf *gguf, const char *name, const char *text) {
    gguf_put_string(gguf_key(gguf, name, STRING, NULL, 0), text);
}

/* n elements, whose bytes are given here or put afterwards. */
static inline GgufKey *gguf_array(Gguf *gguf, const char *name, uint32_t element, uint64_t n,
                                  const void *bytes, size_t n_bytes) {
    GgufKey *key = gguf_key(gguf, name, ARRAY, &element, sizeof element);
    gguf_put(key, &n, sizeof n);
    gguf_put(key, bytes, n_bytes);
    return key;
}

static inline void gguf_strings(Gguf *gguf, const char *name, const char *const *texts, size_t n) {
    GgufKey *key = gguf_array(gguf, name, STRING, n, NULL, 0);
    for (size_t i = 0; i < n; i++) gguf_put_string(key, texts[i]);
}

static inline void gguf_drop(Gguf *gguf, GgufKey *key) {
    memmove(key, key + 1, (size_t)(&gguf->keys[gguf->n_keys--] - (key + 1)) * sizeof *key);
}

static inline void gguf_drop_tensor(Gguf *gguf, GgufTensor *tensor) {
    memmove(tensor, tensor + 1, (size_t)(&gguf->tensors[gguf->n_tensors--] - (tensor + 1)) * sizeof *tensor);
}

/* Bytes of n weights of a type; 2 each if there is no such type. */
static inline size_t gguf_bytes(uint32_t type, size_t n) {
    for (size_t i = 0; i < N_GGUF_TYPES; i++)
        if (gguf_types[i].type == type) return n / gguf_types[i].block * gguf_types[i].bytes;
    return 2 * n;
}

/* A tensor [rows][cols], or [cols] when rows is 0. */
static inline GgufTensor *gguf_tensor(Gguf *gguf, const char *name, uint32_t type, uint64_t rows,
                                      uint64_t cols) {
    GgufTensor *tensor = &gguf->tensors[gguf->n_tensors++];
    *tensor = (GgufTensor){
        .name = name, .type = type, .n_dims = rows ? 2 : 1, .dims = {cols, rows ? rows : 1, 1, 1, 1}};
    tensor->n_bytes = gguf_bytes(type, (size_t)(cols * (rows ? rows : 1)));
    return tensor;
}

static inline size_t gguf_round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

/* Each puts something at `at` and returns where it ends. */
static inline unsigned char *gguf_bytes_at(unsigned char *at, const void *bytes, size_t n) {
    memcpy(at, bytes, n);
    return at + n;
}

static inline unsigned char *gguf_u32_at(unsigned char *at, uint32_t value) {
    return gguf_bytes_at(at, &value, sizeof value);
}

static inline unsigned char *gguf_u64_at(unsigned char *at, uint64_t value) {
    return gguf_bytes_at(at, &value, sizeof value);
}

static inline unsigned char *gguf_string_at(unsigned char *at, const char *text) {
    return gguf_bytes_at(gguf_u64_at(at, strlen(text)), text, strlen(text));
}

/* Tensor i's data: small numbers of either sign if they are floats, else bytes. They differ by tensor. */
static inline void gguf_fill(const GgufTensor *tensor, size_t i, unsigned char *data) {
    for (size_t k = 0; k < tensor->n_bytes; k++) data[k] = (unsigned char)((7 * k + 13 * i + 1) & 63);
    for (size_t k = 0; tensor->type == T_F32 && k < tensor->n_bytes / 4; k++) {
        float value = (float)((int)((5 * k + 3 * i) % 17) - 8) / 16;
        memcpy(data + 4 * k, &value, sizeof value);
    }
}

/* Writes the file's bytes and returns how many there are, padding behind the last tensor included. */
static inline size_t gguf_write(Gguf *gguf, unsigned char *file) {
    size_t n_data = 0;
    for (size_t k = 0; k < gguf->n_tensors; k++) {
        GgufTensor *tensor = &gguf->tensors[gguf->data_reversed ? gguf->n_tensors - 1 - k : k];
        tensor->offset = n_data;
        n_data = gguf_round_up(n_data + tensor->n_bytes, gguf->alignment);
    }
    unsigned char *at = gguf_u32_at(gguf_bytes_at(file, "GGUF", 4), gguf->version);
    at = gguf_u64_at(gguf_u64_at(at, gguf->n_tensors), gguf->n_keys);
    for (const GgufKey *key = gguf->keys; key < gguf->keys + gguf->n_keys; key++)
        at = gguf_bytes_at(gguf_u32_at(gguf_string_at(at, key->name), key->type), key->value, key->n);
    for (const GgufTensor *tensor = gguf->tensors; tensor < gguf->tensors + gguf->n_tensors; tensor++) {
        at = gguf_u32_at(gguf_string_at(at, tensor->name), tensor->n_dims);
        for (size_t k = 0; k < tensor->n_dims && k < 5; k++) at = gguf_u64_at(at, tensor->dims[k]);
        at = gguf_u64_at(gguf_u32_at(at, tensor->type), tensor->offset + tensor->offset_error);
    }
    size_t n = (size_t)(at - file), begin = gguf_round_up(n, gguf->alignment);
    if (gguf->n_tensors == 0) return n;
    memset(at, 0, begin - n + n_data);
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        gguf->tensors[i].data_at = begin + (size_t)gguf->tensors[i].offset;
        gguf_fill(&gguf->tensors[i], i, file + gguf->tensors[i].data_at);
    }
    return begin + n_data;
}

/* A folder of this process alone, and files in it. scratch_end empties and removes it. */
static char scratch_folder[256];

static inline void scratch_begin(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(scratch_folder, sizeof scratch_folder, "%.200s/attn-test.XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(scratch_folder)) {
        perror(scratch_folder);
        exit(1);
    }
}

/* The path of a file there; the last eight are good. */
static inline const char *scratch_file(const char *name) {
    static char paths[8][sizeof scratch_folder + 300];
    static size_t next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", scratch_folder, name);
    return path;
}

static inline void scratch_put(const char *name, const void *bytes, size_t n) {
    const char *path = scratch_file(name);
    FILE *file = fopen(path, "wb");
    if (file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0) return;
    perror(path);
    exit(1);
}

/* The path of the one file that most tests need. */
static inline const char *scratch_path(void) {
    static char path[sizeof scratch_folder + 8];
    snprintf(path, sizeof path, "%s/file", scratch_folder);
    return path;
}

static inline void scratch_write(const unsigned char *bytes, size_t n) { scratch_put("file", bytes, n); }

static inline void scratch_end(void) {
    unlink(scratch_path());
    rmdir(scratch_folder);
}

#endif
