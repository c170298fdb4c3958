/*
 * Strips, for one token at a time: a part of ints.h. A vector has sixteen columns of each of the rows that are unpacked side by
 * side. Strips take turns, so that all rows' sums take each span together.
 */
#ifndef ATTN_STRIPS_H
#define ATTN_STRIPS_H

#include "blocks.h"
#include "packed_ints.h"
#include "tiles.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * STRIPS: of a panel. TURN: groups of a strip before the next strip's. Of one, sixteen rows are read side by side, and come from
 * memory more slowly; of many, what is scaled fills L1.
 */
enum { STRIPS = ROWS / UNPACKED_ROWS, TURN = 8 };

/* A strip's spans, scaled: those of a row, four by four, in four lanes. */
typedef float Scaled[GROUP_SPANS / 4][LANES];

/* Span s of a strip · the token: for each row in four lanes that are yet to be added up. It fetches its share of what is ahead. */
OPENED Ints multiply_span(size_t bytes, size_t span, const Group *strip, const PackedInts *x, size_t s,
                          Ahead ahead) {
    const size_t parts = bytes / part_bytes(bytes), chunks = span * bytes / parts / 16;
    Ints dots = ints_set(0);
    for (size_t c = 0; c < parts * chunks; c++) {
        const Ints w = strip_chunk(bytes, strip, s * chunks + c % chunks),
                   unit = ints_repeat(x->q + (s * parts * chunks + c) * 16);
        if (c == chunks) dots = next_part(dots);
        dots = c ? ints_dot(bytes, dots, w, unit) : ints_dot_first(bytes, dots, w, unit);
        if (!c) FETCH_SHARE(ahead, s, dots)
    }
    return ints_rest(bytes, dots);
}

/*
 * Spans [s, s + 4) of a strip · the token, scaled but by d, for each row in four lanes. There are `spans` of them in all, and here
 * fewer than four, unless `fours`. x begins with span 0. No loop: gcc 12 would keep what its turns add up in memory.
 */
OPENED void multiply_four_spans(size_t bytes, size_t span, bool mins, bool fours, float *scaled,
                                const Group *strip, const PackedInts *x, size_t s, size_t spans,
                                Ahead ahead) {
    const Ints dots[4] = {
        multiply_span(bytes, span, strip, x, s, ahead),
        fours || s + 1 < spans ? multiply_span(bytes, span, strip, x, s + 1, ahead) : ints_set(0),
        fours || s + 2 < spans ? multiply_span(bytes, span, strip, x, s + 2, ahead) : ints_set(0),
        fours || s + 3 < spans ? multiply_span(bytes, span, strip, x, s + 3, ahead) : ints_set(0),
    };
    const Vec dot = vec_from_ints(ints_add(ints_add_fours(dots), ints_repeat(x->start + s))),
              scales = vec_load(strip->scales + s * (LANES / 4)),
              q_sums = mins ? vec_repeat(x->sums + s) : vec_set(0),
              min = mins ? vec_load(strip->mins + s * (LANES / 4)) : vec_set(0);
    vec_store(scaled, scale_span(mins, dot, scales, q_sums, min));
}

/*
 * sums [ROWS], in a stack's order, + d times what is scaled, span after span. Were each strip to add up its own, it would wait at
 * each addition for the one before; and here a vector has four times as many rows.
 */
CALLED void add_scaled_spans(size_t spans, float *sums, Scaled *scaled, const float *d) {
    for (size_t stack = 0; stack < ROWS / LANES; stack++, sums += LANES, scaled += 4) {
        Vec sum = vec_load(sums);
        for (size_t s = 0; s < spans; s += 4) {
            Vec v[4];
            for (size_t i = 0; i < 4; i++) v[i] = vec_load(scaled[i][s / 4]);
            vec_turn(v);
            for (size_t i = 0; i < 4 && s + i < spans; i++) sum = vec_fma(vec_set(d[s + i]), v[i], sum);
        }
        vec_store(sums, sum);
    }
}

/*
 * Whether a way takes a type's strips. Then they go from memory to their sums through registers alone, by code of its own, but
 * where a group is cut: through a panel, which takes up to half as long again.
 */
OPENED bool has_own_strips(size_t bytes, DType dtype) {
    return bytes == 2 || BYTES_BELOW > 64 || is_below_64(dtype);
}

/* A half of a strip's group, unpacked to where q of both halves go; a large block has its scales. x begins with the half. */
OPENED void multiply_half(DType dtype, size_t bytes, Scaled scaled, const Group *strip,
                          const unsigned char *const *rows, size_t at, const PackedInts *x, size_t half,
                          const unsigned char *next) {
    const size_t span = span_of(dtype), spans = HALF / span,
                 scales = small_block_bytes(dtype) ? 0 : half * spans * UNPACKED_ROWS;
    const Group part = {strip->q, strip->apart, strip->scales + scales, strip->mins + scales};
    const Ahead ahead = {next, (UNPACKED_ROWS * bytes_of_group(dtype) / 2 + spans - 1) / spans};
    unpack_half(dtype, &part, rows, at, half, HALF);
#pragma GCC unroll 4
    for (size_t s = 0; s < spans; s += 4)
        multiply_four_spans(bytes, span, has_mins(dtype), true, scaled[(half * spans + s) / 4], &part, x, s,
                            spans, ahead);
}

/*
 * Groups [first, first + n) of a strip, scaled; the next strip's lie between two of them. Each fetches as many bytes of the next
 * rows. The code of one half serves both, but of short spans of bytes, which lose a fifth by that.
 */
