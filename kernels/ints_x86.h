/*
 * Integers on x86-64. Instructions for bytes want one factor unsigned, so weights are EXCESS(dtype, bytes) too large,
 * as nibbles are anyway. What this adds to a block's product, EXCESS·Σ q, is what the product begins with, negative.
 */
#ifndef ATTN_INTS_X86_H
#define ATTN_INTS_X86_H

#include "packed_ints.h"

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LARGEST_Q(bytes) ((bytes) == 1 ? 127 : 32767)
#define EXCESS(dtype, bytes) ((dtype) == DTYPE_Q4_0 ? 8 : (bytes) == 1 ? 128 : 0)

OPENED __m128i load16(const unsigned char *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
OPENED __m256i load32(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
OPENED void store32(unsigned char *p, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)p, v); }

OPENED __m256i add_dots(size_t bytes, __m256i a, __m256i b) {
    return in_int16(bytes) ? _mm256_add_epi16(a, b) : _mm256_add_epi32(a, b);
}

OPENED __m256i hadd_dots(size_t bytes, __m256i a, __m256i b) {
    return in_int16(bytes) ? _mm256_hadd_epi16(a, b) : _mm256_hadd_epi32(a, b);
}

/* −EXCESS·Σ q, as the unit that a sum begins with. */
OPENED int32_t start_of(DType dtype, size_t bytes, const unsigned char *q) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i dots;
    if (bytes == 1) {
        dots = dot8(bytes, _mm256_set1_epi8((char)EXCESS(dtype, bytes)), _mm256_sub_epi8(zero, load32(q)));
    } else {
        __m256i excess = _mm256_set1_epi16(EXCESS(dtype, bytes));
        __m256i first = dot8(bytes, excess, _mm256_sub_epi16(zero, load32(q)));
        dots = add_dots(bytes, first, dot8(bytes, excess, _mm256_sub_epi16(zero, load32(q + 32))));
    }
    dots = add_dots(bytes, dots, _mm256_permute4x64_epi64(dots, 0x4e));
    dots = add_dots(bytes, dots, _mm256_shuffle_epi32(dots, 0x4e));
    dots = add_dots(bytes, dots, _mm256_shuffle_epi32(dots, 0xb1));
    return _mm_cvtsi128_si32(_mm256_castsi256_si128(dots));
}

OPENED float round_block(DType dtype, size_t bytes, unsigned char *q, int32_t *start, const float *x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    const float max_q = LARGEST_Q(bytes);
    __m256i four = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) /* the bits of non-negative floats order as integers do, NaN above all */
        four = _mm256_max_epi32(four,
                                _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)), magnitude));
    __m128i two = _mm_max_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0x4e));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1));
    float max = _mm_cvtss_f32(_mm_castsi128_ps(two));
    memset(q, 0, BLOCK * bytes);
    *start = 0;
    if (!isfinite(max)) return NAN;
    if (max < 0x1p-100f) return 0; /* or 1/d would overflow */
    __m256 factor = _mm256_set1_ps(max_q / max);
    __m256i v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
    __m256i low = _mm256_packs_epi32(v[0], v[1]), high = _mm256_packs_epi32(v[2], v[3]); /* within 128 bits */
    if (bytes == 1) {
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        store32(q, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
    } else {
        store32(q, _mm256_permute4x64_epi64(low, 0xd8));
        store32(q + 32, _mm256_permute4x64_epi64(high, 0xd8));
    }
    if (EXCESS(dtype, bytes)) *start = start_of(dtype, bytes, q);
    return max / max_q;
}

/* A block's 32 weights, with their excess: as bytes in w[0], or as int16 in both. */
OPENED void load_ints(DType dtype, size_t bytes, __m256i w[2], const unsigned char *block) {
    const unsigned char *from = block + 2;
    if (dtype == DTYPE_Q4_0 && bytes == 1) {
        __m128i nibbles = load16(from);
        w[0] = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(nibbles, 4), nibbles), _mm256_set1_epi8(15));
    } else if (dtype == DTYPE_Q4_0) {
        __m256i nibbles = _mm256_cvtepu8_epi16(load16(from));
        w[0] = _mm256_and_si256(nibbles, _mm256_set1_epi16(15));
        w[1] = _mm256_srli_epi16(nibbles, 4);
    } else if (bytes == 1) {
        w[0] = _mm256_xor_si256(load32(from), _mm256_set1_epi8((char)EXCESS(dtype, bytes)));
    } else {
        w[0] = _mm256_cvtepi8_epi16(load16(from));
        w[1] = _mm256_cvtepi8_epi16(load16(from + 16));
    }
}

