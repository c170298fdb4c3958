/*
 * The quantised types: how a block becomes integers with their scales and minima. That is all that a type is; every
 * set compiles it with its own flags, and all else is shared. Layouts: ggml's ggml-common.h; MXFP4: OCP Microscaling
 * Formats 1.0, sections 5.3 and 5.4.
 *
 *   weight = scale·(q − excess) − min
 *
 * Columns in a row of so many share a scale (span_of): 16 or 32. In every type a weight needs one rounding at most, the
 * last one, because scale·(q − excess) has 24 bits or fewer.
 */
#ifndef ATTN_BLOCKS_H
#define ATTN_BLOCKS_H

#include "dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum {
    BLOCK = 32,  /* columns of a small block, and of activations that share a scale */
    GROUP = 256, /* columns that are unpacked together: a large block, or eight small ones */
    GROUP_SPANS = GROUP / 16,
};

/* Up to 256 columns of a row. */
typedef struct Group {
    uint8_t *q;    /* by sixteens, of which the next ones lie `apart` bytes behind the last ones' beginning */
    size_t apart;  /* 16: in order */
    float *scales; /* [GROUP_SPANS] */
    float *mins;   /* [GROUP_SPANS], written where has_mins */
} Group;

/* Forced open, so that what a type is, is a constant in the loops. */
#define TYPE static inline __attribute__((always_inline))

TYPE size_t span_of(DType dtype) {
    return dtype == DTYPE_Q2_K || dtype == DTYPE_Q3_K || dtype == DTYPE_Q6_K ? 16 : 32;
}

TYPE bool has_mins(DType dtype) {
    return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 || dtype == DTYPE_Q2_K || dtype == DTYPE_Q4_K ||
           dtype == DTYPE_Q5_K;
}

/* So much larger are q than what they stand for, because instructions for bytes want them unsigned. */
TYPE int excess_of(DType dtype) {
    switch (dtype) {
    case DTYPE_Q8_0:
    case DTYPE_IQ4_NL:
    case DTYPE_IQ4_XS: return 128;
    case DTYPE_Q6_K: return 32;
    case DTYPE_Q5_0: return 16;
    case DTYPE_MXFP4: return 12;
    case DTYPE_Q4_0: return 8;
    case DTYPE_Q3_K: return 4;
    default: return 0;
    }
}

/* Whether no q exceeds 15. */
TYPE bool has_nibbles(DType dtype) {
    return dtype == DTYPE_Q4_0 || dtype == DTYPE_Q4_1 || dtype == DTYPE_Q2_K || dtype == DTYPE_Q3_K ||
           dtype == DTYPE_Q4_K;
}

TYPE float half_at(const unsigned char *bytes) {
#if defined(__F16C__)
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return _cvtsh_ss(half);
#elif defined(__aarch64__)
    __fp16 half;
    memcpy(&half, bytes, sizeof half);
    return half;
#else
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return f16_to_f32(half);
#endif
}

