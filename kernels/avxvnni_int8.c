/* AVX2 with activations of 8 bits, by VNNI without AVX-512: what laptops have since 2021. */
#if defined(__x86_64__) && !defined(__AVXVNNI__)
#include "kernels.h"
const Kernels kernels_avxvnni_int8; /* this compiler does not know the instruction */
#else
#define AVX2_SET kernels_avxvnni_int8
#define AVX2_NAME "avxvnni-int8"
#define Q4_BYTES 1
#define Q8_BYTES 1
#define BYTE_DOT _mm256_dpbusd_avx_epi32
#include "avx2.c"
#endif
