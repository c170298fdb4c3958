/*
 * A small file that claims much may cost so much: memory, with 16 threads, and time until Ctrl-C is heard. The file has
 * 100,000 heads, which share one kv head.
 */
#include "bad.h"

#include "attention.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { MANY_HEADS = 100000, MANY_POSITIONS = 64, MIB = 1 << 20 };

#if defined(__SANITIZE_THREAD__)
#define SLOW 1
#else
#define SLOW ADDRESS_SANITIZER
#endif

static Threads *pool, *pool_of_3;

static void set_tensor(Gguf *gguf, const char *name, uint32_t type, uint64_t rows, uint64_t cols) {
    GgufTensor *tensor = gguf_find_tensor(gguf, name);
    tensor->type = type;
    tensor->dims[0] = cols, tensor->dims[1] = rows;
    tensor->n_bytes = gguf_bytes(type, (size_t)(rows * cols));
}

/* A good LLaMA with so many heads. */
static Gguf model_of_heads(uint32_t n_head, uint32_t n_head_kv, uint32_t d_head, uint32_t type) {
    Gguf gguf = good_model(LLAMA);
    gguf_u32(&gguf, "llama.context_length", MANY_POSITIONS);
    gguf_u32(&gguf, "llama.attention.head_count", n_head);
    gguf_u32(&gguf, "llama.attention.head_count_kv", n_head_kv);
    gguf_u32(&gguf, "llama.attention.key_length", d_head);
    gguf_u32(&gguf, "llama.attention.value_length", d_head);
    set_tensor(&gguf, "blk.0.attn_q.weight", type, (uint64_t)n_head * d_head, D_MODEL);
    set_tensor(&gguf, "blk.0.attn_k.weight", type, (uint64_t)n_head_kv * d_head, D_MODEL);
    set_tensor(&gguf, "blk.0.attn_v.weight", type, (uint64_t)n_head_kv * d_head, D_MODEL);
    set_tensor(&gguf, "blk.0.attn_output.weight", type, D_MODEL, (uint64_t)n_head * d_head);
    return gguf;
}

static void write_many_heads(void) {
    Gguf gguf = model_of_heads(MANY_HEADS, 1, D_HEAD, T_F16);
    unsigned char *bytes = malloc(16 * MIB);
    if (!bytes) exit(1);
    scratch_write(bytes, gguf_write(&gguf, bytes));
    free(bytes);
}

/* A program at work on that file with 16 threads: study if the first argument is one of its commands, else run. */
static pid_t start(const char *const arguments[], const char *prompt) {
    bool is_study = arguments[0][0] != '-';
    const char *program = getenv(is_study ? "STUDY" : "RUN"), *argv[24];
    size_t n = 0;
    if (!program) program = is_study ? "./study" : "./run";
    argv[n++] = program;
    if (is_study) argv[n++] = *arguments++;
    argv[n++] = scratch_path();
    for (const char *const more[] = {"-p", prompt, "-t", "16", NULL}, *const *next = more; *next;)
        argv[n++] = *next++;
    while (*arguments) argv[n++] = *arguments++;
    argv[n] = NULL;
    pid_t child = fork();
    if (child != 0) return child;
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++) dup2(null, i);
    execv(program, (char *const *)argv);
    _exit(127);
}

