/* Lanes of WebAssembly: SIMD128, four floats at once. It has no fused multiply-add: a product is rounded before it is added. */
#ifndef ATTN_LANES_WASM_H
#define ATTN_LANES_WASM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <wasm_simd128.h>

#define SHARED(name) wasm_##name

enum { LANES = 4 };

typedef v128_t Vec;
typedef v128_t Ints;

static inline Vec vec_load_first(const float *p, size_t n) {
    float lanes[LANES] = {0};
    memcpy(lanes, p, n * sizeof *p);
    return wasm_v128_load(lanes);
}

static inline void vec_store_first(float *p, Vec v, size_t n) {
    float lanes[LANES];
    wasm_v128_store(lanes, v);
    memcpy(p, lanes, n * sizeof *p);
}

static inline Vec vec_set(float a) { return wasm_f32x4_splat(a); }
static inline Vec vec_load(const float *p) { return wasm_v128_load(p); }
static inline void vec_store(float *p, Vec v) { wasm_v128_store(p, v); }
static inline Vec vec_add(Vec a, Vec b) { return wasm_f32x4_add(a, b); }
static inline Vec vec_sub(Vec a, Vec b) { return wasm_f32x4_sub(a, b); }
static inline Vec vec_mul(Vec a, Vec b) { return wasm_f32x4_mul(a, b); }
static inline Vec vec_div(Vec a, Vec b) { return wasm_f32x4_div(a, b); }
/* One instruction each, unlike those that have an opinion on NaN: b where one is. */
static inline Vec vec_min(Vec a, Vec b) { return wasm_f32x4_pmin(b, a); }
static inline Vec vec_max(Vec a, Vec b) { return wasm_f32x4_pmax(b, a); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return vec_add(vec_mul(a, b), c); }
static inline Vec vec_fnma(Vec a, Vec b, Vec c) { return vec_sub(c, vec_mul(a, b)); }
static inline Vec vec_round(Vec v) { return wasm_f32x4_nearest(v); }

/* 2^k in two factors, because alone it may be too large or too small for a float. */
static inline Vec vec_ldexp(Vec v, Vec k) {
    const v128_t bias = wasm_i32x4_splat(127);
    v128_t exponent = wasm_i32x4_trunc_sat_f32x4(k), half = wasm_i32x4_shr(exponent, 1),
           rest = wasm_i32x4_sub(exponent, half);
    v = vec_mul(v, wasm_i32x4_shl(wasm_i32x4_add(half, bias), 23));
    return vec_mul(v, wasm_i32x4_shl(wasm_i32x4_add(rest, bias), 23));
}

static inline float vec_sum(Vec v) {
    v = vec_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
    return wasm_f32x4_extract_lane(vec_add(v, wasm_i32x4_shuffle(v, v, 1, 0, 3, 2)), 0);
}

static inline void vec_transpose(Vec v[LANES]) {
    Vec a = wasm_i32x4_shuffle(v[0], v[1], 0, 4, 1, 5), b = wasm_i32x4_shuffle(v[2], v[3], 0, 4, 1, 5),
        c = wasm_i32x4_shuffle(v[0], v[1], 2, 6, 3, 7), d = wasm_i32x4_shuffle(v[2], v[3], 2, 6, 3, 7);
    v[0] = wasm_i64x2_shuffle(a, b, 0, 2);
    v[1] = wasm_i64x2_shuffle(a, b, 1, 3);
    v[2] = wasm_i64x2_shuffle(c, d, 0, 2);
    v[3] = wasm_i64x2_shuffle(c, d, 1, 3);
}

/* The exponent's bias differs by 112. */
static inline Vec vec_from_f16(const void *p) {
    v128_t bits = wasm_u32x4_load16x4(p), magnitude = wasm_v128_and(bits, wasm_i32x4_splat(0x7fff)),
           sign = wasm_i32x4_shl(wasm_v128_xor(bits, magnitude), 16),
           endless = wasm_v128_and(wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x7bff)),
                                   wasm_i32x4_splat(0x7f800000));
    return wasm_v128_or(wasm_v128_or(vec_mul(wasm_i32x4_shl(magnitude, 13), vec_set(0x1p112f)), endless),
                        sign);
}

