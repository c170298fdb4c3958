/*
 * The kernels that do not multiply by weights. They are functions that all sets with the same lanes share, so that only
 * one file for each kind of lanes includes this: avx2.c, avx512.c, neon.c.
 */
#ifndef ATTN_VECTORS_H
#define ATTN_VECTORS_H

#include "blocks.h"
#include "sets.h"
#include "weighted_sums.h"

#include <math.h>
#include <string.h>

OPENED void unpack_row(DType dtype, float *dst, const unsigned char *src, size_t n) {
    size_t c = 0;
    for (; c + LANES <= n; c += LANES) vec_store(dst + c, load_weights(dtype, src, c));
    if (c < n) dtype_unpack(dst + c, dtype, src + dtype_bytes(dtype, c), n - c);
}

#if UNPACKED_ROWS > 1
/* A quantised row: unpacked as if it were as many rows as fill a vector, of which the first is taken. */
static void unpack_one_row(DType dtype, float *dst, const unsigned char *src, size_t n) {
    uint8_t q[GROUP_SPANS][UNPACKED_ROWS][16];
    float scales[GROUP_SPANS / 4][UNPACKED_ROWS][4], mins[GROUP_SPANS / 4][UNPACKED_ROWS][4];
    const Group group = {q[0][0], sizeof q[0], scales[0][0], mins[0][0]};
    const unsigned char *rows[UNPACKED_ROWS];
    const size_t span = span_of(dtype);
    for (size_t cols; n; n -= cols, dst += cols, src += dtype_bytes(dtype, cols)) {
        cols = n < GROUP ? n : GROUP;
        for (size_t i = 0; i < UNPACKED_ROWS; i++) rows[i] = src;
        unpack_groups(dtype, &group, 1, rows, 0, cols);
        for (size_t c = 0; c < cols; c += 16) {
            const size_t s = c / span;
            span_floats(dtype, dst + c, q[c / 16][0], scales[s / 4][0][s % 4], mins[s / 4][0][s % 4]);
        }
    }
}
#endif

void SHARED(unpack)(float *dst, DType dtype, const void *src, size_t n) {
    if (dtype_is_quantised(dtype))
#if UNPACKED_ROWS > 1
        unpack_one_row(dtype, dst, src, n);
#else
        dtype_unpack(dst, dtype, src, n);
#endif
    else
        FOR_FLOATS(dtype, unpack_row, dst, src, n)
}

void SHARED(pack_f16)(uint16_t *dst, const float *src, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vec_to_f16(dst + i, vec_load(src + i));
    if (i < n) {
        uint16_t few[LANES];
        vec_to_f16(few, vec_load_first(src + i, n - i));
        memcpy(dst + i, few, (n - i) * sizeof *dst);
    }
}

/* The compiler's own vectors are good enough for these four. */
void SHARED(add)(float *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

void SHARED(add_scaled)(float *restrict y, const float *restrict x, const float *restrict a, size_t rows,
                        size_t cols) {
    for (size_t r = 0; r < rows; r++, y += cols, x += cols)
        for (size_t c = 0; c < cols; c++) y[c] += a[c] * x[c];
}

void SHARED(fade_add)(float *restrict y, float fade, const float *restrict a, const float *restrict x,
                      size_t rows, size_t cols) {
    for (size_t r = 0; r < rows; r++, y += cols)
        for (size_t c = 0; c < cols; c++) y[c] = fade * y[c] + a[r] * x[c];
}

void SHARED(scale)(float *y, float a, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] *= a;
}

/* The last few numbers, [i, d). */
static void sum_numbers(const WeightedSums *w, DType dtype, size_t t, size_t rows, size_t i, size_t d) {
    for (; i < d; i++)
        for (size_t r = t; r < t + rows; r++)
            for (size_t j = 0; j < w->n_v; j++) {
                float v = number_at(dtype, w->v, j * w->v_stride + i);
                w->z[r * w->z_stride + i] = fmaf(w->p[r * w->p_stride + j], v, w->z[r * w->z_stride + i]);
            }
}

void SHARED(weighted_sums)(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n, DType dtype,
                           const void *v, size_t v_stride, size_t n_v, size_t d) {
    WeightedSums w = {z, p, v, z_stride, p_stride, v_stride, n_v};
    for (size_t t = 0, rows; t < n; t += rows) {
        size_t rest = d;
        rows = rows_together(n - t);
        if (dtype == DTYPE_I8)
            FOR_P_ROWS(rows, rest = sum_rows, &w, DTYPE_I8, t, d)
        else if (dtype == DTYPE_F16)
            FOR_P_ROWS(rows, rest = sum_rows, &w, DTYPE_F16, t, d)
        else
            FOR_P_ROWS(rows, rest = sum_rows, &w, DTYPE_F32, t, d)
        if (rest < d) FOR_P_ROWS(rows, rest = sum_rest, &w, dtype, t, rest, d)
        sum_numbers(&w, dtype, t, rows, rest, d);
    }
}

