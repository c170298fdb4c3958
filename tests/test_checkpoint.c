/*
 * Correct files, read back value by value: GGUF files that the test builds, llama2.c's two kinds of file, and
 * three of the reference checkpoints. test_bad_input and test_bad_model have the wrong files.
 */
#include "checkpoint/checkpoint.h"
#include "gguf.h"
#include "open.h"
#include "test.h"

#include <sys/stat.h>

static unsigned char file[1 << 16];

/* Opens what was written to the scratch file; CHECKs that it can be. */
static Checkpoint *open_bytes(const unsigned char *bytes, size_t n) {
    Error error = {{0}};
    scratch_write(bytes, n);
    Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
    CHECK(checkpoint != NULL, "%s", error.message);
    return checkpoint;
}

static Checkpoint *open_gguf(Gguf *gguf) { return open_bytes(file, gguf_write(gguf, file)); }

static bool same(String string, const char *text, size_t n) {
    return string.n == n && memcmp(string.data, text, n) == 0;
}

static bool is(String string, const char *text) { return same(string, text, strlen(text)); }

/* The getters, as bits: which of them can read a key's value. */
enum {
    GET_U64 = 1,
    GET_F32 = 2,
    GET_BOOL = 4,
    GET_STRING = 8,
    GET_STRINGS = 16,
    GET_F32S = 32,
    GET_I32S = 64,
    N_GETTERS = 7
};

/* Asks all getters at once. */
typedef struct Values {
    uint64_t u64;
    float f32;
    bool boolean;
    String string;
    StringArray strings;
    NumberArray f32s, i32s;
} Values;

static bool get(const Checkpoint *checkpoint, unsigned getter, const char *key, Values *values,
                Error *error) {
    switch (getter) {
    case GET_U64: return checkpoint_u64(checkpoint, key, &values->u64, error);
    case GET_F32: return checkpoint_f32(checkpoint, key, &values->f32, error);
    case GET_BOOL: return checkpoint_bool(checkpoint, key, &values->boolean, error);
    case GET_STRING: return checkpoint_string(checkpoint, key, &values->string, error);
    case GET_STRINGS: return checkpoint_strings(checkpoint, key, &values->strings, error);
    case GET_F32S: return checkpoint_f32s(checkpoint, key, &values->f32s, error);
    default: return checkpoint_i32s(checkpoint, key, &values->i32s, error);
    }
}

/* A number of each width and sign, at its extremes. */
static const struct {
    const char *key;
    uint32_t type;
    uint64_t bits; /* the value, little-endian: its lowest bytes are written */
    size_t n;
    unsigned getter;   /* that can read it; 0: none */
    const char *named; /* as errors call the type */
} numbers[] = {
    {"u8", U8, 255, 1, GET_U64, "uint8"},
    {"i8", I8, 127, 1, GET_U64, "int8"},
    {"i8.negative", I8, 0x80, 1, 0, "int8"},
    {"u16", U16, 65535, 2, GET_U64, "uint16"},
    {"i16", I16, 32767, 2, GET_U64, "int16"},
    {"i16.negative", I16, 0xffff, 2, 0, "int16"},
    {"u32", U32, UINT32_MAX, 4, GET_U64, "uint32"},
    {"i32", I32, INT32_MAX, 4, GET_U64, "int32"},
    {"i32.negative", I32, UINT32_MAX, 4, 0, "int32"},
    {"u64", U64, UINT64_MAX, 8, GET_U64, "uint64"},
    {"i64", I64, INT64_MAX, 8, GET_U64, "int64"},
    {"i64.negative", I64, 1ull << 63, 8, 0, "int64"},
    {"f32", F32, 0xbfa00000, 4, GET_F32, "float32"},         /* −1.25 */
    {"f64", F64, 0x400921fb54442d18, 8, GET_F32, "float64"}, /* π */
    {"false", BOOL, 0, 1, GET_BOOL, "bool"},
    {"true", BOOL, 1, 1, GET_BOOL, "bool"},
    {"two", BOOL, 2, 1, 0, "bool"},
};

/* Arrays and strings. */
static const struct {
    const char *key;
    unsigned getter;
    const char *named;
} others[] = {
    {"string", GET_STRING, "string"},
    {"string.empty", GET_STRING, "string"},
    {"array.strings", GET_STRINGS, "array of string"},
    {"array.strings.none", GET_STRINGS, "array of string"},
    {"array.f32", GET_F32S, "array of float32"},
    {"array.i32", GET_I32S, "array of int32"},
    {"array.u32", GET_I32S, "array of uint32"},
    {"array.i32.none", GET_I32S, "array of int32"},
    {"array.u8", 0, "array of uint8"},
    {"array.bool", 0, "array of bool"},
    {"array.i64", 0, "array of int64"},
    {"array.f64", 0, "array of float64"},
    {"array.arrays", 0, "array of array"},
};

