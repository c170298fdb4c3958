/* arm64 with the dot product of int8, which most processors since 2018 have. */
#define NEON_SET kernels_neondot
#define NEON_NAME "neondot"
#define HAS_INTS
#include "neon.c"
