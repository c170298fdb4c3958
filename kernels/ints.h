/*
 * Products of quantised weights, as integers. Activations are rounded by blocks of 32 columns, x ≈ d·q, so that a span's
 * products with the weights' integers can be added up exactly. Only then they are scaled by both scales, and only these
 * sums are rounded.
 *
 * A q has one byte or two. Two err by no more than 2^-16 of the block's largest, far less than the weights themselves.
 * One errs as much as Q8_0's weights do, or twice as much, because its d is a power of two: such a d costs nothing where
 * sums become floats. That is enough for text, but two ways to the same logits may end 1e-2 of their span apart, where a
 * float's last bit decides which way a q is rounded.
 *
 * ints_x86.h and ints_arm64.h say how integers are multiplied; a q has `bytes` bytes:
 *   LARGEST_Q(bytes): the largest q that activations are rounded to
 *   STEPS(bytes): a step is no more than the block's largest x over this
 *   round_block(bytes, q, sums, x): 32 numbers as q; what each half of them adds up to; returns d, NaN if any x is not
 *                  finite
 *   Panel: the weights of ROWS rows and up to GROUP columns
 *   unpack_panel(bytes, panel, dtype, rows, at, cols): columns from the byte `at` of each row on
 *   tile_ints(vectors, bytes, span, mins, excess, sums, panel, x, begin, cols): the micro-kernel, of all rows
 *   dot_group(bytes, span, mins, sums, panel, x, begin, cols): sums[ROWS] += the panel · one token
 */
#ifndef ATTN_INTS_H
#define ATTN_INTS_H

#include "blocks.h"
#include "tiles.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The activations of `tokens` tokens that are multiplied together, in the room of tokens·cols floats. */
typedef struct PackedInts {
    unsigned char *q; /* [units of 4 bytes][tokens][4]: four columns, or two of int16 */
    float *d;         /* [blocks][tokens] */
    int32_t *start;   /* [spans][tokens] −excess·Σ q: what a span's sum begins with */
    float *sums;      /* [spans][tokens] d·Σ q, which the weights' minima are multiplied by */
    size_t tokens;
} PackedInts;

OPENED PackedInts packed_ints(size_t bytes, size_t span, const void *packed, size_t first, size_t tokens,
                              size_t cols) {
    float *room = (float *)(uintptr_t)packed + first * cols, *d = room + tokens * cols * bytes / sizeof *room,
          *start = d + cols / BLOCK * tokens, *sums = start + cols / span * tokens;
    return (PackedInts){(unsigned char *)room, d, (int32_t *)(void *)start, sums, tokens};
}

#if defined(__x86_64__)
#include "ints_x86.h"
#else
#include "ints_arm64.h"
#endif

/* Tokens [first, first + tokens) of n, and zeros behind the last one. */
static inline void pack_ints(size_t bytes, void *packed, DType dtype, const float *x, size_t n, size_t first,
                             size_t tokens, size_t cols) {
    const size_t span = span_of(dtype), units = BLOCK / 4 * bytes;
    const int32_t excess = excess_of(dtype);
    PackedInts to = packed_ints(bytes, span, packed, first, tokens, cols);
    for (size_t t = 0; t < tokens; t++)
        for (size_t b = 0; b < cols / BLOCK; b++) {
            _Alignas(64) unsigned char q[BLOCK * 2] = {0};
            int32_t halves[2] = {0, 0};
            float d = first + t < n ? round_block(bytes, q, halves, x + (first + t) * cols + b * BLOCK) : 0;
            for (size_t u = 0; u < units; u++)
                memcpy(to.q + ((b * units + u) * tokens + t) * 4, q + 4 * u, 4);
            to.d[b * tokens + t] = d;
            if (span == BLOCK) halves[0] += halves[1];
            for (size_t s = 0; s < BLOCK / span; s++) {
                size_t i = (b * (BLOCK / span) + s) * tokens + t;
                to.start[i] = -excess * halves[s];
                to.sums[i] = d * (float)halves[s];
            }
        }
}

/* Opens a function for what a type's spans and minima are. */
#define FOR_SPANS(dtype, function, ...)                                                                      \
    if (span_of(dtype) == 16 && has_mins(dtype))                                                             \
        function(16, true, __VA_ARGS__);                                                                     \
    else if (span_of(dtype) == 16)                                                                           \
        function(16, false, __VA_ARGS__);                                                                    \
    else if (has_mins(dtype))                                                                                \
        function(32, true, __VA_ARGS__);                                                                     \
    else                                                                                                     \
        function(32, false, __VA_ARGS__);

