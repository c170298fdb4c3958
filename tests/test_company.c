/*
 * Texts that go through the layers together: whatever joins, leaves, goes back, forks, and however it is dealt to passes and
 * threads, each token has the bits that its text alone gives it, fed token by token.
 */
#include "layers/kv_cache.h"
#include "model.h"
#include "snapshot.h"
#include "test.h"
#include "weights.h"

#include <glob.h>

enum { N_TEXTS = 5, MAX_TOKENS = 90, MAX_FED = 24 };

/* The first tokens of each text are those of text 0. One whole tile of keys is among them, and parts of one. */
static const size_t shared[N_TEXTS] = {MAX_TOKENS, KEY_TILE, KEY_TILE - 1, 7, 0};

typedef struct Texts {
    const Model *model;
    Compute compute;
    DType kv_dtype;
    size_t n, n_chunk, n_vocab;
    int32_t tokens[N_TEXTS][MAX_TOKENS];
    float *alone[N_TEXTS]; /* [n][n_vocab] */
    Session *sessions[N_TEXTS];
} Texts;

static size_t below(size_t n) { return (size_t)(random_bits() % n); }

static Session *new_session(const Texts *texts, const Session *beside) {
    Error error;
    SessionOptions options = {.n_ctx = texts->n,
                              .n_chunk = texts->n_chunk,
                              .kv_dtype = texts->kv_dtype,
                              .whole_cache = true,
                              .compute = texts->compute,
                              .beside = beside};
    Session *session = session_new(texts->model, &options, &error);
    CHECK(session, "%s", error.message);
    return session;
}

static bool begin(Texts *texts, const Model *model, const Kernels *kernels, DType kv_dtype,
                  Threads *threads) {
    Error error;
    const Config *config = model_config(model);
    *texts = (Texts){.model = model,
                     .compute = {.kernels = kernels, .threads = threads},
                     .kv_dtype = kv_dtype,
                     .n = config->n_ctx < MAX_TOKENS ? config->n_ctx : MAX_TOKENS,
                     .n_chunk = below(2) ? 0 : 1 + below(40),
                     .n_vocab = config->n_vocab};
    for (size_t i = 0; i < N_TEXTS; i++) {
        for (size_t t = 0; t < texts->n; t++)
            texts->tokens[i][t] =
                t < shared[i] && i > 0 ? texts->tokens[0][t] : (int32_t)below(texts->n_vocab);
        texts->alone[i] = floats_new(texts->n, texts->n_vocab);
        Session *session = new_session(texts, NULL);
        for (size_t t = 0; session && t < texts->n; t++)
            if (!session_feed(session, &texts->tokens[i][t], 1, texts->alone[i] + t * texts->n_vocab, 1,
                              &error))
                CHECK(false, "%s", error.message);
        session_free(session);
        texts->sessions[i] = new_session(texts, i ? texts->sessions[0] : NULL);
        if (!texts->alone[i] || !texts->sessions[i]) return false;
    }
    return true;
}

static void end(Texts *texts) {
    for (size_t i = N_TEXTS; i-- > 0;) {
        session_free(texts->sessions[i]);
        free(texts->alone[i]);
    }
}

/* Another session of a text in the place of the one it has, with or without a scratch of its own, and maybe a prefix. */
static void join(Texts *texts, size_t i) {
    Error error;
    if (i == 0) return; /* whose scratch others have */
    size_t from = below(N_TEXTS);
    session_free(texts->sessions[i]);
    texts->sessions[i] = new_session(texts, below(2) ? texts->sessions[0] : NULL);
    if (from == i || !texts->sessions[i] || below(3) == 0) return;
    CHECK(snapshot_copy(texts->sessions[i], texts->sessions[from], &error), "%s", error.message);
    session_rewind(texts->sessions[i], shared[i] < shared[from] ? shared[i] : shared[from]);
}