static Gguf metadata_of_every_type(uint32_t version) {
    Gguf gguf = gguf_begin(version);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        gguf_key(&gguf, numbers[i].key, numbers[i].type, &numbers[i].bits, numbers[i].n);
    static const struct {
        uint64_t n;
        char text[7];
    } string = {7, {'a', '\0', 'b', '\n', '\xff', '"', '%'}};
    gguf_key(&gguf, "string", STRING, &string, 15);
    gguf_string(&gguf, "string.empty", "");
    gguf_strings(&gguf, "array.strings", (const char *const[]){"one", "", "three"}, 3);
    gguf_strings(&gguf, "array.strings.none", NULL, 0);
    gguf_array(&gguf, "array.f32", F32, 3, (const float[]){0.5f, -2, 1e30f}, 12);
    gguf_array(&gguf, "array.i32", I32, 2, (const int32_t[]){INT32_MIN, 7}, 8);
    gguf_array(&gguf, "array.u32", U32, 2, (const uint32_t[]){5, 6}, 8);
    gguf_array(&gguf, "array.i32.none", I32, 0, NULL, 0);
    gguf_array(&gguf, "array.u8", U8, 3, "xyz", 3);
    gguf_array(&gguf, "array.bool", BOOL, 2, "\0\1", 2);
    gguf_array(&gguf, "array.i64", I64, 1, (const int64_t[]){-1}, 8);
    gguf_array(&gguf, "array.f64", F64, 1, (const double[]){1}, 8);
    /* [[1, 2], ["x"], []]: what follows is found only if each is skipped correctly */
    GgufKey *nested = gguf_array(&gguf, "array.arrays", ARRAY, 3, (const uint32_t[]){U16}, 4);
    gguf_put(nested, (const uint64_t[]){2}, 8);
    gguf_put(nested, (const uint16_t[]){1, 2}, 4);
    gguf_put(nested, (const uint32_t[]){STRING}, 4);
    gguf_put(nested, (const uint64_t[]){1}, 8);
    gguf_put_string(nested, "x");
    gguf_put(nested, (const uint32_t[]){ARRAY}, 4);
    gguf_put(nested, (const uint64_t[]){0}, 8);
    gguf_string(&gguf, "last", "still here");
    return gguf;
}

/* Any getter but the `right` ones fails, leaves its output alone, and says which key has which type. */
static void check_getters(const Checkpoint *checkpoint, const char *key, unsigned right, const char *named) {
    for (unsigned i = 0; i < N_GETTERS; i++) {
        Error error = {{0}};
        Values values = {.u64 = 77, .f32 = 77};
        bool ok = get(checkpoint, 1u << i, key, &values, &error);
        CHECK(ok == (right == 1u << i), "%s, getter %u", key, i);
        if (!ok) {
            char quoted[64];
            snprintf(quoted, sizeof quoted, "'%s' is of type %s,", key, named);
            CHECK(strstr(error.message, quoted) && strstr(error.message, scratch_path()), "%s",
                  error.message);
            CHECK(values.u64 == 77 && values.f32 == 77 && !values.boolean && !values.string.data, "%s", key);
            CHECK(!values.strings.next && !values.f32s.data && !values.i32s.data, "%s", key);
        }
        values = (Values){.u64 = 77, .f32 = 77};
    }
}

static void test_types(void) {
    for (uint32_t version = 2; version <= 3; version++) {
        Gguf gguf = metadata_of_every_type(version);
        Checkpoint *checkpoint = open_gguf(&gguf);
        if (!checkpoint) return;
        CHECK(strcmp(checkpoint_format(checkpoint), version == 2 ? "GGUF v2" : "GGUF v3") == 0, "%s",
              checkpoint_format(checkpoint));
        CHECK(strcmp(checkpoint_path(checkpoint), scratch_path()) == 0, "%s", checkpoint_path(checkpoint));
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            CHECK(checkpoint_has(checkpoint, numbers[i].key), "%s", numbers[i].key);
            check_getters(checkpoint, numbers[i].key, numbers[i].getter, numbers[i].named);
            uint64_t value = 0;
            if (numbers[i].getter != GET_U64) continue;
            CHECK(checkpoint_u64(checkpoint, numbers[i].key, &value, NULL) && value == numbers[i].bits,
                  "%s: %llu", numbers[i].key, (unsigned long long)value);
        }
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            check_getters(checkpoint, others[i].key, others[i].getter, others[i].named);
        checkpoint_close(checkpoint);
    }
}

