/*
 * The public face against what stands behind it: tokens and logits are those of the engine and of the program, to the bit.
 * Texts are in test_attn_texts.c, errors in test_attn_errors.c.
 */
#include "face.h"

#include <malloc.h>
#include <unistd.h>

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

/* A chat hands over its whole text: what the session holds of it is not fed again. */
static void test_a_longer_prompt_goes_on(void) {
    Watch watch = {.only_rows = true};
    AttnSessionOptions options = {.probe = {&watch, watch_wants, watch_visit}};
    World world = open_world(GPT2, &options);
    AttnGenerateOptions one = {.n_tokens = 1};
    CHECK(attn_generate(world.session, "Hello", &one, NULL, NULL) && watch.n_rows == 5, "%zu", watch.n_rows);
    CHECK(attn_generate(world.session, "Hello you", &one, NULL, NULL) && watch.n_rows == 9, "%zu",
          watch.n_rows);
    CHECK(attn_generate(world.session, "Help", &one, NULL, NULL) && watch.n_rows == 10, "%zu", watch.n_rows);
    close_world(&world);
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

            /* One beside it borrows what does not depend on the text. */
            const AttnSessionOptions beside = {.n_ctx = 7, .beside = session};
            AttnMemory less = {0, 0};
            CHECK(attn_session_memory(model, &beside, &less, &error) && less.cache == memory.cache,
                  "%s: %zu, %zu", paths[i], less.cache, memory.cache);
            before = mallinfo2();
            AttnSession *second = attn_session_new(model, &beside, &error);
            after = mallinfo2();
            taken = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
            off = taken > less.rest ? taken - less.rest : less.rest - taken;
            CHECK(second && off < less.rest / 20 + (64 << 10), "%s, way %u: %zu taken beside, %zu told",
                  paths[i], way, taken, less.rest);
            attn_session_free(second);

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

/*
 * Parts of several sessions, some beside another, have the bits of sessions that are alone; bad parts are refused, and feed
 * nobody.
 */
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
                  strstr(error.message, "part 1: logits of 2 tokens are wanted, but 1 are fed"),
              "%s", error.message);
        parts[1] = good, parts[1].session = NULL;
        snprintf(error.message, sizeof error.message, "why there is none");
        CHECK(!attn_feed_many(parts, N, &error) && strcmp(error.message, "why there is none") == 0,
              "the caller's error became: %s", error.message);
        parts[1] = good, parts[1].tokens = &(int32_t){-1};
        CHECK(!attn_feed_many(parts, N, &error) &&
                  strstr(error.message, "token -1 is outside the vocabulary"),
              "%s", error.message);
        AttnModel *other = attn_model_open(models[m], NULL, &error);
        AttnSession *stranger = attn_session_new(other, NULL, &error);
        parts[1] = good, parts[1].session = stranger;
        CHECK(!attn_feed_many(parts, N, &error) && strstr(error.message, "part 1 is of another model"), "%s",
              error.message);
        AttnSession *fast = attn_session_new(world.model, &(AttnSessionOptions){.fast = true}, &error);
        parts[1].session = fast;
        CHECK(
            kernels_fastest() == kernels_pick(NULL, NULL) ||
                (!attn_feed_many(parts, N, &error) && strstr(error.message, "a session with another `fast`")),
            "%s", error.message);
        attn_session_free(fast);
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

int main(void) {
    RUN(test_tokens_are_the_programs);
    RUN(test_tokenizing);
    RUN(test_shapes);
    RUN(test_logits_are_the_engines);
    RUN(test_probes_see_and_change);
    RUN(test_all_is_seen);
    RUN(test_copies);
    RUN(test_sync_keeps_what_it_can);
    RUN(test_a_longer_prompt_goes_on);
    RUN(test_logits_of_more_tokens);
    RUN(test_hidden_states);
    RUN(test_memory_is_told);
    RUN(test_parts);
    return test_end();
}
