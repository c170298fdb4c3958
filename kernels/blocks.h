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
    _Alignas(64) uint8_t q[GROUP];
    _Alignas(64) float scales[GROUP_SPANS]; /* of each span */
    _Alignas(64) float mins[GROUP_SPANS];   /* likewise, where has_mins */
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

/* to[i] = table[index[i]], 16 of them, each index below 16. */
TYPE void look_up(uint8_t to[16], const uint8_t table[16], const uint8_t index[16]) {
#if defined(__SSSE3__)
    __m128i entries = _mm_loadu_si128((const __m128i *)(const void *)table);
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm_shuffle_epi8(entries, _mm_loadu_si128((const __m128i *)(const void *)index)));
#elif defined(__aarch64__)
    vst1q_u8(to, vqtbl1q_u8(vld1q_u8(table), vld1q_u8(index)));
#else
    for (size_t i = 0; i < 16; i++) to[i] = table[index[i]];
#endif
}

/* The low halves of n bytes, then the high ones. */
TYPE void split_nibbles(uint8_t *restrict q, const unsigned char *restrict bytes, size_t n) {
    for (size_t i = 0; i < n; i++) q[i] = bytes[i] & 15;
    for (size_t i = 0; i < n; i++) q[n + i] = bytes[i] >> 4;
}