/* One pass or more of some texts, in any order; 1: they have other bits than alone. */
static size_t feed(Texts *texts, float *logits) {
    Error error;
    FeedPart parts[N_TEXTS];
    size_t n_parts = 0, differ = 0, first = below(N_TEXTS);
    size_t text_of[N_TEXTS];
    float *at = logits;
    for (size_t k = 0; k < N_TEXTS; k++) {
        size_t i = (first + k) % N_TEXTS, position = session_position(texts->sessions[i]);
        size_t left = texts->n - position, most = below(4) ? 3 : MAX_FED;
        if (kernels_company(texts->compute.kernels) < MAX_FED && most == MAX_FED) most = PACKED_TOKENS;
        if (left == 0 || below(4) == 0) continue;
        size_t n = 1 + below(left < most ? left : most), n_logits = below(3) ? 1 : below(n + 1);
        parts[n_parts] = (FeedPart){texts->sessions[i], texts->tokens[i] + position, n, at, n_logits};
        text_of[n_parts++] = i;
        at += (n_logits + below(2)) * texts->n_vocab; /* at times there is a gap */
    }
    if (n_parts == 0) return 0;
    CHECK(session_feed_many(parts, n_parts, &error), "%s", error.message);
    for (size_t i = 0; i < n_parts; i++) {
        size_t position = session_position(parts[i].session);
        const float *alone = texts->alone[text_of[i]] + (position - parts[i].n_logits) * texts->n_vocab;
        differ |= memcmp(alone, parts[i].logits, parts[i].n_logits * texts->n_vocab * sizeof *alone) != 0;
        differ |= memcmp(session_tokens(parts[i].session), texts->tokens[text_of[i]],
                         position * sizeof(int32_t)) != 0;
    }
    return differ;
}

/* Schedules of one model; returns how many gave other bits. */
static size_t run_schedules(const Model *model, const Kernels *kernels, DType kv_dtype, size_t n_schedules) {
    Error error;
    Texts texts = {0};
    size_t differ = 0;
    Threads *threads = threads_new(1 + (unsigned)below(3), &error);
    float *logits = floats_new(N_TEXTS * (MAX_FED + 1), model_config(model)->n_vocab);
    bool ok = begin(&texts, model, kernels, kv_dtype, threads);
    for (size_t k = 0; ok && k < n_schedules; k++) {
        for (size_t i = 0; i < N_TEXTS; i++) session_rewind(texts.sessions[i], below(texts.n));
        for (size_t step = 0; step < 12; step++) {
            if (below(4) == 0) join(&texts, below(N_TEXTS));
            if (below(4) == 0) session_rewind(texts.sessions[below(N_TEXTS)], below(texts.n));
            differ += feed(&texts, logits);
        }
    }
    end(&texts);
    free(logits);
    threads_free(threads);
    return differ;
}

/* 12,750 schedules with ATTN_LONG_TESTS=1, else 4 of each model. */
static void test_company_changes_nothing(void) {
    static const DType caches[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    Error error;
    glob_t files;
    size_t n_models = 0, n = how_many(85, 2, 1);
    CHECK(glob("tests/data/reference/*.gguf", 0, NULL, &files) == 0, "no models");
    for (size_t i = 0; i < files.gl_pathc; i++) {
        if (strstr(files.gl_pathv[i], ".expected.")) continue;
        Model *model = model_open(files.gl_pathv[i], &error);
        CHECK(model, "%s", error.message);
        if (!model) continue;
        const Kernels *usual = kernels_pick(NULL, NULL), *fastest = kernels_fastest();
        for (size_t k = 0; k < 2; k++) {
            size_t differ = run_schedules(model, k ? fastest : usual, caches[(n_models + k) % 3], n);
            CHECK(differ == 0, "%s, %s: %zu", files.gl_pathv[i], k ? fastest->name : usual->name, differ);
        }
        n_models++;
        model_close(model);
    }
    globfree(&files);
    CHECK(n_models > 50, "%zu models", n_models);
}

/* Each set, by models whose weights are of all types; the last has sums of its own for few rows, as only AMX has. */
static void test_every_set(void) {
    static const char *const models[] = {"tests/data/reference/gpt2-mixed.gguf",
                                         "tests/data/reference/gpt2-mixed-32.gguf"};
    Error error;
    Kernels few = *kernels_pick(NULL, NULL);
    few.few_sums = few.weighted_sums;
    for (size_t i = 0, ended = 0; ended < 2; i++) {
        const Kernels *set = kernels_set(i / 2);
        if (!set) set = &few, ended++;
        if (!kernels_pick(set->name, NULL)) continue;
        Model *model = model_open(models[i % 2], &error);
        CHECK(model, "%s", error.message);
        size_t differ = model ? run_schedules(model, set, i % 3 ? DTYPE_Q8_0 : DTYPE_F32, 3) : 0;
        CHECK(differ == 0, "%s, %s: %zu", models[i % 2], set->name, differ);
        model_close(model);
    }
}

static bool wants_stream(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)head;
    return site == PROBE_RESID_POST && layer == 0;
}

