/*
 * The search for the scale, and the minimum, that a span of weights shares:
 *
 *   weight = scale·level − min,  level: the nearest that the type has
 *
 * TRIES of them are tried at once. What counts is Σ w·(weight − what is stored)², with w = √(x² + mean of the span's x²):
 * of a matrix of which nothing else is known, large weights matter somewhat more.
 */
#ifndef ATTN_SEARCH_H
#define ATTN_SEARCH_H

#include "packing/sums.h"

#include <stddef.h>
#include <stdint.h>

typedef enum Minima {
    MIN_NONE,
    MIN_POSITIVE, /* ≥ 0 */
    MIN_ANY,
} Minima;

typedef struct Scale {
    float scale, min;
} Scale;

typedef struct PackSpan {
    const Levels *levels; /* borrowed */
    SumTries *sum_tries;
    Minima minima;
    size_t n;
    float base;    /* subtracted from the weights below: their least, or 0 where there is no minimum */
    float extreme; /* of them, the farthest from 0 */
    float x[SPAN], w[SPAN]; /* [n] */
    float sum_w, sum_x;     /* Σw, Σw·x */
} PackSpan;

/* n ≤ SPAN weights, none beyond ±1e9. */
void span_begin(PackSpan *span, SumTries *adder, const Levels *levels, Minima minima, const float *x,
                size_t n);

/* The best scale and minimum of all, each fitted to the levels that its try gave. Where all weights are 0 so is the scale. */
Scale span_search(const PackSpan *span);

/* The best of these, as they are. */
size_t span_best(const PackSpan *span, const Scale tries[TRIES]);

/* Which level (from 0, the lowest) is nearest to each of n weights. */
void find_levels(uint8_t *index, const Levels *levels, const float *x, size_t n, Scale scale);

#endif
