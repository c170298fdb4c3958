/* AVX-512 with activations of 8 bits, also of BF16's 8 where it is weights of that type that they multiply. */
#if defined(__x86_64__) && !defined(__AVX512BF16__)
#include "kernels.h"
const Kernels kernels_avx512_int8_bf16; /* this compiler does not know the instruction */
#else
#define AVX512_SET kernels_avx512_int8_bf16
#define AVX512_NAME "avx512-int8-bf16"
#define Q4_BYTES 1
#define Q8_BYTES 1
#define BYTE_DOT _mm256_dpbusd_epi32
#define HAS_BF16_DOT
#include "avx512.c"
#endif
