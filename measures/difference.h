/* How the predictions of two runs over one text differ: what ablate and compare print. */
#ifndef ATTN_DIFFERENCE_H
#define ATTN_DIFFERENCE_H

#include "base/threads.h"

#include <stddef.h>
#include <stdint.h>

/* Sums over positions, of run a and run b. Starts as {0}. */
typedef struct Difference {
    size_t n;            /* positions */
    size_t n_scored;     /* positions that a token follows */
    size_t top1_changed; /* positions where the likeliest next token differs */
    double kl;           /* nats: KL(a ‖ b) */
    double nll_a, nll_b; /* nats: −ln p of the token that follows */
} Difference;

/*
 * Adds n positions: their logits a and b [n][n_vocab], and the tokens that follow the first n_next of them
 * (n, or n − 1 at the end of the text). Sums do not depend on the number of threads. Logits that are not
 * finite make the sums not finite.
 */
void difference_add(Difference *difference, Threads *threads, const float *a, const float *b, size_t n,
                    size_t n_vocab, const int32_t *next, size_t n_next);

typedef struct DifferenceMeans {
    size_t n;            /* tokens that nll is a mean over */
    double nll_a, nll_b; /* nats a token */
    double nll_change;   /* b − a */
    double perplexity_a, perplexity_b, perplexity_change;
    double kl;                      /* nats a position */
    double top1_changed, top1_same; /* shares of the positions */
} DifferenceMeans;

DifferenceMeans difference_means(const Difference *difference);

/* KL(a ‖ b) in nats of two rows of logits. */
double logits_kl(const float *a, const float *b, size_t n_vocab);

#endif
