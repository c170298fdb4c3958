/*
 * Sessions that are saved, restored and forked: what goes on from there has the bits of a session that computed everything
 * itself, in every type of cache, with windows and with states; and bytes that are no saved session, or a broken one, or one
 * made with bad intent, are refused, or do no harm.
 */
#include "attn.h"

#include "tests/test.h"

enum { MAX_TOKENS = 160, MAX_VOCAB = 512, MAX_BYTES = 1 << 20, HEADER = 40 };

#define REFERENCE "tests/data/reference/"
#define GPT2 REFERENCE "gpt2-f32.gguf"

static const char *const models[] = {
    GPT2,
    REFERENCE "llama-q8_0.gguf",
    REFERENCE "gemma3.gguf",         /* windows */
    REFERENCE "mpt.gguf",            /* costs by distance */
    REFERENCE "lfm2.gguf",           /* short convolutions */
    REFERENCE "qwen35.gguf",         /* gated delta nets */
    REFERENCE "llama-longrope.gguf", /* angles by the context */
};
enum { N_MODELS = sizeof models / sizeof *models };

/* Bytes that a session was saved to, and is restored from. */
typedef struct Bytes {
    unsigned char data[MAX_BYTES];
    size_t n, at; /* read so far */
} Bytes;

static Bytes saved, broken, again;

static bool keep(void *user, const void *bytes, size_t n) {
    Bytes *to = user;
    if (n > MAX_BYTES - to->n) return false;
    memcpy(to->data + to->n, bytes, n);
    to->n += n;
    return true;
}

static bool give(void *user, void *bytes, size_t n) {
    Bytes *from = user;
    CHECK(n > 0, "nothing is asked for");
    if (n > from->n - from->at) return false;
    memcpy(bytes, from->data + from->at, n);
    from->at += n;
    return true;
}

static void save(AttnSession *session, Bytes *to) {
    AttnError error;
    to->n = to->at = 0;
    CHECK(attn_session_save(session, keep, to, &error), "%s", error.message);
    CHECK(to->n == attn_session_bytes(session), "%zu bytes, not %zu", to->n, attn_session_bytes(session));
}

static bool restore(AttnSession *session, Bytes *from, AttnError *error) {
    from->at = 0;
    return attn_session_restore(session, give, from, error);
}

static AttnModel *open_model(const char *path) {
    AttnError error;
    AttnModel *model = attn_model_open(path, NULL, &error);
    if (model && attn_model_shape(model).n_vocab <= MAX_VOCAB) return model;
    printf("%s: %s\n", path, error.message);
    exit(1);
}

static AttnSession *open_session(const AttnModel *model, const AttnSessionOptions *options) {
    AttnError error;
    AttnSession *session = attn_session_new(model, options, &error);
    if (session) return session;
    printf("%s\n", error.message);
    exit(1);
}

/* A text of any tokens. */
static void write_tokens(const AttnModel *model, uint32_t seed, int32_t tokens[MAX_TOKENS]) {
    uint32_t n_vocab = (uint32_t)attn_model_shape(model).n_vocab;
    for (size_t i = 0; i < MAX_TOKENS; i++) {
        seed = seed * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((seed >> 8) % n_vocab);
    }
}

static void feed(AttnSession *session, const int32_t *tokens, size_t n, float *logits) {
    AttnError error;
    CHECK(attn_feed(session, tokens, n, logits, 1, &error), "%s", error.message);
}

static bool holds(const AttnSession *session, const int32_t *tokens, size_t n) {
    size_t n_held;
    const int32_t *held = attn_session_tokens(session, &n_held);
    return n_held == n && (n == 0 || memcmp(held, tokens, n * sizeof *tokens) == 0);
}

/* Rows of tokens that go through the layers. */
static bool wants_rows(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)head;
    return site == ATTN_RESID_PRE && layer == 0;
}

static void count_rows(void *user, const AttnActivation *seen) { *(size_t *)user += seen->n_rows; }

