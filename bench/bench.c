/*
 * How fast, and how near to the machine's limit: for each weight type on GPT-2 124M shapes with random
 * weights, prompt and generation speed, the share of the read bandwidth that generation reaches, and the
 * memory beyond file and KV cache. The checkpoint is written to $TMPDIR (or /tmp) and removed again.
 */
#include "cli.h"
#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_LAYER = 12, D_MODEL = 768, N_HEAD = 12, D_FF = 3072, N_VOCAB = 50257, N_CTX = 1024 };
enum { PROMPT = 512, GENERATE = 64, REPEATS = 5, ALIGNMENT = 32 };

/* One tensor of the checkpoint: [rows][cols], or [cols] in F32 when rows is 0. */
typedef struct Shape {
    char name[48];
    uint64_t rows, cols;
} Shape;

typedef struct Shapes {
    Shape items[4 + 12 * N_LAYER];
    size_t n;
} Shapes;

static void add_shape(Shapes *shapes, uint64_t rows, uint64_t cols, const char *prefix, const char *name) {
    Shape *shape = &shapes->items[shapes->n++];
    shape->rows = rows, shape->cols = cols;
    snprintf(shape->name, sizeof shape->name, "%s%s", prefix, name);
}

static Shapes gpt2_shapes(void) {
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } layer[] = {
        {"attn_norm.weight", 0, D_MODEL},          {"attn_norm.bias", 0, D_MODEL},
        {"attn_qkv.weight", 3 * D_MODEL, D_MODEL}, {"attn_qkv.bias", 0, 3 * D_MODEL},
        {"attn_output.weight", D_MODEL, D_MODEL},  {"attn_output.bias", 0, D_MODEL},
        {"ffn_norm.weight", 0, D_MODEL},           {"ffn_norm.bias", 0, D_MODEL},
        {"ffn_up.weight", D_FF, D_MODEL},          {"ffn_up.bias", 0, D_FF},
        {"ffn_down.weight", D_MODEL, D_FF},        {"ffn_down.bias", 0, D_MODEL},
    };
    Shapes shapes = {.n = 0};
    add_shape(&shapes, N_VOCAB, D_MODEL, "", "token_embd.weight");
    add_shape(&shapes, N_CTX, D_MODEL, "", "position_embd.weight");
    for (int l = 0; l < N_LAYER; l++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "blk.%d.", l);
        for (size_t i = 0; i < sizeof layer / sizeof *layer; i++)
            add_shape(&shapes, layer[i].rows, layer[i].cols, prefix, layer[i].name);
    }
    add_shape(&shapes, 0, D_MODEL, "", "output_norm.weight");
    add_shape(&shapes, 0, D_MODEL, "", "output_norm.bias");
    return shapes;
}

static void put(FILE *file, const void *value, size_t n) { fwrite(value, 1, n, file); }

static void put_string(FILE *file, const char *text) {
    uint64_t n = strlen(text);
    put(file, &n, sizeof n);
    put(file, text, n);
}

static void put_number(FILE *file, const char *key, uint32_t value) {
    put_string(file, key);
    put(file, &(uint32_t){4}, 4); /* uint32 */
    put(file, &value, 4);
}

static uint64_t shape_bytes(const Shape *shape, DType dtype) {
    return shape->rows ? shape->rows * dtype_bytes(dtype, shape->cols) : shape->cols * sizeof(float);
}

static void pad(FILE *file) {
    static const char zeros[ALIGNMENT];
    put(file, zeros, (ALIGNMENT - (size_t)ftell(file) % ALIGNMENT) % ALIGNMENT);
}

