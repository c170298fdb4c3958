/* What lanes of both widths have in common on x86-64. */
#ifndef ATTN_LANES_X86_H
#define ATTN_LANES_X86_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline float sum8(__m256 v) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Lane j of v[i] changes places with lane i of v[j]. */
static inline void transpose8(__m256 v[8]) {
    __m256 pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            fours[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0x44);
            fours[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
}

/*
 * Integers are multiplied by units of 4 bytes: four columns of a byte each, or two columns of an int16. `bytes` is how
 * many a column has. Instructions for bytes want one factor unsigned; here that is w.
 *
 * BYTE_DOT is the instruction that adds up four products of bytes (VNNI), where there is one. Without it the products
 * of bytes stay in two int16 for each unit, which have room for 32 columns with weights up to 15.
 */
#if defined(__AVX512VNNI__)
#define BYTE_DOT _mm256_dpbusd_epi32
#elif defined(__AVXVNNI__)
#define BYTE_DOT _mm256_dpbusd_avx_epi32
#endif

#endif
