/*
 * Integers on arm64 with the dot product, an instruction that adds four products of int8 to each lane of int32. A q of
 * two bytes, q = 256·high + low, is multiplied in two parts: the highs of a block come first, then its lows. What the
 * highs add up to is worth 256 times as much.
 */
#ifndef ATTN_INTS_ARM64_H
#define ATTN_INTS_ARM64_H

#include "packed_ints.h"

#include <arm_neon.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of two bytes: the largest q whose high byte, rounded, is no more than 127. */
#define LARGEST_Q(bytes) ((bytes) == 1 ? 127 : 32639)

enum { QUADS = BLOCK / 4 };

OPENED float round_block(DType dtype, size_t bytes, unsigned char *q, int32_t *start, const float *x) {
    (void)dtype, (void)start; /* weights are signed as they are */
    const float max_q = LARGEST_Q(bytes);
    float32x4_t largest = vabsq_f32(vld1q_f32(x));
    for (size_t i = 4; i < BLOCK; i += 4) largest = vmaxq_f32(largest, vabsq_f32(vld1q_f32(x + i)));
    float max = vmaxvq_f32(largest);
    memset(q, 0, BLOCK * bytes);
    if (!isfinite(max)) return NAN;
    if (max < 0x1p-100f) return 0; /* or 1/d would overflow */
    for (size_t i = 0; i < BLOCK; i += 8) {
        int32x4_t first = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), max_q / max));
        int32x4_t last = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + 4), max_q / max));
        int16x8_t number = vcombine_s16(vmovn_s32(first), vmovn_s32(last));
        int8_t *low = (int8_t *)q + i + BLOCK * (bytes - 1);
        if (bytes == 2) vst1_s8((int8_t *)q + i, vrshrn_n_s16(number, 8));
        vst1_s8(low, vmovn_s16(number));
    }
    return max / max_q;
}

OPENED void arrange_alone(DType dtype, size_t bytes, const PackedInts *x, size_t blocks) {
    (void)dtype, (void)bytes, (void)x, (void)blocks;
}

/* A block's 32 weights. */
OPENED void load_int8(DType dtype, int8x16_t w[2], const unsigned char *block) {
    const uint8x16_t low_nibbles = vdupq_n_u8(15);
    const int8x16_t eight = vdupq_n_s8(8);
    if (dtype == DTYPE_Q8_0) {
        w[0] = vld1q_s8((const int8_t *)block + 2);
        w[1] = vld1q_s8((const int8_t *)block + 18);
        return;
    }
    uint8x16_t nibbles = vld1q_u8(block + 2);
    w[0] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(nibbles, low_nibbles)), eight);
    w[1] = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(nibbles, 4)), eight);
}

/* What the parts of q add up to, as floats. */
OPENED Vec sum_parts(size_t bytes, const int32x4_t parts[2]) {
    return vcvtq_f32_s32(bytes == 1 ? parts[0] : vaddq_s32(vshlq_n_s32(parts[0], 8), parts[1]));
}

OPENED void dot_ints(DType dtype, size_t bytes, float dots[MATVEC_STREAMS], const Streams *streams,
                     const PackedInts *x, size_t blocks) {
    Vec sums[MATVEC_STREAMS];
    for (size_t k = 0; k < MATVEC_STREAMS; k++) sums[k] = vec_set(0);
    for (size_t b = 0; b < blocks; b++) {
        int8x16_t q[2][2], w[2];
        for (size_t i = 0; i < 2 * bytes; i++)
            q[i / 2][i % 2] = vld1q_s8((const int8_t *)x->q + b * BLOCK * bytes + 16 * i);
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            const unsigned char *block = streams->rows[k] + b * BLOCK_BYTES(dtype);
            int32x4_t parts[2];
            load_int8(dtype, w, block);
            for (size_t part = 0; part < bytes; part++)
                parts[part] = vdotq_s32(vdotq_s32(vdupq_n_s32(0), w[0], q[part][0]), w[1], q[part][1]);
            sums[k] = vfmaq_n_f32(sums[k], sum_parts(bytes, parts), block_scale(block) * x->d[b]);
        }
    }
    for (size_t k = 0; k < MATVEC_STREAMS; k++) dots[k] = vec_sum(sums[k]);
}

