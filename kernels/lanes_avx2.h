/* Lanes of x86-64 with AVX2, FMA and F16C: eight floats at once, sixteen registers. */
#ifndef ATTN_LANES_AVX2_H
#define ATTN_LANES_AVX2_H

#include "compiler.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED(name) avx2_##name

enum { LANES = 8 };

typedef __m256 Vec;
typedef __m256i Ints;

/* All ones in the first n of eight lanes. */
static inline __m256i first_lanes(size_t n) {
    static const int32_t ones_then_zeros[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones_then_zeros + LANES - n));
}

static inline Vec vec_set(float a) { return _mm256_set1_ps(a); }
static inline Vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
static inline Vec vec_load_first(const float *p, size_t n) { return _mm256_maskload_ps(p, first_lanes(n)); }
static inline void vec_store(float *p, Vec v) { _mm256_storeu_ps(p, v); }
static inline void vec_store_first(float *p, Vec v, size_t n) { _mm256_maskstore_ps(p, first_lanes(n), v); }
static inline Vec vec_add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
static inline Vec vec_sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
static inline Vec vec_mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
static inline Vec vec_div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
static inline Vec vec_min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
static inline Vec vec_max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline Vec vec_fnma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
static inline Vec vec_round(Vec v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 2^k in two factors, because alone it may be too large or too small for a float. */
static inline Vec vec_ldexp(Vec v, Vec k) {
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i exponent = _mm256_cvtps_epi32(k), half = _mm256_srai_epi32(exponent, 1);
    __m256i rest = _mm256_sub_epi32(exponent, half);
    v = _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}

static inline float vec_sum(Vec v) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

OPENED void vec_turn(Vec v[4]) {
    const __m256 low[2] = {_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpacklo_ps(v[2], v[3])},
                 high[2] = {_mm256_unpackhi_ps(v[0], v[1]), _mm256_unpackhi_ps(v[2], v[3])};
    v[0] = _mm256_shuffle_ps(low[0], low[1], 0x44);
    v[1] = _mm256_shuffle_ps(low[0], low[1], 0xee);
    v[2] = _mm256_shuffle_ps(high[0], high[1], 0x44);
    v[3] = _mm256_shuffle_ps(high[0], high[1], 0xee);
}

static inline void vec_transpose(Vec v[LANES]) {
    vec_turn(v);
    vec_turn(v + 4);
    for (int i = 0; i < 4; i++) {
        const __m256 first = v[i], last = v[i + 4];
        v[i] = _mm256_permute2f128_ps(first, last, 0x20);
        v[i + 4] = _mm256_permute2f128_ps(first, last, 0x31);
    }
}

static inline Vec vec_from_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }

static inline Vec vec_from_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

static inline Vec vec_from_int8(const void *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}

static inline void vec_to_f16(uint16_t *p, Vec v) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline Ints ints_widen(Ints v, size_t i) {
    return i ? _mm256_srli_epi16(v, 8) : _mm256_and_si256(v, _mm256_set1_epi16(255));
}
static inline Ints ints_load(const void *p) { return _mm256_loadu_si256(p); }
static inline Ints ints_set(int32_t a) { return _mm256_set1_epi32(a); }
static inline Ints ints_add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
static inline Ints ints_spread(const void *p) { return _mm256_castps_si256(_mm256_broadcast_ss(p)); }
static inline Ints ints_repeat(const void *p) { return _mm256_broadcastsi128_si256(_mm_loadu_si128(p)); }
static inline Vec vec_repeat(const float *p) { return _mm256_broadcast_ps((const __m128 *)(const void *)p); }
static inline Vec vec_of_bits(Ints v) { return _mm256_castsi256_ps(v); }
static inline Ints ints_of_bits(Vec v) { return _mm256_castps_si256(v); }

/*
 * BYTE_DOT is the instruction that adds up four products of bytes (VNNI), where there is one. Without it the products
 * of bytes stay in two int16 for each unit, which have room for 32 columns with weights up to 15.
 */
#ifdef __AVXVNNI__
#define BYTE_DOT _mm256_dpbusd_avx_epi32
#endif

