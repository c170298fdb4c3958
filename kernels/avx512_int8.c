/* AVX-512 with activations of 8 bits, by VNNI: one instruction adds the products of four bytes to a sum. */
#if defined(__x86_64__)
#include "cpu.h"
#include "ints.h"
#include "sets.h"

INT_PRODUCTS(bytes, , 1)

const Kernels kernels_avx512_int8 = {
    .name = "avx512-int8",
    .runs_here = cpu_has_avx512_vnni,
    .products = {SHARED_PRODUCTS(avx512),
                 QUANTISED_PRODUCTS(avx512, bytes, LONE_INTS, MOST_STACKED, avx512_matmul_bytes)},
    .weighted_sums = avx512_weighted_sums,
    SHARED_KERNELS(avx512),
};
#else
typedef int no_avx512_int8_here; /* ISO C has no empty files */
#endif
