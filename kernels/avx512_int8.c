/* AVX-512 with activations of 8 bits, by VNNI: one instruction adds the products of four bytes to a sum. */
#define AVX512_SET kernels_avx512_int8
#define AVX512_NAME "avx512-int8"
#define Q4_BYTES 1
#define Q8_BYTES 1
#define BYTE_DOT _mm256_dpbusd_epi32
#include "avx512.c"
