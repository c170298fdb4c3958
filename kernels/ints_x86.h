/*
 * Integers on x86-64. Instructions for bytes want one factor unsigned; here that is the weight, with its excess. What
 * this adds to a span's sum, excess·Σ q, is what the sum begins with, negative.
 */
#ifndef ATTN_INTS_X86_H
#define ATTN_INTS_X86_H

#include <immintrin.h>
#include <math.h>

#define LARGEST_Q(bytes) ((bytes) == 1 ? 127 : 32767)
#define STEPS(bytes) ((bytes) == 1 ? 63 : 32767)

/* The least power of two that is no less than a normal number. */
OPENED float next_power(float a) {
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits = (bits + 0x7fffff) & 0x7f800000;
    memcpy(&a, &bits, sizeof bits);
    return a;
}

OPENED __m256i load32(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
OPENED void store32(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }

/* The four lanes of each half, added up. */
OPENED void add_halves(int32_t halves[2], __m256i v) {
    v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
    v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
    halves[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(v));
    halves[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(v, 1));
}

/*
 * d is max |x| / LARGEST_Q, for bytes the next power of two. Blocks of nothing but tiny numbers become zeros, because
 * 1/d would overflow; from 2^100 on they count as not finite.
 */
OPENED float round_block(size_t bytes, unsigned char *q, int32_t halves[2], const float *x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), ones = _mm256_set1_epi16(1);
    const float largest_q = LARGEST_Q(bytes);
    __m256i four = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) /* the bits of non-negative floats order as integers do, NaN above all */
        four = _mm256_max_epi32(four,
                                _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)), magnitude));
    __m128i two = _mm_max_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0x4e));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1));
    float max = _mm_cvtss_f32(_mm_castsi128_ps(two)), d = max / largest_q;
    if (!(max < 0x1p100f)) return NAN;
    if (max < 0x1p-100f) return 0;
    if (bytes == 1) d = next_power(d);
    __m256 factor = _mm256_set1_ps(bytes == 1 ? 1 / d : largest_q / max);
    __m256i v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
    __m256i low = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xd8),
            high = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[2], v[3]), 0xd8),
            low_sums = _mm256_madd_epi16(low, ones), high_sums = _mm256_madd_epi16(high, ones);
    add_halves(halves, _mm256_add_epi32(_mm256_permute2x128_si256(low_sums, high_sums, 0x20),
                                        _mm256_permute2x128_si256(low_sums, high_sums, 0x31)));
    if (bytes == 1) {
        store32(q, _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8));
    } else {
        store32(q, low);
        store32(q + 32, high);
    }
    return d;
}

/* The weights of ROWS rows and up to GROUP columns. */
typedef struct Panel {
    Group rows[ROWS];                        /* of small blocks q alone */
    _Alignas(64) uint16_t wide[ROWS][GROUP]; /* q, where activations have two bytes */
    _Alignas(64) float scales[GROUP_SPANS][ROWS], mins[GROUP_SPANS][ROWS]; /* of the rows' spans */
} Panel;

OPENED void transpose_scales(float (*to)[ROWS], const Group *rows, size_t at, size_t spans) {
    for (size_t r = 0; r < ROWS; r += 8)
        for (size_t s = 0; s < spans; s += 8) {
            __m256 square[8];
            for (size_t i = 0; i < 8; i++)
                square[i] =
                    _mm256_load_ps((const float *)(const void *)((const char *)&rows[r + i] + at) + s);
            transpose8(square);
            for (size_t i = 0; i < 8; i++) _mm256_store_ps(to[s + i] + r, square[i]);
        }
}

/* Small blocks: the halves of all rows are put beside each other first. */
OPENED void unpack_small_panel(DType dtype, Panel *panel, const unsigned char *const rows[ROWS], size_t at,
                               size_t blocks) {
    _Alignas(32) uint16_t scales[GROUP / BLOCK][ROWS], mins[GROUP / BLOCK][ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        const unsigned char *from = rows[i] + at;
        for (size_t b = 0; b < blocks; b++, from += small_block_bytes(dtype)) {
            unpack_small(dtype, panel->rows[i].q + b * BLOCK, from);
            if (dtype == DTYPE_MXFP4)
                panel->scales[b][i] = half_of_e8m0(from[0]);
            else
                memcpy(&scales[b][i], from, sizeof scales[b][i]);
            if (has_mins(dtype)) memcpy(&mins[b][i], from + 2, sizeof mins[b][i]);
        }
    }
    for (size_t b = 0; b < blocks; b++)
        for (size_t r = 0; r < ROWS; r += LANES) {
            if (dtype != DTYPE_MXFP4) vec_store(panel->scales[b] + r, vec_from_f16(scales[b] + r));
            if (has_mins(dtype))
                vec_store(panel->mins[b] + r, vec_sub(vec_set(-0.0f), vec_from_f16(mins[b] + r)));
        }
}

