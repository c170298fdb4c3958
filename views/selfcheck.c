/*
 * selfcheck: whether the engine agrees with itself, on any model. The text goes through four sessions in
 * step, a chunk at a time: one that nobody watches, whose logits are the measure; one with every site
 * watched; one that is fed token by token; and one that ablates nothing: a probe holds every head and MLP
 * and leaves them as they are, and the layers from the middle up run again, as ablate has them do.
 *
 * Differences of logits are given as a share of their span (the largest less the smallest), which a constant
 * in all logits does not hide. Allowed is 3e-4 with an F32 cache: sums of floats in another order differ by
 * some 1e-6 of it, which what quantised weights are multiplied with, rounded to 16 bits, makes some 1e-5; a
 * mistake (a position off by one, a key too many) differs by 1e-2 and more. With an F16 cache,
 * a last bit can round a key or value to the other neighbour, 5e-4 of it away: 2e-3. Where arithmetic is the
 * same by design, no difference is allowed. Kernel sets that round to 8 bits (ATTN_KERNEL=…-int8) fail: with
 * them logits do depend, by up to 1e-2, on the way that a text took.
 */
#include "views/study.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SESSIONS = 4, CHUNK_BYTES = 64 << 20 /* of logits */ };

#define ALLOWED_ROW_SUM 1e-5
#define ALLOWED_F32 3e-4
#define ALLOWED_F16 2e-3

/* Longer than the 64 keys of a tile of attention in most vocabularies. */
static const char own_text[] =
    "The mole dug a tunnel under the garden, and the garden grew over the tunnel. When it rained, the water "
    "ran down into the dark, past the roots of the old pear tree, and the mole moved its bed a little "
    "higher. \"Dry again,\" said the mole, and slept until 6:30. In spring the mole dug a tunnel under the "
    "pear tree.";

typedef enum CheckId { ROWS, DIAGONAL, STEPS, LENS, ABLATION, WATCHING, N_CHECKS } CheckId;

typedef struct Check {
    const char *name, *how; /* how: for people */
    double largest, allowed;
} Check;

typedef struct Selfcheck {
    const Study *study;
    Check checks[N_CHECKS];
    size_t n_vocab, d_model;
    size_t n_chunk, middle;           /* tokens in a chunk; the layer to run again from */
    size_t position;                  /* of the chunk under way */
    float *logits, *other;            /* [n_chunk][n_vocab]: the measure, and what is compared with it */
    float *one;                       /* [n_vocab] */
    float *resid_middle, *resid_last; /* [n_chunk][d_model] entering the middle layer, leaving the last */
    int32_t *changed;                 /* [n_chunk] the chunk with its second half changed */
    double smallest, biggest;         /* of the measure's logits */
} Selfcheck;

/* NaN counts as infinite, so that no comparison lets it pass. */
static void note(Selfcheck *selfcheck, CheckId id, double difference) {
    Check *check = &selfcheck->checks[id];
    if (!(difference <= DBL_MAX)) difference = INFINITY;
    if (difference > check->largest) check->largest = difference;
}

static void note_all(Selfcheck *selfcheck, CheckId id, const float *found, const float *expected, size_t n) {
    for (size_t i = 0; i < n; i++) note(selfcheck, id, fabs((double)found[i] - (double)expected[i]));
}

static bool wants_all(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)site, (void)layer, (void)head;
    return true;
}

static void check_row(Selfcheck *selfcheck, const ProbeView *view) {
    double sum = 0;
    for (size_t key = 0; key < view->n_cols; key++) sum += (double)view->data[key];
    note(selfcheck, ROWS, fabs(sum - 1));
    for (size_t key = view->position + 1; key < view->n_cols; key++)
        note(selfcheck, DIAGONAL, fabs((double)view->data[key]));
}

static void keep_rows(const Selfcheck *selfcheck, const ProbeView *view, float *kept) {
    size_t row = view->position - selfcheck->position, d = selfcheck->d_model;
    for (size_t i = 0; i < view->n_rows; i++)
        memcpy(kept + (row + i) * d, view->data + i * view->stride, d * sizeof *kept);
}

static void watch_all(void *user, const ProbeView *view) {
    Selfcheck *selfcheck = user;
    size_t last = model_config(selfcheck->study->model)->n_layer - 1;
    if (view->site == PROBE_PATTERN) check_row(selfcheck, view);
    if (view->site == PROBE_RESID_POST && view->layer == last)
        keep_rows(selfcheck, view, selfcheck->resid_last);
}

/* What ablate holds, and where it runs again from. */
static bool wants_ablatable(void *user, ProbeSite site, size_t layer, size_t head) {
    const Selfcheck *selfcheck = user;
    (void)head;
    return site == PROBE_Z || site == PROBE_MLP_OUT ||
           (site == PROBE_RESID_PRE && layer == selfcheck->middle);
}

static void ablate_nothing(void *user, const ProbeView *view) {
    const Selfcheck *selfcheck = user;
    if (view->site == PROBE_RESID_PRE) keep_rows(selfcheck, view, selfcheck->resid_middle);
}