static inline Vec vec_from_bf16(const void *p) { return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16); }

static inline Vec vec_from_int8(const void *p) {
    return wasm_f32x4_convert_i32x4(
        wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p))));
}

/* To the nearest, ties to even. Below 2^-14 a float's own addition rounds: 0.5 has its last bit where they have theirs. */
static inline void vec_to_f16(uint16_t *p, Vec v) {
    const v128_t largest = wasm_i32x4_splat(0x7c00);
    v128_t magnitude = wasm_v128_and(v, wasm_i32x4_splat(0x7fffffff)),
           sign = wasm_u32x4_shr(wasm_v128_xor(v, magnitude), 16),
           small = wasm_i32x4_sub(vec_add(magnitude, vec_set(0.5f)), vec_set(0.5f)),
           even = wasm_v128_and(wasm_u32x4_shr(magnitude, 13), wasm_i32x4_splat(1)),
           rounded = wasm_u32x4_shr(
               wasm_i32x4_add(wasm_i32x4_add(magnitude, even), wasm_i32x4_splat(0xfff - (112 << 23))), 13);
    rounded = wasm_i32x4_min(rounded, largest);
    rounded = wasm_v128_bitselect(small, rounded, wasm_i32x4_lt(magnitude, vec_set(0x1p-14f)));
    v128_t nan = wasm_v128_or(wasm_v128_and(wasm_u32x4_shr(magnitude, 13), wasm_i32x4_splat(0x3ff)),
                              wasm_i32x4_splat(0x7e00));
    rounded = wasm_v128_bitselect(nan, rounded, wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x7f800000)));
    rounded = wasm_v128_or(rounded, sign);
    wasm_v128_store64_lane(p, wasm_u16x8_narrow_i32x4(rounded, rounded), 0);
}

static inline Ints ints_load(const void *p) { return wasm_v128_load(p); }
static inline Ints ints_set(int32_t a) { return wasm_i32x4_splat(a); }
static inline Ints ints_add(Ints a, Ints b) { return wasm_i32x4_add(a, b); }
static inline Ints ints_spread(const void *p) { return wasm_v128_load32_splat(p); }
static inline Vec vec_of_bits(Ints v) { return v; }
static inline Ints ints_of_bits(Vec v) { return v; }
static inline void vec_turn(Vec v[4]) { vec_transpose(v); }
static inline Vec vec_in_rows(Vec v) { return v; }

/* Weights are signed. */
static inline Ints ints_widen(Ints v, size_t upper) {
    return upper ? wasm_i16x8_extend_high_i8x16(v) : wasm_i16x8_extend_low_i8x16(v);
}

static inline Ints ints_dot(size_t bytes, Ints dots, Ints w, Ints x) {
    (void)bytes;
    return wasm_i32x4_add(dots, wasm_i32x4_dot_i16x8(w, x));
}

static inline Ints ints_rest(size_t bytes, Ints dots) {
    (void)bytes;
    return dots;
}

static inline Ints ints_add_fours(const Ints v[4]) {
    Vec sums[4] = {v[0], v[1], v[2], v[3]};
    vec_transpose(sums);
    return ints_add(ints_add(sums[0], sums[1]), ints_add(sums[2], sums[3]));
}

static inline Vec vec_from_ints(Ints v) { return wasm_f32x4_convert_i32x4(v); }

static inline Ints ints_begin(size_t bytes, Ints start) {
    (void)bytes;
    return start;
}

static inline Vec ints_end(size_t bytes, Ints dots, Ints start) {
    (void)bytes, (void)start;
    return vec_from_ints(dots);
}

#endif