static void count_rows(void *user, const Activation *seen) { *(size_t *)user += seen->n_rows; }

/* A text that somebody watches is seen token by token, and no other text is; all have the bits that each has alone. */
static void test_watched(void) {
    Error error;
    Model *model = model_open("tests/data/reference/gpt2-f32.gguf", &error);
    Threads *threads = threads_new(2, &error);
    Texts texts = {0};
    size_t n_vocab = model_config(model)->n_vocab, n_seen = 0;
    const Probe probe = {&n_seen, wants_stream, count_rows};
    float *logits = floats_new(N_TEXTS, n_vocab);
    bool ok = begin(&texts, model, kernels_pick(NULL, NULL), DTYPE_F32, threads);
    for (size_t watched = 0; ok && watched < N_TEXTS; watched++) {
        FeedPart parts[N_TEXTS];
        for (size_t i = 0; i < N_TEXTS; i++) {
            session_rewind(texts.sessions[i], 0);
            parts[i] = (FeedPart){texts.sessions[i], texts.tokens[i], 5 + i, logits + i * n_vocab, 1};
        }
        n_seen = 0;
        session_watch(texts.sessions[watched], &probe);
        CHECK(session_feed_many(parts, N_TEXTS, &error), "%s", error.message);
        session_watch(texts.sessions[watched], NULL);
        CHECK(n_seen == 5 + watched, "text %zu: %zu tokens are seen", watched, n_seen);
        for (size_t i = 0; i < N_TEXTS; i++)
            CHECK(memcmp(parts[i].logits, texts.alone[i] + (4 + i) * n_vocab, n_vocab * sizeof *logits) == 0,
                  "text %zu beside %zu, which is watched", i, watched);
    }
    end(&texts);
    free(logits);
    threads_free(threads);
    model_close(model);
}

/* Where one text cannot be fed, none is, and each session holds what it held. */
static void test_all_or_none(void) {
    Error error;
    Model *model = model_open("tests/data/reference/gpt2-f32.gguf", &error);
    Threads *threads = threads_new(2, &error);
    Texts texts = {0};
    float *logits = floats_new(2, model_config(model)->n_vocab);
    if (begin(&texts, model, kernels_pick(NULL, NULL), DTYPE_F32, threads)) {
        Session **sessions = texts.sessions;
        const int32_t bad[] = {1, (int32_t)texts.n_vocab};
        CHECK(session_feed(sessions[1], texts.tokens[1], 5, NULL, 0, &error), "%s", error.message);
        FeedPart parts[] = {{sessions[0], texts.tokens[0], 3, logits, 1}, {sessions[1], bad, 2, logits, 1}};
        CHECK(!session_feed_many(parts, 2, &error) && strstr(error.message, "is outside the vocabulary"),
              "%s", error.message);
        parts[1] = (FeedPart){sessions[1], texts.tokens[1] + 5, texts.n, logits, 1};
        CHECK(!session_feed_many(parts, 2, &error) && strstr(error.message, "more than the context"), "%s",
              error.message);
        CHECK(session_position(sessions[0]) == 0 && session_position(sessions[1]) == 5, "they moved");
    }
    end(&texts);
    free(logits);
    threads_free(threads);
    model_close(model);
}

int main(void) {
    RUN(test_company_changes_nothing);
    RUN(test_every_set);
    RUN(test_watched);
    RUN(test_all_or_none);
    return test_end();
}
