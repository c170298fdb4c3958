/*
 * Integers in WebAssembly, whose products of int16 are added up by twos: a q has two bytes, and weights become int16,
 * too. Products of bytes would have to be widened first, so they gain nothing.
 */
#ifndef ATTN_INTS_WASM_H
#define ATTN_INTS_WASM_H

#include "blocks.h"
#include "lanes.h"

#include <stddef.h>
#include <stdint.h>

#define LARGEST_Q(bytes) 32767

OPENED size_t part_bytes(size_t bytes) { return bytes; } /* there is one part */
OPENED Ints next_part(Ints dots) { return dots; }

/* The bits of floats that are not negative order as integers do, NaN above all. */
OPENED float largest_of(const float *x) {
    const v128_t magnitude = wasm_i32x4_splat(0x7fffffff);
    v128_t four = wasm_v128_and(vec_load(x), magnitude);
    for (size_t i = 4; i < BLOCK; i += 4)
        four = wasm_i32x4_max(four, wasm_v128_and(vec_load(x + i), magnitude));
    four = wasm_i32x4_max(four, wasm_i32x4_shuffle(four, four, 2, 3, 0, 1));
    four = wasm_i32x4_max(four, wasm_i32x4_shuffle(four, four, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(four, 0);
}

OPENED void round_to(size_t bytes, size_t span, unsigned char *q, int32_t halves[2], const float *x,
                     float factor) {
    (void)bytes, (void)span;
    for (size_t half = 0; half < 2; half++) {
        v128_t sum = wasm_i32x4_splat(0);
        for (size_t i = 0; i < 2; i++) {
            const float *from = x + 16 * half + 8 * i;
            v128_t low = vec_round(vec_mul(vec_load(from), vec_set(factor))),
                   high = vec_round(vec_mul(vec_load(from + 4), vec_set(factor))),
                   words = wasm_i16x8_narrow_i32x4(wasm_i32x4_trunc_sat_f32x4(low),
                                                   wasm_i32x4_trunc_sat_f32x4(high));
            sum = wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(words, wasm_i16x8_splat(1)));
            wasm_v128_store(q + 32 * half + 16 * i, words);
        }
        halves[half] = wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1) +
                       wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3);
    }
}

/* Chunk i of a strip: eight columns as int16. */
OPENED Ints strip_chunk(size_t bytes, const Group *strip, size_t i) {
    (void)bytes;
    return wasm_i16x8_load8x8(strip->q + i / 2 * strip->apart + i % 2 * 8);
}

/* Turns sixteen columns as they lie in a panel, so many rows apart, into twice as many of eight columns as int16. */
OPENED void widen(unsigned char *to, const unsigned char *from, size_t n_rows, size_t columns) {
    for (size_t c = 0; c < columns; c++, to += 2 * n_rows * 16)
        for (size_t r = 0; r < n_rows; r++, from += 16) {
            wasm_v128_store(to + r * 16, ints_widen(ints_load(from), 0));
            wasm_v128_store(to + (n_rows + r) * 16, ints_widen(ints_load(from), 1));
        }
}

#endif