static void test_values(void) {
    Gguf gguf = metadata_of_every_type(3);
    Checkpoint *checkpoint = open_gguf(&gguf);
    Values values = {.u64 = 77};
    if (!checkpoint) return;
    CHECK(get(checkpoint, GET_F32, "f32", &values, NULL) && values.f32 == -1.25f, "%g", (double)values.f32);
    CHECK(get(checkpoint, GET_F32, "f64", &values, NULL) && values.f32 == 3.14159274f, "%.9g",
          (double)values.f32);
    CHECK(get(checkpoint, GET_BOOL, "true", &values, NULL) && values.boolean, "true");
    CHECK(get(checkpoint, GET_BOOL, "false", &values, NULL) && !values.boolean, "false");
    CHECK(get(checkpoint, GET_STRING, "string", &values, NULL) && same(values.string, "a\0b\n\xff\"%", 7),
          "%zu bytes", values.string.n);
    CHECK(get(checkpoint, GET_STRING, "string.empty", &values, NULL) && values.string.n == 0, "%zu bytes",
          values.string.n);
    CHECK(get(checkpoint, GET_STRING, "last", &values, NULL) && is(values.string, "still here"),
          "what follows the nested arrays");

    CHECK(get(checkpoint, GET_STRINGS, "array.strings", &values, NULL) && values.strings.n == 3 &&
              is(string_array_take(&values.strings), "one") && is(string_array_take(&values.strings), "") &&
              is(string_array_take(&values.strings), "three") && values.strings.n == 0,
          "strings");
    values = (Values){.u64 = 77, .f32 = 77};
    CHECK(get(checkpoint, GET_F32S, "array.f32", &values, NULL) && values.f32s.n == 3 &&
              f32_at(&values.f32s, 0) == 0.5f && f32_at(&values.f32s, 1) == -2 &&
              f32_at(&values.f32s, 2) == 1e30f,
          "floats");
    values = (Values){.u64 = 77, .f32 = 77};
    CHECK(get(checkpoint, GET_I32S, "array.i32", &values, NULL) && values.i32s.n == 2 &&
              i32_at(&values.i32s, 0) == INT32_MIN && i32_at(&values.i32s, 1) == 7,
          "signed integers");
    values = (Values){.u64 = 77, .f32 = 77};
    CHECK(get(checkpoint, GET_I32S, "array.u32", &values, NULL) && values.i32s.n == 2 &&
              i32_at(&values.i32s, 0) == 5 && i32_at(&values.i32s, 1) == 6,
          "unsigned integers");
    values = (Values){.u64 = 77, .f32 = 77};
    CHECK(get(checkpoint, GET_STRINGS, "array.strings.none", &values, NULL) && values.strings.n == 0 &&
              values.strings.next,
          "an empty array is not a missing one");
    values = (Values){.u64 = 77, .f32 = 77};
    checkpoint_close(checkpoint);
}

static void test_missing_keys(void) {
    Gguf gguf = metadata_of_every_type(3);
    static const char *const keys[] = {
        "", "u", "u88", "string.", "array.string", "zzz", "general.architecture"};
    Checkpoint *checkpoint = open_gguf(&gguf);
    if (!checkpoint) return;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        CHECK(!checkpoint_has(checkpoint, keys[k]), "%s", keys[k]);
        Values values = {
            .u64 = 77, .f32 = 77, .boolean = true, .string = {"before", 6}, {.n = 77}, {.n = 77}, {.n = 77}};
        for (unsigned i = 0; i < N_GETTERS; i++)
            CHECK(get(checkpoint, 1u << i, keys[k], &values, NULL), "%s, getter %u", keys[k], i);
        CHECK(values.strings.n == 0 && values.f32s.n == 0 && values.i32s.n == 0, "%s", keys[k]);
        CHECK(values.u64 == 77 && values.f32 == 77 && values.boolean && is(values.string, "before"), "%s",
              keys[k]);
        CHECK(!values.strings.next && !values.f32s.data && !values.i32s.data, "%s", keys[k]);
    }
    CHECK(checkpoint_find(checkpoint, "u8") == NULL, "a key is no tensor");
    checkpoint_close(checkpoint);
}

/* Tensors of every type and 1 to 4 dimensions, whose bytes do not fill the alignment. */
static Gguf tensors_of_every_type(uint32_t version, uint32_t alignment) {
    Gguf gguf = gguf_begin(version);
    gguf.alignment = alignment;
    if (alignment != 32) gguf_u32(&gguf, "general.alignment", alignment);
    gguf_tensor(&gguf, "f32", T_F32, 0, 3);
    gguf_tensor(&gguf, "f16", T_F16, 3, 5);
    gguf_tensor(&gguf, "bf16", T_BF16, 2, 7);
    static const char names[N_GGUF_TYPES][2] = {"a", "b", "c", "d", "e", "g", "h",
                                                "i", "j", "k", "l", "m", "n"};
    for (size_t i = 3; i < N_GGUF_TYPES; i++)
        gguf_tensor(&gguf, names[i - 3], gguf_types[i].type, 1 + i % 3, (1 + i % 2) * gguf_types[i].block);
    GgufTensor *cube = gguf_tensor(&gguf, "cube", T_F32, 6, 5);
    cube->n_dims = 3, cube->dims[1] = 3, cube->dims[2] = 2;
    GgufTensor *four = gguf_tensor(&gguf, "4", T_F16, 12, 1);
    four->n_dims = 4, four->dims[1] = 2, four->dims[2] = 2, four->dims[3] = 3;
    return gguf;
}

