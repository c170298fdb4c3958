#include "packing/add_tries.h"

#include "kernels/cpu.h"

SumTries *sum_tries_fastest(void) {
#if defined(__x86_64__)
    if (cpu_has_avx2()) return sum_tries_avx2;
#endif
    return sum_tries;
}
