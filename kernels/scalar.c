/*
 * The kernels in plain C: what one reads first, and what runs where there is no other set. Weights of every dtype are
 * unpacked a panel at a time and multiplied in float32.
 */
#include "cpu.h"
#include "sets.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 8,
    PANEL = 512, /* columns unpacked at once: 2 KB, any format's blocks divide it */
};

/*
 * A compiler may not reorder float sums, so a single running sum could never use vector registers.
 * Eight interleaved ones, written out, may: they are what the vector sets do too, and lose less to rounding.
 */
static float dot(const float *a, const float *b, size_t n) {
    float sum[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) sum[j] += a[i + j] * b[i + j];
    for (size_t j = 0; i + j < n; j++) sum[j] += a[i + j] * b[i + j];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static void pack(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t i) {
    (void)dtype, (void)n;
    memcpy((float *)packed + i * cols, x + i * cols, cols * sizeof *x);
}

static void matmul(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t row_begin,
                   size_t row_end, const void *packed, size_t n) {
    const float *x = packed;
    for (size_t r = row_begin; r < row_end; r++) {
        const unsigned char *row = (const unsigned char *)w->data + r * dtype_bytes(w->dtype, w->cols);
        for (size_t t = 0; t < n; t++) y[t * y_stride + r] = bias ? bias[r] : 0.0f;
        for (size_t c = 0; c < w->cols; c += PANEL) {
            size_t cols = w->cols - c < PANEL ? w->cols - c : PANEL;
            float panel[PANEL];
            dtype_unpack(panel, w->dtype, row + dtype_bytes(w->dtype, c), cols);
            for (size_t t = 0; t < n; t++) y[t * y_stride + r] += dot(panel, x + t * w->cols + c, cols);
        }
    }
}

static void pack_f16(uint16_t *dst, const float *src, size_t n) {
    for (size_t i = 0; i < n; i++) dst[i] = f32_to_f16(src[i]);
}

static void add(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void add_scaled(float *y, const float *x, const float *a, size_t rows, size_t cols) {
    for (size_t i = 0; i < rows * cols; i++) y[i] += a[i % cols] * x[i];
}

static void fade_add(float *y, float fade, const float *a, const float *x, size_t rows, size_t cols) {
    for (size_t i = 0; i < rows * cols; i++) y[i] = fade * y[i] + a[i / cols] * x[i % cols];
}

static void scale(float *y, float a, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] *= a;
}

static void weighted_sums(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n, DType dtype,
                          const void *v, size_t v_stride, size_t n_v, size_t d) {
    for (size_t j = 0; j < n_v; j++)
        for (size_t begin = 0; begin < d; begin += PANEL) {
            size_t cols = d - begin < PANEL ? d - begin : PANEL;
            float row[PANEL];
            dtype_unpack(row, dtype, (const char *)v + dtype_bytes(dtype, j * v_stride + begin), cols);
            for (size_t t = 0; t < n; t++)
                for (size_t i = 0; i < cols; i++) z[t * z_stride + begin + i] += p[t * p_stride + j] * row[i];
        }
}

static float max(const float *x, size_t n) {
    float largest = x[0];
    for (size_t i = 1; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static float exp_sum(float *x, float largest, size_t n) {
    float sum[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - largest);
        sum[i % LANES] += x[i];
    }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* Sums in double and the mean before the variance: a residual far from 0 keeps its small differences. */
static void layer_norm(float *y, const float *x, const float *gain, const float *bias, size_t n, float eps) {
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean);
    double factor = 1 / sqrt(var / (double)n + (double)eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - mean) * factor) * gain[i] + (bias ? bias[i] : 0.0f);
}

static void rms_norm(float *y, const float *x, const float *gain, size_t n, float eps) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    float factor = (float)(1 / sqrt(sum / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++) y[i] = x[i] * factor * gain[i];
}

static void gelu_tanh(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float u = 0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]); /* √(2/π) */
        x[i] = 0.5f * x[i] * (1.0f + tanhf(u));
    }
}

static void gelu_erf(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

static void soft_cap(float *x, float cap, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = cap * tanhf(x[i] / cap);
}

static void silu_mul(float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static const Product product = {.pack_tokens = 1, .pack = pack, .multiply = matmul};

#define THE_WAY                                                                                              \
    {                                                                                                        \
        {                                                                                                    \
            { SIZE_MAX, &product }                                                                           \
        }                                                                                                    \
    }

const Kernels kernels_scalar = {
    .name = "scalar",
    .runs_here = cpu_is_any,
    .products = {[DTYPE_F32] = THE_WAY,
                 [DTYPE_F16] = THE_WAY,
                 [DTYPE_BF16] = THE_WAY,
                 [DTYPE_Q8_0] = THE_WAY,
                 [DTYPE_Q4_0] = THE_WAY,
                 [DTYPE_Q4_1] = THE_WAY,
                 [DTYPE_Q5_0] = THE_WAY,
                 [DTYPE_Q5_1] = THE_WAY,
                 [DTYPE_Q2_K] = THE_WAY,
                 [DTYPE_Q3_K] = THE_WAY,
                 [DTYPE_Q4_K] = THE_WAY,
                 [DTYPE_Q5_K] = THE_WAY,
                 [DTYPE_Q6_K] = THE_WAY,
                 [DTYPE_IQ4_NL] = THE_WAY,
                 [DTYPE_IQ4_XS] = THE_WAY,
                 [DTYPE_MXFP4] = THE_WAY},
    .unpack = dtype_unpack,
    .pack_f16 = pack_f16,
    .add = add,
    .add_scaled = add_scaled,
    .fade_add = fade_add,
    .scale = scale,
    .weighted_sums = weighted_sums,
    .max = max,
    .exp_sum = exp_sum,
    .layer_norm = layer_norm,
    .rms_norm = rms_norm,
    .gelu_tanh = gelu_tanh,
    .gelu_erf = gelu_erf,
    .soft_cap = soft_cap,
    .silu_mul = silu_mul,
};
