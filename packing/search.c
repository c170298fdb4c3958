#include "packing/search.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

void span_begin(PackSpan *span, SumTries *adder, const Levels *levels, Minima minima, const float *x,
                size_t n) {
    float least = x[0], most = x[0], squares = 0;
    for (size_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
        squares += x[i] * x[i];
    }
    float base = minima == MIN_ANY || (minima == MIN_POSITIVE && least < 0) ? least : 0;
    span->levels = levels, span->sum_tries = adder, span->minima = minima, span->n = n;
    span->base = base, span->extreme = most - base > base - least ? most - base : least - base;
    span->sum_w = span->sum_x = 0;
    for (size_t i = 0; i < n; i++) {
        span->x[i] = x[i] - base;
        span->w[i] = sqrtf(squares / (float)n + x[i] * x[i]);
        span->sum_w += span->w[i], span->sum_x += span->w[i] * span->x[i];
    }
}

/* A try's scale and offset, of weight = scale·level + offset, and their error. */
typedef struct Fits {
    float scale[TRIES], offset[TRIES], error[TRIES];
} Fits;

/* The error is short of Σw·x², which all tries share. Returns the try of the least one. */
static size_t find_least(Fits *fits, const PackSpan *span, const TrySums *sums) {
    size_t best = 0;
    for (size_t c = 0; c < TRIES; c++) {
        float scale = fits->scale[c], offset = fits->offset[c];
        fits->error[c] =
            scale * (scale * sums->square[c] - 2 * sums->product[c] + 2 * offset * sums->level[c]) +
            offset * (offset * span->sum_w - 2 * span->sum_x);
    }
    for (size_t c = 1; c < TRIES; c++)
        if (fits->error[c] < fits->error[best]) best = c;
    return best;
}

/*
 * Least squares: the scale and offset that suit each try's levels best. Where these are all the same the offset is 0.
 */
static void fit(Fits *fits, const PackSpan *span, const TrySums *sums) {
    const float w = span->sum_w, x = span->sum_x, most = span->minima == MIN_POSITIVE ? -span->base : FLT_MAX;
    for (size_t c = 0; c < TRIES; c++) {
        float level = sums->level[c], square = sums->square[c], product = sums->product[c];
        float divisor = w * square - level * level, offset = (square * x - level * product) / divisor;
        bool apart = span->minima != MIN_NONE && divisor > 1e-5f * w * square,
             fits_in = apart && offset < most;
        float fixed = apart ? most : 0;
        fits->offset[c] = fits_in ? offset : fixed;
        fits->scale[c] = fits_in ? (w * product - level * x) / divisor : (product - fixed * level) / square;
    }
}

/* The tries take the extreme to the last level, and up to 0.8 of the levels' distance before it and behind it. */
Scale span_search(const PackSpan *span) {
    const Levels *levels = span->levels;
    const float end = span->minima == MIN_NONE ? levels->lowest : levels->highest;
    const float distance = levels->table ? (levels->highest - levels->lowest) / (float)(levels->n - 1) : 1;
    Tries tries = {.shift = {0}};
    TrySums sums;
    Fits fits;
    if (fabsf(span->extreme) < 1e-15f) return (Scale){0, -span->base};
    for (size_t c = 0; c < TRIES; c++) {
        float beyond = distance * ((float)c - TRIES / 2) / 10;
        tries.inverse[c] = (end < 0 ? end - beyond : end + beyond) / span->extreme;
    }
    span->sum_tries(&sums, &tries, levels, span->x, span->w, span->n);
    fit(&fits, span, &sums);
    size_t best = find_least(&fits, span, &sums);
    return (Scale){fits.scale[best], -(fits.offset[best] + span->base)};
}

size_t span_best(const PackSpan *span, const Scale scales[TRIES]) {
    Tries tries;
    TrySums sums;
    Fits fits;
    for (size_t c = 0; c < TRIES; c++) {
        fits.scale[c] = scales[c].scale, fits.offset[c] = -scales[c].min - span->base;
        tries.inverse[c] = scales[c].scale != 0 ? 1 / scales[c].scale : 0;
        tries.shift[c] = -fits.offset[c] * tries.inverse[c];
    }
    span->sum_tries(&sums, &tries, span->levels, span->x, span->w, span->n);
    return find_least(&fits, span, &sums);
}

void find_levels(uint8_t *index, const Levels *levels, const float *x, size_t n, Scale scale) {
    const float inverse = scale.scale != 0 ? 1 / scale.scale : 0, shift = scale.min * inverse;
    const float lowest = levels->lowest, highest = levels->highest;
    for (size_t i = 0; i < n && !levels->table; i++) {
        float y = x[i] * inverse + shift;
        y = y < lowest ? lowest : y;
        y = y > highest ? highest : y;
        index[i] = (uint8_t)(int)(y + 0x1.8p23f - 0x1.8p23f - lowest);
    }
    for (size_t i = 0; i < n && levels->table; i++) {
        float y = x[i] * inverse + shift;
        index[i] = 0;
        for (size_t k = 1; k < levels->n; k++)
            index[i] = (uint8_t)(index[i] + (y >= (levels->table[k - 1] + levels->table[k]) / 2));
    }
}
