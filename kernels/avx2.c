/*
 * The kernels for x86-64 with AVX2, FMA and F16C: eight floats at once.
 *
 * matmul cuts the columns into panels. For a few rows it makes the panel's weights floats, F32 where
 * they lie and every other dtype in a scratch that stays in L1, and multiplies them with the same
 * panel of x in register tiles of rows × tokens. Each sum of a tile is one vector of eight lanes; it
 * is reduced and added to y at the end of its panel, whatever the tile's shape, so that a sum's order
 * depends on the number of columns alone.
 */
#include "kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum {
    LANES = 8,
    PANEL = 512,       /* columns; the 7 rows that a 4 × 3 tile reads take 14 KB of the 32 KB of L1 */
    MAX_TILE_ROWS = 8, /* rows × tokens fill the 16 vector registers: 8 × 1 for one token, else 4 × 3 */
    MAX_TILE_TOKENS = 3,
    L2_FLOATS = 65536, /* x up to 256 KB stays in L2 as a whole */
    TOKENS = 48,       /* passing at once: a panel of 96 KB, in L2 even where its stride is a power of two */
};

/* Forces the tile functions open, so that their sizes are constants and their sums registers. */
#define OPENED static inline __attribute__((always_inline))

static float sum_lanes(__m256 v) {
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    sum = _mm_hadd_ps(sum, sum);
    return _mm_cvtss_f32(_mm_hadd_ps(sum, sum));
}

/* The first n of eight lanes, n in [1, 8]. */
static __m256i first_lanes(size_t n) {
    static const int32_t ones_then_zeros[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones_then_zeros + LANES - n));
}

/* Eight weights of a two-byte format as integers. */
static __m128i load_u16(const unsigned char *src) { return _mm_loadu_si128((const __m128i *)src); }

static void unpack_f16(float *dst, const unsigned char *src, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(load_u16(src + 2 * i)));
    dtype_unpack(dst + i, DTYPE_F16, src + 2 * i, n - i);
}

static void unpack_bf16(float *dst, const unsigned char *src, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_u16(src + 2 * i)), 16);
        _mm256_storeu_ps(dst + i, _mm256_castsi256_ps(bits));
    }
    dtype_unpack(dst + i, DTYPE_BF16, src + 2 * i, n - i);
}

static __m256 load_block_scale(const unsigned char *src) {
    uint16_t half;
    memcpy(&half, src, sizeof half);
    return _mm256_set1_ps(_cvtsh_ss(half));
}

/* dst[i] = d·q[i] for 16 int8. */
static void store_scaled(float *dst, __m256 d, __m128i q) {
    _mm256_storeu_ps(dst, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))));
    q = _mm_unpackhi_epi64(q, q);
    _mm256_storeu_ps(dst + LANES, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))));
}

static void unpack_q4_0(float *dst, const unsigned char *src, size_t n) {
    const __m128i nibble = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    for (; n; n -= 32, dst += 32, src += 18) {
        __m256 d = load_block_scale(src);
        __m128i bytes = _mm_loadu_si128((const __m128i *)(src + 2));
        __m128i low = _mm_and_si128(bytes, nibble);
        __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble);
        store_scaled(dst, d, _mm_sub_epi8(low, eight));
        store_scaled(dst + 16, d, _mm_sub_epi8(high, eight));
    }
}

static void unpack_q8_0(float *dst, const unsigned char *src, size_t n) {
    for (; n; n -= 32, dst += 32, src += 34) {
        __m256 d = load_block_scale(src);
        store_scaled(dst, d, _mm_loadu_si128((const __m128i *)(src + 2)));
        store_scaled(dst + 16, d, _mm_loadu_si128((const __m128i *)(src + 18)));
    }
}

static void unpack(float *dst, DType dtype, const void *src, size_t n) {
    switch (dtype) {
    case DTYPE_F32: dtype_unpack(dst, dtype, src, n); break;
    case DTYPE_F16: unpack_f16(dst, src, n); break;
    case DTYPE_BF16: unpack_bf16(dst, src, n); break;
    case DTYPE_Q4_0: unpack_q4_0(dst, src, n); break;
    case DTYPE_Q8_0: unpack_q8_0(dst, src, n); break;
    }
}

static void pack_f16(uint16_t *dst, const float *src, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(dst + i), halves);
    }
    for (; i < n; i++) dst[i] = f32_to_f16(src[i]);
}

/* One panel of some rows of w and all tokens: y[t][r] += Σ_c w[r][c]·x[t][c]. */
typedef struct Panel {
    float *y;
    const float *w, *x;
    size_t y_stride, w_stride, x_stride;
    size_t rows, n, cols;
} Panel;

