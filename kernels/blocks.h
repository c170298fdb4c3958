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

/* How many rows are unpacked at once, sixteen bytes of each beside those of the next: as many as fill a vector. */
#ifndef UNPACKED_ROWS
#if defined(__AVX512BW__) || defined(EMULATED_AVX512)
#define UNPACKED_ROWS 4
#elif defined(__AVX2__)
#define UNPACKED_ROWS 2
#else
#define UNPACKED_ROWS 1
#endif
#endif

enum {
    BLOCK = 32,  /* columns of a small block, and of activations that share a scale */
    GROUP = 256, /* columns that are unpacked together: a large block, or eight small ones */
    GROUP_SPANS = GROUP / 16,
};

/* Where up to 256 columns of UNPACKED_ROWS rows go. */
typedef struct Group {
    uint8_t *q; /* sixteen of each row; the next sixteen lie `apart` bytes behind them */
    size_t apart;
    float (*scales)[GROUP_SPANS]; /* of each row */
    float (*mins)[GROUP_SPANS];   /* likewise, written where has_mins */
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

/* q of eight bits: products of bytes want weights unsigned on x86-64, but signed on arm64. All others are below 64. */
#if defined(__aarch64__)
typedef int8_t Q;
enum { MIDDLE = 0 };
#else
typedef uint8_t Q;
enum { MIDDLE = 128 };
#endif

/* So much larger are q than what they stand for. */
TYPE int excess_of(DType dtype) {
    switch (dtype) {
    case DTYPE_Q8_0:
    case DTYPE_IQ4_NL:
    case DTYPE_IQ4_XS: return MIDDLE;
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
typedef uint8_t Bytes __attribute__((vector_size(16 * UNPACKED_ROWS)));
typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef int8_t SignedBytes16 __attribute__((vector_size(16)));

/* The same sixteen bytes for each row. */
TYPE Bytes repeat16(const Bytes16 *bytes) {
#if UNPACKED_ROWS == 4
    return (Bytes)_mm512_broadcast_i32x4((__m128i)*bytes);
#elif UNPACKED_ROWS == 2
    return (Bytes)_mm256_broadcastsi128_si256((__m128i)*bytes);
#else
    return *bytes;
#endif
}

/* Sixteen bytes of each row, from the byte `at` on. */
TYPE Bytes load_pieces(const unsigned char *const rows[UNPACKED_ROWS], size_t at) {
#if UNPACKED_ROWS > 1
    __m128i pieces[UNPACKED_ROWS];
    for (size_t i = 0; i < UNPACKED_ROWS; i++)
        pieces[i] = _mm_loadu_si128((const __m128i *)(const void *)(rows[i] + at));
    __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(pieces[0]), pieces[1], 1);
#if UNPACKED_ROWS == 4
    __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(pieces[2]), pieces[3], 1);
    return (Bytes)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#else
    return (Bytes)low;
#endif
#else
    Bytes bytes;
    memcpy(&bytes, rows[0] + at, sizeof bytes);
    return bytes;
#endif
}

/* Sixteen q of each row: columns [16·i, 16·i + 16). */
TYPE void put(const Group *g, size_t i, Bytes q) { memcpy(g->q + i * g->apart, &q, sizeof q); }

/* Each index is below 16. */
TYPE Bytes look_up(Bytes table, Bytes index) {
#if UNPACKED_ROWS == 4
    return (Bytes)_mm512_shuffle_epi8((__m512i)table, (__m512i)index);
#elif UNPACKED_ROWS == 2
    return (Bytes)_mm256_shuffle_epi8((__m256i)table, (__m256i)index);
#elif defined(__SSSE3__)
    return (Bytes)_mm_shuffle_epi8((__m128i)table, (__m128i)index);
#elif defined(__aarch64__)
    return (Bytes)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index);
#else
    Bytes found;
    for (size_t i = 0; i < 16; i++) found[i] = table[index[i]];
    return found;
#endif
}

/* The sixteen values of E2M1 (MXFP4) doubled, with their excess. */
static const Bytes16 e2m1_values = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* Those of IQ4_NL and IQ4_XS. */
TYPE Bytes look_up_iq4(Bytes index) {
    const SignedBytes16 values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    const Bytes16 table = (Bytes16)values + MIDDLE;
    return look_up(repeat16(&table), index);
}

