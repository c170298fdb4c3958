/* Memory for vectors of floats, and large blocks. */
#ifndef ATTN_MEMORY_H
#define ATTN_MEMORY_H

#include <stddef.h>

/* A piece of memory. */
typedef struct Span {
    void *bytes;
    size_t n;
} Span;

/*
 * Room for [rows][cols] floats, not set to anything. It begins at a cache line, so that vectors of whole rows do not
 * straddle two. NULL when memory runs out or the size overflows; free() releases it.
 */
float *floats_new(size_t rows, size_t cols);

/*
 * Room for n bytes, not set to anything, all of which will be used: if they are many they lie in huge pages, where the
 * system has some, since each small page costs a microsecond when it is first touched. NULL when memory runs out; free()
 * releases it.
 */
void *bytes_new(size_t n);

/* [rows][cols] floats as floats_new gives them, in such memory. */
float *floats_filled_new(size_t rows, size_t cols);

#endif
