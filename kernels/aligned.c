#include "aligned.h"

#include <stdlib.h>

enum { CACHE_LINE = 64 };

float *floats_new(size_t rows, size_t cols) {
    size_t n, bytes;
    if (__builtin_mul_overflow(rows, cols, &n) || __builtin_mul_overflow(n, sizeof(float), &bytes) ||
        __builtin_add_overflow(bytes, CACHE_LINE, &bytes))
        return NULL;
    return aligned_alloc(CACHE_LINE, bytes / CACHE_LINE * CACHE_LINE);
}
