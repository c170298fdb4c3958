/* Attention's weighted sums, in registers. */
#ifndef ATTN_WEIGHTED_SUMS_H
#define ATTN_WEIGHTED_SUMS_H

#include "weights.h"

#include <math.h>
#include <stddef.h>

/*
 * P_ROWS: whose sums stay in registers together, at most; rows_together: so many of the n that are left. FOR_P_ROWS opens
 * a function once for each number of rows, which is its first argument.
 */
#if defined(__wasm__)
enum { P_ROWS = 4 };
static inline size_t rows_together(size_t n) { return n >= P_ROWS ? P_ROWS : n >= 2 ? 2 : 1; }
#define FOR_P_ROWS(rows, function, ...)                                                                      \
    switch (rows) {                                                                                          \
    case 1: function(1, __VA_ARGS__); break;                                                                 \
    case 2: function(2, __VA_ARGS__); break;                                                                 \
    case P_ROWS: function(P_ROWS, __VA_ARGS__); break;                                                       \
    }
#else
enum { P_ROWS = 6 };
static inline size_t rows_together(size_t n) { return smaller(P_ROWS, n); }
#define FOR_P_ROWS(rows, function, ...)                                                                      \
    switch (rows) {                                                                                          \
    case 1: function(1, __VA_ARGS__); break;                                                                 \
    case 2: function(2, __VA_ARGS__); break;                                                                 \
    case 3: function(3, __VA_ARGS__); break;                                                                 \
    case 4: function(4, __VA_ARGS__); break;                                                                 \
    case 5: function(5, __VA_ARGS__); break;                                                                 \
    case P_ROWS: function(P_ROWS, __VA_ARGS__); break;                                                       \
    }
#endif

/* The arguments of the kernel that have these names. */
typedef struct WeightedSums {
    float *z;
    const float *p;
    const unsigned char *v;
    size_t z_stride, p_stride, v_stride, n_v;
} WeightedSums;

/* The value of one number of v. */
OPENED size_t bytes_of(DType dtype) { return dtype == DTYPE_F32 ? 4 : dtype == DTYPE_F16 ? 2 : 1; }

/* Number i of v. */
OPENED float number_at(DType dtype, const unsigned char *v, size_t i) {
    float number = (int8_t)v[i];
    if (dtype != DTYPE_I8) dtype_unpack(&number, dtype, v + i * bytes_of(dtype), 1);
    return number;
}

/*
 * The sums of a few rows over `vectors` vectors of each v, which stay in registers while all v pass. Meanwhile the rows
 * behind these v, in the cache the next key tile, are fetched into L2, row by row: all at once gains nothing. int8 come
 * by blocks, of which the next one but one is fetched: the next would not be there in time.
 */
OPENED void sum_vectors(const WeightedSums *w, DType dtype, size_t t, size_t i, size_t rows, size_t vectors) {
    Vec sums[4 * P_ROWS];
    float *z = w->z + t * w->z_stride + i;
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < vectors; k++)
            sums[r * vectors + k] = vec_load(z + r * w->z_stride + k * LANES);
    const size_t bytes = bytes_of(dtype);
    const size_t ahead = dtype == DTYPE_I8 ? 2 * w->n_v : w->n_v;
    for (size_t j = 0; j < w->n_v; j++) {
        Vec v[8];
        for (size_t k = 0; k < vectors * LANES; k += 64 / bytes)
            __builtin_prefetch(w->v + ((ahead + j) * w->v_stride + i + k) * bytes, 0, 2);
        for (size_t k = 0; k < vectors; k++) {
            v[k] = load_weights(dtype, w->v, j * w->v_stride + i + k * LANES);
            if (rows > 1) KEEP_IN_REGISTER(v[k]);
        }
        for (size_t r = 0; r < rows; r++) {
            Vec p = vec_set(w->p[(t + r) * w->p_stride + j]);
            for (size_t k = 0; k < vectors; k++) {
                sums[r * vectors + k] = vec_fma(v[k], p, sums[r * vectors + k]);
                KEEP_IN_REGISTER(sums[r * vectors + k]);
            }
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < vectors; k++)
            vec_store(z + r * w->z_stride + k * LANES, sums[r * vectors + k]);
}

/*
 * Sums as much of [0, d) as fills as many vectors as make enough sums: with 32 registers that is four vectors for any
 * number of rows, so that 64 numbers of v are read in one go: memory is fastest in order. Returns where the rest begins.
 */
OPENED size_t sum_rows(size_t rows, const WeightedSums *w, DType dtype, size_t t, size_t d) {
    size_t i = 0;
    if (rows == 1 && !WASM)
        for (; i + 8 * LANES <= d; i += 8 * LANES) sum_vectors(w, dtype, t, i, rows, 8);
    if (rows == 1 || (rows == 2 && !WASM) || LANES == 16)
        for (; i + 4 * LANES <= d; i += 4 * LANES) sum_vectors(w, dtype, t, i, rows, 4);
    if (LANES < 16)
        for (; i + 2 * LANES <= d; i += 2 * LANES) sum_vectors(w, dtype, t, i, rows, 2);
    return i;
}

/* Fewer vectors, of [i, d); returns where the last few numbers begin. Compiled once for all types, as those are. */
OPENED size_t sum_rest(size_t rows, const WeightedSums *w, DType dtype, size_t t, size_t i, size_t d) {
    if (LANES == 16)
        for (; i + 2 * LANES <= d; i += 2 * LANES) sum_vectors(w, dtype, t, i, rows, 2);
    for (; i + LANES <= d; i += LANES) sum_vectors(w, dtype, t, i, rows, 1);
    return i;
}

#endif
