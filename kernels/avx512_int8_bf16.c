/*
 * AVX-512 with activations of 8 bits. For weights of BF16 they are rounded to BF16, too, which has 8 bits. The weights
 * stay as they lie, two columns where a float has one. Each activation errs by 2^-8 of itself at most, as much as
 * Q8_0's weights do.
 */
#include "cpu.h"
#include "sets.h"

#if defined(__x86_64__) && defined(__AVX512BF16__)
#include "bf16_sums.h"
#include "floats.h"

#include <string.h>

/* Pairs of BF16, where packed activations have a float. */
static void round_pairs(float *to, const float *x, size_t cols) {
    for (size_t c = 0, some; c < cols; c += some) {
        uint16_t halves[LANES];
        some = smaller(LANES, cols - c);
        vec_to_bf16(halves, vec_load_first(x + c, some));
        memcpy(to + c / 2, halves, some * sizeof *halves);
    }
}

static void pack_pairs(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t i) {
    (void)dtype, (void)n;
    round_pairs((float *)packed + i * (cols / 2), x + i * cols, cols);
}

static void pack_tile_of_pairs(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t i) {
    (void)dtype;
    for (size_t t = i * TILE_TOKENS, end = smaller(t + TILE_TOKENS, n), tokens; t < end; t += tokens) {
        tokens = tile_vectors(end - t) * LANES;
        float *to = (float *)packed + t * (cols / 2);
        for (size_t j = 0; j < tokens; j++)
            for (size_t c = 0, some; c < cols; c += some) {
                float pairs[LANES / 2] = {0};
                some = smaller(LANES, cols - c);
                if (t + j < end) round_pairs(pairs, x + (t + j) * cols + c, some);
                for (size_t k = 0; k < some / 2; k++) to[(c / 2 + k) * tokens + j] = pairs[k];
            }
    }
}

static Matrix as_pairs(const Matrix *w) { return (Matrix){w->data, DTYPE_F32, w->rows, w->cols / 2}; }

static void multiply_rows(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin,
                          size_t end, const void *packed, size_t n) {
    Matrix pairs = as_pairs(w);
    rows_of_floats(DTYPE_F32, true, y, y_stride, &pairs, bias, begin, end, packed, n);
}

static void multiply_tiles(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin,
                           size_t end, const void *packed, size_t n) {
    Matrix pairs = as_pairs(w);
    matmul_panels(DTYPE_F32, true, y, y_stride, &pairs, bias, begin, end, packed, n);
}

static const Product matvec_of_bf16 = {.pack_tokens = 1,
                                       .whole_cols = 2,
                                       .otherwise = &avx512_matvec_floats,
                                       .rounding = {.x_bf16 = 1},
                                       .pack = pack_pairs,
                                       .multiply = multiply_rows};
static const Product matmul_of_bf16 = {.pack_tokens = TILE_TOKENS,
                                       .whole_cols = 2,
                                       .otherwise = &avx512_matmul_floats,
                                       .rounding = {.x_bf16 = 1},
                                       .pack = pack_tile_of_pairs,
                                       .multiply = multiply_tiles};

static void weighted_sums(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n, DType dtype,
                          const void *v, size_t v_stride, size_t n_v, size_t d) {
    const WeightedSums w = {z, p, v, z_stride, p_stride, v_stride, n_v};
    if (dtype == DTYPE_F32 || d % LANES)
        avx512_weighted_sums(z, z_stride, p, p_stride, n, dtype, v, v_stride, n_v, d);
    else if (dtype == DTYPE_F16)
        sum_pairs(&w, DTYPE_F16, n, d);
    else
        sum_pairs(&w, DTYPE_I8, n, d);
}

const Kernels kernels_avx512_int8_bf16 = {
    .name = "avx512-int8-bf16",
    .runs_here = cpu_has_avx512_bf16,
    .pays_here = cpu_has_fast_bf16_dot,
    .products = {[DTYPE_F32] = FLOAT_WAYS(avx512),
                 [DTYPE_F16] = FLOAT_WAYS(avx512),
                 [DTYPE_BF16] = {{{FEW_FLOATS, &matvec_of_bf16}, {SIZE_MAX, &matmul_of_bf16}}},
                 QUANTISED_PRODUCTS(avx512, bytes, LONE_INTS, MOST_STACKED, avx512_matmul_bytes)},
    .sums_bf16 = 1,
    .float_attention = &kernels_avx512_int8,
    .weighted_sums = weighted_sums,
    .softmax_step = softmax_step,
    SHARED_KERNELS(avx512),
};
#else
/* The compiler does not know the instruction. */
const Kernels kernels_avx512_int8_bf16 = {.name = "avx512-int8-bf16"};
#endif
