/*
 * All tries go through the weights together: a lane of a vector is a try. They are vectors of the compiler's, not of an
 * instruction set's, and every lane sums in the weights' order, so that all machines write the same file.
 */
#include "packing/search.h"

#include <float.h>
#include <math.h>
#include <stdint.h>

enum { WIDTH = 4, VECTORS = TRIES / WIDTH, MAX_LEVELS = 16 };

typedef float Vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Mask __attribute__((vector_size(4 * WIDTH)));

/* Of all tries: 1/scale, and what is added behind it. */
typedef struct Tries {
    Vector inverse[VECTORS], shift[VECTORS];
} Tries;

/* Σw·level, Σw·level², Σw·level·x of each try. */
typedef struct Sums {
    Vector level[VECTORS], square[VECTORS], product[VECTORS];
} Sums;

static Vector all(float value) { return value - (Vector){0}; }

static Vector choose(Mask mask, Vector a, Vector b) { return (Vector)((mask & (Mask)a) | (~mask & (Mask)b)); }

/* To even, for |y| < 2²². */
#define NEAREST(y) ((y) + 0x1.8p23f - 0x1.8p23f)

static void add_whole(const Span *span, const Tries *tries, Sums *sums) {
    const Vector lowest = all(span->levels->lowest), highest = all(span->levels->highest);
    for (size_t v = 0; v < VECTORS; v++) {
        Vector inverse = tries->inverse[v], shift = tries->shift[v];
        Vector sum = {0}, square = {0}, product = {0};
        for (size_t i = 0; i < span->n; i++) {
            Vector y = span->x[i] * inverse + shift;
            y = choose(y < lowest, lowest, y);
            y = choose(y > highest, highest, y);
            Vector level = NEAREST(y), weighted = span->w[i] * level;
            sum += weighted, square += weighted * level, product += weighted * span->x[i];
        }
        sums->level[v] = sum, sums->square[v] = square, sums->product[v] = product;
    }
}

/* The nearest level of a table is the lowest, and a step more for each middle between two that y has reached. */
static void add_table(const Span *span, const Tries *tries, Sums *sums) {
    const Levels *levels = span->levels;
    Vector middles[MAX_LEVELS], steps[MAX_LEVELS], lowest = all(levels->table[0]);
    for (size_t k = 1; k < levels->n; k++) {
        middles[k] = all((levels->table[k - 1] + levels->table[k]) / 2);
        steps[k] = all(levels->table[k] - levels->table[k - 1]);
    }
    for (size_t v = 0; v < VECTORS; v++) {
        Vector inverse = tries->inverse[v], shift = tries->shift[v];
        Vector sum = {0}, square = {0}, product = {0};
        for (size_t i = 0; i < span->n; i++) {
            Vector y = span->x[i] * inverse + shift, level = lowest;
            for (size_t k = 1; k < levels->n; k++) level += (Vector)((y >= middles[k]) & (Mask)steps[k]);
            Vector weighted = span->w[i] * level;
            sum += weighted, square += weighted * level, product += weighted * span->x[i];
        }
        sums->level[v] = sum, sums->square[v] = square, sums->product[v] = product;
    }
}

static void add_up(const Span *span, const Tries *tries, Sums *sums) {
    if (span->levels->table)
        add_table(span, tries, sums);
    else
        add_whole(span, tries, sums);
}

/* The error of weight = scale·level + offset, but for Σw·x², which all tries share. */
static Vector error_of(const Span *span, const Sums *sums, size_t v, Vector scale, Vector offset) {
    return scale * (scale * sums->square[v] - 2 * sums->product[v] + 2 * offset * sums->level[v]) +
           offset * (offset * span->sum_w - 2 * span->sum_x);
}

/*
 * Least squares: the scale and offset that suit these levels best. Every try takes the extreme to a level far from that of
 * the least weight, so no divisor is 0.
 */
static void fit(const Span *span, const Sums *sums, size_t v, Vector *scale, Vector *offset) {
    const Vector level = sums->level[v], square = sums->square[v], product = sums->product[v];
    *scale = product / square, *offset = all(0);
    if (span->minima == MIN_NONE) return;
    Vector divisor = span->sum_w * square - level * level;
    Vector most = all(span->minima == MIN_POSITIVE ? -span->base : FLT_MAX);
    Vector free = (square * span->sum_x - level * product) / divisor;
    Mask is_free = free <= most;
    *offset = choose(is_free, free, most);
    *scale = choose(is_free, (span->sum_w * product - level * span->sum_x) / divisor,
                    (product - most * level) / square);
}

