/* Models that come without a path, or lack something; errors, NULL, and work that is stopped, as attn.h promises. */
#include "face.h"

#include <fcntl.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A copy of GPT2 in which a key has another name, so that it lacks it. */
static const char *without_key(const char *key) {
    static char path[] = "/tmp/attn-test-model-XXXXXX";
    static char bytes[1 << 20];
    FILE *file = fopen(GPT2, "rb");
    size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0, at = 0;
    if (file) fclose(file);
    while (at + strlen(key) < n && memcmp(bytes + at, key, strlen(key)) != 0) at++;
    CHECK(at + strlen(key) < n && n < sizeof bytes, "%s has no %s", GPT2, key);
    bytes[at] = '?';
    strcpy(strrchr(path, '-') + 1, "XXXXXX");
    int descriptor = mkstemp(path);
    CHECK(descriptor >= 0 && write(descriptor, bytes, n) == (ssize_t)n, "cannot write %s", path);
    close(descriptor);
    return path;
}

static void test_a_model_without_vocabulary(void) {
    const char *path = without_key("tokenizer.ggml.model");
    World world = open_world(path, NULL);
    AttnError error = {""};
    float logits[MAX_VOCAB], wanted[3 * MAX_VOCAB];
    int32_t tokens[] = {50, 60, 70};
    size_t n = 7;
    engine_logits(GPT2, tokens, 3, DTYPE_F16, kernels_pick(NULL, NULL), wanted);
    CHECK(attn_feed(world.session, tokens, 3, logits, 1, &error), "%s", error.message);
    CHECK(memcmp(logits, wanted + 2 * world.n_vocab, world.n_vocab * sizeof *logits) == 0, "other logits");
    CHECK(!attn_tokenize(world.model, "a", 1, 0, tokens, 3, &n, &error) && n == 7, "tokens");
    CHECK(strstr(error.message, "no vocabulary") && strstr(error.message, "with a `tokenizer`"), "%s",
          error.message);
    error.message[0] = '\0';
    CHECK(!attn_generate(world.session, "a", NULL, NULL, &error) && strstr(error.message, "no vocabulary"),
          "%s", error.message);
    check_error(!attn_generate_from(world.session, tokens, 3, NULL, NULL, &error), &error, "no vocabulary");
    check_error(!attn_chat(world.model, &(AttnMessage){"user", "a", NULL}, 1, NULL, tokens, 3, &n, &error),
                &error, "no vocabulary");
    CHECK(attn_token_text(world.model, 64, &n) && n == 0, "%zu", n);
    CHECK(attn_token_bos(world.model) == -1 && attn_token_eos(world.model) == -1, "it has ends");
    CHECK(!attn_token_is_end(world.model, 256), "it has ends");
    close_world(&world);

    AttnModel *model = attn_model_open(path, &(AttnModelOptions){.tokenizer = GPT2}, &error);
    CHECK(model && attn_token_eos(model) == 256, "%s", error.message);
    attn_model_close(model);
    model = attn_model_open(path, &(AttnModelOptions){.tokenizer = LLAMA}, &error);
    CHECK(!model && strstr(error.message, "261"), "%s", error.message);
    remove(path);
}

/* A model gives the logits of the story that it gives when it is opened by its path. */
static void check_same_model(AttnModel *model, const char *path) {
    static float logits[MAX_VOCAB], wanted[3 * MAX_VOCAB];
    int32_t tokens[MAX_TOKENS];
    size_t n = model ? tokens_of(model, story, tokens) : 0, n_vocab = attn_model_shape(model).n_vocab;
    CHECK(model != NULL, "%s is not open", path);
    if (!model) return;
    AttnSession *session = attn_session_new(model, NULL, NULL);
    CHECK(attn_feed(session, tokens, n, logits, 1, NULL), "cannot feed");
    engine_logits(path, tokens, n, DTYPE_F16, kernels_pick(NULL, NULL), wanted);
    CHECK(memcmp(logits, wanted + 2 * n_vocab, n_vocab * sizeof *logits) == 0, "%s: other logits", path);
    attn_session_free(session);
    attn_model_close(model);
}