static void check_tensors(Gguf *gguf) {
    Checkpoint *checkpoint = open_gguf(gguf);
    if (!checkpoint) return;
    CHECK(checkpoint_n_tensors(checkpoint) == gguf->n_tensors, "%zu", checkpoint_n_tensors(checkpoint));
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const GgufTensor *expected = &gguf->tensors[i];
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        CHECK(is(tensor->name, expected->name) && checkpoint_find(checkpoint, expected->name) == tensor, "%s",
              expected->name);
        CHECK(tensor->dtype == (DType)expected->type && tensor->n_dims == expected->n_dims, "%s",
              expected->name);
        for (size_t k = 0; k < TENSOR_MAX_DIMS; k++)
            CHECK(tensor->dims[k] == expected->dims[k], "%s, dimension %zu", expected->name, k);
        CHECK(tensor->n_bytes == expected->n_bytes, "%s: %zu", expected->name, (size_t)tensor->n_bytes);
        CHECK(memcmp(tensor->data, file + expected->data_at, expected->n_bytes) == 0, "%s", expected->name);
        CHECK((uintptr_t)tensor->data % (gguf->alignment < 64 ? gguf->alignment : 64) == 0, "%s",
              expected->name);
    }
    static const char *const absent[] = {"", "f3", "f322", "zzz", "general.alignment"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        CHECK(checkpoint_find(checkpoint, absent[i]) == NULL, "%s", absent[i]);
    checkpoint_close(checkpoint);
}

static void test_tensors(void) {
    static const uint32_t alignments[] = {32, 8, 64, 128};
    for (uint32_t version = 2; version <= 3; version++)
        for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
            Gguf gguf = tensors_of_every_type(version, alignments[i]);
            check_tensors(&gguf);
            gguf.data_reversed = true;
            check_tensors(&gguf);
        }
}

/* Every other type of ggml: a file is right with it, though nothing here computes with it. */
static void test_other_types(void) {
    static const struct {
        uint32_t type;
        const char *name;
        size_t block, bytes;
    } types[] = {
        {3, "Q4_1", 32, 20},        {6, "Q5_0", 32, 22},        {7, "Q5_1", 32, 24},
        {9, "Q8_1", 32, 36},        {10, "Q2_K", 256, 84},      {11, "Q3_K", 256, 110},
        {12, "Q4_K", 256, 144},     {13, "Q5_K", 256, 176},     {14, "Q6_K", 256, 210},
        {15, "Q8_K", 256, 292},     {16, "IQ2_XXS", 256, 66},   {17, "IQ2_XS", 256, 74},
        {18, "IQ3_XXS", 256, 98},   {19, "IQ1_S", 256, 50},     {20, "IQ4_NL", 32, 18},
        {21, "IQ3_S", 256, 110},    {22, "IQ2_S", 256, 82},     {23, "IQ4_XS", 256, 136},
        {24, "I8", 1, 1},           {25, "I16", 1, 2},          {26, "I32", 1, 4},
        {27, "I64", 1, 8},          {28, "F64", 1, 8},          {29, "IQ1_M", 256, 56},
        {31, "Q4_0_4_4", 32, 18},   {32, "Q4_0_4_8", 32, 18},   {33, "Q4_0_8_8", 32, 18},
        {34, "TQ1_0", 256, 54},     {35, "TQ2_0", 256, 66},     {36, "IQ4_NL_4_4", 32, 18},
        {37, "IQ4_NL_4_8", 32, 18}, {38, "IQ4_NL_8_8", 32, 18}, {39, "MXFP4", 32, 17},
        {40, "NVFP4", 64, 36},      {41, "Q1_0", 128, 18},      {42, "Q2_0", 64, 18},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const DTypeInfo *info = checkpoint_type(types[i].type);
        CHECK(info && strcmp(info->name, types[i].name) == 0 && info->block == types[i].block &&
                  info->block_bytes == types[i].bytes,
              "%s", types[i].name);
        Gguf gguf = gguf_begin(3);
        GgufTensor *tensor = gguf_tensor(&gguf, "other", types[i].type, 3, 2 * types[i].block);
        tensor->n_bytes = 6 * types[i].bytes;
        gguf_tensor(&gguf, "next", T_F32, 0,
                    3); /* right behind it: a byte more would overlap, where 32 divides them */
        check_tensors(&gguf);
    }
    static const uint32_t unknown[] = {4, 5, 43, 63, 64, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        CHECK(checkpoint_type(unknown[i]) == NULL, "%u", unknown[i]);
        Gguf gguf = gguf_begin(3);
        gguf_tensor(&gguf, "unknown", unknown[i], 3, 5)->n_bytes = 77;
        gguf_tensor(&gguf, "next", T_F32, 0, 3);
        Checkpoint *checkpoint = open_gguf(&gguf);
        if (!checkpoint) return;
        const Tensor *tensor = checkpoint_tensor(checkpoint, 0);
        CHECK((uint32_t)tensor->dtype == unknown[i] && tensor->n_bytes == 0 && tensor->dims[0] == 5 &&
                  tensor->dims[1] == 3 && memcmp(tensor->data, file + gguf.tensors[0].data_at, 77) == 0,
              "%u", unknown[i]);
        checkpoint_close(checkpoint);
    }
    for (uint32_t type = 0; type < 64; type++)
        CHECK(!dtype_info(type) || dtype_info(type) == checkpoint_type(type), "%u", type);
}

