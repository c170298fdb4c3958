/*
 * The search for the scale (and the minimum) that a span of weights shares:
 *
 *   weight = scale·level − min,  level: the nearest that the type has
 *
 * TRIES scales are tried at once. What counts is Σ w·(weight − what is stored)², with w = √(x² + the span's mean of x²):
 * in a matrix of which nothing else is known, the large weights matter somewhat more.
 */
#ifndef ATTN_SEARCH_H
#define ATTN_SEARCH_H

#include <stddef.h>
#include <stdint.h>

enum { SPAN = 32 /* weights at most */, TRIES = 16 };

/* What scales are multiplied with: all whole numbers from lowest to highest, or a table. */
typedef struct Levels {
    float lowest, highest;
    const float *table; /* [n] ascending, or NULL */
    size_t n;
} Levels;

typedef enum Minima {
    MIN_NONE,
    MIN_POSITIVE, /* ≥ 0 */
    MIN_ANY,
} Minima;

typedef struct Scale {
    float scale, min;
} Scale;

typedef struct Span {
    const Levels *levels; /* borrowed */
    Minima minima;
    size_t n;
    float extreme; /* the weight farthest from base */
    float base;    /* subtracted from the weights below: their least, or 0 where there is no minimum */
    float x[SPAN], w[SPAN]; /* [n] */
    float sum_w, sum_x;     /* Σw, Σw·x */
} Span;

/* n ≤ SPAN finite weights, none beyond ±1e15. */
void span_begin(Span *span, const Levels *levels, Minima minima, const float *x, size_t n);

/* The best scale (and minimum), each fitted to the levels that its try gave. Of nothing but zeros it is 0. */
Scale span_search(const Span *span);

/* The best of these, as they are. */
size_t span_best(const Span *span, const Scale tries[TRIES]);

/* Which level (from 0, the lowest) is nearest to each of n weights. */
void find_levels(uint8_t *index, const Levels *levels, const float *x, size_t n, Scale scale);

#endif
