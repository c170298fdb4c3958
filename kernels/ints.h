/*
 * Products of quantised weights, as integers. Activations are rounded by blocks of 32 columns, x ≈ d·q, so that a span's
 * products with the weights' integers can be added up exactly. Only then they are scaled by both scales, first the
 * weights', and only these sums are rounded.
 *
 * How they are rounded, and packed, stands in packed_ints.h. Three ways lead through: strips for one token (strips.h), stacks
 * for a few, tiles for many. Stacks and tiles are compiled once for all types: weights of any type become a panel (blocks.h),
 * and only the loops over a span's columns know how long it is.
 */
#ifndef ATTN_INTS_H
#define ATTN_INTS_H

#include "blocks.h"
#include "packed_ints.h"
#include "tiles.h"
#if defined(__wasm__)
#include "strips_wasm.h"
#else
#include "strips.h"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__wasm__)
#define OPENED_SPAN CLOSED
#else
#define OPENED_SPAN _Pragma("GCC unroll 16")
#endif

/* Tokens of a stack, at most: sixteen registers have room for eight sums. */
enum { STACKED = LANES == 8 ? 8 : 16 };

/* The tokens of a stack that n are packed for. Two get a stack of their own where a q has one byte: guesses are often two. */
OPENED size_t stacked(size_t bytes, size_t n) { return bytes == 1 && n <= 2 ? 2 : (n + 3) / 4 * 4; }

/* Opens a function once for each number of tokens that a stack can have, which is its first argument. */
#define FOR_STACKED(tokens, function, bytes, ...)                                                            \
    if ((bytes) == 1 && (tokens) == 2)                                                                       \
        function(2, bytes, __VA_ARGS__);                                                                     \
    else if ((tokens) == 4)                                                                                  \
        function(4, bytes, __VA_ARGS__);                                                                     \
    else if ((tokens) == 8 || STACKED == 8)                                                                  \
        function(8, bytes, __VA_ARGS__);                                                                     \
    else if ((tokens) == 12)                                                                                 \
        function(12, bytes, __VA_ARGS__);                                                                    \
    else                                                                                                     \
        function(16, bytes, __VA_ARGS__);

/*
 * Without VNNI, AVX2 adds up products of bytes in int16, whose room depends on the weights: for those below 16 a span fits,
 * for those below 64 a pair of units. Then `pairs` are added up at once, and their sums in int32, as those of q of two bytes.
 */
#ifndef HAS_DOT_PAIR
OPENED Ints ints_dot_pair(Ints dots, Ints w0, Ints x0, Ints w1, Ints x1) {
    return ints_dot(1, ints_dot(1, dots, w0, x0), w1, x1);
}
#endif

/* dots + w · the unit at x, which is spread over all lanes. */
#ifndef HAS_DOT_SPREAD
OPENED Ints ints_dot_spread(size_t bytes, bool first, Ints dots, Ints w, const void *x) {
    return first ? ints_dot_first(bytes, dots, w, ints_spread(x)) : ints_dot(bytes, dots, w, ints_spread(x));
}
#endif

/* Of a tile's x so many vectors are kept in registers. */
#ifdef HAS_DOT_STORED
enum { KEPT_VECTORS = 2 };
#else
enum { KEPT_VECTORS = VECTORS };
#define ints_dot_stored(bytes, first, dots, w, x) ints_dot(bytes, dots, w, ints_load(x))
#define ints_dot_pair_stored(dots, w0, x0, w1, x1) ints_dot_pair(dots, w0, ints_load(x0), w1, ints_load(x1))
#endif

/* As q of how many bytes their sums are kept. */
OPENED size_t sum_bytes(size_t bytes, bool pairs) { return pairs ? 2 : bytes; }

/* The scales and minima of four spans: a vector for each, whose lanes are rows as in a stack. */
typedef struct Turned {
    _Alignas(64) float scales[4][LANES], mins[4][LANES];
} Turned;