/* The measure; before it, the chunk with other tokens from its middle on, which none before may notice. */
static bool run_plain(Selfcheck *selfcheck, Session *session, const int32_t *ids, size_t n, Error *error) {
    size_t half = n / 2 | 1, n_vocab = selfcheck->n_vocab; /* odd: within a tile, whose end masks too */
    for (size_t i = 0; i < n; i++)
        selfcheck->changed[i] = i < half ? ids[i] : (int32_t)(((size_t)ids[i] + 1) % n_vocab);
    if (!session_feed(session, selfcheck->changed, n, selfcheck->other, n, error)) return false;
    session_rewind(session, selfcheck->position);
    if (!session_feed(session, ids, n, selfcheck->logits, n, error)) return false;
    note_all(selfcheck, DIAGONAL, selfcheck->other, selfcheck->logits, half * n_vocab);
    for (size_t i = 0; i < n * n_vocab; i++) {
        double logit = (double)selfcheck->logits[i];
        if (logit < selfcheck->smallest) selfcheck->smallest = logit;
        if (logit > selfcheck->biggest) selfcheck->biggest = logit;
    }
    return true;
}

static bool run_watched(Selfcheck *selfcheck, Session *session, const int32_t *ids, size_t n, Error *error) {
    size_t n_vocab = selfcheck->n_vocab;
    if (!session_feed(session, ids, n, selfcheck->other, n, error)) return false;
    note_all(selfcheck, WATCHING, selfcheck->other, selfcheck->logits, n * n_vocab);
    for (size_t i = 0; i < n; i++) {
        session_unembed(session, selfcheck->resid_last + i * selfcheck->d_model, 1, selfcheck->one);
        note_all(selfcheck, LENS, selfcheck->one, selfcheck->other + i * n_vocab, n_vocab);
    }
    return true;
}

/* Then the second half at once, which looks at keys of single tokens: RoPE hides a shift of all alike. */
static bool run_stepped(Selfcheck *selfcheck, Session *session, const int32_t *ids, size_t n, Error *error) {
    size_t half = n / 2, n_vocab = selfcheck->n_vocab;
    for (size_t i = 0; i < n; i++) {
        if (interrupted()) return error_set(error, "interrupted");
        if (!session_feed(session, ids + i, 1, selfcheck->one, 1, error)) return false;
        note_all(selfcheck, STEPS, selfcheck->one, selfcheck->logits + i * n_vocab, n_vocab);
    }
    session_rewind(session, selfcheck->position + half);
    if (!session_feed(session, ids + half, n - half, selfcheck->other, n - half, error)) return false;
    note_all(selfcheck, STEPS, selfcheck->other, selfcheck->logits + half * n_vocab, (n - half) * n_vocab);
    return true;
}

static bool run_ablated(Selfcheck *selfcheck, Session *session, const int32_t *ids, size_t n, Error *error) {
    size_t n_vocab = selfcheck->n_vocab;
    if (!session_feed(session, ids, n, selfcheck->other, n, error)) return false;
    note_all(selfcheck, ABLATION, selfcheck->other, selfcheck->logits, n * n_vocab);
    session_rewind(session, selfcheck->position);
    if (!session_resume(session, selfcheck->middle, selfcheck->resid_middle, n, selfcheck->other, n, error))
        return false;
    note_all(selfcheck, ABLATION, selfcheck->other, selfcheck->logits, n * n_vocab);
    return true;
}

static bool run_chunks(Selfcheck *selfcheck, Session *const sessions[N_SESSIONS], Error *error) {
    const Tokens *tokens = &selfcheck->study->tokens;
    bool ok = true;
    for (size_t n; ok && selfcheck->position < tokens->n; selfcheck->position += n) {
        const int32_t *ids = tokens->ids + selfcheck->position;
        n = at_most(tokens->n - selfcheck->position, selfcheck->n_chunk);
        show_progress("tokens", selfcheck->position, tokens->n);
        ok = run_plain(selfcheck, sessions[0], ids, n, error) &&
             run_watched(selfcheck, sessions[1], ids, n, error) &&
             run_stepped(selfcheck, sessions[2], ids, n, error) &&
             run_ablated(selfcheck, sessions[3], ids, n, error);
    }
    show_progress("tokens", tokens->n, tokens->n);
    return ok;
}

