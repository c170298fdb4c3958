/* AVX-512 with activations of 8 bits for single tokens, and AMX's tiles of BF16 for prompts. */
#if defined(__x86_64__) && !(defined(__AVX512BF16__) && defined(HAS_AMX))
#include "kernels.h"
const Kernels kernels_avx512_int8_amx; /* this compiler or assembler does not know the instructions */
#else
#define AVX512_SET kernels_avx512_int8_amx
#define AVX512_NAME "avx512-int8-amx"
#define Q4_BYTES 1
#define Q8_BYTES 1
#define BYTE_DOT _mm256_dpbusd_epi32
#define HAS_TILES
#include "avx512.c"
#endif
