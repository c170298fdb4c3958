/*
 * Strips in WebAssembly, of one row each: a part of ints.h. Types are unpacked by the one function that tiles use, too, since
 * code is compiled where it runs. Four rows go through all columns together, so that their sums are the lanes of a vector.
 */
#ifndef ATTN_STRIPS_WASM_H
#define ATTN_STRIPS_WASM_H

#include "packed_ints.h"

/* The scales, or minima, of four spans: a vector for each. */
OPENED void turn_scales(Vec turned[4], const float *const scales[LANES], size_t span) {
    for (size_t i = 0; i < LANES; i++) turned[i] = vec_load(scales[i] + span);
    vec_transpose(turned);
}

/* sums + the first rows of the panel · the token. */
OPENED void add_strips(size_t span, bool mins, size_t bytes, Vec *sums, Panel *panel, const PackedInts *x,
                       size_t begin, size_t cols) {
    const size_t chunks = span * bytes / 16;
    const Group strips[LANES] = {strip_of(panel, 0), strip_of(panel, 1), strip_of(panel, 2),
                                 strip_of(panel, 3)};
    const float *const scales[LANES] = {strips[0].scales, strips[1].scales, strips[2].scales,
                                        strips[3].scales},
                       *const least[LANES] = {strips[0].mins, strips[1].mins, strips[2].mins, strips[3].mins};
    Vec sum = *sums, scale[4], min[4];
    CLOSED for (size_t s = 0; s < cols / span; s++) {
        const size_t at = begin / span + s;
        Ints dots[LANES];
        for (size_t i = 0; i < LANES; i++) {
            dots[i] = ints_set(0);
            for (size_t c = 0; c < chunks; c++)
                dots[i] = ints_dot(bytes, dots[i], strip_chunk(bytes, &strips[i], s * chunks + c),
                                   ints_load(x->q + (at * chunks + c) * 16));
        }
        if (s % 4 == 0) {
            turn_scales(scale, scales, s);
            if (mins) turn_scales(min, least, s);
        }
        const Vec dot = vec_from_ints(ints_add(ints_add_fours(dots), ints_spread(x->start + at)));
        const Vec minimum = mins ? min[s % 4] : vec_set(0), q_sum = mins ? vec_set(x->sums[at]) : vec_set(0);
        sum = vec_fma(vec_set(x->d[at]), scale_span(mins, dot, scale[s % 4], q_sum, minimum), sum);
    }
    *sums = sum;
}

/* The ways of a set have one token here. */
#define MULTIPLY_STRIPS(bytes, y, y_stride, w, bias, begin, end, packed, n)                                  \
    (void)(y_stride), (void)(n), matvec_ints(bytes, y, w, bias, begin, end, packed)

static void matvec_ints(size_t bytes, float *y, const Matrix *w, const float *bias, size_t row_begin,
                        size_t row_end, const void *packed) {
    const size_t span = span_of(w->dtype), group_bytes = dtype_bytes(w->dtype, GROUP),
                 row_bytes = dtype_bytes(w->dtype, w->cols);
    const PackedInts x = packed_ints(bytes, span, packed, 0, 1, w->cols);
    Panel panel;
    for (size_t r = row_begin; r < row_end; r += LANES) {
        const size_t n_rows = smaller(LANES, row_end - r);
        float start[LANES] = {0};
        if (bias) memcpy(start, bias + r, n_rows * sizeof *bias);
        const unsigned char *rows[LANES]; /* the last one once more where there are no others */
        for (size_t i = 0; i < LANES; i++)
            rows[i] = (const unsigned char *)w->data + (r + smaller(i, n_rows - 1)) * row_bytes;
        Vec sums = vec_load(start);
        for (size_t begin = 0, at = 0; begin < w->cols; begin += GROUP, at += group_bytes) {
            const size_t cols = smaller(GROUP, w->cols - begin);
            const Group group = strip_of(&panel, 0);
            unpack_groups(w->dtype, &group, LANES, rows, at, cols);
            FOR_SPANS(span, has_mins(w->dtype), add_strips, bytes, &sums, &panel, &x, begin, cols)
        }
        vec_store_first(y + r, sums, n_rows);
    }
}

#endif
