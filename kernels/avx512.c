/* x86-64 with AVX-512 (F, BW, DQ, VL): sixteen floats at once, thirty-two registers. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 16, ROWS = 8, TOKENS = 3 };

typedef __m512 Vec;
typedef __m128i Bytes;

static __mmask16 first_lanes(size_t n) { return (__mmask16)((1u << n) - 1); }

static Vec vec_set(float a) { return _mm512_set1_ps(a); }
static Vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
static Vec vec_load_first(const float *p, size_t n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
static void vec_store(float *p, Vec v) { _mm512_storeu_ps(p, v); }
static void vec_store_first(float *p, Vec v, size_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
static Vec vec_add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static Vec vec_sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
static Vec vec_mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static Vec vec_div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
static Vec vec_min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
static Vec vec_max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
static Vec vec_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static Vec vec_round(Vec v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static Vec vec_ldexp(Vec v, Vec k) { return _mm512_scalef_ps(v, k); }

/* Each vector's four quarters are added first, so that its sum is one of four lanes, as a transpose needs it.
 */
static void vec_sum4(const Vec v[4], float out[4]) {
    __m128 quarter[4];
    for (int i = 0; i < 4; i++) {
        __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps(v[i], 1));
        quarter[i] = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    }
    _MM_TRANSPOSE4_PS(quarter[0], quarter[1], quarter[2], quarter[3]);
    _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(quarter[0], quarter[1]), _mm_add_ps(quarter[2], quarter[3])));
}

static Vec vec_from_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }

static Vec vec_from_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}

static void vec_to_f16(uint16_t *p, Vec v) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static float half_to_float(uint16_t half) { return _cvtsh_ss(half); }

static Bytes bytes_load(const void *p) { return _mm_loadu_si128(p); }

static Bytes nibbles_low(Bytes bytes) {
    return _mm_sub_epi8(_mm_and_si128(bytes, _mm_set1_epi8(15)), _mm_set1_epi8(8));
}

static Bytes nibbles_high(Bytes bytes) { return nibbles_low(_mm_srli_epi16(bytes, 4)); }

static void vec_from_bytes(Vec v[1], Bytes bytes) { v[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)); }

#include "vector.h"

const Kernels kernels_avx512 = {.name = "avx512", VECTOR_KERNELS};

#else
typedef int no_avx512_here; /* ISO C has no empty files */
#endif
