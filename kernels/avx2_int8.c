/*
 * AVX2 with activations of 8 bits for weights of up to 6. For others, two of whose products leave int16, 16 bits cost no
 * more.
 */
#if defined(__x86_64__)
#include "cpu.h"
#include "ints.h"
#include "sets.h"

INT_PRODUCTS(nibbles, static, 1)
STACKS_PRODUCT(sixes, static, 1, true)
TILES_PRODUCT(sixes, static, 1, true)

/* Of a lone token four products at most are added up in an int16: nibbles' way is right for both. */
#define avx2_matvec_sixes avx2_matvec_nibbles

const Kernels kernels_avx2_int8 = {
    .name = "avx2-int8",
    .runs_here = cpu_has_avx2,
    .products = {SHARED_PRODUCTS(avx2),
                 NIBBLE_PRODUCTS(avx2, nibbles, LONE_INTS, SOME_INTS, avx2_matmul_nibbles),
                 SIX_BIT_PRODUCTS(avx2, sixes, LONE_INTS, SOME_INTS, avx2_matmul_sixes),
                 BYTE_PRODUCTS(avx2, words, LONE_WORDS, SOME_INTS, avx2_matmul_words)},
    .weighted_sums = avx2_weighted_sums,
    SHARED_KERNELS(avx2),
};
#else
typedef int no_avx2_int8_here; /* ISO C has no empty files */
#endif
