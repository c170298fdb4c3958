#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20 };

/* Bytes of [rows][cols] floats in whole cache lines, of which there is one at least; 0 where they overflow. */
static size_t floats_bytes(size_t rows, size_t cols) {
    size_t n;
    bool fits = !__builtin_mul_overflow(rows, cols, &n) && !__builtin_mul_overflow(n, sizeof(float), &n) &&
                !__builtin_add_overflow(n, CACHE_LINE, &n);
    return fits ? n / CACHE_LINE * CACHE_LINE : 0;
}

float *floats_new(size_t rows, size_t cols) {
    size_t n = floats_bytes(rows, cols);
    return n ? aligned_alloc(CACHE_LINE, n) : NULL;
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
    size_t n = floats_bytes(rows, cols);
    return n ? bytes_new(n) : NULL;
}
