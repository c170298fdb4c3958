/*
 * Quantised weights as integers. Activations are rounded by blocks of 32 columns, x ≈ d·q with
 * d = max |x| / max |q|, so that a block's products with int8 or int4 weights can be added up exactly; then they
 * are scaled by both d's, and only these sums are rounded.
 *
 * A set says how many bytes a q has that goes with weights of a type, Q4_BYTES and Q8_BYTES. Two err by no more
 * than 2^-16 of the block's largest, far less than the weights themselves. One errs as much as Q8_0's weights
 * do: enough for text, but two ways to the same logits may end 1e-2 of their span apart, where a float's last
 * bit decides which way a q is rounded.
 *
 * How integers are multiplied stands in ints_x86.h and ints_arm64.h:
 *   round_block(dtype, q, start, x): 32 numbers as q and, where it wants one, what a product with q begins with;
 *                  returns d, which what is not finite makes NaN
 *   unpack_ints_panel(dtype, panel, scales, rows, begin, end): blocks [begin, end) of ROWS rows
 *   sum_tile(tokens, dtype, y, panel, scales, x, begin, end): as tile, but of blocks
 *   arrange_alone(dtype, x, blocks): puts a lone token's q in the order that dot_ints wants
 *   dot_ints(dtype, dots, rows, x, blocks): as dot_floats
 */

#define Q_BYTES(dtype) ((size_t)((dtype) == DTYPE_Q4_0 ? Q4_BYTES : Q8_BYTES))

/* The packed activations of a tile, in the room of `tokens`·cols floats. A lone token's d, start end in zeros. */
typedef struct IntsTile {
    unsigned char *q; /* [blocks][tokens][BLOCK] int8 or int16 */
    float *d;         /* [blocks, up to a multiple of 8][tokens] */
    int32_t *start;   /* likewise */
} IntsTile;

static IntsTile ints_tile(DType dtype, const void *packed, size_t first, size_t tokens, size_t cols) {
    float *room = (float *)(uintptr_t)packed + first * cols;
    float *d = room + tokens * cols * Q_BYTES(dtype) / sizeof *room;
    float *start = d + (cols / BLOCK + 7) / 8 * 8 * tokens;
    return (IntsTile){.q = (unsigned char *)room, .d = d, .start = (int32_t *)(void *)start};
}

#if defined(__x86_64__)
#include "ints_x86.h"
#else
#include "ints_arm64.h"
#endif

OPENED void pack_ints(DType dtype, void *packed, const float *x, size_t first, size_t tokens, size_t cols,
                      bool alone) {
    size_t blocks = cols / BLOCK;
    IntsTile tile = ints_tile(dtype, packed, first, tokens, cols);
    for (size_t t = 0; t < tokens; t++)
        for (size_t b = 0; b < blocks; b++) {
            size_t i = b * tokens + t;
            tile.d[i] = round_block(dtype, tile.q + i * BLOCK * Q_BYTES(dtype), &tile.start[i],
                                    x + (first + t) * cols + b * BLOCK);
        }
    if (!alone) return;
    for (size_t b = blocks; b % 8; b++) tile.d[b] = 0, tile.start[b] = 0;
    arrange_alone(dtype, &tile, blocks);
}

OPENED void matmul_ints(DType dtype, float *y, size_t y_stride, const Matrix *w, const float *bias,
                        size_t row_begin, size_t row_end, const void *packed, size_t n) {
    enum { PANEL_BLOCKS = 4 * PANEL / BLOCK }; /* of bytes, 16 KB; of int16 half as many */
    _Alignas(64) unsigned char panel[PANEL_BLOCKS * BLOCK * ROWS];
    _Alignas(64) float scales[PANEL_BLOCKS * ROWS];
    size_t blocks = w->cols / BLOCK, panel_blocks = PANEL_BLOCKS / Q_BYTES(dtype);
    for (size_t begin = 0; begin < blocks; begin += panel_blocks) {
        size_t end = smaller(begin + panel_blocks, blocks);
        for (size_t r = row_begin; r < row_end; r += ROWS) {
            size_t n_rows = smaller(ROWS, row_end - r);
            const unsigned char *rows[ROWS];
            find_rows(rows, w, r, row_end);
            unpack_ints_panel(dtype, panel, scales, rows, begin, end);
            for (size_t t = 0; t < n; t += TOKENS) {
                size_t tokens = tile_tokens(n, t);
                IntsTile x = ints_tile(dtype, packed, t, tokens, w->cols);
                TileSums sums;
                sums_begin(&sums, y + t * y_stride + r, y_stride, sums_start(bias, r, begin), tokens, n_rows);
                prefetch_next(rows, (ROWS * blocks + begin) * BLOCK_BYTES(dtype),
                              (end - begin) * BLOCK_BYTES(dtype), t, tokens, n);
                FOR_TOKENS(tokens, sum_tile, dtype, &sums, panel, scales, &x, begin, end)
                sums_end(&sums, y + t * y_stride + r, y_stride, tokens, n_rows);
            }
        }
    }
}