float SHARED(max)(const float *x, size_t n) {
    float largest = x[0];
    size_t i = 0;
    if (n >= LANES) {
        Vec lanes = vec_load(x);
        for (i = LANES; i + LANES <= n; i += LANES) lanes = vec_max(lanes, vec_load(x + i));
        float lane[LANES];
        vec_store(lane, lanes);
        for (size_t j = 0; j < LANES; j++) largest = lane[j] > largest ? lane[j] : largest;
    }
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/*
 * e^x to 1 ulp, denormal results and both infinities included; NaN stays NaN.
 * x = k·ln 2 + r with |r| ≤ ½ ln 2; ln 2 comes in two parts, of which k times the first is exact. e^r by its Taylor series to r⁷/7!, whose rest is below 2^-27.
 */
static Vec vec_exp(Vec x) {
    static const float factors[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f};
    const Vec log2_e = vec_set(0x1.715476p+0f), minus_ln2 = vec_set(-0x1.62e4p-1f),
              minus_rest = vec_set(-0x1.7f7d1cp-20f);
    /* From these bounds on the result is 0 or inf; a NaN passes, as min's and max's second operand or as itself. */
    x = vec_max(vec_set(-104.0f), vec_min(vec_set(89.0f), x));
    Vec k = vec_round(vec_mul(x, log2_e));
    Vec r = vec_fma(k, minus_rest, vec_fma(k, minus_ln2, x));
    Vec e = vec_set(1.0f / 5040);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) e = vec_fma(e, r, vec_set(factors[i]));
    return vec_ldexp(e, k);
}

float SHARED(exp_sum)(float *x, float largest, size_t n) {
    const Vec shift = vec_set(largest);
    Vec sum = vec_set(0);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Vec e = vec_exp(vec_sub(vec_load(x + i), shift));
        vec_store(x + i, e);
        sum = vec_add(sum, e);
    }
    if (i < n) {
        vec_store_first(x + i, vec_exp(vec_sub(vec_load_first(x + i, n - i), shift)), n - i);
        sum = vec_add(sum, vec_load_first(x + i, n - i));
    }
    return vec_sum(sum);
}

/*
 * Σ (x − mean)², in four sums, which do not wait for each other. Float lanes will do here: no term is negative, so that
 * rounding stays below (n/(4·LANES) + 4·LANES + 8)·2^-24 of the sum, and far below that in practice.
 */
static float sum_squares(const float *x, float mean, size_t n) {
    const Vec shift = vec_set(mean);
    Vec sums[4] = {vec_set(0), vec_set(0), vec_set(0), vec_set(0)};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (size_t k = 0; k < 4; k++) {
            Vec d = vec_sub(vec_load(x + i + k * LANES), shift);
            sums[k] = vec_fma(d, d, sums[k]);
        }
    float total = vec_sum(vec_add(vec_add(sums[0], sums[1]), vec_add(sums[2], sums[3])));
    for (; i < n; i++) total += (x[i] - mean) * (x[i] - mean);
    return total;
}

/* Σ x in double lanes, so that a mean of thousands still leaves differences of thousandths right. */
static double sum_in_double(const float *x, size_t n) {
    double sums[32] = {0};
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (size_t j = 0; j < 32; j++) sums[j] += (double)x[i + j];
    for (size_t half = 16; half; half /= 2)
        for (size_t j = 0; j < half; j++) sums[j] += sums[half + j];
    for (; i < n; i++) sums[0] += (double)x[i];
    return sums[0];
}

void SHARED(layer_norm)(float *y, const float *x, const float *gain, const float *bias, size_t n, float eps) {
    float mean = (float)(sum_in_double(x, n) / (double)n);
    float factor = 1.0f / sqrtf(sum_squares(x, mean, n) / (float)n + eps);
    const Vec shift = vec_set(mean), factors = vec_set(factor);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Vec normed = vec_mul(vec_sub(vec_load(x + i), shift), factors);
        vec_store(y + i, vec_fma(normed, vec_load(gain + i), bias ? vec_load(bias + i) : vec_set(0)));
    }
    for (; i < n; i++) y[i] = (x[i] - mean) * factor * gain[i] + (bias ? bias[i] : 0);
}

