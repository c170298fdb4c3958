/*
 * How the scales of a search are tried on a span of weights, all at once: a lane of a vector is a try. These are vectors of
 * the compiler's, WIDTH floats wide; each lane adds up in the order of the weights, so the sums have the same bits for every
 * WIDTH, and every machine writes the same file.
 */
#ifndef ATTN_SUMS_H
#define ATTN_SUMS_H

#include <stddef.h>

enum { SPAN = 32 /* weights at most */, TRIES = 16, MAX_LEVELS = 16 };

/* The levels that scales are multiplied with: all whole numbers from lowest to highest, or a table. */
typedef struct Levels {
    float lowest, highest;
    const float *table; /* [n] ascending, n ≤ MAX_LEVELS; or NULL */
    size_t n;
} Levels;

/* A weight's level is the one nearest to weight·inverse + shift. */
typedef struct Tries {
    _Alignas(64) float inverse[TRIES], shift[TRIES];
} Tries;

typedef struct TrySums {
    _Alignas(64) float level[TRIES], square[TRIES], product[TRIES]; /* Σw·level, Σw·level², Σw·level·x */
} TrySums;

/* Over n weights x, which matter as w says. */
typedef void SumTries(TrySums *sums, const Tries *tries, const Levels *levels, const float *x, const float *w,
                      size_t n);

SumTries sum_tries; /* on any CPU */
#if defined(__x86_64__)
SumTries sum_tries_avx2;
#endif

/* The fastest that this CPU can run. */
SumTries *sum_tries_fastest(void);

#endif
