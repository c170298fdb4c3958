/*
 * Attention worked by hand, on tables small enough to be read: every step of it in plain double arithmetic, nothing of the
 * engine, so that either can be held against the other.
 *
 *   Q = X_q W_q^T + b_q    K = X_k W_k^T + b_k    V = X_v W_v^T + b_v    cut into heads of equal width; then
 *   scores_ij: dot q_i·k_j, bilinear k_j·W q_i (Luong et al. 2015, arXiv:1508.04025), or
 *              additive v_a·tanh(W k_j + U q_i) (Bahdanau et al. 2015, arXiv:1409.0473)
 *   scaled = scores, over √d for "scaled-dot", over the temperature    masked: −∞ where j > i, if causal
 *   weights: softmax of each row
 *   context = weights V, heads side by side    output = context W_o^T + b_o
 */
#ifndef ATTN_CASE_H
#define ATTN_CASE_H

#include "base/error.h"
#include "measures/arena.h"

#include <stdbool.h>
#include <stddef.h>

enum { CASE_NUMBERS = 1 << 23 /* in all tables of all cases, given and worked out */ };

typedef struct Grid {
    size_t rows, cols;
    double *data; /* [rows][cols]; NULL: there is none */
} Grid;

/*
 * The tables that are given; of each kind Q, K, V and, with matrices and biases, O follow each other. Then those that are
 * expected.
 */
enum { GIVEN_X, GIVEN_Q, GIVEN_K, GIVEN_V, W_Q, W_O = W_Q + 3, B_Q, B_O = B_Q + 3 };
enum { SCORE_W = B_O + 1, SCORE_U, SCORE_V };
enum { EXPECTED_SCORES = SCORE_V + 1, EXPECTED_WEIGHTS, EXPECTED_CONTEXT, EXPECTED_OUTPUT, N_GIVEN };

extern const char *const case_given_names[N_GIVEN]; /* "x", "w_q", … */

/* How many dimensions a given table has at most: a vector 1, a matrix 2, what may have a matrix for each head 3. */
size_t case_depth(size_t kind);

/* The results. Scores to weights hold the rows of all heads, [n_head·queries][keys]. */
typedef enum StepKind {
    STEP_Q,
    STEP_K,
    STEP_V,
    STEP_SCORES,
    STEP_SCALED,
    STEP_MASKED,
    STEP_WEIGHTS,
    STEP_CONTEXT,
    STEP_OUTPUT,
    N_STEPS
} StepKind;

extern const char *const case_step_names[N_STEPS]; /* "q", "scores", … */

typedef enum ScoreKind { SCORE_DOT, SCORE_SCALED_DOT, SCORE_BILINEAR, SCORE_ADDITIVE, N_SCORES } ScoreKind;

extern const char *const case_score_names[N_SCORES]; /* "dot", … */

/* A table that is expected, and how far what came out is from it, at most. */
typedef struct Expected {
    const char *table; /* its name */
    bool agrees;
    double largest_difference;
} Expected;

typedef struct Case {
    /* The caller's, up to the tables that are given; data is NULL of those that are not. */
    Arena *arena; /* of all grids */
    size_t *left; /* numbers that further grids may have, CASE_NUMBERS at first; several cases may share it */
    Error *error; /* where what is wrong with the case is said */
    char name[64]; /* for errors */
    ScoreKind score;
    bool causal;
    size_t n_head;       /* 1 and up */
    double tolerance;    /* between what comes out and what is expected, > 0 */
    double temperature;  /* > 0 */
    Grid given[N_GIVEN]; /* a vector is one row */

    Grid steps[N_STEPS];
    Expected expected[N_GIVEN - EXPECTED_SCORES]; /* [n_expected] of the tables that are given for it */
    size_t n_expected;
    bool agrees; /* all of them do */
} Case;

/* Says what is wrong with the case, behind its name; false. */
bool case_fail(const Case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for a table, zeros. Fails when memory runs out, or where no more numbers are left. */
bool case_grid(const Case *c, Grid *grid, size_t rows, size_t cols);

static inline bool case_has(const Case *c, size_t kind) { return c->given[kind].data != NULL; }

static inline double *case_row(const Grid *grid, size_t row) { return grid->data + row * grid->cols; }

/*
 * Where queries, keys or values (GIVEN_Q, …) come from: what is not given comes from x, values from the keys' vectors. Its
 * data is NULL where neither is given.
 */
const Grid *case_source(const Case *c, size_t kind);

/* The first steps, Q, K and V. Fails where they, or what else is given, do not fit each other. */
bool case_make_vectors(Case *c);

/*
 * All others, once these are made, and how far they are from what is expected. Fails on what does not fit them, and on
 * numbers beyond double's range.
 */
bool case_work_out(Case *c);

#endif
