/*
 * The kernels for any instruction set with vectors of LANES floats. Each set's file defines a few
 * operations on its own vectors and includes this once; what is said here holds for all of them.
 *
 *   Vec, LANES (4, 8 or 16), ROWS × TOKENS: the register tile of matmul, ROWS 4 or 8
 *   vec_set(a)  vec_load(p)  vec_store(p, v)  vec_add, _sub, _mul, _div, _min, _max(a, b)
 *   vec_load_first(p, n), vec_store_first(p, v, n): the first n < LANES lanes, zeros in the others
 *   vec_fma(a, b, c) = a·b + c     vec_round(v) to the nearest integer     vec_ldexp(v, k) = v·2^k
 *   vec_sum4(v, out): the sums of the lanes of four vectors, each in an order that is always the same
 *   vec_from_f16(p), vec_from_bf16(p), vec_to_f16(p, v)
 *   Bytes: 16 int8; bytes_load(p); nibbles_low, nibbles_high(bytes), less 8; vec_from_bytes(v, bytes)
 *   half_to_float(h)
 *
 * matmul cuts the columns into panels. The weights of a panel become floats, in registers for a single
 * token, otherwise in a scratch that stays in L1. Each sum of a tile is one vector; it is reduced and added
 * to y at the end of its panel, whatever the tile's shape, so that a sum's order depends on the number of
 * columns alone.
 */
#include "kernels.h"

#include <math.h>
#include <string.h>

enum {
    PANEL = 512, /* columns: 8 rows of floats take 16 KB, half of an L1 of 32 KB */
    BLOCK = 32,  /* columns of a quantised block, which share a scale */
    BLOCK_VECS = BLOCK / LANES,
    MATVEC_ROWS = 8,   /* sums in flight for one token: as many as hide the latency of FMA */
    L2_FLOATS = 65536, /* x up to 256 KB stays in L2 as a whole */
    BATCH = 96,        /* tokens passing at once: their panel of x takes 192 KB of L2 */
};

/* Tells the compiler that v may have changed, so that it cannot fetch it from memory once more. */
#if defined(__x86_64__)
#define KEEP_IN_REGISTER(v) __asm__("" : "+v"(v))
#else
#define KEEP_IN_REGISTER(v) __asm__("" : "+w"(v))
#endif

/* Forces functions open, so that their sizes are constants and their vectors registers. */
#define OPENED static inline __attribute__((always_inline))

static float block_scale(const unsigned char *block) {
    uint16_t half;
    memcpy(&half, block, sizeof half);
    return half_to_float(half);
}

/* 32 weights from column c on, a multiple of 32, of a row of any dtype. */
OPENED void load_block(Vec w[BLOCK_VECS], DType dtype, const unsigned char *row, size_t c) {
    if (dtype == DTYPE_Q8_0 || dtype == DTYPE_Q4_0) {
        const unsigned char *block = row + c / BLOCK * (dtype == DTYPE_Q8_0 ? 34 : 18);
        Vec d = vec_set(block_scale(block));
        Bytes bytes = bytes_load(block + 2);
        vec_from_bytes(w, dtype == DTYPE_Q8_0 ? bytes : nibbles_low(bytes));
        vec_from_bytes(w + BLOCK_VECS / 2,
                       dtype == DTYPE_Q8_0 ? bytes_load(block + 18) : nibbles_high(bytes));
        for (size_t k = 0; k < BLOCK_VECS; k++) w[k] = vec_mul(d, w[k]);
        return;
    }
    for (size_t k = 0; k < BLOCK_VECS; k++) {
        size_t at = c + k * LANES;
        w[k] = dtype == DTYPE_F16    ? vec_from_f16(row + 2 * at)
               : dtype == DTYPE_BF16 ? vec_from_bf16(row + 2 * at)
                                     : vec_load((const float *)(const void *)(row + 4 * at));
    }
}

OPENED void unpack_blocks(float *dst, DType dtype, const unsigned char *src, size_t n) {
    size_t c = 0;
    for (; c + BLOCK <= n; c += BLOCK) {
        Vec w[BLOCK_VECS];
        load_block(w, dtype, src, c);
        for (size_t k = 0; k < BLOCK_VECS; k++) vec_store(dst + c + k * LANES, w[k]);
    }
    if (c < n) dtype_unpack(dst + c, dtype, src + dtype_bytes(dtype, c), n - c);
}

