/* Numbers as they are stored, as lanes: weights that are floats, and what the KV cache holds. */
#ifndef ATTN_WEIGHTS_H
#define ATTN_WEIGHTS_H

#include "dtype.h"
#include "lanes.h"

#include <stddef.h>

/* Opens a function once for each dtype of floats, which is its first argument. */
#define FOR_FLOATS(dtype, function, ...)                                                                     \
    switch (dtype) {                                                                                         \
    case DTYPE_F32: function(DTYPE_F32, __VA_ARGS__); break;                                                 \
    case DTYPE_F16: function(DTYPE_F16, __VA_ARGS__); break;                                                 \
    case DTYPE_BF16: function(DTYPE_BF16, __VA_ARGS__); break;                                               \
    default: break;                                                                                          \
    }

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* LANES numbers from column c on, of a row of floats or int8. */
OPENED Vec load_weights(DType dtype, const unsigned char *row, size_t c) {
    switch (dtype) {
    case DTYPE_F16: return vec_from_f16(row + 2 * c);
    case DTYPE_BF16: return vec_from_bf16(row + 2 * c);
    case DTYPE_I8: return vec_from_int8(row + c);
    default: return vec_load((const float *)(const void *)(row + 4 * c));
    }
}

#endif
