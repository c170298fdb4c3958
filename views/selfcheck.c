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
#include "measures/scores.h"
#include "views/view.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { N_SESSIONS = 4, CHUNK_BYTES = 64 << 20 /* of logits */ };

#define ALLOWED_ROW_SUM 1e-5
#define ALLOWED_F32 3e-4
#define ALLOWED_F16 2e-3
#define ALLOWED_Q8_0 2e-2

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
    bool passed;
} Check;

typedef struct Selfcheck {
    const Subject *subject;
    Check checks[N_CHECKS];
    size_t n_vocab, d_model;
    size_t n_chunk, middle;           /* tokens in a chunk; the layer to run again from */
    size_t position;                  /* of the chunk under way */
    float *logits, *other;            /* [n_chunk][n_vocab]: the measure, and what is compared with it */
    float *one;                       /* [n_vocab] */
    float *resid_middle, *resid_last; /* [n_chunk][d_model] entering the middle layer, leaving the last */
    int32_t *changed;                 /* [n_chunk] the chunk with its second half changed */
    double smallest, biggest;         /* of the measure's logits */
    double
        row_sum; /* that the pattern of the row of scores just seen must have: 1, less what a learned sink takes */
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

/* Scores come before the pattern that the softmax makes of them. */
static void expect_row(Selfcheck *selfcheck, const Activation *seen) {
    ScoreRule rule = score_rule(selfcheck->subject->model, seen->layer, seen->head);
    float largest = seen->data[0]; /* as double, gcc 12 for arm64 stops with an internal error in this loop */
    for (size_t key = 1; key < seen->n_cols; key++) largest = fmaxf(largest, seen->data[key]);
    double max = fmax(rule.sink, (double)largest), sum = 0;
    for (size_t key = 0; key < seen->n_cols; key++) sum += exp((double)seen->data[key] - max);
    selfcheck->row_sum = sum / (sum + exp(rule.sink - max));
}

static void check_row(Selfcheck *selfcheck, const Activation *seen) {
    double sum = 0;
    for (size_t key = 0; key < seen->n_cols; key++) sum += (double)seen->data[key];
    note(selfcheck, ROWS, fabs(sum - selfcheck->row_sum));
    for (size_t key = seen->position + 1; key < seen->n_cols; key++)
        note(selfcheck, DIAGONAL, fabs((double)seen->data[key]));
}

static void keep_rows(const Selfcheck *selfcheck, const Activation *seen, float *kept) {
    if (seen->position < selfcheck->position) return; /* go_back */
    size_t row = seen->position - selfcheck->position, d = selfcheck->d_model;
    for (size_t i = 0; i < seen->n_rows; i++)
        memcpy(kept + (row + i) * d, seen->data + i * seen->stride, d * sizeof *kept);
}

static void watch_all(void *user, const Activation *seen) {
    Selfcheck *selfcheck = user;
    size_t last = model_config(selfcheck->subject->model)->n_layer - 1;
    if (seen->site == PROBE_SCORES) expect_row(selfcheck, seen);
    if (seen->site == PROBE_PATTERN) check_row(selfcheck, seen);
    if (seen->site == PROBE_RESID_POST && seen->layer == last)
        keep_rows(selfcheck, seen, selfcheck->resid_last);
}

/* Wants what ablate holds, and the stream that it runs again from. */
static bool wants_ablatable(void *user, ProbeSite site, size_t layer, size_t head) {
    const Selfcheck *selfcheck = user;
    (void)head;
    return site == PROBE_Z || site == PROBE_MLP_OUT ||
           (site == PROBE_RESID_PRE && layer == selfcheck->middle);
}

static void ablate_nothing(void *user, const Activation *seen) {
    const Selfcheck *selfcheck = user;
    if (seen->site == PROBE_RESID_PRE) keep_rows(selfcheck, seen, selfcheck->resid_middle);
}

/* Forgets what lies behind a position. Layers with a state can only begin anew: then what is before it is fed again. */
static bool go_back(const Selfcheck *selfcheck, Session *session, size_t position, Error *error) {
    session_rewind(session, position);
    size_t at = session_position(session);
    return at == position ||
           session_feed(session, selfcheck->subject->tokens.ids + at, position - at, NULL, 0, error);
}

/* The measure; before it, the chunk with other tokens from its middle on, which none before may notice. */
static bool run_plain(Selfcheck *selfcheck, Session *session, const int32_t *ids, size_t n, Error *error) {
    size_t half = n / 2 | 1, n_vocab = selfcheck->n_vocab; /* odd: within a tile, whose end masks too */
    for (size_t i = 0; i < n; i++)
        selfcheck->changed[i] = i < half ? ids[i] : (int32_t)(((size_t)ids[i] + 1) % n_vocab);
    if (!session_feed(session, selfcheck->changed, n, selfcheck->other, n, error)) return false;
    if (!go_back(selfcheck, session, selfcheck->position, error) ||
        !session_feed(session, ids, n, selfcheck->logits, n, error))
        return false;
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
        if (!subject_go_on(selfcheck->subject, NULL, i, n, error) ||
            !session_feed(session, ids + i, 1, selfcheck->one, 1, error))
            return false;
        note_all(selfcheck, STEPS, selfcheck->one, selfcheck->logits + i * n_vocab, n_vocab);
    }
    if (!go_back(selfcheck, session, selfcheck->position + half, error) ||
        !session_feed(session, ids + half, n - half, selfcheck->other, n - half, error))
        return false;
    note_all(selfcheck, STEPS, selfcheck->other, selfcheck->logits + half * n_vocab, (n - half) * n_vocab);
    return true;
}