static void put_header(FILE *file, const Shapes *shapes, DType dtype) {
    put(file, "GGUF\3\0\0\0", 8);
    put(file, &(uint64_t){shapes->n}, 8);
    put(file, &(uint64_t){7}, 8);
    put_string(file, "general.architecture");
    put(file, &(uint32_t){8}, 4); /* string */
    put_string(file, "gpt2");
    put_number(file, "gpt2.block_count", N_LAYER);
    put_number(file, "gpt2.context_length", N_CTX);
    put_number(file, "gpt2.embedding_length", D_MODEL);
    put_number(file, "gpt2.feed_forward_length", D_FF);
    put_number(file, "gpt2.attention.head_count", N_HEAD);
    put_string(file, "gpt2.attention.layer_norm_epsilon");
    put(file, &(uint32_t){6}, 4); /* float32 */
    put(file, &(float){1e-5f}, 4);
    uint64_t offset = 0;
    for (size_t i = 0; i < shapes->n; i++) {
        const Shape *shape = &shapes->items[i];
        put_string(file, shape->name);
        put(file, &(uint32_t){shape->rows ? 2 : 1}, 4);
        put(file, &shape->cols, 8);
        if (shape->rows) put(file, &shape->rows, 8);
        put(file, &(uint32_t){shape->rows ? (uint32_t)dtype : DTYPE_F32}, 4);
        put(file, &offset, 8);
        offset += (shape_bytes(shape, dtype) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
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
        uint16_t half = f32_to_f16(dtype == DTYPE_F16 ? value : 2e-3f);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint16_t upper = (uint16_t)(bits >> 16);
        if (dtype == DTYPE_F32)
            memcpy(bytes + i, &bits, sizeof bits);
        else
            memcpy(bytes + i, dtype == DTYPE_BF16 ? &upper : &half, sizeof half);
    }
}

static bool write_checkpoint(const char *path, DType dtype, Error *error) {
    enum { BUFFER = 1 << 16 };
    Shapes shapes = gpt2_shapes();
    FILE *file = fopen(path, "wb");
    if (!file) return error_set(error, "%s: cannot write: %s", path, strerror(errno));
    put_header(file, &shapes, dtype);
    uint64_t state = 1;
    for (size_t i = 0; i < shapes.n; i++) {
        DType own = shapes.items[i].rows ? dtype : DTYPE_F32;
        size_t block = dtype_info(own)->block_bytes, buffer = BUFFER / block * block;
        unsigned char bytes[BUFFER];
        for (uint64_t left = shape_bytes(&shapes.items[i], dtype), n; left > 0; left -= n) {
            n = left < buffer ? left : buffer;
            random_weights(bytes, n, own, &state);
            put(file, bytes, n);
        }
        pad(file);
    }
    bool ok = !ferror(file);
    if (fclose(file) != 0 || !ok) return error_set(error, "%s: cannot write: %s", path, strerror(errno));
    return true;
}

typedef struct Sum {
    const uint64_t *words;
    uint64_t *sums; /* [n_threads][8]: of each worker, 64 bytes apart */
} Sum;

static void sum_words(void *context, size_t begin, size_t end, unsigned worker) {
    Sum *sum = context;
    uint64_t lanes[16] = {0};
    for (size_t i = begin; i + 16 <= end; i += 16)
        for (size_t j = 0; j < 16; j++) lanes[j] += sum->words[i + j];
    for (size_t j = 0; j < 16; j++) sum->sums[worker * 8] += lanes[j];
}

/* GB/s at which all threads together read 512 MB that no cache holds: the best of several passes. */
static double read_bandwidth(Threads *threads) {
    size_t n = (size_t)1 << 26;
    Sum sum = {calloc(n, sizeof(uint64_t)), calloc(threads_count(threads), 64)};
    double best = 0;
    if (!sum.words || !sum.sums) return 0;
    memset((void *)(uintptr_t)sum.words, 1, n * sizeof(uint64_t));
    for (int i = 0; i < 7; i++) {
        double start = now_ms();
        parallel_for(threads, n, n / 64, sum_words, &sum);
        best = fmax(best, 1e-6 * (double)(n * sizeof(uint64_t)) / (now_ms() - start));
    }
    free((void *)(uintptr_t)sum.words);
    free(sum.sums);
    return best;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[static REPEATS]) {
    qsort(values, REPEATS, sizeof *values, ascending);
    return values[REPEATS / 2];
}

/* Resident memory that is no file's: what a run adds to the mapped checkpoint. */
static uint64_t anonymous_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    uint64_t kib = 0;
    while (file && fgets(line, sizeof line, file)) sscanf(line, "RssAnon: %" SCNu64, &kib);
    if (file) fclose(file);
    return kib * 1024;
}

