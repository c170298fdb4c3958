/*
 * For tests of kernels: the sets that this CPU runs, random numbers, and weights of every type by the text of
 * their formats, in double.
 */
#ifndef ATTN_TEST_WEIGHTS_H
#define ATTN_TEST_WEIGHTS_H

#include "kernels/kernels.h"
#include "tests/test.h"

#include <stdint.h>

#define EPS 0x1p-24 /* the rounding of one float operation, relative */

static const DType dtypes[] = {DTYPE_F32,  DTYPE_F16,    DTYPE_BF16,   DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0,
                               DTYPE_Q5_1, DTYPE_Q8_0,   DTYPE_Q2_K,   DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K,
                               DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS, DTYPE_MXFP4};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* Those that run here, slowest first. */
static const Kernels **sets;
static size_t n_sets;

static inline void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) exit(2);
    return memory;
}

static inline void find_sets(void) {
    size_t n = 0;
    while (kernels_set(n)) n++;
    sets = allocate(n * sizeof *sets);
    for (size_t i = 0; i < n; i++) {
        const Kernels *set = kernels_set(i);
        if (kernels_pick(set->name, NULL) == set)
            sets[n_sets++] = set;
        else
            printf("this CPU, or this build, does not run %s\n", set->name);
    }
}

static uint64_t random_state = 88172645463325252u;

/* Marsaglia 2003, "Xorshift RNGs". */
static inline uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Uniform in [-1, 1). */
static inline float random_float(void) { return (float)(random_bits() >> 40) * 0x1p-23f - 1.0f; }