/* q[i] |= 16 where bit i of four bytes is set. */
TYPE void add_fifth_bits(uint8_t *restrict q, const unsigned char *restrict bits) {
    static const uint8_t first[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                         masks[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    for (size_t half = 0; half < 2; half++, q += 16) {
        uint8_t table[16] = {bits[2 * half], bits[2 * half + 1]}, spread[16];
        look_up(spread, table, first);
        for (size_t i = 0; i < 16; i++) q[i] |= spread[i] & masks[i] ? 16 : 0;
    }
}

/* The sixteen values of IQ4_NL and IQ4_XS, and of E2M1 (MXFP4) doubled, with their excess. */
static const uint8_t iq4_values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241},
                     e2m1_values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

TYPE void look_up_nibbles(uint8_t q[32], const uint8_t table[16], const unsigned char *bytes) {
    uint8_t nibbles[32];
    split_nibbles(nibbles, bytes, 16);
    look_up(q, table, nibbles);
    look_up(q + 16, table, nibbles + 16);
}

/* 2^(e − 128): half of what E8M0 says, because values are doubled. */
TYPE float half_of_e8m0(unsigned e) {
    uint32_t bits = e < 2 ? UINT32_C(0x00200000) << e : (uint32_t)(e - 1) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A small block; *min is written where the type has minima. */
TYPE void unpack_block(DType dtype, uint8_t q[32], float *scale, float *min, const unsigned char *block) {
    *scale = dtype == DTYPE_MXFP4 ? half_of_e8m0(block[0]) : half_at(block);
    if (has_mins(dtype)) *min = -half_at(block + 2);
    switch (dtype) {
    case DTYPE_Q4_0: split_nibbles(q, block + 2, 16); break;
    case DTYPE_Q4_1: split_nibbles(q, block + 4, 16); break;
    case DTYPE_Q5_0:
        split_nibbles(q, block + 6, 16);
        add_fifth_bits(q, block + 2);
        break;
    case DTYPE_Q5_1:
        split_nibbles(q, block + 8, 16);
        add_fifth_bits(q, block + 4);
        break;
    case DTYPE_IQ4_NL: look_up_nibbles(q, iq4_values, block + 2); break;
    case DTYPE_MXFP4: look_up_nibbles(q, e2m1_values, block + 1); break;
    default: /* Q8_0 */
        for (size_t i = 0; i < 32; i++) q[i] = block[2 + i] ^ 128;
    }
}

/* Four times 32 numbers of two bits. */
TYPE void split_pairs(uint8_t q[128], const unsigned char *restrict bytes) {
    for (size_t j = 0; j < 4; j++)
        for (size_t i = 0; i < 32; i++) q[32 * j + i] = bytes[i] >> 2 * j & 3;
}

/* 16 scales, then 16 minima of four bits, as 64 bytes of two bits, as two halves. */
TYPE void unpack_q2_k(Group *g, const unsigned char *block) {
    const float d = half_at(block + 80), d_min = half_at(block + 82);
    for (size_t i = 0; i < 16; i++) {
        g->scales[i] = d * (float)(block[i] & 15);
        g->mins[i] = d_min * (float)(block[i] >> 4);
    }
    for (size_t half = 0; half < 2; half++) split_pairs(g->q + 128 * half, block + 16 + 32 * half);
}

/* Third bits of weight 32·j + i in bit j of byte i; two bits; scales of six, four of them in eight bytes, two in four. */
TYPE void unpack_q3_k(Group *g, const unsigned char *block) {
    const unsigned char *scales = block + 96;
    const float d = half_at(block + 108);
    for (size_t i = 0; i < 16; i++) {
        int low = scales[i % 8] >> i / 8 * 4 & 15, high = scales[8 + i % 4] >> i / 4 * 2 & 3;
        g->scales[i] = d * (float)((low | high << 4) - 32);
    }
    for (size_t half = 0; half < 2; half++) split_pairs(g->q + 128 * half, block + 32 + 32 * half);
    for (size_t j = 0; j < 8; j++)
        for (size_t i = 0; i < 32; i++) g->q[32 * j + i] |= (uint8_t)((block[i] >> j & 1) << 2);
}

/* The scales and minima of Q4_K and Q5_K: eight of six bits each, in twelve bytes. */
TYPE void unpack_scales_k(Group *g, const unsigned char *block) {
    const float d = half_at(block), d_min = half_at(block + 2);
    uint32_t packed[3], six[4];
    uint8_t bytes[16];
    memcpy(packed, block + 4, sizeof packed);
    six[0] = packed[0] & 0x3f3f3f3f;
    six[1] = (packed[2] & 0x0f0f0f0f) | (packed[0] >> 6 & 0x03030303) << 4;
    six[2] = packed[1] & 0x3f3f3f3f;
    six[3] = (packed[2] >> 4 & 0x0f0f0f0f) | (packed[1] >> 6 & 0x03030303) << 4;
    memcpy(bytes, six, sizeof bytes);
    for (size_t i = 0; i < 8; i++) g->scales[i] = d * (float)bytes[i];
    for (size_t i = 0; i < 8; i++) g->mins[i] = d_min * (float)bytes[8 + i];
}

TYPE void unpack_q4_k(Group *g, const unsigned char *block) {
    unpack_scales_k(g, block);
    for (size_t j = 0; j < 4; j++) split_nibbles(g->q + 64 * j, block + 16 + 32 * j, 32);
}

/* Fifth bits of weight 32·j + i in bit j of byte i. */
TYPE void unpack_q5_k(Group *g, const unsigned char *block) {
    unpack_scales_k(g, block);
    for (size_t j = 0; j < 4; j++) split_nibbles(g->q + 64 * j, block + 48 + 32 * j, 32);
    for (size_t j = 0; j < 8; j++)
        for (size_t i = 0; i < 32; i++) g->q[32 * j + i] |= (uint8_t)((block[16 + i] >> j & 1) << 4);
}

/* Two halves: 64 bytes of low nibbles, 32 of four pairs of upper bits. */
TYPE void unpack_q6_k(Group *g, const unsigned char *block) {
    const float d = half_at(block + 208);
    for (size_t i = 0; i < 16; i++) g->scales[i] = d * (float)(int8_t)block[192 + i];
    for (size_t half = 0; half < 2; half++) {
        uint8_t *q = g->q + 128 * half;
        split_nibbles(q, block + 64 * half, 64);
        for (size_t j = 0; j < 4; j++)
            for (size_t i = 0; i < 32; i++)
                q[32 * j + i] |= (uint8_t)((block[128 + 32 * half + i] >> 2 * j & 3) << 4);
    }
}

TYPE void unpack_iq4_xs(Group *g, const unsigned char *block) {
    const float d = half_at(block);
    for (size_t i = 0; i < 8; i++) {
        int low = block[4 + i / 2] >> i % 2 * 4 & 15, high = block[2 + i / 4] >> i % 4 * 2 & 3;
        g->scales[i] = d * (float)((low | high << 4) - 32);
    }
    for (size_t i = 0; i < 8; i++) look_up_nibbles(g->q + 32 * i, iq4_values, block + 8 + 16 * i);
}

TYPE void unpack_blocks(DType dtype, Group *g, const unsigned char *from, size_t cols) {
    for (size_t b = 0; b < cols / BLOCK; b++)
        unpack_block(dtype, g->q + b * BLOCK, &g->scales[b], &g->mins[b],
                     from + dtype_bytes(dtype, b * BLOCK));
}

/* cols ≤ GROUP columns from where a block begins; large blocks whole. */
static inline void unpack_group(DType dtype, Group *g, const unsigned char *from, size_t cols) {
    switch (dtype) {
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16: break;
    case DTYPE_Q4_0: unpack_blocks(DTYPE_Q4_0, g, from, cols); break;
    case DTYPE_Q4_1: unpack_blocks(DTYPE_Q4_1, g, from, cols); break;
    case DTYPE_Q5_0: unpack_blocks(DTYPE_Q5_0, g, from, cols); break;
    case DTYPE_Q5_1: unpack_blocks(DTYPE_Q5_1, g, from, cols); break;
    case DTYPE_Q8_0: unpack_blocks(DTYPE_Q8_0, g, from, cols); break;
    case DTYPE_IQ4_NL: unpack_blocks(DTYPE_IQ4_NL, g, from, cols); break;
    case DTYPE_MXFP4: unpack_blocks(DTYPE_MXFP4, g, from, cols); break;
    case DTYPE_Q2_K: unpack_q2_k(g, from); break;
    case DTYPE_Q3_K: unpack_q3_k(g, from); break;
    case DTYPE_Q4_K: unpack_q4_k(g, from); break;
    case DTYPE_Q5_K: unpack_q5_k(g, from); break;
    case DTYPE_Q6_K: unpack_q6_k(g, from); break;
    case DTYPE_IQ4_XS: unpack_iq4_xs(g, from); break;
    }
}

/* The group's weights as floats. */
static inline void group_floats(DType dtype, float *restrict w, const Group *restrict g, size_t cols) {
    const size_t span = span_of(dtype);
    const int excess = excess_of(dtype);
    for (size_t begin = 0; begin < cols; begin += span)
        for (size_t c = begin; c < begin + span; c++) {
            float whole = g->scales[begin / span] * (float)(g->q[c] - excess);
            w[c] = has_mins(dtype) ? whole - g->mins[begin / span] : whole;
        }
}

#endif
