/* The same with activations of 8 bits. */
#define NEON_SET kernels_neondot_int8
#define NEON_NAME "neondot-int8"
#define Q4_BYTES 1
#define Q8_BYTES 1
#include "neondot.c"