/*
 * After n tokens a session is saved, restored into one of other threads and forked; n_more tokens later all four, the one
 * that never stopped among them, have the same logits, and the copies have computed these n_more alone.
 */
static void check_copies(const AttnModel *model, AttnCache cache, size_t n, size_t n_more) {
    static float wanted[MAX_VOCAB], logits[MAX_VOCAB];
    size_t n_bytes = attn_model_shape(model).n_vocab * sizeof *logits, n_rows = 0;
    AttnSessionOptions usual = {.n_ctx = 180, .n_threads = 1, .cache = cache}, watched = usual;
    int32_t tokens[MAX_TOKENS];
    AttnError error = {""};
    watched.n_threads = 3;
    watched.probe = (AttnProbe){&n_rows, wants_rows, count_rows};
    write_tokens(model, (uint32_t)n, tokens);
    AttnSession *first = open_session(model, &usual), *plain = open_session(model, &usual),
                *other = open_session(model, &watched);
    if (n > 0) feed(first, tokens, n, logits), feed(plain, tokens, n, logits);
    save(first, &saved);
    feed(other, tokens + 7, 9, logits); /* which it forgets */
    n_rows = 0;
    CHECK(restore(other, &saved, &error), "%s", error.message);
    CHECK(saved.at == saved.n && holds(other, tokens, n), "%zu of %zu bytes were read", saved.at, saved.n);
    AttnSession *fork = attn_session_fork(first, &watched, &error),
                *second = attn_session_fork(other, NULL, &error);
    CHECK(holds(fork, tokens, n) && holds(second, tokens, n) && n_rows == 0, "%s", error.message);

    feed(plain, tokens + n, n_more, wanted);
    AttnSession *all[] = {first, other, fork, second};
    for (size_t i = 0; i < 4; i++) {
        feed(all[i], tokens + n, n_more, logits);
        CHECK(memcmp(logits, wanted, n_bytes) == 0, "%zu + %zu tokens, cache %d: copy %zu", n, n_more,
              (int)cache, i);
        CHECK(n_rows == i * n_more, "%zu tokens were fed", n_rows); /* `second` has the probe of `other` */
    }
    for (size_t i = 0; i < 4; i++) attn_session_free(all[i]);
    attn_session_free(plain);
}

static void test_copies_go_on_alike(void) {
    for (size_t i = 0; i < N_MODELS; i++) {
        AttnModel *model = open_model(models[i]);
        for (int cache = 0; cache < 3; cache++) {
            check_copies(model, (AttnCache)cache, 0, 5);
            check_copies(model, (AttnCache)cache, 1, 1);
            check_copies(model, (AttnCache)cache, 63, 3);
            check_copies(model, (AttnCache)cache, 64, 20);
            check_copies(model, (AttnCache)cache, 130, 1);
        }
        attn_model_close(model);
    }
}

/* Two that were forked do not disturb each other. */
static void test_forks_part(void) {
    static float logits[2][MAX_VOCAB], wanted[2][MAX_VOCAB];
    int32_t tokens[MAX_TOKENS], others[MAX_TOKENS];
    for (size_t i = 0; i < N_MODELS; i++) {
        AttnModel *model = open_model(models[i]);
        AttnSessionOptions options = {.n_ctx = 60};
        AttnSession *first = open_session(model, &options);
        size_t n_bytes = attn_model_shape(model).n_vocab * sizeof(float);
        write_tokens(model, 5, tokens);
        memcpy(others, tokens, sizeof tokens);
        for (size_t j = 40; j < MAX_TOKENS; j++) others[j] = tokens[MAX_TOKENS - j];
        feed(first, tokens, 40, logits[0]);
        AttnSession *fork = attn_session_fork(first, NULL, NULL);
        for (size_t j = 40; j < 60; j++) {
            feed(first, tokens + j, 1, logits[0]);
            feed(fork, others + j, 1, logits[1]);
        }
        for (size_t k = 0; k < 2; k++) {
            AttnSession *anew = open_session(model, &options);
            const int32_t *text = k ? others : tokens;
            feed(anew, text, 40, wanted[k]);
            for (size_t j = 40; j < 60; j++) feed(anew, text + j, 1, wanted[k]);
            CHECK(memcmp(logits[k], wanted[k], n_bytes) == 0, "%s: text %zu", models[i], k);
            attn_session_free(anew);
        }
        attn_session_free(first);
        CHECK(holds(fork, others, 60), "a fork does not outlive its session");
        attn_session_free(fork);
        attn_model_close(model);
    }
}

