#include "measures/case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const char *const case_given_names[N_GIVEN] = {"x",   "q",      "k",       "v",       "w_q",   "w_k", "w_v",
                                               "w_o", "b_q",    "b_k",     "b_v",     "b_o",   "w",   "u",
                                               "v_a", "scores", "weights", "context", "output"};

const char *const case_step_names[N_STEPS] = {"q",      "k",       "v",       "scores", "scaled",
                                              "masked", "weights", "context", "output"};

const char *const case_score_names[N_SCORES] = {"dot", "scaled-dot", "bilinear", "additive"};

size_t case_depth(size_t kind) {
    if ((kind >= B_Q && kind <= B_O) || kind == SCORE_V) return 1;
    return kind == EXPECTED_SCORES || kind == EXPECTED_WEIGHTS ? 3 : 2;
}

bool case_fail(const Case *c, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(c->error, "case '%s': %s", c->name, text);
}

bool case_grid(const Case *c, Grid *grid, size_t rows, size_t cols) {
    if (rows * cols > *c->left)
        return case_fail(c, "with its tables there are more than %d numbers to work out", CASE_NUMBERS);
    *c->left -= rows * cols;
    *grid = (Grid){rows, cols, arena_new(c->arena, rows * cols, sizeof *grid->data)};
    return arena_ok(c->arena, c->error, "a table of %zu x %zu numbers", rows, cols);
}

static double dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Fails unless a table that is given has these sizes; rows 0: any number. */
static bool check_size(const Case *c, size_t kind, size_t rows, size_t cols) {
    const Grid *grid = &c->given[kind];
    if (!grid->data || ((!rows || grid->rows == rows) && grid->cols == cols)) return true;
    char wanted[32] = "any number of";
    if (rows) snprintf(wanted, sizeof wanted, "%zu", rows);
    return case_fail(c, "\"%s\" has %zu rows of %zu numbers; %s rows of %zu would fit the rest",
                     case_given_names[kind], grid->rows, grid->cols, wanted, cols);
}

/* out = x W^T + b, with W and b of Q, K, V or O (i = 0 … 3); without W it is x itself, and b is still added. */
static bool project(Case *c, StepKind step, const Grid *x, size_t i) {
    const Grid *w = &c->given[W_Q + i], *b = &c->given[B_Q + i];
    Grid *out = &c->steps[step];
    if (!check_size(c, W_Q + i, 0, x->cols)) return false;
    if (!check_size(c, B_Q + i, 1, w->data ? w->rows : x->cols)) return false;
    if (!case_grid(c, out, x->rows, w->data ? w->rows : x->cols)) return false;
    for (size_t row = 0; row < out->rows; row++)
        for (size_t col = 0; col < out->cols; col++) {
            const double *from = case_row(x, row);
            double y = w->data ? dot(case_row(w, col), from, x->cols) : from[col];
            case_row(out, row)[col] = b->data ? y + b->data[col] : y;
        }
    return true;
}

const Grid *case_source(const Case *c, size_t kind) {
    if (case_has(c, kind)) return &c->given[kind];
    return kind == GIVEN_V && case_has(c, GIVEN_K) ? &c->given[GIVEN_K] : &c->given[GIVEN_X];
}

bool case_make_vectors(Case *c) {
    const Grid *q = case_source(c, GIVEN_Q), *k = case_source(c, GIVEN_K), *v = case_source(c, GIVEN_V);
    if (!q->data || !k->data) return case_fail(c, "give \"x\", or \"q\" and \"k\" (and \"v\")");
    if (!project(c, STEP_Q, q, 0) || !project(c, STEP_K, k, 1) || !project(c, STEP_V, v, 2)) return false;
    size_t h = c->n_head, d_q = c->steps[STEP_Q].cols, d_k = c->steps[STEP_K].cols,
           d_v = c->steps[STEP_V].cols;
    if (d_q % h || d_k % h || d_v % h)
        return case_fail(c, "%zu heads do not divide vectors of %zu, %zu and %zu", h, d_q, d_k, d_v);
    if (k->rows != v->rows) return case_fail(c, "%zu keys, but %zu values", k->rows, v->rows);
    if (c->causal && q->rows != k->rows)
        return case_fail(c, "a causal mask wants as many queries as keys, not %zu and %zu", q->rows, k->rows);
    if (c->score <= SCORE_SCALED_DOT && d_q != d_k)
        return case_fail(c, "queries of %zu numbers have no dot product with keys of %zu", d_q, d_k);
    bool wants_w = c->score >= SCORE_BILINEAR, wants_u = c->score == SCORE_ADDITIVE;
    if (case_has(c, SCORE_W) != wants_w || case_has(c, SCORE_U) != wants_u || case_has(c, SCORE_V) != wants_u)
        return case_fail(c,
                         "bilinear scores take \"w\", additive ones \"w\", \"u\" and \"v_a\", others none");
    return true;
}

