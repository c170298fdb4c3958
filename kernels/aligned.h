/* Memory for vectors of floats. */
#ifndef ATTN_ALIGNED_H
#define ATTN_ALIGNED_H

#include <stddef.h>

/*
 * Room for [rows][cols] floats, not set to anything. It begins at a cache line, so that vectors of whole rows do not
 * straddle two. NULL when memory runs out or the size overflows; free() releases it.
 */
float *floats_new(size_t rows, size_t cols);

#endif
