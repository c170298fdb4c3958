/* AVX2 with activations of 8 bits for Q4_0. For Q8_0, whose bytes multiply beyond int16, 16 cost no more. */
#define AVX2_SET kernels_avx2_int8
#define AVX2_NAME "avx2-int8"
#define Q4_BYTES 1
#define Q8_BYTES 2
#include "avx2.c"
