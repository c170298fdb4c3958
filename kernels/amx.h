/*
 * Prompts by AMX, whose registers are tiles. One instruction adds the products of two tiles of 16 × 32 BF16 to a tile
 * of 16 × 16 sums. That is 8192 multiply-adds in 16 cycles, sixteen times what AVX-512 does. Intel 64 and IA-32
 * Architectures Software Developer's Manual, volume 1, chapter 18.
 *
 * A tile of sums is [row of weights][token], so that weights lie as in their matrix. Only activations, which all rows
 * share, are packed in pairs. Both are rounded to BF16, which errs less than blocks of 8 bits do. But F32 and F16 are
 * split in two: x ≈ x_0 + x_1 and w·x ≈ w_0·x_0 + w_1·x_0 + w_0·x_1, with errors of up to 3·2^-16 (Henry, Tang &
 * Heinecke 2019, arXiv:1904.06376).
 *
 *   TILES_CONFIGURE(sizes)   TILES_RELEASE()   TILE_ZERO(i)
 *   TILE_LOAD(i, p, stride)   TILE_STREAM(i, p, stride)   TILE_STORE(i, p, stride): rows lie stride bytes apart;
 *                             TILE_STREAM reads from L2 and leaves L1 to others
 *   TILE_DOT(sums, w, x)
 */
#ifndef ATTN_AMX_H
#define ATTN_AMX_H

#define UNPACKED_ROWS 1 /* a row is unpacked while tiles are multiplied */
#define HAS_UNPACK_GROUPS static
#include "blocks.h"
#include "kernels.h"
#include "weights.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef TILE_LOAD
#define TILES_CONFIGURE(sizes) __asm__ volatile("ldtilecfg %0" : : "m"(*(sizes)))
#define TILES_RELEASE() __asm__ volatile("tilerelease" : :)
#define TILE_ZERO(i) __asm__ volatile("tilezero %%tmm" #i : :)
#define TILE_LOAD(i, p, stride)                                                                              \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #i : : "r"(p), "r"((size_t)(stride)) : "memory")
#define TILE_STREAM(i, p, stride)                                                                            \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #i : : "r"(p), "r"((size_t)(stride)) : "memory")
#define TILE_STORE(i, p, stride)                                                                             \
    __asm__ volatile("tilestored %%tmm" #i ", (%0,%1,1)" : : "r"(p), "r"((size_t)(stride)) : "memory")
#define TILE_DOT(sums, w, x) __asm__ volatile("tdpbf16ps %%tmm" #x ", %%tmm" #w ", %%tmm" #sums : :)
#endif

enum {
    SIDE = 16,                   /* rows of weights, or tokens, of a tile */
    BAND = 2 * SIDE,             /* rows that are multiplied together */
    PAIRS = 16,                  /* of its columns */
    STEP = 2 * PAIRS,            /* columns */
    PART = SIDE * STEP,          /* BF16s of a tile */
    PANEL_BYTES = 96 << 10,      /* of a band's weights, unpacked, at most; two of them are a tenth of L2 */
    IN_L1_BYTES = 24 << 10,      /* so much of a panel stays in L1, beside sums and what is being unpacked */
    PACK_TOKENS = 48,            /* that one call packs */
    UNPACK_STEPS = GROUP / STEP, /* of a row that are unpacked at a time, while tiles are multiplied */
};

/* How many BF16 make a number of a dtype. */
#define PARTS(dtype) ((size_t)((dtype) == DTYPE_F32 || (dtype) == DTYPE_F16 ? 2 : 1))

/* x less what it was rounded to. */
static inline Vec bf16_rest(Vec x, __m256i rounded) {
    return vec_sub(x, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16)));
}

