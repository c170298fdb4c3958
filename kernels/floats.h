/* Products of floats: weights of any type become F32, and activations are not rounded. */
#ifndef ATTN_FLOATS_H
#define ATTN_FLOATS_H

#include "microkernel.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* LANES rows × n ≤ LANES columns from c on, as one vector a column. */
OPENED void load_columns(Vec columns[LANES], DType dtype, const unsigned char *const rows[LANES], size_t c,
                         size_t n) {
    for (size_t r = 0; r < LANES; r++) {
        if (n == LANES) {
            columns[r] = load_weights(dtype, rows[r], c);
        } else {
            float few[LANES] = {0};
            dtype_unpack(few, dtype, rows[r] + dtype_bytes(dtype, c), n);
            columns[r] = vec_load(few);
        }
    }
    vec_transpose(columns);
}

/* Columns [begin, end) of ROWS rows as panel[column][ROWS]. */
OPENED void unpack_panel(DType dtype, float *panel, const unsigned char *const rows[ROWS], size_t begin,
                         size_t end) {
    for (size_t half = 0; half < 2; half++) {
        Vec columns[LANES];
        float *to = panel + half * LANES;
        size_t c = begin;
        for (; c + LANES <= end; c += LANES) {
            load_columns(columns, dtype, rows + half * LANES, c, LANES);
            for (size_t i = 0; i < LANES; i++, to += ROWS) vec_store(to, columns[i]);
        }
        if (c == end) continue;
        load_columns(columns, dtype, rows + half * LANES, c, end - c);
        for (size_t i = 0; i < end - c; i++, to += ROWS) vec_store(to, columns[i]);
    }
}

OPENED Vec multiply_add(bool pairs, Vec w, Vec x, Vec sum) {
#ifdef HAS_BF16_DOT
    if (pairs) return vec_dot_bf16(w, x, sum);
#endif
    (void)pairs;
    return vec_fma(w, x, sum);
}

/* y[t][r] = start[r] + Σ_c panel[c][r]·x[c][t] for ROWS rows and all tokens; columns may be pairs of BF16. */
OPENED void micro_floats(size_t tokens, bool pairs, const MicroSums *y, const float *panel, const float *x,
                         size_t cols) {
    Vec sums[2 * TOKENS];
    load_sums(sums, y, tokens);
    for (size_t c = 0; c < cols; c++) {
        Vec w0 = vec_load(panel + c * ROWS), w1 = vec_load(panel + c * ROWS + LANES);
        KEEP_IN_REGISTER(w0);
        KEEP_IN_REGISTER(w1);
        for (size_t t = 0; t < tokens; t++) {
            Vec xs = vec_set(x[c * tokens + t]);
            sums[2 * t] = multiply_add(pairs, w0, xs, sums[2 * t]);
            sums[2 * t + 1] = multiply_add(pairs, w1, xs, sums[2 * t + 1]);
            KEEP_IN_REGISTER(sums[2 * t]);
            KEEP_IN_REGISTER(sums[2 * t + 1]);
        }
    }
    store_sums(y, sums, tokens);
}

/* Tokens that go through a micro-kernel together lie as packed[column][token]. */
static inline void pack_floats(void *packed, const float *x, size_t n, size_t cols, size_t i) {
    size_t first = i * TOKENS, tokens = micro_tokens(n, first);
    float *to = (float *)packed + first * cols;
    for (size_t t = 0; t < tokens; t++)
        for (size_t c = 0; c < cols; c++) to[c * tokens + t] = x[(first + t) * cols + c];
}

OPENED void matmul_panels(bool pairs, bool blocks, float *y, size_t y_stride, const Matrix *w,
                          const float *bias, size_t row_begin, size_t row_end, const float *x, size_t n) {
    _Alignas(64) float panel[PANEL * ROWS];
    for (size_t begin = 0; begin < w->cols; begin += PANEL) {
        size_t end = smaller(begin + PANEL, w->cols), bytes = dtype_bytes(w->dtype, end - begin),
               ahead = ROWS * dtype_bytes(w->dtype, w->cols) + dtype_bytes(w->dtype, begin);
        for (size_t r = row_begin; r < row_end; r += ROWS) {
            const unsigned char *rows[ROWS];
            size_t n_rows = smaller(ROWS, row_end - r);
            find_rows(rows, w, r, row_end);
            if (blocks)
                FOR_BLOCKS(w->dtype, unpack_panel, panel, rows, begin, end)
            else
                FOR_FLOATS(w->dtype, unpack_panel, panel, rows, begin, end)
            for (size_t t = 0; t < n; t += TOKENS) {
                size_t tokens = micro_tokens(n, t);
                MicroSums sums;
                sums_begin(&sums, y + t * y_stride + r, y_stride, sums_start(bias, r, begin), tokens, n_rows);
                prefetch_next(rows, ahead, bytes, t, tokens, n);
                FOR_TOKENS(tokens, micro_floats, pairs, &sums, panel, x + t * w->cols + begin * tokens,
                           end - begin)
                sums_end(&sums, y + t * y_stride + r, y_stride, tokens, n_rows);
            }
        }
    }
}

