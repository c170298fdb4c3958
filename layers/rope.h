/*
 * Rotary positions (Su et al. 2021, arXiv:2104.09864): each pair of dimensions of a query or key turns by an angle that
 * grows with its position, the first pairs fast, the last ones slowly. Here is how fast, in all the ways in which models
 * were stretched to texts longer than those of their training.
 */
#ifndef ATTN_ROPE_H
#define ATTN_ROPE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Which two dimensions of a head rotate together. */
typedef enum RopePairing {
    ROPE_NONE,
    ROPE_NEIGHBOURS, /* (2i, 2i + 1): GGUF's llama, llama2.c, the paper */
    ROPE_HALVES,     /* (i, i + dim/2): GPT-NeoX, Hugging Face */
} RopePairing;

/* How a model turns. What is 0 is not used. */
typedef struct RopeConfig {
    RopePairing pairing;
    size_t dim;       /* dimensions of a head that rotate, the first ones; even */
    double base;      /* θ: pair i turns by θ^(−2i/dim) radians a position … */
    double scale;     /* … divided by this */
    double magnitude; /* rotated queries and keys are multiplied by it */

    /*
     * YaRN (Peng et al. 2023, arXiv:2309.00071): of the n_ctx_original positions of the training, pairs that turn more than
     * beta_fast times are not divided by `scale`, those that turn less than beta_slow times are, and those between partly.
     */
    bool yarn;
    bool yarn_exact; /* the bounds between the pairs are not rounded to whole dimensions */
    size_t n_ctx_original;
    double beta_fast, beta_slow;
} RopeConfig;

/* A table of frequencies. */
typedef struct Rope {
    RopePairing pairing;
    size_t dim;
    float magnitude;
    double *freq; /* [dim/2] radians a position; owned */
    double
        *long_freq; /* LongRoPE: [dim/2] for contexts of more than n_ctx_original positions; or NULL; owned */
    size_t n_ctx_original;
} Rope;

/*
 * Makes the table. factors [dim/2] divide the frequencies, those of Llama 3.1's rope_freqs or LongRoPE's short ones, and
 * long_factors LongRoPE's long ones (Ding et al. 2024, arXiv:2402.13753); either may be NULL. False when memory runs out.
 * rope_close may be called in either case, and for a table that is all zero.
 */
bool rope_open(Rope *rope, const RopeConfig *config, const float *factors, const float *long_factors);
void rope_close(Rope *rope);

/* cos_sin [dim/2][2]: cosine and sine of each pair's angle at a position, in a context of n_ctx, times the magnitude. */
void rope_angles(const Rope *rope, size_t n_ctx, size_t position, float *cos_sin);

/* Turns one head's q or k in place: (a, b) → (a cos − b sin, a sin + b cos) for each pair. */
void rope_rotate(const Rope *rope, float *x, const float *cos_sin);

#endif
