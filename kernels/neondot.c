/* arm64 with the dot product of int8, which most processors since 2018 have. */
#ifndef NEON_SET /* neondot_int8.c says its own and includes this file */
#define NEON_SET kernels_neondot
#define NEON_NAME "neondot"
#define Q4_BYTES 2
#define Q8_BYTES 2
#endif
#define HAS_INTS
#include "neon.c"