#ifdef BYTE_DOT
static inline Ints ints_dot(size_t bytes, Ints dots, Ints w, Ints x) {
    return bytes == 1 ? BYTE_DOT(dots, w, x) : _mm256_add_epi32(dots, _mm256_madd_epi16(w, x));
}
#else
/* In assembly, because gcc would sum elsewhere and move the result: one instruction in three is then a copy. */
static inline Ints add_products(size_t bytes, Ints dots, Ints products) {
    if (bytes == 1)
        __asm__("vpaddw %1, %0, %0" : "+x"(dots) : "x"(products));
    else
        __asm__("vpaddd %1, %0, %0" : "+x"(dots) : "x"(products));
    return dots;
}

static inline Ints ints_dot(size_t bytes, Ints dots, Ints w, Ints x) {
    return add_products(bytes, dots, bytes == 1 ? _mm256_maddubs_epi16(w, x) : _mm256_madd_epi16(w, x));
}
#endif

#define HAS_DOT_FIRST
static inline Ints ints_dot_first(size_t bytes, Ints begin, Ints w, Ints x) {
#ifdef BYTE_DOT
    if (bytes == 1) return BYTE_DOT(begin, w, x);
#endif
    return bytes == 1 ? _mm256_maddubs_epi16(w, x) : _mm256_add_epi32(begin, _mm256_madd_epi16(w, x));
}

#ifndef BYTE_DOT
/* w's units · those of x where it lies: no register holds it. */
static inline Ints products_of(size_t bytes, Ints w, const void *x) {
    Ints products;
    if (bytes == 1)
        __asm__("vpmaddubsw %1, %2, %0" : "=x"(products) : "m"(*(const __m256i_u *)x), "x"(w));
    else
        __asm__("vpmaddwd %1, %2, %0" : "=x"(products) : "m"(*(const __m256i_u *)x), "x"(w));
    return products;
}

/*
 * The same with x where it lies: twelve sums, x of two vectors, w and a product are sixteen registers, and gcc would keep sums in
 * memory for a third x.
 */
#define HAS_DOT_STORED
static inline Ints ints_dot_stored(size_t bytes, bool first, Ints dots, Ints w, const void *x) {
    const Ints products = products_of(bytes, w, x);
    return bytes == 1 && first ? products : add_products(bytes, dots, products);
}

/* Two units of weights below 64, whose four products fit into an int16. */
#define HAS_DOT_PAIR
static inline Ints add_pair(Ints dots, Ints first, Ints second) {
    return add_products(2, dots, _mm256_madd_epi16(_mm256_add_epi16(first, second), _mm256_set1_epi16(1)));
}

static inline Ints ints_dot_pair(Ints dots, Ints w0, Ints x0, Ints w1, Ints x1) {
    return add_pair(dots, _mm256_maddubs_epi16(w0, x0), _mm256_maddubs_epi16(w1, x1));
}

static inline Ints ints_dot_pair_stored(Ints dots, Ints w0, const void *x0, Ints w1, const void *x1) {
    return add_pair(dots, products_of(1, w0, x0), products_of(1, w1, x1));
}
#endif

static inline Ints ints_rest(size_t bytes, Ints dots) {
#ifdef BYTE_DOT
    (void)bytes;
    return dots;
#else
    return bytes == 1 ? _mm256_madd_epi16(dots, _mm256_set1_epi16(1)) : dots;
#endif
}

static inline Ints ints_add_fours(const Ints v[4]) {
    Ints first = ints_add(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1])),
         last = ints_add(_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    return ints_add(_mm256_unpacklo_epi64(first, last), _mm256_unpackhi_epi64(first, last));
}

static inline Vec vec_from_ints(Ints v) { return _mm256_cvtepi32_ps(v); }

static inline Ints ints_begin(size_t bytes, Ints start) {
#ifndef BYTE_DOT
    if (bytes == 1) return _mm256_setzero_si256();
#endif
    (void)bytes;
    return start;
}

static inline Vec ints_end(size_t bytes, Ints dots, Ints start) {
#ifndef BYTE_DOT
    if (bytes == 1) dots = ints_add(ints_rest(1, dots), start);
#endif
    (void)bytes, (void)start;
    return vec_from_ints(dots);
}

static inline Vec vec_in_rows(Vec v) {
    return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

#endif
