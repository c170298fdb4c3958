/* arm64, of which NEON is a part. Quantised weights are multiplied by activations of 16 bits. */
#if defined(__aarch64__)
#include "cpu.h"
#include "floats.h"
#include "ints.h"
#include "sets.h"
#include "vectors.h"

INT_PRODUCTS(words, static, 2)

const Product neon_matvec_floats = MATVEC_FLOATS;
const Product neon_matmul_floats = MATMUL_FLOATS;

const Kernels kernels_neon = {
    .name = "neon",
    .runs_here = cpu_is_any,
    .products = {SHARED_PRODUCTS(neon),
                 QUANTISED_PRODUCTS(neon, words, LONE_INTS, SOME_INTS, neon_matmul_words)},
    .weighted_sums = neon_weighted_sums,
    SHARED_KERNELS(neon),
};
#else
typedef int no_neon_here; /* ISO C has no empty files */
#endif