/* No tensors: a vocabulary, or nothing at all. */
static void test_no_tensors(void) {
    Gguf gguf = gguf_begin(3);
    for (int i = 0; i < 2; i++) {
        size_t n = gguf_write(&gguf, file);
        Checkpoint *checkpoint = open_bytes(file, n);
        if (!checkpoint) return;
        CHECK(checkpoint_n_tensors(checkpoint) == 0 && !checkpoint_find(checkpoint, "token_embd.weight"),
              "%d keys", i);
        CHECK(checkpoint_file_bytes(checkpoint) == n, "%zu", n);
        CHECK(checkpoint_has(checkpoint, "tokenizer.ggml.model") == (i == 1), "%d keys", i);
        checkpoint_close(checkpoint);
        gguf_string(&gguf, "tokenizer.ggml.model", "gpt2");
    }
}

/*
 * llama2.c's model file as its run.c lays it out (memory_map_weights): these tensors, one after the other. Float n
 * after the header has the value n.
 */
enum {
    DIM = 8,
    HIDDEN = 6,
    LAYERS = 3,
    HEADS = 4,
    KV_HEADS = 2,
    VOCAB = 11,
    SEQ = 5,
    KV_DIM = DIM / HEADS * KV_HEADS
};

static const struct {
    const char *name; /* NULL: not read */
    uint64_t rows, cols;
    bool in_layers;
} llama2c_order[] = {
    {"token_embd.weight", VOCAB, DIM, false},
    {"blk.%zu.attn_norm.weight", 0, DIM, true},
    {"blk.%zu.attn_q.weight", DIM, DIM, true},
    {"blk.%zu.attn_k.weight", KV_DIM, DIM, true},
    {"blk.%zu.attn_v.weight", KV_DIM, DIM, true},
    {"blk.%zu.attn_output.weight", DIM, DIM, true},
    {"blk.%zu.ffn_norm.weight", 0, DIM, true},
    {"blk.%zu.ffn_gate.weight", HIDDEN, DIM, true}, /* w1 */
    {"blk.%zu.ffn_down.weight", DIM, HIDDEN, true}, /* w2 */
    {"blk.%zu.ffn_up.weight", HIDDEN, DIM, true},   /* w3 */
    {"output_norm.weight", 0, DIM, false},
    {NULL, SEQ, DIM / HEADS, false}, /* cos and sin of RoPE, [SEQ][head size / 2] each */
    {"output.weight", VOCAB, DIM, false},
};

static void check_llama2c(bool shared) {
    int32_t header[] = {DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, shared ? VOCAB : -VOCAB, SEQ};
    size_t n_kinds = sizeof llama2c_order / sizeof *llama2c_order - shared, n = 0, n_tensors = 0, at = 0;
    for (size_t i = 0; i < n_kinds; i++) {
        size_t layers = llama2c_order[i].in_layers ? LAYERS : 1;
        n += (size_t)(layers * (llama2c_order[i].rows ? llama2c_order[i].rows : 1) * llama2c_order[i].cols);
        n_tensors += llama2c_order[i].name ? layers : 0;
    }
    memcpy(file, header, sizeof header);
    for (size_t i = 0; i < n; i++) memcpy(file + sizeof header + 4 * i, &(float){(float)i}, 4);
    Checkpoint *checkpoint = open_bytes(file, sizeof header + 4 * n);
    if (!checkpoint) return;
    CHECK(strcmp(checkpoint_format(checkpoint), "llama2.c version 0") == 0, "%s",
          checkpoint_format(checkpoint));
    CHECK(checkpoint_n_tensors(checkpoint) == n_tensors, "%zu", checkpoint_n_tensors(checkpoint));
    for (size_t i = 0; i < n_kinds; i++)
        for (size_t layer = 0; layer < (llama2c_order[i].in_layers ? LAYERS : 1); layer++) {
            uint64_t rows = llama2c_order[i].rows, cols = llama2c_order[i].cols,
                     size = (rows ? rows : 1) * cols;
            const char *pattern = llama2c_order[i].name, *mark = pattern ? strstr(pattern, "%zu") : NULL;
            char name[64];
            if (pattern)
                snprintf(name, sizeof name, "%.*s%c%s", mark ? (int)(mark - pattern) : 0, pattern,
                         mark ? (char)('0' + layer) : *pattern, mark ? mark + 3 : pattern + 1);
            const Tensor *tensor = pattern ? checkpoint_find(checkpoint, name) : NULL;
            CHECK(tensor || !pattern, "%s is missing", name);
            if (tensor) {
                const float *data = tensor->data;
                CHECK(tensor->dtype == DTYPE_F32 && tensor->n_dims == (rows ? 2 : 1) &&
                          tensor->dims[0] == cols && tensor->dims[1] == (rows ? rows : 1) &&
                          tensor->n_bytes == 4 * size,
                      "%s", name);
                CHECK(data[0] == (float)at && data[size - 1] == (float)(at + size - 1),
                      "%s: %g, expected %zu", name, (double)data[0], at);
            }
            at += (size_t)size;
        }
    static const struct {
        const char *key;
        uint64_t value;
    } expected[] = {
        {"llama.embedding_length", DIM},
        {"llama.feed_forward_length", HIDDEN},
        {"llama.block_count", LAYERS},
        {"llama.attention.head_count", HEADS},
        {"llama.attention.head_count_kv", KV_HEADS},
        {"llama.context_length", SEQ},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        uint64_t value = 0;
        CHECK(checkpoint_u64(checkpoint, expected[i].key, &value, NULL) && value == expected[i].value, "%s",
              expected[i].key);
    }
    Values values = {0};
    CHECK(get(checkpoint, GET_STRING, "general.architecture", &values, NULL) && is(values.string, "llama"),
          "architecture");
    CHECK(get(checkpoint, GET_F32, "llama.attention.layer_norm_rms_epsilon", &values, NULL) &&
              values.f32 == 1e-5f,
          "%g", (double)values.f32);
    checkpoint_close(checkpoint);
}

