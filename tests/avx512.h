/*
 * AVX-512, AMX and AVX-VNNI for a CPU without them, by SIMDe, for `make emulated`: the compiler reads this before
 * kernels/avx512*.c and avxvnni*.c. Here is what Debian's SIMDe 0.7.4 lacks or has wrong; what neither knows would
 * not compile without -mavx512f.
 */
#ifndef ATTN_TEST_AVX512_H
#define ATTN_TEST_AVX512_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include "kernels/kernels.h"

#include <math.h>
#include <simde/x86/avx512.h>
#include <string.h>

typedef int32_t Int32s __attribute__((vector_size(64)));
typedef int8_t Int8s __attribute__((vector_size(16)));
typedef uint8_t UInt8s __attribute__((vector_size(16)));
typedef uint16_t UInt16s __attribute__((vector_size(32)));

static inline __m512 emulated_from_halves(__m256i halves) {
    __m512 v;
    for (int i = 0; i < 16; i++) v[i] = _cvtsh_ss(((UInt16s)halves)[i]);
    return v;
}

static inline __m256i emulated_to_halves(__m512 v) {
    UInt16s halves;
    for (int i = 0; i < 16; i++) halves[i] = _cvtss_sh(v[i], _MM_FROUND_TO_NEAREST_INT);
    return (__m256i)halves;
}

static inline __m512 emulated_load(__mmask16 mask, const float *p) {
    __m512 v;
    for (int i = 0; i < 16; i++) v[i] = mask >> i & 1 ? p[i] : 0.0f;
    return v;
}

static inline void emulated_store(float *p, __mmask16 mask, __m512 v) {
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) p[i] = v[i];
}

static inline float emulated_sum(__m512 v) {
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++) v[i] += v[i + n];
    return v[0];
}

/* The same choice in each 128 bits: number i of four is that of bits 2i and 2i + 1. */
static inline __m512i emulated_shuffle(__m512i v, int choice) {
    Int32s from = (Int32s)v, to;
    for (int i = 0; i < 16; i++) to[i] = from[(i & 12) | (choice >> 2 * (i & 3) & 3)];
    return (__m512i)to;
}

/* SIMDe takes numbers so small for 0 and 2^128 for infinity. */
static inline __m512 emulated_ldexp(__m512 v, __m512 k) {
    for (int i = 0; i < 16; i++) v[i] = isnan(k[i]) ? k[i] : ldexpf(v[i], (int)k[i]);
    return v;
}

#undef _mm512_madd_epi16
#undef _mm512_scalef_ps
#undef _mm512_cvtps_ph
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_epi32 emulated_shuffle
#define _mm512_cvtepi8_epi32(v) ((__m512i) __builtin_convertvector((Int8s)(v), Int32s))
#define _mm512_cvtepu8_epi32(v) ((__m512i) __builtin_convertvector((UInt8s)(v), Int32s))
#define _mm512_cvtepu16_epi32(v) ((__m512i) __builtin_convertvector((UInt16s)(v), Int32s))
#define _mm512_cvtepi32_ps(v) __builtin_convertvector((Int32s)(v), __m512)
#define _mm512_cvtph_ps emulated_from_halves
#define _mm512_cvtps_ph(v, rounding) emulated_to_halves(v)
#define _mm512_maskz_loadu_ps emulated_load
#define _mm512_mask_storeu_ps emulated_store
#define _mm512_reduce_add_ps emulated_sum
#define _mm512_scalef_ps emulated_ldexp
#define _mm512_madd_epi16 simde_mm512_madd_epi16
#define _mm512_shuffle_f32x4 simde_mm512_shuffle_f32x4

/* Intel, "BFLOAT16 Hardware Numerics Definition": numbers so small that they are denormal are 0. */
static inline float emulated_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static inline float emulated_from_bf16(uint16_t bf16) {
    uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return emulated_flush(x);
}

typedef UInt16s emulated_m256bh;
typedef uint16_t emulated_m512bh __attribute__((vector_size(64)));