/* The parts of STEP numbers, each of sixteen pairs of BF16. */
OPENED void split(size_t n_parts, Vec parts[2], Vec low, Vec high) {
    __m512i pairs = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    parts[0] = _mm512_castsi512_ps(pairs);
    if (n_parts == 1) return;
    low = bf16_rest(low, _mm512_castsi512_si256(pairs));
    high = bf16_rest(high, _mm512_extracti64x4_epi64(pairs, 1));
    parts[1] = _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Up to SIDE tokens from the first one on, as packed[step][part][pair][token][2]. */
OPENED void pack_pairs_of_tile(size_t n_parts, float *packed, const float *x, size_t first, size_t tokens,
                               size_t cols) {
    float *to = packed + first * cols * n_parts / 2;
    for (size_t c = 0; c < cols; c += STEP) {
        Vec parts[2][SIDE];
        for (size_t t = 0; t < SIDE; t++) { /* beyond the last token that one again, not kept */
            const float *from = x + (first + smaller(t, tokens - 1)) * cols + c;
            Vec split_x[2];
            split(n_parts, split_x, vec_load(from), vec_load(from + LANES));
            for (size_t i = 0; i < n_parts; i++) parts[i][t] = split_x[i];
        }
        for (size_t i = 0; i < n_parts; i++) {
            vec_transpose(parts[i]);
            for (size_t pair = 0; pair < PAIRS; pair++, to += tokens)
                vec_store_first(to, parts[i][pair], tokens);
        }
    }
}

/* Tokens [first, first + PACK_TOKENS) of n. */
OPENED void pack_for_tiles(size_t n_parts, void *packed, const float *x, size_t n, size_t cols,
                           size_t first) {
    size_t end = smaller(first + PACK_TOKENS, n);
    for (size_t t = first; t < end; t += SIDE)
        pack_pairs_of_tile(n_parts, packed, x, t, smaller(SIDE, end - t), cols);
}

static inline void pack_rounded(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t i) {
    (void)dtype;
    pack_for_tiles(1, packed, x, n, cols, i * PACK_TOKENS);
}

static inline void pack_split(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t i) {
    (void)dtype;
    pack_for_tiles(2, packed, x, n, cols, i * PACK_TOKENS);
}

/* STEP weights of a group, whose spans have 16 or 32 columns. */
OPENED void load_step(Vec w[2], DType dtype, const PlainGroup *group, size_t step) {
    const __m512i excess = _mm512_set1_epi32(excess_of(dtype));
    for (size_t i = 0; i < 2; i++) {
        const size_t c = step * STEP + i * LANES, span = c / span_of(dtype);
        __m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(group->q + c)));
        w[i] = vec_mul(vec_set(group->scales[span]), _mm512_cvtepi32_ps(_mm512_sub_epi32(q, excess)));
        if (has_mins(dtype)) w[i] = vec_sub(w[i], vec_set(group->mins[span]));
    }
}

/*
 * Panels go through all bands of BAND rows before they go on to the next columns. They have as many columns each time,
 * but fewer the last time.
 */
typedef struct PanelPlace {
    size_t r, begin, steps; /* its first row and column; 0 steps: there are no more panels */
} PanelPlace;

OPENED PanelPlace panel_at(size_t n_parts, size_t i, size_t row_begin, size_t row_end, size_t cols) {
    const size_t most = PANEL_BYTES / sizeof(uint16_t) / PART / (BAND / SIDE) / n_parts;
    if (row_begin >= row_end) return (PanelPlace){0};
    size_t n_bands = (row_end - row_begin + BAND - 1) / BAND, steps = cols / STEP,
           n_panels = (steps + most - 1) / most,
           panel_steps = ((steps + n_panels - 1) / n_panels + UNPACK_STEPS - 1) / UNPACK_STEPS * UNPACK_STEPS,
           begin = smaller(i / n_bands * panel_steps, steps);
    return (PanelPlace){row_begin + i % n_bands * BAND, begin * STEP, smaller(panel_steps, steps - begin)};
}

/* A panel on its way from BAND rows to panel[step][part][row][STEP]: row by row, because memory is fastest in order. */
typedef struct Unpacking {
    DType dtype;
    const unsigned char *row; /* its first step */
    size_t row_bytes;
    uint16_t *panel;
    size_t r, n_rows;   /* which row that is; beyond n_rows the last one comes again and is not kept */
    size_t step, steps; /* of the row */
} Unpacking;

OPENED void begin_unpacking(Unpacking *left, const Matrix *w, size_t row_end, const PanelPlace *panel,
                            uint16_t *to) {
    size_t row_bytes = dtype_bytes(w->dtype, w->cols);
    *left = (Unpacking){.dtype = w->dtype, .row_bytes = row_bytes, .panel = to, .r = BAND};
    if (!panel->steps) return;
    left->row = (const unsigned char *)w->data + panel->r * row_bytes + dtype_bytes(w->dtype, panel->begin);
    left->r = 0;
    left->n_rows = row_end - panel->r;
    left->steps = panel->steps;
}

/* n ≤ UNPACK_STEPS steps of quantised weights, BAND·STEP numbers apart. */
static void unpack_rounded(uint16_t *to, DType dtype, const unsigned char *from, size_t n) {
    PlainGroup group;
    unpack_plainly(dtype, &group, from, n * STEP);
    for (size_t step = 0; step < n; step++, to += BAND * STEP) {
        Vec w[2], parts[2];
        load_step(w, dtype, &group, step);
        split(1, parts, w[0], w[1]);
        vec_store((float *)(void *)to, parts[0]);
    }
}

/* n steps of a row of floats, as their parts. */
OPENED void unpack_floats(DType dtype, uint16_t *to, const unsigned char *from, size_t n) {
    const size_t n_parts = PARTS(dtype);
    for (; n; n--, from += dtype_bytes(dtype, STEP), to += n_parts * BAND * STEP) {
        Vec parts[2];
        if (dtype == DTYPE_BF16) {
            memcpy(to, from, 2 * STEP);
            continue;
        }
        split(n_parts, parts, load_weights(dtype, from, 0), load_weights(dtype, from, LANES));
        for (size_t i = 0; i < n_parts; i++) vec_store((float *)(void *)(to + i * BAND * STEP), parts[i]);
    }
}