/* Blocks [begin, end) of ROWS rows as panel[block][QUADS][ROWS][4], and their scales[block][ROWS]. */
OPENED void unpack_ints_panel(DType dtype, size_t bytes, unsigned char *panel, float *scales,
                              const unsigned char *const rows[ROWS], size_t begin, size_t end) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
    (void)bytes;
    for (size_t b = begin; b < end; b++, panel += BLOCK * ROWS, scales += ROWS)
        for (size_t four = 0; four < ROWS; four += LANES) {
            Vec quads[2][LANES];
            for (size_t i = 0; i < LANES; i++) {
                int8x16_t w[2];
                load_int8(dtype, w, rows[four + i] + b * block_bytes);
                quads[0][i] = vreinterpretq_f32_s8(w[0]);
                quads[1][i] = vreinterpretq_f32_s8(w[1]);
                scales[four + i] = block_scale(rows[four + i] + b * block_bytes);
            }
            for (size_t half = 0; half < 2; half++) {
                vec_transpose(quads[half]);
                for (size_t i = 0; i < LANES; i++)
                    vst1q_u8(panel + ((LANES * half + i) * ROWS + four) * 4,
                             vreinterpretq_u8_f32(quads[half][i]));
            }
        }
}

/* sums[2·t + half][part] += half the rows' w · part of t's x, whose lane is a quad of columns. */
#define DOT_QUAD(lane)                                                                                       \
    for (size_t t = 0; t < tokens; t++)                                                                      \
        for (size_t part = 0; part < bytes; part++)                                                          \
            for (size_t half = 0; half < 2; half++) {                                                        \
                int32x4_t *sum = &sums[2 * t + half][part];                                                  \
                *sum = vdotq_lane_s32(*sum, w[lane][half], xs[t][part], lane);                               \
                KEEP_IN_REGISTER(*sum);                                                                      \
            }

/* y[t][r] = start[r] + Σ_block scale[r]·d[t]·Σ_quad panel[quad][r]·q[t][quad]. */
OPENED void micro_ints(size_t tokens, size_t bytes, const MicroSums *y, const unsigned char *panel,
                       const float *scales, const PackedInts *x, size_t begin, size_t end) {
    const size_t q_bytes = BLOCK * bytes;
    Vec totals[2 * TOKENS];
    load_sums(totals, y, tokens);
    for (size_t b = begin; b < end; b++, scales += ROWS) {
        const int8_t *q = (const int8_t *)x->q + b * tokens * q_bytes;
        int32x4_t sums[2 * TOKENS][2];
        for (size_t i = 0; i < 2 * tokens; i++) sums[i][0] = sums[i][1] = vdupq_n_s32(0);
        for (size_t quad = 0; quad < QUADS; quad += 2) {
            int8x16_t w[2][2];
            int8x8_t xs[TOKENS][2];
            for (size_t i = 0; i < 4; i++, panel += 16) w[i / 2][i % 2] = vld1q_s8((const int8_t *)panel);
            for (size_t t = 0; t < tokens; t++)
                for (size_t part = 0; part < bytes; part++)
                    xs[t][part] = vld1_s8(q + t * q_bytes + part * BLOCK + 4 * quad);
            DOT_QUAD(0)
            DOT_QUAD(1)
        }
        for (size_t i = 0; i < 2 * tokens; i++) {
            Vec scale = vec_mul(vec_load(scales + i % 2 * LANES), vec_set(x->d[b * tokens + i / 2]));
            totals[i] = vec_fma(sum_parts(bytes, sums[i]), scale, totals[i]);
        }
    }
    store_sums(y, totals, tokens);
}

#endif