OPENED void turn_four_spans(float turned[4][LANES], const float from[][GROUP_SPANS * UNPACKED_ROWS],
                            size_t s) {
    Vec v[4];
    for (size_t i = 0; i < 4; i++) v[i] = vec_load(from[i] + s * UNPACKED_ROWS);
    vec_turn(v);
    for (size_t i = 0; i < 4; i++) vec_store(turned[i], v[i]);
}

/* totals += a span's sums, of a stack's rows and some tokens. */
OPENED void end_span_of_stack(bool mins, size_t tokens, size_t bytes, Vec *totals, const Ints *dots,
                              const float *scales, const float *least, const PackedInts *x) {
    const Vec scale = vec_load(scales), min = mins ? vec_load(least) : vec_set(0);
    const int32_t *start = x->start;
    KEEP_ADDRESS(start); /* or its distances would be kept from where sums began */
    for (size_t t = 0; t < tokens; t++) {
        Vec dot = ints_end(bytes, dots[t], ints_spread(start + t)),
            q_sum = mins ? vec_set(x->sums[t]) : vec_set(0);
        totals[t] = vec_fma(vec_set(x->d[t]), scale_span(mins, dot, scale, q_sum, min), totals[t]);
    }
}

/*
 * Stacks, for some tokens: a vector has a unit of each of LANES rows, and each token's unit is spread over it. Lane 4·i + j is
 * row LANES/4·j + i, as four vectors of a panel are turned.
 * sums [token][ROWS] += Σ_span d·(scale·(start + Σ_unit w·q) − min·Σ q). Each span fetches ahead.bytes.
 */
OPENED void micro_stack(size_t tokens, size_t bytes, bool pairs, size_t span, bool mins, float *sums,
                        Turned *turned, const Panel *panel, size_t stack, const PackedInts *x, size_t begin,
                        size_t cols, Ahead ahead) {
    const size_t wide = part_bytes(bytes), parts = bytes / wide, chunks = span / 16;
    PackedInts own = from_span(x, bytes, span, begin / span, tokens);
    const unsigned char *weights = panel->q[0][0] + stack * LANES * 16;
    Vec totals[STACKED];
    for (size_t t = 0; t < tokens; t++) totals[t] = vec_load(sums + t * ROWS);
    const float *scales = NULL, *least = NULL;
    for (size_t s = 0; s < cols / span; s++, scales += LANES, least += LANES) {
        const unsigned char *q = own.q;
        Ints dots[STACKED];
        fetch(ahead, s);
        if (s % 4 == 0) {
            turn_four_spans(turned->scales, panel->scales + stack * 4, s);
            if (mins) turn_four_spans(turned->mins, panel->mins + stack * 4, s);
            scales = turned->scales[0], least = turned->mins[0];
        }
        for (size_t t = 0; t < tokens; t++)
            dots[t] = ints_begin(sum_bytes(bytes, pairs), ints_spread(own.start + t));
#pragma GCC unroll 2
        for (size_t c = 0; c < parts * chunks; c++) {
            const unsigned char *chunk = weights + c % chunks * ROWS * 16;
            Vec w[4];
            if (bytes == 2) KEEP_LOOP(c); /* as in add_span_of_tile */
            if (c == chunks)
                for (size_t t = 0; t < tokens; t++) dots[t] = next_part(dots[t]);
            for (size_t i = 0; i < 4; i++) w[i] = vec_of_bits(ints_load(chunk + i * LANES * 4));
            vec_turn(w);
            for (size_t half = 0; half < wide; half++, q += 16 * tokens) {
                if (wide == 2) KEEP_LOOP(half);
#pragma GCC unroll 4
                for (size_t u = 0; u < 4; u += pairs ? 2 : 1) {
                    const Ints columns = ints_of_bits(w[u]), next = ints_of_bits(w[pairs ? u + 1 : u]),
                               unit = wide == 2 ? ints_widen(columns, 0) : columns;
                    for (size_t t = 0; t < tokens; t++) {
                        const unsigned char *at = q + (u * tokens + t) * 4;
                        Ints *dot = &dots[t];
                        *dot = pairs ? ints_dot_pair(*dot, unit, ints_spread(at), next,
                                                     ints_spread(at + tokens * 4))
                                     : ints_dot_spread(bytes, !c && !u, *dot, unit, at);
                        KEEP_IN_REGISTER(*dot);
                    }
                    if (wide == 2) w[u] = vec_of_bits(ints_widen(columns, 1));
                }
            }
        }
        if (mins)
            end_span_of_stack(true, tokens, sum_bytes(bytes, pairs), totals, dots, scales, least, &own);
        else
            end_span_of_stack(false, tokens, sum_bytes(bytes, pairs), totals, dots, scales, least, &own);
        weights += chunks * ROWS * 16;
        own = from_span(&own, bytes, span, 1, tokens);
    }
    for (size_t t = 0; t < tokens; t++) vec_store(sums + t * ROWS, totals[t]);
}

