/* How the predictions of two runs over one text differ: what ablate and compare print. */
#ifndef ATTN_STUDY_DIFFERENCE_H
#define ATTN_STUDY_DIFFERENCE_H

#include "threads.h"
#include "views/report.h"

#include <stddef.h>
#include <stdint.h>

/* Sums over positions, of run a and run b. Starts as {0}. */
typedef struct Difference {
    size_t n;            /* positions */
    size_t n_scored;     /* of them followed by a token */
    size_t top1_changed; /* positions whose likeliest next token is another in b */
    double kl;           /* nats: KL(a ‖ b) */
    double nll_a, nll_b; /* nats: −ln p of the token that follows */
} Difference;

/*
 * Adds n positions: their logits a and b [n][n_vocab], and the tokens that follow the first n_next of them
 * (n, or n − 1 at the end of the text). Sums do not depend on the number of threads. Logits that are not
 * finite make the sums so.
 */
void difference_add(Difference *difference, Threads *threads, const float *a, const float *b, size_t n,
                    size_t n_vocab, const int32_t *next, size_t n_next);

/* Means: nats a position. */
double difference_nll_a(const Difference *difference);
double difference_nll_b(const Difference *difference);
double difference_kl(const Difference *difference);
double difference_top1_changed(const Difference *difference); /* a share */

/* For people: nll, perplexity and KL under the names of a, b and b − a. */
void difference_print(const Report *report, const Difference *difference, const char *a, const char *b,
                      const char *change);

#endif
