/*
 * Vectors of bytes, in which blocks.h unpacks: sixteen bytes of each of UNPACKED_ROWS rows side by side, or four words. They
 * are those of the instruction set that the compiler's flags for a file allow.
 */
#ifndef ATTN_BYTE_VECTORS_H
#define ATTN_BYTE_VECTORS_H

#include "compiler.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
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

/* Vectors of any machine, since compilers do not always see them in loops: sixteen bytes of each row. */
#define VECTOR_OF(type) type __attribute__((vector_size(16 * UNPACKED_ROWS)))
typedef VECTOR_OF(uint8_t) Bytes;
typedef VECTOR_OF(uint32_t) Words;
typedef VECTOR_OF(int32_t) Integers;
typedef VECTOR_OF(float) Floats;
typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef int8_t SignedBytes16 __attribute__((vector_size(16)));
typedef uint32_t Words4 __attribute__((vector_size(16)));

/* The same sixteen bytes for each row. */
OPENED Bytes repeat16(const Bytes16 *bytes) {
#if UNPACKED_ROWS == 4
    return (Bytes)_mm512_broadcast_i32x4((__m128i)*bytes);
#elif UNPACKED_ROWS == 2
    return (Bytes)_mm256_broadcastsi128_si256((__m128i)*bytes);
#else
    return *bytes;
#endif
}

/* The same four words for each row. */
OPENED Words repeat_words(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const Words4 words = {a, b, c, d};
    return (Words)repeat16((const Bytes16 *)&words);
}

#if UNPACKED_ROWS > 1
OPENED Bytes join(const __m128i pieces[UNPACKED_ROWS]) {
    __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(pieces[0]), pieces[1], 1);
#if UNPACKED_ROWS == 4
    __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(pieces[2]), pieces[3], 1);
    return (Bytes)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#else
    return (Bytes)low;
#endif
}
#endif

/* Sixteen bytes of each row, from the byte `at` on. */
OPENED Bytes load_pieces(const unsigned char *const rows[UNPACKED_ROWS], size_t at) {
#if UNPACKED_ROWS > 1
    __m128i pieces[UNPACKED_ROWS];
    for (size_t i = 0; i < UNPACKED_ROWS; i++)
        pieces[i] = _mm_loadu_si128((const __m128i *)(const void *)(rows[i] + at));
    return join(pieces);
#else
    Bytes bytes;
    memcpy(&bytes, rows[0] + at, sizeof bytes);
    return bytes;
#endif
}

/* Four words of each row: the first of each of four pieces. */
OPENED Words first_words(const Words words[4]) {
#if UNPACKED_ROWS == 4
    __m512i first = _mm512_unpacklo_epi32((__m512i)words[0], (__m512i)words[1]),
            last = _mm512_unpacklo_epi32((__m512i)words[2], (__m512i)words[3]);
    return (Words)_mm512_unpacklo_epi64(first, last);
#elif UNPACKED_ROWS == 2
    __m256i first = _mm256_unpacklo_epi32((__m256i)words[0], (__m256i)words[1]),
            last = _mm256_unpacklo_epi32((__m256i)words[2], (__m256i)words[3]);
    return (Words)_mm256_unpacklo_epi64(first, last);
#else
    return (Words){words[0][0], words[1][0], words[2][0], words[3][0]};
#endif
}

/* Four words of each row, one from each byte in `at` on, and twelve bytes behind it. */
OPENED Words load_words(const unsigned char *const rows[UNPACKED_ROWS], const size_t at[4]) {
#if defined(__wasm_simd128__)
    v128_t words = wasm_v128_load32_zero(rows[0] + at[0]);
    words = wasm_v128_load32_lane(rows[0] + at[1], words, 1);
    words = wasm_v128_load32_lane(rows[0] + at[2], words, 2);
    return (Words)wasm_v128_load32_lane(rows[0] + at[3], words, 3);
#else
    Words words[4];
    for (size_t i = 0; i < 4; i++) words[i] = (Words)load_pieces(rows, at[i]);
    return first_words(words);
#endif
}

/* The F16 in the lower half of each word. */
OPENED Floats lower_halves(Words words) {
#if UNPACKED_ROWS == 4
    typedef uint16_t Halves __attribute__((vector_size(32)));
    return (Floats)_mm512_cvtph_ps((__m256i) __builtin_convertvector(words, Halves));
#elif UNPACKED_ROWS == 2
    __m256i halves = (__m256i)(words & 0xffff);
    halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
    return (Floats)_mm256_cvtph_ps(_mm256_castsi256_si128(halves));
#elif defined(__aarch64__)
    return (Floats)vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32((uint32x4_t)words)));
#else
    const Words magnitude = words & 0x7fff, sign = (words & 0x8000) << 16,
                endless = (Words)(magnitude > 0x7bff) & 0x7f800000;
    return (Floats)((Words)((Floats)(magnitude << 13) * 0x1p112f) | endless | sign);
#endif
}

#if UNPACKED_ROWS == 1 && !defined(__SSSE3__) && !defined(__aarch64__) && !defined(__wasm_simd128__)
static ALONE Bytes look_up_plainly(Bytes table, Bytes index) {
    Bytes found;
    for (size_t i = 0; i < 16; i++) found[i] = index[i] < 16 ? table[index[i]] : 0;
    return found;
}
#endif

/* 0 where an index is 128 or more; no other is 16 or more. */
OPENED Bytes look_up(Bytes table, Bytes index) {
#if UNPACKED_ROWS == 4
    return (Bytes)_mm512_shuffle_epi8((__m512i)table, (__m512i)index);
#elif UNPACKED_ROWS == 2
    return (Bytes)_mm256_shuffle_epi8((__m256i)table, (__m256i)index);
#elif defined(__SSSE3__)
    return (Bytes)_mm_shuffle_epi8((__m128i)table, (__m128i)index);
#elif defined(__aarch64__)
    return (Bytes)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index);
#elif defined(__wasm_simd128__)
    return (Bytes)wasm_i8x16_swizzle((v128_t)table, (v128_t)index);
#else
    return look_up_plainly(table, index);
#endif
}

/* Each byte's bits from one on; a mask must take away those above. Few machines shift bytes. */
OPENED Bytes from_bit(Bytes bytes, size_t bit) { return (Bytes)((Words)bytes >> (uint32_t)bit); }

/* Each byte's bits so many places higher; a mask must take away those below. */
OPENED Bytes raised(Bytes bytes, size_t places) { return (Bytes)((Words)bytes << (uint32_t)places); }

/* q, and of other bits those in the mask. */
OPENED Bytes with_bits(Bytes q, Bytes bits, uint8_t mask) {
#if UNPACKED_ROWS == 4
    return (Bytes)_mm512_ternarylogic_epi32((__m512i)q, (__m512i)bits, _mm512_set1_epi8((char)mask), 0xf8);
#else
    return q | (bits & mask);
#endif
}

#endif
