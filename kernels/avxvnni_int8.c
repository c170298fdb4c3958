/* AVX2 with activations of 8 bits, by VNNI without AVX-512: what laptops have since 2021. */
#include "cpu.h"
#include "sets.h"

#if defined(__x86_64__) && defined(__AVXVNNI__)
#include "ints.h"

INT_PRODUCTS(bytes, static, 1)

const Kernels kernels_avxvnni_int8 = {
    .name = "avxvnni-int8",
    .runs_here = cpu_has_avx_vnni,
    .products = {SHARED_PRODUCTS(avx2),
                 QUANTISED_PRODUCTS(avx2, bytes, LONE_INTS, SOME_INTS, avx2_matmul_bytes)},
    .weighted_sums = avx2_weighted_sums,
    SHARED_KERNELS(avx2),
};
#else
/* The compiler does not know the instruction. */
const Kernels kernels_avxvnni_int8 = {.name = "avxvnni-int8"};
#endif