static void test_llama2c(void) {
    check_llama2c(true);
    check_llama2c(false);
}

/* llama2.c's tokenizer.bin as its tokenizer.py writes it; ▁ is what GGUF has for a space. */
static void test_llama2c_vocabulary(void) {
    static const struct {
        const char *text, *expected;
        int32_t type;
    } edges[] = {
        {"<unk>", "<unk>", 2}, {"\n<s>\n", "<s>", 3},   {"\n</s>\n", "</s>", 3}, /* 0 to 2; bytes follow */
        {" ", "▁", 1},         {" a  b ", "▁a▁▁b▁", 1}, {"\xe2\x96\x81", "▁", 1}, {"", "", 1},
        {"é\xff", "é\xff", 1}, {"\n", "\n", 1},         {"\n\n", "\n\n", 1},      {"last", "last", 1},
    };
    enum { N_BYTES = 256, N_EDGES = sizeof edges / sizeof *edges, N = N_EDGES + N_BYTES };
    size_t n = 0;
    memcpy(file, &(uint32_t){27}, 4);
    n = 4;
    for (size_t id = 0; id < N; id++) {
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)(id - 3) & 255);
        const char *text = id < 3 ? edges[id].text : id < 3 + N_BYTES ? byte : edges[id - N_BYTES].text;
        float score = -0.5f * (float)id;
        int32_t length = (int32_t)strlen(text);
        memcpy(file + n, &score, 4);
        memcpy(file + n + 4, &length, 4);
        memcpy(file + n + 8, text, (size_t)length);
        n += 8 + (size_t)length;
    }
    Checkpoint *checkpoint = open_bytes(file, n);
    if (!checkpoint) return;
    Values tokens = {0}, scores = {0}, types = {0};
    CHECK(strcmp(checkpoint_format(checkpoint), "llama2.c vocabulary") == 0, "%s",
          checkpoint_format(checkpoint));
    CHECK(get(checkpoint, GET_STRING, "tokenizer.ggml.model", &tokens, NULL) && is(tokens.string, "llama"),
          "model");
    CHECK(get(checkpoint, GET_STRINGS, "tokenizer.ggml.tokens", &tokens, NULL) && tokens.strings.n == N,
          "%zu", tokens.strings.n);
    CHECK(get(checkpoint, GET_F32S, "tokenizer.ggml.scores", &scores, NULL) && scores.f32s.n == N, "%zu",
          scores.f32s.n);
    CHECK(get(checkpoint, GET_I32S, "tokenizer.ggml.token_type", &types, NULL) && types.i32s.n == N, "%zu",
          types.i32s.n);
    for (size_t id = 0; tokens.strings.n && scores.f32s.n == N && types.i32s.n == N; id++) {
        bool is_byte = id >= 3 && id < 3 + N_BYTES;
        size_t edge = id < 3 ? id : id - N_BYTES;
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)(id - 3) & 255);
        const String token = string_array_take(&tokens.strings);
        CHECK(is(token, is_byte ? byte : edges[edge].expected), "token %zu is '%.*s'", id, (int)token.n,
              token.data);
        CHECK(f32_at(&scores.f32s, id) == -0.5f * (float)id, "token %zu", id);
        CHECK(i32_at(&types.i32s, id) == (is_byte ? 6 : edges[edge].type), "token %zu", id);
    }
    checkpoint_close(checkpoint);
}

