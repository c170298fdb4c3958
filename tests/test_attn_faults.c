/*
 * For those who embed the library: each of its calls of the system fails in turn (tests/faults.c does it), once or from
 * there on, under all that attn.h has. A call that fails says why, prints nothing and leaves its objects good: the same
 * call, repeated, gives the bits of a run in which nothing failed. Memory that is not freed is a sanitizer's find (make
 * sanitize).
 *
 * The short form tries each call in one of the ways, the long one (ATTN_LONG_TESTS=1) in all, or under a sanitizer those of the
 * first model.
 */
#include "attn.h"

#include "tests/faults.h"
#include "tests/test.h"

#include <errno.h>
#include <unistd.h>

enum { MAX_TOKENS = 256, MAX_TEXT = 1024, MAX_VOCAB = 300, N_LOGITS = 3, N_SAMPLED = 8, MAX_FILE = 1 << 20 };

static const char prompt[] = "The sea was calm, na\xc3\xafve & \xe2\x82\xac 5.";

typedef struct Case {
    const char *model, *tokenizer; /* tokenizer: or NULL */
    unsigned n_threads;
    bool steers;
} Case;

static const Case cases[] = {
    {"tests/data/reference/gpt2-f32.gguf", NULL, 1, false},
    {"tests/data/reference/llama-q8_0.gguf", "tests/data/reference/llama-f32.gguf", 3, true},
    {"tests/data/reference/gpt2-q4_0.gguf", NULL, 0, false},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* A call that may fail, and words that must stand in the error that follows, if one follows: ours, or the C library's. */
typedef struct Kind {
    const char *name, *words;
    int code;
} Kind;

static const Kind kinds[] = {
    {"malloc", "not enough memory"},
    {"mmap", NULL, ENOMEM},
    {"open", NULL, EMFILE},
    {"fopen", NULL, EMFILE},
    {"fstat", NULL, EIO},
#ifndef _OPENMP /* whose threads are its own */
    {"pthread_create", "ask for fewer"},
#endif
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const char *words_of(const Kind *kind) { return kind->words ? kind->words : strerror(kind->code); }

/* The results of the calls: the same bytes with and without a fault on the way. */
typedef struct Given {
    int32_t tokens[MAX_TOKENS], sampled[N_SAMPLED], held[MAX_TOKENS]; /* held: after attn_generate */
    size_t n_tokens, n_held;
    int32_t chat[MAX_TOKENS];
    size_t n_chat, n_saved;
    float row[MAX_VOCAB], gradient[MAX_VOCAB]; /* of W_E; at what leaves the first layer */
    double metric;
    float hidden[MAX_VOCAB], restored[MAX_VOCAB], forked[MAX_VOCAB];
    AttnShape shape; /* of the model that was opened from memory */
    float fed[N_LOGITS][MAX_VOCAB], synced[MAX_VOCAB], unembedded[MAX_VOCAB], fed_at_last[MAX_VOCAB];
    char text[MAX_TEXT], shifted[MAX_TEXT], begun[MAX_TEXT];
    AttnEnd end;
} Given;

typedef struct Work {
    const Case *with;
    AttnModel *model;
    AttnSession *session, *fork;
    AttnSampler *sampler;
    AttnModel *in_memory;
    Given given;
} Work;

static bool open_model(Work *work, AttnError *error) {
    AttnModelOptions options = {.tokenizer = work->with->tokenizer};
    work->model = attn_model_open(work->with->model, &options, error);
    return work->model;
}

static bool tokenize(Work *work, AttnError *error) {
    Given *given = &work->given;
    return attn_tokenize(work->model, prompt, sizeof prompt - 1, ATTN_TOKENIZE_ENDS, given->tokens,
                         MAX_TOKENS, &given->n_tokens, error);
}

static bool steer_here(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)head;
    return (site == ATTN_RESID_POST && layer == 0) || site == ATTN_PATTERN;
}

static void steer(void *user, const AttnActivation *seen) {
    (void)user;
    for (size_t i = 0; seen->site == ATTN_RESID_POST && i < seen->n_rows; i++)
        seen->data[i * seen->stride] += 0.5f;
}

static bool new_session(Work *work, AttnError *error) {
    AttnSessionOptions options = {.n_ctx = 44, .n_threads = work->with->n_threads};
    if (work->with->steers) options.probe = (AttnProbe){.wants = steer_here, .visit = steer};
    work->session = attn_session_new(work->model, &options, error);
    return work->session;
}

static bool feed(Work *work, AttnError *error) {
    Given *given = &work->given;
    attn_rewind(work->session, 0);
    return attn_feed(work->session, given->tokens, given->n_tokens, given->fed[0], N_LOGITS, error);
}

static bool sample(Work *work, AttnError *error) {
    AttnSampling sampling = {.temperature = 1, .top_k = 50, .frequency_penalty = 0.5f, .seed = 3};
    attn_sampler_free(work->sampler);
    work->sampler = attn_sampler_new(work->model, &sampling, error);
    for (size_t i = 0; work->sampler && i < N_SAMPLED; i++)
        work->given.sampled[i] = attn_sample(work->sampler, work->given.fed[0]);
    return work->sampler;
}

/* The second half of the tokens, behind the first. */
static bool sync_behind(Work *work, AttnError *error) {
    Given *given = &work->given;
    size_t n = given->n_tokens, half = n / 2;
    attn_rewind(work->session, 0);
    return attn_feed(work->session, given->tokens, half, NULL, 0, error) &&
           attn_sync(work->session, given->tokens, n, given->synced, error);
}

static bool unembed(Work *work, AttnError *error) {
    float resid[1024];
    (void)error;
    for (size_t i = 0; i < sizeof resid / sizeof *resid; i++) resid[i] = (float)(i % 7) - 3;
    return attn_unembed(work->session, resid, 1, work->given.unembedded);
}

/* A callback of its own, which appends to a string. */
static bool keep(void *user, const char *text, size_t n) {
    char *to = user;
    size_t length = strlen(to);
    if (length + n >= MAX_TEXT) return false;
    memcpy(to + length, text, n);
    to[length + n] = '\0';
    return true;
}

static bool generate(Work *work, AttnError *error) {
    Given *given = &work->given;
    AttnGenerateOptions options = {.n_tokens = 8, .text = keep, .user = given->text};
    memset(given->text, 0, sizeof given->text);
    bool ok = attn_generate(work->session, prompt, &options, &given->end, error);
    const int32_t *held = attn_session_tokens(work->session, &given->n_held);
    memset(given->held, 0, sizeof given->held);
    if (held) memcpy(given->held, held, given->n_held * sizeof *held);
    return ok;
}

/* Until after the context has been full. */
static bool shift(Work *work, AttnError *error) {
    static const char *const stop[] = {"never\x01written", "nor\x02this"};
    AttnSampling sampling = {.temperature = 1, .repeat_penalty = 1.1f, .min_p = 0.01f, .seed = 9};
    AttnGenerateOptions options = {.sampling = sampling,
                                   .n_tokens = 16,
                                   .stop = stop,
                                   .n_stop = 2,
                                   .shift = true,
                                   .special = true,
                                   .text = keep,
                                   .user = work->given.shifted};
    memset(work->given.shifted, 0, sizeof work->given.shifted);
    return attn_generate(work->session, prompt, &options, NULL, error);
}

/* An empty prompt shows nothing, so that there is no memory yet for text. */
static bool begin(Work *work, AttnError *error) {
    AttnGenerateOptions options = {.n_tokens = 4, .text = keep, .user = work->given.begun};
    memset(work->given.begun, 0, sizeof work->given.begun);
    return attn_generate(work->session, "", &options, NULL, error);
}

static bool feed_at_last(Work *work, AttnError *error) {
    Given *given = &work->given;
    attn_rewind(work->session, 0);
    return attn_feed(work->session, given->tokens, given->n_tokens, given->fed_at_last, 1, error);
}

/* Two that ask and answer, and bytes that are no UTF-8. */
static bool chat(Work *work, AttnError *error) {
    static const AttnMessage messages[] = {{"user", "Who is it?", NULL}, {"assistant", "I \xff", "hm"}};
    static const char source[] =
        "{% for m in messages %}{{ m.role ~ tone ~ m.content | trim ~ '\n' }}{% endfor %}";
    Given *given = &work->given;
    return attn_chat(work->model, messages, 2,
                     &(AttnChatOptions){.source = source, .variables = "{\"tone\": \": \"}"}, given->chat,
                     MAX_TOKENS, &given->n_chat, error);
}

static unsigned char saved[MAX_FILE];
static size_t n_given;

static bool save_bytes(void *user, const void *bytes, size_t n) {
    size_t *n_saved = user;
    if (n > sizeof saved - *n_saved) return false;
    memcpy(saved + *n_saved, bytes, n);
    *n_saved += n;
    return true;
}

static bool give_bytes(void *user, void *bytes, size_t n) {
    const size_t *n_saved = user;
    if (n > *n_saved - n_given) return false;
    memcpy(bytes, saved + n_given, n);
    n_given += n;
    return true;
}

/* The first half of the tokens is saved; restored, it is gone on with. */
static bool save_and_restore(Work *work, AttnError *error) {
    Given *given = &work->given;
    size_t n = given->n_tokens, half = n / 2;
    given->n_saved = n_given = 0;
    attn_rewind(work->session, 0);
    return attn_feed(work->session, given->tokens, half, NULL, 0, error) &&
           attn_session_save(work->session, save_bytes, &given->n_saved, error) &&
           attn_feed(work->session, given->tokens, 3, NULL, 0, error) &&
           attn_session_restore(work->session, give_bytes, &given->n_saved, error) &&
           attn_feed(work->session, given->tokens + half, n - half, given->restored, 1, error);
}

static bool fork_session(Work *work, AttnError *error) {
    Given *given = &work->given;
    size_t n = given->n_tokens, half = n / 2;
    attn_session_free(work->fork);
    attn_rewind(work->session, 0);
    work->fork = attn_feed(work->session, given->tokens, half, NULL, 0, error)
                     ? attn_session_fork(work->session, NULL, error)
                     : NULL;
    return work->fork && attn_feed(work->fork, given->tokens + half, n - half, given->forked, 1, error);
}

static bool hidden(Work *work, AttnError *error) {
    return attn_hidden(work->session, work->given.tokens, work->given.n_tokens, work->given.hidden, error);
}

static bool weight(Work *work, AttnError *error) {
    return attn_weight(work->model, ATTN_W_E, 0, 5, 1, work->given.row, NULL, error);
}

static bool at_first_layer(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)head;
    return site == ATTN_RESID_POST && layer == 0;
}

