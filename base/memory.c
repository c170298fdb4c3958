#include "memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20 };

float *floats_new(size_t rows, size_t cols) {
    size_t n, bytes;
    if (__builtin_mul_overflow(rows, cols, &n) || __builtin_mul_overflow(n, sizeof(float), &bytes) ||
        __builtin_add_overflow(bytes, CACHE_LINE, &bytes))
        return NULL;
    return aligned_alloc(CACHE_LINE, bytes / CACHE_LINE * CACHE_LINE);
}

void *bytes_new(size_t n) {
    size_t step = n < HUGE_PAGE / 4 ? CACHE_LINE : HUGE_PAGE;
    if (n > SIZE_MAX - step) return NULL;
    size_t whole = (n + step - 1) / step * step;
    void *block = aligned_alloc(step, whole);
    if (block && step == HUGE_PAGE) madvise(block, whole, MADV_HUGEPAGE);
    return block;
}

float *floats_filled_new(size_t rows, size_t cols) {
    size_t n, bytes;
    bool fits = !__builtin_mul_overflow(rows, cols, &n) && !__builtin_mul_overflow(n, sizeof(float), &bytes);
    return fits ? bytes_new(bytes + CACHE_LINE) : NULL;
}