/* Columns from the byte `at` of each row on. */
static inline void unpack_panel(size_t bytes, Panel *panel, DType dtype,
                                const unsigned char *const rows[ROWS], size_t at, size_t cols) {
    switch (dtype) {
        SMALL_TYPES(unpack_small_panel, panel, rows, at, cols / BLOCK)
    default:
        for (size_t i = 0; i < ROWS; i++) unpack_group(dtype, &panel->rows[i], rows[i] + at, cols);
        transpose_scales(panel->scales, panel->rows, offsetof(Group, scales), cols / span_of(dtype));
        if (has_mins(dtype))
            transpose_scales(panel->mins, panel->rows, offsetof(Group, mins), cols / span_of(dtype));
    }
    for (size_t i = 0; i < ROWS && bytes == 2; i++)
        for (size_t c = 0; c < GROUP; c++) panel->wide[i][c] = panel->rows[i].q[c];
}

/* Four products of bytes that are added up (VNNI), or two of int16. */
OPENED __m256i dot_units(size_t bytes, __m256i w, __m256i x) {
#ifdef BYTE_DOT
    if (bytes == 1) return BYTE_DOT(_mm256_setzero_si256(), w, x);
#endif
    if (bytes == 1) return _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1));
    return _mm256_madd_epi16(w, x);
}

/* A block's products: those of its first sixteen columns in the first four lanes, of the others in the last. */
OPENED __m256i dot_block(size_t bytes, const uint8_t *w, const unsigned char *x) {
    if (bytes == 1) return dot_units(1, load32(w), load32(x));
    __m256i first = dot_units(2, _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)w)), load32(x)),
            last =
                dot_units(2, _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(w + 16))), load32(x + 32));
    return _mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20),
                            _mm256_permute2x128_si256(first, last, 0x31));
}

/* Four rows' halves: lane i of each half is what that half of v[i] adds up to. */
OPENED __m256i add_four(const __m256i v[4]) {
    __m256i first = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1])),
            last = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(first, last), _mm256_unpackhi_epi64(first, last));
}

#ifdef WIDE_BYTE_DOT
/* Sixteen rows and two blocks at a time: sums[s][row] of the spans in 64 columns. */
OPENED void dot_rows(size_t span, __m512i sums[4], const Panel *panel, size_t c, const unsigned char *x) {
    __m512i fours[4]; /* of four rows each, their sums of sixteen columns in quarters */
    for (size_t i = 0; i < 4; i++) {
        __m512i v[4];
        for (size_t j = 0; j < 4; j++)
            v[j] =
                WIDE_BYTE_DOT(_mm512_setzero_si512(), _mm512_load_si512(panel->rows[4 * i + j].q + c),
                                    _mm512_loadu_si512(x));
        __m512i first =
                    _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])),
                last = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
        fours[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(first, last), _mm512_unpackhi_epi64(first, last));
    }
    if (span == BLOCK) {
        __m512i low = _mm512_add_epi32(_mm512_shuffle_i32x4(fours[0], fours[1], 0x88),
                                       _mm512_shuffle_i32x4(fours[0], fours[1], 0xdd)),
                high = _mm512_add_epi32(_mm512_shuffle_i32x4(fours[2], fours[3], 0x88),
                                        _mm512_shuffle_i32x4(fours[2], fours[3], 0xdd));
        sums[0] = _mm512_shuffle_i32x4(low, high, 0x88);
        sums[1] = _mm512_shuffle_i32x4(low, high, 0xdd);
        return;
    }
    for (size_t half = 0; half < 2; half++) {
        __m512i low = half ? _mm512_shuffle_i32x4(fours[0], fours[1], 0xee)
                           : _mm512_shuffle_i32x4(fours[0], fours[1], 0x44),
                high = half ? _mm512_shuffle_i32x4(fours[2], fours[3], 0xee)
                            : _mm512_shuffle_i32x4(fours[2], fours[3], 0x44);
        sums[2 * half] = _mm512_shuffle_i32x4(low, high, 0x88);
        sums[2 * half + 1] = _mm512_shuffle_i32x4(low, high, 0xdd);
    }
}