static inline void random_floats(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = random_float();
}

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int same_bits(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

/* IEEE 754-2008, 3.4: binary16 has a sign, 5 exponent and 10 fraction bits. */
static inline double half_value(unsigned half) {
    int exponent = (int)(half >> 10 & 31);
    double fraction = (double)(half & 1023) / 1024;
    double magnitude = exponent == 31 ? (half & 1023 ? (double)NAN : (double)INFINITY)
                       : exponent     ? ldexp(1 + fraction, exponent - 15)
                                      : ldexp(fraction, -14);
    return half & 0x8000 ? -magnitude : magnitude;
}

static inline unsigned u16_at(const unsigned char *bytes) { return bytes[0] | (unsigned)bytes[1] << 8; }

/* A weight is whole − min; min is 0 where the format has none. Products may be summed apart. */
typedef struct Weight {
    double whole, min;
} Weight;

/* Bits [shift, shift + n) of a byte. */
static inline int bits_of(unsigned char byte, size_t shift, int n) { return byte >> shift & ((1 << n) - 1); }

/* The half at a byte. */
static inline double half_at(const unsigned char *bytes) { return half_value(u16_at(bytes)); }

static inline double signed_byte(unsigned char byte) { return byte < 128 ? byte : byte - 256; }

/* Nibble i of 32 in 16 bytes: the low ones come first. */
static inline int nibble(const unsigned char *bytes, size_t i) {
    return bits_of(bytes[i % 16], i / 16 * 4, 4);
}

/* Bit i of 32. */
static inline int bit(const unsigned char *bytes, size_t i) { return bits_of(bytes[i / 8], i % 8, 1); }

/* E2M1: a sign, two bits of exponent, one of fraction. OCP Microscaling Formats 1.0, section 5.3.3. */
static inline double e2m1_value(int code) {
    int exponent = code >> 1 & 3, fraction = code & 1;
    double magnitude = exponent ? ldexp(1 + fraction / 2.0, exponent - 1) : fraction / 2.0;
    return code & 8 ? -magnitude : magnitude;
}

static inline double iq4_value(int code) {
    static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return values[code];
}

/* Weight i < 256 of a large block, from ggml's ggml-common.h. */
static inline Weight large_value(DType dtype, const unsigned char *at, size_t i) {
    size_t half = i / 128, quarter = i % 128 / 32, span = i / 32, j = i % 32;
    const unsigned char *six = at + 4, *qs = at + (dtype == DTYPE_Q5_K ? 48 : 16);
    int q = 0, scale = 0, min = 0, s = (int)(i / 16);
    switch (dtype) {
    case DTYPE_Q2_K:
        q = bits_of(at[16 + 32 * half + j], 2 * quarter, 2);
        return (Weight){half_at(at + 80) * bits_of(at[s], 0, 4) * q, half_at(at + 82) * bits_of(at[s], 4, 4)};
    case DTYPE_Q3_K:
        q = bits_of(at[32 + 32 * half + j], 2 * quarter, 2) + 4 * bits_of(at[j], span, 1) - 4;
        scale = s < 8 ? at[96 + s] & 15 : at[96 + s - 8] >> 4;
        scale += 16 * bits_of(at[96 + 8 + s % 4], (size_t)(s / 4 * 2), 2);
        return (Weight){half_at(at + 108) * (scale - 32) * q, 0};
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        scale = span < 4 ? six[span] & 63 : (six[span + 4] & 15) + 16 * (six[span - 4] >> 6);
        min = span < 4 ? six[span + 4] & 63 : (six[span + 4] >> 4) + 16 * (six[span] >> 6);
        q = bits_of(qs[32 * (span / 2) + j], span % 2 * 4, 4);
        if (dtype == DTYPE_Q5_K) q += 16 * bits_of(at[16 + j], span, 1);
        return (Weight){half_at(at) * scale * q, half_at(at + 2) * min};
    case DTYPE_Q6_K:
        q = bits_of(at[64 * half + 32 * (quarter % 2) + j], quarter / 2 * 4, 4) +
            16 * bits_of(at[128 + 32 * half + j], 2 * quarter, 2) - 32;
        return (Weight){half_at(at + 208) * signed_byte(at[192 + s]) * q, 0};
    default: /* IQ4_XS */
        scale = bits_of(at[4 + span / 2], span % 2 * 4, 4) + 16 * (int)(u16_at(at + 2) >> 2 * span & 3) - 32;
        return (Weight){half_at(at) * scale * iq4_value(nibble(at + 8 + 16 * span, j)), 0};
    }
}

/* Weight i of a row at data, from the text of the formats. */
static inline Weight weight_value(DType dtype, const unsigned char *data, size_t i) {
    const DTypeInfo *info = dtype_info(dtype);
    size_t j = i % info->block;
    const unsigned char *at = data + i / info->block * info->block_bytes;
    float f32;
    switch (dtype) {
    case DTYPE_F32: memcpy(&f32, at, 4); return (Weight){(double)f32, 0};
    case DTYPE_F16: return (Weight){half_at(at), 0};
    case DTYPE_BF16: return (Weight){(double)float_of_bits((uint32_t)u16_at(at) << 16), 0};
    case DTYPE_Q8_0: return (Weight){half_at(at) * signed_byte(at[2 + j]), 0};
    case DTYPE_Q4_0: return (Weight){half_at(at) * (nibble(at + 2, j) - 8), 0};
    case DTYPE_Q4_1: return (Weight){half_at(at) * nibble(at + 4, j), -half_at(at + 2)};
    case DTYPE_Q5_0: return (Weight){half_at(at) * (nibble(at + 6, j) + 16 * bit(at + 2, j) - 16), 0};
    case DTYPE_Q5_1:
        return (Weight){half_at(at) * (nibble(at + 8, j) + 16 * bit(at + 4, j)), -half_at(at + 2)};
    case DTYPE_IQ4_NL: return (Weight){half_at(at) * iq4_value(nibble(at + 2, j)), 0};
    case DTYPE_MXFP4: return (Weight){ldexp(e2m1_value(nibble(at + 1, j)), at[0] - 127), 0};
    default: return large_value(dtype, at, j);
    }
}

/* Where the halves of a block lie that scale its weights, and exponents for which no weight is larger than about 2. */
typedef struct Halves {
    unsigned n, at[2], high[2]; /* high: of the upper byte, without sign and the two bits of fraction */
} Halves;

static inline Halves halves_of(DType dtype) {
    switch (dtype) {
    case DTYPE_F16: return (Halves){1, {0}, {0x38}};
    case DTYPE_Q4_0: return (Halves){1, {0}, {0x2c}};
    case DTYPE_Q4_1: return (Halves){2, {0, 2}, {0x2c, 0x34}};
    case DTYPE_Q5_0: return (Halves){1, {0}, {0x28}};
    case DTYPE_Q5_1: return (Halves){2, {0, 2}, {0x28, 0x34}};
    case DTYPE_Q8_0:
    case DTYPE_IQ4_NL: return (Halves){1, {0}, {0x1c}};
    case DTYPE_Q2_K: return (Halves){2, {80, 82}, {0x24, 0x2c}};
    case DTYPE_Q3_K: return (Halves){1, {108}, {0x20}};
    case DTYPE_Q4_K: return (Halves){2, {0, 2}, {0x14, 0x24}};
    case DTYPE_Q5_K: return (Halves){2, {0, 2}, {0x10, 0x24}};
    case DTYPE_Q6_K: return (Halves){1, {208}, {0x0c}};
    case DTYPE_IQ4_XS: return (Halves){1, {0}, {0x0c}};
    default: return (Halves){0};
    }
}

/* Random rows of n weights, none larger than about 2. */
static inline void random_weights(unsigned char *data, DType dtype, size_t n) {
    const DTypeInfo *info = dtype_info(dtype);
    const Halves halves = halves_of(dtype);
    for (size_t b = 0; b < n / info->block; b++) {
        unsigned char *at = data + b * info->block_bytes;
        float value = random_float();
        uint32_t bits;
        memcpy(&bits, &value, 4);
        for (size_t i = 0; i < info->block_bytes; i++) at[i] = (unsigned char)random_bits();
        for (size_t i = 0; i < halves.n; i++) {
            unsigned char *high = at + halves.at[i] + 1;
            *high = (unsigned char)((*high & 0x83) | halves.high[i]);
        }
        if (dtype == DTYPE_F32) memcpy(at, &value, 4);
        if (dtype == DTYPE_BF16) memcpy(at, (char *)&bits + 2, 2);
        if (dtype == DTYPE_MXFP4) at[0] = (unsigned char)(122 + random_bits() % 4);
    }
}

#endif
