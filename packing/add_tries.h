/* sum_tries (sums.h), compiled once for each WIDTH with the flags of its CPUs. For this folder only. */
#include "kernels/compiler.h"
#include "packing/sums.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef WIDTH
#define WIDTH 4
#define SUM_TRIES sum_tries
#endif

typedef float Vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Mask __attribute__((vector_size(4 * WIDTH)));

static inline Vector all(float value) { return value - (Vector){0}; }

static inline Vector choose(Mask mask, Vector a, Vector b) {
    return (Vector)((mask & (Mask)a) | (~mask & (Mask)b));
}

/* The nearest whole number, for |y| < 2²². */
static inline Vector nearest_whole(Vector y, Vector lowest, Vector highest) {
    y = choose(y < lowest, lowest, y);
    y = choose(y > highest, highest, y);
    return y + 0x1.8p23f - 0x1.8p23f;
}

/* The lowest of a table, and a step more for each middle of two neighbours that y has reached. */
static inline Vector nearest_in_table(Vector y, const Vector *middles, const Vector *steps, Vector lowest,
                                      size_t n) {
    for (size_t k = 1; k < n; k++) lowest += (Vector)((y >= middles[k]) & (Mask)steps[k]);
    return lowest;
}

OPENED void add_tries(TrySums *sums, const Tries *tries, const Levels *levels, const float *x, const float *w,
                      size_t n, bool has_table) {
    const Vector lowest = all(levels->lowest), highest = all(levels->highest);
    Vector middles[MAX_LEVELS], steps[MAX_LEVELS];
    for (size_t k = 1; has_table && k < levels->n; k++) {
        middles[k] = all((levels->table[k - 1] + levels->table[k]) / 2);
        steps[k] = all(levels->table[k] - levels->table[k - 1]);
    }
    for (size_t c = 0; c < TRIES; c += WIDTH) {
        Vector inverse, shift, sum = {0}, square = {0}, product = {0};
        memcpy(&inverse, tries->inverse + c, sizeof inverse);
        memcpy(&shift, tries->shift + c, sizeof shift);
        for (size_t i = 0; i < n; i++) {
            Vector y = x[i] * inverse + shift;
            Vector level = has_table ? nearest_in_table(y, middles, steps, lowest, levels->n)
                                     : nearest_whole(y, lowest, highest);
            Vector weighted = w[i] * level;
            sum += weighted, square += weighted * level, product += weighted * x[i];
        }
        memcpy(sums->level + c, &sum, sizeof sum);
        memcpy(sums->square + c, &square, sizeof square);
        memcpy(sums->product + c, &product, sizeof product);
    }
}

void SUM_TRIES(TrySums *sums, const Tries *tries, const Levels *levels, const float *x, const float *w,
               size_t n) {
    if (levels->table)
        add_tries(sums, tries, levels, x, w, n, true);
    else
        add_tries(sums, tries, levels, x, w, n, false);
}