/* 2^(e − 128): half of what E8M0 says, because values are doubled. */
TYPE float half_of_e8m0(unsigned e) {
    uint32_t bits = e < 2 ? UINT32_C(0x00200000) << e : (uint32_t)(e - 1) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A constant, where the dtype is one; 0: blocks are large. */
TYPE size_t small_block_bytes(DType dtype) {
    switch (dtype) {
    case DTYPE_Q8_0: return 34;
    case DTYPE_Q4_1: return 20;
    case DTYPE_Q5_0: return 22;
    case DTYPE_Q5_1: return 24;
    case DTYPE_MXFP4: return 17;
    case DTYPE_Q4_0:
    case DTYPE_IQ4_NL: return 18;
    default: return 0;
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

/* 16 where bit i of four bytes of each row is set, for the i of a half. */
TYPE Bytes fifth_bits(const unsigned char *const rows[UNPACKED_ROWS], size_t at, uint8_t half) {
    typedef uint32_t Words __attribute__((vector_size(16 * UNPACKED_ROWS)));
    const Bytes16 mask = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128},
                  byte = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    Words bits = {0};
    for (size_t i = 0; i < UNPACKED_ROWS; i++) bits[4 * i] = u32_at(rows[i] + at);
    Bytes spread = look_up((Bytes)bits, repeat16(&byte) + (uint8_t)(2 * half));
    return (Bytes)((spread & repeat16(&mask)) == repeat16(&mask)) & 16;
}

/* The integers of the small block b that begins at the byte `at`: 16 bytes whose low halves come first, but for Q8_0. */
TYPE void unpack_small(DType dtype, const Group *g, size_t b, const unsigned char *const rows[UNPACKED_ROWS],
                       size_t at) {
    const size_t from = at + small_block_bytes(dtype) - (dtype == DTYPE_Q8_0 ? 32 : 16);
    for (uint8_t half = 0; half < 2; half++) {
        Bytes q = dtype == DTYPE_Q8_0 ? load_pieces(rows, from + 16 * half) + MIDDLE
                                      : load_pieces(rows, from) >> (uint8_t)(4 * half) & 15;
        if (dtype == DTYPE_Q5_0) q |= fifth_bits(rows, at + 2, half);
        if (dtype == DTYPE_Q5_1) q |= fifth_bits(rows, at + 4, half);
        if (dtype == DTYPE_IQ4_NL) q = look_up_iq4(q);
        if (dtype == DTYPE_MXFP4) q = look_up(repeat16(&e2m1_values), q);
        put(g, 2 * b + half, q);
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
TYPE void unpack_q2_k(const Group *g, const unsigned char *const rows[UNPACKED_ROWS], size_t at) {
    for (size_t r = 0; r < UNPACKED_ROWS; r++)
        for (size_t i = 0; i < 16; i += 8) {
            const unsigned char *block = rows[r] + at;
            scale_eight(g->scales[r] + i, half_at(block + 80), u64_at(block + i) & every_nibble, 0);
            scale_eight(g->mins[r] + i, half_at(block + 82), u64_at(block + i) >> 4 & every_nibble, 0);
        }
    for (size_t i = 0; i < 4; i++) {
        Bytes pairs = load_pieces(rows, at + 16 + 16 * i);
        for (size_t j = 0; j < 4; j++) put(g, i / 2 * 8 + 2 * j + i % 2, pairs >> (uint8_t)(2 * j) & 3);
    }
}

/* Third bits, that of weight 32·j + i in bit j of byte i; two bits as in Q2_K; four bits of each scale, then two. */
TYPE void unpack_q3_k(const Group *g, const unsigned char *const rows[UNPACKED_ROWS], size_t at) {
    for (size_t r = 0; r < UNPACKED_ROWS; r++) {
        const unsigned char *block = rows[r] + at;
        const uint64_t lower = u64_at(block + 96), pairs = u32_at(block + 104),
                       upper = pairs | pairs >> 2 << 32;
        for (unsigned i = 0; i < 2; i++)
            scale_eight(g->scales[r] + 8 * i, half_at(block + 108),
                        (lower >> 4 * i & every_nibble) | (upper >> 4 * i & every_pair) << 4, 32);
    }
    for (size_t i = 0; i < 4; i++) {
        Bytes pairs = load_pieces(rows, at + 32 + 16 * i), third = load_pieces(rows, at + i % 2 * 16);
        for (size_t j = 0; j < 4; j++)
            put(g, i / 2 * 8 + 2 * j + i % 2,
                (pairs >> (uint8_t)(2 * j) & 3) | (third >> (uint8_t)(i / 2 * 4 + j) & 1) << 2);
    }
}

/*
 * The scales and minima of Q4_K and Q5_K: eight of six bits each, in twelve bytes. The upper bits of the last four lie
 * above the first four.
 */
TYPE void unpack_scales_k(float *scales, float *mins, const unsigned char *block) {
    const uint64_t lower = u32_at(block + 12), each = 0x3f3f3f3f;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t first = u32_at(block + 4 + 4 * i),
                 last = (lower >> 4 * i & 0x0f0f0f0f) | (first >> 6 & 0x03030303) << 4;
        scale_eight(i ? mins : scales, half_at(block + 2 * i), (first & each) | last << 32, 0);
    }
}

/* 32 bytes hold 64 weights: the low halves, then the high ones. Q5_K: the fifth bit of weight 32·j + i in bit j of byte i. */
TYPE void unpack_q45_k(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                       size_t at) {
    for (size_t r = 0; r < UNPACKED_ROWS; r++) unpack_scales_k(g->scales[r], g->mins[r], rows[r] + at);
    for (size_t i = 0; i < 8; i++) {
        Bytes both = load_pieces(rows, at + (dtype == DTYPE_Q5_K ? 48 : 16) + 16 * i),
              fifth = dtype == DTYPE_Q5_K ? load_pieces(rows, at + 16 + i % 2 * 16) : both & 0;
        for (size_t j = 0; j < 2; j++)
            put(g, i / 2 * 4 + 2 * j + i % 2,
                (both >> (uint8_t)(4 * j) & 15) | (fifth >> (uint8_t)(i / 2 * 2 + j) & 1) << 4);
    }
}

/* Two halves, each of 64 bytes with the lower four bits of 128 weights, and 32 bytes with the upper two. */
TYPE void unpack_q6_k(const Group *g, const unsigned char *const rows[UNPACKED_ROWS], size_t at) {
    for (size_t r = 0; r < UNPACKED_ROWS; r++)
        for (size_t i = 0; i < 16; i += 8) {
            const unsigned char *block = rows[r] + at;
            scale_eight(g->scales[r] + i, half_at(block + 208), u64_at(block + 192 + i) ^ 0x8080808080808080,
                        128);
        }
    for (size_t i = 0; i < 4; i++) {
        Bytes upper = load_pieces(rows, at + 128 + 16 * i);
        for (size_t j = 0; j < 2; j++) {
            Bytes lower = load_pieces(rows, at + i / 2 * 64 + 32 * j + i % 2 * 16);
            for (size_t k = 0; k < 2; k++)
                put(g, i / 2 * 8 + 4 * k + 2 * j + i % 2,
                    (lower >> (uint8_t)(4 * k) & 15) | (upper >> (uint8_t)(4 * k + 2 * j) & 3) << 4);
        }
    }
}

/* The upper two bits of eight scales, then their lower four. */
TYPE void unpack_iq4_xs(const Group *g, const unsigned char *const rows[UNPACKED_ROWS], size_t at) {
    for (size_t r = 0; r < UNPACKED_ROWS; r++) {
        uint64_t upper = u32_at(rows[r] + at) >> 16, lower = u32_at(rows[r] + at + 4);
        upper = (upper | upper << 24) & 0x000000ff000000ff; /* spread over eight bytes */
        upper = (upper | upper << 12) & 0x000f000f000f000f;
        upper = (upper | upper << 6) & every_pair;
        lower = (lower | lower << 16) & 0x0000ffff0000ffff;
        lower = (lower | lower << 8) & 0x00ff00ff00ff00ff;
        lower = (lower | lower << 4) & every_nibble;
        scale_eight(g->scales[r], half_at(rows[r] + at), lower | upper << 4, 32);
    }
    for (size_t i = 0; i < 8; i++) {
        Bytes both = load_pieces(rows, at + 8 + 16 * i);
        put(g, 2 * i, look_up_iq4(both & 15));
        put(g, 2 * i + 1, look_up_iq4(both >> 4));
    }
}

TYPE void unpack_small_blocks(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                              size_t at, size_t cols) {
    for (size_t b = 0; b < cols / BLOCK; b++, at += small_block_bytes(dtype)) {
        unpack_small(dtype, g, b, rows, at);
        for (size_t r = 0; r < UNPACKED_ROWS; r++) {
            const unsigned char *block = rows[r] + at;
            g->scales[r][b] = dtype == DTYPE_MXFP4 ? half_of_e8m0(block[0]) : half_at(block);
            if (has_mins(dtype)) g->mins[r][b] = -half_at(block + 2);
        }
    }
}

/* cols ≤ GROUP columns from the byte `at` on, where a block begins; large blocks whole. */
static inline void unpack_group(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                                size_t at, size_t cols) {
    switch (dtype) {
        SMALL_TYPES(unpack_small_blocks, g, rows, at, cols)
    case DTYPE_Q2_K: unpack_q2_k(g, rows, at); break;
    case DTYPE_Q3_K: unpack_q3_k(g, rows, at); break;
    case DTYPE_Q4_K: unpack_q45_k(DTYPE_Q4_K, g, rows, at); break;
    case DTYPE_Q5_K: unpack_q45_k(DTYPE_Q5_K, g, rows, at); break;
    case DTYPE_Q6_K: unpack_q6_k(g, rows, at); break;
    case DTYPE_IQ4_XS: unpack_iq4_xs(g, rows, at); break;
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16: break;
    }
}

#if UNPACKED_ROWS == 1
/* A group of one row in order, and its weights as floats. */
typedef struct PlainGroup {
    uint8_t q[GROUP];
    float scales[1][GROUP_SPANS], mins[1][GROUP_SPANS];
} PlainGroup;

static inline void unpack_plainly(DType dtype, PlainGroup *g, const unsigned char *from, size_t cols) {
    unpack_group(dtype, &(Group){g->q, 16, g->scales, g->mins}, &from, 0, cols);
}

static inline void group_floats(DType dtype, float *restrict w, const PlainGroup *restrict g, size_t cols) {
    const size_t span = span_of(dtype);
    const int excess = excess_of(dtype);
    for (size_t begin = 0; begin < cols; begin += span)
        for (size_t c = begin; c < begin + span; c++) {
            float whole = g->scales[0][begin / span] * (float)((Q)g->q[c] - excess);
            w[c] = has_mins(dtype) ? whole - g->mins[0][begin / span] : whole;
        }
}
#endif

#endif