static void test_models_without_a_path(void) {
    AttnError e;
    for (size_t i = 0; i < N_MODELS; i++) {
        size_t n;
        char *bytes = read_whole(models[i], &n);
        check_same_model(attn_model_open_memory(bytes, n, NULL, NULL, &e), models[i]);
        int descriptor = open(models[i], O_RDONLY);
        CHECK(lseek(descriptor, 100, SEEK_SET) == 100, "cannot seek"); /* which changes nothing */
        AttnModel *model = attn_model_open_descriptor(descriptor, NULL, NULL, &e);
        CHECK(fcntl(descriptor, F_GETFD) >= 0 && close(descriptor) == 0, "the library has closed it");
        check_same_model(model, models[i]);
        free(bytes);
    }

    size_t n;
    char *bytes = read_whole(GPT2, &n);
    static const char texts[] =
        "words that are no model at all, but long enough to be looked at as if they were one";
    static _Alignas(16) unsigned char safetensors[] = "\2\0\0\0\0\0\0\0{}", torch[16] = "PK\3\4";
    int ends[2];
    check_error(!attn_model_open_memory(bytes, n - 1, "bytes", NULL, &e), &e, "bytes: ");
    check_error(!attn_model_open_memory(bytes, 0, "bytes", NULL, &e), &e, "bytes: the file is empty");
    check_error(!attn_model_open_memory(bytes + 8, n - 8, NULL, NULL, &e), &e, "model: the bytes must begin");
    check_error(!attn_model_open_memory(NULL, 5, NULL, NULL, &e), &e, "no bytes");
    memcpy(bytes, texts, sizeof texts);
    check_error(!attn_model_open_memory(bytes, sizeof texts, "words", NULL, &e), &e, "words: ");
    check_error(!attn_model_open_memory(safetensors, 10, "part", NULL, &e), &e, "part: weights of a folder");
    check_error(!attn_model_open_memory(torch, 16, "part", NULL, &e), &e, "part: weights of a folder");
    check_error(!attn_model_open_descriptor(-1, "none", NULL, &e), &e, "none: cannot examine");
    CHECK(pipe(ends) == 0, "no pipe");
    check_error(!attn_model_open_descriptor(ends[0], "pipe", NULL, &e), &e, "pipe: not a regular file");
    close(ends[0]), close(ends[1]);
    free(bytes);
}

