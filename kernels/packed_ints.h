/*
 * Both factors of a product of integers: activations, rounded and packed for the tokens that are multiplied together, and a
 * panel of weights, unpacked. Activations are rounded by blocks of 32 columns, x ≈ d·q.
 *
 * A q has one byte or two. Two err by no more than 2^-16 of the block's largest, far less than the weights themselves. One
 * errs as much as Q8_0's weights do. That is enough for text, but two ways to the same logits may end 1.5e-2 of their span
 * apart, where a float's last bit decides which way a q is rounded.
 *
 * ints_x86.h, ints_arm64.h and ints_wasm.h have what lanes.h has not; a q has `bytes` bytes:
 *   LARGEST_Q(bytes): the largest q that activations are rounded to
 *   part_bytes(bytes): q is multiplied in parts of so many bytes, each by the same weights
 *   next_part(dots): what the first part adds up to, in units of the second
 *   largest_of(x): the largest |x| of 32, or NaN
 *   round_to(bytes, span, q, halves, x, factor): 32 numbers times factor as q, of each span part by part; and what each
 *                  half of them adds up to
 *   widen(to, from, rows, columns): bytes of a panel as int16, where parts of q are int16
 */
#ifndef ATTN_PACKED_INTS_H
#define ATTN_PACKED_INTS_H

#include "blocks.h"
#include "tiles.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The activations of `tokens` tokens that are multiplied together, in the room of tokens·cols floats. */
typedef struct PackedInts {
    unsigned char *q; /* [spans][parts][units][tokens][4]: four columns, or two as ints_widen has them */
    float *d;         /* [spans][tokens] */
    int32_t *start;   /* [spans][tokens] −excess·Σ q: what a span's sum begins with */
    float *sums;      /* [spans][tokens] Σ q, which the weights' minima are multiplied by */
    size_t tokens;
} PackedInts;

OPENED PackedInts packed_ints(size_t bytes, size_t span, const void *packed, size_t first, size_t tokens,
                              size_t cols) {
    /* A division by what is no constant would take as long as a hundred products. */
    const size_t sums_of_spans = (span == 16 ? cols / 16 : cols / 32) * tokens;
    float *room = (float *)(uintptr_t)packed + first * cols, *d = room + tokens * cols * bytes / sizeof *room,
          *start = d + sums_of_spans, *sums = start + sums_of_spans;
    return (PackedInts){(unsigned char *)room, d, (int32_t *)(void *)start, sums, tokens};
}

/* The same from a span on. The addresses are registers, from which what comes is at constant distances. */
OPENED PackedInts from_span(const PackedInts *x, size_t bytes, size_t span, size_t first, size_t tokens) {
    PackedInts from = {x->q + first * span * bytes * tokens, x->d + first * tokens, x->start + first * tokens,
                       x->sums + first * tokens, tokens};
    KEEP_ADDRESS(from.q);
    KEEP_ADDRESS(from.d);
    KEEP_ADDRESS(from.start);
    KEEP_ADDRESS(from.sums);
    return from;
}

/* Products of bytes are for weights below this. */
#if defined(__AVX2__) && !defined(__AVXVNNI__) && !defined(__AVX512F__) && !defined(EMULATED_AVX512)
enum { BYTES_BELOW = 64 };
#else
enum { BYTES_BELOW = 256 };
#endif

#if defined(__x86_64__)
#include "ints_x86.h"
#elif defined(__wasm__)
#include "ints_wasm.h"
#else
#include "ints_arm64.h"
#endif

/*
 * Rounds 32 numbers, and returns d = max |x| / LARGEST_Q. Blocks of nothing but tiny numbers become zeros, because 1/d would
 * overflow; from 2^100 on they count as not finite, and d is NaN.
 */
OPENED float round_block(size_t bytes, size_t span, unsigned char *q, int32_t halves[2], const float *x) {
    const float largest_q = LARGEST_Q(bytes), max = largest_of(x);
    if (!(max < 0x1p100f)) return NAN;
    if (max < 0x1p-100f) return 0;
    round_to(bytes, span, q, halves, x, largest_q / max);
    return max / largest_q;
}

