/* The same with the dot product of int8, which most processors since 2018 have. */
#if defined(__aarch64__)
#include "cpu.h"
#include "ints.h"
#include "sets.h"

INT_PRODUCTS(words, static, 2)

const Kernels kernels_neondot = {
    .name = "neondot",
    .runs_here = cpu_has_dot,
    .products = {SHARED_PRODUCTS(neon),
                 QUANTISED_PRODUCTS(neon, words, LONE_INTS, SOME_INTS, neon_matmul_words)},
    .weighted_sums = neon_weighted_sums,
    SHARED_KERNELS(neon),
};
#else
typedef int no_neondot_here; /* ISO C has no empty files */
#endif
