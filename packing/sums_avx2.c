/* sum_tries with AVX2; empty for other CPUs. */
#include "packing/sums.h"

#if defined(__x86_64__)
#define WIDTH 8
#define SUM_TRIES sum_tries_avx2
#include "packing/add_tries.h"
#endif