static bool run_ablated(Selfcheck *selfcheck, Session *session, const int32_t *ids, size_t n, Error *error) {
    size_t n_vocab = selfcheck->n_vocab;
    if (!session_feed(session, ids, n, selfcheck->other, n, error)) return false;
    note_all(selfcheck, ABLATION, selfcheck->other, selfcheck->logits, n * n_vocab);
    if (!go_back(selfcheck, session, selfcheck->position, error) ||
        !session_resume(session, selfcheck->middle, selfcheck->resid_middle, n, selfcheck->other, n, error))
        return false;
    note_all(selfcheck, ABLATION, selfcheck->other, selfcheck->logits, n * n_vocab);
    return true;
}

static bool run_chunks(Selfcheck *selfcheck, Session *const sessions[N_SESSIONS], Error *error) {
    const Tokens *tokens = &selfcheck->subject->tokens;
    bool ok = true;
    for (size_t n; ok && selfcheck->position < tokens->n; selfcheck->position += n) {
        const int32_t *ids = tokens->ids + selfcheck->position;
        n = at_most(tokens->n - selfcheck->position, selfcheck->n_chunk);
        ok = subject_go_on(selfcheck->subject, "tokens", selfcheck->position, tokens->n, error) &&
             run_plain(selfcheck, sessions[0], ids, n, error) &&
             run_watched(selfcheck, sessions[1], ids, n, error) &&
             run_stepped(selfcheck, sessions[2], ids, n, error) &&
             run_ablated(selfcheck, sessions[3], ids, n, error);
    }
    subject_go_on(selfcheck->subject, "tokens", tokens->n, tokens->n, NULL);
    return ok;
}

static bool run_checks(Selfcheck *selfcheck, Error *error) {
    const Probe watching = {selfcheck, wants_all, watch_all};
    const Probe ablating = {selfcheck, wants_ablatable, ablate_nothing};
    const Probe *const probes[N_SESSIONS] = {NULL, &watching, NULL, &ablating};
    Session *sessions[N_SESSIONS] = {NULL};
    bool ok = true;
    for (size_t i = 0; ok && i < N_SESSIONS; i++)
        ok = (sessions[i] = subject_session(selfcheck->subject, 0, probes[i], error)) != NULL;
    ok = ok && run_chunks(selfcheck, sessions, error);
    for (size_t i = 0; i < N_SESSIONS; i++) session_free(sessions[i]);
    return ok;
}

static bool allocate(Selfcheck *selfcheck, Arena *arena, Error *error) {
    const Config *config = model_config(selfcheck->subject->model);
    size_t n_vocab = config->n_vocab, n_fit = CHUNK_BYTES / sizeof(float) / n_vocab + 1;
    size_t n = at_most(at_most(n_fit, SESSION_CHUNK), selfcheck->subject->tokens.n);
    selfcheck->n_vocab = n_vocab;
    selfcheck->d_model = config->d_model;
    selfcheck->middle = config->n_layer / 2;
    selfcheck->n_chunk = n;
    selfcheck->logits = arena_floats(arena, n, n_vocab);
    selfcheck->other = arena_floats(arena, n, n_vocab);
    selfcheck->one = arena_floats(arena, 1, n_vocab);
    selfcheck->resid_middle = arena_floats(arena, n, config->d_model);
    selfcheck->resid_last = arena_floats(arena, n, config->d_model);
    selfcheck->changed = arena_new(arena, n, sizeof *selfcheck->changed);
    return arena_ok(arena, error, "the logits of %zu tokens", n);
}