OPENED void matmul_ints(size_t span, bool mins, size_t bytes, float *y, size_t y_stride, const Matrix *w,
                        const float *bias, size_t row_begin, size_t row_end, const void *packed, size_t n) {
    const size_t row_bytes = dtype_bytes(w->dtype, w->cols), group_bytes = dtype_bytes(w->dtype, GROUP);
    Panel panel;
    Sums sums;
    for (size_t first = 0, m; first < n; first += m) {
        m = smaller(CHUNK_TOKENS, n - first);
        for (size_t r = row_begin; r < row_end; r += ROWS) {
            const unsigned char *rows[ROWS];
            size_t n_rows = smaller(ROWS, row_end - r);
            find_rows(rows, w, r, 1, row_end);
            sums_begin(&sums, bias, r, n_rows, m);
            for (size_t begin = 0, at = 0; begin < w->cols; begin += GROUP, at += group_bytes) {
                size_t cols = smaller(GROUP, w->cols - begin),
                       ahead = begin + GROUP < w->cols ? at + group_bytes : ROWS * row_bytes;
                float *to = sums.of;
                unpack_panel(bytes, &panel, w->dtype, rows, at, cols);
                for (size_t t = 0, vectors; t < m; t += vectors * LANES) {
                    vectors = tile_vectors(m - t);
                    PackedInts x = packed_ints(bytes, span, packed, first + t, vectors * LANES, w->cols);
                    fetch_next(rows, ahead, group_bytes, t, t + vectors * LANES, m);
                    FOR_VECTORS(vectors, tile_ints, bytes, span, mins, to, &panel, &x, begin, cols)
                    to += ROWS * vectors * LANES;
                }
            }
            sums_end(&sums, y + first * y_stride + r, y_stride, n_rows, m);
        }
    }
}

OPENED void matvec_ints(size_t span, bool mins, size_t bytes, float *y, size_t y_stride, const Matrix *w,
                        const float *bias, size_t begin, size_t end, const void *packed, size_t n) {
    const size_t apart = steps_of(ROWS, w->rows), group_bytes = dtype_bytes(w->dtype, GROUP);
    Panel panel;
    for (size_t r = begin; r < end; r++) {
        const unsigned char *rows[ROWS];
        _Alignas(64) float sums[PACKED_TOKENS][ROWS];
        find_rows(rows, w, r, apart, w->rows);
        for (size_t t = 0; t < n; t++)
            for (size_t i = 0; i < ROWS; i++)
                sums[t][i] = bias ? bias[smaller(r + i * apart, w->rows - 1)] : 0.0f;
        for (size_t c = 0, at = 0; c < w->cols; c += GROUP, at += group_bytes) {
            size_t cols = smaller(GROUP, w->cols - c);
            for (size_t i = 0; i < ROWS; i++) fetch(rows[i] + at + FETCHED_BYTES, group_bytes);
            unpack_panel(1, &panel, w->dtype, rows, at, cols);
            for (size_t t = 0; t < n; t++) {
                PackedInts x = packed_ints(bytes, span, packed, t, 1, w->cols);
                dot_group(bytes, span, mins, sums[t], &panel, &x, c, cols);
            }
        }
        for (size_t t = 0; t < n; t++)
            for (size_t i = 0; i < ROWS && r + i * apart < w->rows; i++)
                y[t * y_stride + r + i * apart] = sums[t][i];
    }
}

/*
 * For a set's file: defines the products of quantised weights by q's of so many bytes, as matvec_NAME and matmul_NAME.
 */
#define INT_PRODUCTS(name, bytes, prefix)                                                                    \
    static void pack_one_##name(void *packed, DType dtype, const float *x, size_t n, size_t cols,            \
                                size_t i) {                                                                  \
        pack_ints(bytes, packed, dtype, x, n, i, 1, cols);                                                   \
    }                                                                                                        \
    static void pack_tile_##name(void *packed, DType dtype, const float *x, size_t n, size_t cols,           \
                                 size_t i) {                                                                 \
        for (size_t t = i * TILE_TOKENS, end = smaller(t + TILE_TOKENS, n), tokens; t < end; t += tokens) {  \
            tokens = tile_vectors(end - t) * LANES;                                                          \
            pack_ints(bytes, packed, dtype, x, n, t, tokens, cols);                                          \
        }                                                                                                    \
    }                                                                                                        \
    static void multiply_rows_##name(float *y, size_t y_stride, const Matrix *w, const float *bias,          \
                                     size_t begin, size_t end, const void *packed, size_t n) {               \
        FOR_SPANS(w->dtype, matvec_ints, bytes, y, y_stride, w, bias, begin, end, packed, n)                 \
    }                                                                                                        \
    static void multiply_tiles_##name(float *y, size_t y_stride, const Matrix *w, const float *bias,         \
                                      size_t begin, size_t end, const void *packed, size_t n){               \
        FOR_SPANS(w->dtype, matmul_ints, bytes, y, y_stride, w, bias, begin, end, packed,                    \
                  n)} prefix const Product SHARED(matvec_##name) = {.streams = ROWS,                         \
                                                                    .pack_tokens = 1,                        \
                                                                    .rounding = {.largest_q = STEPS(bytes)}, \
                                                                    .pack = pack_one_##name,                 \
                                                                    .multiply = multiply_rows_##name};       \
    prefix const Product SHARED(matmul_##name) = {.streams = 1,                                              \
                                                  .pack_tokens = TILE_TOKENS,                                \
                                                  .rounding = {.largest_q = STEPS(bytes)},                   \
                                                  .pack = pack_tile_##name,                                  \
                                                  .multiply = multiply_tiles_##name};

#endif
