/*
 * Attention's weighted sums by AMX, of numbers split in two as in amx.h. p lies in its rows as tiles want it, but rows
 * of v are packed in pairs. Here v is cut, not rounded, which is exact for F16 and int8. Errors are up to 3·2^-15.
 */
#ifndef ATTN_AMX_SUMS_H
#define ATTN_AMX_SUMS_H

#include "amx.h"
#include "weighted_sums.h"

enum {
    SUMS_SIDE = 64, /* rows of p, rows of v, and numbers of v's rows that are packed at a time */
    SUMS_STEPS = SUMS_SIDE / STEP,
    SUMS_ROWS = 16, /* of p: with fewer, packing v costs more than it saves */
};

static inline bool sums_in_tiles(size_t n, size_t d) { return n >= SUMS_ROWS && d % SIDE == 0; }

/*
 * Rows [j, end) of v, numbers [i, i + n) of each, as packed[step][part][pair][SUMS_SIDE][2], and zeros behind the
 * last row. The rows that follow, in the cache the next key tile, are fetched meanwhile.
 */
OPENED void pack_vectors(DType dtype, uint16_t *packed, const WeightedSums *w, size_t j, size_t end, size_t i,
                         size_t n) {
    const __m512i high = _mm512_set1_epi32(-0x10000), half = _mm512_set1_epi32(0x8000);
    for (size_t pair = 0; pair < SUMS_SIDE / 2; pair++) {
        uint16_t *to = packed + (pair / PAIRS * 2 * PAIRS + pair % PAIRS) * 2 * SUMS_SIDE;
        for (size_t k = 0; k < n; k += LANES) {
            __m512i parts[2][2]; /* in the upper halves of floats */
            for (size_t second = 0; second < 2; second++) {
                size_t row = j + 2 * pair + second, at = row * w->v_stride + i + k;
                Vec v = row < end ? load_weights(dtype, w->v, at) : vec_set(0);
                __builtin_prefetch(w->v + (at + (end - j) * w->v_stride) * bytes_of(dtype), 0, 2);
                parts[0][second] = _mm512_and_si512(_mm512_castps_si512(v), high);
                Vec rest = vec_sub(v, _mm512_castsi512_ps(parts[0][second]));
                parts[1][second] = _mm512_add_epi32(_mm512_castps_si512(rest), half);
            }
            for (size_t part = 0; part < 2; part++) {
                __m512i low = _mm512_srli_epi32(parts[part][0], 16),
                        both = _mm512_or_si512(low, _mm512_and_si512(parts[part][1], high));
                vec_store((float *)(void *)(to + part * PAIRS * 2 * SUMS_SIDE + 2 * k),
                          _mm512_castsi512_ps(both));
            }
        }
    }
}

/* Rows [t, end) of p, numbers [j, j + n) of each, as packed[row tile][step][part][row][STEP], and zeros behind them. */
static inline void pack_rows(uint16_t *packed, const WeightedSums *w, size_t t, size_t end, size_t j,
                             size_t n) {
    for (size_t row = 0; t + row < end; row++)
        for (size_t step = 0; step < SUMS_STEPS; step++) {
            uint16_t *to = packed + (row / SIDE * SUMS_STEPS + step) * 2 * PART + row % SIDE * STEP;
            Vec x[2], parts[2];
            for (size_t i = 0; i < 2; i++) {
                size_t first = smaller(step * STEP + i * LANES, n);
                x[i] = vec_load_first(w->p + (t + row) * w->p_stride + j + first, smaller(LANES, n - first));
            }
            split(2, parts, x[0], x[1]);
            for (size_t part = 0; part < 2; part++)
                vec_store((float *)(void *)(to + part * PART), parts[part]);
        }
}

/* Adds to z, one or two tiles high and one or two wide, the products of these packed rows and vectors. */
static inline void add_tiles(bool two, bool wide, float *z, size_t z_stride, const uint16_t *p,
                             const uint16_t *v) {
    const size_t stride = z_stride * sizeof *z, v_stride = 2 * SUMS_SIDE * sizeof *v;
    TILE_LOAD(0, z, stride);
    if (two) TILE_LOAD(1, z + SIDE * z_stride, stride);
    if (wide) TILE_LOAD(2, z + SIDE, stride);
    if (two && wide) TILE_LOAD(3, z + SIDE * z_stride + SIDE, stride);
    for (size_t step = 0; step < SUMS_STEPS; step++, p += 2 * PART)
        for (size_t v_part = 0; v_part < 2; v_part++, v += PAIRS * 2 * SUMS_SIDE) {
            TILE_LOAD(6, v, v_stride);
            if (wide) TILE_LOAD(7, v + 2 * SIDE, v_stride);
            for (size_t p_part = 2 - v_part; p_part--;) {
                TILE_LOAD(4, p + p_part * PART, 2 * STEP);
                if (two) TILE_LOAD(5, p + (2 * SUMS_STEPS + p_part) * PART, 2 * STEP);
                dot_tiles(two, wide);
            }
        }
    TILE_STORE(0, z, stride);
    if (two) TILE_STORE(1, z + SIDE * z_stride, stride);
    if (wide) TILE_STORE(2, z + SIDE, stride);
    if (two && wide) TILE_STORE(3, z + SIDE * z_stride + SIDE, stride);
}

/* The sums of `rows` packed rows, at most SUMS_SIDE, with `width` numbers of the vectors. */
static inline void add_rows(float *z, size_t z_stride, size_t rows, size_t width, const uint16_t *p,
                            const uint16_t *v) {
    for (size_t t = 0, high; t < rows; t += 2 * SIDE, p += 2 * SUMS_STEPS * 2 * PART) {
        high = smaller(2 * SIDE, rows - t);
        configure_tiles(high, 2 * SIDE);
        for (size_t i = 0; i < width; i += 2 * SIDE) {
            float *to = z + t * z_stride + i;
            add_tiles(high > SIDE, width - i > SIDE, to, z_stride, p, v + 2 * i);
        }
    }
}

static inline void sum_in_tiles(const WeightedSums *w, DType dtype, size_t n, size_t d) {
    _Alignas(64) uint16_t v[SUMS_STEPS * 2 * STEP * SUMS_SIDE], p[SUMS_SIDE * SUMS_STEPS * 2 * STEP];
    for (size_t i = 0; i < d; i += SUMS_SIDE)
        for (size_t j = 0; j < w->n_v; j += SUMS_SIDE) {
            size_t width = smaller(SUMS_SIDE, d - i), n_v = smaller(SUMS_SIDE, w->n_v - j);
            if (dtype == DTYPE_I8)
                pack_vectors(DTYPE_I8, v, w, j, j + n_v, i, width);
            else if (dtype == DTYPE_F16)
                pack_vectors(DTYPE_F16, v, w, j, j + n_v, i, width);
            else
                pack_vectors(DTYPE_F32, v, w, j, j + n_v, i, width);
            for (size_t t = 0; t < n; t += SUMS_SIDE) {
                size_t rows = smaller(SUMS_SIDE, n - t);
                pack_rows(p, w, t, t + rows, j, n_v); /* all at once: a tile just stored is slow to load */
                add_rows(w->z + t * w->z_stride + i, w->z_stride, rows, width, p, v);
            }
        }
    TILES_RELEASE();
}

#endif