/* scripts/expect/reference.py wrote these files with numpy; the expected values are as numpy reads them. */
static void test_reference_files(void) {
    static const struct {
        const char *path, *format, *name;
        size_t n_tensors;
        DType dtype;
        uint64_t cols, rows;
        float first[2];
    } golden[] = {
        {"tests/data/reference/gpt2-bf16.gguf",
         "GGUF v2",
         "blk.1.ffn_down.weight",
         29,
         DTYPE_BF16,
         212,
         60,
         {0.00039673f, -0.01519775f}},
        {"tests/data/reference/gpt2-bf16.gguf",
         "GGUF v2",
         "output.weight",
         29,
         DTYPE_BF16,
         60,
         257,
         {-0.3203125f, -0.47460938f}},
        {"tests/data/reference/gpt2-q8_0.gguf",
         "GGUF v3",
         "blk.0.attn_qkv.weight",
         28,
         DTYPE_Q8_0,
         96,
         288,
         {0.16235352f, 0.18844604f}}, /* alignment 64 */
        {"tests/data/reference/gpt2-q8_0.gguf",
         "GGUF v3",
         "output_norm.bias",
         28,
         DTYPE_F32,
         96,
         1,
         {0.1622592f, -0.23013385f}},
        {"tests/data/reference/llama-mixed.gguf",
         "GGUF v3",
         "blk.1.ffn_up.weight",
         21,
         DTYPE_Q4_0,
         96,
         128,
         {0.06750488f, 0.23626709f}},
        {"tests/data/reference/llama-mixed.gguf",
         "GGUF v3",
         "token_embd.weight",
         21,
         DTYPE_F16,
         96,
         261,
         {-0.15612793f, 0.16967773f}},
    };
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        Error error = {{0}};
        Checkpoint *checkpoint = checkpoint_open(golden[i].path, &error);
        CHECK(checkpoint != NULL, "%s", error.message);
        if (!checkpoint) continue;
        CHECK(strcmp(checkpoint_format(checkpoint), golden[i].format) == 0, "%s", golden[i].path);
        CHECK(checkpoint_n_tensors(checkpoint) == golden[i].n_tensors, "%s", golden[i].path);
        const Tensor *tensor = checkpoint_find(checkpoint, golden[i].name);
        CHECK(tensor != NULL, "%s", golden[i].name);
        float row[256];
        if (tensor && tensor->dims[0] <= 256) {
            CHECK(tensor->dtype == golden[i].dtype && tensor->dims[0] == golden[i].cols &&
                      tensor->dims[1] == golden[i].rows,
                  "%s", golden[i].name);
            dtype_unpack(row, tensor->dtype, tensor->data, (size_t)tensor->dims[0]);
            for (int k = 0; k < 2; k++) CHECK_NEAR(row[k], golden[i].first[k], 1e-7);
        }
        checkpoint_close(checkpoint);
    }
}

enum { N_PARTS = 3 };

static const char *part_path(unsigned number) {
    static char path[400];
    snprintf(path, sizeof path, "%s/m-%05u-of-%05u.gguf", scratch_folder, number, N_PARTS);
    return path;
}

/* Part `number` of a split file, with the tensors "a…" and "b…" of it, and what it says about itself. */
static void put_part(unsigned number, uint16_t no, uint16_t count, int32_t n_tensors) {
    static const char *const names[] = {"a1", "b1", "a2", "b2", "a3", "b3"};
    static unsigned char bytes[1 << 16];
    Gguf gguf = gguf_begin(3);
    if (number == 1) gguf_string(&gguf, "general.architecture", "llama");
    gguf_key(&gguf, "split.no", U16, &no, 2);
    gguf_key(&gguf, "split.count", U16, &count, 2);
    gguf_key(&gguf, "split.tensors.count", I32, &n_tensors, 4);
    for (unsigned i = 2 * number - 2; i < 2 * number; i++) gguf_tensor(&gguf, names[i], T_F32, 2, 4 + i);
    size_t n = gguf_write(&gguf, bytes);
    for (size_t i = 0; i < gguf.n_tensors; i++)
        memset(bytes + gguf.tensors[i].data_at, (int)number, gguf.tensors[i].n_bytes);
    FILE *out = fopen(part_path(number), "wb");
    CHECK(out && fwrite(bytes, 1, n, out) == n && fclose(out) == 0, "part %u", number);
}

static void refuse_parts(const char *says) {
    Error error = {{0}};
    Checkpoint *checkpoint = checkpoint_open(part_path(1), &error);
    CHECK(!checkpoint && strstr(error.message, says), "'%s' does not say '%s'", error.message, says);
    checkpoint_close(checkpoint);
}