/* Tokens that were held before leave no trace in the bytes. */
static void test_bytes_are_of_the_tokens_alone(void) {
    static float logits[MAX_VOCAB];
    AttnModel *model = open_model(GPT2);
    for (int cache = 0; cache < 3; cache++) {
        AttnSessionOptions options = {.cache = (AttnCache)cache};
        AttnSession *anew = open_session(model, &options), *used = open_session(model, &options);
        int32_t tokens[MAX_TOKENS];
        write_tokens(model, 1, tokens);
        feed(anew, tokens, 70, logits);
        feed(used, tokens, 130, logits);
        attn_rewind(used, 70);
        save(anew, &saved);
        save(used, &again);
        CHECK(saved.n == again.n && memcmp(saved.data, again.data, saved.n) == 0, "cache %d", cache);
        attn_session_free(anew);
        attn_session_free(used);
    }
    attn_model_close(model);
}

/* A restore that fails with these words; the session then holds its first n_left tokens. */
static void check_refused(AttnSession *session, Bytes *bytes, const char *words, size_t n_left) {
    size_t n;
    AttnError error = {""};
    CHECK(!restore(session, bytes, &error), "no error: %s", words);
    CHECK(strstr(error.message, words) && !strchr(error.message, '\n'), "'%s' without '%s'", error.message,
          words);
    attn_session_tokens(session, &n);
    CHECK(n == n_left, "%s: it holds %zu tokens, not %zu", words, n, n_left);
}

/* The checksum as snapshot.c has it, for who knows how to make one. */
static uint64_t checksum(const unsigned char *bytes, size_t n, uint64_t hash) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, n - i < 8 ? n - i : 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Makes it good again, of a session whose parts but that of its n tokens are whole words. */
static void forge(Bytes *bytes, size_t n) {
    size_t n_tokens = 4 * n, rest = HEADER + n_tokens, end = bytes->n - 8;
    uint64_t hash = checksum(bytes->data, HEADER, 0);
    hash = checksum(bytes->data + HEADER, n_tokens, hash);
    hash = checksum(bytes->data + rest, end - rest, hash);
    memcpy(bytes->data + end, &hash, 8);
}

/* Takes so many pieces, and then no more. */
static bool take_some(void *user, const void *bytes, size_t n) {
    size_t *left = user;
    (void)bytes, (void)n;
    return *left > 0 && (*left)--;
}