static void keep_gradient(void *user, const AttnActivation *seen, float *gradient) {
    memcpy(user, gradient, seen->n_cols * sizeof *gradient);
}

static bool gradient(Work *work, AttnError *error) {
    Given *given = &work->given;
    const AttnTerm terms[] = {{0, 5, true, -1}, {given->n_tokens - 1, 6, false, 2}};
    const AttnGradientProbe probe = {given->gradient, at_first_layer, keep_gradient};
    return attn_gradient(work->session, given->tokens, given->n_tokens, terms, 2, &probe, &given->metric,
                         error);
}

static _Alignas(16) unsigned char file[MAX_FILE]; /* of the case under way */
static size_t n_file;

static bool open_memory(Work *work, AttnError *error) {
    AttnModelOptions options = {.tokenizer = work->with->tokenizer};
    attn_model_close(work->in_memory);
    work->in_memory = attn_model_open_memory(file, n_file, "bytes", &options, error);
    work->given.shape = attn_model_shape(work->in_memory);
    return work->in_memory;
}

static const struct {
    const char *name;
    bool (*call)(Work *work, AttnError *error);
} steps[] = {{"open", open_model},
             {"tokenize", tokenize},
             {"session", new_session},
             {"feed", feed},
             {"sample", sample},
             {"sync", sync_behind},
             {"unembed", unembed},
             {"generate", generate},
             {"shift", shift},
             {"begin", begin},
             {"feed again", feed_at_last},
             {"chat", chat},
             {"restore", save_and_restore},
             {"fork", fork_session},
             {"hidden", hidden},
             {"weight", weight},
             {"gradient", gradient},
             {"memory", open_memory}};