/* The scales with which n ≤ 8 blocks begin, 0 for the others. */
OPENED __m256 load_scales(const unsigned char *blocks, size_t block_bytes, size_t n) {
    int16_t half[8] = {0};
    for (size_t i = 0; i < 8; i++)
        if (i < n) memcpy(&half[i], blocks + i * block_bytes, sizeof half[i]);
    return _mm256_cvtph_ps(
        _mm_setr_epi16(half[0], half[1], half[2], half[3], half[4], half[5], half[6], half[7]));
}

/* sums[k] += n ≤ 8 blocks of row k times those of one token; b is a multiple of 8. */
OPENED void dot_blocks(DType dtype, size_t bytes, __m256 sums[MATVEC_STREAMS], const Streams *streams,
                       const PackedInts *x, size_t b, size_t n) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
    float d[MATVEC_STREAMS][8];
    for (size_t k = 0; k < MATVEC_STREAMS; k++) {
        __m256 scales = load_scales(streams->rows[k] + b * block_bytes, block_bytes, n);
        scales = _mm256_mul_ps(scales, _mm256_loadu_ps(x->d + b));
        _mm256_storeu_ps(d[k], scales);
        if (EXCESS(dtype, bytes))
            sums[k] = _mm256_fmadd_ps(scales, total8(bytes, load32(x->start + b)), sums[k]);
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned char *q = x->q + (b + i) * BLOCK * bytes;
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            const unsigned char *block = streams->rows[k] + (b + i) * block_bytes;
            __m256i w[2], dots;
            fetch(block + streams->ahead, 1);
            load_ints(dtype, bytes, w, block);
            dots = dot8(bytes, w[0], load32(q));
            if (bytes == 2) dots = add_dots(bytes, dots, dot8(bytes, w[1], load32(q + 32)));
            sums[k] = _mm256_fmadd_ps(total8(bytes, dots), _mm256_set1_ps(d[k][i]), sums[k]);
        }
    }
}

/*
 * Q4_0 in fewer operations, eight blocks at a time: a vector holds halves of BESIDE blocks, 8/BESIDE apart, whose q's
 * were put beside each other by arrange_alone. All products end in one vector, as all scales do.
 */
#ifdef WIDE_BYTE_DOT
enum { BESIDE = 4 };
#else
enum { BESIDE = 2 };
#endif

/* Two scales come with each load, from a place where they lie in the 32-bit lanes that the blends keep. */
OPENED __m256 load_scales_q4(const unsigned char *blocks) {
    const size_t apart = 2 * BLOCK_BYTES(DTYPE_Q4_0) - 4;
    __m256i two = load32(blocks);
    two = _mm256_blend_epi32(two, load32(blocks + apart), 0x22);
    two = _mm256_blend_epi32(two, load32(blocks + 2 * apart), 0x44);
    two = _mm256_blend_epi32(two, load32(blocks + 3 * apart), 0x88);
    return _mm256_cvtph_ps(
        _mm_blend_epi16(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1), 0xaa));
}

#ifdef WIDE_BYTE_DOT
/* Each quarter holds a block's product, in four sums. */
OPENED __m512i dot_four_q4(const unsigned char *block, const unsigned char *q) {
    const size_t apart = 2 * BLOCK_BYTES(DTYPE_Q4_0);
    const __m512i low = _mm512_set1_epi8(15);
    __m512i nibbles = _mm512_castsi128_si512(load16(block + 2));
    nibbles = _mm512_inserti32x4(nibbles, load16(block + apart + 2), 1);
    nibbles = _mm512_inserti32x4(nibbles, load16(block + 2 * apart + 2), 2);
    nibbles = _mm512_inserti32x4(nibbles, load16(block + 3 * apart + 2), 3);
    __m512i first = _mm512_and_si512(nibbles, low),
            last = _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), low),
            dots = WIDE_BYTE_DOT(_mm512_setzero_si512(), first, _mm512_loadu_si512(q));
    return WIDE_BYTE_DOT(dots, last, _mm512_loadu_si512(q + 64));
}