static void test_what_does_not_fit(void) {
    static float logits[MAX_VOCAB];
    AttnModel *model = open_model(GPT2), *other = open_model(REFERENCE "gpt2-f16.gguf");
    AttnSession *session = open_session(model, NULL), *target = open_session(model, NULL),
                *of_other = open_session(other, NULL),
                *q8 = open_session(model, &(AttnSessionOptions){.cache = ATTN_CACHE_Q8_0}),
                *small = open_session(model, &(AttnSessionOptions){.n_ctx = 59});
    AttnError error = {""};
    int32_t tokens[MAX_TOKENS];
    write_tokens(model, 9, tokens);
    feed(session, tokens, 60, logits);
    save(session, &saved);
    feed(target, tokens, 5, logits), feed(of_other, tokens, 4, logits), feed(q8, tokens, 3, logits);
    check_refused(of_other, &saved, "another model than tests/data/reference/gpt2-f16.gguf", 4);
    check_refused(q8, &saved, "the saved keys and values are of another type", 3);
    check_refused(small, &saved, "60 tokens were saved, more", 0);
    CHECK(!attn_session_fork(session, &(AttnSessionOptions){.n_ctx = 59}, &error) &&
              strcmp(error.message, "60 tokens were forked, more than the context of 59 holds") == 0,
          "%s", error.message);
    CHECK(
        !attn_session_fork(session, &(AttnSessionOptions){.cache = ATTN_CACHE_F32}, &error) &&
            strstr(error.message, "the forked keys and values are of another type than the session's cache"),
        "%s", error.message);
    size_t n_taken = 0, left = 0;
    for (; !attn_session_save(session, take_some, &left, &error); left = ++n_taken)
        CHECK(strstr(error.message, "was not saved"), "%s", error.message);
    CHECK(n_taken > 3, "only %zu pieces", n_taken);

    broken = saved;
    broken.data[0] ^= 1;
    check_refused(target, &broken, "no saved session", 5);
    broken = saved;
    broken.data[8] = 2;
    check_refused(target, &broken, "format 2", 5);
    broken = saved;
    broken.n = 0;
    check_refused(target, &broken, "no beginning", 5);
    broken.n = saved.n - 1;
    check_refused(target, &broken, "ends too early", 0);
    broken.n = HEADER;
    check_refused(target, &broken, "ends too early", 0);
    broken = saved;
    broken.data[saved.n / 2] ^= 8;
    check_refused(target, &broken, "damaged", 0);
    CHECK(restore(target, &saved, &error) && holds(target, tokens, 60), "%s", error.message);

    /* Made with bad intent: a token beside the vocabulary, more of them than there are, or than there is room for. */
    const int32_t bad[] = {(int32_t)attn_model_shape(model).n_vocab, -1, INT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        broken = saved;
        memcpy(broken.data + HEADER + 4 * i * 29, &bad[i], 4);
        forge(&broken, 60);
        check_refused(target, &broken, "not in the vocabulary", 0);
    }
    const uint64_t numbers[] = {193, UINT64_MAX, (uint64_t)1 << 62};
    for (size_t i = 0; i < 3; i++) {
        broken = saved;
        memcpy(broken.data + HEADER - 8, &numbers[i], 8);
        forge(&broken, 60);
        check_refused(target, &broken, "more than the context of 192", 0);
    }
    broken = saved;
    broken.data[HEADER - 8] = 64; /* as many tiles, and four more tokens */
    forge(&broken, 60);
    check_refused(target, &broken, "ends too early", 0);
    broken.data[HEADER - 8] = 0; /* none: the checksum would be where the tokens are */
    check_refused(target, &broken, "damaged", 0);
    attn_session_free(session), attn_session_free(target), attn_session_free(of_other);
    attn_session_free(q8), attn_session_free(small);
    attn_model_close(model), attn_model_close(other);
}

/* LongRoPE turns keys in long contexts otherwise than in short ones. */
static void test_other_angles(void) {
    AttnModel *model = open_model(REFERENCE "llama-longrope.gguf");
    AttnSession *shorter = open_session(model, &(AttnSessionOptions){.n_ctx = 8}),
                *longer = open_session(model, NULL),
                *longest = open_session(model, &(AttnSessionOptions){.n_ctx = 500});
    int32_t tokens[MAX_TOKENS];
    float logits[MAX_VOCAB];
    AttnError error = {""};
    write_tokens(model, 2, tokens);
    feed(longer, tokens, 8, logits);
    save(longer, &saved);
    check_refused(shorter, &saved, "other angles", 0);
    CHECK(restore(longest, &saved, &error), "%s", error.message);
    CHECK(!attn_session_fork(longer, &(AttnSessionOptions){.n_ctx = 8}, &error) &&
              strstr(error.message, ", as was forked, and in one of 8, as here, by other angles"),
          "%s", error.message);
    attn_session_free(shorter), attn_session_free(longer), attn_session_free(longest);
    attn_model_close(model);
}