TYPE uint64_t u64_at(const unsigned char *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

TYPE uint32_t u32_at(const unsigned char *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Vectors of any machine, since compilers do not always see them in loops. */
typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef uint8_t Bytes32 __attribute__((vector_size(32)));
typedef uint32_t Words4 __attribute__((vector_size(16)));

TYPE Bytes16 load16(const void *from) {
    Bytes16 bytes;
    memcpy(&bytes, from, sizeof bytes);
    return bytes;
}

/* Sixteen q of a group: number i. */
TYPE void put16(const Group *g, size_t i, Bytes16 q) { memcpy(g->q + i * g->apart, &q, sizeof q); }

/* Two sixteens. */
TYPE void put32(const Group *g, size_t i, const Bytes32 *q) {
    memcpy(g->q + 2 * i * g->apart, q, 16);
    memcpy(g->q + (2 * i + 1) * g->apart, (const char *)q + 16, 16);
}

/* Each index is below 16. */
TYPE Bytes16 look_up(Bytes16 table, Bytes16 index) {
#if defined(__SSSE3__)
    return (Bytes16)_mm_shuffle_epi8((__m128i)table, (__m128i)index);
#elif defined(__aarch64__)
    return (Bytes16)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index);
#else
    Bytes16 found;
    for (size_t i = 0; i < 16; i++) found[i] = table[index[i]];
    return found;
#endif
}

/* The sixteen values of IQ4_NL and IQ4_XS, and of E2M1 (MXFP4) doubled, with their excess. */
static const Bytes16 iq4_values = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
                     e2m1_values = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* 2^(e − 128): half of what E8M0 says, because values are doubled. */
TYPE float half_of_e8m0(unsigned e) {
    uint32_t bits = e < 2 ? UINT32_C(0x00200000) << e : (uint32_t)(e - 1) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A constant, where the dtype is one. */
TYPE size_t small_block_bytes(DType dtype) {
    switch (dtype) {
    case DTYPE_Q8_0: return 34;
    case DTYPE_Q4_1: return 20;
    case DTYPE_Q5_0: return 22;
    case DTYPE_Q5_1: return 24;
    case DTYPE_MXFP4: return 17;
    default: return 18; /* Q4_0, IQ4_NL */
    }
}

/* Opens a function once for each type of small blocks, which is its first argument. */
#define SMALL_TYPES(function, ...)                                                                           \
    case DTYPE_Q4_0: function(DTYPE_Q4_0, __VA_ARGS__); break;                                               \
    case DTYPE_Q4_1: function(DTYPE_Q4_1, __VA_ARGS__); break;                                               \
    case DTYPE_Q5_0: function(DTYPE_Q5_0, __VA_ARGS__); break;                                               \
    case DTYPE_Q5_1: function(DTYPE_Q5_1, __VA_ARGS__); break;                                               \
    case DTYPE_Q8_0: function(DTYPE_Q8_0, __VA_ARGS__); break;                                               \
    case DTYPE_IQ4_NL: function(DTYPE_IQ4_NL, __VA_ARGS__); break;                                           \
    case DTYPE_MXFP4: function(DTYPE_MXFP4, __VA_ARGS__); break;

/* 16 where bit i of two bytes is set, for each i. */
TYPE Bytes16 fifth_bits(const unsigned char *bits, uint8_t half) {
    const Bytes16 masks = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128},
                  first = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                  table = (Bytes16)(Words4){u32_at(bits)};
    return (Bytes16)((look_up(table, first + (uint8_t)(2 * half)) & masks) == masks) & 16;
}

/* The integers of small block b: 16 bytes whose low halves come first, but for Q8_0. */
TYPE void unpack_small(DType dtype, const Group *g, size_t b, const unsigned char *block) {
    const unsigned char *from = block + small_block_bytes(dtype) - (dtype == DTYPE_Q8_0 ? 32 : 16);
    for (uint8_t half = 0; half < 2; half++) {
        Bytes16 q =
            dtype == DTYPE_Q8_0 ? load16(from + 16 * half) ^ 128 : load16(from) >> (uint8_t)(4 * half) & 15;
        if (dtype == DTYPE_Q5_0) q |= fifth_bits(block + 2, half);
        if (dtype == DTYPE_Q5_1) q |= fifth_bits(block + 4, half);
        if (dtype == DTYPE_IQ4_NL) q = look_up(iq4_values, q);
        if (dtype == DTYPE_MXFP4) q = look_up(e2m1_values, q);
        put16(g, 2 * b + half, q);
    }
}

/* Eight scales of a large block: d times eight bytes, each less so much. */
TYPE void scale_eight(float scales[8], float d, uint64_t bytes, int less) {
#if defined(__AVX2__)
    __m256i integers = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    __m256 floats = _mm256_cvtepi32_ps(_mm256_sub_epi32(integers, _mm256_set1_epi32(less)));
    _mm256_storeu_ps(scales, _mm256_mul_ps(floats, _mm256_set1_ps(d)));
#else
    for (size_t i = 0; i < 8; i++) scales[i] = d * (float)((int)(bytes >> 8 * i & 255) - less);
#endif
}

static const uint64_t every_nibble = 0x0f0f0f0f0f0f0f0f, every_pair = 0x0303030303030303;

/* 16 bytes of scales and minima, four bits each; then four times 32 weights of two bits in 32 bytes, for each half. */
TYPE void unpack_q2_k(const Group *g, const unsigned char *block) {
    for (size_t i = 0; i < 16; i += 8) {
        scale_eight(g->scales + i, half_at(block + 80), u64_at(block + i) & every_nibble, 0);
        scale_eight(g->mins + i, half_at(block + 82), u64_at(block + i) >> 4 & every_nibble, 0);
    }
    for (uint8_t j = 0; j < 8; j++) {
        Bytes32 q;
        memcpy(&q, block + 16 + j / 4 * 32, sizeof q);
        q = q >> (uint8_t)(j % 4 * 2) & 3;
        put32(g, j, &q);
    }
}

/* Third bits, that of weight 32·j + i in bit j of byte i; two bits as in Q2_K; four bits of each scale, then two. */
TYPE void unpack_q3_k(const Group *g, const unsigned char *block) {
    const uint64_t lower = u64_at(block + 96), pairs = u32_at(block + 104), upper = pairs | pairs >> 2 << 32;
    for (unsigned i = 0; i < 2; i++)
        scale_eight(g->scales + 8 * i, half_at(block + 108),
                    (lower >> 4 * i & every_nibble) | (upper >> 4 * i & every_pair) << 4, 32);
    for (uint8_t j = 0; j < 8; j++) {
        Bytes32 third, q;
        memcpy(&third, block, sizeof third);
        memcpy(&q, block + 32 + j / 4 * 32, sizeof q);
        q = (q >> (uint8_t)(j % 4 * 2) & 3) | (third >> j & 1) << 2;
        put32(g, j, &q);
    }
}

/*
 * The scales and minima of Q4_K and Q5_K: eight of six bits each, in twelve bytes. The upper bits of the last four lie
 * above the first four.
 */
TYPE void unpack_scales_k(const Group *g, const unsigned char *block) {
    const uint64_t lower = u32_at(block + 12), each = 0x3f3f3f3f;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t first = u32_at(block + 4 + 4 * i),
                 last = (lower >> 4 * i & 0x0f0f0f0f) | (first >> 6 & 0x03030303) << 4;
        scale_eight(i ? g->mins : g->scales, half_at(block + 2 * i), (first & each) | last << 32, 0);
    }
}

