#include "packing/pack.h"

#include "kernels/blocks.h"
#include "packing/search.h"

#include <math.h>
#include <string.h>

/* A type's facts beyond blocks.h. */
typedef struct Coding {
    Levels levels;
    int lowest_scale, highest_scale; /* of a span in a large block; its minimum is from 0 to highest_scale */
} Coding;

static const float iq4_levels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
                   e2m1_levels[] = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};

static const Coding codings[DTYPE_LIMIT] = {
    [DTYPE_Q4_0] = {.levels = {-8, 7, NULL, 0}},
    [DTYPE_Q4_1] = {.levels = {0, 15, NULL, 0}},
    [DTYPE_Q5_0] = {.levels = {-16, 15, NULL, 0}},
    [DTYPE_Q5_1] = {.levels = {0, 31, NULL, 0}},
    [DTYPE_Q8_0] = {.levels = {-128, 127, NULL, 0}},
    [DTYPE_Q2_K] = {{0, 3, NULL, 0}, 0, 15},
    [DTYPE_Q3_K] = {{-4, 3, NULL, 0}, -32, 31},
    [DTYPE_Q4_K] = {{0, 15, NULL, 0}, 0, 63},
    [DTYPE_Q5_K] = {{0, 31, NULL, 0}, 0, 63},
    [DTYPE_Q6_K] = {{-32, 31, NULL, 0}, -128, 127},
    [DTYPE_IQ4_NL] = {.levels = {-127, 113, iq4_levels, 16}},
    [DTYPE_IQ4_XS] = {{-127, 113, iq4_levels, 16}, -32, 31},
    [DTYPE_MXFP4] = {.levels = {-12, 12, e2m1_levels, 15}},
};

/* A block in parts. */
typedef struct Parts {
    uint8_t q[GROUP];                           /* levels, from 0 on */
    int scales[GROUP_SPANS], mins[GROUP_SPANS]; /* of a large block's spans: multiples of these two */
    uint16_t scale, min;                        /* the block's; halves, and MXFP4 has an exponent */
} Parts;

/* Below 2^-14, where a half keeps ever fewer bits, away from 0: what it multiplies are whole numbers, which must reach. */
static uint16_t round_factor(float x) {
    uint16_t half = f32_to_f16(x);
    return (uint16_t)(half + (fabsf(x) < 0x1p-14f && fabsf(f16_to_f32(half)) < fabsf(x)));
}

/* Rounds the block's own scale and minimum, and returns them as they are read. A small block's minimum is multiplied by nothing. */
static Scale round_scale(Parts *parts, bool is_large, Scale scale) {
    parts->scale = round_factor(scale.scale);
    parts->min = is_large ? round_factor(scale.min) : f32_to_f16(scale.min);
    return (Scale){f16_to_f32(parts->scale), f16_to_f32(parts->min)};
}