enum { N_STEPS = sizeof steps / sizeof *steps };

static Given usual;
static FILE *said; /* what is printed while the library is at work */
static int outs[2];

/* Takes a step, as nothing that it prints would go unseen. */
static bool take(Work *work, size_t step, AttnError *error, const char *what) {
    fflush(stdout);
    dup2(fileno(said), STDOUT_FILENO);
    dup2(fileno(said), STDERR_FILENO);
    bool ok = steps[step].call(work, error);
    fflush(stdout);
    dup2(outs[0], STDOUT_FILENO);
    dup2(outs[1], STDERR_FILENO);
    CHECK(lseek(fileno(said), 0, SEEK_END) == 0, "%s: %s prints", what, steps[step].name);
    return ok;
}

/* After attn_generate has failed, what the session holds is the beginning of what it would hold. */
static void check_held(const Given *given, const char *what) {
    CHECK(given->n_held <= usual.n_held &&
              memcmp(given->held, usual.held, given->n_held * sizeof *usual.held) == 0,
          "%s: %zu other tokens", what, given->n_held);
}

static void close_all(Work *work) {
    attn_sampler_free(work->sampler);
    attn_session_free(work->fork);
    attn_session_free(work->session);
    attn_model_close(work->in_memory);
    attn_model_close(work->model);
}

typedef enum Way { ONCE, FROM_THERE_ON, THE_END, N_WAYS } Way; /* THE_END: all is closed after a failure */

