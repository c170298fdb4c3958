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

#include "byte_vectors.h"
#include "compiler.h"
#include "dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    BLOCK = 32,       /* columns of a small block, and of activations that share a scale */
    GROUP = 256,      /* columns that are unpacked together: a large block, or eight small ones */
    HALF = GROUP / 2, /* whose code is opened: both halves of a block are laid out alike */
    GROUP_SPANS = GROUP / 16,
};

/* Where up to 256 columns of UNPACKED_ROWS rows go. Those of the next rows lie right behind them. */
typedef struct Group {
    uint8_t *q; /* sixteen of each row; the next sixteen lie `apart` bytes behind them */
    size_t apart;
    float *scales, *mins; /* [spans / 4][row][4], up to the next four; mins are written where has_mins */
} Group;

OPENED size_t span_of(DType dtype) {
    return dtype == DTYPE_Q2_K || dtype == DTYPE_Q3_K || dtype == DTYPE_Q6_K ? 16 : 32;
}

OPENED bool has_mins(DType dtype) {
    return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 || dtype == DTYPE_Q2_K || dtype == DTYPE_Q4_K ||
           dtype == DTYPE_Q5_K;
}

/* Whether all q are below 64; those of the other types have eight bits. */
OPENED bool is_below_64(DType dtype) {
    return dtype != DTYPE_Q8_0 && dtype != DTYPE_IQ4_NL && dtype != DTYPE_IQ4_XS;
}

/* q of eight bits: products of bytes want weights unsigned on x86-64, but signed elsewhere. */
#if defined(__aarch64__) || defined(__wasm__)
typedef int8_t Q;
enum { MIDDLE = 0 };
#else
typedef uint8_t Q;
enum { MIDDLE = 128 };
#endif

