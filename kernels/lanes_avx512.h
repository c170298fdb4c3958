/* Lanes of x86-64 with AVX-512 (F, BW, DQ, VL): sixteen floats at once, thirty-two registers. */
#ifndef ATTN_LANES_AVX512_H
#define ATTN_LANES_AVX512_H

#include "compiler.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED(name) avx512_##name

enum { LANES = 16 };

typedef __m512 Vec;
typedef __m512i Ints;

static inline __mmask16 first_lanes(size_t n) { return (__mmask16)((1u << n) - 1); }

static inline Vec vec_set(float a) { return _mm512_set1_ps(a); }
static inline Vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
static inline Vec vec_load_first(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
static inline void vec_store(float *p, Vec v) { _mm512_storeu_ps(p, v); }
static inline void vec_store_first(float *p, Vec v, size_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
static inline Vec vec_add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static inline Vec vec_sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
static inline Vec vec_mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static inline Vec vec_div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
static inline Vec vec_min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
static inline Vec vec_max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline Vec vec_fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
static inline Vec vec_round(Vec v) {
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline Vec vec_ldexp(Vec v, Vec k) { return _mm512_scalef_ps(v, k); }

static inline float vec_sum(Vec v) { return _mm512_reduce_add_ps(v); }

OPENED void vec_turn(Vec v[4]) {
    const __m512 low[2] = {_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpacklo_ps(v[2], v[3])},
                 high[2] = {_mm512_unpackhi_ps(v[0], v[1]), _mm512_unpackhi_ps(v[2], v[3])};
    v[0] = _mm512_shuffle_ps(low[0], low[1], 0x44);
    v[1] = _mm512_shuffle_ps(low[0], low[1], 0xee);
    v[2] = _mm512_shuffle_ps(high[0], high[1], 0x44);
    v[3] = _mm512_shuffle_ps(high[0], high[1], 0xee);
}

/* Forced open, because gcc would call it, and all sixteen vectors would go through memory, to and fro. */
OPENED void vec_transpose(Vec v[LANES]) {
    __m512 eights[LANES];
    for (int i = 0; i < LANES; i += 4) vec_turn(v + i);
    /* v[4a + b] holds, in its quarter c, column 4c + b of rows 4a to 4a + 3. */
    for (int i = 0; i < LANES; i += 8)
        for (int j = 0; j < 4; j++) {
            eights[i + j] = _mm512_shuffle_f32x4(v[i + j], v[i + j + 4], 0x88);
            eights[i + j + 4] = _mm512_shuffle_f32x4(v[i + j], v[i + j + 4], 0xdd);
        }
    for (int j = 0; j < 4; j++) {
        v[j] = _mm512_shuffle_f32x4(eights[j], eights[j + 8], 0x88);
        v[j + 8] = _mm512_shuffle_f32x4(eights[j], eights[j + 8], 0xdd);
        v[j + 4] = _mm512_shuffle_f32x4(eights[j + 4], eights[j + 12], 0x88);
        v[j + 12] = _mm512_shuffle_f32x4(eights[j + 4], eights[j + 12], 0xdd);
    }
}

static inline Vec vec_from_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }

static inline Vec vec_from_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}

static inline Vec vec_from_int8(const void *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}

static inline void vec_to_f16(uint16_t *p, Vec v) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline Ints ints_widen(Ints v, size_t i) {
    return i ? _mm512_srli_epi16(v, 8) : _mm512_and_si512(v, _mm512_set1_epi16(255));
}
static inline Ints ints_load(const void *p) { return _mm512_loadu_si512(p); }
static inline Ints ints_set(int32_t a) { return _mm512_set1_epi32(a); }
static inline Ints ints_add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
static inline Ints ints_spread(const void *p) {
    return _mm512_castps_si512(_mm512_set1_ps(*(const float *)p));
}
static inline Ints ints_repeat(const void *p) { return _mm512_broadcast_i32x4(_mm_loadu_si128(p)); }
static inline Vec vec_repeat(const float *p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
static inline Vec vec_of_bits(Ints v) { return _mm512_castsi512_ps(v); }
static inline Ints ints_of_bits(Vec v) { return _mm512_castps_si512(v); }

/* Bytes only where there is VNNI. */
static inline Ints ints_dot(size_t bytes, Ints dots, Ints w, Ints x) {
#ifdef __AVX512VNNI__
    if (bytes == 1) return _mm512_dpbusd_epi32(dots, w, x);
#endif
    (void)bytes;
    return _mm512_add_epi32(dots, _mm512_madd_epi16(w, x));
}

/* In assembly, because gcc would spread x by an instruction of its own. */
#if defined(__AVX512VNNI__) && !defined(EMULATED_AVX512)
#define HAS_DOT_SPREAD
static inline Ints ints_dot_spread(size_t bytes, bool first, Ints dots, Ints w, const void *x) {
    (void)first;
    if (bytes == 2) return ints_dot(2, dots, w, ints_spread(x));
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(dots) : "v"(w), "m"(*(const int32_t *)x));
    return dots;
}
#endif

static inline Ints ints_rest(size_t bytes, Ints dots) {
    (void)bytes;
    return dots;
}

static inline Ints ints_add_fours(const Ints v[4]) {
    Ints first = ints_add(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])),
         last = ints_add(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return ints_add(_mm512_unpacklo_epi64(first, last), _mm512_unpackhi_epi64(first, last));
}

static inline Vec vec_from_ints(Ints v) { return _mm512_cvtepi32_ps(v); }

static inline Ints ints_begin(size_t bytes, Ints start) {
    (void)bytes;
    return start;
}

static inline Vec ints_end(size_t bytes, Ints dots, Ints start) {
    (void)bytes, (void)start;
    return vec_from_ints(dots);
}

static inline Vec vec_in_rows(Vec v) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_ps(order, v);
}

#ifdef __AVX512BF16__
#define HAS_BF16_DOT
static inline Vec vec_dot_bf16(Vec a, Vec b, Vec c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
static inline void vec_to_bf16(uint16_t *p, Vec v) {
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(v));
}
#endif

#endif
