/* The number formats, read plainly: one weight after another, on any machine of little-endian bytes. */
#include "dtype.h"

#define UNPACKED_ROWS 1
#define HAS_UNPACK_GROUPS extern
#include "blocks.h"

#include <string.h>

static const DTypeInfo infos[] = {
    [DTYPE_F32] = {"F32", 1, 4},         [DTYPE_F16] = {"F16", 1, 2},
    [DTYPE_Q4_0] = {"Q4_0", 32, 18},     [DTYPE_Q4_1] = {"Q4_1", 32, 20},
    [DTYPE_Q5_0] = {"Q5_0", 32, 22},     [DTYPE_Q5_1] = {"Q5_1", 32, 24},
    [DTYPE_Q8_0] = {"Q8_0", 32, 34},     [DTYPE_Q2_K] = {"Q2_K", 256, 84},
    [DTYPE_Q3_K] = {"Q3_K", 256, 110},   [DTYPE_Q4_K] = {"Q4_K", 256, 144},
    [DTYPE_Q5_K] = {"Q5_K", 256, 176},   [DTYPE_Q6_K] = {"Q6_K", 256, 210},
    [DTYPE_IQ4_NL] = {"IQ4_NL", 32, 18}, [DTYPE_IQ4_XS] = {"IQ4_XS", 256, 136},
    [DTYPE_BF16] = {"BF16", 1, 2},       [DTYPE_MXFP4] = {"MXFP4", 32, 17},
    [DTYPE_I8] = {NULL, 1, 1},
};

/* Weights lie where the file puts them, 2-byte aligned at best, so they are copied out, never cast. */
static uint16_t read_u16(const unsigned char *bytes) {
    uint16_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

const DTypeInfo *dtype_info(uint32_t dtype) {
    if (dtype >= sizeof infos / sizeof *infos || !infos[dtype].name) return NULL;
    return &infos[dtype];
}

size_t dtype_bytes(DType dtype, size_t n) { return n / infos[dtype].block * infos[dtype].block_bytes; }

bool dtype_is_quantised(DType dtype) { return infos[dtype].block > 1; }

float f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    if (magnitude > 0x7c00u) return float_of_bits(sign | 0x7fc00000u | magnitude << 13); /* quiet NaN */
    if (magnitude == 0x7c00u) return float_of_bits(sign | 0x7f800000u);
    /* The exponents differ in bias, 127 − 15; a product by that power of two also normalises denormals. */
    return float_of_bits(sign | bits_of_float(float_of_bits(magnitude << 13) * 0x1p112f));
}

uint16_t f32_to_f16(float value) {
    uint32_t bits = bits_of_float(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u)
        half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    else if (magnitude >= 0x47800000u) /* 2^16; what only rounds up to it is carried there below */
        half = 0x7c00u;
    else if (magnitude < 0x38800000u) /* below 2^-14 they are multiples of 2^-24, as floats in [½, 1) */
        half = bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f);
    else /* the carry of the rounding may run on into the exponent, as it should */
        half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    return (uint16_t)(sign | half);
}

static void unpack_quantised(float *dst, DType dtype, const unsigned char *src, size_t n) {
    for (size_t cols; n; n -= cols, dst += cols, src += dtype_bytes(dtype, cols)) {
        PlainGroup group;
        cols = n < GROUP ? n : GROUP;
        unpack_plainly(dtype, &group, src, cols);
        group_floats(dtype, dst, &group, cols);
    }
}

void dtype_unpack(float *dst, DType dtype, const void *src, size_t n) {
    const unsigned char *bytes = src;
    switch (dtype) {
    case DTYPE_F32:
        if (n) memcpy(dst, bytes, n * sizeof *dst);
        break;
    case DTYPE_F16:
        for (size_t i = 0; i < n; i++) dst[i] = f16_to_f32(read_u16(bytes + 2 * i));
        break;
    case DTYPE_BF16: /* the upper half of a float32 */
        for (size_t i = 0; i < n; i++) dst[i] = float_of_bits((uint32_t)read_u16(bytes + 2 * i) << 16);
        break;
    case DTYPE_I8:
        for (size_t i = 0; i < n; i++) dst[i] = (int8_t)bytes[i];
        break;
    default: unpack_quantised(dst, dtype, bytes, n);
    }
}