/* Eight columns, or the first lanes of `mask` of the last few, of every sum of a tile. */
OPENED void tile_step(__m256 *sums, const Panel *panel, const float *w, const float *x, size_t c, size_t rows,
                      size_t tokens, const __m256i *mask) {
    __m256 xs[MAX_TILE_TOKENS];
    for (size_t t = 0; t < tokens; t++) {
        const float *at = x + t * panel->x_stride + c;
        xs[t] = mask ? _mm256_maskload_ps(at, *mask) : _mm256_loadu_ps(at);
    }
    for (size_t r = 0; r < rows; r++) {
        const float *at = w + r * panel->w_stride + c;
        __m256 ws = mask ? _mm256_maskload_ps(at, *mask) : _mm256_loadu_ps(at);
        for (size_t t = 0; t < tokens; t++)
            sums[t * rows + r] = _mm256_fmadd_ps(ws, xs[t], sums[t * rows + r]);
    }
}

/* rows × tokens sums at (row, token): rows is 8, 4 or 1, tokens at most 3, both constants. */
OPENED void tile(const Panel *panel, size_t row, size_t token, size_t rows, size_t tokens) {
    const float *w = panel->w + row * panel->w_stride;
    const float *x = panel->x + token * panel->x_stride;
    __m256 sums[MAX_TILE_ROWS * MAX_TILE_TOKENS];
    for (size_t i = 0; i < rows * tokens; i++) sums[i] = _mm256_setzero_ps();
    size_t c = 0;
    for (; c + LANES <= panel->cols; c += LANES) tile_step(sums, panel, w, x, c, rows, tokens, NULL);
    if (c < panel->cols) {
        __m256i mask = first_lanes(panel->cols - c);
        tile_step(sums, panel, w, x, c, rows, tokens, &mask);
    }
    for (size_t t = 0; t < tokens; t++) {
        float *y = panel->y + (token + t) * panel->y_stride + row;
        for (size_t r = 0; r + 4 <= rows; r += 4) {
            const __m256 *s = sums + t * rows + r;
            __m256 four = _mm256_hadd_ps(_mm256_hadd_ps(s[0], s[1]), _mm256_hadd_ps(s[2], s[3]));
            __m128 sum = _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps(four, 1));
            _mm_storeu_ps(y + r, _mm_add_ps(_mm_loadu_ps(y + r), sum));
        }
        if (rows == 1) { /* the same order as the four above */
            __m256 s = _mm256_hadd_ps(sums[t], sums[t]);
            s = _mm256_hadd_ps(s, s);
            y[0] += _mm_cvtss_f32(_mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
        }
    }
}

OPENED void tile_tokens(const Panel *panel, size_t row, size_t rows) {
    size_t t = 0;
    for (; t + 3 <= panel->n; t += 3) tile(panel, row, t, rows, 3);
    if (panel->n - t == 2) tile(panel, row, t, rows, 2);
    if (panel->n - t == 1) tile(panel, row, t, rows, 1);
}

static void multiply(const Panel *panel) {
    size_t r = 0;
    if (panel->n == 1)
        for (; r + 8 <= panel->rows; r += 8) tile(panel, r, 0, 8, 1);
    for (; r + 4 <= panel->rows; r += 4) tile_tokens(panel, r, 4);
    for (; r < panel->rows; r++) tile_tokens(panel, r, 1);
}

