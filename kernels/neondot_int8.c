/* arm64 with the dot product of int8, and activations of 8 bits. */
#if defined(__aarch64__)
#include "cpu.h"
#include "ints.h"
#include "sets.h"

INT_PRODUCTS(bytes, static, 1)

const Kernels kernels_neondot_int8 = {
    .name = "neondot-int8",
    .runs_here = cpu_has_dot,
    .products = {SHARED_PRODUCTS(neon),
                 QUANTISED_PRODUCTS(neon, bytes, LONE_INTS, SOME_INTS, neon_matmul_bytes)},
    .weighted_sums = neon_weighted_sums,
    SHARED_KERNELS(neon),
};
#else
typedef int no_neondot_int8_here; /* ISO C has no empty files */
#endif
