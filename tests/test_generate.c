/*
 * What ./run generates, against the library called step by step: every token here is drawn from the logits
 * of a session that was rewound to nothing and fed the whole text anew, so the program's cache, chunks and
 * shifts of the context must not show. That needs kernels that round nothing to 8 bits; the program's own choice is
 * for speed. The logits that it writes are compared with PyTorch's, by its own choice for those.
 */
#include "model.h"
#include "sampler.h"
#include "test.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <unistd.h>

enum { MAX_TEXT = 1 << 16, MAX_TOKENS = 512 };

static char folder[] = "/tmp/attn-test-XXXXXX"; /* scratch */

/* A model of tests/data/reference, ready to be fed, and a text under construction. */
typedef struct World {
    const char *path;
    Model *model;
    Tokenizer *tokenizer;
    Threads *threads;
    Session *session;
    float *logits; /* [n_vocab] */
    size_t n_vocab;
    int32_t ids[MAX_TOKENS];
    size_t n;
} World;

static World open_world(const char *path) {
    Error error;
    World world = {.path = path, .model = model_open(path, &error)};
    if (!world.model) {
        printf("%s\n", error.message);
        exit(1);
    }
    world.tokenizer = tokenizer_new(model_checkpoint(world.model), &error);
    world.threads = threads_new(1, &error);
    SessionOptions options = {.kv_dtype = DTYPE_F32,
                              .compute = {.kernels = kernels_pick(NULL, &error), .threads = world.threads}};
    world.session = session_new(world.model, &options, &error);
    world.n_vocab = model_config(world.model)->n_vocab;
    world.logits = calloc(world.n_vocab, sizeof *world.logits);
    if (world.tokenizer && world.threads && world.session && world.logits) return world;
    printf("%s: %s\n", path, error.message);
    exit(1);
}

static void close_world(World *world) {
    free(world->logits);
    session_free(world->session);
    threads_free(world->threads);
    tokenizer_free(world->tokenizer);
    model_close(world->model);
}

static void encode(World *world, const char *text, unsigned flags) {
    Error error;
    Tokens tokens = {0};
    CHECK(tokenizer_encode(world->tokenizer, text, strlen(text), flags, &tokens, &error), "%s",
          error.message);
    for (size_t i = 0; i < tokens.n; i++) world->ids[world->n++] = tokens.ids[i];
    tokens_free(&tokens);
}

/* world->logits after the text so far. */
static void feed_anew(World *world) {
    Error error;
    session_rewind(world->session, 0);
    CHECK(session_feed(world->session, world->ids, world->n, world->logits, 1, &error), "%s", error.message);
}

static int32_t likeliest(const World *world) {
    int32_t best = 0;
    for (size_t i = 1; i < world->n_vocab; i++)
        if (world->logits[i] > world->logits[best]) best = (int32_t)i;
    return best;
}

/* ln softmax(world->logits)[id]. */
static double logprob(const World *world, int32_t id) {
    double sum = 0;
    for (size_t i = 0; i < world->n_vocab; i++)
        sum += exp((double)world->logits[i] - (double)world->logits[id]);
    return -log(sum);
}

/* What the program prints for these arguments, NUL-terminated; it must end well and silently. */
static const char *output_of(const char *path, const char *arguments) {
    static char text[MAX_TEXT];
    char command[1024];
    snprintf(command, sizeof command, "\"${RUN:-./run}\" 2>&1 %s %s", path, arguments);
    FILE *pipe = popen(command, "r");
    size_t n = pipe ? fread(text, 1, sizeof text - 1, pipe) : 0;
    int status = pipe ? pclose(pipe) : -1;
    text[n] = '\0';
    CHECK(status == 0, "%s: status %d: %.200s", command, status, text);
    return text;
}

/* The numbers of a list in --json's object; returns how many. */
static size_t list_of(const char *json, const char *name, double values[MAX_TOKENS]) {
    char start[32];
    snprintf(start, sizeof start, "\"%s\": [", name);
    const char *at = strstr(json, start);
    size_t n = 0;
    CHECK(at != NULL, "no %s in %.200s", name, json);
    if (!at) return 0;
    for (at += strlen(start); *at != ']' && *at && n < MAX_TOKENS; at += *at == ',') {
        char *end;
        values[n++] = strtod(at, &end);
        if (end == at) return 0;
        at = end;
    }
    return n;
}