static void test_parts(void) {
    Error error = {{0}};
    struct stat status;
    uint64_t n_bytes = 0;
    for (unsigned i = 1; i <= N_PARTS; i++) {
        put_part(i, (uint16_t)(i - 1), N_PARTS, 2 * N_PARTS);
        if (stat(part_path(i), &status) == 0) n_bytes += (uint64_t)status.st_size;
    }
    Checkpoint *checkpoint = checkpoint_open(part_path(1), &error);
    CHECK(checkpoint, "%s", error.message);
    if (checkpoint) {
        const Tensor *first = checkpoint_find(checkpoint, "b1"), *last = checkpoint_find(checkpoint, "b3");
        CHECK(checkpoint_n_tensors(checkpoint) == 6 && checkpoint_has(checkpoint, "general.architecture"),
              "six tensors");
        CHECK(first && last && *(const char *)first->data == 1 &&
                  ((const char *)last->data)[last->n_bytes - 1] == 3 && last->dims[1] * last->dims[0] == 18,
              "tensors of the first and the last part");
        CHECK(checkpoint_file_bytes(checkpoint) == n_bytes, "bytes of all parts");
        CHECK(!checkpoint_changed(checkpoint), "changed");
        FILE *more = fopen(part_path(3), "ab");
        CHECK(more && fputc(0, more) == 0 && fclose(more) == 0 && checkpoint_changed(checkpoint),
              "the last part changed");
        more = fopen(part_path(1), "ab");
        CHECK(more && fputc(0, more) == 0 && fclose(more) == 0 && checkpoint_changed(checkpoint),
              "the first, too");
    }
    checkpoint_close(checkpoint);
    CHECK(
        !checkpoint_open(part_path(2), &error) &&
            strstr(error.message, "this is part 2 of a split GGUF: name the first, '…-00001-of-00003.gguf'"),
        "%s", error.message);
    FILE *first = fopen(part_path(1), "rb");
    const GivenFile given = {.descriptor = first ? fileno(first) : -1};
    CHECK(!checkpoint_open_given(part_path(1), &given, &error) &&
              strstr(error.message,
                     "-00001-of-00003.gguf: this is part 1 of 3 of a split GGUF: open the first by its path"),
          "%s", error.message);
    if (first) fclose(first);
    put_part(2, 2, N_PARTS, 6);
    refuse_parts("-00002-of-00003.gguf: is no part number 2 of 3, as its name says");
    put_part(2, 1, 2, 6);
    refuse_parts("is no part number 2 of 3");
    put_part(2, 1, N_PARTS, 6);
    put_part(1, 0, N_PARTS, 7);
    refuse_parts("its parts have 6 tensors, but should have 7");
    put_part(1, 0, N_PARTS, 0);
    put_part(2, 1, N_PARTS, 0);
    put_part(3, 2, N_PARTS, 0); /* 0: how many tensors all have is not said */
    checkpoint = checkpoint_open(part_path(1), &error);
    CHECK(checkpoint && checkpoint_n_tensors(checkpoint) == 6, "%s", error.message);
    checkpoint_close(checkpoint);
    put_part(3, 0, N_PARTS, 0);
    refuse_parts("is no part number 3 of 3");
    FILE *out = fopen(part_path(3), "wb");
    CHECK(out && fputs("<html>", out) >= 0 && fclose(out) == 0, "the third part");
    refuse_parts("-00003-of-00003.gguf: this is an HTML page");
    unlink(part_path(3));
    refuse_parts("-00003-of-00003.gguf: cannot open: No such file or directory");
    unlink(part_path(1));
    unlink(part_path(2));
}

/* A first part is known by a name with five digits: neither by a shorter one, nor by what more digits end in. */
static void test_names_of_parts(void) {
    static const struct {
        const char *name;
        uint32_t no, count;
    } cases[] = {{"m.gguf", 0, 2}, {"m-00001-of-00002.gguf", 0, 100002}, {"m-00004-of-00002.gguf", 4, 2}};
    static unsigned char bytes[1 << 12];
    char before[512], path[400];
    CHECK(getcwd(before, sizeof before) && chdir(scratch_folder) == 0, "no folder");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        Gguf gguf = gguf_begin(3);
        gguf_u32(&gguf, "split.no", cases[i].no);
        gguf_u32(&gguf, "split.count", cases[i].count);
        size_t n = gguf_write(&gguf, bytes);
        FILE *out = fopen(cases[i].name, "wb");
        CHECK(out && fwrite(bytes, 1, n, out) == n && fclose(out) == 0, "%s", cases[i].name);
        snprintf(path, sizeof path, "of a split GGUF: its name must end in '-%05u-of-%05u.gguf'",
                 cases[i].no + 1, cases[i].count % 100000);
        Checkpoint *checkpoint = checkpoint_open(cases[i].name, &error);
        CHECK(!checkpoint && strstr(error.message, path), "%s: %s", cases[i].name, error.message);
        checkpoint_close(checkpoint);
        unlink(cases[i].name);
    }
    CHECK(chdir(before) == 0, "%s", before);
}

int main(void) {
    scratch_begin();
    RUN(test_types);
    RUN(test_values);
    RUN(test_missing_keys);
    RUN(test_tensors);
    RUN(test_other_types);
    RUN(test_no_tensors);
    RUN(test_parts);
    RUN(test_names_of_parts);
    RUN(test_llama2c);
    RUN(test_llama2c_vocabulary);
    RUN(test_reference_files);
    scratch_end();
    checkpoint_close(NULL);
    return test_end();
}