/* Columns [c, c + cols) of rows [row, row + rows), at most MAX_TILE_ROWS of them. */
static void matmul_panel(Panel *panel, const Matrix *w, size_t row, size_t c) {
    const unsigned char *src = w->data;
    size_t row_bytes = dtype_bytes(w->dtype, w->cols);
    src += row * row_bytes + dtype_bytes(w->dtype, c);
    float scratch[MAX_TILE_ROWS * PANEL];
    if (w->dtype == DTYPE_F32) {
        panel->w = (const float *)(const void *)src;
        panel->w_stride = w->cols;
    } else {
        for (size_t r = 0; r < panel->rows; r++)
            unpack(scratch + r * PANEL, w->dtype, src + r * row_bytes, panel->cols);
        panel->w = scratch;
        panel->w_stride = PANEL;
    }
    multiply(panel);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void matmul_tokens(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t row_begin,
                          size_t row_end, const float *x, size_t x_stride, size_t n) {
    for (size_t t = 0; t < n; t++)
        for (size_t r = row_begin; r < row_end; r++) y[t * y_stride + r] = bias ? bias[r] : 0.0f;
    /* While all of x stays in cache the weights stream by once, row after row; else its panels take turns. */
    size_t span = n * w->cols <= L2_FLOATS ? w->cols : PANEL;
    for (size_t begin = 0; begin < w->cols; begin += span) {
        for (size_t r = row_begin; r < row_end; r += MAX_TILE_ROWS) {
            for (size_t c = begin; c < smaller(begin + span, w->cols); c += PANEL) {
                Panel panel = {
                    .y = y + r,
                    .y_stride = y_stride,
                    .x = x + c,
                    .x_stride = x_stride,
                    .rows = smaller(MAX_TILE_ROWS, row_end - r),
                    .n = n,
                    .cols = smaller(PANEL, w->cols - c),
                };
                matmul_panel(&panel, w, r, c);
            }
        }
    }
}

static void matmul(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t row_begin,
                   size_t row_end, const float *x, size_t x_stride, size_t n) {
    for (size_t t = 0; t < n; t += TOKENS) {
        matmul_tokens(y + t * y_stride, y_stride, w, bias, row_begin, row_end, x + t * x_stride, x_stride,
                      smaller(TOKENS, n - t));
    }
}

static float dot(const float *a, const float *b, size_t n) {
    __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        for (size_t j = 0; j < 4; j++) {
            size_t at = i + j * LANES;
            sums[j] = _mm256_fmadd_ps(_mm256_loadu_ps(a + at), _mm256_loadu_ps(b + at), sums[j]);
        }
    }
    for (; i + LANES <= n; i += LANES)
        sums[0] = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), sums[0]);
    if (i < n) {
        __m256i mask = first_lanes(n - i);
        sums[1] = _mm256_fmadd_ps(_mm256_maskload_ps(a + i, mask), _mm256_maskload_ps(b + i, mask), sums[1]);
    }
    return sum_lanes(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
}

/* These two have nothing that the compiler's own vectors would miss. */
static void add(float *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void scale(float *y, float a, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] *= a;
}

/* `vectors` vectors of z, kept in registers while all n values pass. */
OPENED void mix_columns(float *z, const float *p, const float *v, size_t n, size_t d, size_t vectors) {
    __m256 sums[8];
    for (size_t k = 0; k < vectors; k++) sums[k] = _mm256_loadu_ps(z + k * LANES);
    for (size_t j = 0; j < n; j++) {
        __m256 weight = _mm256_set1_ps(p[j]);
        for (size_t k = 0; k < vectors; k++)
            sums[k] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(v + j * d + k * LANES), sums[k]);
    }
    for (size_t k = 0; k < vectors; k++) _mm256_storeu_ps(z + k * LANES, sums[k]);
}

static void mix(float *z, const float *p, const float *v, size_t n, size_t d) {
    size_t i = 0;
    for (; i + 8 * LANES <= d; i += 8 * LANES) mix_columns(z + i, p, v + i, n, d, 8);
    for (; i + 4 * LANES <= d; i += 4 * LANES) mix_columns(z + i, p, v + i, n, d, 4);
    for (; i + LANES <= d; i += LANES) mix_columns(z + i, p, v + i, n, d, 1);
    for (; i < d; i++)
        for (size_t j = 0; j < n; j++) z[i] = fmaf(p[j], v[j * d + i], z[i]);
}

static float max(const float *x, size_t n) {
    float largest = x[0];
    size_t i = 0;
    if (n >= LANES) {
        __m256 lanes = _mm256_loadu_ps(x);
        for (i = LANES; i + LANES <= n; i += LANES) lanes = _mm256_max_ps(lanes, _mm256_loadu_ps(x + i));
        float lane[LANES];
        _mm256_storeu_ps(lane, lanes);
        for (size_t j = 0; j < LANES; j++) largest = lane[j] > largest ? lane[j] : largest;
    }
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/*
 * e^x to 1 ulp, denormal results and both infinities included; NaN stays NaN.
 * x = k·ln 2 + r with |r| ≤ ½ ln 2, and e^r by its Taylor series to r⁷/7!, whose rest is below 2^-27.
 * 2^k comes in two factors, since alone it may be too large or too small for a float.
 */
static __m256 exp_lanes(__m256 x) {
    static const float factors[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f};
    const __m256 log2_e = _mm256_set1_ps(0x1.715476p+0f);
    const __m256 ln2 = _mm256_set1_ps(0x1.62e430p-1f), ln2_rest = _mm256_set1_ps(-0x1.05c610p-29f);
    /* From these bounds on the result is 0 or inf. min and max give their second operand for a NaN. */
    x = _mm256_max_ps(_mm256_set1_ps(-104.0f), _mm256_min_ps(_mm256_set1_ps(89.0f), x));
    __m256 k = _mm256_round_ps(_mm256_mul_ps(x, log2_e), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(k, ln2_rest, _mm256_fnmadd_ps(k, ln2, x));
    __m256 e = _mm256_set1_ps(1.0f / 5040);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(factors[i]));
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i exponent = _mm256_cvtps_epi32(k), half = _mm256_srai_epi32(exponent, 1);
    __m256i rest = _mm256_sub_epi32(exponent, half);
    e = _mm256_mul_ps(e, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(e, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}

static float exp_sum(float *x, float largest, size_t n) {
    const __m256 shift = _mm256_set1_ps(largest);
    __m256 sum = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256 e = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(x + i), shift));
        _mm256_storeu_ps(x + i, e);
        sum = _mm256_add_ps(sum, e);
    }
    if (i < n) {
        __m256i mask = first_lanes(n - i);
        __m256 e = exp_lanes(_mm256_sub_ps(_mm256_maskload_ps(x + i, mask), shift));
        _mm256_maskstore_ps(x + i, mask, e);
        sum = _mm256_add_ps(sum, _mm256_and_ps(e, _mm256_castsi256_ps(mask)));
    }
    return sum_lanes(sum);
}