static void check_greedy(const char *path) {
    double ids[MAX_TOKENS], logprobs[MAX_TOKENS];
    World world = open_world(path);
    const char *json = output_of(path, "-p 'The sea' --temp 0 -n 60 --kv f32 --json");
    size_t n = list_of(json, "tokens", ids);
    CHECK(n == 60 && list_of(json, "logprobs", logprobs) == n, "%s: %zu tokens", path, n);
    encode(&world, "The sea", ENCODE_ENDS);
    for (size_t i = 0; i < n && !test_broken; i++) {
        feed_anew(&world);
        int32_t id = likeliest(&world);
        CHECK(ids[i] == id, "%s: token %zu is %.0f, not %d", path, i, ids[i], (int)id);
        CHECK_NEAR(logprobs[i], logprob(&world, id), 1e-5);
        world.ids[world.n++] = id;
    }
    close_world(&world);
}

static void test_greedy_tokens_and_their_logprobs(void) {
    check_greedy("tests/data/reference/gpt2-f32.gguf");
    check_greedy("tests/data/reference/llama-f32.gguf");
    check_greedy("tests/data/reference/gpt2-q4_0.gguf");
}

/* The context is full: the first 4 tokens stay, and the newer half of the others. */
static void drop_older_half(World *world) {
    size_t others = world->n - 4;
    memmove(world->ids + 4, world->ids + 4 + others / 2, others / 2 * sizeof *world->ids);
    world->n = 4 + others / 2;
}

static void check_shift(const char *path, size_t n_ctx) {
    char arguments[128];
    double ids[MAX_TOKENS];
    World world = open_world(path);
    snprintf(arguments, sizeof arguments, "-p 'One two' --temp 0 -n 100 --kv f32 --json --shift -c %zu",
             n_ctx);
    size_t n = list_of(output_of(path, arguments), "tokens", ids);
    CHECK(n == 100, "%s: %zu tokens", path, n);
    encode(&world, "One two", ENCODE_ENDS);
    for (size_t i = 0; i < n && !test_broken; i++) {
        feed_anew(&world);
        int32_t id = likeliest(&world);
        CHECK(ids[i] == id, "%s: context %zu: token %zu is %.0f, not %d", path, n_ctx, i, ids[i], (int)id);
        if (world.n == n_ctx) drop_older_half(&world);
        world.ids[world.n++] = id;
    }
    close_world(&world);
}

static void test_a_shifted_context_is_the_kept_text_fed_anew(void) {
    check_shift("tests/data/reference/gpt2-f32.gguf", 16);
    check_shift("tests/data/reference/gpt2-f32.gguf", 70);
    check_shift("tests/data/reference/llama-f32.gguf", 16);
    check_shift("tests/data/reference/llama-f32.gguf", 64);
}

/* The prompt counts as recent, and so does every token drawn, once. */
static void test_draws_are_the_samplers(void) {
    double ids[MAX_TOKENS];
    World world = open_world("tests/data/reference/gpt2-f32.gguf");
    const char *arguments =
        "-p 'a b a' -n 80 --kv f32 --json --temp 1.2 --top-k 100 --top-p 0.9 --min-p 0.01 "
        "--repeat-penalty 1.3 --presence-penalty 0.5 --frequency-penalty 0.25 "
        "--repeat-last-n 20 -s 99";
    SamplerOptions options = {1.2f, 100, 0.9f, 0.01f, 1.3f, 0.5f, 0.25f, 20, 99};
    Error error;
    Sampler *sampler = sampler_new(&options, world.n_vocab, &error);
    size_t n = list_of(output_of(world.path, arguments), "tokens", ids);
    CHECK(sampler && n == 80, "%zu tokens", n);
    encode(&world, "a b a", ENCODE_ENDS);
    for (size_t i = 0; i < world.n; i++) sampler_accept(sampler, world.ids[i]);
    for (size_t i = 0; i < n && !test_broken; i++) {
        feed_anew(&world);
        int32_t id = sampler_next(sampler, world.logits);
        CHECK(ids[i] == id, "token %zu is %.0f, not %d", i, ids[i], (int)id);
        sampler_accept(sampler, id);
        world.ids[world.n++] = id;
    }
    sampler_free(sampler);
    close_world(&world);
}

