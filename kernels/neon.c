/* arm64, of which NEON is a part. Quantised weights become floats. */
#if defined(__aarch64__)
#include "cpu.h"
#include "floats.h"
#include "sets.h"
#include "vectors.h"

const Product neon_matvec_floats = MATVEC_FLOATS;
const Product neon_matmul_floats = MATMUL_FLOATS;
static const Product matvec_of_blocks = MATVEC_BLOCKS;
static const Product matmul_of_blocks = MATMUL_BLOCKS;

const Kernels kernels_neon = {
    .name = "neon",
    .runs_here = cpu_is_any,
    .products = {SHARED_PRODUCTS(neon), [DTYPE_Q8_0] = {FEW_Q8_0, &matvec_of_blocks, &matmul_of_blocks},
                 [DTYPE_Q4_0] = {FEW_Q4_0, &matvec_of_blocks, &matmul_of_blocks}},
    .weighted_sums = neon_weighted_sums,
    SHARED_KERNELS(neon),
};
#else
typedef int no_neon_here; /* ISO C has no empty files */
#endif
