/* The number formats that weights and caches are stored in, and the plain way to read them. */
#ifndef ATTN_DTYPE_H
#define ATTN_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The values are GGUF's own (ggml_type), so that a file's number needs no translation. How the blocks of the quantised
 * types lie: blocks.h.
 */
typedef enum DType {
    DTYPE_F32 = 0,
    DTYPE_F16 = 1,
    DTYPE_Q4_0 = 2,
    DTYPE_Q4_1 = 3,
    DTYPE_Q5_0 = 6,
    DTYPE_Q5_1 = 7,
    DTYPE_Q8_0 = 8,
    DTYPE_Q2_K = 10,
    DTYPE_Q3_K = 11,
    DTYPE_Q4_K = 12,
    DTYPE_Q5_K = 13,
    DTYPE_Q6_K = 14,
    DTYPE_IQ4_NL = 20,
    DTYPE_IQ4_XS = 23,
    DTYPE_I8 = 24, /* int8, of the KV cache in Q8_0; no file's weights: it has no DTypeInfo */
    DTYPE_BF16 = 30,
    DTYPE_MXFP4 = 39,
} DType;

enum { DTYPE_LIMIT = DTYPE_MXFP4 + 1 }; /* above them all */

/* How a dtype lies in memory. */
typedef struct DTypeInfo {
    const char *name;   /* as GGUF names it, "Q8_0" */
    size_t block;       /* weights in a block; a row holds whole blocks */
    size_t block_bytes; /* bytes of a block */
} DTypeInfo;

/* NULL when the number is none of DType (a format that exists elsewhere is still not supported here). */
const DTypeInfo *dtype_info(uint32_t dtype);

/* Bytes of a row of n numbers; n must be a multiple of the block. */
size_t dtype_bytes(DType dtype, size_t n);

/* Whether weights are small integers in blocks that share a scale. */
bool dtype_is_quantised(DType dtype);

/* IEEE 754 binary16 and back, round to nearest even; overflow gives infinity, NaN stays NaN. */
float f16_to_f32(uint16_t half);
uint16_t f32_to_f16(float value);

/* Unpacks n numbers (a multiple of the block) at src to float. The plain reference for every kernel set. */
void dtype_unpack(float *dst, DType dtype, const void *src, size_t n);

#endif
