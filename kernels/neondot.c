/* arm64 with the dot product of int8, which most processors since 2018 have, and activations of 16 bits. */
#if defined(__aarch64__)
#include "cpu.h"
#include "ints.h"
#include "sets.h"

INT_PRODUCTS(q8_0, DTYPE_Q8_0, 2)
INT_PRODUCTS(q4_0, DTYPE_Q4_0, 2)

static const Product matvec_of_q8_0 = MATVEC_INTS(q8_0);
static const Product matmul_of_q8_0 = MATMUL_INTS(q8_0);
static const Product matvec_of_q4_0 = MATVEC_INTS(q4_0);
static const Product matmul_of_q4_0 = MATMUL_INTS(q4_0);

const Kernels kernels_neondot = {
    .name = "neondot",
    .runs_here = cpu_has_dot,
    .products = {SHARED_PRODUCTS(neon), [DTYPE_Q8_0] = {FEW_Q8_0, &matvec_of_q8_0, &matmul_of_q8_0},
                 [DTYPE_Q4_0] = {FEW_Q4_0, &matvec_of_q4_0, &matmul_of_q4_0}},
    .weighted_sums = neon_weighted_sums,
    SHARED_KERNELS(neon),
};
#else
typedef int no_neondot_here; /* ISO C has no empty files */
#endif
