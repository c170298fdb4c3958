/*
 * Two rows of logits a and b at each position. With p = softmax(a), q = softmax(b) and log_sum = ln Σ exp:
 *
 *   KL(p ‖ q) = Σ_i p_i (ln p_i − ln q_i) = Σ_i p_i (a_i − b_i) − log_sum(a) + log_sum(b)
 *
 * so that one pass over the vocabulary does with one exponential of each; equal rows give exactly 0.
 */
#include "measures/difference.h"

#include "measures/distribution.h"

#include <math.h>

enum { BLOCK = 64 /* positions whose numbers are held at a time */ };

typedef struct DifferenceRow {
    double kl, log_sum_a, log_sum_b;
    int32_t best_a, best_b;
} DifferenceRow;

typedef struct DifferenceLoop {
    const float *a, *b; /* [n][n_vocab] */
    size_t n_vocab;
    DifferenceRow *rows; /* [n] */
} DifferenceLoop;

static DifferenceRow compare_rows(const float *a, const float *b, size_t n_vocab) {
    DifferenceRow row;
    logits_top(a, n_vocab, 1, &row.best_a);
    logits_top(b, n_vocab, 1, &row.best_b);
    double max_a = (double)a[row.best_a], max_b = (double)b[row.best_b], sum_a = 0, sum_b = 0, moved = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        double ai = (double)a[i], bi = (double)b[i], p = exp(ai - max_a);
        sum_a += p;
        sum_b += exp(bi - max_b);
        moved += p * (ai - bi);
    }
    row.log_sum_a = max_a + log(sum_a);
    row.log_sum_b = max_b + log(sum_b);
    row.kl = moved / sum_a - row.log_sum_a + row.log_sum_b;
    if (row.kl < 0) row.kl = 0; /* rounding; NaN stays */
    return row;
}

double logits_kl(const float *a, const float *b, size_t n_vocab) { return compare_rows(a, b, n_vocab).kl; }

static void compare_piece(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const DifferenceLoop *loop = context;
    for (size_t t = begin; t < end; t++)
        loop->rows[t] = compare_rows(loop->a + t * loop->n_vocab, loop->b + t * loop->n_vocab, loop->n_vocab);
}

void difference_add(Difference *difference, Threads *threads, const float *a, const float *b, size_t n,
                    size_t n_vocab, const int32_t *next, size_t n_next) {
    DifferenceRow rows[BLOCK];
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < BLOCK ? n - done : BLOCK;
        DifferenceLoop loop = {a + done * n_vocab, b + done * n_vocab, n_vocab, rows};
        parallel_for(threads, m, 1, compare_piece, &loop);
        for (size_t t = 0; t < m; t++) {
            difference->n++;
            difference->kl += rows[t].kl;
            difference->top1_changed += rows[t].best_a != rows[t].best_b;
            if (done + t >= n_next) continue;
            size_t token = (size_t)next[done + t];
            difference->n_scored++;
            difference->nll_a += rows[t].log_sum_a - (double)loop.a[t * n_vocab + token];
            difference->nll_b += rows[t].log_sum_b - (double)loop.b[t * n_vocab + token];
        }
    }
}

DifferenceMeans difference_means(const Difference *difference) {
    double n = (double)difference->n, n_scored = (double)difference->n_scored;
    double a = difference->nll_a / n_scored, b = difference->nll_b / n_scored;
    double changed = (double)difference->top1_changed / n;
    return (DifferenceMeans){.n = difference->n_scored,
                             .nll_a = a,
                             .nll_b = b,
                             .nll_change = b - a,
                             .perplexity_a = exp(a),
                             .perplexity_b = exp(b),
                             .perplexity_change = exp(b) - exp(a),
                             .kl = difference->kl / n,
                             .top1_changed = changed,
                             .top1_same = 1 - changed};
}