/* Whether the matrices of scores fit the vectors. */
static bool check_scores(const Case *c) {
    size_t d_q = c->steps[STEP_Q].cols / c->n_head, d_k = c->steps[STEP_K].cols / c->n_head;
    size_t hidden = c->score == SCORE_ADDITIVE ? c->given[SCORE_W].rows : d_k;
    return check_size(c, SCORE_W, hidden, c->score == SCORE_BILINEAR ? d_q : d_k) &&
           check_size(c, SCORE_U, hidden, d_q) && check_size(c, SCORE_V, 1, hidden);
}

/* The score of one head's query q [d_q] and key k [d_k]. */
static double score_of(const Case *c, const double *q, size_t d_q, const double *k, size_t d_k) {
    const Grid *w = &c->given[SCORE_W], *u = &c->given[SCORE_U];
    double sum = 0;
    switch (c->score) {
    case SCORE_BILINEAR:
        for (size_t i = 0; i < w->rows; i++) sum += k[i] * dot(case_row(w, i), q, d_q);
        return sum;
    case SCORE_ADDITIVE:
        for (size_t i = 0; i < w->rows; i++)
            sum +=
                c->given[SCORE_V].data[i] * tanh(dot(case_row(w, i), k, d_k) + dot(case_row(u, i), q, d_q));
        return sum;
    default: return dot(q, k, d_q);
    }
}

/* One row: from a head's query to its part of the context. */
static void attend(Case *c, size_t head, size_t query) {
    const Grid *k = &c->steps[STEP_K], *v = &c->steps[STEP_V];
    size_t n_keys = k->rows, n_queries = c->steps[STEP_Q].rows, row = head * n_queries + query;
    size_t d_q = c->steps[STEP_Q].cols / c->n_head, d_k = k->cols / c->n_head, d_v = v->cols / c->n_head;
    double *scores = case_row(&c->steps[STEP_SCORES], row), *scaled = case_row(&c->steps[STEP_SCALED], row);
    double *masked = case_row(&c->steps[STEP_MASKED], row), *weights = case_row(&c->steps[STEP_WEIGHTS], row);
    double *context = case_row(&c->steps[STEP_CONTEXT], query) + head * d_v, max = -INFINITY, sum = 0;
    for (size_t j = 0; j < n_keys; j++) {
        scores[j] = score_of(c, case_row(&c->steps[STEP_Q], query) + head * d_q, d_q,
                             case_row(k, j) + head * d_k, d_k);
        scaled[j] = scores[j] / (c->score == SCORE_SCALED_DOT ? sqrt((double)d_q) : 1) / c->temperature;
        masked[j] = c->causal && j > query ? -INFINITY : scaled[j];
        max = fmax(max, masked[j]);
    }
    for (size_t j = 0; j < n_keys; j++) sum += weights[j] = exp(masked[j] - max);
    for (size_t j = 0; j < n_keys; j++) {
        weights[j] /= sum;
        for (size_t i = 0; i < d_v; i++) context[i] += weights[j] * case_row(v, j)[head * d_v + i];
    }
}

/* The step that an expected table is for. */
static StepKind step_expected(const Case *c, size_t kind) {
    switch (kind) {
    case EXPECTED_SCORES: return STEP_SCALED;
    case EXPECTED_WEIGHTS: return STEP_WEIGHTS;
    case EXPECTED_CONTEXT: return case_has(c, EXPECTED_OUTPUT) ? STEP_CONTEXT : STEP_OUTPUT;
    default: return STEP_OUTPUT;
    }
}

/* How far what came out is from what the file expects, table by table. */
static bool compare(Case *c) {
    c->agrees = true;
    for (size_t kind = EXPECTED_SCORES; kind < N_GIVEN; kind++) {
        const Grid *expected = &c->given[kind], *found = &c->steps[step_expected(c, kind)];
        double largest = 0;
        if (!expected->data) continue;
        if (!check_size(c, kind, found->rows, found->cols)) return false;
        for (size_t i = 0; i < found->rows * found->cols; i++)
            largest = fmax(largest, fabs(found->data[i] - expected->data[i]));
        bool agrees = largest <= c->tolerance;
        c->expected[c->n_expected++] = (Expected){case_given_names[kind], agrees, largest};
        c->agrees &= agrees;
    }
    return true;
}

bool case_work_out(Case *c) {
    if (!check_scores(c)) return false;
    size_t n_queries = c->steps[STEP_Q].rows, n_keys = c->steps[STEP_K].rows;
    for (StepKind step = STEP_SCORES; step <= STEP_WEIGHTS; step++)
        if (!case_grid(c, &c->steps[step], c->n_head * n_queries, n_keys)) return false;
    if (!case_grid(c, &c->steps[STEP_CONTEXT], n_queries, c->steps[STEP_V].cols)) return false;
    for (size_t head = 0; head < c->n_head; head++)
        for (size_t query = 0; query < n_queries; query++) attend(c, head, query);
    if (!project(c, STEP_OUTPUT, &c->steps[STEP_CONTEXT], 3)) return false;
    for (StepKind step = STEP_Q; step < N_STEPS; step++)
        for (size_t i = 0; step != STEP_MASKED && i < c->steps[step].rows * c->steps[step].cols; i++)
            if (!isfinite(c->steps[step].data[i]))
                return case_fail(c, "its numbers are too large: \"%s\" is not finite", case_step_names[step]);
    return compare(c);
}
