/*
 * Integers on arm64. Its products of bytes want both factors signed. A q of two bytes is multiplied in two parts,
 * q = 254·high + low: 254, because then no part is −128, and two products have room in an int16.
 */
#ifndef ATTN_INTS_ARM64_H
#define ATTN_INTS_ARM64_H

#include "blocks.h"
#include "lanes.h"

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#define LARGEST_Q(bytes) ((bytes) == 1 ? 127 : 127 * 254 + 126)

OPENED size_t part_bytes(size_t bytes) {
    (void)bytes;
    return 1;
}
OPENED Ints next_part(Ints dots) { return vmulq_n_s32(dots, 254); }

OPENED float largest_of(const float *x) {
    float32x4_t four = vabsq_f32(vld1q_f32(x));
    for (size_t i = 4; i < BLOCK; i += 4) four = vmaxq_f32(four, vabsq_f32(vld1q_f32(x + i)));
    return vmaxvq_f32(four);
}

/* Four vectors of numbers that have room in a byte. */
OPENED int8x16_t narrow(const int32x4_t v[4]) {
    return vcombine_s8(vmovn_s16(vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]))),
                       vmovn_s16(vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]))));
}

OPENED void round_to(size_t bytes, size_t span, unsigned char *q, int32_t halves[2], const float *x,
                     float factor) {
    for (size_t half = 0; half < 2; half++) {
        int8_t *to = (int8_t *)q + half * 16 * (span == 16 ? bytes : 1);
        int32x4_t high[4], low[4], sum = vdupq_n_s32(0);
        for (size_t i = 0; i < 4; i++) {
            float32x4_t v = vmulq_n_f32(vld1q_f32(x + half * 16 + 4 * i), factor);
            low[i] = vcvtnq_s32_f32(v);
            high[i] = vcvtnq_s32_f32(vmulq_n_f32(v, 1 / 254.0f));
            sum = vaddq_s32(sum, low[i]);
            if (bytes == 2) low[i] = vmlsq_n_s32(low[i], high[i], 254);
        }
        halves[half] = vaddvq_s32(sum);
        if (bytes == 2) vst1q_s8(to, narrow(high));
        vst1q_s8(to + (bytes - 1) * span, narrow(low));
    }
}

OPENED Ints strip_chunk(size_t bytes, const Group *strip, size_t i) {
    (void)bytes;
    return ints_load(strip->q + i * strip->apart);
}

/* Bytes are multiplied as they are. */
OPENED Ints ints_widen(Ints v, size_t i) { return (void)i, v; }
OPENED void widen(unsigned char *to, const unsigned char *from, size_t n_rows, size_t columns) {
    (void)to, (void)from, (void)n_rows, (void)columns;
}

#endif
