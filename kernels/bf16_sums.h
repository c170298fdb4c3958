/*
 * Attention's weighted sums by products of BF16: two rows of v at a time, where a sum of floats takes one. Both p and v are
 * rounded to BF16, each number alone, so that a row's sums are the same whatever other rows come with it. And a softmax that
 * is no more exact than that.
 */
#ifndef ATTN_BF16_SUMS_H
#define ATTN_BF16_SUMS_H

#include "sets.h"
#include "weighted_sums.h"

#include <math.h>

enum {
    PAIR_SIDE = 64,           /* rows of p, rows of v, and numbers of v's rows that are packed at a time */
    PAIRS_OF = PAIR_SIDE / 2, /* in a column of v, or a row of p */
};

/* Two numbers of BF16 in each lane, a's and b's. */
static inline Vec vec_pairs(Vec a, Vec b) {
    static const uint16_t in_turn[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                         8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_loadu_si512(in_turn), both));
}

/* Rows [j, end) of v, `vectors` vectors of each from number i on, as pairs[row / 2][PAIR_SIDE]. */
OPENED void pair_vectors(DType dtype, float *pairs, const WeightedSums *w, size_t j, size_t end, size_t i,
                         size_t vectors) {
    for (; j < end; j += 2, pairs += PAIR_SIDE)
        for (size_t k = 0; k < vectors; k++) {
            const size_t at = j * w->v_stride + i + k * LANES;
            Vec first = load_weights(dtype, w->v, at),
                second = j + 1 < end ? load_weights(dtype, w->v, at + w->v_stride) : vec_set(0);
            vec_store(pairs + k * LANES, vec_pairs(first, second));
        }
}

/* Rows [t, end) of p, n numbers of each from j on, as pairs[row][PAIRS_OF]. */
static inline void pair_rows(float *pairs, const WeightedSums *w, size_t t, size_t end, size_t j, size_t n) {
    for (; t < end; t++, pairs += PAIRS_OF)
        for (size_t c = 0; c < n; c += 2 * LANES) {
            const float *p = w->p + t * w->p_stride + j + c;
            const size_t left = n - c, more = left < LANES ? 0 : left - LANES;
            Vec first = vec_load_first(p, smaller(left, LANES)),
                second = vec_load_first(p + (more ? LANES : 0), smaller(more, LANES));
            vec_store(pairs + c / 2, _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(second, first)));
        }
}

/*
 * Adds to `vectors` vectors of z, in each of `rows` rows, the products of n pairs. Meanwhile `next` is fetched, in the cache
 * the next key tile: two rows of so many bytes with each pair.
 */
OPENED void dot_pairs(size_t rows, size_t vectors, float *z, size_t z_stride, const float *p, const float *v,
                      size_t n, const unsigned char *next, size_t stride) {
    Vec sums[4 * P_ROWS];
    const float *from = z;
    for (size_t r = 0; r < rows; r++, from += z_stride)
        for (size_t k = 0; k < vectors; k++) sums[r * vectors + k] = vec_load(from + k * LANES);
    for (size_t j = 0; j < n; j++, v += PAIR_SIDE) {
        Vec x[4];
        for (size_t line = 0; line < 2; line++) {
            __builtin_prefetch(next + line * 64, 0, 2);
            __builtin_prefetch(next + stride + line * 64, 0, 2);
        }
        next += 2 * stride;
        for (size_t k = 0; k < vectors; k++) {
            x[k] = vec_load(v + k * LANES);
            if (rows > 1) KEEP_IN_REGISTER(x[k]);
        }
        for (size_t r = 0; r < rows; r++) {
            Vec pair = vec_set(p[r * PAIRS_OF + j]);
            for (size_t k = 0; k < vectors; k++) {
                sums[r * vectors + k] = vec_dot_bf16(x[k], pair, sums[r * vectors + k]);
                KEEP_IN_REGISTER(sums[r * vectors + k]);
            }
        }
    }
    for (size_t r = 0; r < rows; r++, z += z_stride) {
        KEEP_ADDRESS(z); /* or an address for each of the sums would be kept meanwhile */
        for (size_t k = 0; k < vectors; k++) vec_store(z + k * LANES, sums[r * vectors + k]);
    }
}