static void test_errors(void) {
    World world = open_world(GPT2, &(AttnSessionOptions){.n_ctx = 8});
    AttnSession *session = world.session;
    AttnError e;
    float logits[MAX_VOCAB];
    int32_t good[9] = {1, 2, 3}, bad[] = {5, 257}, negative[] = {-1};
    check_error(!attn_model_open("none.gguf", NULL, &e), &e, "none.gguf");
    check_error(!attn_model_open(NULL, NULL, &e), &e, "no file");
    check_error(!attn_model_open("", NULL, &e), &e, "no file is named: the path is empty");
    check_error(!attn_model_open(GPT2, &(AttnModelOptions){.tokenizer = ""}, &e), &e, "the path is empty");
    check_error(!attn_model_open("Makefile", NULL, &e), &e, "Makefile");
    check_error(!attn_model_open(GPT2, &(AttnModelOptions){.tokenizer = "none"}, &e), &e, "none");
    check_error(!attn_session_new(world.model, &(AttnSessionOptions){.n_ctx = 193}, &e), &e, "192");
    check_error(!attn_session_new(world.model, &(AttnSessionOptions){.n_ctx = SIZE_MAX}, &e), &e, "192");
    check_error(!attn_session_new(world.model, &(AttnSessionOptions){.cache = (AttnCache)3}, &e), &e,
                "no cache 3");
    AttnMemory memory = {7, 7};
    check_error(!attn_session_memory(world.model, &(AttnSessionOptions){.n_ctx = 193}, &memory, &e), &e,
                "192");
    check_error(!attn_session_memory(world.model, &(AttnSessionOptions){.cache = (AttnCache)3}, &memory, &e),
                &e, "no cache 3");
    World other = open_world(LLAMA, NULL);
    check_error(
        !attn_session_memory(world.model, &(AttnSessionOptions){.beside = other.session}, &memory, &e), &e,
        "another model");
    close_world(&other);
    CHECK(memory.cache == 7 && memory.rest == 7, "what fails tells");
    size_t n_tokens = 7;
    check_error(!attn_tokenize(world.model, "a", 1, 4, NULL, 0, &n_tokens, &e), &e, "no such flags");
    check_error(!attn_generate(session, "a", &(AttnGenerateOptions){.speculate = (AttnSpeculate)3}, NULL, &e),
                &e, "speculate is 3");
    check_error(!attn_hidden(session, bad, 2, logits, &e), &e, "257");
    check_error(!attn_hidden(session, good, 0, logits, &e), &e, "no tokens");
    CHECK(attn_feed(session, good, 3, NULL, 0, &e), "%s", e.message);
    check_error(!attn_feed(session, bad, 2, logits, 1, &e), &e, "257");
    check_error(!attn_feed(session, negative, 1, logits, 1, &e), &e, "-1");
    check_error(!attn_feed(session, good, 9, logits, 1, &e), &e, "context of 8");
    check_error(!attn_feed(session, good, 0, logits, 0, &e), &e, "no tokens");
    check_error(!attn_sync(session, good, 9, logits, &e), &e, "context of 8");
    check_error(!attn_sync(session, good, 0, logits, &e), &e, "no tokens");
    CHECK(holds(session, good, 3), "what failed was fed");
    check_error(!attn_generate(session, NULL, NULL, NULL, &e), &e, "no prompt");
    check_error(!attn_generate(session, "123456789", NULL, NULL, &e), &e, "context of 8");
    check_error(!attn_generate_from(session, good, 0, NULL, NULL, &e), &e, "no tokens");
    check_error(!attn_generate_from(session, bad, 2, NULL, NULL, &e), &e, "257");
    AttnGenerateOptions empty = {.stop = (const char *[]){"x", ""}, .n_stop = 2};
    check_error(!attn_generate(session, "1", &empty, NULL, &e), &e, "stop");
    AttnGenerateOptions none = {.stop = (const char *[]){NULL}, .n_stop = 1};
    check_error(!attn_generate(session, "1", &none, NULL, &e), &e, "stop");
    AttnMemory usual = {0}, same = {0};
    CHECK(attn_session_memory(world.model, NULL, &usual, &e) &&
              attn_session_memory(world.model, &(AttnSessionOptions){0}, &same, &e) && usual.cache > 0 &&
              usual.cache == same.cache && usual.rest == same.rest,
          "%zu bytes of a cache", usual.cache);
    AttnSampler *likeliest = attn_sampler_new(world.model, NULL, &e);
    for (size_t i = 0; i < world.n_vocab; i++) logits[i] = i == 7 ? 3 : (float)(i % 5) / 2;
    CHECK(attn_sample(likeliest, logits) == 7, "another than the likeliest");
    attn_sampler_free(likeliest);
    check_error(!attn_sampler_new(world.model, &(AttnSampling){.penalty_window = SIZE_MAX}, &e), &e,
                "memory");
    const struct {
        AttnSampling sampling;
        const char *why;
    } nonsense[] = {{{.min_p = 1.5f}, "min_p is 1.5, and not in 0 to 1"},
                    {{.min_p = NAN}, "min_p is nan"},
                    {{.top_p = -0.5f}, "top_p is -0.5"},
                    {{.temperature = -1}, "temperature is -1"},
                    {{.temperature = INFINITY}, "temperature is inf"},
                    {{.repeat_penalty = -2}, "repeat_penalty is -2"},
                    {{.presence_penalty = NAN}, "presence_penalty is nan"},
                    {{.frequency_penalty = -INFINITY}, "frequency_penalty is -inf"},
                    {{.order = 0x62}, "does not exist"},
                    {{.order = 0x203}, "does not exist"}};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        const AttnGenerateOptions drawn = {.sampling = nonsense[i].sampling};
        check_error(!attn_sampler_new(world.model, &nonsense[i].sampling, &e), &e, nonsense[i].why);
        check_error(!attn_generate(session, "1", &drawn, NULL, &e), &e, nonsense[i].why);
    }
    const char *path = without_key("tokenizer.ggml.bos_token_id");
    World endless = open_world(path, NULL);
    check_error(!attn_generate(endless.session, "", NULL, NULL, &e), &e, "prompt is empty");
    close_world(&endless);
    remove(path);
    CHECK(!attn_feed(session, bad, 2, logits, 1, NULL), "an error that is not told is none");
    close_world(&world);
}

