/*
 * AVX-512 with activations of 8 bits. For weights of BF16 they are rounded to BF16, too, which has 8 bits. The weights
 * stay as they lie, two columns where a float has one. Each activation errs by 2^-8 of itself at most, as much as
 * Q8_0's weights do.
 */
#include "cpu.h"
#include "sets.h"

#if defined(__x86_64__) && defined(__AVX512BF16__)
#include "floats.h"

#include <string.h>

static void pack_pairs(void *packed, const float *x, size_t n, size_t cols, size_t i) {
    size_t first = i * TOKENS, tokens = micro_tokens(n, first);
    float *to = (float *)packed + first * (cols / 2);
    for (size_t t = 0; t < tokens; t++)
        for (size_t c = 0, some; c < cols; c += some) {
            float pairs[LANES / 2];
            uint16_t halves[LANES];
            some = smaller(LANES, cols - c);
            vec_to_bf16(halves, vec_load_first(x + (first + t) * cols + c, some));
            memcpy(pairs, halves, sizeof pairs);
            for (size_t k = 0; k < some / 2; k++) to[(c / 2 + k) * tokens + t] = pairs[k];
        }
}

static void matmul_pairs(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin,
                         size_t end, const void *packed, size_t n) {
    Matrix pairs = {w->data, DTYPE_F32, w->rows, w->cols / 2};
    matmul_panels(true, false, y, y_stride, &pairs, bias, begin, end, packed, n);
}

static const Product matmul_of_bf16 = {.streams = 1,
                                       .pack_tokens = TOKENS,
                                       .whole_cols = 2,
                                       .otherwise = &avx512_matmul_floats,
                                       .rounding = {.x_bf16 = 1},
                                       .pack = pack_pairs,
                                       .multiply = matmul_pairs};

const Kernels kernels_avx512_int8_bf16 = {
    .name = "avx512-int8-bf16",
    .runs_here = cpu_has_avx512_bf16,
    .products = {[DTYPE_F32] = {FEW_FLOATS, &avx512_matvec_floats, &avx512_matmul_floats},
                 [DTYPE_F16] = {FEW_FLOATS, &avx512_matvec_floats, &avx512_matmul_floats},
                 [DTYPE_BF16] = {FEW_FLOATS, &avx512_matvec_floats, &matmul_of_bf16},
                 [DTYPE_Q8_0] = {FEW_Q8_0, &avx512_matvec_q8_0_int8, &avx512_matmul_q8_0_int8},
                 [DTYPE_Q4_0] = {FEW_Q4_0, &avx512_matvec_q4_0_int8, &avx512_matmul_q4_0_int8}},
    .weighted_sums = avx512_weighted_sums,
    SHARED_KERNELS(avx512),
};
#else
/* The compiler does not know the instruction. */
const Kernels kernels_avx512_int8_bf16 = {.name = "avx512-int8-bf16"};
#endif