/* As much of our own text as the context holds, when there is none. */
static bool provide_text(Study *study, Error *error) {
    Subject *subject = &study->subject;
    Tokens *tokens = &subject->tokens;
    if (tokens->n > 0) return true;
    if (!study_encode(study, own_text, sizeof own_text - 1, tokens, &subject->bos, error)) return false;
    tokens->n = at_most(tokens->n, at_most(subject_n_ctx(subject), model_config(subject->model)->n_ctx));
    return true;
}

static bool compute(Study *study, void *view, Error *error) {
    Selfcheck *selfcheck = view;
    selfcheck->subject = &study->subject;
    if (has_learned_sinks(study->model)) selfcheck->checks[ROWS].name = "pattern rows and sinks sum to 1";
    if (study->subject.kv_dtype != DTYPE_F32)
        selfcheck->checks[STEPS].allowed = selfcheck->checks[WATCHING].allowed =
            study->subject.kv_dtype == DTYPE_F16 ? ALLOWED_F16 : ALLOWED_Q8_0;
    if (!provide_text(study, error) || !allocate(selfcheck, &study->arena, error) ||
        !run_checks(selfcheck, error))
        return false;
    double span = selfcheck->biggest - selfcheck->smallest;
    for (size_t i = 0; i < N_CHECKS; i++) {
        Check *check = &selfcheck->checks[i];
        if (i >= STEPS && span > 0) check->largest /= span;
        check->passed = check->largest <= check->allowed;
    }
    return true;
}

static void show_verdict(Report *report, const char *key, const void *row) {
    const Check *check = row;
    (void)key;
    print_styled(report, check->passed ? STYLE_GOOD : STYLE_BAD, "%s", check->passed ? "pass" : "FAIL");
    fputs("  ", stdout);
}

#define CHECK(member) offsetof(Check, member)

static const Column columns[] = {
    {NULL, "", CELL_SHOWN, .width = 6, .show = show_verdict},
    {"name", "", CELL_TEXT, CHECK(name), -36},
    {"passed", NULL, CELL_BOOL, CHECK(passed)},
    {"largest_difference", "largest", CELL_REAL, CHECK(largest), 11, 2, .format = 'g'},
    {"tolerance", "allowed", CELL_REAL, CHECK(allowed), 11, 2, .format = 'g'},
};
static const Table checks_table = TABLE("checks", columns);

static void print_checks(Report *report, const Check *checks) {
    table_print_titles(report, &checks_table, 0, NULL);
    for (size_t i = 0; i < N_CHECKS; i++) {
        table_print_line(report, &checks_table, 0, &checks[i]);
        print_styled(report, STYLE_DIM, "      %s\n", checks[i].how);
    }
    print_styled(
        report, STYLE_DIM,
        "\nDifferences of logits: shares of their span, largest less smallest; 0 means the same bits.\n");
}

static bool show(Study *study, void *view, Error *error) {
    const Check *checks = ((const Selfcheck *)view)->checks, *failed = NULL;
    Report *report = &study->report;
    for (size_t i = 0; i < N_CHECKS && !failed; i++)
        if (!checks[i].passed) failed = &checks[i];
    if (is_json(report)) {
        table_show(report, &checks_table, 0, checks, N_CHECKS, sizeof *checks);
        json_bool(report, "passed", !failed);
    } else {
        print_checks(report, checks);
    }
    return !failed || error_set(error, "%s: the check '%s' failed: %.2g, where %.2g is allowed",
                                study->options->model, failed->name, failed->largest, failed->allowed);
}

static const Selfcheck defaults = {
    .checks =
        {[ROWS] = {"pattern rows sum to 1", "every layer, head and query", 0, ALLOWED_ROW_SUM},
         [DIAGONAL] = {"nothing above the diagonal",
                       "logits of the first half, when the second half is another (not divided by the span)",
                       0, 0},
         [STEPS] = {"whole prompt equals token by token",
                    "logits of every position, and of the second half after single tokens", 0, ALLOWED_F32},
         [LENS] = {"last lens row equals the output", "final norm and unembedding of the last residual", 0,
                   ALLOWED_F32},
         [ABLATION] = {"ablating nothing changes nothing",
                       "an empty ablation of all layers, then of the upper half run again", 0, 0},
         [WATCHING] = {"watching changes nothing", "every site of every layer and head watched", 0,
                       ALLOWED_F32}},
    .smallest = INFINITY,
    .biggest = -INFINITY,
};

const View view_selfcheck = {
    .name = "selfcheck",
    .summary = "whether the engine agrees with itself",
    .help =
        "Rows sum to 1, nothing looks ahead, whole prompt = token by token, last lens row = output, and\n"
        "ablating nothing or watching changes nothing. Exit code 1 when one fails. Without -p or -f, on a\n"
        "short text of its own.\n",
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
    .defaults = &defaults,
    .size = sizeof(Selfcheck),
    .compute = compute,
    .show = show,
};