/* The positions of the family are not learned, so that any context will do that there is memory for. */
static void test_a_context_without_end(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("sanitizers end the program where calloc would return NULL");
#else
    World world = open_world(LLAMA, NULL);
    AttnError error;
    check_error(!attn_session_new(world.model, &(AttnSessionOptions){.n_ctx = SIZE_MAX}, &error), &error,
                "memory");
    close_world(&world);
#endif
}

static void test_null(void) {
    AttnError error = {"as it was"};
    int32_t tokens[1] = {0};
    float numbers[1] = {0};
    size_t n = 7;
    CHECK(!attn_session_new(NULL, NULL, &error) && !attn_sampler_new(NULL, NULL, &error), "made of nothing");
    CHECK(!attn_tokenize(NULL, "a", 1, 0, tokens, 1, &n, &error) && n == 7, "tokens");
    CHECK(!attn_feed(NULL, tokens, 1, numbers, 1, &error), "fed");
    CHECK(!attn_feed_many(&(AttnPart){NULL, tokens, 1, numbers, 1}, 1, &error), "fed in parts");
    CHECK(!attn_sync(NULL, tokens, 1, numbers, &error), "fed");
    CHECK(!attn_unembed(NULL, numbers, 1, numbers), "logits");
    CHECK(!attn_hidden(NULL, tokens, 1, numbers, &error), "a hidden state");
    CHECK(!attn_session_memory(NULL, NULL, &(AttnMemory){0, 0}, &error), "memory");
    CHECK(!attn_generate(NULL, "a", NULL, NULL, &error), "text");
    CHECK(!attn_generate_from(NULL, tokens, 1, NULL, NULL, &error), "text");
    CHECK(!attn_session_fork(NULL, NULL, &error) && attn_session_bytes(NULL) == 0, "a copy");
    CHECK(!attn_session_save(NULL, NULL, NULL, &error) && !attn_session_restore(NULL, NULL, NULL, &error),
          "kept");
    CHECK(strcmp(error.message, "as it was") == 0, "%s", error.message);
    CHECK(attn_model_shape(NULL).n_layer == 0 && attn_model_architecture(NULL)[0] == '\0', "a shape");
    CHECK(attn_token_text(NULL, 0, &n) && n == 0, "%zu", n);
    CHECK(attn_token_bos(NULL) == -1 && attn_token_eos(NULL) == -1 && !attn_token_is_end(NULL, 0), "ends");
    n = 7;
    CHECK(!attn_session_tokens(NULL, &n) && n == 0 && attn_session_n_ctx(NULL) == 0, "%zu", n);
    CHECK(attn_sample(NULL, numbers) == -1, "a token");
    CHECK(!attn_sampling(NULL, &(AttnSampling){0}, NULL), "how to sample from nothing");
    attn_sampler_accept(NULL, 0);
    attn_rewind(NULL, 0);
    attn_session_free(NULL);
    attn_sampler_free(NULL);
    attn_model_close(NULL);
}

/* The call of that number, and those behind it, stop. */
static bool stop_from(void *user) {
    int *left = user;
    return (*left)-- <= 0;
}

/* A prompt is given up after its first layer; asked again, the session gives the same logits. */
static void test_stop(void) {
    int left = 1;
    AttnError error = {{0}};
    World world = open_world(GPT2, &(AttnSessionOptions){.stop = stop_from, .stop_user = &left}),
          plain = open_world(GPT2, NULL);
    int32_t tokens[MAX_TOKENS];
    float stopped[MAX_VOCAB], wanted[MAX_VOCAB];
    size_t n = tokens_of(world.model, story, tokens), held;
    CHECK(!attn_generate(world.session, story, NULL, NULL, &error), "was not stopped");
    CHECK(strcmp(error.message, "interrupted") == 0, "%s", error.message);
    attn_session_tokens(world.session, &held);
    CHECK(held == 0, "%zu tokens", held);
    left = 1000;
    CHECK(attn_sync(world.session, tokens, n, stopped, &error), "%s", error.message);
    CHECK(attn_sync(plain.session, tokens, n, wanted, &error), "%s", error.message);
    CHECK(memcmp(stopped, wanted, world.n_vocab * sizeof *wanted) == 0, "logits differ");
    close_world(&world);
    close_world(&plain);
}