/* 32 bytes hold 64 weights: the low halves, then the high ones. */
TYPE void unpack_q4_k(const Group *g, const unsigned char *block) {
    unpack_scales_k(g, block);
    for (uint8_t j = 0; j < 8; j++) {
        Bytes32 q;
        memcpy(&q, block + 16 + j / 2 * 32, sizeof q);
        q = q >> (uint8_t)(j % 2 * 4) & 15;
        put32(g, j, &q);
    }
}

/* The same, with the fifth bit of weight 32·j + i in bit j of byte i. */
TYPE void unpack_q5_k(const Group *g, const unsigned char *block) {
    unpack_scales_k(g, block);
    for (uint8_t j = 0; j < 8; j++) {
        Bytes32 fifth, q;
        memcpy(&fifth, block + 16, sizeof fifth);
        memcpy(&q, block + 48 + j / 2 * 32, sizeof q);
        q = (q >> (uint8_t)(j % 2 * 4) & 15) | (fifth >> j & 1) << 4;
        put32(g, j, &q);
    }
}

/* Two halves, each of 64 bytes with the lower four bits of 128 weights, and 32 bytes with the upper two. */
TYPE void unpack_q6_k(const Group *g, const unsigned char *block) {
    for (size_t i = 0; i < 16; i += 8)
        scale_eight(g->scales + i, half_at(block + 208), u64_at(block + 192 + i) ^ 0x8080808080808080, 128);
    for (uint8_t j = 0; j < 8; j++) {
        Bytes32 upper, q;
        memcpy(&upper, block + 128 + j / 4 * 32, sizeof upper);
        memcpy(&q, block + j / 4 * 64 + j % 2 * 32, sizeof q);
        q = (q >> (uint8_t)(j % 4 / 2 * 4) & 15) | (upper >> (uint8_t)(j % 4 * 2) & 3) << 4;
        put32(g, j, &q);
    }
}

