/* Weights of any type as lanes. */
#ifndef ATTN_WEIGHTS_H
#define ATTN_WEIGHTS_H

#include "blocks.h"
#include "dtype.h"
#include "lanes.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BLOCK_BYTES(dtype) ((dtype) == DTYPE_Q8_0 ? 34 : 18) /* a constant, where the dtype is one */

/* Opens a function once for each dtype of a kind, which is its first argument. */
#define FLOAT_CASES(function, ...)                                                                           \
    case DTYPE_F32: function(DTYPE_F32, __VA_ARGS__); break;                                                 \
    case DTYPE_F16: function(DTYPE_F16, __VA_ARGS__); break;                                                 \
    case DTYPE_BF16:                                                                                         \
        function(DTYPE_BF16, __VA_ARGS__);                                                                   \
        break;
#define BLOCK_CASES(function, ...)                                                                           \
    case DTYPE_Q4_0: function(DTYPE_Q4_0, __VA_ARGS__); break;                                               \
    case DTYPE_Q8_0:                                                                                         \
        function(DTYPE_Q8_0, __VA_ARGS__);                                                                   \
        break;
#define FOR_FLOATS(dtype, function, ...)                                                                     \
    switch (dtype) {                                                                                         \
        FLOAT_CASES(function, __VA_ARGS__)                                                                   \
    default: break;                                                                                          \
    }
#define FOR_BLOCKS(dtype, function, ...)                                                                     \
    switch (dtype) {                                                                                         \
        BLOCK_CASES(function, __VA_ARGS__)                                                                   \
    default: break;                                                                                          \
    }
#define FOR_DTYPE(dtype, function, ...)                                                                      \
    switch (dtype) {                                                                                         \
        FLOAT_CASES(function, __VA_ARGS__)                                                                   \
        BLOCK_CASES(function, __VA_ARGS__)                                                                   \
    default: break;                                                                                          \
    }

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static inline float block_scale(const unsigned char *block) {
    uint16_t half;
    memcpy(&half, block, sizeof half);
    return half_to_float(half);
}

/* LANES weights from column c on, a multiple of LANES, of a row of any dtype. */
OPENED Vec load_weights(DType dtype, const unsigned char *row, size_t c) {
    const unsigned char *q8 = row + c / BLOCK * BLOCK_BYTES(DTYPE_Q8_0),
                        *q4 = row + c / BLOCK * BLOCK_BYTES(DTYPE_Q4_0);
    size_t i = c % BLOCK;
    switch (dtype) {
    case DTYPE_F16: return vec_from_f16(row + 2 * c);
    case DTYPE_BF16: return vec_from_bf16(row + 2 * c);
    case DTYPE_Q8_0: return vec_mul(vec_set(block_scale(q8)), vec_from_int8(q8 + 2 + i));
    case DTYPE_Q4_0: return vec_mul(vec_set(block_scale(q4)), vec_from_nibbles(q4 + 2 + i % 16, i / 16));
    default: break;
    }
    return vec_load((const float *)(const void *)(row + 4 * c));
}

#endif
