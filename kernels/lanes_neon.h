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

static inline bool fetches_far(void) { return false; } /* never timed: no such machine */

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

static inline void vec_to_f16(uint16_t *p, Vec v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }

static inline float half_to_float(uint16_t half) {
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}

/* Four bytes as four int16. */
static inline int16x4_t load_bytes(const void *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vget_low_s16(vmovl_s8(vcreate_s8(four)));
}

static inline Vec vec_from_int8(const void *p) { return vcvtq_f32_s32(vmovl_s16(load_bytes(p))); }

static inline Vec vec_from_nibbles(const void *p, size_t high) {
    int16x4_t bytes = load_bytes(p);
    int16x4_t nibbles = vand_s16(high ? vshr_n_s16(bytes, 4) : bytes, vdup_n_s16(15));
    return vcvtq_f32_s32(vmovl_s16(vsub_s16(nibbles, vdup_n_s16(8))));
}

#endif