/* Without the fault: whatever is not yet there is made, and the steps from the first that failed are taken again. */
static void repeat(Work *work, size_t first, const char *what) {
    for (size_t i = first; i < N_STEPS; i++) {
        AttnError error = {""};
        if (steps[i].call == open_model ? work->model != NULL : steps[i].call == new_session && work->session)
            continue;
        CHECK(take(work, i, &error, what), "%s: %s fails again: %s", what, steps[i].name, error.message);
    }
}

/* All steps with the fault; behind the first that fails nobody asks for the error. Returns whether it struck. */
static bool try_fault(const Case *with, const Kind *kind, size_t call, Way way) {
    static Work work;
    char fault[64], what[128];
    size_t first = N_STEPS; /* that failed */
    memset(&work, 0, sizeof work);
    work.with = with;
    snprintf(fault, sizeof fault, "%s:%zu%s", kind->name, call, way == FROM_THERE_ON ? "+" : "");
    snprintf(what, sizeof what, "%s, %s%s", with->model, fault, way == THE_END ? ", closed" : "");
    faults_arm(fault);
    for (size_t i = 0; i < N_STEPS && (first == N_STEPS || way == FROM_THERE_ON); i++) {
        AttnError error = {"nothing"};
        if (take(&work, i, first == N_STEPS ? &error : NULL, what)) continue;
        CHECK(first < N_STEPS || strstr(error.message, words_of(kind)), "%s: %s says '%s'", what,
              steps[i].name, error.message);
        if (first == N_STEPS) first = i;
        if (steps[i].call == generate) check_held(&work.given, what);
    }
    bool struck = faults_arm("") > 0;
    CHECK(struck || first == N_STEPS, "%s: fails without a fault", what);
    if (way != THE_END) repeat(&work, first, what);
    if (way != THE_END || first == N_STEPS)
        CHECK(memcmp(&work.given, &usual, sizeof usual) == 0, "%s: other tokens, logits or text", what);
    close_all(&work);
    return struck;
}

/* Runs the steps without a fault. */
static void run_as_usual(const Case *with) {
    static Work work;
    memset(&work, 0, sizeof work);
    work.with = with;
    faults_arm("");
    FILE *model = fopen(with->model, "rb");
    n_file = model ? fread(file, 1, sizeof file, model) : 0;
    CHECK(n_file > 0 && n_file < sizeof file && fclose(model) == 0, "%s cannot be read", with->model);
    for (size_t i = 0; i < N_STEPS; i++) {
        AttnError error = {""};
        CHECK(take(&work, i, &error, with->model), "%s: %s", steps[i].name, error.message);
    }
    memcpy(&usual, &work.given, sizeof usual);
    CHECK(usual.n_held > usual.n_tokens && strlen(usual.shifted) > strlen(usual.text) && usual.begun[0],
          "it wrote %zu tokens", usual.n_held - usual.n_tokens);
    CHECK(usual.n_chat > 15 && usual.shape.n_layer > 0 && usual.n_saved > 1000, "%zu tokens of a chat",
          usual.n_chat);
    CHECK(usual.metric != 0 && usual.gradient[0] != 0 && (usual.row[0] != 0 || usual.row[1] != 0),
          "a metric of %g", usual.metric);
    size_t n_bytes = usual.shape.n_vocab * sizeof(float);
    CHECK(memcmp(usual.restored, usual.synced, n_bytes) == 0 &&
              memcmp(usual.forked, usual.synced, n_bytes) == 0,
          "%s: other logits after a copy", with->model);
    close_all(&work);
}

static void test_each_call_fails(void) {
    size_t n_struck[N_KINDS] = {0};
    for (size_t i = 0; i < N_CASES; i++) {
        bool all = i < how_many(N_CASES, 0, getenv("ATTN_LONG_TESTS") ? 1 : 0);
        run_as_usual(&cases[i]);
        for (size_t kind = 0; kind < N_KINDS; kind++)
            for (size_t way = 0; way < N_WAYS; way++) {
                size_t call = all ? 1 : 1 + way, step = all ? 1 : N_WAYS;
                for (; try_fault(&cases[i], &kinds[kind], call, (Way)way); call += step) n_struck[kind]++;
            }
    }
    for (size_t i = 0; i < N_KINDS; i++) CHECK(n_struck[i] > 0, "no call of %s failed", kinds[i].name);
    printf("%zu allocations failed\n", n_struck[0]);
}

int main(void) {
    said = tmpfile();
    outs[0] = dup(STDOUT_FILENO), outs[1] = dup(STDERR_FILENO);
    if (!said || outs[0] < 0 || outs[1] < 0) return 1;
    RUN(test_each_call_fails);
    return test_end();
}
