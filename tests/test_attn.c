/*
 * The public face against what stands behind it: tokens, logits and texts are those of the engine and of the program, to
 * the bit; and what attn.h promises about NULL, errors, callbacks and threads.
 */
#include "attn.h"

#include "model.h"
#include "sampler.h"
#include "tests/test.h"
#include "tokenizer.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

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

static World open_world(const char *path, const AttnSessionOptions *options) {
    AttnError error;
    World world = {.model = attn_model_open(path, NULL, &error)};
    world.session = attn_session_new(world.model, options, &error);
    world.n_vocab = attn_model_shape(world.model).n_vocab;
    if (world.session && world.n_vocab <= MAX_VOCAB) return world;
    printf("%s: %s\n", path, error.message);
    exit(1);
}

static void close_world(World *world) {
    attn_session_free(world->session);
    attn_model_close(world->model);
}

static size_t tokens_of(const AttnModel *model, const char *text, int32_t tokens[MAX_TOKENS]) {
    AttnError error;
    size_t n = 0;
    bool ok = attn_tokenize(model, text, strlen(text), ATTN_TOKENIZE_ENDS, tokens, MAX_TOKENS, &n, &error);
    CHECK(ok && n > 0 && n <= MAX_TOKENS, "%s", error.message);
    return n;
}

/* Whether a session holds exactly these tokens. */
static bool holds(const AttnSession *session, const int32_t *tokens, size_t n) {
    size_t n_held;
    const int32_t *held = attn_session_tokens(session, &n_held);
    return n_held == n && memcmp(held, tokens, n * sizeof *tokens) == 0;
}

