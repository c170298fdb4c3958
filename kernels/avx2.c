/* x86-64 with AVX2, FMA and F16C. Quantised weights are multiplied by activations of 16 bits. */
#if defined(__x86_64__)
#include "cpu.h"
#include "floats.h"
#include "ints.h"
#include "sets.h"
#include "vectors.h"

INT_PRODUCTS(q8_0, DTYPE_Q8_0, 2)
INT_PRODUCTS(q4_0, DTYPE_Q4_0, 2)

const Product avx2_matvec_floats = MATVEC_FLOATS;
const Product avx2_matmul_floats = MATMUL_FLOATS;
const Product avx2_matvec_q8_0 = MATVEC_INTS(q8_0);
const Product avx2_matmul_q8_0 = MATMUL_INTS(q8_0);
static const Product matvec_of_q4_0 = MATVEC_INTS(q4_0);
static const Product matmul_of_q4_0 = MATMUL_INTS(q4_0);

const Kernels kernels_avx2 = {
    .name = "avx2",
    .runs_here = cpu_has_avx2,
    .products = {SHARED_PRODUCTS(avx2), [DTYPE_Q8_0] = {FEW_Q8_0, &avx2_matvec_q8_0, &avx2_matmul_q8_0},
                 [DTYPE_Q4_0] = {FEW_Q4_0, &matvec_of_q4_0, &matmul_of_q4_0}},
    .weighted_sums = avx2_weighted_sums,
    SHARED_KERNELS(avx2),
};
#else
typedef int no_avx2_here; /* ISO C has no empty files */
#endif