static bool bench_type(const char *path, DType dtype, const Compute *compute, Error *error) {
    static int32_t tokens[PROMPT];
    static float logits[N_VOCAB];
    double prompt_ms[REPEATS], token_ms[REPEATS];
    for (size_t i = 0; i < PROMPT; i++) tokens[i] = (int32_t)(i * 7919 % N_VOCAB);
    if (!write_checkpoint(path, dtype, error)) return false;
    uint64_t before = anonymous_bytes();
    Model *model = model_open(path, error);
    Session *session =
        model ? session_new(model, &(SessionOptions){.kv_dtype = DTYPE_F16, .compute = *compute}, error)
              : NULL;
    bool ok = session != NULL;
    for (int i = -1; i < REPEATS && ok; i++) { /* the first pass brings the file in and is not counted */
        session_rewind(session, 0);
        double start = now_ms();
        ok = session_feed(session, tokens, PROMPT, logits, 1, error);
        double middle = now_ms();
        for (int j = 0; j < GENERATE && ok; j++) ok = session_feed(session, &tokens[j], 1, logits, 1, error);
        if (i >= 0) prompt_ms[i] = middle - start, token_ms[i] = (now_ms() - middle) / GENERATE;
    }
    if (ok) {
        AttentionShape shape = model_attention_shape(model);
        uint64_t cache = attention_kv_bytes(&shape, DTYPE_F16) * (PROMPT + GENERATE),
                 used = anonymous_bytes() - before;
        /* A token reads all weights but the other positions' rows: tied, the embedding is the unembedding. */
        double bytes = (double)checkpoint_file_bytes(model_checkpoint(model)) -
                       N_CTX * (double)dtype_bytes(dtype, D_MODEL);
        double ms = median(token_ms), speed = 1e-6 * bytes / ms;
        printf("%-5s %9.1f %10.1f %10.1f %9.2f %8.0f %% %9.1f\n", dtype_info(dtype)->name, 1e-6 * bytes,
               1e3 * PROMPT / median(prompt_ms), 1e3 / ms, speed,
               100 * speed / read_bandwidth(compute->threads), ((double)used - (double)cache) / (1 << 20));
    }
    session_free(session);
    model_close(model);
    return ok;
}

int main(void) {
    static const DType dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0};
    Error error;
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/attn-bench-%ld.gguf", folder ? folder : "/tmp", (long)getpid());
    const Kernels *kernels = kernels_pick(getenv("ATTN_KERNEL"), &error);
    Threads *threads = kernels ? threads_new(threads_physical_cores(), &error) : NULL;
    bool ok = threads != NULL;
    if (ok) {
        printf("GPT-2 124M shapes, random weights, kernels %s, %u threads, read bandwidth %.1f GB/s\n",
               kernels->name, threads_count(threads), read_bandwidth(threads));
        printf("medians of %d: a prompt of %d tokens, then %d tokens one by one\n\n", REPEATS, PROMPT,
               GENERATE);
        printf("%-5s %9s %10s %10s %9s %10s %9s\n", "type", "MB/token", "prompt t/s", "gen t/s", "GB/s",
               "of limit", "MiB extra");
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes && ok; i++) {
        ok = bench_type(path, dtypes[i], &(Compute){kernels, threads}, &error);
        unlink(path);
        fflush(stdout);
    }
    if (!ok) fprintf(stderr, "bench: %s\n", error.message);
    threads_free(threads);
    return ok ? EXIT_SUCCESS : EXIT_BAD_INPUT;
}