/* Bytes changed at random: with their old checksum none is taken; with a good one all are but those of no token. */
static void check_mutations(const char *path, AttnCache cache) {
    enum { N = 21, N_TRIES = 200 };
    static float logits[MAX_VOCAB], wanted[MAX_VOCAB];
    AttnModel *model = open_model(path);
    AttnSessionOptions options = {.n_ctx = 70, .n_threads = 1, .cache = cache};
    AttnSession *session = open_session(model, &options);
    size_t n_bytes = attn_model_shape(model).n_vocab * sizeof(float), n_taken = 0, n_finite = 0;
    uint32_t state = 12345;
    int32_t tokens[MAX_TOKENS];
    AttnError error;
    write_tokens(model, 3, tokens);
    feed(session, tokens, N, logits);
    save(session, &saved);
    feed(session, tokens + N, 4, wanted);
    broken = saved;
    forge(&broken, N);
    CHECK(memcmp(broken.data, saved.data, saved.n) == 0, "the test makes another checksum");
    for (size_t try = 0; try < N_TRIES; try++) {
        bool forged = try % 2, cut = try % 8 == 4, in_front = try % 3 == 0; /* in_front: header and tokens */
        broken = saved;
        for (size_t k = 0; k <= try % 5; k++) {
            state = state * 1664525u + 1013904223u;
            size_t at = (state >> 4) % (in_front ? HEADER + 4 * N : broken.n);
            state = state * 1664525u + 1013904223u;
            broken.data[at] ^= (unsigned char)(1 + (state >> 8) % 255);
        }
        if (forged) forge(&broken, N);
        if (cut) broken.n = (state >> 4) % broken.n;
        bool same =
            broken.n == saved.n && memcmp(broken.data, saved.data, saved.n) == 0; /* two changes of a byte */
        bool ok = restore(session, &broken, &error);
        CHECK(forged || same || !ok, "%s: change %zu is not seen", path, try);
        CHECK(ok || (error.message[0] && !strchr(error.message, '\n')), "'%s'", error.message);
        size_t n_held;
        attn_session_tokens(session, &n_held);
        n_taken += ok;
        if (ok) CHECK(n_held == N, "%zu tokens", n_held);
        if (ok && attn_feed(session, tokens, 4, logits, 1, &error)) n_finite++;
    }
    CHECK(n_taken > N_TRIES / 8 && n_finite > 0, "%zu of %d forged ones are taken, %zu of them good",
          n_taken, N_TRIES, n_finite);
    CHECK(restore(session, &saved, &error), "%s", error.message);
    feed(session, tokens + N, 4, logits);
    CHECK(memcmp(logits, wanted, n_bytes) == 0, "%s: what was broken leaves a trace", path);
    attn_session_free(session);
    attn_model_close(model);
}

static void test_mutations(void) {
    check_mutations(GPT2, ATTN_CACHE_F16);
    check_mutations(GPT2, ATTN_CACHE_Q8_0);
    check_mutations(REFERENCE "lfm2.gguf", ATTN_CACHE_F32);
    check_mutations(REFERENCE "qwen35.gguf", ATTN_CACHE_F16);
}

static void test_null(void) {
    AttnError error = {"as it was"};
    CHECK(!attn_session_fork(NULL, NULL, &error) && attn_session_bytes(NULL) == 0, "of nothing");
    CHECK(!attn_session_save(NULL, keep, &saved, &error), "saved");
    CHECK(!attn_session_restore(NULL, give, &saved, &error), "restored");
    CHECK(strcmp(error.message, "as it was") == 0, "%s", error.message);
}

int main(void) {
    RUN(test_copies_go_on_alike);
    RUN(test_forks_part);
    RUN(test_bytes_are_of_the_tokens_alone);
    RUN(test_what_does_not_fit);
    RUN(test_other_angles);
    RUN(test_mutations);
    RUN(test_null);
    return test_end();
}
