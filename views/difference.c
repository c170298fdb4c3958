/*
 * Two rows of logits a and b at each position. With p = softmax(a), q = softmax(b) and log_sum = ln Σ exp:
 *
 *   KL(p ‖ q) = Σ_i p_i (ln p_i − ln q_i) = Σ_i p_i (a_i − b_i) − log_sum(a) + log_sum(b)
 *
 * so that one pass over the vocabulary does with one exponential of each; equal rows give exactly 0.
 */
#include "views/difference.h"

#include <math.h>
#include <stdio.h>

enum { BLOCK = 64 /* positions whose numbers are held at a time */ };

typedef struct Row {
    double kl, log_sum_a, log_sum_b;
    size_t best_a, best_b;
} Row;

typedef struct RowLoop {
    const float *a, *b; /* [n][n_vocab] */
    size_t n_vocab;
    Row *rows; /* [n] */
} RowLoop;

static size_t largest(const float *logits, size_t n_vocab) {
    size_t best = 0;
    for (size_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static Row compare_rows(const float *a, const float *b, size_t n_vocab) {
    Row row = {.best_a = largest(a, n_vocab), .best_b = largest(b, n_vocab)};
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

static void compare_piece(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const RowLoop *loop = context;
    for (size_t t = begin; t < end; t++)
        loop->rows[t] = compare_rows(loop->a + t * loop->n_vocab, loop->b + t * loop->n_vocab, loop->n_vocab);
}

void difference_add(Difference *difference, Threads *threads, const float *a, const float *b, size_t n,
                    size_t n_vocab, const int32_t *next, size_t n_next) {
    Row rows[BLOCK];
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < BLOCK ? n - done : BLOCK;
        RowLoop loop = {a + done * n_vocab, b + done * n_vocab, n_vocab, rows};
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

double difference_nll_a(const Difference *difference) {
    return difference->nll_a / (double)difference->n_scored;
}

double difference_nll_b(const Difference *difference) {
    return difference->nll_b / (double)difference->n_scored;
}

double difference_kl(const Difference *difference) { return difference->kl / (double)difference->n; }

double difference_top1_changed(const Difference *difference) {
    return (double)difference->top1_changed / (double)difference->n;
}

void difference_print(const Report *report, const Difference *difference, const char *a, const char *b,
                      const char *change) {
    double nll_a = difference_nll_a(difference), nll_b = difference_nll_b(difference);
    print_styled(report, STYLE_BOLD, "%-14s %10s %10s %10s\n", "", a, b, change);
    printf("%-14s %10.5f %10.5f %+10.5f\n", "nll, bits", nll_a * BITS_PER_NAT, nll_b * BITS_PER_NAT,
           (nll_b - nll_a) * BITS_PER_NAT);
    printf("%-14s %10.5g %10.5g %+10.4g\n", "perplexity", exp(nll_a), exp(nll_b), exp(nll_b) - exp(nll_a));
    printf("%-14s %32.6f\n", "KL, bits", difference_kl(difference) * BITS_PER_NAT);
}
