/* x86-64 with AVX2, FMA and F16C. Quantised weights are multiplied by activations of 16 bits. */
#if defined(__x86_64__)
#define HAS_UNPACK_GROUPS extern
#include "cpu.h"
#include "floats.h"
#include "ints.h"
#include "sets.h"
#include "vectors.h"

INT_PRODUCTS(words, , 2)

const Product avx2_matvec_floats = MATVEC_FLOATS;
const Product avx2_matmul_floats = MATMUL_FLOATS;

const Kernels kernels_avx2 = {
    .name = "avx2",
    .runs_here = cpu_has_avx2,
    .products = {SHARED_PRODUCTS(avx2),
                 QUANTISED_PRODUCTS(avx2, words, LONE_WORDS, SOME_INTS, avx2_matmul_words)},
    .weighted_sums = avx2_weighted_sums,
    SHARED_KERNELS(avx2),
};
#else
typedef int no_avx2_here; /* ISO C has no empty files */
#endif