/* The file, 256 MiB for a chunk of tokens, and for each thread a tile and a stack; the rest is the program itself. */
static void test_memory(void) {
    if (SLOW) SKIP("sanitizers take memory of their own");
    static const char *const commands[][8] = {
        {"-n", "1"},
        {"next"},
        {"score"},
        {"lens"},
        {"explain", "--layer", "0", "--head", "7"},
        {"ablate", "--sweep", "mlps"},
    };
    struct stat status;
    CHECK(stat(scratch_path(), &status) == 0, "no file");
    double most = (double)status.st_size / MIB + 256 + 16 * (0.25 + 0.5) + 16;
    size_t n = getenv("ATTN_LONG_TESTS") ? COUNT(commands) : 2;
    for (size_t i = 0; i < n; i++) {
        struct rusage usage = {0};
        int end = 0;
        pid_t child = start(commands[i], "aabbaabbaabbaabb"); /* queries for each thread's tile */
        if (wait4(child, &end, 0, &usage) != child) exit(1);
        double peak = (double)usage.ru_maxrss / 1024;
        CHECK(WIFEXITED(end) && WEXITSTATUS(end) == 0, "%s: status %d", commands[i][0], end);
        CHECK(peak <= most, "%s: %.0f MiB, more than %.0f", commands[i][0], peak, most);
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Interrupts a program at a few moments; the median of how long it then takes to end. */
static double time_to_end(const char *const arguments[], int n_moments) {
    double took[8];
    char prompt[MANY_POSITIONS - 4]; /* a token each, with two before them */
    memset(prompt, 'a', sizeof prompt);
    prompt[sizeof prompt - 1] = '\0';
    for (int i = 0; i < n_moments; i++) {
        int end = 0;
        pid_t child = start(arguments, prompt);
        nanosleep(&(struct timespec){0, (SLOW ? 300 : 60) * 1000000L + i * 30000000L}, NULL);
        double began = seconds();
        kill(child, SIGINT);
        if (waitpid(child, &end, 0) != child) exit(1);
        took[i] = seconds() - began;
        bool told = WIFEXITED(end) ? WEXITSTATUS(end) == 130 : WTERMSIG(end) == SIGINT;
        CHECK(told, "%s: status %d", arguments[0], end);
    }
    qsort(took, (size_t)n_moments, sizeof *took, by_size);
    return took[n_moments / 2];
}

/* 58 tokens are many seconds for this file. A machine that is busy otherwise gets three tries. */
static void test_interrupt(void) {
    static const char *const commands[][5] = {{"-n", "-1", "--shift"}, {"heads"}, {"selfcheck"}};
    bool whole = getenv("ATTN_LONG_TESTS") != NULL;
    double took = 9, most = SLOW ? 1.5 : 0.3;
    for (size_t i = 0; i < (whole ? COUNT(commands) : 1); i++) {
        for (int tries = 0; tries < 3 && (took > most || tries == 0); tries++)
            took = time_to_end(commands[i], whole ? 5 : 3);
        CHECK(took <= most, "%s: %.2f s after Ctrl-C", commands[i][0], took);
    }
}

/* A size that a size_t does not hold is no memory, rather than little. */
static void test_overflow(void) {
    static const size_t sizes[][2] = {
        {2, SIZE_MAX / 2 + 1}, {1, SIZE_MAX / 2}, {1, SIZE_MAX / 4}, {1, SIZE_MAX / 4 + 2}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        CHECK(!floats_new(sizes[i][0], sizes[i][1]), "sizes %zu", i);
        CHECK(!floats_filled_new(sizes[i][0], sizes[i][1]), "sizes %zu", i);
    }
}

/* No shape makes a thread's tile larger, and an honest one has all 64 queries. */
static void test_tile_bytes(void) {
    static const size_t groups[] = {1, 2, 3, 8, 63, 64, 65, 71, 1000, 1000000},
                        heads[] = {1, 2, 64, 128, 576, 8192, 32734};
    for (size_t i = 0; i < COUNT(groups); i++)
        for (size_t k = 0; k < COUNT(heads); k++) {
            AttentionShape shape = {.n_head = groups[i], .n_head_kv = 1, .d_head = heads[k]};
            size_t bytes = attention_tile_bytes(&shape);
            CHECK(bytes > 0 && bytes <= ATTENTION_TILE_BYTES, "%zu heads of %zu: %zu", groups[i], heads[k],
                  bytes);
        }
    AttentionShape honest = {.n_head = 32, .n_head_kv = 8, .d_head = 128};
    CHECK(attention_tile_bytes(&honest) == 64 * (2 * 128 + 64 + 2 + 128) * 4, "%zu",
          attention_tile_bytes(&honest));
}

static Session *session_of(const Model *model, Threads *threads, const Kernels *kernels, Error *error) {
    SessionOptions options = {.kv_dtype = DTYPE_F16, .compute = {.kernels = kernels, .threads = threads}};
    return session_new(model, &options, error);
}

/* No session is made for these, since a token or a head alone takes too much. */
static void test_too_wide(void) {
    Error error = {{0}};
    Gguf gguf = model_of_heads(1, 1, 32736, T_F16);
    unsigned char *bytes = malloc(16 * MIB);
    if (!bytes) exit(1);
    scratch_write(bytes, gguf_write(&gguf, bytes));
    free(bytes);
    Model *model = model_open(scratch_path(), &error);
    CHECK(model != NULL, "%s", error.message);
    if (!model) return;
    CHECK(!session_of(model, pool, kernels_pick(NULL, &error), &error), "heads of 32736");
    check_message(&error, scratch_path(), "heads of 32736 numbers are more than the 256 KiB", "a wide head");
    model_close(model);
}

/* Logits [MANY_POSITIONS][N_VOCAB] of a text that the file's model reads in one chunk. */
static void logits_of_file(Threads *threads, const Kernels *kernels, float *logits) {
    static const int32_t ids[MANY_POSITIONS] = {5, 6, 7, 4, 5, 5, 3, 7, 6, 0, 1, 2, 5, 7, 7, 6, 5};
    Error error = {{0}};
    Model *model = accept_file();
    Session *session = model ? session_of(model, threads, kernels, &error) : NULL;
    CHECK(session && session_feed(session, ids, MANY_POSITIONS, logits, MANY_POSITIONS, &error), "%s",
          error.message);
    session_free(session);
    model_close(model);
}

/* The rows of one kv head's weights, in the file, come again for each of the others. */
static void repeat_kv_head(Gguf *gguf, const char *name, size_t n_head_kv) {
    unsigned char *rows = file + gguf_find_tensor(gguf, name)->data_at;
    size_t n = D_HEAD * D_MODEL * sizeof(float);
    for (size_t k = 0; k < n; k += 4) memcpy(rows + k, &(float){(float)(k % 28) / 16 - 0.8f}, 4);
    for (size_t k = 1; k < n_head_kv; k++) memcpy(rows + k * n, rows, n);
}

/*
 * A query's sums are its own, whichever queries share its tile. So kv heads that are alike may be one, to the bit: tiles
 * are then cut within tokens, instead of between them.
 */
static void test_tiles_alike(void) {
    static const uint32_t heads[] = {2, 3, 48, 64, 65, 71, 130};
    static float logits[3][MANY_POSITIONS * N_VOCAB];
    for (size_t i = 0; i < COUNT(heads); i++)
        for (size_t set = 0; kernels_set(set); set++) {
            const Kernels *kernels = kernels_set(set);
            if (!kernels->runs_here || !kernels->runs_here() || kernels->few_sums) continue;
            for (int k = 0; k < 3; k++) {
                uint32_t n_head_kv = k == 2 ? heads[i] : 1;
                Gguf gguf = model_of_heads(heads[i], n_head_kv, D_HEAD, T_F32);
                n_file = gguf_write(&gguf, file);
                repeat_kv_head(&gguf, "blk.0.attn_k.weight", n_head_kv);
                repeat_kv_head(&gguf, "blk.0.attn_v.weight", n_head_kv);
                logits_of_file(k == 1 ? pool_of_3 : pool, kernels, logits[k]);
            }
            CHECK(memcmp(logits[0], logits[1], sizeof logits[0]) == 0, "%s: %u heads, 3 threads",
                  kernels->name, heads[i]);
            CHECK(memcmp(logits[0], logits[2], sizeof logits[0]) == 0, "%s: %u heads, as many kv heads",
                  kernels->name, heads[i]);
        }
}

/* Says no at its n-th call. */
static bool stop_at(void *user) {
    int *left = user;
    return (*left)-- == 0;
}

/* A session that is stopped has fed nothing, and goes on as if nothing had been. */
static void test_stop(void) {
    static const int32_t ids[] = {5, 6, 7};
    Gguf gguf = good_model(GPT2);
    Error error = {{0}};
    Model *model = accept(&gguf);
    float plain[N_VOCAB] = {0}, logits[N_VOCAB] = {0};
    int calls = 1; /* the first chunk passes */
    SessionOptions options = {.n_chunk = 2,
                              .compute = {.kernels = kernels_pick(NULL, &error), .threads = pool}};
    options.kv_dtype = DTYPE_F16;
    Session *session = model ? session_new(model, &options, &error) : NULL;
    options.stop = stop_at, options.stop_user = &calls;
    Session *stopped = model ? session_new(model, &options, &error) : NULL;
    if (!session || !stopped) exit(1);
    CHECK(session_feed(session, ids, 3, plain, 1, &error), "%s", error.message);
    CHECK(!session_feed(stopped, ids, 3, logits, 1, &error), "was not stopped");
    CHECK(strcmp(error.message, "interrupted") == 0, "%s", error.message);
    CHECK(session_position(stopped) == 0, "%zu", session_position(stopped));
    CHECK(session_feed(stopped, ids, 3, logits, 1, &error), "%s", error.message);
    CHECK(memcmp(plain, logits, sizeof plain) == 0, "logits differ");
    session_free(session);
    session_free(stopped);
    model_close(model);
}

int main(void) {
    Error error = {{0}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(300);
    scratch_begin();
    pool = threads_new(1, &error);
    pool_of_3 = threads_new(3, &error);
    write_many_heads();
    RUN(test_memory);
    RUN(test_overflow);
    RUN(test_interrupt);
    RUN(test_tile_bytes);
    RUN(test_too_wide);
    RUN(test_tiles_alike);
    RUN(test_stop);
    threads_free(pool);
    threads_free(pool_of_3);
    scratch_end();
    return test_end();
}
