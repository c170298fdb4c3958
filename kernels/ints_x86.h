/*
 * Integers on x86-64. Instructions for bytes want one factor unsigned; here that is the weight, with its excess. What
 * this adds to a span's sum, excess·Σ q, is what the sum begins with, negative.
 */
#ifndef ATTN_INTS_X86_H
#define ATTN_INTS_X86_H

#include "blocks.h"
#include "lanes.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LARGEST_Q(bytes) ((bytes) == 1 ? 127 : 32767)

OPENED size_t part_bytes(size_t bytes) { return bytes; } /* there is one part */
OPENED Ints next_part(Ints dots) { return dots; }

OPENED void store32(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }

/* The four lanes of each half, added up. */
OPENED void add_halves(int32_t halves[2], __m256i v) {
    v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
    v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
    halves[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(v));
    halves[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(v, 1));
}

OPENED float largest_of(const float *x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i four = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) /* the bits of non-negative floats order as integers do, NaN above all */
        four = _mm256_max_epi32(four,
                                _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)), magnitude));
    __m128i two = _mm_max_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0x4e));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(two));
}

/* Sixteen columns of int16: even ones, then odd ones, as bytes become int16 by a mask and by a shift. */
OPENED __m256i halves_apart(__m256i columns) {
    const __m256i even_first =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(columns, even_first), 0xd8);
}

OPENED void round_to(size_t bytes, size_t span, unsigned char *q, int32_t halves[2], const float *x,
                     float factor) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256 factors = _mm256_set1_ps(factor);
    __m256i v[4];
    (void)span;
    for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factors));
    __m256i low = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xd8),
            high = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[2], v[3]), 0xd8),
            low_sums = _mm256_madd_epi16(low, ones), high_sums = _mm256_madd_epi16(high, ones);
    add_halves(halves, _mm256_add_epi32(_mm256_permute2x128_si256(low_sums, high_sums, 0x20),
                                        _mm256_permute2x128_si256(low_sums, high_sums, 0x31)));
    if (bytes == 1) {
        store32(q, _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8));
    } else {
        store32(q, halves_apart(low));
        store32(q + 32, halves_apart(high));
    }
}

/* Chunk i of a strip: sixteen columns of each row, or eight of them as int16, every other one. */
OPENED Ints strip_chunk(size_t bytes, const Group *strip, size_t i) {
    return bytes == 1 ? ints_load(strip->q + i * strip->apart)
                      : ints_widen(ints_load(strip->q + i / 2 * strip->apart), i % 2);
}

/* Turns sixteen columns as they lie in a panel, so many rows apart, into twice as many of eight columns as int16. */
OPENED void widen(unsigned char *to, const unsigned char *from, size_t n_rows, size_t columns) {
    for (size_t c = 0; c < columns; c++, to += n_rows * 16)
        for (size_t r = 0; r < n_rows; r += LANES / 4, from += LANES * 4, to += LANES * 4) {
            const Vec even = vec_of_bits(ints_widen(ints_load(from), 0)),
                      odd = vec_of_bits(ints_widen(ints_load(from), 1));
            vec_store((float *)(void *)to, even);
            vec_store((float *)(void *)(to + n_rows * 16), odd);
        }
}

#endif