OPENED void stacks_of_ints(size_t tokens, size_t bytes, bool pairs, size_t span, bool mins, float *sums,
                           Turned *turned, const Panel *panel, const PackedInts *x, size_t begin, size_t cols,
                           Ahead ahead) {
    CLOSED for (size_t stack = 0; stack < ROWS / LANES; stack++, sums += LANES) {
        if (span == 16)
            micro_stack(tokens, bytes, pairs, 16, mins, sums, turned, panel, stack, x, begin, cols, ahead);
        else
            micro_stack(tokens, bytes, pairs, 32, mins, sums, turned, panel, stack, x, begin, cols, ahead);
        ahead.next += cols / span * ahead.bytes;
    }
}

/* totals += a span's sums, of TILE_ROWS rows and some vectors of tokens. */
OPENED void end_span_of_tile(bool mins, size_t vectors, size_t bytes, Vec *totals, const Ints *dots,
                             const float *scales, const float *spans_mins, const PackedInts *x, size_t at) {
    for (size_t v = 0; v < vectors; v++) {
        const size_t first = (at * vectors + v) * LANES;
        const Vec d = vec_load(x->d + first), q_sums = mins ? vec_load(x->sums + first) : vec_set(0);
        for (size_t i = 0; i < TILE_ROWS; i++) {
            Vec *total = &totals[i * vectors + v],
                dot = ints_end(bytes, dots[i * vectors + v], ints_load(x->start + first)),
                min = mins ? vec_set(spans_mins[scale_at(i, 0)]) : vec_set(0);
            *total = vec_fma(d, scale_span(mins, dot, vec_set(scales[scale_at(i, 0)]), q_sums, min), *total);
        }
    }
}

/* dots += the products of so many units. */
OPENED void add_units_of_tile(size_t vectors, size_t bytes, size_t units, Ints *dots, const unsigned char *w,
                              const unsigned char *q) {
    OPENED_SPAN for (size_t u = 0; u < units; u++) {
        const unsigned char *x = q + u * vectors * LANES * 4;
        Ints xs[VECTORS];
        for (size_t v = 0; v < vectors && v < KEPT_VECTORS; v++) {
            xs[v] = ints_load(x + v * LANES * 4);
            KEEP_IN_REGISTER(xs[v]);
        }
        for (size_t i = 0; i < TILE_ROWS; i++) {
            Ints unit = ints_spread(w + (u / 4 * ROWS + i) * 16 + u % 4 * 4);
            for (size_t v = 0; v < vectors; v++) {
                Ints *dot = &dots[i * vectors + v];
                if (v >= KEPT_VECTORS)
                    *dot = ints_dot_stored(bytes, !u, *dot, unit, x + v * LANES * 4);
                else if (bytes == 1 && !u)
                    *dot = ints_dot_first(1, *dot, unit, xs[v]);
                else
                    *dot = ints_dot(bytes, *dot, unit, xs[v]);
                KEEP_IN_REGISTER(*dot);
            }
        }
    }
}

