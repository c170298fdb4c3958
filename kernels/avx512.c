/* x86-64 with AVX-512 (F, BW, DQ, VL). Quantised weights are multiplied by activations of 16 bits. */
#if defined(__x86_64__)
#include "cpu.h"
#include "floats.h"
#include "ints.h"
#include "sets.h"
#include "vectors.h"

INT_PRODUCTS(q8_0, DTYPE_Q8_0, 2)
INT_PRODUCTS(q4_0, DTYPE_Q4_0, 2)

const Product avx512_matvec_floats = MATVEC_FLOATS;
const Product avx512_matmul_floats = MATMUL_FLOATS;
static const Product matvec_of_q8_0 = MATVEC_INTS(q8_0);
static const Product matmul_of_q8_0 = MATMUL_INTS(q8_0);
static const Product matvec_of_q4_0 = MATVEC_INTS(q4_0);
static const Product matmul_of_q4_0 = MATMUL_INTS(q4_0);

const Kernels kernels_avx512 = {
    .name = "avx512",
    .runs_here = cpu_has_avx512,
    .products = {SHARED_PRODUCTS(avx512), [DTYPE_Q8_0] = {FEW_Q8_0, &matvec_of_q8_0, &matmul_of_q8_0},
                 [DTYPE_Q4_0] = {FEW_Q4_0, &matvec_of_q4_0, &matmul_of_q4_0}},
    .weighted_sums = avx512_weighted_sums,
    SHARED_KERNELS(avx512),
};
#else
typedef int no_avx512_here; /* ISO C has no empty files */
#endif
