/* The number formats that weights and caches are stored in, and the plain way to read them. */
#ifndef ATTN_DTYPE_H
#define ATTN_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values are GGUF's own (ggml_type), so that a file's number needs no translation. */
typedef enum DType {
    DTYPE_F32 = 0,
    DTYPE_F16 = 1,
    DTYPE_Q4_0 = 2, /* 32 weights in 18 bytes: f16 scale d, 16 bytes; byte j holds weight j (low) and j + 16
                       (high nibble); d·(nibble − 8) */
    DTYPE_Q8_0 = 8, /* 32 weights in 34 bytes: f16 scale d, 32 int8; d·q */
    DTYPE_BF16 = 30,
} DType;

enum { DTYPE_LIMIT = DTYPE_BF16 + 1 }; /* above them all */

/* How a dtype lies in memory. */
typedef struct DTypeInfo {
    const char *name;   /* as GGUF names it, "Q8_0" */
    size_t block;       /* weights in a block; a row holds whole blocks */
    size_t block_bytes; /* bytes of a block */
} DTypeInfo;

/* NULL when the number is none of DType (a format that exists elsewhere is still not supported here). */
const DTypeInfo *dtype_info(uint32_t dtype);

/* Bytes of a row of n weights; n must be a multiple of the block. */
size_t dtype_bytes(DType dtype, size_t n);

/* Whether weights are small integers in blocks that share a scale. */
bool dtype_is_quantised(DType dtype);

/* IEEE 754 binary16 and back, round to nearest even; overflow gives infinity, NaN stays NaN. */
float f16_to_f32(uint16_t half);
uint16_t f32_to_f16(float value);

/* Unpacks n weights (a multiple of the block) at src to float. The plain reference for every kernel set. */
void dtype_unpack(float *dst, DType dtype, const void *src, size_t n);

#endif