/* Whether a forked child, which runs `work`, ends by itself and says that all is well. */
static bool child_does(bool (*work)(World *, const float *), World *world, const float *wanted) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(work(world, wanted) ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool goes_on(World *world, const float *wanted) {
    float logits[MAX_VOCAB];
    const int32_t token = 60;
    bool ok = attn_feed(world->session, &token, 1, logits, 1, NULL) &&
              memcmp(logits, wanted, world->n_vocab * sizeof *wanted) == 0;
    close_world(world);
    return ok;
}

/* A child has none of the pool's threads, and goes on without them. */
static void test_forked_child(void) {
    World world = open_world(GPT2, &(AttnSessionOptions){.n_threads = 3});
    const int32_t tokens[] = {50, 60, 70};
    float logits[2 * MAX_VOCAB];
    CHECK(attn_feed(world.session, tokens, 2, logits, 2, NULL), "not fed");
    attn_rewind(world.session, 1);
    for (int i = 0; i < 5; i++) CHECK(child_does(goes_on, &world, logits + world.n_vocab), "child %d", i);
    CHECK(goes_on(&world, logits + world.n_vocab), "the parent");
}

enum { HELD = 99 /* tokens of the default model: their keys and values are more than forks copy */ };

static bool forks_within_limit(World *world, const float *wanted) {
    const struct rlimit limit = {4096, 4096};
    float *logits = malloc(world->n_vocab * sizeof *logits);
    setrlimit(RLIMIT_FSIZE, &limit);
    AttnSession *fork = attn_session_fork(world->session, NULL, NULL);
    const int32_t token = 60;
    return fork && attn_feed(fork, &token, 1, logits, 1, NULL) &&
           memcmp(logits, wanted, world->n_vocab * sizeof *wanted) == 0;
}

/* A process that may write no large files: its forks have their keys by copy. */
static void test_file_limit(void) {
    World world = {.model = attn_model_open("weights/model.gguf", NULL, NULL)};
    world.session = attn_session_new(world.model, NULL, NULL);
    world.n_vocab = attn_model_shape(world.model).n_vocab;
    int32_t tokens[HELD + 1];
    float *logits = malloc(world.n_vocab * sizeof *logits);
    for (int i = 0; i <= HELD; i++) tokens[i] = i == HELD ? 60 : i;
    CHECK(attn_feed(world.session, tokens, HELD + 1, logits, 1, NULL), "not fed");
    attn_rewind(world.session, HELD);
    CHECK(child_does(forks_within_limit, &world, logits), "no fork of it");
    free(logits);
    close_world(&world);
}

static int spoils;
static bool wants_stream(void *user, AttnSite site, size_t layer, size_t head) {
    return (void)user, (void)head, site == ATTN_RESID_PRE && layer == 0;
}
static void spoil(void *user, const AttnActivation *activation) {
    (void)user;
    if (spoils) activation->data[0] = INFINITY;
}

/* After hidden states that are not finite the same call succeeds, once the cause is gone. */
static void test_hidden_again(void) {
    AttnError error = {""};
    World world = open_world(GPT2, &(AttnSessionOptions){.probe = {.wants = wants_stream, .visit = spoil}});
    const int32_t tokens[] = {50, 60, 70, 80};
    float hidden[MAX_VOCAB];
    size_t held;
    spoils = 1;
    check_error(!attn_hidden(world.session, tokens, 4, hidden, &error), &error, "not finite");
    attn_session_tokens(world.session, &held);
    CHECK(held == 0, "%zu tokens", held);
    spoils = 0;
    CHECK(attn_hidden(world.session, tokens, 4, hidden, &error), "%s", error.message);
    close_world(&world);
}

int main(void) {
    RUN(test_a_model_without_vocabulary);
    RUN(test_models_without_a_path);
    RUN(test_errors);
    RUN(test_stop);
    RUN(test_a_context_without_end);
    RUN(test_null);
    RUN(test_forked_child);
    RUN(test_file_limit);
    RUN(test_hidden_again);
    return test_end();
}