/* dots += a span's products. Of q of two bytes it has many chunks of four units, whose code is not repeated. */
OPENED void add_span_of_tile(size_t vectors, size_t bytes, size_t parts, size_t chunks, Ints *dots,
                             const unsigned char *w, const unsigned char *q) {
    if (bytes == 1) {
        add_units_of_tile(vectors, 1, 4 * chunks, dots, w, q);
        return;
    }
    for (size_t part = 0; part < parts; part++) {
        if (part)
            for (size_t i = 0; i < TILE_ROWS * vectors; i++) dots[i] = next_part(dots[i]);
        for (size_t c = 0; c < chunks; c++, q += 4 * vectors * LANES * 4) {
            KEEP_LOOP(c);
            add_units_of_tile(vectors, 2, 4, dots, w + c * ROWS * 16, q);
        }
    }
}

/* The same of q of one byte, two units at once. */
OPENED void add_pairs_of_tile(size_t vectors, size_t units, Ints *dots, const unsigned char *w,
                              const unsigned char *q) {
    OPENED_SPAN for (size_t u = 0; u < units; u += 2) {
        const unsigned char *pair = w + u / 4 * ROWS * 16 + u % 4 * 4, *xs = q + u * vectors * LANES * 4;
        for (size_t i = 0; i < TILE_ROWS; i++) {
            const Ints first = ints_spread(pair + i * 16), second = ints_spread(pair + i * 16 + 4);
            for (size_t v = 0; v < vectors; v++) {
                dots[i * vectors + v] = ints_dot_pair_stored(dots[i * vectors + v], first, xs + v * LANES * 4,
                                                             second, xs + (vectors + v) * LANES * 4);
                KEEP_IN_REGISTER(dots[i * vectors + v]);
            }
        }
    }
}

/*
 * Each span of a tile fetches a share of what will be unpacked next: for each of the tile's rows it lies so far behind that row.
 * All of it at once would be more than a core can wait for.
 */
typedef struct RowsAhead {
    const unsigned char *const *rows;
    ptrdiff_t behind;
    size_t share; /* in bytes: up to three lines, or none */
} RowsAhead;

/* The spans of a tile that fetch for the same row. */
OPENED size_t spans_per_row(size_t span) { return GROUP / span / TILE_ROWS; }

/* Share i of a row's bytes, which begin at p, without the loop that fetch has: gcc 12 would clear registers for it at each span. */
OPENED void fetch_of_row(const unsigned char *p, size_t i, size_t share) {
    p += i * share;
    KEEP_ADDRESS(p);
    __builtin_prefetch(p, 0, 2);
    if (share > 64) __builtin_prefetch(p + 64, 0, 2);
    if (share > 128) __builtin_prefetch(p + 128, 0, 2);
}

/* sums [row][token] likewise. */
OPENED void micro_ints(size_t vectors, size_t bytes, bool pairs, size_t span, bool mins, float *sums,
                       const Panel *panel, size_t r, const PackedInts *x, size_t begin, size_t cols,
                       RowsAhead ahead) {
    const size_t parts = bytes / part_bytes(bytes), chunks = span * bytes / parts / 16,
                 tokens = vectors * LANES, shares = spans_per_row(span);
    Vec totals[TILE_ROWS * VECTORS];
    for (size_t i = 0; i < TILE_ROWS * vectors; i++) totals[i] = vec_load(sums + i * LANES);
    for (size_t s = 0; s < cols / span; s++) {
        const size_t at = begin / span + s;
        const unsigned char *q = x->q + at * parts * chunks * 4 * tokens * 4,
                            *w = panel_chunk(bytes, panel, s * chunks) + r * 16;
        const float *scales = panel->scales[0] + scale_at(r, s),
                    *spans_mins = panel->mins[0] + scale_at(r, s);
        KEEP_ADDRESS(w);
        KEEP_ADDRESS(q);
        KEEP_ADDRESS(scales);
        KEEP_ADDRESS(spans_mins);
        if (ahead.share) fetch_of_row(ahead.rows[r + s / shares] + ahead.behind, s % shares, ahead.share);
        Ints dots[TILE_ROWS * VECTORS];
        for (size_t v = 0; v < vectors; v++) {
            Ints start = ints_begin(sum_bytes(bytes, pairs), ints_load(x->start + at * tokens + v * LANES));
            for (size_t i = 0; i < TILE_ROWS; i++) dots[i * vectors + v] = start;
        }
        if (pairs)
            add_pairs_of_tile(vectors, 4 * chunks, dots, w, q);
        else
            add_span_of_tile(vectors, bytes, parts, chunks, dots, w, q);
        if (mins)
            end_span_of_tile(true, vectors, sum_bytes(bytes, pairs), totals, dots, scales, spans_mins, x, at);
        else
            end_span_of_tile(false, vectors, sum_bytes(bytes, pairs), totals, dots, scales, spans_mins, x,
                             at);
    }
    for (size_t i = 0; i < TILE_ROWS * vectors; i++) vec_store(sums + i * LANES, totals[i]);
}