static void unpack(float *dst, DType dtype, const void *src, size_t n) {
    switch (dtype) {
    case DTYPE_F32: unpack_blocks(dst, DTYPE_F32, src, n); break;
    case DTYPE_F16: unpack_blocks(dst, DTYPE_F16, src, n); break;
    case DTYPE_BF16: unpack_blocks(dst, DTYPE_BF16, src, n); break;
    case DTYPE_Q4_0: unpack_blocks(dst, DTYPE_Q4_0, src, n); break;
    case DTYPE_Q8_0: unpack_blocks(dst, DTYPE_Q8_0, src, n); break;
    }
}

static void pack_f16(uint16_t *dst, const float *src, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vec_to_f16(dst + i, vec_load(src + i));
    for (; i < n; i++) dst[i] = f32_to_f16(src[i]);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* y[r] += the sum of the lanes of sums[r], r < rows; rows is a multiple of 4, or 1. */
OPENED void reduce(float *y, const Vec *sums, size_t rows) {
    float sum[4];
    for (size_t r = 0; r + 4 <= rows; r += 4) {
        vec_sum4(sums + r, sum);
        for (size_t i = 0; i < 4; i++) y[r + i] += sum[i];
    }
    if (rows == 1) {
        const Vec alone[4] = {sums[0], vec_set(0), vec_set(0), vec_set(0)};
        vec_sum4(alone, sum);
        y[0] += sum[0];
    }
}

/* One token: y[r] += Σ_c w[r][c]·x[c] for `rows` rows, 8 or 1, from `row` on; cols is a multiple of 32. */
OPENED void matvec_rows(float *y, DType dtype, const unsigned char *row, size_t row_bytes, size_t rows,
                        const float *x, size_t cols) {
    for (size_t begin = 0; begin < cols; begin += PANEL) {
        Vec sums[MATVEC_ROWS];
        for (size_t r = 0; r < rows; r++) sums[r] = vec_set(0);
        for (size_t c = begin; c < smaller(begin + PANEL, cols); c += BLOCK)
            for (size_t r = 0; r < rows; r++) {
                Vec w[BLOCK_VECS];
                load_block(w, dtype, row + r * row_bytes, c);
                for (size_t k = 0; k < BLOCK_VECS; k++)
                    sums[r] = vec_fma(w[k], vec_load(x + c + k * LANES), sums[r]);
            }
        reduce(y, sums, rows);
    }
}

OPENED void matvec_dtype(float *y, DType dtype, const Matrix *w, size_t row_begin, size_t row_end,
                         const float *x) {
    size_t row_bytes = dtype_bytes(dtype, w->cols), r = row_begin;
    const unsigned char *rows = w->data;
    for (; r + MATVEC_ROWS <= row_end; r += MATVEC_ROWS)
        matvec_rows(y + r, dtype, rows + r * row_bytes, row_bytes, MATVEC_ROWS, x, w->cols);
    for (; r < row_end; r++) matvec_rows(y + r, dtype, rows + r * row_bytes, row_bytes, 1, x, w->cols);
}

static void matvec(float *y, const Matrix *w, size_t row_begin, size_t row_end, const float *x) {
    switch (w->dtype) {
    case DTYPE_F32: matvec_dtype(y, DTYPE_F32, w, row_begin, row_end, x); break;
    case DTYPE_F16: matvec_dtype(y, DTYPE_F16, w, row_begin, row_end, x); break;
    case DTYPE_BF16: matvec_dtype(y, DTYPE_BF16, w, row_begin, row_end, x); break;
    case DTYPE_Q4_0: matvec_dtype(y, DTYPE_Q4_0, w, row_begin, row_end, x); break;
    case DTYPE_Q8_0: matvec_dtype(y, DTYPE_Q8_0, w, row_begin, row_end, x); break;
    }
}

/* One panel of some rows of w and some tokens: y[t][r] += Σ_c w[r][c]·x[t][c]. */
typedef struct Panel {
    float *y;
    const float *w, *x;
    size_t y_stride, x_stride;
    size_t rows, n, cols;
} Panel;

/* `lanes` columns from c on of every sum of a tile. */
OPENED void tile_step(Vec *sums, const Panel *panel, const float *w, const float *x, size_t c, size_t rows,
                      size_t tokens, size_t lanes) {
    Vec xs[TOKENS];
    for (size_t t = 0; t < tokens; t++) {
        const float *at = x + t * panel->x_stride + c;
        xs[t] = lanes == LANES ? vec_load(at) : vec_load_first(at, lanes);
    }
    for (size_t r = 0; r < rows; r++) {
        const float *at = w + r * PANEL + c;
        Vec ws = lanes == LANES ? vec_load(at) : vec_load_first(at, lanes);
        KEEP_IN_REGISTER(ws); /* or compilers load it again for every token */
        for (size_t t = 0; t < tokens; t++) sums[t * rows + r] = vec_fma(ws, xs[t], sums[t * rows + r]);
    }
}

/* rows × tokens sums at (row, token): rows is ROWS, 4 or 1, tokens at most TOKENS, both constants. */
OPENED void tile(const Panel *panel, size_t row, size_t token, size_t rows, size_t tokens) {
    const float *w = panel->w + row * PANEL;
    const float *x = panel->x + token * panel->x_stride;
    Vec sums[ROWS * TOKENS];
    for (size_t i = 0; i < rows * tokens; i++) sums[i] = vec_set(0);
    size_t c = 0;
    for (; c + LANES <= panel->cols; c += LANES) tile_step(sums, panel, w, x, c, rows, tokens, LANES);
    if (c < panel->cols) tile_step(sums, panel, w, x, c, rows, tokens, panel->cols - c);
    for (size_t t = 0; t < tokens; t++)
        reduce(panel->y + (token + t) * panel->y_stride + row, sums + t * rows, rows);
}

OPENED void tile_tokens(const Panel *panel, size_t row, size_t rows) {
    size_t t = 0;
    for (; t + TOKENS <= panel->n; t += TOKENS) tile(panel, row, t, rows, TOKENS);
    for (; t < panel->n; t++) tile(panel, row, t, rows, 1);
}

/* Columns [c, c + cols) of rows [row, row + rows), at most ROWS of them. */
static void matmul_panel(Panel *panel, const Matrix *w, size_t row, size_t c) {
    size_t row_bytes = dtype_bytes(w->dtype, w->cols), r = 0;
    const unsigned char *src = (const unsigned char *)w->data + row * row_bytes + dtype_bytes(w->dtype, c);
    _Alignas(64) float scratch[ROWS * PANEL]; /* a vector that crosses a cache line costs two loads */
    for (size_t i = 0; i < panel->rows; i++)
        unpack(scratch + i * PANEL, w->dtype, src + i * row_bytes, panel->cols);
    panel->w = scratch;
    if (panel->rows == ROWS) {
        tile_tokens(panel, 0, ROWS);
        return;
    }
    for (; r + 4 <= panel->rows; r += 4) tile_tokens(panel, r, 4);
    for (; r < panel->rows; r++) tile_tokens(panel, r, 1);
}

/* n ≤ BATCH tokens. While x stays in cache the weights stream by once, row after row; else panels take turns. */
static void matmul_batch(float *y, size_t y_stride, const Matrix *w, size_t row_begin, size_t row_end,
                         const float *x, size_t x_stride, size_t n) {
    size_t span = n * w->cols <= L2_FLOATS ? w->cols : PANEL;
    for (size_t begin = 0; begin < w->cols; begin += span)
        for (size_t r = row_begin; r < row_end; r += ROWS)
            for (size_t c = begin; c < smaller(begin + span, w->cols); c += PANEL) {
                Panel panel = {.y = y + r, .y_stride = y_stride, .x = x + c, .x_stride = x_stride};
                panel.rows = smaller(ROWS, row_end - r);
                panel.cols = smaller(PANEL, w->cols - c);
                panel.n = n;
                matmul_panel(&panel, w, r, c);
            }
}

static void matmul(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t row_begin,
                   size_t row_end, const float *x, size_t x_stride, size_t n) {
    for (size_t t = 0; t < n; t++)
        for (size_t r = row_begin; r < row_end; r++) y[t * y_stride + r] = bias ? bias[r] : 0.0f;
    if (n == 1 && w->cols % BLOCK == 0) {
        matvec(y, w, row_begin, row_end, x);
        return;
    }
    for (size_t t = 0; t < n; t += BATCH)
        matmul_batch(y + t * y_stride, y_stride, w, row_begin, row_end, x + t * x_stride, x_stride,
                     smaller(BATCH, n - t));
}

static float sum_lanes(Vec v) {
    const Vec alone[4] = {v, vec_set(0), vec_set(0), vec_set(0)};
    float sum[4];
    vec_sum4(alone, sum);
    return sum[0];
}

/* These two have nothing that the compiler's own vectors would miss. */
static void add(float *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void scale(float *y, float a, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] *= a;
}

/* `vectors` vectors of z, kept in registers while all n values pass. */
OPENED void weighted_columns(float *z, const float *p, const float *v, size_t n, size_t d, size_t vectors) {
    Vec sums[8];
    for (size_t k = 0; k < vectors; k++) sums[k] = vec_load(z + k * LANES);
    for (size_t j = 0; j < n; j++) {
        Vec weight = vec_set(p[j]);
        for (size_t k = 0; k < vectors; k++)
            sums[k] = vec_fma(weight, vec_load(v + j * d + k * LANES), sums[k]);
    }
    for (size_t k = 0; k < vectors; k++) vec_store(z + k * LANES, sums[k]);
}

static void weighted_sum(float *z, const float *p, const float *v, size_t n, size_t d) {
    size_t i = 0;
    for (; i + 8 * LANES <= d; i += 8 * LANES) weighted_columns(z + i, p, v + i, n, d, 8);
    for (; i + 4 * LANES <= d; i += 4 * LANES) weighted_columns(z + i, p, v + i, n, d, 4);
    for (; i + LANES <= d; i += LANES) weighted_columns(z + i, p, v + i, n, d, 1);
    for (; i < d; i++)
        for (size_t j = 0; j < n; j++) z[i] = fmaf(p[j], v[j * d + i], z[i]);
}

static float max(const float *x, size_t n) {
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
 * x = k·ln 2 + r with |r| ≤ ½ ln 2, and e^r by its Taylor series to r⁷/7!, whose rest is below 2^-27.
 */
static Vec vec_exp(Vec x) {
    static const float factors[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f};
    const Vec log2_e = vec_set(0x1.715476p+0f), minus_ln2 = vec_set(-0x1.62e430p-1f),
              minus_rest = vec_set(0x1.05c610p-29f);
    /* From these bounds on the result is 0 or inf; a NaN passes, as min's and max's second operand or as itself. */
    x = vec_max(vec_set(-104.0f), vec_min(vec_set(89.0f), x));
    Vec k = vec_round(vec_mul(x, log2_e));
    Vec r = vec_fma(k, minus_rest, vec_fma(k, minus_ln2, x));
    Vec e = vec_set(1.0f / 5040);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) e = vec_fma(e, r, vec_set(factors[i]));
    return vec_ldexp(e, k);
}

static float exp_sum(float *x, float largest, size_t n) {
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
    return sum_lanes(sum);
}

/*
 * Σ (x − mean)². Float lanes will do here: no term is negative, so that rounding stays below
 * (n/LANES + 16)·2^-24 of the sum, and far below that in practice.
 */
static float sum_squares(const float *x, float mean, size_t n) {
    const Vec shift = vec_set(mean);
    Vec sum = vec_set(0);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Vec d = vec_sub(vec_load(x + i), shift);
        sum = vec_fma(d, d, sum);
    }
    float total = sum_lanes(sum);
    for (; i < n; i++) total += (x[i] - mean) * (x[i] - mean);
    return total;
}

