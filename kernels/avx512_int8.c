/* AVX-512 with activations of 8 bits, by VNNI: one instruction adds the products of four bytes to a sum. */
#if defined(__x86_64__)
#include "cpu.h"
#include "ints.h"
#include "sets.h"

INT_PRODUCTS(q8_0, DTYPE_Q8_0, 1)
INT_PRODUCTS(q4_0, DTYPE_Q4_0, 1)

const Product avx512_matvec_q8_0_int8 = MATVEC_INTS(q8_0);
const Product avx512_matmul_q8_0_int8 = MATMUL_INTS(q8_0);
const Product avx512_matvec_q4_0_int8 = MATVEC_INTS(q4_0);
const Product avx512_matmul_q4_0_int8 = MATMUL_INTS(q4_0);

const Kernels kernels_avx512_int8 = {
    .name = "avx512-int8",
    .runs_here = cpu_has_avx512_vnni,
    .products = {SHARED_PRODUCTS(avx512),
                 [DTYPE_Q8_0] = {FEW_Q8_0, &avx512_matvec_q8_0_int8, &avx512_matmul_q8_0_int8},
                 [DTYPE_Q4_0] = {FEW_Q4_0, &avx512_matvec_q4_0_int8, &avx512_matmul_q4_0_int8}},
    .weighted_sums = avx512_weighted_sums,
    SHARED_KERNELS(avx512),
};
#else
typedef int no_avx512_int8_here; /* ISO C has no empty files */
#endif
