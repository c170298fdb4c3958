/*
 * What the micro-kernels of matmul and matvec have in common, whatever they multiply.
 *
 * matmul: the lanes are rows of weights. A micro-kernel takes ROWS rows × at most TOKENS tokens, whose sums stay in
 * registers while the columns pass: each column brings ROWS weights, and one number of each token, spread over a
 * vector (Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication"; the word is BLIS's). For that,
 * weights are unpacked and transposed, a panel of columns at a time, into scratch that stays in L1 while all tokens
 * pass. A sum begins with the bias and takes column after column, however many tokens there are.
 *
 * matvec: the lanes are columns. MATVEC_STREAMS rows are read as they lie, for one token after another.
 */
#ifndef ATTN_MICROKERNEL_H
#define ATTN_MICROKERNEL_H

#include "kernels.h"
#include "weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
    TOKENS = 6,       /* with two vectors of rows, twelve sums: as many as hide the latency of FMA */
    ROWS = 2 * LANES, /* of a micro-kernel */
    PANEL = (LANES == 16 ? 8192 : 4096) / ROWS, /* columns: 32 KB of weights, or 16, half of L1 */
    MATVEC_STREAMS = 4,                         /* rows that matvec reads at once */
};

/* Opens a function once for each number of tokens of a micro-kernel, which is its first argument. */
#define FOR_TOKENS(tokens, function, ...)                                                                    \
    switch (tokens) {                                                                                        \
    case 1: function(1, __VA_ARGS__); break;                                                                 \
    case 2: function(2, __VA_ARGS__); break;                                                                 \
    case 3: function(3, __VA_ARGS__); break;                                                                 \
    case 4: function(4, __VA_ARGS__); break;                                                                 \
    case 5: function(5, __VA_ARGS__); break;                                                                 \
    case TOKENS: function(TOKENS, __VA_ARGS__); break;                                                       \
    }

/* Where rows [r, r + ROWS) begin. Beyond row_end the last one comes again and is not kept. */
static inline void find_rows(const unsigned char *rows[ROWS], const Matrix *w, size_t r, size_t row_end) {
    size_t row_bytes = dtype_bytes(w->dtype, w->cols);
    for (size_t i = 0; i < ROWS; i++)
        rows[i] = (const unsigned char *)w->data + smaller(r + i, row_end - 1) * row_bytes;
}

/* Where a micro-kernel's sums begin and go: in y, or, where fewer than ROWS rows are left, in a room of its own. */
typedef struct MicroSums {
    float *y;
    size_t stride;
    const float *start; /* [ROWS] what all tokens' sums begin with, or NULL: with what y is */
    float room[TOKENS * ROWS];
} MicroSums;

OPENED void sums_begin(MicroSums *sums, float *y, size_t y_stride, const float *start, size_t tokens,
                       size_t rows) {
    sums->y = y;
    sums->stride = y_stride;
    sums->start = start;
    if (rows == ROWS) return;
    memset(sums->room, 0, sizeof sums->room);
    for (size_t t = 0; t < tokens; t++)
        memcpy(sums->room + t * ROWS, start ? start : y + t * y_stride, rows * sizeof *y);
    sums->y = sums->room;
    sums->stride = ROWS;
    sums->start = NULL;
}

OPENED void sums_end(const MicroSums *sums, float *y, size_t y_stride, size_t tokens, size_t rows) {
    for (size_t t = 0; t < tokens && rows < ROWS; t++)
        memcpy(y + t * y_stride, sums->room + t * ROWS, rows * sizeof *y);
}

OPENED void load_sums(Vec v[2 * TOKENS], const MicroSums *sums, size_t tokens) {
    for (size_t i = 0; i < 2 * tokens; i++)
        v[i] = vec_load((sums->start ? sums->start : sums->y + i / 2 * sums->stride) + i % 2 * LANES);
}

OPENED void store_sums(const MicroSums *sums, const Vec v[2 * TOKENS], size_t tokens) {
    for (size_t i = 0; i < 2 * tokens; i++) vec_store(sums->y + i / 2 * sums->stride + i % 2 * LANES, v[i]);
}

/* So many tokens, of n, from the first one on go through a micro-kernel together. */
static inline size_t micro_tokens(size_t n, size_t first) { return smaller(TOKENS, n - first); }

/* What the sums of rows from r on begin with, for the panel that begins at a column. */
static inline const float *sums_start(const float *bias, size_t r, size_t column) {
    static const float zeros[ROWS];
    return column ? NULL : bias ? bias + r : zeros;
}

/*
 * Fetches into L2 what belongs to tokens [t, t + tokens) of n: their share of the `bytes` bytes that lie `ahead` of each
 * row, where the next panel comes from. All at once would be more than a core can wait for; in L1 the present panel
 * would give way.
 */
static inline void prefetch_next(const unsigned char *const rows[ROWS], size_t ahead, size_t bytes, size_t t,
                                 size_t tokens, size_t n) {
    size_t lines = (bytes + 63) / 64 * ROWS;
    for (size_t line = lines * t / n; line < lines * (t + tokens) / n; line++)
        __builtin_prefetch(rows[line % ROWS] + ahead + line / ROWS * 64, 0, 2);
}

/* The rows that matvec reads at once. */
typedef struct Streams {
    const unsigned char *rows[MATVEC_STREAMS];
    size_t ahead; /* so many bytes before its use each is fetched; 0: by the hardware alone */
} Streams;

enum {
    AHEAD_FAR = 2048, /* from 1 KB on the distance made no difference */
    AHEAD_NEAR = 512, /* of blocks; tuned on a CPU that does not gain by more */
};

OPENED void fetch(const unsigned char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

/* Step r of a matvec: rows r, r + apart, … Beyond the last row that one comes again and is not kept. */
OPENED void streams_seek(Streams *streams, const Matrix *w, size_t r, size_t apart, size_t row_bytes) {
    for (size_t k = 0; k < MATVEC_STREAMS; k++)
        streams->rows[k] = (const unsigned char *)w->data + smaller(r + k * apart, w->rows - 1) * row_bytes;
}

/* One token's y at those rows. */
OPENED void keep_dots(float *y, const Matrix *w, const float *bias, size_t r, size_t apart,
                      const float dots[MATVEC_STREAMS]) {
    for (size_t k = 0; k < MATVEC_STREAMS && r + k * apart < w->rows; k++)
        y[r + k * apart] = (bias ? bias[r + k * apart] : 0.0f) + dots[k];
}

#endif