static bool run_checks(Selfcheck *selfcheck, Error *error) {
    const Probe watching = {selfcheck, wants_all, watch_all};
    const Probe ablating = {selfcheck, wants_ablatable, ablate_nothing};
    const Probe *const probes[N_SESSIONS] = {NULL, &watching, NULL, &ablating};
    Session *sessions[N_SESSIONS] = {NULL};
    size_t n = selfcheck->n_chunk;
    selfcheck->logits = floats_new(n, selfcheck->n_vocab);
    selfcheck->other = floats_new(n, selfcheck->n_vocab);
    selfcheck->one = floats_new(1, selfcheck->n_vocab);
    selfcheck->resid_middle = floats_new(n, selfcheck->d_model);
    selfcheck->resid_last = floats_new(n, selfcheck->d_model);
    selfcheck->changed = malloc(n * sizeof *selfcheck->changed);
    bool ok = (selfcheck->logits && selfcheck->other && selfcheck->one && selfcheck->resid_middle &&
               selfcheck->resid_last && selfcheck->changed) ||
              error_set(error, "not enough memory for the logits of %zu tokens", n);
    for (size_t i = 0; ok && i < N_SESSIONS; i++)
        ok = (sessions[i] = study_session(selfcheck->study, 0, probes[i], error)) != NULL;
    ok = ok && run_chunks(selfcheck, sessions, error);
    for (size_t i = 0; i < N_SESSIONS; i++) session_free(sessions[i]);
    free(selfcheck->logits);
    free(selfcheck->other);
    free(selfcheck->one);
    free(selfcheck->resid_middle);
    free(selfcheck->resid_last);
    free(selfcheck->changed);
    return ok;
}

/* As much of our own text as the context holds, when there is none. */
static bool provide_text(Study *study, Error *error) {
    if (study->tokens.n > 0) return true;
    if (!study_encode(study, own_text, sizeof own_text - 1, &study->tokens, &study->bos, error)) return false;
    study->tokens.n =
        at_most(study->tokens.n, at_most(study_n_ctx(study), model_config(study->model)->n_ctx));
    return true;
}

static bool passed(const Check *check) { return check->largest <= check->allowed; }

static void print_json(Report *report, const Check *checks, bool all_passed) {
    json_array(report, "checks");
    for (size_t i = 0; i < N_CHECKS; i++) {
        json_object(report, NULL);
        json_text(report, "name", checks[i].name, SIZE_MAX);
        json_bool(report, "passed", passed(&checks[i]));
        json_real(report, "largest_difference", checks[i].largest);
        json_real(report, "tolerance", checks[i].allowed);
        json_end_object(report);
    }
    json_end_array(report);
    json_bool(report, "passed", all_passed);
}

static void print_table(const Report *report, const Check *checks) {
    print_styled(report, STYLE_BOLD, "      %-36s %10s %10s\n", "", "largest", "allowed");
    for (size_t i = 0; i < N_CHECKS; i++) {
        bool good = passed(&checks[i]);
        print_styled(report, good ? STYLE_GOOD : STYLE_BAD, "%s", good ? "pass" : "FAIL");
        printf("  %-36s %10.2g %10.2g\n", checks[i].name, checks[i].largest, checks[i].allowed);
        print_styled(report, STYLE_DIM, "      %s\n", checks[i].how);
    }
    print_styled(
        report, STYLE_DIM,
        "\nDifferences of logits: shares of their span, largest less smallest; 0 means the same bits.\n");
}

static bool print_report(Study *study, const Check *checks, Error *error) {
    Report *report = &study->report;
    const Check *failed = NULL;
    for (size_t i = 0; i < N_CHECKS && !failed; i++)
        if (!passed(&checks[i])) failed = &checks[i];
    report_open(report, study);
    if (report->json)
        print_json(report, checks, !failed);
    else
        print_table(report, checks);
    report_close(report);
    return !failed || error_set(error, "%s: the check '%s' failed: %.2g, where %.2g is allowed",
                                study->options->model, failed->name, failed->largest, failed->allowed);
}

bool view_selfcheck(Study *study, Error *error) {
    if (!provide_text(study, error)) return false;
    const Config *config = model_config(study->model);
    bool f16 = strcmp(study->options->kv, "f16") == 0;
    double rounding = f16 ? ALLOWED_F16 : ALLOWED_F32;
    Selfcheck selfcheck = {
        .study = study,
        .checks = {[ROWS] = {"pattern rows sum to 1", "every layer, head and query", 0, ALLOWED_ROW_SUM},
                   [DIAGONAL] =
                       {"nothing above the diagonal",
                        "logits of the first half, when the second half is another (not divided by the span)",
                        0, 0},
                   [STEPS] = {"whole prompt equals token by token",
                              "logits of every position, and of the second half after single tokens", 0,
                              rounding},
                   [LENS] = {"last lens row equals the output",
                             "final norm and unembedding of the last residual", 0, ALLOWED_F32},
                   [ABLATION] = {"ablating nothing changes nothing",
                                 "an empty ablation of all layers, then of the upper half run again", 0, 0},
                   [WATCHING] = {"watching changes nothing", "every site of every layer and head watched", 0,
                                 rounding}},
        .n_vocab = config->n_vocab,
        .d_model = config->d_model,
        .middle = config->n_layer / 2,
        .smallest = INFINITY,
        .biggest = -INFINITY,
    };
    size_t n_fit = CHUNK_BYTES / sizeof(float) / config->n_vocab + 1;
    selfcheck.n_chunk = at_most(at_most(n_fit, SESSION_CHUNK), study->tokens.n);
    if (!run_checks(&selfcheck, error)) return false;

    double span = selfcheck.biggest - selfcheck.smallest;
    for (size_t i = STEPS; i < N_CHECKS && span > 0; i++) selfcheck.checks[i].largest /= span;
    return print_report(study, selfcheck.checks, error);
}
