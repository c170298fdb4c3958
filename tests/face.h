/* For tests of the public face: small models that are open, and what the program prints of them. */
#ifndef ATTN_TEST_FACE_H
#define ATTN_TEST_FACE_H

#include "attn.h"
#include "model.h"
#include "tests/test.h"

#define GPT2 "tests/data/reference/gpt2-f32.gguf" /* a token for each byte and <|endoftext|>; 192 positions */
#define LLAMA "tests/data/reference/llama-f32.gguf" /* SentencePiece, BOS in front */
#define LLAMA_Q8 "tests/data/reference/llama-q8_0.gguf"
#define GPT2_Q4 "tests/data/reference/gpt2-q4_0.gguf"

enum { MAX_TOKENS = 512, MAX_TEXT = 1 << 14, MAX_VOCAB = 300 };

static const char *const models[] = {GPT2, LLAMA, GPT2_Q4, LLAMA_Q8};
enum { N_MODELS = sizeof models / sizeof *models };

static const char story[] = "The sea was calm, na\xc3\xafve & \xe2\x82\xac 5.\n  It rose.";

/* Both must be there, or there is nothing to test. */
typedef struct World {
    AttnModel *model;
    AttnSession *session;
    size_t n_vocab;
} World;

static inline World open_world(const char *path, const AttnSessionOptions *options) {
    AttnError error;
    World world = {.model = attn_model_open(path, NULL, &error)};
    world.session = attn_session_new(world.model, options, &error);
    world.n_vocab = attn_model_shape(world.model).n_vocab;
    if (world.session && world.n_vocab <= MAX_VOCAB) return world;
    printf("%s: %s\n", path, error.message);
    exit(1);
}

static inline void close_world(World *world) {
    attn_session_free(world->session);
    attn_model_close(world->model);
}

static inline size_t tokens_of(const AttnModel *model, const char *text, int32_t tokens[MAX_TOKENS]) {
    AttnError error;
    size_t n = 0;
    bool ok = attn_tokenize(model, text, strlen(text), ATTN_TOKENIZE_ENDS, tokens, MAX_TOKENS, &n, &error);
    CHECK(ok && n > 0 && n <= MAX_TOKENS, "%s", error.message);
    return n;
}

/* Whether a session holds exactly these tokens. */
static inline bool holds(const AttnSession *session, const int32_t *tokens, size_t n) {
    size_t n_held;
    const int32_t *held = attn_session_tokens(session, &n_held);
    return n_held == n && memcmp(held, tokens, n * sizeof *tokens) == 0;
}

/* The n bytes that the program named by RUN prints. */
static inline const char *output_of(const char *arguments, const char *path, size_t *n) {
    static char text[MAX_TEXT];
    char command[1024];
    snprintf(command, sizeof command, "ATTN_KERNEL=%s \"$RUN\" %s %s </dev/null 2>&1",
             kernels_pick(NULL, NULL)->name, path, arguments);
    FILE *pipe = popen(command, "r");
    *n = pipe ? fread(text, 1, sizeof text - 1, pipe) : 0;
    text[*n] = '\0';
    CHECK(pipe && pclose(pipe) == 0, "%s: %.200s", command, text);
    return text;
}

/* The last 3 logits of a text, by the engine itself. */
static inline void engine_logits(const char *path, const int32_t *tokens, size_t n, DType kv,
                                 const Kernels *kernels, float *logits) {
    Error error;
    Model *model = model_open(path, &error);
    Threads *threads = threads_new(1, &error);
    SessionOptions options = {.kv_dtype = kv, .compute = {.kernels = kernels, .threads = threads}};
    Session *session = session_new(model, &options, &error);
    CHECK(session_feed(session, tokens, n, logits, 3, &error), "%s", error.message);
    session_free(session);
    threads_free(threads);
    model_close(model);
}

/* One line that has these words. */
static inline void check_error(bool failed, const AttnError *error, const char *words) {
    CHECK(failed, "no error: %s", words);
    CHECK(strstr(error->message, words) && !strchr(error->message, '\n'), "'%s' without '%s'", error->message,
          words);
}

#endif