/* The upper two bits of eight scales, then their lower four. */
TYPE void unpack_iq4_xs(const Group *g, const unsigned char *block) {
    uint64_t upper = u32_at(block) >> 16, lower = u32_at(block + 4);
    upper = (upper | upper << 24) & 0x000000ff000000ff; /* spread over eight bytes */
    upper = (upper | upper << 12) & 0x000f000f000f000f;
    upper = (upper | upper << 6) & every_pair;
    lower = (lower | lower << 16) & 0x0000ffff0000ffff;
    lower = (lower | lower << 8) & 0x00ff00ff00ff00ff;
    lower = (lower | lower << 4) & every_nibble;
    scale_eight(g->scales, half_at(block), lower | upper << 4, 32);
    for (size_t i = 0; i < 8; i++) {
        const Bytes16 both = load16(block + 8 + 16 * i);
        put16(g, 2 * i, look_up(iq4_values, both & 15));
        put16(g, 2 * i + 1, look_up(iq4_values, both >> 4));
    }
}

TYPE void unpack_blocks(DType dtype, const Group *g, const unsigned char *from, size_t cols) {
    for (size_t b = 0; b < cols / BLOCK; b++, from += small_block_bytes(dtype)) {
        unpack_small(dtype, g, b, from);
        g->scales[b] = dtype == DTYPE_MXFP4 ? half_of_e8m0(from[0]) : half_at(from);
        if (has_mins(dtype)) g->mins[b] = -half_at(from + 2);
    }
}

/* cols ≤ GROUP columns from where a block begins; large blocks whole. */
static inline void unpack_group(DType dtype, const Group *g, const unsigned char *from, size_t cols) {
    switch (dtype) {
        SMALL_TYPES(unpack_blocks, g, from, cols)
    case DTYPE_Q2_K: unpack_q2_k(g, from); break;
    case DTYPE_Q3_K: unpack_q3_k(g, from); break;
    case DTYPE_Q4_K: unpack_q4_k(g, from); break;
    case DTYPE_Q5_K: unpack_q5_k(g, from); break;
    case DTYPE_Q6_K: unpack_q6_k(g, from); break;
    case DTYPE_IQ4_XS: unpack_iq4_xs(g, from); break;
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16: break;
    }
}

/* A group in order, and its weights as floats. */
typedef struct PlainGroup {
    uint8_t q[GROUP];
    float scales[GROUP_SPANS], mins[GROUP_SPANS];
} PlainGroup;

static inline void unpack_plainly(DType dtype, PlainGroup *g, const unsigned char *from, size_t cols) {
    unpack_group(dtype, &(Group){g->q, 16, g->scales, g->mins}, from, cols);
}

static inline void group_floats(DType dtype, float *restrict w, const PlainGroup *restrict g, size_t cols) {
    const size_t span = span_of(dtype);
    const int excess = excess_of(dtype);
    for (size_t begin = 0; begin < cols; begin += span)
        for (size_t c = begin; c < begin + span; c++) {
            float whole = g->scales[begin / span] * (float)(g->q[c] - excess);
            w[c] = has_mins(dtype) ? whole - g->mins[begin / span] : whole;
        }
}

#endif
