/* A row of logits, or a vector, in a few numbers. */
#ifndef ATTN_DISTRIBUTION_H
#define ATTN_DISTRIBUTION_H

#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BITS_PER_NAT 1.4426950408889634 /* 1/ln 2 */

/* ‖x‖ of n numbers, and x·y; the sums in double. */
double vector_norm(const float *x, size_t n);
double vector_dot(const float *x, const float *y, size_t n);

/* A row of logits in numbers, at temperature 1 and unfiltered; sums in double. */
typedef struct Distribution {
    double max, log_sum; /* ln p_i = logits[i] − log_sum */
    double entropy;      /* nats */
    int32_t best;        /* the lowest id among the likeliest */
} Distribution;

Distribution distribution_of(const float *logits, size_t n_vocab);

/* A token's −ln p in nats, and its p, where log_sum is ln Σ exp(logits). */
double surprisal_of(const float *logits, int32_t id, double log_sum);
double probability_of(const float *logits, int32_t id, double log_sum);

/*
 * Σ exp((logits[i] − max)/temperature), where max ≥ all logits; 0 if all are −∞. Right to 1e-5 of itself for sums
 * down to e^-84. It is computed in floats, by the kernel set: distribution_of's doubles took most of the time where
 * every layer is asked at every position.
 */
double sum_of_exp(const Kernels *kernels, const float *logits, size_t n_vocab, float max, float temperature);

/* 1 + the number of tokens with a larger logit. */
size_t logits_rank(const float *logits, size_t n_vocab, int32_t id);

/* The k (≤ n_vocab) ids with the largest logits, largest first; ties by lower id. Returns k. */
size_t logits_top(const float *logits, size_t n_vocab, size_t k, int32_t *ids);

/* Likewise the places of the k (≤ n) largest of n numbers; ties by lower place. */
size_t largest_of(const double *values, size_t n, size_t k, size_t *places);

typedef struct TokenScore {
    double surprisal; /* nats: −ln p */
    double entropy;   /* nats, of what was expected in its place */
    size_t rank;      /* 1 + the number of tokens with a larger logit */
    bool best;        /* greedy decoding would have chosen it */
} TokenScore;

/* Scores token `id` where the logits [n_vocab], whose distribution is `expected`, were the prediction. */
TokenScore token_score(const Distribution *expected, const float *logits, size_t n_vocab, int32_t id);

/* Sums over tokens. Starts as {0}. */
typedef struct Totals {
    double sum, sum_of_squares; /* of the surprisals */
    size_t n, n_best;           /* tokens, and the best among them */
    size_t n_bytes;             /* of their pieces */
} Totals;

void totals_add(Totals *totals, const TokenScore *score, size_t n_bytes);

/* All are NaN where there is no token. */
typedef struct TextScore {
    size_t n, n_bytes;
    double nll;              /* nats a token: the mean surprisal */
    double perplexity;       /* e^nll */
    double perplexity_error; /* the standard error of nll carried through exp; NaN for a single token */
    double bits_per_byte;    /* NaN when the tokens stand for no bytes */
    double top1_accuracy;    /* share of the best */
} TextScore;

TextScore text_score(const Totals *totals);

#endif