/* Σ x in double lanes, so that a mean of thousands still leaves differences of thousandths right. */
static double sum_in_double(const float *x, size_t n) {
    double sums[8] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t j = 0; j < 8; j++) sums[j] += (double)x[i + j];
    for (size_t j = 0; j < 8; j++) sum += sums[j];
    for (; i < n; i++) sum += (double)x[i];
    return sum;
}

static void layer_norm(float *y, const float *x, const float *gain, const float *bias, size_t n, float eps) {
    float mean = (float)(sum_in_double(x, n) / (double)n);
    float factor = 1.0f / sqrtf(sum_squares(x, mean, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * gain[i];
    if (bias) add(y, bias, n);
}

static void rms_norm(float *y, const float *x, const float *gain, size_t n, float eps) {
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

static void gelu_tanh(float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vec_store(x + i, gelu(vec_load(x + i)));
    if (i < n) vec_store_first(x + i, gelu(vec_load_first(x + i, n - i)), n - i);
}

static void silu_mul(float *gate, const float *up, size_t n) {
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

/* The table, but for its name. */
#define VECTOR_KERNELS                                                                                       \
    .matmul = matmul, .unpack = unpack, .pack_f16 = pack_f16, .add = add, .scale = scale,                    \
    .weighted_sum = weighted_sum, .max = max, .exp_sum = exp_sum, .layer_norm = layer_norm,                  \
    .rms_norm = rms_norm, .gelu_tanh = gelu_tanh, .silu_mul = silu_mul