/* A typed line goes on where the text stopped, with all that came before it but the token that ended it. */
static void check_conversation(const char *path, size_t n_predict) {
    static const char *const lines[] = {"The sea", "one", "", "three"};
    char arguments[128];
    World world = open_world(path);
    snprintf(arguments, sizeof arguments,
             "-i --temp 0 -n %zu --kv f32 -p '%s' --no-echo <<'END'\n%s\n%s\n%s\nEND", n_predict, lines[0],
             lines[1], lines[2], lines[3]);
    const char *output = output_of(path, arguments);
    Detokenizer detokenizer = detokenizer_begin(world.tokenizer, false);
    TextBuffer text = {0};
    encode(&world, lines[0], ENCODE_ENDS);
    for (size_t i = 0; i < world.n; i++) detokenizer_push(&detokenizer, world.ids[i], &text);
    for (size_t line = 0; line < 4; line++) {
        if (line > 0) encode(&world, lines[line], 0);
        text.n = 0;
        for (size_t i = 0; i < n_predict; i++) {
            feed_anew(&world);
            int32_t id = likeliest(&world);
            if (tokenizer_is_end(world.tokenizer, id)) break;
            world.ids[world.n++] = id;
            CHECK(detokenizer_push(&detokenizer, id, &text), "no memory");
        }
        CHECK(detokenizer_end(&detokenizer, &text), "no memory");
        size_t n = text.n < strlen(output) ? text.n : strlen(output);
        CHECK(memcmp(text.data, output, n) == 0 && output[n] == '\n', "%s: after line %zu", path, line);
        output += output[n] ? n + 1 : n;
    }
    CHECK(*output == '\0', "%s: more: %.100s", path, output);
    free(text.data);
    close_world(&world);
}

static void test_a_conversation_is_one_text(void) {
    check_conversation("tests/data/reference/gpt2-f32.gguf", 4);
    check_conversation("tests/data/reference/llama-q8_0.gguf", 10); /* ends before that */
}

/* PyTorch's tokens as the bytes that they stand for, in a file of that name. */
static bool write_prompt(const World *world, const Tensor *tokens, const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    for (size_t i = 0; i < tokens->dims[0]; i++) {
        String piece = tokenizer_piece(world->tokenizer, (int32_t)((const float *)tokens->data)[i], true);
        fwrite(piece.data, 1, piece.n, file);
    }
    return fclose(file) == 0;
}

static void check_written_logits(const char *path, const char *expected_path, double bound) {
    Error error;
    char prompt[64], npy[64], arguments[256];
    World world = open_world(path);
    Checkpoint *expected = checkpoint_open(expected_path, &error);
    const Tensor *tokens = checkpoint_find(expected, "tokens"), *logits = checkpoint_find(expected, "logits");
    size_t n = tokens->dims[0] * world.n_vocab;
    snprintf(prompt, sizeof prompt, "%s/prompt", folder);
    snprintf(npy, sizeof npy, "%s/logits.npy", folder);
    snprintf(arguments, sizeof arguments, "-f %s --special --kv f32 -n 0 --logits %s", prompt, npy);
    CHECK(write_prompt(&world, tokens, prompt), "cannot write %s", prompt);
    output_of(world.path, arguments);

    float *values = calloc(n + 1, sizeof *values);
    FILE *file = fopen(npy, "rb");
    CHECK(file && fseek(file, 128, SEEK_SET) == 0 && fread(values, sizeof *values, n + 1, file) == n,
          "%s has not %zu values", npy, n);
    double worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double wanted = (double)((const float *)logits->data)[i];
        double off = fabs((double)values[i] - wanted);
        if (!(off <= worst)) worst = off; /* a NaN stays, and fails below */
        if (fabs(wanted) > largest) largest = fabs(wanted);
    }
    CHECK(worst < bound * largest, "%s: off by %g of %g", path, worst, largest);
    if (file) fclose(file);
    remove(npy);
    remove(prompt);
    free(values);
    checkpoint_close(expected);
    close_world(&world);
}

static void test_written_logits_are_pytorchs(void) { /* with test_reference.c's bounds */
    check_written_logits("tests/data/reference/gpt2-f32.gguf", "tests/data/reference/gpt2-f32.expected.gguf",
                         1e-5);
    check_written_logits("tests/data/reference/gpt2-q4_0.gguf",
                         "tests/data/reference/gpt2-q4_0.expected.gguf", 3e-4);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    setenv("ATTN_KERNEL", kernels_pick(NULL, NULL)->name, 1);
    RUN(test_greedy_tokens_and_their_logprobs);
    RUN(test_a_shifted_context_is_the_kept_text_fed_anew);
    RUN(test_draws_are_the_samplers);
    RUN(test_a_conversation_is_one_text);
    unsetenv("ATTN_KERNEL");
    RUN(test_written_logits_are_pytorchs);
    rmdir(folder);
    return test_end();
}
