/* AVX-512 with activations of 8 bits for a few tokens, and AMX's tiles of BF16 for prompts. */
#include "cpu.h"
#include "sets.h"

#if defined(__x86_64__) && defined(__AVX512BF16__) && defined(HAS_AMX)
#include "amx.h"
#include "amx_sums.h"

#define MATMUL_TILES(x_parts, w_parts, pack_parts)                                                           \
    {                                                                                                        \
        .pack_tokens = PACK_TOKENS, .whole_cols = STEP, .otherwise = &avx512_matmul_floats,                  \
        .rounding = {.x_bf16 = x_parts, .w_bf16 = w_parts}, .pack = pack_parts, .multiply = matmul_tiles     \
    }

static const Product prompt_split = MATMUL_TILES(2, 2, pack_split), /* F32 and F16 */
    prompt_bf16 = MATMUL_TILES(1, 0, pack_rounded), prompt_quantised = MATMUL_TILES(1, 1, pack_rounded);

static void weighted_sums(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n, DType dtype,
                          const void *v, size_t v_stride, size_t n_v, size_t d) {
    if (!sums_in_tiles(n, d)) {
        avx512_weighted_sums(z, z_stride, p, p_stride, n, dtype, v, v_stride, n_v, d);
        return;
    }
    WeightedSums sums = {z, p, v, z_stride, p_stride, v_stride, n_v};
    sum_in_tiles(&sums, dtype, n, d);
}

#define FLOATS(prompt)                                                                                       \
    {                                                                                                        \
        {                                                                                                    \
            {FEW_FLOATS, &avx512_matvec_floats}, {PACKED_TOKENS, &avx512_matmul_floats}, {                   \
                SIZE_MAX, &prompt                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

const Kernels kernels_avx512_int8_amx = {
    .name = "avx512-int8-amx",
    .runs_here = cpu_has_amx_bf16,
    .products = {[DTYPE_F32] = FLOATS(prompt_split),
                 [DTYPE_F16] = FLOATS(prompt_split),
                 [DTYPE_BF16] = FLOATS(prompt_bf16),
                 QUANTISED_PRODUCTS(avx512, bytes, LONE_INTS, SOME_INTS, prompt_quantised)},
    .sums_bf16 = 2,
    .weighted_sums = weighted_sums,
    .few_sums = avx512_weighted_sums,
    SHARED_KERNELS(avx512),
};
#else
/* The compiler or the assembler does not know AMX. */
const Kernels kernels_avx512_int8_amx = {.name = "avx512-int8-amx"};
#endif
