/*
 * A file that quantize has written holds all metadata and tensors of the one it read, but for types, two keys, and
 * weights that are near what they were. And it tells of weights that are no numbers.
 */
#include "gguf.h"
#include "model.h"
#include "open.h"

#include <sys/wait.h>

static unsigned char file[1 << 18];
static char out_path[300], error_path[300], printed_path[300], said[1000], printed[4000];

static void read_back(const char *path, char *text, size_t size) {
    FILE *from = fopen(path, "r");
    text[from ? fread(text, 1, size - 1, from) : 0] = '\0';
    if (from) fclose(from);
}

/* Runs quantize FILE OUT with these words. Returns its exit code; what it says on stderr is in `said`, on stdout in `printed`. */
static int quantize(const char *words) {
    const char *program = getenv("QUANTIZE");
    char command[1500];
    snprintf(out_path, sizeof out_path, "%s/out", scratch_folder);
    snprintf(error_path, sizeof error_path, "%s/error", scratch_folder);
    snprintf(printed_path, sizeof printed_path, "%s/printed", scratch_folder);
    snprintf(command, sizeof command, "'%s' '%s' '%s' %s >'%s' 2>'%s'", program ? program : "./quantize",
             scratch_path(), out_path, words, printed_path, error_path);
    int status = system(command);
    read_back(error_path, said, sizeof said);
    read_back(printed_path, printed, sizeof printed);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Of all types of values; the two that change stand in the middle. */
static void add_values(Gguf *gguf) {
    static const unsigned char wide[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const struct {
        const char *name;
        uint32_t type;
        size_t n;
    } scalars[] = {{"a.u8", U8, 1},   {"a.i8", I8, 1},   {"a.u16", U16, 2},
                   {"a.i16", I16, 2}, {"a.i32", I32, 4}, {"a.f32", F32, 4},
                   {"a.u64", U64, 8}, {"a.i64", I64, 8}, {"a.f64", F64, 8}};
    gguf_string(gguf, "general.architecture", "other");
    gguf_u32(gguf, "general.alignment", (uint32_t)gguf->alignment);
    gguf_u32(gguf, "general.file_type", 0);
    gguf_u32(gguf, "general.quantization_version", 1);
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        gguf_key(gguf, scalars[i].name, scalars[i].type, wide, scalars[i].n);
    gguf_key(gguf, "a.bool", BOOL, "\1", 1);
    gguf_string(gguf, "a.empty", "");
    gguf_strings(gguf, "a.strings", (const char *const[]){"one", "", "three \x1b[31m"}, 3);
    gguf_array(gguf, "a.numbers", I16, 3, wide, 6);
    gguf_array(gguf, "a.nothing", F32, 0, NULL, 0);
    GgufKey *nested = gguf_array(gguf, "a.nested", ARRAY, 1, NULL, 0);
    gguf_put(nested, &(uint32_t){U8}, 4);
    gguf_put(nested, &(uint64_t){2}, 8);
    gguf_put(nested, wide, 2);
}

static Gguf make_file(void) {
    Gguf gguf = gguf_begin(2);
    gguf.alignment = 64;
    gguf.data_reversed = true; /* offsets go down */
    add_values(&gguf);
    gguf_tensor(&gguf, "token_embd.weight", T_F32, 5, 256);
    gguf_tensor(&gguf, "norm.bias", T_F32, 0, 7);
    gguf_tensor(&gguf, "blk.0.ffn_up.weight", T_F16, 3, 64);
    GgufTensor *experts = gguf_tensor(&gguf, "blk.0.ffn_up_exps.weight", T_F32, 2, 32);
    experts->n_dims = 3, experts->dims[2] = 3, experts->n_bytes *= 3;
    gguf_tensor(&gguf, "blk.0.ffn_gate_inp.weight", T_F32, 2, 32);
    GgufTensor *table = gguf_tensor(&gguf, "tokens", 26, 0, 9); /* I32 */
    table->n_bytes = 36;
    return gguf;
}

static void check_values(const Checkpoint *before, const Checkpoint *after) {
    size_t k = 0, n = checkpoint_n_values(before);
    CHECK(checkpoint_n_values(after) == n, "%zu keys", checkpoint_n_values(after));
    for (size_t i = 0; i < n; i++) {
        Value a = checkpoint_value(before, i);
        if (string_equals(a.key, "general.file_type") || string_equals(a.key, "general.quantization_version"))
            continue;
        Value b = checkpoint_value(after, k++);
        CHECK(string_compare(a.key, b.key) == 0 && a.type == b.type && a.element == b.element && a.n == b.n &&
                  a.n_bytes == b.n_bytes && memcmp(a.data, b.data, a.n_bytes) == 0,
              "%.*s and %.*s", string_shown(a.key), a.key.data, string_shown(b.key), b.key.data);
    }
    uint64_t file_type = 0, version = 0;
    CHECK(checkpoint_u64(after, "general.file_type", &file_type, NULL) && file_type == 7, "%u",
          (unsigned)file_type);
    CHECK(checkpoint_u64(after, "general.quantization_version", &version, NULL) && version == 2, "%u",
          (unsigned)version);
}

static void check_tensors(const Checkpoint *before, const Checkpoint *after) {
    static const DType expected[] = {DTYPE_Q8_0, DTYPE_F32, DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_F32, (DType)26};
    CHECK(checkpoint_n_tensors(after) == 6, "%zu tensors", checkpoint_n_tensors(after));
    for (size_t i = 0; i < 6; i++) {
        const Tensor *a = checkpoint_tensor(before, i), *b = checkpoint_tensor(after, i);
        const char *name = a->name.data;
        int shown = string_shown(a->name);
        float x[2048], y[2048];
        size_t n = 1;
        for (size_t k = 0; k < TENSOR_MAX_DIMS; k++) n *= (size_t)a->dims[k];
        CHECK(string_compare(a->name, b->name) == 0 && a->n_dims == b->n_dims &&
                  memcmp(a->dims, b->dims, sizeof a->dims) == 0,
              "%.*s", shown, name);
        CHECK(b->dtype == expected[i], "%.*s is of type %u", shown, name, (unsigned)b->dtype);
        if (b->dtype == a->dtype) {
            CHECK(memcmp(a->data, b->data, (size_t)a->n_bytes) == 0, "%.*s", shown, name);
            continue;
        }
        dtype_unpack(x, a->dtype, a->data, n);
        dtype_unpack(y, b->dtype, b->data, n);
        float largest = 0, farthest = 0;
        for (size_t k = 0; k < n; k++) {
            largest = fmaxf(largest, fabsf(x[k]));
            farthest = fmaxf(farthest, fabsf(x[k] - y[k]));
        }
        CHECK(farthest <= largest * 0.51f / 127, "%.*s: off by %g of %g", shown, name, (double)farthest,
              (double)largest);
    }
}

static void test_content(void) {
    Gguf gguf = make_file();
    Error error;
    for (size_t i = 0; i < 3; i++) {
        gguf.alignment = (const size_t[]){64, 8, 16384}[i];
        gguf_u32(&gguf, "general.alignment", (uint32_t)gguf.alignment);
        scratch_write(file, gguf_write(&gguf, file));
        CHECK(quantize("Q8_0 -t 2") == 0 && !*said, "%s", said);
        Checkpoint *before = checkpoint_open(scratch_path(), &error),
                   *after = checkpoint_open(out_path, &error);
        CHECK(before && after, "%s", error.message);
        if (before && after) check_values(before, after), check_tensors(before, after);
        checkpoint_close(before);
        checkpoint_close(after);
    }
}

/* Tensors of more weights, or whole numbers, than go to the file at once, by a few rows: each is where it was. */
static void test_long_tensor(void) {
    enum { ROWS = 2051, COLS = 512, NUMBERS = 1 << 20 };
    static unsigned char bytes[ROWS * COLS * 4 + NUMBERS + 4096];
    static float x[ROWS * COLS], y[ROWS * COLS];
    Gguf gguf = gguf_begin(3);
    Error error;
    gguf_string(&gguf, "general.architecture", "llama");
    GgufTensor *tensor = gguf_tensor(&gguf, "token_embd.weight", T_F32, ROWS, COLS);
    gguf_tensor(&gguf, "output_norm.weight", T_F32, 0, COLS);
    GgufTensor *numbers =
        gguf_tensor(&gguf, "numbers.of.a.name.of.more.than.32", 26, 0, NUMBERS / 4 + 2); /* I32 */
    numbers->n_bytes = NUMBERS + 8;
    size_t n = gguf_write(&gguf, bytes);
    for (size_t i = 0; i < ROWS * COLS; i++) x[i] = (float)(i * i % 2039);
    memcpy(bytes + tensor->data_at, x, sizeof x);
    scratch_write(bytes, n);
    CHECK(quantize("F16 -t 3 -v") == 0 && !*said, "%s", said);
    CHECK(strstr(printed,
                 "\nnumbers.of.a.name.of.more.than.32           262146  I32    -> I32         1048584\n"),
          "%s", printed);
    Checkpoint *checkpoint = checkpoint_open(out_path, &error);
    CHECK(checkpoint, "%s", error.message);
    if (checkpoint) dtype_unpack(y, DTYPE_F16, checkpoint_tensor(checkpoint, 0)->data, ROWS * COLS);
    CHECK(memcmp(x, y, sizeof x) == 0, "weights are others, or elsewhere");
    if (checkpoint)
        CHECK(memcmp(checkpoint_tensor(checkpoint, 2)->data, bytes + numbers->data_at, NUMBERS + 8) == 0,
              "other numbers");
    checkpoint_close(checkpoint);
}

/* A number in row 3 of the matrix's 5 rows, or at its very end, and what comes of it. */
static void test_bad_weights(void) {
    static const struct {
        uint32_t type;
        uint32_t bits; /* of a float, or of a half */
        const char *words;
        const char *says; /* NULL: nothing */
        bool last;
    } cases[] = {
        {T_F32, 0x7fc00000, "Q8_0", "tensor 'token_embd.weight' has NaN or infinity in row 3"},
        {T_F32, 0xff800000, "Q4_K", "tensor 'token_embd.weight' has NaN or infinity in row 3"},
        {T_F32, 0x7f800000, "F16", "has NaN or infinity in row 3; the file is damaged"},
        {T_F32, 0x7f800000, "F32", "has NaN or infinity in row 3"}, /* it stays as it is, and is looked at */
        {T_F16, 0x7c00, "Q4_0", "has NaN or infinity in row 3"},
        {T_F16, 0x7bff, "Q4_0", NULL},
        {T_F32, 0x477fe000, "F16", NULL}, /* 65504 */
        {T_F32, 0x47800000, "F16",
         "has weights that the new type cannot hold in row 3; they are too large"}, /* 65536 */
        {T_F32, 0x7e000000, "BF16", NULL},
        {T_F32, 0x7f7fffff, "BF16", "has weights that the new type cannot hold in row 3; they are too large"},
        {T_F32, 0x7e000000, "Q8_0", "has weights that the new type cannot hold in row 3; they are too large"},
        {T_F32, 0x4f000000, "Q4_K",
         "has weights that the new type cannot hold in row 3; they are too large"}, /* the embedding is the output, too */
        {T_F32, 0x00000001, "Q4_K", NULL},
        {T_F32, 0x7fc00000, "Q8_0", "has NaN or infinity in row 4", true},
        {T_F32, 0x47800000, "F16", "has weights that the new type cannot hold in row 4", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Gguf gguf = gguf_begin(3);
        gguf_string(&gguf, "general.architecture", "llama");
        GgufTensor *tensor = gguf_tensor(&gguf, "token_embd.weight", cases[i].type, 5, 1024);
        size_t n = gguf_write(&gguf, file), size = cases[i].type == T_F32 ? 4 : 2;
        size_t at = cases[i].last ? 5 * 1024 - 1 : 3 * 1024 + 17;
        memcpy(file + tensor->data_at + at * size, &cases[i].bits, size);
        scratch_write(file, n);
        unlink(out_path);
        int code = quantize(cases[i].words);
        CHECK(code == (cases[i].says ? 1 : 0), "case %zu: %d: %s", i, code, said);
        CHECK(cases[i].says ? strstr(said, cases[i].says) != NULL : !*said, "case %zu: %s", i, said);
        CHECK((access(out_path, F_OK) == 0) == !cases[i].says, "case %zu: the file", i);
    }
}

/* Tensors that cannot be read here, or not at all. */
static void test_bad_types(void) {
    static const struct {
        const char *name;
        uint32_t type, bytes; /* of a row of 256 */
        const char *words, *says;
    } cases[] = {
        {"blk.0.ffn_up.weight", 16, 66, "Q4_0",
         "tensor 'blk.0.ffn_up.weight' is of type IQ2_XXS, which is not read here"},
        {"blk.0.ffn_norm.weight", 16, 66, "Q4_0", NULL}, /* stays */
        {"blk.0.ffn_up.weight", 99, 66, "Q4_0", "is of type 99, of which nothing is known here"},
        {"blk.0.ffn_norm.weight", 99, 66, "Q4_0", "is of type 99, of which nothing is known here"},
        {"blk.0.ffn_up.weight", 8, 272, "Q4_0", "is quantised already (Q8_0), and to do it twice loses more"},
        {"blk.0.ffn_up.weight", 8, 272, "Q4_0 --allow-requantize", NULL},
        {"blk.0.ffn_up.weight", 8, 272, "Q8_0", NULL},
        {"blk.0.ffn_up.weight", 8, 272, "F16", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Gguf gguf = gguf_begin(3);
        gguf_string(&gguf, "general.architecture", "llama");
        GgufTensor *tensor = gguf_tensor(&gguf, cases[i].name, cases[i].type, 2, 256);
        tensor->n_bytes = 2 * cases[i].bytes;
        size_t n = gguf_write(&gguf, file);
        memset(file + tensor->data_at, 0x11, tensor->n_bytes); /* finite in any type */
        scratch_write(file, n);
        int code = quantize(cases[i].words);
        CHECK(code == (cases[i].says ? 1 : 0), "case %zu: %d: %s", i, code, said);
        CHECK(cases[i].says ? strstr(said, cases[i].says) != NULL : !*said || strstr(said, "note: "),
              "case %zu: %s", i, said);
    }
}

static void test_odd_files(void) {
    Gguf gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", "llama");
    scratch_write(file, gguf_write(&gguf, file));
    CHECK(quantize("Q4_0") == 1 && strstr(said, "the file has no tensors"), "%s", said);
    gguf_tensor(&gguf, "token_embd.weight", T_F32, 2, 32);
    gguf_u32(&gguf, "split.count", 3);
    scratch_write(file, gguf_write(&gguf, file));
    CHECK(quantize("Q4_0") == 1 && strstr(said, "1 of 3 of a split GGUF"), "%s", said);
    gguf_u32(&gguf, "split.count", 1); /* a whole model, in one part: it is none any more */
    scratch_write(file, gguf_write(&gguf, file));
    CHECK(quantize("Q4_0") == 0, "%s", said);
    Error error;
    Checkpoint *checkpoint = checkpoint_open(out_path, &error);
    CHECK(checkpoint && !checkpoint_has(checkpoint, "split.count"), "split.count");
    checkpoint_close(checkpoint);
    gguf_string(&gguf, "llama.block_count", "two");
    scratch_write(file, gguf_write(&gguf, file));
    CHECK(quantize("Q4_0") == 1 && strstr(said, "'llama.block_count' is of type string"), "%s", said);
    gguf_drop(&gguf, gguf_find(&gguf, "general.architecture")); /* then nothing is known of layers */
    gguf_drop(&gguf, gguf_find(&gguf, "llama.block_count"));
    scratch_write(file, gguf_write(&gguf, file));
    CHECK(quantize("Q4_0") == 0, "%s", said);
}

/* Keys about the vocabulary are all of one file. */
static void test_vocabulary(void) {
    static char path[300], words[330];
    Error error;
    Gguf gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", "llama");
    gguf_string(&gguf, "tokenizer.chat_template", "of the vocabulary");
    gguf_string(&gguf, "tokenizer.ggml.model", "gpt2");
    gguf_tensor(&gguf, "x", T_F32, 0, 1);
    scratch_write(file, gguf_write(&gguf, file));
    snprintf(path, sizeof path, "%s/vocabulary", scratch_folder);
    snprintf(words, sizeof words, "F16 -z '%s'", path);
    CHECK(rename(scratch_path(), path) == 0, "%s", path);
    gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.model"));
    gguf_string(&gguf, "tokenizer.chat_template", "of the model");
    scratch_write(file, gguf_write(&gguf, file));
    CHECK(quantize(words) == 0, "%s", said);
    Checkpoint *checkpoint = checkpoint_open(out_path, &error);
    String template = {"", 0}, architecture = {"", 0};
    CHECK(checkpoint && checkpoint_string(checkpoint, "tokenizer.chat_template", &template, &error) &&
              checkpoint_string(checkpoint, "general.architecture", &architecture, &error),
          "%s", error.message);
    CHECK(string_equals(template, "of the vocabulary"), "%.*s", string_shown(template), template.data);
    CHECK(string_equals(architecture, "llama"), "%.*s", string_shown(architecture), architecture.data);
    checkpoint_close(checkpoint);
    unlink(path);
}

int main(void) {
    scratch_begin();
    RUN(test_content);
    RUN(test_long_tensor);
    RUN(test_bad_weights);
    RUN(test_bad_types);
    RUN(test_odd_files);
    RUN(test_vocabulary);
    unlink(out_path);
    unlink(error_path);
    unlink(printed_path);
    scratch_end();
    return test_end();
}
