#if defined(__x86_64__)
#define WIDTH 8
#define SUM_TRIES sum_tries_avx2
#include "packing/add_tries.h"
#endif