/* sums[k] += all eights of blocks of row k times those of one token; returns how many blocks that was. */
OPENED size_t dot_eights_q4(__m256 sums[MATVEC_STREAMS], const Streams *streams, const PackedInts *x,
                            size_t blocks) {
    const size_t block_bytes = BLOCK_BYTES(DTYPE_Q4_0);
    const __m512i twice = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3); /* two scales, in each quarter */
    __m512 wide[MATVEC_STREAMS];
    size_t b = 0;
    for (size_t k = 0; k < MATVEC_STREAMS; k++) wide[k] = _mm512_setzero_ps();
    for (; b + 8 <= blocks; b += 8)
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            const unsigned char *at = streams->rows[k] + b * block_bytes, *q = x->q + b * BLOCK;
            fetch(at + streams->ahead, 8 * block_bytes);
            __m512i even = dot_four_q4(at, q), odd = dot_four_q4(at + block_bytes, q + 4 * BLOCK),
                    dots =
                        _mm512_add_epi32(_mm512_unpacklo_epi32(even, odd), _mm512_unpackhi_epi32(even, odd));
            __m256 scales = _mm256_mul_ps(load_scales_q4(at), _mm256_loadu_ps(x->d + b));
            __m512d spread = _mm512_permutexvar_pd(twice, _mm512_castpd256_pd512(_mm256_castps_pd(scales)));
            sums[k] = _mm256_fmadd_ps(scales, _mm256_cvtepi32_ps(load32(x->start + b)), sums[k]);
            wide[k] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_castpd_ps(spread), wide[k]);
        }
    for (size_t k = 0; k < MATVEC_STREAMS; k++) {
        __m256 high = _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(wide[k]), 1));
        sums[k] = _mm256_add_ps(sums[k], _mm256_add_ps(_mm512_castps512_ps256(wide[k]), high));
    }
    return b;
}
#else
OPENED __m256i dot_two_q4(const unsigned char *block, const unsigned char *q) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i nibbles = _mm256_set_m128i(load16(block + 4 * BLOCK_BYTES(DTYPE_Q4_0) + 2), load16(block + 2));
    __m256i first = dot8(1, _mm256_and_si256(nibbles, low), load32(q));
    __m256i last = dot8(1, _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), low), load32(q + 32));
    return add_dots(1, first, last);
}

/* sums[k] += all eights of blocks of row k times those of one token; returns how many blocks that was. */
OPENED size_t dot_eights_q4(__m256 sums[MATVEC_STREAMS], const Streams *streams, const PackedInts *x,
                            size_t blocks) {
    const size_t block_bytes = BLOCK_BYTES(DTYPE_Q4_0);
    size_t b = 0;
    for (; b + 8 <= blocks; b += 8)
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            const unsigned char *at = streams->rows[k] + b * block_bytes, *q = x->q + b * BLOCK;
            __m256i dots[4];
            fetch(at + streams->ahead, 8 * block_bytes);
            for (size_t i = 0; i < 4; i++) dots[i] = dot_two_q4(at + i * block_bytes, q + i * 2 * BLOCK);
            __m256i eight = hadd_dots(1, hadd_dots(1, dots[0], dots[1]), hadd_dots(1, dots[2], dots[3]));
            /*
             * Without BYTE_DOT an int16 of a block's dots is about other columns than that of its start: eight of
             * them are in both (8·127 each at most), eight in the first (15·127), eight in the second (8·127). It
             * fits.
             */
            eight = add_dots(1, eight, load32(x->start + b));
            __m256 scales = _mm256_mul_ps(load_scales_q4(at), _mm256_loadu_ps(x->d + b));
            sums[k] = _mm256_fmadd_ps(total8(1, eight), scales, sums[k]);
        }
    return b;
}
#endif

/* Of eight blocks [half][16], as [block mod 8/BESIDE][half][block / (8/BESIDE)][16]. */
OPENED void arrange_alone(DType dtype, size_t bytes, const PackedInts *x, size_t blocks) {
    const size_t apart = 8 / BESIDE;
    if (dtype != DTYPE_Q4_0 || bytes != 1) return;
    for (size_t b = 0; b + 8 <= blocks; b += 8) {
        unsigned char natural[8 * BLOCK], *q = x->q + b * BLOCK;
        memcpy(natural, q, sizeof natural);
        for (size_t i = 0; i < 8; i++)
            for (size_t half = 0; half < 2; half++)
                memcpy(q + ((i % apart * 2 + half) * BESIDE + i / apart) * 16, natural + (2 * i + half) * 16,
                       16);
    }
}

