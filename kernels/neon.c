/* arm64, of which NEON is a part: four floats at once, thirty-two registers. */
#if defined(__aarch64__)

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 4, ROWS = 8, TOKENS = 3 };

typedef float32x4_t Vec;
typedef int8x16_t Bytes;

static Vec vec_load_first(const float *p, size_t n) {
    float lanes[LANES] = {0};
    memcpy(lanes, p, n * sizeof *p);
    return vld1q_f32(lanes);
}

static void vec_store_first(float *p, Vec v, size_t n) {
    float lanes[LANES];
    vst1q_f32(lanes, v);
    memcpy(p, lanes, n * sizeof *p);
}

static Vec vec_set(float a) { return vdupq_n_f32(a); }
static Vec vec_load(const float *p) { return vld1q_f32(p); }
static void vec_store(float *p, Vec v) { vst1q_f32(p, v); }
static Vec vec_add(Vec a, Vec b) { return vaddq_f32(a, b); }
static Vec vec_sub(Vec a, Vec b) { return vsubq_f32(a, b); }
static Vec vec_mul(Vec a, Vec b) { return vmulq_f32(a, b); }
static Vec vec_div(Vec a, Vec b) { return vdivq_f32(a, b); }
static Vec vec_min(Vec a, Vec b) { return vminq_f32(a, b); }
static Vec vec_max(Vec a, Vec b) { return vmaxq_f32(a, b); }
static Vec vec_fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
static Vec vec_round(Vec v) { return vrndnq_f32(v); }

/* 2^k in two factors, since alone it may be too large or too small for a float. */
static Vec vec_ldexp(Vec v, Vec k) {
    const int32x4_t bias = vdupq_n_s32(127);
    int32x4_t exponent = vcvtq_s32_f32(k), half = vshrq_n_s32(exponent, 1), rest = vsubq_s32(exponent, half);
    v = vmulq_f32(v, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23)));
    return vmulq_f32(v, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23)));
}

static void vec_sum4(const Vec v[4], float out[4]) {
    vst1q_f32(out, vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3])));
}

static Vec vec_from_f16(const void *p) {
    uint16x4_t halves;
    memcpy(&halves, p, sizeof halves);
    return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}

static Vec vec_from_bf16(const void *p) {
    uint16x4_t upper;
    memcpy(&upper, p, sizeof upper);
    return vreinterpretq_f32_u32(vshll_n_u16(upper, 16));
}

static void vec_to_f16(uint16_t *p, Vec v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }

static float half_to_float(uint16_t half) {
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}

static Bytes bytes_load(const void *p) { return vld1q_s8(p); }

static Bytes nibbles_low(Bytes bytes) { return vsubq_s8(vandq_s8(bytes, vdupq_n_s8(15)), vdupq_n_s8(8)); }

static Bytes nibbles_high(Bytes bytes) {
    return vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(bytes), 4)), vdupq_n_s8(8));
}

static void vec_from_bytes(Vec v[4], Bytes bytes) {
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    v[1] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(low)));
    v[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    v[3] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)));
}

#include "vector.h"

const Kernels kernels_neon = {.name = "neon", VECTOR_KERNELS};

#else
typedef int no_neon_here; /* ISO C has no empty files */
#endif
