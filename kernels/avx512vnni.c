/* AVX-512 with VNNI, whose one instruction multiplies pairs of int16 and adds both products to a sum. */
#define AVX512_SET kernels_avx512vnni
#define AVX512_NAME "avx512vnni"
#define ints_dot _mm512_dpwssd_epi32
#include "avx512.c"
