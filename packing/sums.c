#include "packing/sums.h"

#include "kernels/cpu.h"

#define WIDTH 4
#define SUM_TRIES sum_tries
#include "packing/add_tries.h"

SumTries *sum_tries_fastest(void) {
#if defined(__x86_64__)
    if (cpu_has_avx2()) return sum_tries_avx2;
#endif
    return sum_tries;
}