/* So much larger are q than what they stand for. */
OPENED int excess_of(DType dtype) {
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

/* Sixteen q of each row: columns [16·i, 16·i + 16). */
OPENED void put(const Group *g, size_t i, Bytes q) { memcpy(g->q + i * g->apart, &q, sizeof q); }

/* The sixteen values of E2M1 (MXFP4) doubled, with their excess. */
static const Bytes16 e2m1_values = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* Those of IQ4_NL and IQ4_XS. */
OPENED Bytes look_up_iq4(Bytes index) {
    const SignedBytes16 values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    const Bytes16 table = (Bytes16)values + MIDDLE;
    return look_up(repeat16(&table), index);
}

/* 2^(e − 128): half of what E8M0 says, because values are doubled. */
OPENED Floats halves_of_e8m0(Words e) {
    Words small = (Words)(e < 2);
    return (Floats)((small & UINT32_C(0x00200000) << (e & 1)) | (~small & (e - 1) << 23));
}

/* The F16 from the byte `at` of each piece on, four times. */
OPENED Floats half_at(Bytes pieces, uint8_t at) {
    const Bytes16 index = {0, 1, 128, 128, 0, 1, 128, 128, 0, 1, 128, 128, 0, 1, 128, 128};
    return lower_halves((Words)look_up(pieces, repeat16(&index) + at));
}

/* The scales of 4·n spans: d times bytes from `first` on, each less so much. */
OPENED void put_scales(float *to, size_t n, Floats d, Bytes bytes, uint8_t first, int less) {
    const Bytes16 index = {0, 128, 128, 128, 1, 128, 128, 128, 2, 128, 128, 128, 3, 128, 128, 128};
    for (size_t i = 0; i < n; i++, to += 4 * UNPACKED_ROWS) {
        Words words = (Words)look_up(bytes, repeat16(&index) + (uint8_t)(first + 4 * i));
        Floats scales = d * __builtin_convertvector((Integers)words - less, Floats);
        memcpy(to, &scales, sizeof scales);
    }
}

/* A constant, where the dtype is one; 0: blocks are large. */
OPENED size_t small_block_bytes(DType dtype) {
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

/* dtype_bytes of GROUP columns, as a constant where the dtype is one. */
OPENED size_t bytes_of_group(DType dtype) {
    switch (dtype) {
    case DTYPE_Q2_K: return 84;
    case DTYPE_Q3_K: return 110;
    case DTYPE_Q4_K: return 144;
    case DTYPE_Q5_K: return 176;
    case DTYPE_Q6_K: return 210;
    case DTYPE_IQ4_XS: return 136;
    default: return GROUP / BLOCK * small_block_bytes(dtype);
    }
}

/* Opens a function once for each quantised type, which is its first argument. */
#define FOR_QUANTISED(dtype, function, ...)                                                                  \
    switch (dtype) {                                                                                         \
    case DTYPE_Q4_0: function(DTYPE_Q4_0, __VA_ARGS__); break;                                               \
    case DTYPE_Q4_1: function(DTYPE_Q4_1, __VA_ARGS__); break;                                               \
    case DTYPE_Q5_0: function(DTYPE_Q5_0, __VA_ARGS__); break;                                               \
    case DTYPE_Q5_1: function(DTYPE_Q5_1, __VA_ARGS__); break;                                               \
    case DTYPE_Q8_0: function(DTYPE_Q8_0, __VA_ARGS__); break;                                               \
    case DTYPE_IQ4_NL: function(DTYPE_IQ4_NL, __VA_ARGS__); break;                                           \
    case DTYPE_MXFP4: function(DTYPE_MXFP4, __VA_ARGS__); break;                                             \
    case DTYPE_Q2_K: function(DTYPE_Q2_K, __VA_ARGS__); break;                                               \
    case DTYPE_Q3_K: function(DTYPE_Q3_K, __VA_ARGS__); break;                                               \
    case DTYPE_Q4_K: function(DTYPE_Q4_K, __VA_ARGS__); break;                                               \
    case DTYPE_Q5_K: function(DTYPE_Q5_K, __VA_ARGS__); break;                                               \
    case DTYPE_Q6_K: function(DTYPE_Q6_K, __VA_ARGS__); break;                                               \
    case DTYPE_IQ4_XS: function(DTYPE_IQ4_XS, __VA_ARGS__); break;                                           \
    case DTYPE_F32:                                                                                          \
    case DTYPE_F16:                                                                                          \
    case DTYPE_BF16:                                                                                         \
    case DTYPE_I8: break;                                                                                    \
    }

/* q, and 16 where bit i of the four bytes from `from` on is set, for the i of a half. */
OPENED Bytes add_fifth_bits(Bytes q, Bytes bits, uint8_t from, uint8_t half) {
    const Bytes16 mask = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128},
                  byte = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    bits = look_up(bits, repeat16(&byte) + (uint8_t)(from + 2 * half));
#if UNPACKED_ROWS == 4
    const __mmask64 set = _mm512_test_epi8_mask((__m512i)bits, (__m512i)repeat16(&mask));
    return (Bytes)_mm512_mask_add_epi8((__m512i)q, set, (__m512i)q, _mm512_set1_epi8(16));
#elif defined(__wasm_simd128__) /* two instructions; clang would make a choice of them, which is six */
    static const Bytes16 same = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const Bytes16 *unknown = &same;
    KEEP_ADDRESS(unknown);
    return q | (Bytes)wasm_u8x16_sub_sat((v128_t)((bits & mask) == *unknown), wasm_u8x16_splat(255 - 16));
#else
    return q | ((Bytes)((bits & repeat16(&mask)) == repeat16(&mask)) & 16);
#endif
}

OPENED bool has_fifth_bits(DType dtype) { return dtype == DTYPE_Q5_0 || dtype == DTYPE_Q5_1; }

/*
 * The integers of the small block b that begins at the byte `at`: 16 bytes whose low halves come first, but for Q8_0. All
 * is loaded before anything is put, after which a compiler would load it once more. `head` is what it begins with: scale,
 * minimum, fifth bits.
 */
OPENED void unpack_small(DType dtype, const Group *g, size_t b,
                         const unsigned char *const rows[UNPACKED_ROWS], size_t at, Bytes head) {
    const bool whole = dtype == DTYPE_Q8_0;
    const size_t end = at + small_block_bytes(dtype);
    const Bytes first = load_pieces(rows, end - (whole ? 32 : 16)), last = load_pieces(rows, end - 16);
    for (uint8_t half = 0; half < 2; half++) {
        Bytes q = whole ? (half ? last : first) + MIDDLE : from_bit(first, 4 * half) & 15;
        if (has_fifth_bits(dtype)) q = add_fifth_bits(q, head, has_mins(dtype) ? 4 : 2, half);
        if (dtype == DTYPE_IQ4_NL) q = look_up_iq4(q);
        if (dtype == DTYPE_MXFP4) q = look_up(repeat16(&e2m1_values), q);
        put(g, 2 * b + half, q);
    }
}

/*
 * The scales and minima of Q4_K and Q5_K: eight of six bits each, in twelve bytes. The upper bits of the last four lie
 * above the first four.
 */
OPENED void unpack_scales_q45_k(const Group *g, Bytes head) {
    const Bytes16 lower = {4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15},
                  upper = {128, 128, 128, 128, 4, 5, 6, 7, 128, 128, 128, 128, 8, 9, 10, 11};
    Words low = (Words)look_up(head, repeat16(&lower)) >> repeat_words(0, 0, 0, 4),
          high = (Words)look_up(head, repeat16(&upper)) >> 2 & 0x30303030;
    Bytes both = (Bytes)((low & repeat_words(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f)) | high);
    put_scales(g->scales, 2, half_at(head, 0), both, 0, 0);
    put_scales(g->mins, 2, half_at(head, 2), both, 8, 0);
}

/* Four bits of each scale, the last eight above the first ones; then two bits of each. */
OPENED void unpack_scales_q3_k(const Group *g, Bytes last) {
    const Bytes16 lower = {2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9},
                  upper = {10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13};
    Words nibbles = (Words)look_up(last, repeat16(&lower)) >> repeat_words(0, 0, 4, 4),
          seconds = (Words)look_up(last, repeat16(&upper)) >> repeat_words(0, 2, 4, 6);
    put_scales(g->scales, 4, half_at(last, 14), with_bits((Bytes)nibbles & 15, raised((Bytes)seconds, 4), 48),
               0, 32);
}

/* The upper two bits of eight scales, then their lower four. */
OPENED void unpack_scales_iq4_xs(const Group *g, Bytes head) {
    const Bytes16 lower = {4, 4, 5, 5, 6, 6, 7, 7}, upper = {2, 2, 2, 2, 3, 3, 3, 3};
    Words low = (Words)look_up(head, repeat16(&lower)), high = (Words)look_up(head, repeat16(&upper));
    low = (low & 0x000f000f) | (low >> 4 & 0x0f000f00);
    high = (high & 3) << 4 | (high & 0x0c00) << 2 | (high & 0x300000) | (high & 0xc0000000) >> 2;
    put_scales(g->scales, 2, half_at(head, 0), (Bytes)(low | high), 0, 32);
}

/* The scales and minima of a large block, which begins at the byte `at`; small blocks have theirs beside their integers. */
OPENED void unpack_scales(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                          size_t at) {
    switch (dtype) {
    case DTYPE_Q2_K: { /* four bits of each scale, above them four of its minimum */
        const Bytes nibbles = load_pieces(rows, at), last = load_pieces(rows, at + 68);
        put_scales(g->scales, 4, half_at(last, 12), nibbles & 15, 0, 0);
        put_scales(g->mins, 4, half_at(last, 14), nibbles >> 4, 0, 0);
        break;
    }
    case DTYPE_Q3_K: unpack_scales_q3_k(g, load_pieces(rows, at + 94)); break;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: unpack_scales_q45_k(g, load_pieces(rows, at)); break;
    case DTYPE_Q6_K:
        put_scales(g->scales, 4, half_at(load_pieces(rows, at + 194), 14), load_pieces(rows, at + 192) ^ 128,
                   0, 128);
        break;
    case DTYPE_IQ4_XS: unpack_scales_iq4_xs(g, load_pieces(rows, at)); break;
    default: break;
    }
}

/*
 * Q2_K and Q3_K: four times 32 weights of two bits in 32 bytes, for each half. Q3_K: the third bit of weight 32·j + i lies in
 * bit j of byte i of the block.
 */
OPENED void unpack_q23_k(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                         size_t at, size_t half) {
#pragma GCC unroll 8
    for (size_t i = 0; i < 2; i++) {
        const Bytes pairs = load_pieces(rows, at + (dtype == DTYPE_Q2_K ? 16 : 32) + 32 * half + 16 * i),
                    thirds = raised(from_bit(load_pieces(rows, at + 16 * i), 4 * half), 2);
#pragma GCC unroll 8
        for (size_t j = 0; j < 4; j++) {
            Bytes q = from_bit(pairs, 2 * j) & 3;
            if (dtype == DTYPE_Q3_K) q = with_bits(q, from_bit(thirds, j), 4);
            put(g, 2 * j + i, q);
        }
    }
}

/* 32 bytes hold 64 weights: the low halves, then the high ones. Q5_K: the fifth bit of weight 32·j + i in bit j of byte i. */
OPENED void unpack_q45_k(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                         size_t at, size_t half) {
    const Bytes fifths[] = {raised(from_bit(load_pieces(rows, at + 16), 4 * half), 4),
                            raised(from_bit(load_pieces(rows, at + 32), 4 * half), 4)};
#pragma GCC unroll 8
    for (size_t i = 0; i < 4; i++) {
        Bytes both = load_pieces(rows, at + (dtype == DTYPE_Q5_K ? 48 : 16) + 64 * half + 16 * i);
#pragma GCC unroll 8
        for (size_t j = 0; j < 2; j++) {
            Bytes q = from_bit(both, 4 * j) & 15;
            if (dtype == DTYPE_Q5_K) q = with_bits(q, from_bit(fifths[i % 2], i / 2 * 2 + j), 16);
            put(g, i / 2 * 4 + 2 * j + i % 2, q);
        }
    }
}

/* 64 bytes of each half with the lower four bits of its weights; behind all of these, 32 bytes of each with the upper two. */
OPENED void unpack_q6_k(const Group *g, const unsigned char *const rows[UNPACKED_ROWS], size_t at,
                        size_t half) {
#pragma GCC unroll 8
    for (size_t i = 0; i < 2; i++) {
        Bytes upper = load_pieces(rows, at + 128 + 32 * half + 16 * i);
#pragma GCC unroll 8
        for (size_t j = 0; j < 2; j++) {
            Bytes lower = load_pieces(rows, at + 64 * half + 32 * j + 16 * i);
            put(g, 2 * j + i, with_bits(lower & 15, raised(upper, 4 - 2 * j), 48));
            put(g, 4 + 2 * j + i, with_bits(from_bit(lower, 4) & 15, from_bit(upper, 2 * j), 48));
        }
    }
}

OPENED void unpack_iq4_xs(const Group *g, const unsigned char *const rows[UNPACKED_ROWS], size_t at,
                          size_t half) {
#pragma GCC unroll 8
    for (size_t i = 0; i < 4; i++) {
        Bytes both = load_pieces(rows, at + 8 + 64 * half + 16 * i);
        put(g, 2 * i, look_up_iq4(both & 15));
        put(g, 2 * i + 1, look_up_iq4(from_bit(both, 4) & 15));
    }
}

/* Of four blocks, the first of which is block b. */
OPENED void put_small_scales(DType dtype, const Group *g, size_t b, Words head) {
    const Floats scales = dtype == DTYPE_MXFP4 ? halves_of_e8m0(head & 255) : lower_halves(head),
                 mins = -lower_halves(head >> 16);
    memcpy(g->scales + b * UNPACKED_ROWS, &scales, sizeof scales);
    if (has_mins(dtype)) memcpy(g->mins + b * UNPACKED_ROWS, &mins, sizeof mins);
}

/* Heads that hold fifth bits, too, are loaded once. */
OPENED void unpack_small_blocks(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                                size_t at, size_t cols) {
    const size_t block = small_block_bytes(dtype), n = cols / BLOCK;
    if (has_fifth_bits(dtype)) {
        for (size_t b = 0; b < n; b += 4) {
            Words heads[4];
            for (size_t j = 0; j < 4; j++) {
                heads[j] = b + j < n ? (Words)load_pieces(rows, at + (b + j) * block) : heads[j - 1];
                if (b + j < n) unpack_small(dtype, g, b + j, rows, at + (b + j) * block, (Bytes)heads[j]);
            }
            put_small_scales(dtype, g, b, first_words(heads));
        }
        return;
    }
    for (size_t b = 0; b < n; b++) unpack_small(dtype, g, b, rows, at + b * block, (Bytes){0});
    for (size_t b = 0; b < n; b += 4) {
        size_t heads[4];
        for (size_t j = 0; j < 4; j++) heads[j] = at + (b + j < n ? b + j : n - 1) * block;
        put_small_scales(dtype, g, b, load_words(rows, heads));
    }
}

/*
 * cols ≤ HALF columns, large blocks' HALF: of a group that begins at the byte `at`, its first half or its second. Forced open,
 * for one type.
 */
OPENED void unpack_half(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                        size_t at, size_t half, size_t cols) {
    switch (dtype) {
    case DTYPE_Q2_K:
    case DTYPE_Q3_K: unpack_q23_k(dtype, g, rows, at, half); break;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: unpack_q45_k(dtype, g, rows, at, half); break;
    case DTYPE_Q6_K: unpack_q6_k(g, rows, at, half); break;
    case DTYPE_IQ4_XS: unpack_iq4_xs(g, rows, at, half); break;
    default: unpack_small_blocks(dtype, g, rows, at + half * (HALF / BLOCK) * small_block_bytes(dtype), cols);
    }
}

/* cols ≤ GROUP columns from the byte `at` on, where a block begins; large blocks whole. */
OPENED void unpack_type(DType dtype, const Group *g, const unsigned char *const rows[UNPACKED_ROWS],
                        size_t at, size_t cols) {
    const size_t scales = HALF / span_of(dtype) * UNPACKED_ROWS;
    Group part = *g;
    unpack_scales(dtype, g, rows, at);
    for (size_t half = 0; half * HALF < cols; half++) {
        KEEP_LOOP(half);
        const size_t left = cols - half * HALF;
        if (left >= HALF)
            unpack_half(dtype, &part, rows, at, half, HALF);
        else
            unpack_half(dtype, &part, rows, at, half, left);
        part.q += HALF / 16 * part.apart, part.scales += scales, part.mins += scales;
    }
}

/*
 * For any type. Compiled once for each number of rows, by the file that says so before it includes this: dtype.c, avx2.c,
 * avx512.c. amx.h has its own, which is static.
 */
#if UNPACKED_ROWS == 4
#define unpack_groups unpack_groups_of_4
#elif UNPACKED_ROWS == 2
#define unpack_groups unpack_groups_of_2
#endif
#define UNPACK_GROUPS(linkage)                                                                               \
    linkage void unpack_groups(DType dtype, const Group *group, size_t n, const unsigned char *const *rows,  \
                               size_t at, size_t cols)
#ifndef HAS_UNPACK_GROUPS
UNPACK_GROUPS(extern);
#else
OPENED void unpack_groups_of(DType dtype, Group g, size_t n, const unsigned char *const *from, size_t at,
                             size_t cols) {
    for (; n; n--, from += UNPACKED_ROWS) {
        const unsigned char *rows[UNPACKED_ROWS];
        for (size_t i = 0; i < UNPACKED_ROWS; i++) rows[i] = from[i];
        unpack_type(dtype, &g, rows, at, cols);
        g.q += 16 * UNPACKED_ROWS;
        g.scales += GROUP_SPANS * UNPACKED_ROWS;
        g.mins += GROUP_SPANS * UNPACKED_ROWS;
    }
}

UNPACK_GROUPS(HAS_UNPACK_GROUPS);
ALONE UNPACK_GROUPS(HAS_UNPACK_GROUPS) { FOR_QUANTISED(dtype, unpack_groups_of, *group, n, rows, at, cols) }
#endif

/* Sixteen weights of a span as floats. */
static inline void span_floats(DType dtype, float *restrict w, const uint8_t *restrict q, float scale,
                               float min) {
    const int excess = excess_of(dtype);
    const float less = has_mins(dtype) ? min : 0;
    for (size_t c = 0; c < 16; c++) w[c] = scale * (float)((Q)q[c] - excess) - less;
}

#if UNPACKED_ROWS == 1
/* A group of one row in order, and its weights as floats. */
typedef struct PlainGroup {
    uint8_t q[GROUP];
    float scales[GROUP_SPANS], mins[GROUP_SPANS];
} PlainGroup;

static inline void unpack_plainly(DType dtype, PlainGroup *g, const unsigned char *from, size_t cols) {
    unpack_groups(dtype, &(Group){g->q, 16, g->scales, g->mins}, 1, &from, 0, cols);
}

static inline void group_floats(DType dtype, float *restrict w, const PlainGroup *restrict g, size_t cols) {
    const size_t span = span_of(dtype);
    for (size_t c = 0; c < cols; c += 16)
        span_floats(dtype, w + c, g->q + c, g->scales[c / span], g->mins[c / span]);
}
#endif

#endif