OPENED void tile_ints(size_t vectors, size_t bytes, bool pairs, size_t span, bool mins, float *sums,
                      const Panel *panel, const PackedInts *x, size_t begin, size_t cols, RowsAhead ahead) {
    CLOSED for (size_t r = 0; r < ROWS; r += TILE_ROWS, sums += TILE_ROWS * vectors * LANES) {
        if (span == 16)
            micro_ints(vectors, bytes, pairs, 16, mins, sums, panel, r, x, begin, cols, ahead);
        else
            micro_ints(vectors, bytes, pairs, 32, mins, sums, panel, r, x, begin, cols, ahead);
    }
}

OPENED void matmul_ints(size_t span, bool mins, size_t bytes, bool pairs, float *y, size_t y_stride,
                        const Matrix *w, const float *bias, size_t row_begin, size_t row_end,
                        const void *packed, size_t n) {
    const size_t group_bytes = dtype_bytes(w->dtype, GROUP);
    Panel panel;
    Sums sums[SUMS];
    FOR_AREAS(row_begin, row_end, n) {
        sums_begin(sums, bias, area);
        for (size_t begin = 0, at = 0; begin < w->cols; begin += GROUP, at += group_bytes)
            for (size_t r = area.row; r < area.row_end; r += ROWS) {
                const size_t cols = smaller(GROUP, w->cols - begin);
                const unsigned char *rows[ROWS];
                float *to = sums[(r - area.row) / ROWS].of;
                find_rows(rows, w, r, row_end);
                RowsAhead ahead = {rows, ahead_of(w, &area, r, begin, GROUP),
                                   group_bytes / spans_per_row(span)};
                unpack_panel(bytes, &panel, w->dtype, rows, at, cols);
                for (size_t t = 0, vectors; t < area.n; t += vectors * LANES) {
                    vectors = tile_vectors(area.n - t);
                    PackedInts x = packed_ints(bytes, span, packed, area.token + t, vectors * LANES, w->cols);
                    FOR_VECTORS(vectors, tile_ints, bytes, pairs, span, mins, to, &panel, &x, begin, cols,
                                ahead)
                    to += ROWS * vectors * LANES;
                    ahead.share = 0;
                }
            }
        sums_end(sums, y, y_stride, area);
    }
}

