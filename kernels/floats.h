/* Products of weights that are floats. Each sum takes column after column. */
#ifndef ATTN_FLOATS_H
#define ATTN_FLOATS_H

#include "tiles.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
    FLOAT_COLS = 128, /* of a group: with 24 KB of activations it stays in L1 */
    FLOAT_ROWS = 8,   /* of a micro-kernel */
};

OPENED Vec multiply_add(bool pairs, Vec w, Vec x, Vec sum) {
#ifdef HAS_BF16_DOT
    if (pairs) return vec_dot_bf16(w, x, sum);
#endif
    (void)pairs;
    return vec_fma(w, x, sum);
}

/* Weights lie where the file puts them, which may be odd for floats. */
OPENED float float_at(const unsigned char *bytes) {
    float value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* sums[row][token] += Σ_c rows[row][c]·x[c][token]; rows of floats, or of pairs of BF16. */
OPENED void micro_floats(size_t vectors, size_t n_rows, bool pairs, float *sums,
                         const unsigned char *const rows[], const float *x, size_t cols) {
    Vec kept[FLOAT_ROWS * VECTORS];
#pragma GCC unroll 24
    for (size_t i = 0; i < n_rows * vectors; i++) kept[i] = vec_load(sums + i * LANES);
    for (size_t c = 0; c < cols; c++, x += vectors * LANES) {
        Vec xs[VECTORS];
        for (size_t v = 0; v < vectors; v++) {
            xs[v] = vec_load(x + v * LANES);
            KEEP_IN_REGISTER(xs[v]);
        }
        for (size_t r = 0; r < n_rows; r++) {
            Vec w = vec_set(float_at(rows[r] + c * sizeof(float)));
            for (size_t v = 0; v < vectors; v++) {
                kept[r * vectors + v] = multiply_add(pairs, w, xs[v], kept[r * vectors + v]);
                KEEP_IN_REGISTER(kept[r * vectors + v]);
            }
        }
    }
#pragma GCC unroll 24
    for (size_t i = 0; i < n_rows * vectors; i++) vec_store(sums + i * LANES, kept[i]);
}

/* The rows of a micro-kernel are as many as its registers hold. */
OPENED void tile_floats(size_t vectors, bool pairs, float *sums, const unsigned char *const rows[ROWS],
                        const float *x, size_t cols) {
    const size_t n_rows = LANES == 8 ? TILE_ROWS : FLOAT_ROWS;
    for (size_t r = 0; r < ROWS; r += n_rows)
        micro_floats(vectors, n_rows, pairs, sums + r * vectors * LANES, rows + r, x, cols);
}

/* Columns [begin, end) of ROWS rows: where they lie, or as floats in the panel. */
OPENED void find_floats(DType dtype, const unsigned char *floats[ROWS], float *panel,
                        const unsigned char *const rows[ROWS], size_t begin, size_t end) {
    for (size_t r = 0; r < ROWS; r++, panel += FLOAT_COLS) {
        size_t c = begin;
        floats[r] = dtype == DTYPE_F32 ? rows[r] + begin * sizeof(float) : (const unsigned char *)panel;
        if (dtype == DTYPE_F32) continue;
        for (; c + LANES <= end; c += LANES) vec_store(panel + c - begin, load_weights(dtype, rows[r], c));
        if (c < end) dtype_unpack(panel + c - begin, dtype, rows[r] + dtype_bytes(dtype, c), end - c);
    }
}

/* Only reading weights is opened for each type. */
OPENED void matmul_panels(DType dtype, bool pairs, float *y, size_t y_stride, const Matrix *w,
                          const float *bias, size_t row_begin, size_t row_end, const float *x, size_t n) {
    _Alignas(64) float panel[ROWS * FLOAT_COLS];
    Sums sums[SUMS];
    FOR_AREAS(row_begin, row_end, n) {
        sums_begin(sums, bias, area);
        for (size_t begin = 0; begin < w->cols; begin += FLOAT_COLS) {
            const size_t end = smaller(begin + FLOAT_COLS, w->cols), bytes = dtype_bytes(dtype, end - begin);
            for (size_t r = area.row; r < area.row_end; r += ROWS) {
                const unsigned char *rows[ROWS], *floats[ROWS];
                float *to = sums[(r - area.row) / ROWS].of;
                find_rows(rows, w, r, row_end);
                FOR_FLOATS(dtype, find_floats, floats, panel, rows, begin, end)
                for (size_t t = 0, vectors; t < area.n; t += vectors * LANES) {
                    vectors = tile_vectors(area.n - t);
                    fetch_next(rows, ahead_of(w, &area, r, begin, FLOAT_COLS), bytes, t, t + vectors * LANES,
                               area.n);
                    FOR_VECTORS(vectors, tile_floats, pairs, to, floats,
                                x + (area.token + t) * w->cols + begin * vectors * LANES, end - begin)
                    to += ROWS * vectors * LANES;
                }
            }
        }
        sums_end(sums, y, y_stride, area);
    }
}

static inline void matmul_floats(float *y, size_t y_stride, const Matrix *w, const float *bias,
                                 size_t row_begin, size_t row_end, const void *packed, size_t n) {
    matmul_panels(w->dtype, false, y, y_stride, w, bias, row_begin, row_end, packed, n);
}

/* Tokens that go through a micro-kernel together lie as packed[column][token], with zeros behind the last one. */
static inline void pack_floats(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t i) {
    (void)dtype;
    for (size_t t = i * TILE_TOKENS, end = smaller(t + TILE_TOKENS, n), vectors; t < end;
         t += vectors * LANES) {
        vectors = tile_vectors(end - t);
        float *to = (float *)packed + t * cols;
        for (size_t c = 0; c < cols; c++)
            for (size_t j = 0; j < vectors * LANES; j++, to++) *to = t + j < n ? x[(t + j) * cols + c] : 0.0f;
    }
}

/* Rows are read as they lie. */
static inline void pack_plainly(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t i) {
    (void)dtype, (void)n;
    memcpy((float *)packed + i * cols, x + i * cols, cols * sizeof *x);
}

/* sums[token][ROWS] += n ≤ LANES columns, of a vector each, · x [token][cols]; rows [r, r + LANES). */
OPENED void dot_columns(bool pairs, float (*sums)[ROWS], size_t r, const Vec columns[LANES], const float *x,
                        size_t tokens, size_t cols, size_t n) {
    for (size_t t = 0; t < tokens; t++) {
        Vec sum = vec_load(sums[t] + r);
        for (size_t i = 0; i < n; i++) sum = multiply_add(pairs, columns[i], vec_set(x[t * cols + i]), sum);
        vec_store(sums[t] + r, sum);
    }
}

/* LANES columns from c on. Each row fetches its share of what is ahead. */
OPENED void dot_lanes(DType dtype, bool pairs, float (*sums)[ROWS], const unsigned char *const rows[ROWS],
                      const float *x, size_t tokens, size_t cols, size_t c, Ahead ahead) {
    for (size_t r = 0; r < ROWS; r += LANES) {
        Vec columns[LANES];
        for (size_t i = 0; i < LANES; i++) {
            columns[i] = load_weights(dtype, rows[r + i], c);
            if ((r + i) * ahead.bytes % 64 == 0) FETCH_LINE(ahead.next + (r + i) * ahead.bytes, columns[i]);
        }
        vec_transpose(columns);
        dot_columns(pairs, sums, r, columns, x + c, tokens, cols, LANES);
    }
}

/* Those from c on, fewer. */
static ALONE void dot_rest(DType dtype, bool pairs, float (*sums)[ROWS],
                           const unsigned char *const rows[ROWS], const float *x, size_t tokens, size_t cols,
                           size_t c) {
    for (size_t r = 0; r < ROWS; r += LANES) {
        Vec columns[LANES];
        for (size_t i = 0; i < LANES; i++) {
            float few[LANES] = {0};
            dtype_unpack(few, dtype, rows[r + i] + dtype_bytes(dtype, c), cols - c);
            columns[i] = vec_load(few);
        }
        vec_transpose(columns);
        dot_columns(pairs, sums, r, columns, x + c, tokens, cols, cols - c);
    }
}

OPENED void rows_of_floats(DType dtype, bool pairs, float *y, size_t y_stride, const Matrix *w,
                           const float *bias, size_t begin, size_t end, const float *x, size_t n) {
    const size_t row_bytes = dtype_bytes(dtype, w->cols),
                 vector_bytes =
                     LANES * (dtype == DTYPE_F32 ? 4 : 2); /* a constant, so that no loop is left to fetch */
    for (size_t r = begin; r < end; r += ROWS) {
        const unsigned char *rows[ROWS], *next = (const unsigned char *)w->data + (r + ROWS) * row_bytes;
        const size_t n_rows = smaller(ROWS, end - r);
        _Alignas(64) float sums[PACKED_TOKENS][ROWS] = {{0}};
        find_rows(rows, w, r, end);
        for (size_t t = 0; t < n && bias; t++) memcpy(sums[t], bias + r, n_rows * sizeof *bias);
        size_t c = 0;
        for (; c + LANES <= w->cols; c += LANES, next += ROWS * vector_bytes)
            dot_lanes(dtype, pairs, sums, rows, x, n, w->cols, c, (Ahead){next, vector_bytes});
        if (c < w->cols) dot_rest(dtype, pairs, sums, rows, x, n, w->cols, c);
        for (size_t t = 0; t < n; t++) memcpy(y + t * y_stride + r, sums[t], n_rows * sizeof *y);
    }
}

static inline void matvec_floats(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin,
                                 size_t end, const void *packed, size_t n) {
    FOR_FLOATS(w->dtype, rows_of_floats, false, y, y_stride, w, bias, begin, end, packed, n)
}

/* The products of weights that are floats. */
#define MATVEC_FLOATS                                                                                        \
    { .pack_tokens = 1, .pack = pack_plainly, .multiply = matvec_floats }
#define MATMUL_FLOATS                                                                                        \
    { .pack_tokens = TILE_TOKENS, .pack = pack_floats, .multiply = matmul_floats }

#endif