OPENED void dot_ints(DType dtype, size_t bytes, float dots[MATVEC_STREAMS], const Streams *streams,
                     const PackedInts *x, size_t blocks) {
    __m256 sums[MATVEC_STREAMS];
    size_t b = 0;
    for (size_t k = 0; k < MATVEC_STREAMS; k++) sums[k] = _mm256_setzero_ps();
    if (dtype == DTYPE_Q4_0 && bytes == 1) b = dot_eights_q4(sums, streams, x, blocks);
    for (; b + 8 <= blocks; b += 8) dot_blocks(dtype, bytes, sums, streams, x, b, 8);
    if (b < blocks) dot_blocks(dtype, bytes, sums, streams, x, b, blocks - b);
    for (size_t k = 0; k < MATVEC_STREAMS; k++) dots[k] = sum8(sums[k]);
}

/* Blocks [begin, end) of ROWS rows as panel[block][unit][ROWS][4], and their scales[block][ROWS]. */
OPENED void unpack_ints_panel(DType dtype, size_t bytes, unsigned char *panel, float *scales,
                              const unsigned char *const rows[ROWS], size_t begin, size_t end) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
    for (size_t b = begin; b < end; b++, panel += BLOCK * bytes * ROWS, scales += ROWS)
        for (size_t eight = 0; eight < ROWS; eight += 8) {
            __m256 units[2][8];
            for (size_t i = 0; i < 8; i++) {
                const unsigned char *block = rows[eight + i] + b * block_bytes;
                __m256i w[2];
                load_ints(dtype, bytes, w, block);
                for (size_t half = 0; half < bytes; half++) units[half][i] = _mm256_castsi256_ps(w[half]);
                scales[eight + i] = block_scale(block);
            }
            for (size_t half = 0; half < bytes; half++) {
                transpose8(units[half]);
                for (size_t i = 0; i < 8; i++)
                    _mm256_storeu_ps((float *)(void *)(panel + ((8 * half + i) * ROWS + eight) * 4),
                                     units[half][i]);
            }
        }
}

/* y[t][r] = start[r] + Σ_block scale[r]·d[t]·(start[t] + Σ_unit panel[unit][r]·q[t][unit]). */
OPENED void micro_ints(size_t tokens, size_t bytes, const MicroSums *y, const unsigned char *panel,
                       const float *scales, const PackedInts *x, size_t begin, size_t end) {
    const size_t q_bytes = BLOCK * bytes;
    Vec totals[2 * TOKENS];
    load_sums(totals, y, tokens);
    for (size_t b = begin; b < end; b++, scales += ROWS) {
        const unsigned char *q = x->q + b * tokens * q_bytes;
        Ints sums[2 * TOKENS];
        for (size_t i = 0; i < 2 * tokens; i++) sums[i] = ints_spread(x->start + b * tokens + i / 2);
#pragma GCC unroll 8
        for (size_t byte = 0; byte < q_bytes; byte += 4, panel += 4 * ROWS) {
            Ints w0 = ints_load(panel), w1 = ints_load(panel + 4 * LANES);
            KEEP_IN_REGISTER(w0);
            KEEP_IN_REGISTER(w1);
            for (size_t t = 0; t < tokens; t++) {
                Ints xs = ints_spread(q + t * q_bytes + byte);
                sums[2 * t] = ints_dot(bytes, sums[2 * t], w0, xs);
                KEEP_IN_REGISTER(sums[2 * t]);
                sums[2 * t + 1] = ints_dot(bytes, sums[2 * t + 1], w1, xs);
                KEEP_IN_REGISTER(sums[2 * t + 1]);
            }
        }
        for (size_t i = 0; i < 2 * tokens; i++) {
            Vec scale = vec_mul(vec_load(scales + i % 2 * LANES), vec_set(x->d[b * tokens + i / 2]));
            totals[i] = vec_fma(ints_total(bytes, sums[i]), scale, totals[i]);
        }
    }
    store_sums(y, totals, tokens);
}

#endif