static inline void matmul_floats(float *y, size_t y_stride, const Matrix *w, const float *bias,
                                 size_t row_begin, size_t row_end, const void *packed, size_t n) {
    matmul_panels(false, false, y, y_stride, w, bias, row_begin, row_end, packed, n);
}

/* Of quantised weights, for sets that do not multiply integers. */
static inline void matmul_blocks(float *y, size_t y_stride, const Matrix *w, const float *bias,
                                 size_t row_begin, size_t row_end, const void *packed, size_t n) {
    matmul_panels(false, true, y, y_stride, w, bias, row_begin, row_end, packed, n);
}

/* For matvec: as they lie. */
static inline void pack_plainly(void *packed, const float *x, size_t n, size_t cols, size_t i) {
    size_t first = i * TOKENS;
    memcpy((float *)packed + first * cols, x + first * cols, micro_tokens(n, first) * cols * sizeof *x);
}

/* The lanes are columns. A row's two vectors of sums are added up at its end. */
OPENED void dot_floats(DType dtype, float dots[MATVEC_STREAMS], const Streams *w, const float *x,
                       size_t cols) {
    Vec sums[MATVEC_STREAMS][2];
    for (size_t k = 0; k < MATVEC_STREAMS; k++) sums[k][0] = sums[k][1] = vec_set(0);
    const size_t bytes = dtype == DTYPE_F32 ? 4 : 2; /* of a number */
    size_t c = 0;
    for (; c + 2 * LANES <= cols; c += 2 * LANES)
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            if (w->ahead) fetch(w->rows[k] + c * bytes + w->ahead, 2 * LANES * bytes);
            for (size_t i = 0; i < 2; i++) {
                Vec weights = load_weights(dtype, w->rows[k], c + i * LANES);
                sums[k][i] = vec_fma(weights, vec_load(x + c + i * LANES), sums[k][i]);
                KEEP_IN_REGISTER(sums[k][i]);
            }
        }
    for (size_t k = 0; k < MATVEC_STREAMS; k++) dots[k] = vec_sum(vec_add(sums[k][0], sums[k][1]));
    for (size_t n; c < cols; c += n) {
        n = smaller(LANES, cols - c);
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            float few[LANES] = {0};
            dtype_unpack(few, dtype, w->rows[k] + dtype_bytes(dtype, c), n);
            dots[k] += vec_sum(vec_mul(vec_load(few), vec_load_first(x + c, n)));
        }
    }
}

OPENED void matvec_rows(DType dtype, size_t ahead, float *y, size_t y_stride, const Matrix *w,
                        const float *bias, size_t begin, size_t end, const float *x, size_t n) {
    size_t row_bytes = dtype_bytes(dtype, w->cols), apart = steps_of(MATVEC_STREAMS, w->rows);
    Streams streams = {.ahead = ahead};
    for (size_t r = begin; r < end; r++) {
        streams_seek(&streams, w, r, apart, row_bytes);
        for (size_t t = 0; t < n; t++) { /* from the second one on the rows are in L1 */
            float dots[MATVEC_STREAMS];
            dot_floats(dtype, dots, &streams, x + t * w->cols, w->cols);
            keep_dots(y + t * y_stride, w, bias, r, apart, dots);
        }
    }
}

static inline void matvec_floats(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin,
                                 size_t end, const void *packed, size_t n) {
    if (fetches_far())
        FOR_FLOATS(w->dtype, matvec_rows, AHEAD_FAR, y, y_stride, w, bias, begin, end, packed, n)
    else
        FOR_FLOATS(w->dtype, matvec_rows, 0, y, y_stride, w, bias, begin, end, packed, n)
}

static inline void matvec_blocks(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin,
                                 size_t end, const void *packed, size_t n) {
    FOR_BLOCKS(w->dtype, matvec_rows, AHEAD_NEAR, y, y_stride, w, bias, begin, end, packed, n)
}

/* The products of weights that are floats. */
#define MATVEC_FLOATS                                                                                        \
    { .streams = MATVEC_STREAMS, .pack_tokens = TOKENS, .pack = pack_plainly, .multiply = matvec_floats }
#define MATMUL_FLOATS                                                                                        \
    { .streams = 1, .pack_tokens = TOKENS, .pack = pack_floats, .multiply = matmul_floats }

/* The products of quantised weights that become floats. */
#define MATVEC_BLOCKS                                                                                        \
    { .streams = MATVEC_STREAMS, .pack_tokens = TOKENS, .pack = pack_plainly, .multiply = matvec_blocks }
#define MATMUL_BLOCKS                                                                                        \
    { .streams = 1, .pack_tokens = TOKENS, .pack = pack_floats, .multiply = matmul_blocks }

#endif