void SHARED(rms_norm)(float *y, const float *x, const float *gain, size_t n, float eps) {
    float factor = 1.0f / sqrtf(sum_squares(x, 0.0f, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * factor * gain[i];
}

/* x·sigmoid(u): nothing cancels, neither near 0 nor far below it. With u = x it is SiLU, to 3 ulp. */
static Vec times_sigmoid(Vec x, Vec u) {
    return vec_div(x, vec_add(vec_set(1.0f), vec_exp(vec_sub(vec_set(0.0f), u))));
}

/* ½·(1 + tanh u) = sigmoid(2u), so GELU is x·sigmoid(√(8/π)·(x + 0.044715·x³)): to 2^-22·|x|. */
static Vec gelu(Vec x) {
    Vec cubic = vec_fma(vec_mul(x, x), vec_set(0.044715f), vec_set(1.0f));
    return times_sigmoid(x, vec_mul(vec_mul(x, vec_set(1.5957691f)), cubic));
}

void SHARED(gelu_tanh)(float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vec_store(x + i, gelu(vec_load(x + i)));
    if (i < n) vec_store_first(x + i, gelu(vec_load_first(x + i, n - i)), n - i);
}

/* x·P(x²)/Q(x²), both of degree n − 1, for x cut to ±limit, beyond which the odd function that they stand for is 1. */
static Vec odd_function(Vec x, float limit, const float *p, const float *q, size_t n) {
    x = vec_max(vec_set(-limit), vec_min(vec_set(limit), x));
    Vec square = vec_mul(x, x), above = vec_set(p[n - 1]), below = vec_set(q[n - 1]);
    for (size_t i = n - 1; i-- > 0;) {
        above = vec_fma(above, square, vec_set(p[i]));
        below = vec_fma(below, square, vec_set(q[i]));
    }
    return vec_div(vec_mul(x, above), below);
}

/* The coefficients are a minimax fit of the relative error, which is 2e-8 before rounding and 4e-7 after it. */
static Vec vec_tanh(Vec x) {
    static const float p[] = {0.999999979f, 0.133810247f, 0.00349558706f, 2.06090663e-05f, 1.33546419e-08f};
    static const float q[] = {1.0f, 0.467143403f, 0.025876978f, 0.000328563315f, 7.77654976e-07f};
    return odd_function(x, 9.0f, p, q, sizeof p / sizeof *p);
}

static Vec vec_erf(Vec x) {
    static const float p[] = {1.12837915f,   0.190377523f,    0.052745571f,
                              0.0037645525f, 0.000284890198f, 2.05073184e-06f};
    static const float q[] = {1.0f,          0.502050429f,   0.114097761f,
                              0.0149670695f, 0.00116233516f, 3.80987554e-05f};
    return odd_function(x, 3.9192059f, p, q, sizeof p / sizeof *p);
}

/* ½·x·(1 + erf(x/√2)): to 2^-21·|x|. A little more than erf, cut at −1, leaves nothing of numbers far below 0. */
static Vec gelu_by_erf(Vec x) {
    Vec e = vec_mul(vec_erf(vec_mul(x, vec_set(0.70710678f))), vec_set(1.0f + 0x1p-22f));
    e = vec_max(vec_set(-1.0f), vec_min(vec_set(1.0f), e));
    return vec_mul(vec_mul(x, vec_set(0.5f)), vec_add(e, vec_set(1.0f)));
}

void SHARED(gelu_erf)(float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vec_store(x + i, gelu_by_erf(vec_load(x + i)));
    if (i < n) vec_store_first(x + i, gelu_by_erf(vec_load_first(x + i, n - i)), n - i);
}

void SHARED(soft_cap)(float *x, float cap, size_t n) {
    const Vec caps = vec_set(cap), factors = vec_set(1.0f / cap);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(x + i, vec_mul(vec_tanh(vec_mul(vec_load(x + i), factors)), caps));
    if (i < n)
        vec_store_first(x + i, vec_mul(vec_tanh(vec_mul(vec_load_first(x + i, n - i), factors)), caps),
                        n - i);
}

void SHARED(silu_mul)(float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Vec x = vec_load(gate + i);
        vec_store(gate + i, vec_mul(times_sigmoid(x, x), vec_load(up + i)));
    }
    if (i < n) {
        Vec x = vec_load_first(gate + i, n - i);
        vec_store_first(gate + i, vec_mul(times_sigmoid(x, x), vec_load_first(up + i, n - i)), n - i);
    }
}

#endif