static inline emulated_m256bh emulated_to_bf16(__m512 v) {
    emulated_m256bh halves;
    for (int i = 0; i < 16; i++) {
        float x = emulated_flush(v[i]);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        bits = isnan(x) ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1); /* to nearest even */
        halves[i] = (uint16_t)(bits >> 16);
    }
    return halves;
}

static inline __m512 emulated_dot_bf16(__m512 sum, emulated_m512bh a, emulated_m512bh b) {
    for (int i = 0; i < 16; i++)
        for (int half = 1; half >= 0; half--)
            sum[i] = emulated_flush(
                fmaf(emulated_from_bf16(a[2 * i + half]), emulated_from_bf16(b[2 * i + half]), sum[i]));
    return sum;
}

#undef _mm512_dpbf16_ps
#define __m512bh emulated_m512bh
#define _mm512_cvtneps_pbh emulated_to_bf16
#define _mm512_dpbf16_ps emulated_dot_bf16
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#define __AVX512BF16__ 1
#ifdef EMULATED_AVX512
#define __AVX512VNNI__ 1
#else
#define __AVXVNNI__ 1
#endif

static inline emulated_m512bh emulated_two_to_bf16(__m512 high, __m512 low) {
    UInt16s halves[2] = {emulated_to_bf16(low), emulated_to_bf16(high)};
    emulated_m512bh both;
    memcpy(&both, halves, sizeof both);
    return both;
}

#define _mm512_cvtne2ps_pbh emulated_two_to_bf16

/* As Intel's manual has AMX: ldtilecfg's sizes, and for each instruction what it does to a tile. */
typedef struct EmulatedTile {
    _Alignas(64) uint16_t bf16[16][32];
} EmulatedTile;

static _Thread_local EmulatedTile emulated_tiles[8];
static _Thread_local uint8_t emulated_sizes[64];

static inline size_t emulated_rows(size_t tile) { return emulated_sizes[48 + tile]; }
static inline size_t emulated_bytes(size_t tile) {
    return emulated_sizes[16 + 2 * tile] + 256u * emulated_sizes[17 + 2 * tile];
}

static inline void emulated_load_tile(size_t tile, const void *p, size_t stride) {
    memset(&emulated_tiles[tile], 0, sizeof *emulated_tiles);
    for (size_t i = 0; i < emulated_rows(tile); i++)
        memcpy(emulated_tiles[tile].bf16[i], (const char *)p + i * stride, emulated_bytes(tile));
}

static inline void emulated_store_tile(size_t tile, void *p, size_t stride) {
    for (size_t i = 0; i < emulated_rows(tile); i++)
        memcpy((char *)p + i * stride, emulated_tiles[tile].bf16[i], emulated_bytes(tile));
}

static inline void emulated_dot(size_t sums, size_t a, size_t b) {
    for (size_t i = 0; i < emulated_rows(a); i++)
        for (size_t j = 0; j < emulated_bytes(b) / 4; j++) {
            float sum;
            memcpy(&sum, &emulated_tiles[sums].bf16[i][2 * j], sizeof sum);
            for (size_t k = 0; k < emulated_bytes(a) / 2; k++)
                sum = emulated_flush(fmaf(emulated_from_bf16(emulated_tiles[a].bf16[i][k]),
                                          emulated_from_bf16(emulated_tiles[b].bf16[k / 2][2 * j + k % 2]),
                                          sum));
            memcpy(&emulated_tiles[sums].bf16[i][2 * j], &sum, sizeof sum);
        }
}

#define TILES_CONFIGURE(sizes) memcpy(emulated_sizes, sizes, sizeof emulated_sizes)
#define TILES_RELEASE() memset(emulated_sizes, 0, sizeof emulated_sizes)
#define TILE_ZERO(i) memset(&emulated_tiles[i], 0, sizeof *emulated_tiles)
#define TILE_LOAD emulated_load_tile
#define TILE_STREAM emulated_load_tile
#define TILE_STORE emulated_store_tile
#define TILE_DOT emulated_dot

#define __asm__(...) (void)0 /* no register is so wide that one could keep a vector in it */

#endif