OPENED void dot_group(size_t bytes, size_t span, bool mins, float *sums, const Panel *panel,
                      const PackedInts *x, size_t begin, size_t cols) {
    (void)bytes;
    Vec sum = vec_load(sums);
    for (size_t c = 0; c < cols; c += 64) {
        __m512i dots[4];
        dot_rows(span, dots, panel, c, x->q + begin + c);
        for (size_t s = 0; s < 64 / span && c + s * span < cols; s++) {
            const size_t i = c / span + s, at = begin / span + i;
            Vec dot = _mm512_cvtepi32_ps(_mm512_add_epi32(dots[s], _mm512_set1_epi32(x->start[at])));
            sum = vec_fma(vec_mul(dot, vec_set(x->d[at * span / BLOCK])), vec_load(panel->scales[i]), sum);
            if (mins) sum = vec_fnma(vec_set(x->sums[at]), vec_load(panel->mins[i]), sum);
        }
    }
    vec_store(sums, sum);
}
#else
OPENED void dot_group(size_t bytes, size_t span, bool mins, float *sums, const Panel *panel,
                      const PackedInts *x, size_t begin, size_t cols) {
    for (size_t r = 0; r < ROWS; r += 8) {
        __m256 sum = _mm256_load_ps(sums + r);
        for (size_t b = 0; b < cols / BLOCK; b++) {
            const size_t block = begin / BLOCK + b;
            const __m256 d = _mm256_set1_ps(x->d[block]);
            __m256i rows[8];
            for (size_t i = 0; i < 8; i++)
                rows[i] = dot_block(bytes, panel->rows[r + i].q + b * BLOCK, x->q + block * BLOCK * bytes);
            __m256i first = add_four(rows), last = add_four(rows + 4),
                    halves[2] = {_mm256_permute2x128_si256(first, last, 0x20),
                                 _mm256_permute2x128_si256(first, last, 0x31)};
            if (span == BLOCK) halves[0] = _mm256_add_epi32(halves[0], halves[1]);
            for (size_t s = 0; s < BLOCK / span; s++) {
                const size_t i = b * (BLOCK / span) + s, at = begin / span + i;
                __m256i dots = _mm256_add_epi32(halves[s], _mm256_set1_epi32(x->start[at]));
                sum = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(dots), d),
                                      _mm256_load_ps(panel->scales[i] + r), sum);
                if (mins)
                    sum = _mm256_fnmadd_ps(_mm256_set1_ps(x->sums[at]), _mm256_load_ps(panel->mins[i] + r),
                                           sum);
            }
        }
        _mm256_store_ps(sums + r, sum);
    }
}

#endif

/*
 * sums[row][token] += Σ_span scale[row]·d[token]·(start[token] + Σ_unit panel[row][unit]·q[unit][token]), less minima.
 *
 * Where bytes are multiplied by VNNI, sums begin at 1.5·2^23·d as a float's bits, so that they are floats when they are
 * done: d·(1.5·2^23 + sum), for |sum| < 2^22. That is why d is a power of two.
 */
OPENED void micro_ints(size_t vectors, size_t n_rows, size_t bytes, size_t span, bool mins, float *sums,
                       const Panel *panel, size_t r, const PackedInts *x, size_t begin, size_t cols) {
    const size_t units = span / 4 * bytes, tokens = vectors * LANES;
    Vec totals[2 * TILE_ROWS * VECTORS];
    for (size_t i = 0; i < n_rows * vectors; i++) totals[i] = vec_load(sums + i * LANES);
    for (size_t s = 0; s < cols / span; s++) {
        const size_t at = begin / span + s;
        const unsigned char *q = x->q + at * units * tokens * 4;
        Ints dots[2 * TILE_ROWS * VECTORS];
        Vec offset[VECTORS];
        for (size_t v = 0; v < vectors; v++) {
            Vec d = vec_load(x->d + at * span / BLOCK * tokens + v * LANES);
            Ints start = ints_begin(bytes, &offset[v], d, x->start + at * tokens + v * LANES);
            for (size_t i = 0; i < n_rows; i++) dots[i * vectors + v] = start;
        }
#pragma GCC unroll 16
        for (size_t u = 0; u < units; u++, q += tokens * 4) {
            Ints xs[VECTORS];
            for (size_t v = 0; v < vectors; v++) {
                xs[v] = ints_load(q + v * LANES * 4);
                KEEP_IN_REGISTER(xs[v]);
            }
            for (size_t i = 0; i < n_rows; i++) {
                const void *unit = bytes == 1 ? (const void *)(panel->rows[r + i].q + s * span + 4 * u)
                                              : (const void *)(panel->wide[r + i] + s * span + 2 * u);
                Ints w = ints_spread(unit);
                for (size_t v = 0; v < vectors; v++) {
                    dots[i * vectors + v] = ints_dot(bytes, dots[i * vectors + v], w, xs[v]);
                    KEEP_IN_REGISTER(dots[i * vectors + v]);
                }
            }
        }
        for (size_t v = 0; v < vectors; v++) {
            Vec q_sums = mins ? vec_load(x->sums + at * tokens + v * LANES) : vec_set(0);
            for (size_t i = 0; i < n_rows; i++) {
                Vec *total = &totals[i * vectors + v];
                *total = vec_fma(
                    ints_end(bytes, dots[i * vectors + v], offset[v], x->start + at * tokens + v * LANES),
                    vec_set(panel->scales[s][r + i]), *total);
                if (mins) *total = vec_fnma(q_sums, vec_set(panel->mins[s][r + i]), *total);
            }
        }
    }
    for (size_t i = 0; i < n_rows * vectors; i++) vec_store(sums + i * LANES, totals[i]);
}

/* All rows of a panel, by as many at a time as hide the latency of products. */
OPENED void tile_ints(size_t vectors, size_t bytes, size_t span, bool mins, float *sums, const Panel *panel,
                      const PackedInts *x, size_t begin, size_t cols) {
    const size_t n_rows = vectors == 1 ? 2 * TILE_ROWS : TILE_ROWS;
    for (size_t r = 0; r < ROWS; r += n_rows)
        micro_ints(vectors, n_rows, bytes, span, mins, sums + r * vectors * LANES, panel, r, x, begin, cols);
}

#endif