OPENED void few_ints(size_t span, bool mins, size_t bytes, bool pairs, float *y, size_t y_stride,
                     const Matrix *w, const float *bias, size_t row_begin, size_t row_end, const void *packed,
                     size_t n) {
    const size_t row_bytes = dtype_bytes(w->dtype, w->cols), group_bytes = dtype_bytes(w->dtype, GROUP);
    Panel panel;
    Turned turned; /* outside of the loops, as strips' room is */
    _Alignas(64) float sums[MOST_STACKED][ROWS];
    for (size_t r = row_begin; r < row_end; r += ROWS) {
        const unsigned char *rows[ROWS];
        const size_t n_rows = smaller(ROWS, row_end - r);
        find_rows(rows, w, r, row_end);
        for (size_t i = 0; i < ROWS; i++) {
            KEEP_LOOP(i);
            sums[0][i] = bias && row_of_lane(i) < n_rows ? bias[r + row_of_lane(i)] : 0;
        }
        for (size_t t = 1; t < stacked(bytes, n); t++) memcpy(sums[t], sums[0], sizeof sums[0]);
        for (size_t begin = 0, at = 0; begin < w->cols; begin += GROUP, at += group_bytes) {
            const size_t cols = smaller(GROUP, w->cols - begin);
            const Ahead ahead = {(const unsigned char *)w->data + (r + ROWS) * row_bytes + at * ROWS,
                                 group_bytes * LANES / (GROUP / span)};
            unpack_panel(1, &panel, w->dtype, rows, at, cols);
            for (size_t t = 0; t < n; t += STACKED) {
                const size_t tokens = stacked(bytes, smaller(STACKED, n - t));
                PackedInts x = packed_ints(bytes, span, packed, t, tokens, w->cols);
                FOR_STACKED(tokens, stacks_of_ints, bytes, pairs, span, mins, sums[t], &turned, &panel, &x,
                            begin, cols, t ? (Ahead){ahead.next, 0} : ahead)
            }
        }
        for (size_t t = 0; t < n; t++)
            for (size_t i = 0; i < n_rows; i += LANES)
                vec_store_first(y + t * y_stride + r + i, vec_in_rows(vec_load(sums[t] + i)),
                                smaller(LANES, n_rows - i));
    }
}

/*
 * For a set's file: defines the products of quantised weights by q's of so many bytes, from a few tokens to many:
 * matvec_NAME, few_NAME, and matmul_NAME.
 */
#define INT_PRODUCT(way, name, linkage, bytes_, tokens, packed_tokens, ...)                                  \
    static void pack_##way##_##name(void *packed, DType dtype, const float *x, size_t n, size_t cols,        \
                                    size_t i) {                                                              \
        const size_t first = i * (tokens), count = smaller(tokens, n - first);                               \
        pack_ints(bytes_, packed, dtype, x, n, first, packed_tokens, cols);                                  \
    }                                                                                                        \
    static void multiply_##way##_##name(float *y, size_t y_stride, const Matrix *w, const float *bias,       \
                                        size_t begin, size_t end, const void *packed, size_t n){             \
        __VA_ARGS__} linkage const Product SHARED(way##_##name) = {                                          \
        .pack_tokens = tokens,                                                                               \
        .rounding = {.largest_q = LARGEST_Q(bytes_)},                                                        \
        .pack = pack_##way##_##name,                                                                         \
        .multiply = multiply_##way##_##name};
#define STRIPS_PRODUCT(name, linkage, bytes)                                                                 \
    INT_PRODUCT(matvec, name, linkage, bytes, 1, count,                                                      \
                MULTIPLY_STRIPS(bytes, y, y_stride, w, bias, begin, end, packed, n);)
#define STACKS_PRODUCT(name, linkage, bytes, pairs)                                                          \
    INT_PRODUCT(few, name, linkage, bytes, STACKED, stacked(bytes, count),                                   \
                few_ints(span_of(w->dtype), has_mins(w->dtype), bytes, pairs, y, y_stride, w, bias, begin,   \
                         end, packed, n);)
#define TILES_PRODUCT(name, linkage, bytes, pairs)                                                           \
    INT_PRODUCT(matmul, name, linkage, bytes, TILE_TOKENS, tile_vectors(count) * LANES,                      \
                matmul_ints(span_of(w->dtype), has_mins(w->dtype), bytes, pairs, y, y_stride, w, bias,       \
                            begin, end, packed, n);)
#define INT_PRODUCTS(name, linkage, bytes)                                                                   \
    STRIPS_PRODUCT(name, linkage, bytes)                                                                     \
    STACKS_PRODUCT(name, linkage, bytes, false)                                                              \
    TILES_PRODUCT(name, linkage, bytes, false)

#endif