OPENED void dot_rows(size_t rows, size_t vectors, float *z, size_t z_stride, const float *p, const float *v,
                     size_t n, const unsigned char *next, size_t stride) {
    if (vectors == 4)
        dot_pairs(rows, 4, z, z_stride, p, v, n, next, stride);
    else if (vectors == 2)
        dot_pairs(rows, 2, z, z_stride, p, v, n, next, stride);
    else
        for (size_t k = 0; k < vectors; k++)
            dot_pairs(rows, 1, z + k * LANES, z_stride, p, v + k * LANES, n, next, stride);
}

/* d is a multiple of LANES. */
OPENED void sum_pairs(const WeightedSums *w, DType dtype, size_t n, size_t d) {
    _Alignas(64) float v[PAIRS_OF * PAIR_SIDE], p[PAIR_SIDE * PAIRS_OF];
    for (size_t i = 0; i < d; i += PAIR_SIDE)
        for (size_t j = 0; j < w->n_v; j += PAIR_SIDE) {
            const size_t vectors = smaller(PAIR_SIDE, d - i) / LANES, n_v = smaller(PAIR_SIDE, w->n_v - j);
            /* int8 come by blocks; as in weighted_sums.h the next one but one is fetched */
            const unsigned char *next =
                w->v + ((j + (dtype == DTYPE_I8 ? 2 : 1) * n_v) * w->v_stride + i) * bytes_of(dtype);
            if (vectors == 4)
                pair_vectors(dtype, v, w, j, j + n_v, i, 4);
            else if (vectors == 2)
                pair_vectors(dtype, v, w, j, j + n_v, i, 2);
            else
                pair_vectors(dtype, v, w, j, j + n_v, i, vectors);
            for (size_t t = 0, end; t < n; t = end) {
                end = smaller(t + PAIR_SIDE, n);
                pair_rows(p, w, t, end, j, n_v);
                for (size_t row = t, rows; row < end; row += rows) {
                    rows = rows_together(end - row);
                    FOR_P_ROWS(rows, dot_rows, vectors, w->z + row * w->z_stride + i, w->z_stride,
                               p + (row - t) * PAIRS_OF, v, (n_v + 1) / 2, next,
                               w->v_stride * bytes_of(dtype))
                }
            }
        }
}

/* e^x for x ≤ 0, to 2^-16 of itself, for a BF16 errs by 2^-9: 2^k·2^r with |r| ≤ ½, and 2^r by a minimax polynomial. */
static inline Vec coarse_exp(Vec x) {
    static const float factors[] = {0.999999261f, 0.693121815f, 0.240247448f, 0.0559178603f, 0.00957010201f};
    Vec power = vec_mul(vec_max(vec_set(-104.0f), x), vec_set(0x1.715476p+0f)), k = vec_round(power);
    Vec r = vec_sub(power, k), e = vec_set(factors[4]);
    for (size_t i = 4; i-- > 0;) e = vec_fma(e, r, vec_set(factors[i]));
    return vec_ldexp(e, k);
}

/* The maximum seldom grows: whether it does is seen from all lanes at once. */
static float softmax_step(float *x, size_t n, float *max, float *sum) {
    float shrink = 1;
    Vec most = vec_set(*max), all = most;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) all = vec_max(all, vec_load(x + i));
    bool grows = _mm512_cmp_ps_mask(all, most, _CMP_GT_OQ) != 0;
    for (; i < n; i++) grows = grows || x[i] > *max;
    if (grows) {
        float largest = avx512_max(x, n);
        shrink = expf(*max - largest);
        *sum *= shrink;
        *max = largest;
        most = vec_set(largest);
    }
    Vec total = vec_set(0);
    for (i = 0; i + LANES <= n; i += LANES) {
        Vec e = coarse_exp(vec_sub(vec_load(x + i), most));
        vec_store(x + i, e);
        total = vec_add(total, e);
    }
    if (i < n) {
        vec_store_first(x + i, coarse_exp(vec_sub(vec_load_first(x + i, n - i), most)), n - i);
        total = vec_add(total, vec_load_first(x + i, n - i));
    }
    *sum += vec_sum(total);
    return shrink;
}

#endif