/* Eight bits leave nothing to search for. */
static Scale largest_by_127(const float *x) {
    float largest = 0;
    for (size_t i = 0; i < BLOCK; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    return (Scale){largest / 127, 0};
}

/* MXFP4's scale: the best power of two, as a half of what E8M0 says (half_of_e8m0). */
static Scale power_of_two(Parts *parts, const PackSpan *span) {
    Scale tries[TRIES] = {{0, 0}};
    int exponent, first;
    frexpf(span->extreme / 12, &exponent);
    first = exponent - TRIES / 2 > -120 ? exponent - TRIES / 2 : -120; /* 1/scale stays a number */
    for (int c = 0; c < TRIES; c++) tries[c].scale = ldexpf(1, first + c);
    size_t best = span_best(span, tries);
    parts->scale = (uint16_t)(first + (int)best + 128);
    return tries[best];
}

static bool pack_small(Parts *parts, SumTries *adder, DType dtype, const float *x) {
    const Levels *levels = &codings[dtype].levels;
    Scale scale;
    if (dtype == DTYPE_Q8_0) {
        scale = round_scale(parts, false, largest_by_127(x));
    } else {
        PackSpan span;
        span_begin(&span, adder, levels, has_mins(dtype) ? MIN_ANY : MIN_NONE, x, BLOCK);
        scale =
            dtype == DTYPE_MXFP4 ? power_of_two(parts, &span) : round_scale(parts, false, span_search(&span));
    }
    if (!isfinite(scale.scale) || !isfinite(scale.min)) return false;
    find_levels(parts->q, levels, x, BLOCK, scale);
    return true;
}

static int within(int value, int lowest, int highest) {
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* Whole numbers for a span's scale and minimum: the best of those about what the search wants. */
static Scale settle(Parts *parts, size_t j, const PackSpan *span, const Coding *coding, Scale unit,
                    Scale wanted) {
    const int columns = unit.min > 0 ? 4 : 1, rows = TRIES / columns;
    const int first = unit.scale != 0 ? (int)floorf(wanted.scale / unit.scale) - rows / 2 + 1 : 0,
              first_min = unit.min > 0 ? (int)floorf(wanted.min / unit.min) - 1 : 0;
    int scales[TRIES], mins[TRIES];
    Scale tries[TRIES];
    for (int c = 0; c < TRIES; c++) {
        scales[c] = within(first + c / columns, coding->lowest_scale, coding->highest_scale);
        mins[c] = within(first_min + c % columns, 0, coding->highest_scale);
        tries[c] = (Scale){unit.scale * (float)scales[c], unit.min * (float)mins[c]};
    }
    size_t best = span_best(span, tries);
    parts->scales[j] = scales[best], parts->mins[j] = mins[best];
    return tries[best];
}

static bool pack_large(Parts *parts, SumTries *adder, DType dtype, const float *x) {
    const Coding *coding = &codings[dtype];
    const size_t length = span_of(dtype), n = GROUP / length;
    PackSpan spans[GROUP_SPANS];
    Scale wanted[GROUP_SPANS], largest = {0, 0};
    for (size_t j = 0; j < n; j++) {
        span_begin(&spans[j], adder, &coding->levels, has_mins(dtype) ? MIN_POSITIVE : MIN_NONE,
                   x + j * length, length);
        wanted[j] = span_search(&spans[j]);
        if (fabsf(wanted[j].scale) > fabsf(largest.scale)) largest.scale = wanted[j].scale;
        if (wanted[j].min > largest.min) largest.min = wanted[j].min;
    }
    const int end = coding->lowest_scale ? coding->lowest_scale : coding->highest_scale;
    Scale unit = round_scale(parts, true,
                             (Scale){largest.scale / (float)end, largest.min / (float)coding->highest_scale});
    if (!isfinite(unit.scale) || !isfinite(unit.min)) return false;
    for (size_t j = 0; j < n; j++) {
        Scale scale = settle(parts, j, &spans[j], coding, unit, wanted[j]);
        find_levels(parts->q + j * length, &coding->levels, x + j * length, length, scale);
    }
    return true;
}

/* From here on blocks.h runs the other way round. Each helper returns where the next byte goes. */

static unsigned char *put_half(unsigned char *to, uint16_t half) {
    memcpy(to, &half, sizeof half);
    return to + sizeof half;
}

/* The low halves of n bytes are those of q[0, n), the high ones those of q[n, 2n). */
static unsigned char *join_nibbles(unsigned char *to, const uint8_t *q, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = (unsigned char)((q[i] & 15) | q[n + i] << 4);
    return to + n;
}

/* Two bits of each of 128 numbers, from bit `shift` on. */
static unsigned char *join_pairs(unsigned char *to, const uint8_t *q, int shift) {
    for (size_t i = 0; i < 32; i++)
        to[i] = (unsigned char)((q[i] >> shift & 3) | (q[32 + i] >> shift & 3) << 2 |
                                (q[64 + i] >> shift & 3) << 4 | (q[96 + i] >> shift & 3) << 6);
    return to + 32;
}

/* Bit `bit` of weight 32·j + i in bit j of byte i. */
static unsigned char *join_bits(unsigned char *to, const uint8_t q[GROUP], int bit) {
    for (size_t i = 0; i < 32; i++) {
        unsigned byte = 0;
        for (size_t j = 0; j < 8; j++) byte |= (q[32 * j + i] >> bit & 1u) << j;
        to[i] = (unsigned char)byte;
    }
    return to + 32;
}

static void put_small(unsigned char *to, DType dtype, const Parts *parts) {
    const uint8_t *q = parts->q;
    uint8_t nibbles[BLOCK];
    if (dtype == DTYPE_MXFP4) { /* the sign is the highest bit; level 7 is 0 */
        *to++ = (unsigned char)parts->scale;
        for (size_t i = 0; i < BLOCK; i++) nibbles[i] = (uint8_t)(q[i] < 7 ? 15 - q[i] : q[i] - 7);
        q = nibbles;
    } else {
        to = put_half(to, parts->scale);
    }
    if (has_mins(dtype)) to = put_half(to, parts->min ^ 0x8000); /* these are added, not subtracted */
    if (dtype == DTYPE_Q5_0 || dtype == DTYPE_Q5_1) {
        uint32_t fifth = 0;
        for (size_t i = 0; i < BLOCK; i++) fifth |= (uint32_t)(q[i] >> 4) << i;
        memcpy(to, &fifth, sizeof fifth);
        to += sizeof fifth;
    }
    if (dtype != DTYPE_Q8_0)
        join_nibbles(to, q, BLOCK / 2);
    else
        for (size_t i = 0; i < BLOCK; i++) to[i] = q[i] ^ 128;
}

static void put_q2_k(unsigned char *to, const Parts *parts) {
    for (size_t i = 0; i < 16; i++) *to++ = (unsigned char)(parts->scales[i] | parts->mins[i] << 4);
    for (size_t half = 0; half < 2; half++) to = join_pairs(to, parts->q + 128 * half, 0);
    put_half(put_half(to, parts->scale), parts->min);
}

static void put_q3_k(unsigned char *to, const Parts *parts) {
    to = join_bits(to, parts->q, 2);
    for (size_t half = 0; half < 2; half++) to = join_pairs(to, parts->q + 128 * half, 0);
    memset(to, 0, 12);
    for (size_t i = 0; i < 16; i++) {
        unsigned scale = (unsigned)(parts->scales[i] + 32);
        to[i % 8] = (unsigned char)(to[i % 8] | (scale & 15) << i / 8 * 4);
        to[8 + i % 4] = (unsigned char)(to[8 + i % 4] | scale >> 4 << i / 4 * 2);
    }
    put_half(to + 12, parts->scale);
}

/* Q4_K's and Q5_K's: the upper two bits of the last four scales and minima lie above the first four. */
static unsigned char *put_scales_k(unsigned char *to, const Parts *parts) {
    const int *scales = parts->scales, *mins = parts->mins;
    to = put_half(put_half(to, parts->scale), parts->min);
    for (size_t i = 0; i < 4; i++) {
        to[i] = (unsigned char)(scales[i] | scales[4 + i] >> 4 << 6);
        to[4 + i] = (unsigned char)(mins[i] | mins[4 + i] >> 4 << 6);
        to[8 + i] = (unsigned char)((scales[4 + i] & 15) | (mins[4 + i] & 15) << 4);
    }
    return to + 12;
}

static void put_q4_k(unsigned char *to, const Parts *parts) {
    to = put_scales_k(to, parts);
    for (size_t j = 0; j < 4; j++) to = join_nibbles(to, parts->q + 64 * j, 32);
}

static void put_q5_k(unsigned char *to, const Parts *parts) {
    to = put_scales_k(to, parts);
    to = join_bits(to, parts->q, 4);
    for (size_t j = 0; j < 4; j++) to = join_nibbles(to, parts->q + 64 * j, 32);
}

static void put_q6_k(unsigned char *to, const Parts *parts) {
    for (size_t half = 0; half < 2; half++) to = join_nibbles(to, parts->q + 128 * half, 64);
    for (size_t half = 0; half < 2; half++) to = join_pairs(to, parts->q + 128 * half, 4);
    for (size_t i = 0; i < 16; i++) *to++ = (unsigned char)parts->scales[i];
    put_half(to, parts->scale);
}

static void put_iq4_xs(unsigned char *to, const Parts *parts) {
    to = put_half(to, parts->scale);
    memset(to, 0, 6);
    for (size_t i = 0; i < 8; i++) {
        unsigned scale = (unsigned)(parts->scales[i] + 32);
        to[i / 4] = (unsigned char)(to[i / 4] | scale >> 4 << i % 4 * 2);
        to[2 + i / 2] = (unsigned char)(to[2 + i / 2] | (scale & 15) << i % 2 * 4);
    }
    to += 6;
    for (size_t i = 0; i < 8; i++) to = join_nibbles(to, parts->q + 32 * i, 16);
}

static void put_large(unsigned char *to, DType dtype, const Parts *parts) {
    switch (dtype) {
    case DTYPE_Q2_K: put_q2_k(to, parts); break;
    case DTYPE_Q3_K: put_q3_k(to, parts); break;
    case DTYPE_Q4_K: put_q4_k(to, parts); break;
    case DTYPE_Q5_K: put_q5_k(to, parts); break;
    case DTYPE_Q6_K: put_q6_k(to, parts); break;
    default: put_iq4_xs(to, parts);
    }
}

/* Beyond what scales of F16 reach, 3e8; so that none of the search's sums overflows. */
static bool are_moderate(const float *x, size_t n) {
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok &= fabsf(x[i]) < 1e9f;
    return ok;
}

static bool pack_blocks(unsigned char *to, DType dtype, const float *x, size_t n, SumTries *adder) {
    const DTypeInfo *info = dtype_info(dtype);
    for (; n; n -= info->block, x += info->block, to += info->block_bytes) {
        Parts parts;
        if (info->block == GROUP) {
            if (!pack_large(&parts, adder, dtype, x)) return false;
            put_large(to, dtype, &parts);
        } else {
            if (!pack_small(&parts, adder, dtype, x)) return false;
            put_small(to, dtype, &parts);
        }
    }
    return true;
}

/* Rounds to even; what only rounds up to infinity does. */
static uint16_t bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static bool pack_halves(unsigned char *to, DType dtype, const float *x, size_t n) {
    const uint16_t infinite = dtype == DTYPE_F16 ? 0x7c00 : 0x7f80;
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        uint16_t half = dtype == DTYPE_F16 ? f32_to_f16(x[i]) : bf16_of(x[i]);
        ok = ok && (half & infinite) != infinite;
        put_half(to + 2 * i, half);
    }
    return ok;
}

bool pack_row(void *to, DType dtype, const float *x, size_t n, SumTries *adder) {
    switch (dtype) {
    case DTYPE_F32: memcpy(to, x, n * sizeof *x); return true;
    case DTYPE_F16:
    case DTYPE_BF16: return pack_halves(to, dtype, x, n);
    default: return are_moderate(x, n) && pack_blocks(to, dtype, x, n, adder);
    }
}