/* The n bytes that the program named by RUN prints. */
static const char *output_of(const char *arguments, const char *path, size_t *n) {
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

static void test_tokens_are_the_programs(void) {
    if (!getenv("RUN")) SKIP("RUN names no program");
    for (size_t i = 0; i < N_MODELS; i++) {
        AttnModel *model = attn_model_open(models[i], NULL, NULL);
        int32_t tokens[MAX_TOKENS];
        char arguments[256];
        size_t n = tokens_of(model, story, tokens), length;
        snprintf(arguments, sizeof arguments, "--tokens -p '%s'", story);
        const char *at = output_of(arguments, models[i], &length);
        for (size_t j = 0; j < n; j++) {
            char *end;
            CHECK(strtol(at, &end, 10) == tokens[j] && end > at, "%s: token %zu is %d, not %.9s", models[i],
                  j, (int)tokens[j], at);
            at = end;
        }
        CHECK(strcmp(at, "\n") == 0, "%s: more: %s", models[i], at);
        attn_model_close(model);
    }
}

static void test_tokenizing(void) {
    int32_t tokens[4] = {-7, -7, -7, -7};
    size_t n = 0, length;
    AttnModel *gpt2 = attn_model_open(GPT2, NULL, NULL), *llama = attn_model_open(LLAMA, NULL, NULL);
    CHECK(attn_tokenize(gpt2, "abcd", 4, 0, NULL, 0, &n, NULL) && n == 4, "%zu", n);
    CHECK(attn_tokenize(gpt2, "abcd", 4, 0, tokens, 2, &n, NULL) && n == 4, "%zu", n);
    CHECK(tokens[0] == 64 && tokens[1] == 65 && tokens[2] == -7, "%d %d %d", (int)tokens[0], (int)tokens[1],
          (int)tokens[2]);
    CHECK(attn_tokenize(gpt2, "a\0b", 3, 0, tokens, 4, &n, NULL) && n == 3, "a NUL is a byte: %zu", n);
    CHECK(attn_tokenize(gpt2, "", 0, 0, tokens, 4, &n, NULL) && n == 0, "%zu", n);
    CHECK(attn_tokenize(gpt2, "<|endoftext|>", 13, 0, NULL, 0, &n, NULL) && n == 13, "%zu", n);
    CHECK(attn_tokenize(gpt2, "<|endoftext|>", 13, ATTN_TOKENIZE_SPECIAL, tokens, 4, &n, NULL) && n == 1 &&
              tokens[0] == attn_token_eos(gpt2),
          "%zu", n);
    CHECK(attn_tokenize(llama, "a", 1, ATTN_TOKENIZE_ENDS, tokens, 4, &n, NULL) && tokens[0] == 1, "no BOS");
    size_t n_without;
    CHECK(attn_tokenize(llama, "a", 1, 0, tokens, 4, &n_without, NULL) && n_without + 1 == n, "%zu",
          n_without);

    CHECK(attn_token_bos(llama) == 1 && attn_token_eos(llama) == 2 && attn_token_is_end(llama, 2),
          "bos, eos");
    CHECK(attn_token_eos(gpt2) == 256 && attn_token_is_end(gpt2, 256) && !attn_token_is_end(gpt2, 64), "eos");
    CHECK(strncmp(attn_token_text(gpt2, 64, &length), "a", 1) == 0 && length == 1, "%zu", length);
    CHECK(strncmp(attn_token_text(gpt2, 256, &length), "<|endoftext|>", 13) == 0 && length == 13, "%zu",
          length);
    CHECK(attn_token_text(gpt2, 257, &length) && length == 0, "%zu", length);
    CHECK(attn_token_text(gpt2, -1, &length) && length == 0, "%zu", length);
    attn_model_close(gpt2);
    attn_model_close(llama);
}

static void test_shapes(void) {
    AttnModel *model = attn_model_open(LLAMA, NULL, NULL);
    AttnShape shape = attn_model_shape(model);
    CHECK(shape.n_layer == 2 && shape.n_head == 4 && shape.n_head_kv == 2 && shape.n_vocab == 261,
          "%zu %zu %zu %zu", shape.n_layer, shape.n_head, shape.n_head_kv, shape.n_vocab);
    CHECK(shape.d_model == 72 && shape.d_head == 20 && shape.d_ff == 60 && shape.n_ctx == 192,
          "%zu %zu %zu %zu", shape.d_model, shape.d_head, shape.d_ff, shape.n_ctx);
    CHECK(strcmp(attn_model_architecture(model), "llama") == 0, "%s", attn_model_architecture(model));
    CHECK(strcmp(attn_version(), ATTN_VERSION) == 0, "%s", attn_version());
    for (int site = 0; site <= ATTN_LOGITS; site++)
        CHECK(strcmp(attn_site_name((AttnSite)site), probe_site_name((ProbeSite)site)) == 0, "site %d", site);
    CHECK(strcmp(attn_site_name(ATTN_PATTERN), "pattern") == 0, "%s", attn_site_name(ATTN_PATTERN));
    CHECK(attn_site_name((AttnSite)99)[0] == '\0', "a site that does not exist has a name");
    attn_model_close(model);
}

/* The last 3 logits of a text, by the engine itself. */
static void engine_logits(const char *path, const int32_t *tokens, size_t n, DType kv, const Kernels *kernels,
                          float *logits) {
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

static void test_logits_are_the_engines(void) {
    for (size_t i = 0; i < N_MODELS; i++)
        for (unsigned way = 0; way < 6; way++) {
            AttnSessionOptions options = {
                .n_threads = way % 3, .cache = (AttnCache)(way % 3), .fast = way >= 4};
            World world = open_world(models[i], &options);
            int32_t tokens[MAX_TOKENS];
            float logits[3 * MAX_VOCAB], wanted[3 * MAX_VOCAB];
            AttnError error;
            size_t n = tokens_of(world.model, story, tokens);
            engine_logits(models[i], tokens, n, (DType[]){DTYPE_F16, DTYPE_F32, DTYPE_Q8_0}[options.cache],
                          options.fast ? kernels_fastest() : kernels_pick(NULL, NULL), wanted);
            CHECK(attn_feed(world.session, tokens, n, logits, 3, &error), "%s", error.message);
            CHECK(memcmp(logits, wanted, 3 * world.n_vocab * sizeof *logits) == 0, "%s, way %u", models[i],
                  way);
            CHECK(holds(world.session, tokens, n), "%s", models[i]);
            close_world(&world);
        }
}

/* A probe of the tests: what it has seen, and does. */
typedef struct Watch {
    size_t n_visits[ATTN_LOGITS + 1], n_rows; /* rows: of resid_pre in layer 0, that is tokens fed */
    bool only_rows, changes;
    size_t layer;             /* of which: */
    float resid[1024], added; /* [d_model] the last row of resid_post; added to each number there */
    const AttnShape *shape;
} Watch;

static bool watch_wants(void *user, AttnSite site, size_t layer, size_t head) {
    const Watch *watch = user;
    (void)head;
    return watch->only_rows ? site == ATTN_RESID_PRE && layer == 0
                            : (site == ATTN_RESID_POST && layer == watch->layer) || site == ATTN_LOGITS;
}

static void watch_visit(void *user, const AttnActivation *seen) {
    Watch *watch = user;
    watch->n_visits[seen->site]++;
    if (seen->site == ATTN_RESID_PRE && seen->layer == 0) watch->n_rows += seen->n_rows;
    if (seen->site != ATTN_RESID_POST) return;
    for (size_t row = 0; row < seen->n_rows; row++) {
        float *data = seen->data + row * seen->stride;
        memcpy(watch->resid, data, seen->n_cols * sizeof *data);
        for (size_t i = 0; i < seen->n_cols; i++) data[i] += watch->added * (float)(i % 2);
    }
}

/* Feeds the story; looking alone changes no bit. */
static void check_probe(const char *path, Watch *watch, bool changes) {
    AttnSessionOptions options = {.probe = {watch, watch ? watch_wants : NULL, watch ? watch_visit : NULL}};
    World plain = open_world(path, NULL), watched = open_world(path, &options);
    int32_t tokens[MAX_TOKENS];
    float logits[2][MAX_VOCAB], unembedded[MAX_VOCAB];
    size_t n = tokens_of(plain.model, story, tokens);
    watch->layer = attn_model_shape(plain.model).n_layer - 1;
    CHECK(attn_feed(plain.session, tokens, n, logits[0], 1, NULL), "cannot feed");
    CHECK(attn_feed(watched.session, tokens, n, logits[1], 1, NULL), "cannot feed");
    bool same = memcmp(logits[0], logits[1], plain.n_vocab * sizeof(float)) == 0;
    CHECK(same != changes, "%s: logits are %s", path, same ? "the same" : "changed");
    CHECK(watch->n_visits[ATTN_RESID_POST] == 1 && watch->n_visits[ATTN_LOGITS] == 1, "%zu and %zu visits",
          watch->n_visits[ATTN_RESID_POST], watch->n_visits[ATTN_LOGITS]);
    CHECK(attn_unembed(plain.session, watch->resid, 1, unembedded), "no logits of a residual vector");
    CHECK(memcmp(logits[0], unembedded, plain.n_vocab * sizeof(float)) == 0, "%s: another vector", path);
    close_world(&plain);
    close_world(&watched);
}

static void test_probes_see_and_change(void) {
    for (size_t i = 0; i < N_MODELS; i++) {
        check_probe(models[i], &(Watch){.added = 0}, false);
        check_probe(models[i], &(Watch){.added = 0.5f}, true);
    }
}

static void check_place(void *user, const AttnActivation *seen) {
    Watch *watch = user;
    const AttnShape *shape = watch->shape;
    bool of_kv = seen->site == ATTN_K || seen->site == ATTN_V || seen->site == ATTN_ROT_K;
    size_t n_heads = of_kv ? shape->n_head_kv : shape->n_head;
    bool of_pattern = seen->site == ATTN_SCORES || seen->site == ATTN_PATTERN;
    CHECK(seen->layer < shape->n_layer || (seen->layer == shape->n_layer && seen->site == ATTN_LOGITS), "%zu",
          seen->layer);
    CHECK(seen->head < n_heads && seen->stride >= seen->n_cols, "head %zu, stride %zu", seen->head,
          seen->stride);
    CHECK(!of_pattern || (seen->n_rows == 1 && seen->n_cols == seen->position + 1), "%zu rows of %zu at %zu",
          seen->n_rows, seen->n_cols, seen->position);
    double sum = 0;
    for (size_t i = 0; seen->site == ATTN_PATTERN && i < seen->n_cols; i++) sum += (double)seen->data[i];
    if (seen->site == ATTN_PATTERN) CHECK_NEAR(sum, 1, 1e-5);
    watch->n_visits[seen->site]++;
}

/* Without `wants` everything is visited: each site in each layer, each head, and each row of scores. */
static void test_all_is_seen(void) {
    int32_t tokens[MAX_TOKENS];
    Watch watch = {0};
    AttnSessionOptions options = {.probe = {.user = &watch, .visit = check_place}};
    World world = open_world(LLAMA, &options);
    AttnShape shape = attn_model_shape(world.model);
    watch.shape = &shape;
    size_t n = tokens_of(world.model, story, tokens);
    CHECK(attn_feed(world.session, tokens, n, NULL, 0, NULL), "cannot feed");
    for (int site = 0; site <= ATTN_LOGITS; site++) {
        size_t wanted = shape.n_layer;
        if (site == ATTN_EMBED) wanted = 1;
        if (site == ATTN_POS_EMBED) wanted = 0; /* RoPE has none */
        if (site == ATTN_Q || site == ATTN_ROT_Q || site == ATTN_Z) wanted *= shape.n_head;
        if (site == ATTN_K || site == ATTN_V || site == ATTN_ROT_K) wanted *= shape.n_head_kv;
        if (site == ATTN_RESULT) wanted *= shape.n_head * ((n + 15) / 16); /* 16 tokens at a time */
        if (site == ATTN_SCORES || site == ATTN_PATTERN) wanted *= shape.n_head * n;
        if (site == ATTN_LOGITS || site == ATTN_FINAL_SCALE) wanted = 0;    /* nobody asked for them */
        if (site == ATTN_ROUTER || site == ATTN_EXPERT_WEIGHTS) wanted = 0; /* there are none */
        CHECK(watch.n_visits[site] == wanted, "%s: %zu visits, not %zu", attn_site_name((AttnSite)site),
              watch.n_visits[site], wanted);
    }
    close_world(&world);
}

typedef struct Copied {
    AttnCopies copies;  /* first: it is the probe's user */
    float *pattern, *z; /* [n_head][n][n], [n][n_head][d_head] of the last layer */
    size_t n, n_head, n_handed_on;
} Copied;

static bool wants_three(void *user, AttnSite site, size_t layer, size_t head) {
    const Copied *copied = user;
    (void)head;
    return layer + 1 == copied->copies.n_layer && (site == ATTN_PATTERN || site == ATTN_Z || site == ATTN_Q);
}

static void count_handed_on(void *user, const AttnActivation *seen) {
    Copied *copied = user;
    CHECK(seen->site == ATTN_Q, "%s is handed on", attn_site_name(seen->site));
    copied->n_handed_on++;
}

/* A copy is what is visited, and nothing is written beside it. */
static void see_pattern_and_z(void *user, const AttnActivation *seen) {
    Copied *copied = user;
    if (seen->site == ATTN_PATTERN) {
        const float *row = copied->pattern + (seen->head * copied->n + seen->position) * copied->n;
        CHECK(memcmp(row, seen->data, seen->n_cols * sizeof *row) == 0, "row %zu of head %zu", seen->position,
              seen->head);
        for (size_t key = seen->n_cols; key < copied->n; key++)
            CHECK(row[key] == -1, "key %zu is written", key);
    }
    for (size_t i = 0; seen->site == ATTN_Z && i < seen->n_rows; i++)
        CHECK(memcmp(copied->z + ((seen->position + i) * copied->n_head + seen->head) * seen->n_cols,
                     seen->data + i * seen->stride, seen->n_cols * sizeof(float)) == 0,
              "z of head %zu at %zu", seen->head, seen->position + i);
}

static void test_copies(void) {
    int32_t tokens[MAX_TOKENS];
    Copied copied = {.n_handed_on = 0};
    AttnSessionOptions options = {.probe = {&copied, wants_three, attn_copy}, .cache = ATTN_CACHE_F32};
    World world = open_world(GPT2, &options);
    AttnShape shape = attn_model_shape(world.model);
    size_t n = tokens_of(world.model, story, tokens), layer = shape.n_layer - 1,
           row = shape.n_head * shape.d_head;
    copied.n = n, copied.n_head = shape.n_head;
    copied.pattern = malloc(shape.n_head * n * n * sizeof *copied.pattern),
    copied.z = malloc(n * row * sizeof *copied.z);
    for (size_t i = 0; i < shape.n_head * n * n; i++) copied.pattern[i] = -1;
    AttnCopy places[(ATTN_LOGITS + 1) * 8] = {{NULL, 0, 0}};
    places[ATTN_PATTERN * (shape.n_layer + 1) + layer] = (AttnCopy){copied.pattern, n * n, n};
    places[ATTN_Z * (shape.n_layer + 1) + layer] = (AttnCopy){copied.z, shape.d_head, row};
    copied.copies = (AttnCopies){shape.n_layer, places, count_handed_on, &copied};
    CHECK(shape.n_layer < 8 && attn_feed(world.session, tokens, n, NULL, 0, NULL), "cannot feed");
    CHECK(copied.n_handed_on == shape.n_head, "%zu handed on", copied.n_handed_on);
    copied.copies.visit = NULL;
    attn_rewind(world.session, 0);
    CHECK(attn_feed(world.session, tokens, n, NULL, 0, NULL), "cannot feed again");
    close_world(&world);
    AttnSessionOptions seeing = {.probe = {&copied, wants_three, see_pattern_and_z}, .cache = ATTN_CACHE_F32};
    world = open_world(GPT2, &seeing);
    CHECK(attn_feed(world.session, tokens, n, NULL, 0, NULL), "cannot feed");
    close_world(&world);
    free(copied.pattern), free(copied.z);
}

static void test_sync_keeps_what_it_can(void) {
    static const struct {
        const char *text;
        size_t n_fed; /* tokens that a probe sees */
    } steps[] = {{"abcdefgh", 8}, {"abcdefgh", 1}, {"abcdefghij", 2},
                 {"abcdeXYZ", 3}, {"abc", 1},      {"Xbc", 3}};
    Watch watch = {.only_rows = true};
    AttnSessionOptions options = {.probe = {&watch, watch_wants, watch_visit}, .cache = ATTN_CACHE_F32};
    World world = open_world(GPT2, &options),
          anew = open_world(GPT2, &(AttnSessionOptions){.cache = ATTN_CACHE_F32});
    int32_t tokens[MAX_TOKENS];
    float logits[MAX_VOCAB], wanted[MAX_VOCAB];
    AttnError error;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        size_t n = tokens_of(world.model, steps[i].text, tokens);
        watch.n_rows = 0;
        CHECK(attn_sync(world.session, tokens, n, logits, &error), "%s", error.message);
        CHECK(watch.n_rows == steps[i].n_fed, "%s: %zu fed", steps[i].text, watch.n_rows);
        CHECK(holds(world.session, tokens, n), "%s is not held", steps[i].text);
        attn_rewind(anew.session, 0);
        CHECK(attn_feed(anew.session, tokens, n, wanted, 1, &error), "%s", error.message);
        for (size_t j = 0; j < world.n_vocab; j++) CHECK_NEAR(logits[j], wanted[j], 1e-4);
    }
    CHECK(attn_sync(world.session, tokens, 2, NULL, &error) && holds(world.session, tokens, 2),
          "without logits");
    attn_rewind(world.session, 100);
    CHECK(holds(world.session, tokens, 2), "rewinding forward does something");
    attn_rewind(world.session, 1);
    CHECK(holds(world.session, tokens, 1), "rewinding does nothing");
    close_world(&world);
    close_world(&anew);
}

/* Text that a callback is given. */
typedef struct Text {
    char bytes[MAX_TEXT];
    size_t n, n_calls, most; /* after so many calls the callback says false; 0: never */
} Text;

static bool keep_text(void *user, const char *bytes, size_t n) {
    Text *text = user;
    CHECK(n > 0 && text->n + n < MAX_TEXT, "%zu bytes", n);
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    text->bytes[text->n] = '\0';
    return ++text->n_calls != text->most;
}

static void check_generate(const char *path, AttnSampling sampling, const char *arguments) {
    char all[256];
    World world = open_world(path, NULL);
    Text text = {.n = 0};
    AttnGenerateOptions options = {.sampling = sampling, .n_tokens = 60, .text = keep_text, .user = &text};
    AttnError error;
    AttnEnd end;
    CHECK(attn_generate(world.session, "The sea", &options, &end, &error), "%s", error.message);
    snprintf(all, sizeof all, "-p 'The sea' --no-echo -n 60 %s", arguments);
    size_t n;
    const char *wanted = output_of(all, path, &n);
    close_world(&world);
    CHECK(text.n + 1 == n && memcmp(text.bytes, wanted, text.n) == 0, "%s %s: '%s', not '%s'", path,
          arguments, text.bytes, wanted);
}

static void test_texts_are_the_programs(void) {
    if (!getenv("RUN")) SKIP("RUN names no program");
    for (size_t i = 0; i < N_MODELS; i++) {
        AttnSampling all = {.temperature = 1.1f,
                            .top_k = 90,
                            .top_p = 0.95f,
                            .min_p = 0.01f,
                            .repeat_penalty = 1.2f,
                            .presence_penalty = 0.3f,
                            .frequency_penalty = 0.2f,
                            .penalty_window = 30,
                            .seed = 7};
        check_generate(models[i], (AttnSampling){.temperature = 0}, "--temp 0");
        AttnSampling usual;
        World world = open_world(models[i], NULL);
        CHECK(attn_sampling(world.model, &usual, NULL), "no sampling");
        close_world(&world);
        usual.seed = 7;
        check_generate(models[i], usual, "-s 7");
        usual.order = 0x35; /* temperature before top-p */
        check_generate(models[i], usual, "-s 7 --samplers 'temperature;top_p'");
        check_generate(models[i], (AttnSampling){.temperature = 0, .repeat_penalty = 1.3f},
                       "--temp 0 --repeat-penalty 1.3");
        check_generate(models[i], all,
                       "--temp 1.1 --top-k 90 --top-p 0.95 --min-p 0.01 --repeat-penalty 1.2 "
                       "--presence-penalty 0.3 --frequency-penalty 0.2 --repeat-last-n 30 -s 7");
    }
}

/* By feeding tokens alone one can do what attn_generate does. */
static void test_a_loop_of_ones_own(void) {
    AttnSampling sampling = {.temperature = 1, .repeat_penalty = 1.4f, .frequency_penalty = 0.2f, .seed = 3};
    AttnGenerateOptions options = {.sampling = sampling, .n_tokens = 30};
    World world = open_world(GPT2, NULL);
    int32_t tokens[MAX_TOKENS];
    float logits[MAX_VOCAB];
    size_t n = tokens_of(world.model, "The sea", tokens), n_prompt = n;
    AttnSampler *sampler = attn_sampler_new(world.model, &sampling, NULL);
    for (size_t i = 0; i < n; i++) attn_sampler_accept(sampler, tokens[i]);
    attn_sampler_accept(sampler, -1);
    attn_sampler_accept(sampler, (int32_t)world.n_vocab);
    CHECK(attn_feed(world.session, tokens, n, logits, 1, NULL), "cannot feed");
    for (size_t i = 0; i < 29; i++) {
        tokens[n] = attn_sample(sampler, logits);
        CHECK(attn_feed(world.session, &tokens[n++], 1, logits, 1, NULL), "cannot feed");
    }
    attn_sampler_free(sampler);
    attn_rewind(world.session, 0);
    CHECK(attn_generate(world.session, "The sea", &options, NULL, NULL), "cannot generate");
    CHECK(holds(world.session, tokens, n_prompt + 29), "other tokens"); /* the 30th has not been fed */
    close_world(&world);
}

/* Tokens that a callback is given, and what they and the text cost it. */
typedef struct Heard {
    int32_t tokens[64];
    double logprobs[64];
    size_t n, most; /* after so many it says false; 0: never */
    Text text;
    bool over; /* it has said false */
} Heard;

static bool hear_token(void *user, int32_t token, double logprob) {
    Heard *heard = user;
    CHECK(!heard->over && heard->n < 64, "%zu tokens", heard->n);
    heard->tokens[heard->n] = token;
    heard->logprobs[heard->n++] = logprob;
    heard->over = heard->n == heard->most;
    return !heard->over;
}

static bool hear_text(void *user, const char *bytes, size_t n) {
    Heard *heard = user;
    CHECK(!heard->over && heard->n > 0, "text before its token, or after the end");
    return keep_text(&heard->text, bytes, n);
}

/* run --json reports the same tokens, and to its last digit the same numbers. */
static void check_reported(const char *path, const Heard *heard) {
    static char wanted[1 << 12];
    int at = snprintf(wanted, sizeof wanted, "\"tokens\": [");
    size_t n;
    for (size_t i = 0; i < heard->n; i++)
        at += snprintf(wanted + at, sizeof wanted - (size_t)at, "%s%d", i ? ", " : "", (int)heard->tokens[i]);
    at += snprintf(wanted + at, sizeof wanted - (size_t)at, "], \"logprobs\": [");
    for (size_t i = 0; i < heard->n; i++)
        at += snprintf(wanted + at, sizeof wanted - (size_t)at, "%s%.6f", i ? ", " : "", heard->logprobs[i]);
    const char *report = output_of("-p 'The sea' -n 40 --temp 0 --json", path, &n);
    CHECK(at < (int)sizeof wanted && strstr(report, wanted), "%s: %.300s, not %.300s", path, report, wanted);
}

/* The tokens are those that the session comes to hold; their logprobs the log of softmax of what attn_feed gives. */
static void check_heard(const char *path, AttnSampling sampling) {
    World world = open_world(path, NULL);
    Heard heard = {.n = 0};
    AttnGenerateOptions options = {
        .sampling = sampling, .n_tokens = 40, .token = hear_token, .text = hear_text};
    int32_t tokens[MAX_TOKENS];
    float logits[MAX_VOCAB];
    AttnEnd end;
    options.user = &heard;
    size_t n = tokens_of(world.model, "The sea", tokens), n_held;
    CHECK(attn_generate(world.session, "The sea", &options, &end, NULL), "cannot generate");
    CHECK(heard.n == 40 || end == ATTN_END_TOKEN, "%zu tokens", heard.n);
    const int32_t *held = attn_session_tokens(world.session, &n_held);
    CHECK(n_held + 1 == n + heard.n && memcmp(held + n, heard.tokens, (heard.n - 1) * sizeof *held) == 0,
          "%s: other tokens are held", path);
    for (size_t i = 0; i < heard.n; i++) {
        double sum = 0;
        CHECK(attn_sync(world.session, tokens, n + i, logits, NULL), "cannot feed");
        for (size_t j = 0; j < world.n_vocab; j++) sum += exp((double)logits[j]);
        CHECK_NEAR(heard.logprobs[i], (double)logits[heard.tokens[i]] - log(sum), 1e-6);
        tokens[n + i] = heard.tokens[i];
    }

    if (getenv("RUN") && sampling.temperature == 0) check_reported(path, &heard);

    /* Given as tokens, the prompt has the same text behind it. */
    Heard again = {.n = 0};
    options.user = &again;
    CHECK(attn_generate_from(world.session, tokens, n, &options, NULL, NULL), "cannot generate");
    CHECK(again.n == heard.n && memcmp(again.tokens, heard.tokens, sizeof heard.tokens) == 0, "other tokens");
    CHECK(memcmp(again.logprobs, heard.logprobs, sizeof heard.logprobs) == 0, "other logprobs");
    CHECK(strcmp(again.text.bytes, heard.text.bytes) == 0 && again.text.n > 0, "'%s'", again.text.bytes);
    close_world(&world);
}

static void test_tokens_are_heard(void) {
    for (size_t i = 0; i < N_MODELS; i++) {
        check_heard(models[i], (AttnSampling){.temperature = 0});
        check_heard(models[i],
                    (AttnSampling){.temperature = 2, .repeat_penalty = 1.5f, .top_k = 50, .seed = 4});
    }
}

/* Makes the model write a script, each letter a token of GPT2. */
typedef struct Script {
    const char *text;
    size_t next;
} Script;

static bool script_wants(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == ATTN_LOGITS;
}

static void script_visit(void *user, const AttnActivation *seen) {
    Script *script = user;
    unsigned char letter = (unsigned char)script->text[script->next++ % strlen(script->text)];
    memset(seen->data, 0, seen->n_cols * sizeof *seen->data);
    seen->data[letter == '.' ? 256 : letter - '!'] = 1; /* GPT-2's order of the bytes; a dot ends the text */
}

static void check_end(const char *script_text, AttnGenerateOptions options, size_t most, const char *wanted,
                      AttnEnd wanted_end, size_t n_held) {
    Script script = {.text = script_text};
    Text text = {.most = most};
    AttnSessionOptions session = {.n_ctx = 12, .probe = {&script, script_wants, script_visit}};
    World world = open_world(GPT2, &session);
    AttnError error = {""};
    AttnEnd end = (AttnEnd)-1;
    size_t n;
    options.text = keep_text;
    options.user = &text;
    CHECK(attn_generate(world.session, "ab", &options, &end, &error), "%s", error.message);
    CHECK(strcmp(text.bytes, wanted) == 0, "%s: '%s', not '%s'", script_text, text.bytes, wanted);
    CHECK(end == wanted_end, "%s: ended for reason %d, not %d", script_text, (int)end, (int)wanted_end);
    CHECK(attn_session_tokens(world.session, &n) && n == n_held, "%s: %zu tokens held, not %zu", script_text,
          n, n_held);
    CHECK(most == 0 || text.n_calls == most, "%zu calls after %zu", text.n_calls, most);
    close_world(&world);
}

static void test_ends(void) {
    const AttnGenerateOptions stop = {.stop = (const char *[]){"STOP"}, .n_stop = 1};
    check_end("xyz", (AttnGenerateOptions){.n_tokens = 5}, 0, "xyzxy", ATTN_END_LIMIT, 2 + 4);
    check_end("xyz.", (AttnGenerateOptions){0}, 0, "xyz", ATTN_END_TOKEN, 2 + 3);
    check_end("xyz.", (AttnGenerateOptions){.special = true}, 0, "xyz<|endoftext|>", ATTN_END_TOKEN, 2 + 3);
    check_end("xSTOPz", stop, 0, "x", ATTN_END_STOP, 2 + 4);
    check_end("xST.", stop, 0, "xST", ATTN_END_TOKEN, 2 + 3);
    check_end("xyz", (AttnGenerateOptions){0}, 0, "xyzxyzxyzxy", ATTN_END_CONTEXT, 12);
    check_end("xyz", (AttnGenerateOptions){.n_tokens = 14, .shift = true}, 0, "xyzxyzxyzxyzxy",
              ATTN_END_LIMIT, 11);
    check_end("xyz", (AttnGenerateOptions){0}, 3, "xyz", ATTN_END_CALLER, 2 + 2);
    check_end("SSTOP", stop, 1, "S", ATTN_END_CALLER, 2 + 1); /* and the S that was held back is not shown */
}

/* A token that ends the text is heard; so is one of which no text can be shown yet. A callback that says false ends it. */
static void test_tokens_of_ends(void) {
    const AttnGenerateOptions stop = {.stop = (const char *[]){"STOP"}, .n_stop = 1};
    static const struct {
        const char *script, *text;
        size_t most, n;
        AttnEnd end;
    } cases[] = {{"xyz.", "xyz", 0, 4, ATTN_END_TOKEN},
                 {"xSTOPz", "x", 0, 5, ATTN_END_STOP},
                 {"SSTOP", "", 1, 1, ATTN_END_CALLER},
                 {"xyz", "x", 2, 2, ATTN_END_CALLER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Script script = {.text = cases[i].script};
        Heard heard = {.most = cases[i].most};
        AttnGenerateOptions options = stop;
        options.token = hear_token, options.text = hear_text, options.user = &heard;
        World world = open_world(GPT2, &(AttnSessionOptions){.probe = {&script, script_wants, script_visit}});
        AttnEnd end = (AttnEnd)-1;
        CHECK(attn_generate(world.session, "ab", &options, &end, NULL), "cannot generate");
        CHECK(heard.n == cases[i].n && end == cases[i].end, "%s: %zu tokens, end %d", cases[i].script,
              heard.n, (int)end);
        CHECK(strcmp(heard.text.bytes, cases[i].text) == 0, "%s: '%s'", cases[i].script, heard.text.bytes);
        for (size_t j = 0; j < heard.n; j++) /* one logit is 1, the others are 0 */
            CHECK_NEAR(heard.logprobs[j], 1 - log(exp(1) + (double)world.n_vocab - 1), 1e-6);
        CHECK(heard.tokens[0] == cases[i].script[0] - '!', "token %d", (int)heard.tokens[0]);
        close_world(&world);
    }
}

/* A chat hands over its whole text: what the session holds of it is not fed again. */
static void test_a_longer_prompt_goes_on(void) {
    Watch watch = {.only_rows = true};
    Text text = {.n = 0};
    AttnSessionOptions options = {.probe = {&watch, watch_wants, watch_visit}};
    World world = open_world(GPT2, &options);
    AttnGenerateOptions one = {.n_tokens = 1};
    CHECK(attn_generate(world.session, "Hello", &one, NULL, NULL) && watch.n_rows == 5, "%zu", watch.n_rows);
    CHECK(attn_generate(world.session, "Hello you", &one, NULL, NULL) && watch.n_rows == 9, "%zu",
          watch.n_rows);
    CHECK(attn_generate(world.session, "Help", &one, NULL, NULL) && watch.n_rows == 10, "%zu", watch.n_rows);
    CHECK(text.n_calls == 0, "a callback that nobody gave is called");
    close_world(&world);
}

static void test_an_empty_prompt_is_what_begins_a_text(void) {
    for (size_t i = 0; i < N_MODELS; i++) {
        World world = open_world(models[i], NULL);
        int32_t bos = attn_token_bos(world.model);
        CHECK(attn_generate(world.session, "", &(AttnGenerateOptions){.n_tokens = 1}, NULL, NULL),
              "cannot generate");
        CHECK(holds(world.session, &bos, 1), "%s: not the token %d", models[i], (int)bos);
        close_world(&world);
    }
}

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

/* One line that has these words. */
static void check_error(bool failed, const AttnError *error, const char *words) {
    CHECK(failed, "no error: %s", words);
    CHECK(strstr(error->message, words) && !strchr(error->message, '\n'), "'%s' without '%s'", error->message,
          words);
}

/* The vector behind the final norm gives the logits, by the plain product with each row of the unembedding. */
static void test_hidden_states(void) {
    static const char *const paths[] = {GPT2, LLAMA, "tests/data/reference/qwen35.gguf"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        World world = open_world(paths[i], NULL), other = open_world(paths[i], NULL);
        Error why;
        Model *model = model_open(paths[i], &why);
        const Matrix *rows = &model_weights(model)->unembedding.w;
        static float logits[MAX_VOCAB], hidden[1024], again[1024];
        size_t d = attn_model_shape(world.model).d_model;
        int32_t tokens[MAX_TOKENS];
        AttnError error;
        const size_t n = 30;
        for (size_t j = 0; j < n; j++) tokens[j] = (int32_t)((37 * j + 5) % world.n_vocab);
        CHECK(rows->dtype == DTYPE_F32 && model_config(model)->logit_scale == 1, "%s is no good here",
              paths[i]);
        for (size_t part = 1; part <= n; part += n / 3) {
            CHECK(attn_hidden(world.session, tokens, part, hidden, &error), "%s", error.message);
            CHECK(holds(world.session, tokens, part), "%s: other tokens", paths[i]);
            CHECK(attn_sync(other.session, tokens, part, logits, &error), "%s", error.message);
            for (size_t j = 0; j < world.n_vocab; j++) {
                double sum = 0;
                for (size_t k = 0; k < d; k++)
                    sum += (double)((const float *)rows->data)[j * d + k] * (double)hidden[k];
                CHECK_NEAR(sum, logits[j], 1e-4);
            }
        }
        CHECK(attn_hidden(world.session, tokens, 3, hidden, &error), "%s", error.message);
        CHECK(attn_hidden(other.session, tokens, 3, again, &error), "%s", error.message);
        for (size_t k = 0; k < d; k++) CHECK_NEAR(hidden[k], again[k], 1e-5);
        model_close(model);
        close_world(&world), close_world(&other);
    }
}

/* A file's bytes, at a multiple of 16. The caller frees them. */
static unsigned char *read_whole(const char *path, size_t *n) {
    enum { MOST = 1 << 20 };
    unsigned char *bytes = malloc(MOST);
    FILE *file = fopen(path, "rb");
    *n = file && bytes ? fread(bytes, 1, MOST, file) : 0;
    CHECK(*n > 0 && *n < MOST, "cannot read %s", path);
    if (file) fclose(file);
    return bytes;
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
        unsigned char *bytes = read_whole(models[i], &n);
        check_same_model(attn_model_open_memory(bytes, n, NULL, NULL, &e), models[i]);
        int descriptor = open(models[i], O_RDONLY);
        CHECK(lseek(descriptor, 100, SEEK_SET) == 100, "cannot seek"); /* which changes nothing */
        AttnModel *model = attn_model_open_descriptor(descriptor, NULL, NULL, &e);
        CHECK(fcntl(descriptor, F_GETFD) >= 0 && close(descriptor) == 0, "the library has closed it");
        check_same_model(model, models[i]);
        free(bytes);
    }

    size_t n;
    unsigned char *bytes = read_whole(GPT2, &n);
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

/* The memory that a session takes is what was told, to a twentieth and the pages that its blocks do not fill. */
static void test_memory_is_told(void) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("nothing here tells how much memory is taken");
#else
    static const char *const paths[] = {GPT2,
                                        LLAMA_Q8,
                                        "tests/data/reference/gemma3.gguf",
                                        "tests/data/reference/qwen3moe.gguf",
                                        "tests/data/reference/qwen35.gguf",
                                        "tests/data/reference/lfm2.gguf"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        for (unsigned way = 0; way < 6; way++) {
            AttnSessionOptions options = {
                .n_ctx = way < 3 ? 0 : 130, .n_threads = 1 + way, .cache = (AttnCache)(way % 3)};
            AttnModel *model = attn_model_open(paths[i], NULL, NULL);
            AttnMemory memory = {0, 0};
            AttnError error;
            CHECK(attn_session_memory(model, &options, &memory, &error), "%s", error.message);
            struct mallinfo2 before = mallinfo2();
            AttnSession *session = attn_session_new(model, &options, &error);
            struct mallinfo2 after = mallinfo2();
            size_t taken = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
            size_t off = taken > memory.rest ? taken - memory.rest : memory.rest - taken;
            CHECK(session && off < memory.rest / 20 + (64 << 10), "%s, way %u: %zu taken, %zu told", paths[i],
                  way, taken, memory.rest);

            /* Keys and values of all layers with attention, in whole tiles of 64 positions. */
            AttnShape shape = attn_model_shape(model);
            size_t n_room = (attn_session_n_ctx(session) + 63) / 64 * 64, d = shape.d_head,
                   one = (size_t[]){2 * d, 4 * d, d + (d + 31) / 32 * 2}[options.cache], n_layer = 0;
            Error why;
            Model *inner = model_open(paths[i], &why);
            for (size_t layer = 0; layer < shape.n_layer; layer++)
                n_layer += !model_weights(inner)->attention_layers[layer].absent;
            CHECK(memory.cache == 2 * n_layer * shape.n_head_kv * one * n_room, "%s: %zu bytes of cache",
                  paths[i], memory.cache);
            model_close(inner);
            attn_session_free(session);
            attn_model_close(model);
        }
    AttnModel *model = attn_model_open(LLAMA, NULL, NULL);
    AttnMemory memory;
    CHECK(attn_session_memory(model, &(AttnSessionOptions){.n_ctx = SIZE_MAX}, &memory, NULL) &&
              memory.cache == SIZE_MAX && memory.rest == SIZE_MAX,
          "%zu and %zu bytes", memory.cache, memory.rest);
    attn_model_close(model);
#endif
}

/* There are no logits of more tokens than are fed: nothing is fed then. */
static void test_logits_of_more_tokens(void) {
    World world = open_world(GPT2, NULL);
    AttnError error = {""};
    static float logits[3 * MAX_VOCAB];
    const int32_t tokens[] = {50, 60};
    logits[2 * world.n_vocab] = 77;
    CHECK(!attn_feed(world.session, tokens, 2, logits, 3, &error) &&
              strstr(error.message, "logits of 3 tokens"),
          "%s", error.message);
    size_t n_held = 7;
    attn_session_tokens(world.session, &n_held);
    CHECK(n_held == 0 && logits[2 * world.n_vocab] == 77, "%zu tokens were fed", n_held);
    CHECK(attn_feed(world.session, tokens, 2, logits, 2, &error), "%s", error.message);
    close_world(&world);
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
    CHECK(strstr(error.message, "no vocabulary") && strstr(error.message, "AttnModelOptions"), "%s",
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

/* Parts of several sessions, some beside another, have the bits of sessions that are alone; bad parts are refused, and feed nobody. */
static void test_parts(void) {
    enum { N = 4 };
    AttnError error;
    for (size_t m = 0; m < N_MODELS; m++) {
        World world = open_world(models[m], &(AttnSessionOptions){.n_threads = 2});
        int32_t tokens[MAX_TOKENS];
        size_t n = tokens_of(world.model, story, tokens), n_vocab = world.n_vocab;
        AttnSession *sessions[N] = {world.session};
        static float alone[N][MAX_VOCAB], together[N][MAX_VOCAB];
        AttnPart parts[N];
        for (size_t i = 0; i < N; i++) {
            AttnSessionOptions options = {.n_threads = 3, .beside = i % 2 ? world.session : NULL};
            if (i > 0) sessions[i] = attn_session_new(world.model, &options, &error);
            AttnSession *lone = attn_session_new(world.model, NULL, &error);
            CHECK(sessions[i] && lone && attn_feed(lone, tokens + i, n - 2 * i, alone[i], 1, &error), "%s",
                  error.message);
            parts[i] = (AttnPart){sessions[i], tokens + i, n - 2 * i, together[i], 1};
            attn_session_free(lone);
        }
        CHECK(attn_feed_many(parts, N, &error), "%s", error.message);
        for (size_t i = 0; i < N; i++) {
            CHECK(memcmp(alone[i], together[i], n_vocab * sizeof(float)) == 0, "%s: part %zu", models[m], i);
            CHECK(holds(sessions[i], tokens + i, n - 2 * i), "%s: part %zu", models[m], i);
            parts[i].n = 1;
        }
        CHECK(attn_feed_many(parts, 0, &error), "%s", error.message);
        const AttnPart good = parts[1];
        parts[1].session = sessions[0];
        CHECK(!attn_feed_many(parts, N, &error) &&
                  strcmp(error.message, "parts 0 and 1 are of one session") == 0,
              "%s", error.message);
        parts[1] = good, parts[1].n = 0;
        CHECK(!attn_feed_many(parts, N, &error) && strcmp(error.message, "part 1 has no tokens to feed") == 0,
              "%s", error.message);
        parts[1] = good, parts[1].n_logits = 2;
        CHECK(!attn_feed_many(parts, N, &error) &&
                  strstr(error.message, "logits of 2 tokens are wanted, but 1 are fed"),
              "%s", error.message);
        parts[1] = good, parts[1].session = NULL;
        CHECK(!attn_feed_many(parts, N, &error) && strcmp(error.message, "part 1 has no session") == 0, "%s",
              error.message);
        AttnModel *other = attn_model_open(models[m], NULL, &error);
        AttnSession *stranger = attn_session_new(other, NULL, &error);
        parts[1] = good, parts[1].session = stranger;
        CHECK(!attn_feed_many(parts, N, &error) && strstr(error.message, "part 1 is of another model"), "%s",
              error.message);
        CHECK(!attn_session_new(other, &(AttnSessionOptions){.beside = world.session}, &error) &&
                  strstr(error.message, "is of another model"),
              "%s", error.message);
        for (size_t i = 0; i < N; i++) CHECK(holds(sessions[i], tokens + i, n - 2 * i), "part %zu moved", i);
        attn_session_free(stranger);
        attn_model_close(other);
        for (size_t i = N; i-- > 1;) attn_session_free(sessions[i]);
        close_world(&world);
    }
}

static void test_errors(void) {
    World world = open_world(GPT2, &(AttnSessionOptions){.n_ctx = 8});
    AttnSession *session = world.session;
    AttnError e;
    float logits[MAX_VOCAB];
    int32_t good[9] = {1, 2, 3}, bad[] = {5, 257}, negative[] = {-1};
    check_error(!attn_model_open("none.gguf", NULL, &e), &e, "none.gguf");
    check_error(!attn_model_open(NULL, NULL, &e), &e, "no file");
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
    CHECK(memory.cache == 7 && memory.rest == 7, "what fails tells");
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

/* A thread's text, token by token, and the logits after each token. */
typedef struct Runner {
    const AttnModel *model;
    const char *prompt;
    Text text;
    float logits[24 * MAX_VOCAB];
    bool ok;
} Runner;

static void *run_one(void *argument) {
    Runner *runner = argument;
    AttnSession *session = attn_session_new(runner->model, &(AttnSessionOptions){.n_threads = 2}, NULL);
    AttnSampling sampling = {.temperature = 1, .seed = 5};
    AttnGenerateOptions options = {
        .sampling = sampling, .n_tokens = 20, .text = keep_text, .user = &runner->text};
    size_t n, n_vocab = attn_model_shape(runner->model).n_vocab;
    runner->ok = attn_generate(session, runner->prompt, &options, NULL, NULL);
    const int32_t *held = attn_session_tokens(session, &n);
    int32_t tokens[24];
    n = n < 24 ? n : 24;
    memcpy(tokens, held, n * sizeof *tokens);
    attn_rewind(session, 0);
    for (size_t i = 0; i < n; i++)
        runner->ok &= attn_feed(session, tokens + i, 1, runner->logits + i * n_vocab, 1, NULL);
    attn_session_free(session);
    return NULL;
}

static void test_two_threads_on_one_model(void) {
    static Runner alone[2], together[2];
    AttnModel *model = attn_model_open(LLAMA_Q8, NULL, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        alone[i].model = together[i].model = model;
        alone[i].prompt = together[i].prompt = i ? "One two three" : "The sea was";
        run_one(&alone[i]);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, run_one, &together[i]) == 0, "no thread");
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(alone[i].ok && together[i].ok && alone[i].text.n > 0, "thread %d", i);
        CHECK(strcmp(alone[i].text.bytes, together[i].text.bytes) == 0, "'%s', not '%s'",
              together[i].text.bytes, alone[i].text.bytes);
        CHECK(memcmp(alone[i].logits, together[i].logits, sizeof alone[i].logits) == 0, "other logits");
    }
    attn_model_close(model);
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

int main(void) {
    RUN(test_tokens_are_the_programs);
    RUN(test_tokenizing);
    RUN(test_shapes);
    RUN(test_logits_are_the_engines);
    RUN(test_probes_see_and_change);
    RUN(test_all_is_seen);
    RUN(test_copies);
    RUN(test_sync_keeps_what_it_can);
    RUN(test_texts_are_the_programs);
    RUN(test_a_loop_of_ones_own);
    RUN(test_tokens_are_heard);
    RUN(test_ends);
    RUN(test_tokens_of_ends);
    RUN(test_a_longer_prompt_goes_on);
    RUN(test_an_empty_prompt_is_what_begins_a_text);
    RUN(test_logits_of_more_tokens);
    RUN(test_a_model_without_vocabulary);
    RUN(test_hidden_states);
    RUN(test_models_without_a_path);
    RUN(test_memory_is_told);
    RUN(test_parts);
    RUN(test_errors);
    RUN(test_stop);
    RUN(test_a_context_without_end);
    RUN(test_null);
    RUN(test_two_threads_on_one_model);
    return test_end();
}
