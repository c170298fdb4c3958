/* x86-64 with AVX-512 (F, BW, DQ, VL). Quantised weights are multiplied by activations of 16 bits. */
#if defined(__x86_64__)
#define HAS_UNPACK_GROUPS extern
#include "cpu.h"
#include "floats.h"
#include "ints.h"
#include "sets.h"
#include "vectors.h"

INT_PRODUCTS(words, static, 2)

const Product avx512_matvec_floats = MATVEC_FLOATS;
const Product avx512_matmul_floats = MATMUL_FLOATS;

const Kernels kernels_avx512 = {
    .name = "avx512",
    .runs_here = cpu_has_avx512,
    .products = {SHARED_PRODUCTS(avx512),
                 QUANTISED_PRODUCTS(avx512, words, LONE_INTS, MOST_STACKED, avx512_matmul_words)},
    .weighted_sums = avx512_weighted_sums,
    SHARED_KERNELS(avx512),
};
#else
typedef int no_avx512_here; /* ISO C has no empty files */
#endif
