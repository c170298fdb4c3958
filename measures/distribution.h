/* What a row of logits, or a vector, says in a few numbers. */
#ifndef ATTN_DISTRIBUTION_H
#define ATTN_DISTRIBUTION_H

#include "family.h"
#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

#define BITS_PER_NAT 1.4426950408889634 /* 1/ln 2 */

/* ‖x‖ of n numbers; the sum in double. */
double vector_norm(const float *x, size_t n);

/* The final norm maps x [d_model] to (x − mean)/scale·gain + bias; RMSNorm's mean is 0. */
double norm_mean(const Config *config, const float *x);
double norm_scale(const Config *config, const float *x);

/* What a row of logits says, at temperature 1 and unfiltered; sums in double. */
typedef struct Distribution {
    double max, log_sum; /* ln p_i = logits[i] − log_sum */
    double entropy;      /* nats */
    int32_t best;        /* the lowest id among the likeliest */
} Distribution;

Distribution distribution_of(const float *logits, size_t n_vocab);

/* Of a token: −ln p in nats, and p, where log_sum is ln Σ exp(logits). */
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

#endif
