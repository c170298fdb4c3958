/* WebAssembly with SIMD128. Quantised weights are multiplied by activations of 16 bits. */
#if defined(__wasm_simd128__)
#include "cpu.h"
#include "floats.h"
#include "ints.h"
#include "sets.h"
#include "vectors.h"

STRIPS_PRODUCT(words, static, 2)
TILES_PRODUCT(words, static, 2, false)

const Product SHARED(matvec_floats) = MATVEC_FLOATS;
const Product SHARED(matmul_floats) = MATMUL_FLOATS;

const Kernels kernels_wasm = {
    .name = "wasm",
    .runs_here = cpu_is_any,
    .products = {SHARED_PRODUCTS(wasm),
                 QUANTISED_PRODUCTS(wasm, words, LONE_INTS, SOME_INTS, wasm_matmul_words)},
    .weighted_sums = wasm_weighted_sums,
    SHARED_KERNELS(wasm),
};
#else
typedef int no_wasm_here; /* ISO C has no empty files */
#endif
