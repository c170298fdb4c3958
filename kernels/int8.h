/*
 * Integers on arm64 with the dot product, whose instruction adds four products of int8 to each lane. A q goes as
 * two bytes, q = 256·high + low, and a unit is the highs of four columns, then their lows; a block's sum
 * is 256·Σ w·high + Σ w·low.
 */

enum {
    QUADS = BLOCK / 4,
    UNIT = 8,
    INT_PANEL = 4 * PANEL,
    MAX_Q = 32639, /* the largest whose high byte, rounded, is no more than 127 */
};

typedef int8_t PanelInt;

static float round_block(int16_t q[BLOCK], const float *x) {
    float32x4_t largest = vabsq_f32(vld1q_f32(x));
    for (size_t i = 4; i < BLOCK; i += 4) largest = vmaxq_f32(largest, vabsq_f32(vld1q_f32(x + i)));
    float max = vmaxvq_f32(largest);
    memset(q, 0, BLOCK * sizeof *q);
    if (!isfinite(max)) return NAN;
    if (max < 0x1p-100f) return 0; /* or 1/d would overflow */
    for (size_t quad = 0; quad < QUADS; quad++) {
        int32x4_t rounded = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * quad), (float)MAX_Q / max));
        int16x4_t number = vmovn_s32(rounded), high = vrshr_n_s16(number, 8);
        vst1_s8((int8_t *)(q + 4 * quad), vmovn_s16(vcombine_s16(high, number)));
    }
    return max / (float)MAX_Q;
}

static void pack_alone(const IntsTile *tile, const float *x, size_t blocks) {
    for (size_t b = 0; b < blocks; b++) tile->d[b] = round_block(tile->q + b * BLOCK, x + b * BLOCK);
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

/* 256·high + low, as floats. */
OPENED Vec sum_parts(int32x4_t high, int32x4_t low) {
    return vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(high, 8), low));
}

OPENED void dot_ints(DType dtype, float dots[MATVEC_STREAMS], const unsigned char *const rows[MATVEC_STREAMS],
                     const void *packed, size_t cols) {
    const IntsTile x = ints_tile(packed, 0, 1, cols);
    const int32x4_t zero = vdupq_n_s32(0);
    Vec sums[MATVEC_STREAMS];
    for (size_t k = 0; k < MATVEC_STREAMS; k++) sums[k] = vec_set(0);
    for (size_t b = 0; b < cols / BLOCK; b++) {
        int8x16_t high[2], low[2], w[2];
        for (size_t half = 0; half < 2; half++) {
            const int8_t *units = (const int8_t *)(x.q + b * BLOCK + half * BLOCK / 2);
            int32x4_t first = vreinterpretq_s32_s8(vld1q_s8(units)),
                      last = vreinterpretq_s32_s8(vld1q_s8(units + 16));
            high[half] = vreinterpretq_s8_s32(vuzp1q_s32(first, last));
            low[half] = vreinterpretq_s8_s32(vuzp2q_s32(first, last));
        }
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            const unsigned char *block = rows[k] + b * BLOCK_BYTES(dtype);
            load_int8(dtype, w, block);
            Vec sum = sum_parts(vdotq_s32(vdotq_s32(zero, w[0], high[0]), w[1], high[1]),
                                vdotq_s32(vdotq_s32(zero, w[0], low[0]), w[1], low[1]));
            sums[k] = vfmaq_n_f32(sums[k], sum, block_scale(block) * x.d[b]);
        }
    }
    for (size_t k = 0; k < MATVEC_STREAMS; k++) dots[k] = vec_sum(sums[k]);
}

/* Blocks [begin, end) of ROWS rows as panel[block][QUADS][ROWS][4], and their scales[block][ROWS]. */
OPENED void unpack_ints_panel(DType dtype, PanelInt *panel, float *scales,
                              const unsigned char *const rows[ROWS], size_t begin, size_t end) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
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
                    vst1q_s8(panel + ((LANES * half + i) * ROWS + four) * 4,
                             vreinterpretq_s8_f32(quads[half][i]));
            }
        }
}

/* As tile: y[t][r] = start[r] + Σ_block scale[r]·d[t]·Σ_quad panel[quad][r]·q[quad][t]. */
OPENED void sum_tile(size_t tokens, const TileSums *y, const PanelInt *panel, const float *scales,
                     const int16_t *q, const float *d, size_t blocks) {
    Vec totals[2 * TOKENS];
    load_sums(totals, y, tokens);
    for (size_t b = 0; b < blocks; b++, panel += BLOCK * ROWS, q += BLOCK * tokens) {
        const int8_t *unit = (const int8_t *)q;
        int32x4_t high[2 * TOKENS], low[2 * TOKENS];
        for (size_t i = 0; i < 2 * tokens; i++) high[i] = low[i] = vdupq_n_s32(0);
        for (size_t quad = 0; quad < QUADS; quad++) {
            int8x16_t w[2] = {vld1q_s8(panel + quad * 4 * ROWS), vld1q_s8(panel + quad * 4 * ROWS + 16)};
            KEEP_IN_REGISTER(w[0]);
            KEEP_IN_REGISTER(w[1]);
            for (size_t t = 0; t < tokens; t++, unit += UNIT) {
                int8x8_t x = vld1_s8(unit);
                for (size_t half = 0; half < 2; half++) {
                    high[2 * t + half] = vdotq_lane_s32(high[2 * t + half], w[half], x, 0);
                    low[2 * t + half] = vdotq_lane_s32(low[2 * t + half], w[half], x, 1);
                    KEEP_IN_REGISTER(high[2 * t + half]);
                    KEEP_IN_REGISTER(low[2 * t + half]);
                }
            }
        }
        for (size_t t = 0; t < tokens; t++)
            for (size_t half = 0; half < 2; half++) {
                Vec scale = vec_mul(vec_load(scales + b * ROWS + half * LANES), vec_set(d[b * tokens + t]));
                totals[2 * t + half] =
                    vec_fma(sum_parts(high[2 * t + half], low[2 * t + half]), scale, totals[2 * t + half]);
            }
    }
    store_sums(y, totals, tokens);
}