/* Tokens [first, first + tokens) of n, and zeros behind the last one. */
CALLED void pack_ints(size_t bytes, void *packed, DType dtype, const float *x, size_t n, size_t first,
                      size_t tokens, size_t cols) {
    const size_t span = span_of(dtype), units = BLOCK / 4 * bytes;
    const int32_t excess = excess_of(dtype);
    PackedInts to = packed_ints(bytes, span, packed, first, tokens, cols);
    for (size_t t = 0; t < tokens; t++)
        for (size_t b = 0; b < cols / BLOCK; b++) {
            _Alignas(64) unsigned char q[BLOCK * 2] = {0};
            int32_t halves[2] = {0, 0};
            float d =
                first + t < n ? round_block(bytes, span, q, halves, x + (first + t) * cols + b * BLOCK) : 0;
            for (size_t u = 0; u < units; u++)
                memcpy(to.q + ((b * units + u) * tokens + t) * 4, q + 4 * u, 4);
            if (span == BLOCK) halves[0] += halves[1];
            for (size_t s = 0; s < BLOCK / span; s++) {
                size_t i = (b * (BLOCK / span) + s) * tokens + t;
                to.d[i] = d;
                to.start[i] = -excess * halves[s];
                to.sums[i] = (float)halves[s];
            }
        }
}

/* The weights of ROWS rows and up to GROUP columns. */
typedef struct Panel {
    _Alignas(64) unsigned char q[GROUP / 16][ROWS][16];                           /* as in Group */
    _Alignas(64) float scales[ROWS / UNPACKED_ROWS][GROUP_SPANS * UNPACKED_ROWS]; /* likewise */
    _Alignas(64) float mins[ROWS / UNPACKED_ROWS][GROUP_SPANS * UNPACKED_ROWS];
    _Alignas(64) unsigned char wide[GROUP / 8][ROWS][16]; /* q as int16, for parts of two bytes */
} Panel;

/* Where the scale, or minimum, of a row's span lies behind that of the first span of the first row. */
OPENED size_t scale_at(size_t row, size_t span) {
    return row / UNPACKED_ROWS * (GROUP_SPANS * UNPACKED_ROWS) + span / 4 * (4 * UNPACKED_ROWS) +
           row % UNPACKED_ROWS * 4 + span % 4;
}

/* The row of a lane in a stack: of vectors of rows, lane after lane. */
OPENED size_t row_of_lane(size_t lane) {
    return lane / LANES * LANES + lane % 4 * (LANES / 4) + lane % LANES / 4;
}

/* Sixteen bytes of each row: columns [16·i, 16·i + 16), or eight columns as int16. */
OPENED const unsigned char *panel_chunk(size_t bytes, const Panel *panel, size_t i) {
    return part_bytes(bytes) == 1 ? panel->q[i][0] : panel->wide[i][0];
}

/* UNPACKED_ROWS of its rows, from row i·UNPACKED_ROWS on. */
OPENED Group strip_of(Panel *panel, size_t i) {
    return (Group){panel->q[0][i * UNPACKED_ROWS], sizeof panel->q[0], panel->scales[i], panel->mins[i]};
}

/* Columns from the byte `at` of each row on. */
static inline void unpack_panel(size_t bytes, Panel *panel, DType dtype,
                                const unsigned char *const rows[ROWS], size_t at, size_t cols) {
    const Group group = strip_of(panel, 0);
    unpack_groups(dtype, &group, ROWS / UNPACKED_ROWS, rows, at, cols);
    if (part_bytes(bytes) == 2) widen(panel->wide[0][0], panel->q[0][0], ROWS, cols / 16);
}

/* A span's sum of integers, scaled by its weights' scale, less their minima: d times this is added to what came before. */
OPENED Vec scale_span(bool mins, Vec dot, Vec scale, Vec q_sum, Vec min) {
    const Vec scaled = vec_mul(dot, scale);
    return mins ? vec_fnma(q_sum, min, scaled) : scaled;
}

/* Opens a function for what spans and minima are, where they are not constants already. */
#define FOR_SPANS(span, mins, function, ...)                                                                 \
    if ((span) == 16 && (mins))                                                                              \
        function(16, true, __VA_ARGS__);                                                                     \
    else if ((span) == 16)                                                                                   \
        function(16, false, __VA_ARGS__);                                                                    \
    else if (mins)                                                                                           \
        function(32, true, __VA_ARGS__);                                                                     \
    else                                                                                                     \
        function(32, false, __VA_ARGS__);

#endif