OPENED void own_strip(DType dtype, size_t bytes, Scaled *scaled, const Group *strip,
                      const unsigned char *const *rows, const PackedInts *x, size_t first, size_t n,
                      const unsigned char *next) {
    const size_t group_bytes = bytes_of_group(dtype), span = span_of(dtype), spans = HALF / span,
                 half_bytes = UNPACKED_ROWS * group_bytes / 2;
    if (!has_own_strips(bytes, dtype)) return;
    PackedInts own = from_span(x, bytes, span, first * 2 * spans, 1);
    for (size_t at = first * group_bytes; n; n--, at += group_bytes, scaled += STRIPS) {
        unpack_scales(dtype, strip, rows, at);
        if (span == 16 && bytes == 1) {
            const PackedInts last = from_span(&own, bytes, span, spans, 1);
            multiply_half(dtype, bytes, *scaled, strip, rows, at, &own, 0, next);
            multiply_half(dtype, bytes, *scaled, strip, rows, at, &last, 1, next + half_bytes);
            own = from_span(&last, bytes, span, spans, 1);
            next += 2 * half_bytes;
        } else {
            for (size_t half = 0; half < 2; half++, next += half_bytes) {
                KEEP_LOOP(half);
                multiply_half(dtype, bytes, *scaled, strip, rows, at, &own, half, next);
                own = from_span(&own, bytes, span, spans, 1);
            }
        }
    }
}

/* Strips of a panel. Those of small blocks may end within a group. */
OPENED void panel_strips(size_t span, bool mins, size_t bytes, float *sums, Panel *panel, const PackedInts *x,
                         size_t begin, size_t cols) {
    const size_t spans = cols / span, most = GROUP / span;
    const PackedInts own = from_span(x, bytes, span, begin / span, 1);
    _Alignas(64) Scaled scaled[STRIPS];
    for (size_t i = 0; i < STRIPS; i++) {
        const Group strip = strip_of(panel, i);
        size_t s = 0;
        if (cols == GROUP) {
#pragma GCC unroll 4
            for (; s < most; s += 4)
                multiply_four_spans(bytes, span, mins, true, scaled[i][s / 4], &strip, &own, s, most,
                                    (Ahead){0});
        }
        for (; s < spans; s += 4)
            multiply_four_spans(bytes, span, mins, false, scaled[i][s / 4], &strip, &own, s, spans,
                                (Ahead){0});
    }
    add_scaled_spans(spans, sums, scaled, x->d + begin / span);
}

/* A token, or some, one by one: each ROWS rows come from memory for the first of them, and from a cache for the others. */
static void matvec_ints(size_t bytes, float *y, size_t y_stride, const Matrix *w, const float *bias,
                        size_t row_begin, size_t row_end, const void *packed, size_t n_tokens) {
    const size_t row_bytes = dtype_bytes(w->dtype, w->cols), piece = dtype_bytes(w->dtype, GROUP),
                 groups = w->cols / GROUP, span = span_of(w->dtype);
    const bool mins = has_mins(w->dtype);
    /* Outside of the loops: gcc 12 gives other variables of a loop the room of mins, whose address it has taken out of it. */
    Panel panel;
    _Alignas(64) unsigned char q[HALF / 16][LANES * 4];
    _Alignas(64) float scales[GROUP_SPANS * UNPACKED_ROWS], least[GROUP_SPANS * UNPACKED_ROWS];
    _Alignas(64) Scaled scaled[TURN][STRIPS];
    const Group strip = {q[0], sizeof q[0], scales, least};
    for (size_t r = row_begin; r < row_end; r += ROWS) {
        const unsigned char *rows[ROWS];
        const size_t n_rows = smaller(ROWS, row_end - r);
        find_rows(rows, w, r, row_end);
        for (size_t t = 0; t < n_tokens; t++) {
            const PackedInts x = packed_ints(bytes, span, packed, t, 1, w->cols);
            const unsigned char *next = (const unsigned char *)w->data + (r + ROWS) * row_bytes;
            _Alignas(64) float sums[ROWS];
            for (size_t i = 0; i < ROWS; i++)
                sums[i] = bias && row_of_lane(i) < n_rows ? bias[r + row_of_lane(i)] : 0;
            size_t c = 0;
            for (size_t first = 0, n; has_own_strips(bytes, w->dtype) && first < groups; first += n) {
                n = smaller(TURN, groups - first);
                for (size_t i = 0; i < STRIPS; i++, next += n * UNPACKED_ROWS * piece)
                    FOR_QUANTISED(w->dtype, own_strip, bytes, &scaled[0][i], &strip, rows + i * UNPACKED_ROWS,
                                  &x, first, n, next)
                for (size_t g = 0; g < n; g++)
                    add_scaled_spans(GROUP / span, sums, scaled[g], x.d + (first + g) * (GROUP / span));
                c = (first + n) * GROUP;
            }
            for (; c < w->cols; c += GROUP) {
                const size_t cols = smaller(GROUP, w->cols - c);
                unpack_panel(1, &panel, w->dtype, rows, c / GROUP * piece, cols);
                FOR_SPANS(span, mins, panel_strips, bytes, sums, &panel, &x, c, cols)
            }
            for (size_t i = 0; i < n_rows; i += LANES)
                vec_store_first(y + t * y_stride + r + i, vec_in_rows(vec_load(sums + i)),
                                smaller(LANES, n_rows - i));
        }
    }
}

#define MULTIPLY_STRIPS matvec_ints

#endif
