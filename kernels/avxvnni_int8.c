/* AVX2 with activations of 8 bits, by VNNI without AVX-512: what laptops have since 2021. */
#include "cpu.h"
#include "sets.h"

#if defined(__x86_64__) && defined(__AVXVNNI__)
#include "ints.h"

INT_PRODUCTS(q8_0, DTYPE_Q8_0, 1)
INT_PRODUCTS(q4_0, DTYPE_Q4_0, 1)

static const Product matvec_of_q8_0 = MATVEC_INTS(q8_0);
static const Product matmul_of_q8_0 = MATMUL_INTS(q8_0);
static const Product matvec_of_q4_0 = MATVEC_INTS(q4_0);
static const Product matmul_of_q4_0 = MATMUL_INTS(q4_0);

const Kernels kernels_avxvnni_int8 = {
    .name = "avxvnni-int8",
    .runs_here = cpu_has_avx_vnni,
    .products = {SHARED_PRODUCTS(avx2), [DTYPE_Q8_0] = {FEW_Q8_0, &matvec_of_q8_0, &matmul_of_q8_0},
                 [DTYPE_Q4_0] = {FEW_Q4_0, &matvec_of_q4_0, &matmul_of_q4_0}},
    .weighted_sums = avx2_weighted_sums,
    SHARED_KERNELS(avx2),
};
#else
/* The compiler does not know the instruction. */
const Kernels kernels_avxvnni_int8 = {.name = "avxvnni-int8"};
#endif