/* Unpacks n times UNPACK_STEPS steps of a row, or what is left of it, and fetches as much of the next row. */
static ALONE void unpack_steps(Unpacking *left, size_t n) {
    const DType dtype = left->dtype;
    for (; n && left->r < BAND; n--) {
        const unsigned char *from = left->row + dtype_bytes(dtype, left->step * STEP);
        uint16_t *to = left->panel + left->step * PARTS(dtype) * BAND * STEP + left->r * STEP;
        for (size_t line = 0; line < dtype_bytes(dtype, UNPACK_STEPS * STEP); line += 64)
            __builtin_prefetch(from + left->row_bytes + line);
        const size_t steps = smaller(UNPACK_STEPS, left->steps - left->step);
        if (dtype_is_quantised(dtype))
            unpack_rounded(to, dtype, from, steps);
        else
            FOR_FLOATS(dtype, unpack_floats, to, from, steps)
        left->step += steps;
        if (left->step < left->steps) continue;
        left->step = 0;
        left->r++;
        if (left->r < left->n_rows) left->row += left->row_bytes;
    }
}

/* The sums of BAND rows and two tiles of tokens, on their way to y. */
typedef struct TilesResult {
    _Alignas(64) float sums[4][SIDE * SIDE]; /* [token tile, row tile][row][token] */
    float *y;                                /* of the first row and token */
    size_t y_stride, n_rows, n_tokens;
    const float *start; /* [n_rows] what y begins with, or NULL: with what it is */
} TilesResult;

static inline void finish_tile(const TilesResult *result, size_t i) {
    size_t t = i / 2 * SIDE, r = i % 2 * SIDE;
    if (t >= result->n_tokens || r >= result->n_rows) return;
    size_t n_rows = smaller(SIDE, result->n_rows - r);
    float *y = result->y + t * result->y_stride + r;
    Vec tokens[SIDE];
    for (size_t j = 0; j < SIDE; j++) tokens[j] = vec_load(result->sums[i] + j * SIDE);
    vec_transpose(tokens);
    for (size_t j = 0; j < SIDE && t + j < result->n_tokens; j++, y += result->y_stride) {
        Vec start = vec_load_first(result->start ? result->start + r : y, n_rows);
        vec_store_first(y, vec_add(start, tokens[j]), n_rows);
    }
}

/*
 * Tiles 0 to 3 hold sums of up to 2·SIDE rows and columns. Tiles 4 and 5 hold their rows' factors, 6 and 7 their
 * columns': 4 belongs to sums 0 and 2, 5 to 1 and 3, 6 to 0 and 1, 7 to 2 and 3.
 */
