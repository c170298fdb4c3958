/* Lanes of arm64, of which NEON is a part: four floats at once, thirty-two registers. */
#ifndef ATTN_LANES_NEON_H
#define ATTN_LANES_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SHARED(name) neon_##name

enum { LANES = 4 };

typedef float32x4_t Vec;
typedef int32x4_t Ints;

static inline Vec vec_load_first(const float *p, size_t n) {
    float lanes[LANES] = {0};
    memcpy(lanes, p, n * sizeof *p);
    return vld1q_f32(lanes);
}

static inline void vec_store_first(float *p, Vec v, size_t n) {
    float lanes[LANES];
    vst1q_f32(lanes, v);
    memcpy(p, lanes, n * sizeof *p);
}

static inline Vec vec_set(float a) { return vdupq_n_f32(a); }
static inline Vec vec_load(const float *p) { return vld1q_f32(p); }
static inline void vec_store(float *p, Vec v) { vst1q_f32(p, v); }
static inline Vec vec_add(Vec a, Vec b) { return vaddq_f32(a, b); }
static inline Vec vec_sub(Vec a, Vec b) { return vsubq_f32(a, b); }
static inline Vec vec_mul(Vec a, Vec b) { return vmulq_f32(a, b); }
static inline Vec vec_div(Vec a, Vec b) { return vdivq_f32(a, b); }
static inline Vec vec_min(Vec a, Vec b) { return vminq_f32(a, b); }
static inline Vec vec_max(Vec a, Vec b) { return vmaxq_f32(a, b); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
static inline Vec vec_fnma(Vec a, Vec b, Vec c) { return vfmsq_f32(c, a, b); }
static inline Vec vec_round(Vec v) { return vrndnq_f32(v); }

/* 2^k in two factors, because alone it may be too large or too small for a float. */
static inline Vec vec_ldexp(Vec v, Vec k) {
    const int32x4_t bias = vdupq_n_s32(127);
    int32x4_t exponent = vcvtq_s32_f32(k), half = vshrq_n_s32(exponent, 1), rest = vsubq_s32(exponent, half);
    v = vmulq_f32(v, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23)));
    return vmulq_f32(v, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23)));
}

static inline float vec_sum(Vec v) { return vaddvq_f32(v); }

static inline void vec_transpose(Vec v[LANES]) {
    float32x4x2_t low = vzipq_f32(v[0], v[2]), high = vzipq_f32(v[1], v[3]);
    float32x4x2_t first = vzipq_f32(low.val[0], high.val[0]), last = vzipq_f32(low.val[1], high.val[1]);
    v[0] = first.val[0];
    v[1] = first.val[1];
    v[2] = last.val[0];
    v[3] = last.val[1];
}

static inline Vec vec_from_f16(const void *p) {
    uint16x4_t halves;
    memcpy(&halves, p, sizeof halves);
    return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}

static inline Vec vec_from_bf16(const void *p) {
    uint16x4_t upper;
    memcpy(&upper, p, sizeof upper);
    return vreinterpretq_f32_u32(vshll_n_u16(upper, 16));
}

static inline Vec vec_from_int8(const void *p) {
    int8x8_t bytes = {0};
    memcpy(&bytes, p, LANES);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}

static inline void vec_to_f16(uint16_t *p, Vec v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }

static inline Ints ints_load(const void *p) { return vreinterpretq_s32_s8(vld1q_s8(p)); }
static inline Ints ints_set(int32_t a) { return vdupq_n_s32(a); }
static inline Ints ints_add(Ints a, Ints b) { return vaddq_s32(a, b); }
static inline Ints ints_spread(const void *p) { return vld1q_dup_s32(p); }
static inline Ints ints_repeat(const void *p) { return ints_load(p); }
static inline Vec vec_repeat(const float *p) { return vec_load(p); }
static inline Vec vec_of_bits(Ints v) { return vreinterpretq_f32_s32(v); }
static inline Ints ints_of_bits(Vec v) { return vreinterpretq_s32_f32(v); }
static inline void vec_turn(Vec v[4]) { vec_transpose(v); }
static inline Vec vec_in_rows(Vec v) { return v; }

/* Both signed. Without the dot product, which came in 2018: two products of bytes, none of x −128, have room in an int16. */
static inline Ints ints_dot(size_t bytes, Ints dots, Ints w, Ints x) {
    int8x16_t w_bytes = vreinterpretq_s8_s32(w), x_bytes = vreinterpretq_s8_s32(x);
    (void)bytes;
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(dots, w_bytes, x_bytes);
#else
    return vpadalq_s16(dots, vpaddq_s16(vmull_s8(vget_low_s8(w_bytes), vget_low_s8(x_bytes)),
                                        vmull_high_s8(w_bytes, x_bytes)));
#endif
}

static inline Ints ints_rest(size_t bytes, Ints dots) {
    (void)bytes;
    return dots;
}

static inline Ints ints_add_fours(const Ints v[4]) {
    return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}

static inline Vec vec_from_ints(Ints v) { return vcvtq_f32_s32(v); }

/* Two parts of a q begin with 0, because the first one's sum is multiplied. */
static inline Ints ints_begin(size_t bytes, Ints start) { return bytes == 1 ? start : vdupq_n_s32(0); }

static inline Vec ints_end(size_t bytes, Ints dots, Ints start) {
    return vec_from_ints(bytes == 1 ? dots : ints_add(dots, start));
}

#endif
