/*
 * All products have this in common, whatever they multiply. There are several ways, which add up in the same order, so
 * that a token's numbers have the same bits whichever way it takes, alone or with others.
 *
 * Tiles, for many tokens: the lanes are tokens. A micro-kernel takes TILE_ROWS rows × up to VECTORS vectors of tokens,
 * whose sums stay in registers while the columns pass: each column brings one weight of each row, spread over a vector,
 * and a vector of activations, which were packed that way once for all rows (Goto & van de Geijn 2008, "Anatomy of
 * High-Performance Matrix Multiplication"; the word is BLIS's). Weights are read as they lie, a group of columns of ROWS
 * rows at a time, which stays in L1 while all tokens pass.
 *
 * Rows, for a few tokens: the lanes end as rows. ROWS rows are read side by side: of floats one way for all of these
 * (floats.h), of integers one for a single token and one for some (ints.h: strips, stacks). Meanwhile the next rows are
 * fetched in the order in which they lie, a little at each turn: only such an order lets the CPU fetch ahead by itself,
 * and a core can wait for some twenty lines at once.
 */
#ifndef ATTN_TILES_H
#define ATTN_TILES_H

#include "kernels.h"
#include "weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * VECTORS: of tokens, at most. Twelve sums hide the latency of a product; a browser on x86-64 has sixteen registers,
 * some of them for itself. FOR_VECTORS opens a function once for each number of vectors, which is its first argument.
 */
#if defined(__wasm__)
enum { VECTORS = 2 };
#define FOR_VECTORS(vectors, function, ...)                                                                  \
    switch (vectors) {                                                                                       \
    case 1: function(1, __VA_ARGS__); break;                                                                 \
    case VECTORS: function(VECTORS, __VA_ARGS__); break;                                                     \
    }
#else
enum { VECTORS = 3 };
#define FOR_VECTORS(vectors, function, ...)                                                                  \
    switch (vectors) {                                                                                       \
    case 1: function(1, __VA_ARGS__); break;                                                                 \
    case 2: function(2, __VA_ARGS__); break;                                                                 \
    case VECTORS: function(VECTORS, __VA_ARGS__); break;                                                     \
    }
#endif

enum {
    ROWS = 16,                     /* whose weights are unpacked together */
    TILE_ROWS = 4,                 /* of a micro-kernel */
    TILE_TOKENS = VECTORS * LANES, /* at most */
    MOST_STACKED = 24, /* tokens of stacks over one panel: tiles of so many would be zeros for a quarter */
    CHUNK_TOKENS = (256 + TILE_TOKENS - 1) / TILE_TOKENS * TILE_TOKENS, /* of an area */
    SUMS = 16,                                                          /* times ROWS rows of an area */
};

/* Where rows [r, r + ROWS) begin. Beyond row_end the last one comes again and is not kept. */
static inline void find_rows(const unsigned char *rows[ROWS], const Matrix *w, size_t r, size_t row_end) {
    size_t row_bytes = dtype_bytes(w->dtype, w->cols);
    CLOSED for (size_t i = 0; i < ROWS; i++) {
        rows[i] = (const unsigned char *)w->data + smaller(r + i, row_end - 1) * row_bytes;
    }
}

/* How many vectors of tokens the tile takes that begins with so many tokens left. */
static inline size_t tile_vectors(size_t tokens) { return smaller((tokens + LANES - 1) / LANES, VECTORS); }

/* The sums of ROWS rows and a chunk of tokens: [tile][row][tokens of the tile]. */
typedef struct Sums {
    _Alignas(64) float of[ROWS * CHUNK_TOKENS];
} Sums;

/*
 * An area of y: rows and tokens whose sums are kept while all columns pass, a group at a time. The group's activations
 * stay in L2, where those of all columns would not: many rows take them from there.
 */
typedef struct Area {
    size_t row, row_end, token, n;
} Area;

/* Goes through the areas of rows [row_begin, row_end) and n tokens. */
#define FOR_AREAS(row_begin, row_end, n_tokens)                                                              \
    for (Area area = area_at(row_begin, row_end, 0, n_tokens); area.n;                                       \
         area = next_area(area, row_begin, row_end, n_tokens))

static inline Area area_at(size_t row, size_t row_end, size_t token, size_t n) {
    return (Area){row, smaller(row + SUMS * ROWS, row_end), token, smaller(CHUNK_TOKENS, n - token)};
}

static inline Area next_area(Area area, size_t row_begin, size_t row_end, size_t n) {
    if (area.row_end < row_end) return area_at(area.row_end, row_end, area.token, n);
    return area_at(row_begin, row_end, area.token + area.n, n);
}

/* They begin with the bias. */
static inline void sums_begin(Sums sums[SUMS], const float *bias, Area area) {
    for (size_t r = area.row; r < area.row_end; r += ROWS, sums++) {
        float *to = sums->of;
        for (size_t t = 0, vectors; t < area.n; t += vectors * LANES) {
            vectors = tile_vectors(area.n - t);
            CLOSED for (size_t i = 0; i < ROWS; i++) {
                Vec start = vec_set(bias && r + i < area.row_end ? bias[r + i] : 0.0f);
                for (size_t v = 0; v < vectors; v++, to += LANES) vec_store(to, start);
            }
        }
    }
}

/* Writes the sums to y, whose rows are tokens, some tokens at a time, or each number would lie in another page than the last. */
static inline void sums_end(const Sums sums[SUMS], float *y, size_t y_stride, Area area) {
    for (size_t t = 0, vectors; t < area.n; t += vectors * LANES) {
        vectors = tile_vectors(area.n - t);
        for (size_t v = 0; v < vectors; v++)
            for (size_t r = area.row; r < area.row_end; r += LANES) {
                const size_t first = t + v * LANES, row = r - area.row;
                const float *from = sums[row / ROWS].of + t * ROWS + (row % ROWS * vectors + v) * LANES;
                float *to = y + (area.token + first) * y_stride + r;
                Vec square[LANES];
                for (size_t i = 0; i < LANES; i++) square[i] = vec_load(from + i * vectors * LANES);
                vec_transpose(square);
                for (size_t i = 0; i < LANES && first + i < area.n; i++, to += y_stride)
                    if (r + LANES <= area.row_end)
                        vec_store(to, square[i]);
                    else
                        vec_store_first(to, square[i], area.row_end - r);
            }
    }
}

/* How far behind the group of columns from `begin` on of rows from r on the group lies that comes next. */
static inline ptrdiff_t ahead_of(const Matrix *w, const Area *area, size_t r, size_t begin, size_t group) {
    const ptrdiff_t row_bytes = (ptrdiff_t)dtype_bytes(w->dtype, w->cols);
    if (r + ROWS < area->row_end) return (ptrdiff_t)dtype_bytes(w->dtype, begin) + ROWS * row_bytes;
    return (ptrdiff_t)dtype_bytes(w->dtype, begin + group) - (ptrdiff_t)(r - area->row) * row_bytes;
}

/*
 * Fetches into L2 the share of tokens [begin, end) of n in the bytes that lie `ahead` of each row, where the next group
 * comes from. All at once would be more than a core can wait for; in L1 the present group would give way.
 */
OPENED void fetch_next(const unsigned char *const rows[ROWS], ptrdiff_t ahead, size_t bytes, size_t begin,
                       size_t end, size_t n) {
    size_t lines = (bytes + 63) / 64 * ROWS, last = lines * smaller(end, n) / n;
    for (size_t line = lines * begin / n; line < last; line++)
        __builtin_prefetch(rows[line % ROWS] + ahead + line / ROWS * 64, 0, 2);
}

#endif