/* Σ x in double, so that a mean of thousands still leaves differences of thousandths right. */
static double sum_in_double(const float *x, size_t n) {
    __m256d sums[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        sums[0] = _mm256_add_pd(sums[0], _mm256_cvtps_pd(_mm_loadu_ps(x + i)));
        sums[1] = _mm256_add_pd(sums[1], _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4)));
    }
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(sums[0], sums[1]));
    double sum = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    for (; i < n; i++) sum += (double)x[i];
    return sum;
}

/*
 * Σ (x − mean)². Float lanes will do here: no term is negative, so that rounding stays below
 * (n/8 + 16)·2^-24 of the sum, and far below that in practice.
 */
static float sum_squares(const float *x, float mean, size_t n) {
    const __m256 shift = _mm256_set1_ps(mean);
    __m256 sum = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256 d = _mm256_sub_ps(_mm256_loadu_ps(x + i), shift);
        sum = _mm256_fmadd_ps(d, d, sum);
    }
    float total = sum_lanes(sum);
    for (; i < n; i++) total += (x[i] - mean) * (x[i] - mean);
    return total;
}

static void layer_norm(float *y, const float *x, const float *gain, const float *bias, size_t n, float eps) {
    float mean = (float)(sum_in_double(x, n) / (double)n);
    float factor = 1.0f / sqrtf(sum_squares(x, mean, n) / (float)n + eps);
    if (bias)
        for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * gain[i] + bias[i];
    else
        for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * gain[i];
}

static void rms_norm(float *y, const float *x, const float *gain, size_t n, float eps) {
    float factor = 1.0f / sqrtf(sum_squares(x, 0.0f, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * factor * gain[i];
}

/* x·sigmoid(u): nothing cancels, neither near 0 nor far below it. With u = x it is SiLU, to 3 ulp. */
static __m256 times_sigmoid(__m256 x, __m256 u) {
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 e = exp_lanes(_mm256_sub_ps(_mm256_setzero_ps(), u));
    return _mm256_div_ps(x, _mm256_add_ps(one, e));
}

/* ½·(1 + tanh u) = sigmoid(2u), so GELU is x·sigmoid(√(8/π)·(x + 0.044715·x³)): to 2^-22·|x|. */
static __m256 gelu_lanes(__m256 x) {
    __m256 cubic = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(0.044715f), _mm256_set1_ps(1.0f));
    return times_sigmoid(x, _mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.5957691f)), cubic));
}

static void gelu_tanh(float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) _mm256_storeu_ps(x + i, gelu_lanes(_mm256_loadu_ps(x + i)));
    if (i < n) {
        __m256i mask = first_lanes(n - i);
        _mm256_maskstore_ps(x + i, mask, gelu_lanes(_mm256_maskload_ps(x + i, mask)));
    }
}

static void silu_mul(float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256 x = _mm256_loadu_ps(gate + i);
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(times_sigmoid(x, x), _mm256_loadu_ps(up + i)));
    }
    if (i < n) {
        __m256i mask = first_lanes(n - i);
        __m256 x = _mm256_maskload_ps(gate + i, mask);
        __m256 y = _mm256_mul_ps(times_sigmoid(x, x), _mm256_maskload_ps(up + i, mask));
        _mm256_maskstore_ps(gate + i, mask, y);
    }
}

const Kernels kernels_avx2 = {
    .name = "avx2",
    .matmul = matmul,
    .unpack = unpack,
    .pack_f16 = pack_f16,
    .dot = dot,
    .add = add,
    .scale = scale,
    .mix = mix,
    .max = max,
    .exp_sum = exp_sum,
    .layer_norm = layer_norm,
    .rms_norm = rms_norm,
    .gelu_tanh = gelu_tanh,
    .silu_mul = silu_mul,
};

#endif