void span_begin(Span *span, const Levels *levels, Minima minima, const float *x, size_t n) {
    float least = x[0], most = x[0], squares = 0;
    *span = (Span){.levels = levels, .minima = minima, .n = n};
    for (size_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least, most = x[i] > most ? x[i] : most;
        squares += x[i] * x[i];
    }
    if (minima == MIN_ANY || (minima == MIN_POSITIVE && least < 0)) span->base = least;
    span->extreme = most - span->base > span->base - least ? most - span->base : least - span->base;
    for (size_t i = 0; i < n; i++) {
        span->x[i] = x[i] - span->base;
        span->w[i] = sqrtf(squares / (float)n + x[i] * x[i]);
        span->sum_w += span->w[i], span->sum_x += span->w[i] * span->x[i];
    }
}

/* The tries take the extreme to the end of the levels, and up to 0.8 of a level's distance before and behind it. */
Scale span_search(const Span *span) {
    const Levels *levels = span->levels;
    const float end = span->minima == MIN_NONE ? levels->lowest : levels->highest;
    const float step = (levels->highest - levels->lowest) /
                       (levels->table ? 150.0f : 10 * (levels->highest - levels->lowest));
    Tries tries = {0};
    Sums sums;
    Scale best = {0, -span->base};
    float least = FLT_MAX;
    if (fabsf(span->extreme) < 1e-15f) return best;
    for (size_t c = 0; c < TRIES; c++)
        tries.inverse[c / WIDTH][c % WIDTH] =
            (end + copysignf(step, end) * ((float)c - TRIES / 2)) / span->extreme;
    add_up(span, &tries, &sums);
    for (size_t v = 0; v < VECTORS; v++) {
        Vector scale, offset;
        fit(span, &sums, v, &scale, &offset);
        Vector error = error_of(span, &sums, v, scale, offset);
        for (size_t c = 0; c < WIDTH; c++)
            if (error[c] < least) least = error[c], best = (Scale){scale[c], -(offset[c] + span->base)};
    }
    return best;
}

size_t span_best(const Span *span, const Scale tries[TRIES]) {
    Tries all_tries;
    Sums sums;
    Vector scale[VECTORS], offset[VECTORS];
    size_t best = 0;
    float least = FLT_MAX;
    for (size_t c = 0; c < TRIES; c++) {
        float inverse = tries[c].scale != 0 ? 1 / tries[c].scale : 0;
        scale[c / WIDTH][c % WIDTH] = tries[c].scale;
        offset[c / WIDTH][c % WIDTH] = -tries[c].min - span->base;
        all_tries.inverse[c / WIDTH][c % WIDTH] = inverse;
        all_tries.shift[c / WIDTH][c % WIDTH] = (tries[c].min + span->base) * inverse;
    }
    add_up(span, &all_tries, &sums);
    for (size_t v = 0; v < VECTORS; v++) {
        Vector error = error_of(span, &sums, v, scale[v], offset[v]);
        for (size_t c = 0; c < WIDTH; c++)
            if (error[c] < least) least = error[c], best = v * WIDTH + c;
    }
    return best;
}

void find_levels(uint8_t *index, const Levels *levels, const float *x, size_t n, Scale scale) {
    const float inverse = scale.scale != 0 ? 1 / scale.scale : 0, shift = scale.min * inverse;
    const float lowest = levels->lowest, highest = levels->highest;
    for (size_t i = 0; i < n && !levels->table; i++) {
        float y = x[i] * inverse + shift;
        y = y < lowest ? lowest : y;
        y = y > highest ? highest : y;
        index[i] = (uint8_t)(int)(NEAREST(y) - lowest);
    }
    for (size_t i = 0; i < n && levels->table; i++) {
        float y = x[i] * inverse + shift;
        index[i] = 0;
        for (size_t k = 1; k < levels->n; k++)
            index[i] = (uint8_t)(index[i] + (y >= (levels->table[k - 1] + levels->table[k]) / 2));
    }
}