static inline void configure_tiles(size_t n_rows, size_t n_columns) {
    struct {
        uint8_t palette, start_row, zeros[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } sizes = {.palette = 1};
    size_t rows[2] = {smaller(SIDE, n_rows)}, columns[2] = {smaller(SIDE, n_columns)};
    rows[1] = n_rows - rows[0];
    columns[1] = n_columns - columns[0];
    for (size_t i = 0; i < 8; i++) {
        size_t row = i < 6 ? rows[i % 2] : PAIRS, column = i < 4   ? columns[i / 2]
                                                           : i < 6 ? PAIRS
                                                                   : columns[i % 2];
        sizes.rows[i] = (uint8_t)(column ? row : 0);
        sizes.row_bytes[i] = (uint16_t)(row ? 4 * column : 0);
    }
    TILES_CONFIGURE(&sizes);
}

/* The products of one or two tiles high and one or two wide. */
OPENED void dot_tiles(bool two, bool wide) {
    TILE_DOT(0, 4, 6);
    if (two) TILE_DOT(1, 5, 6);
    if (wide) TILE_DOT(2, 4, 7);
    if (two && wide) TILE_DOT(3, 5, 7);
}

/*
 * result->sums = a panel's weights · one or two tiles of tokens, x [steps][part] tiles each. While the tiles' unit is
 * busy, the vectors' unit finishes the result before this one and unpacks the next panel.
 */
OPENED void multiply_tiles(size_t n_parts, TilesResult *result, const TilesResult *before,
                           const uint16_t *panel, const uint16_t *x0, const uint16_t *x1, size_t steps,
                           Unpacking *next, size_t unpack) {
    const size_t tokens0 = smaller(SIDE, result->n_tokens), tokens1 = result->n_tokens - tokens0;
    const bool two = tokens1 > 0;
    size_t finished = 0;
    TILE_ZERO(0);
    TILE_ZERO(1);
    if (two) {
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    for (size_t step = 0; step < steps; step++) {
        const bool in_l1 = step < IN_L1_BYTES / (n_parts * BAND * STEP * sizeof *panel);
        for (size_t x_part = 0; x_part < n_parts; x_part++) {
            TILE_STREAM(6, x0, 4 * tokens0);
            if (two) TILE_STREAM(7, x1, 4 * tokens1);
            for (size_t w_part = n_parts - x_part; w_part--;) {
                const uint16_t *w0 = panel + w_part * BAND * STEP, *w1 = w0 + PART;
                if (in_l1) {
                    TILE_LOAD(4, w0, 2 * STEP);
                    TILE_LOAD(5, w1, 2 * STEP);
                } else {
                    TILE_STREAM(4, w0, 2 * STEP);
                    TILE_STREAM(5, w1, 2 * STEP);
                }
                dot_tiles(true, two);
            }
            x0 += tokens0 * STEP, x1 += tokens1 * STEP;
        }
        panel += n_parts * BAND * STEP;
        /* Spread over the steps, so that the tiles' unit never runs dry: 1.02 times as fast as all at once. */
        if (step % 4 == 2 && finished < 4) finish_tile(before, finished++);
        unpack_steps(next, unpack);
    }
    while (finished < 4) finish_tile(before, finished++);
    TILE_STORE(0, result->sums[0], 4 * SIDE);
    TILE_STORE(1, result->sums[1], 4 * SIDE);
    if (two) {
        TILE_STORE(2, result->sums[2], 4 * SIDE);
        TILE_STORE(3, result->sums[3], 4 * SIDE);
    }
}

/* The panel that is multiplied and the next one. */
typedef struct Panels {
    _Alignas(64) uint16_t bf16[2][PANEL_BYTES / sizeof(uint16_t)];
} Panels;

/* The values that the sums of rows from r on begin with, for the panel that begins at a column. */
static inline const float *start_of_band(const float *bias, size_t r, size_t column) {
    static const float zeros[BAND];
    return column ? NULL : bias ? bias + r : zeros;
}

/* Weights and activations of so many parts. */
OPENED void matmul_parts(size_t n_parts, Panels *panels, float *y, size_t y_stride, const Matrix *w,
                         const float *bias, size_t row_begin, size_t row_end, const uint16_t *x, size_t n) {
    TilesResult results[2];
    Unpacking next;
    size_t n_panels = 0, configured = 0, turn = 0;
    PanelPlace then = panel_at(n_parts, 0, row_begin, row_end, w->cols);
    begin_unpacking(&next, w, row_end, &then, panels->bf16[0]);
    results[1].n_tokens = 0;
    while (then.steps) {
        const PanelPlace panel = then;
        const uint16_t *weights = panels->bf16[n_panels % 2];
        unpack_steps(&next, SIZE_MAX);
        then = panel_at(n_parts, ++n_panels, row_begin, row_end, w->cols);
        begin_unpacking(&next, w, row_end, &then, panels->bf16[n_panels % 2]);
        size_t calls = panel.steps *
                       ((n + 2 * SIDE - 1) / (2 * SIDE)); /* of unpack_steps, while this one is multiplied */
        size_t unpack = (BAND * ((then.steps + UNPACK_STEPS - 1) / UNPACK_STEPS) + calls - 1) / calls;
        for (size_t t = 0; t < n; t += 2 * SIDE, turn = !turn) {
            size_t tokens = smaller(2 * SIDE, n - t), first = smaller(SIDE, tokens);
            const uint16_t *x0 = x + n_parts * (t * w->cols + panel.begin * first),
                           *x1 = x + n_parts * ((t + first) * w->cols + panel.begin * (tokens - first));
            TilesResult *result = &results[turn];
            result->y = y + t * y_stride + panel.r;
            result->y_stride = y_stride;
            result->n_rows = smaller(BAND, row_end - panel.r);
            result->n_tokens = tokens;
            result->start = start_of_band(bias, panel.r, panel.begin);
            if (tokens != configured) configure_tiles(BAND, configured = tokens);
            multiply_tiles(n_parts, result, &results[!turn], weights, x0, x1, panel.steps, &next, unpack);
        }
    }
    for (size_t i = 0; i < 4; i++) finish_tile(&results[!turn], i);
    TILES_RELEASE();
}

static inline void matmul_tiles(float *y, size_t y_stride, const Matrix *w, const float *bias,
                                size_t row_begin, size_t row_end, const void *packed, size_t n) {
    Panels panels;
    if (PARTS(w->dtype) == 1)
        matmul_parts(1, &panels, y, y_stride, w, bias, row_begin, row_end, packed, n);
    else
        matmul_parts(2, &panels, y, y_stride, w, bias, row_begin, row_end, packed, n);
}

#endif
