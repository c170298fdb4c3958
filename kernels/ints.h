/*
 * Products of quantised weights, as integers. ints_x86.h and ints_arm64.h say how integers are multiplied; a q has
 * `bytes` bytes, 1 or 2:
 *   LARGEST_Q(bytes): the largest q that activations are rounded to
 *   round_block(dtype, bytes, q, start, x): 32 numbers as q and, where weights have an excess, what a product with q
 *                  begins with; returns d, which is NaN if any x is not finite
 *   unpack_ints_panel(dtype, bytes, panel, scales, rows, begin, end): blocks [begin, end) of ROWS rows
 *   micro_ints(tokens, bytes, y, panel, scales, x, begin, end): the micro-kernel, of blocks
 *   arrange_alone(dtype, bytes, x, blocks): puts the q of a token of matvec in the order that dot_ints wants
 *   dot_ints(dtype, bytes, dots, rows, x, blocks): as dot_floats
 */
#ifndef ATTN_INTS_H
#define ATTN_INTS_H

#if defined(__x86_64__)
#include "ints_x86.h"
#else
#include "ints_arm64.h"
#endif

#include <stdbool.h>
#include <stddef.h>

OPENED void pack_ints(DType dtype, size_t bytes, void *packed, const float *x, size_t first, size_t tokens,
                      size_t cols, bool alone) {
    size_t blocks = cols / BLOCK;
    PackedInts to = packed_ints(bytes, packed, first, tokens, cols);
    for (size_t t = 0; t < tokens; t++)
        for (size_t b = 0; b < blocks; b++) {
            size_t i = b * tokens + t;
            to.d[i] = round_block(dtype, bytes, to.q + i * BLOCK * bytes, &to.start[i],
                                  x + (first + t) * cols + b * BLOCK);
        }
    if (!alone) return;
    for (size_t b = blocks; b % 8; b++) to.d[b] = 0, to.start[b] = 0;
    arrange_alone(dtype, bytes, &to, blocks);
}

OPENED void matmul_ints(DType dtype, size_t bytes, float *y, size_t y_stride, const Matrix *w,
                        const float *bias, size_t row_begin, size_t row_end, const void *packed, size_t n) {
    enum { PANEL_BLOCKS = 4 * PANEL / BLOCK }; /* of bytes, 16 KB; of int16 half as many */
    _Alignas(64) unsigned char panel[PANEL_BLOCKS * BLOCK * ROWS];
    _Alignas(64) float scales[PANEL_BLOCKS * ROWS];
    size_t blocks = w->cols / BLOCK, panel_blocks = PANEL_BLOCKS / bytes;
    for (size_t begin = 0; begin < blocks; begin += panel_blocks) {
        size_t end = smaller(begin + panel_blocks, blocks);
        for (size_t r = row_begin; r < row_end; r += ROWS) {
            size_t n_rows = smaller(ROWS, row_end - r);
            const unsigned char *rows[ROWS];
            find_rows(rows, w, r, row_end);
            unpack_ints_panel(dtype, bytes, panel, scales, rows, begin, end);
            for (size_t t = 0; t < n; t += TOKENS) {
                size_t tokens = micro_tokens(n, t);
                PackedInts x = packed_ints(bytes, packed, t, tokens, w->cols);
                MicroSums sums;
                sums_begin(&sums, y + t * y_stride + r, y_stride, sums_start(bias, r, begin), tokens, n_rows);
                prefetch_next(rows, (ROWS * blocks + begin) * BLOCK_BYTES(dtype),
                              (end - begin) * BLOCK_BYTES(dtype), t, tokens, n);
                FOR_TOKENS(tokens, micro_ints, bytes, &sums, panel, scales, &x, begin, end)
                sums_end(&sums, y + t * y_stride + r, y_stride, tokens, n_rows);
            }
        }
    }
}

OPENED void matvec_ints(DType dtype, size_t bytes, size_t ahead, float *y, size_t y_stride, const Matrix *w,
                        const float *bias, size_t begin, size_t end, const void *packed, size_t n) {
    size_t row_bytes = dtype_bytes(dtype, w->cols), apart = steps_of(MATVEC_STREAMS, w->rows);
    Streams streams = {.ahead = ahead};
    for (size_t r = begin; r < end; r++) {
        streams_seek(&streams, w, r, apart, row_bytes);
        for (size_t t = 0; t < n; t++) { /* from the second one on the rows are in L1 */
            float dots[MATVEC_STREAMS];
            PackedInts x = packed_ints(bytes, packed, t, 1, w->cols);
            dot_ints(dtype, bytes, dots, &streams, &x, w->cols / BLOCK);
            keep_dots(y + t * y_stride, w, bias, r, apart, dots);
        }
    }
}

/*
 * For a set's file: defines the functions with which weights of a type are multiplied by q's of so many bytes.
 * MATVEC_INTS(name) and MATMUL_INTS(name) are the products with them.
 */
#define INT_PRODUCTS(name, dtype, bytes)                                                                     \
    enum { LARGEST_##name = LARGEST_Q(bytes) };                                                              \
    static void pack_alone_##name(void *packed, const float *x, size_t n, size_t cols, size_t i) {           \
        for (size_t t = i * TOKENS, end = t + micro_tokens(n, t); t < end; t++)                              \
            pack_ints(dtype, bytes, packed, x, t, 1, cols, true);                                            \
    }                                                                                                        \
    static void pack_##name(void *packed, const float *x, size_t n, size_t cols, size_t i) {                 \
        pack_ints(dtype, bytes, packed, x, i *TOKENS, micro_tokens(n, i *TOKENS), cols, false);              \
    }                                                                                                        \
    static void matvec_##name(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin,   \
                              size_t end, const void *packed, size_t n) {                                    \
        if (fetches_far())                                                                                   \
            matvec_ints(dtype, bytes, AHEAD_FAR, y, y_stride, w, bias, begin, end, packed, n);               \
        else                                                                                                 \
            matvec_ints(dtype, bytes, AHEAD_NEAR, y, y_stride, w, bias, begin, end, packed, n);              \
    }                                                                                                        \
    static void matmul_##name(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin,   \
                              size_t end, const void *packed, size_t n) {                                    \
        matmul_ints(dtype, bytes, y, y_stride, w, bias, begin, end, packed, n);                              \
    }
#define MATVEC_INTS(name)                                                                                    \
    {                                                                                                        \
        .streams = MATVEC_STREAMS, .pack_tokens = TOKENS, .rounding = {.largest_q = LARGEST_##name},         \
        .pack = pack_alone_##name, .multiply = matvec_##name                                                 \
    }
#define MATMUL_INTS(name)                                                                                    \
    {                                                                                                        \
        .streams = 1, .pack_tokens = TOKENS, .rounding = {.largest_q = LARGEST_##name}, .pack = pack_##name, \
        .multiply = matmul_##name                                                                            \
    }

#endif
