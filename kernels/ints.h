/*
 * Quantised weights as integers. Activations are rounded to 16 bits by blocks of 32 columns, x ≈ d·q with
 * d = max |x| / 32767 (arm64: 32639): an error of about 2^-16 of the block's largest number, far below that of
 * the weights. A block's products with int8 or int4 weights are added up exactly in 32 bits
 * (32 · 128 · 32767 < 2^27) and then scaled by both d's, so that only these sums are rounded.
 *
 * How integers are multiplied stands in int16.h for x86-64, in int8.h for arm64:
 *   PanelInt      a weight of a panel     INT_PANEL: columns whose weights take 16 KB
 *   UNIT          bytes of one token's q that lie together, while those of different tokens alternate
 *   round_block(q, x): 32 numbers as q, in units; returns d, which what is not finite makes NaN
 *   pack_alone(tile, x, blocks): likewise all blocks of a single token, and what dot_ints wants besides
 *   unpack_ints_panel(dtype, panel, scales, rows, begin, end): blocks [begin, end) of ROWS rows
 *   sum_tile(tokens, y, panel, scales, q, d, blocks): as tile, but of blocks
 *   dot_ints(dtype, dots, rows, packed, cols): as dot_floats
 */

/* The packed activations of one tile. */
typedef struct IntsTile {
    int16_t *q; /* [blocks][BLOCK·2/UNIT][tokens][UNIT bytes] */
    float *d;   /* [blocks][tokens] */
} IntsTile;

/* It has room for `tokens`·cols floats and takes little more than half. */
static IntsTile ints_tile(const void *packed, size_t first, size_t tokens, size_t cols) {
    float *room = (float *)(uintptr_t)packed + first * cols;
    return (IntsTile){.q = (int16_t *)(void *)room, .d = room + tokens * cols / 2};
}

#if defined(__x86_64__)
#include "int16.h"
#else
#include "int8.h"
#endif

static void pack_ints(void *packed, const float *x, size_t n, size_t cols, size_t group) {
    size_t first = group * TOKENS, tokens = group_tokens(n, group);
    IntsTile tile = ints_tile(packed, first, tokens, cols);
    if (n == 1) {
        pack_alone(&tile, x, cols / BLOCK);
        return;
    }
    for (size_t t = 0; t < tokens; t++)
        for (size_t b = 0; b < cols / BLOCK; b++) {
            int16_t q[BLOCK];
            unsigned char *to = (unsigned char *)(tile.q + b * BLOCK * tokens) + t * UNIT;
            tile.d[b * tokens + t] = round_block(q, x + (first + t) * cols + b * BLOCK);
            for (size_t i = 0; i < sizeof q / UNIT; i++)
                memcpy(to + i * tokens * UNIT, (unsigned char *)q + i * UNIT, UNIT);
        }
}

/*
 * Fetches blocks [begin, end) of the next ROWS rows, for which a short prompt would wait longer than it multiplies.
 * With floats, of which a row's piece is longer, it was measured to cost a tenth.
 */
static void prefetch_next(const unsigned char *const rows[ROWS], const Matrix *w, size_t begin, size_t end) {
    size_t block_bytes = BLOCK_BYTES(w->dtype), ahead = ROWS * dtype_bytes(w->dtype, w->cols);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t byte = begin * block_bytes; byte < end * block_bytes; byte += 64)
            __builtin_prefetch(rows[i] + ahead + byte);
}

static void matmul_ints(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t row_begin,
                        size_t row_end, const void *packed, size_t n) {
    _Alignas(64) PanelInt panel[INT_PANEL * ROWS];
    _Alignas(64) float scales[INT_PANEL / BLOCK * ROWS];
    for (size_t begin = 0; begin < w->cols / BLOCK; begin += INT_PANEL / BLOCK) {
        size_t end = smaller(begin + INT_PANEL / BLOCK, w->cols / BLOCK);
        for (size_t r = row_begin; r < row_end; r += ROWS) {
            size_t n_rows = smaller(ROWS, row_end - r);
            const unsigned char *rows[ROWS];
            find_rows(rows, w, r, row_end);
            if (w->dtype == DTYPE_Q8_0)
                unpack_ints_panel(DTYPE_Q8_0, panel, scales, rows, begin, end);
            else
                unpack_ints_panel(DTYPE_Q4_0, panel, scales, rows, begin, end);
            prefetch_next(rows, w, begin, end);
            for (size_t t = 0; t < n; t += TOKENS) {
                size_t tokens = group_tokens(n, t / TOKENS);
                IntsTile x = ints_tile(packed, t, tokens, w->cols);
                TileSums sums;
                sums_begin(&sums, y + t * y_stride + r, y_stride, sums_start(bias, r, begin), tokens, n_rows);
                FOR_TOKENS(tokens, sum_tile, &sums, panel, scales, x.q + begin * BLOCK * tokens,
                           x.d + begin * tokens, end - begin)
                sums_end(&sums, y + t * y_stride + r, y_stride, tokens, n_rows);
            }
        }
    }
}
