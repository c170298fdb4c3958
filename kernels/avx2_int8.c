/* AVX2 with activations of 8 bits for Q4_0. For Q8_0, whose bytes multiply beyond int16, 16 bits cost no more. */
#if defined(__x86_64__)
#include "cpu.h"
#include "ints.h"
#include "sets.h"

INT_PRODUCTS(q4_0, DTYPE_Q4_0, 1)

static const Product matvec_of_q4_0 = MATVEC_INTS(q4_0);
static const Product matmul_of_q4_0 = MATMUL_INTS(q4_0);

const Kernels kernels_avx2_int8 = {
    .name = "avx2-int8",
    .runs_here = cpu_has_avx2,
    .products = {SHARED_PRODUCTS(avx2), [DTYPE_Q8_0] = {FEW_Q8_0, &avx2_matvec_q8_0, &avx2_matmul_q8_0},
                 [DTYPE_Q4_0] = {FEW_Q4_0, &matvec_of_q4_0, &matmul_of_q4_0}},
    .weighted_sums = avx2_weighted_sums,
    SHARED_KERNELS(avx2),
};
#else
typedef int no_avx2_int8_here; /* ISO C has no empty files */
#endif
