/*
 * Quantised weights as integers, on x86-64. Activations are rounded to 16 bits by blocks of 32 columns,
 * x ≈ d·q with d = max |x| / 32767: an error of at most 2^-16 of the block's largest number, far below that
 * of the weights. A block's products with int8 or int4 weights are added up exactly in 32 bits
 * (32 · 128 · 32767 < 2^27) and then scaled by both d's, so that only these sums are rounded. The multiply
 * instruction adds pairs of neighbours.
 *
 * Ints is a vector of LANES int32, each of which may be seen as a pair of int16:
 *   ints_zero()  ints_load(p)  ints_spread(p): one pair in all lanes
 *   ints_dot(sum, a, b): sum + a's pair · b's pair in each lane     vec_from_ints(v)
 */

enum {
    PAIRS = BLOCK / 2,     /* of columns, in a block */
    INT_PANEL = 2 * PANEL, /* columns whose weights take 16 KB */
    AHEAD = 512,           /* bytes: how far before its use one token's row, or the next one, is fetched */
};

/* The packed activations of one tile. */
typedef struct Int16Tile {
    int16_t *q;     /* [blocks][PAIRS][tokens][2] */
    float *d;       /* [blocks][tokens]; a single token's go on with zeros, to a multiple of 8 */
    float *q_sum_8; /* [blocks] of a single token: 8·Σ q < 2^23, what nibbles, 8 too large, add too much */
} Int16Tile;

/* It has room for `tokens`·cols floats and takes little more than half. */
static Int16Tile int16_tile(const void *packed, size_t first, size_t tokens, size_t cols) {
    float *room = (float *)(uintptr_t)packed + first * cols;
    Int16Tile tile = {.q = (int16_t *)(void *)room, .d = room + tokens * cols / 2};
    tile.q_sum_8 = tile.d + (cols / BLOCK + 7) / 8 * 8;
    return tile;
}

/* 32 numbers as int16, 16 in each vector; returns d. What is not finite makes d NaN. */
static float round_block(__m256i q[2], const float *x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i four = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) /* the bits of non-negative floats order as integers do, NaN above all */
        four = _mm256_max_epi32(four,
                                _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)), magnitude));
    __m128i two = _mm_max_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0x4e));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1));
    float max = _mm_cvtss_f32(_mm_castsi128_ps(two));
    q[0] = q[1] = _mm256_setzero_si256();
    if (!isfinite(max)) return NAN;
    if (max < 0x1p-100f) return 0; /* or 1/d would overflow */
    __m256 factor = _mm256_set1_ps(32767.0f / max);
    __m256i v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
    for (int i = 0; i < 2; i++) /* packs works within 128 bits */
        q[i] = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[2 * i], v[2 * i + 1]), 0xd8);
    return max / 32767.0f;
}

static int32_t sum_block(const __m256i q[2]) {
    int16_t numbers[BLOCK];
    int32_t sum = 0;
    memcpy(numbers, q, sizeof numbers);
    for (size_t i = 0; i < BLOCK; i++) sum += numbers[i];
    return sum;
}

static void pack_alone(const Int16Tile *tile, const float *x, size_t blocks) {
    for (size_t b = 0; b < (blocks + 7) / 8 * 8; b++) tile->d[b] = tile->q_sum_8[b] = 0;
    for (size_t b = 0; b < blocks; b++) {
        __m256i q[2];
        tile->d[b] = round_block(q, x + b * BLOCK);
        tile->q_sum_8[b] = (float)(8 * sum_block(q));
        memcpy(tile->q + b * BLOCK, q, sizeof q);
    }
}

static void pack_int16(void *packed, const float *x, size_t n, size_t cols, size_t group) {
    size_t first = group * TOKENS, tokens = group_tokens(n, group);
    Int16Tile tile = int16_tile(packed, first, tokens, cols);
    if (n == 1) {
        pack_alone(&tile, x, cols / BLOCK);
        return;
    }
    for (size_t t = 0; t < tokens; t++)
        for (size_t b = 0; b < cols / BLOCK; b++) {
            __m256i q[2];
            int32_t pairs[PAIRS];
            int16_t *to = tile.q + b * BLOCK * tokens + 2 * t;
            tile.d[b * tokens + t] = round_block(q, x + (first + t) * cols + b * BLOCK);
            memcpy(pairs, q, sizeof pairs);
            for (size_t i = 0; i < PAIRS; i++) memcpy(to + 2 * i * tokens, pairs + i, sizeof *pairs);
        }
}

/* A block's 32 weights as int16; of Q4_0 they are 8 too large. */
OPENED void load_int16(DType dtype, __m256i w[2], const unsigned char *block) {
    const __m128i *bytes = (const __m128i *)(const void *)(block + 2);
    if (dtype == DTYPE_Q8_0) {
        w[0] = _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes));
        w[1] = _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes + 1));
        return;
    }
    __m256i nibbles = _mm256_cvtepu8_epi16(_mm_loadu_si128(bytes));
    w[0] = _mm256_and_si256(nibbles, _mm256_set1_epi16(15));
    w[1] = _mm256_srli_epi16(nibbles, 4);
}

/* The scales with which n ≤ 8 blocks begin, 0 for the others. Put together where no vector unit is kept busy. */
OPENED __m256 load_scales(const unsigned char *blocks, size_t block_bytes, size_t n) {
    uint64_t halves[2] = {0};
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, blocks + i * block_bytes, sizeof half);
        halves[i / 4] |= (uint64_t)half << (i % 4 * 16);
    }
    return _mm256_cvtph_ps(_mm_set_epi64x((long long)halves[1], (long long)halves[0]));
}

/* sums[k] += n ≤ 8 blocks of row k times one token's, from block b on, a multiple of 8. */
OPENED void dot_blocks(DType dtype, __m256 sums[MATVEC_STREAMS],
                       const unsigned char *const rows[MATVEC_STREAMS], const Int16Tile *x, size_t b,
                       size_t n) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
    float d[MATVEC_STREAMS][8];
    for (size_t k = 0; k < MATVEC_STREAMS; k++) {
        for (size_t i = 0; i < n * block_bytes; i += 64)
            __builtin_prefetch(rows[k] + b * block_bytes + i + AHEAD);
        __m256 scales = load_scales(rows[k] + b * block_bytes, block_bytes, n);
        scales = _mm256_mul_ps(scales, _mm256_loadu_ps(x->d + b));
        _mm256_storeu_ps(d[k], scales);
        if (dtype == DTYPE_Q4_0) sums[k] = _mm256_fnmadd_ps(scales, _mm256_loadu_ps(x->q_sum_8 + b), sums[k]);
    }
    for (size_t i = 0; i < n; i++) {
        const __m256i *q = (const __m256i *)(const void *)(x->q + (b + i) * BLOCK);
        __m256i q0 = _mm256_loadu_si256(q), q1 = _mm256_loadu_si256(q + 1), w[2];
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            load_int16(dtype, w, rows[k] + (b + i) * block_bytes);
            __m256i dot = _mm256_add_epi32(_mm256_madd_epi16(w[0], q0), _mm256_madd_epi16(w[1], q1));
            sums[k] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_set1_ps(d[k][i]), sums[k]);
        }
    }
}

OPENED void dot_int16(DType dtype, float dots[MATVEC_STREAMS],
                      const unsigned char *const rows[MATVEC_STREAMS], const void *packed, size_t cols) {
    const Int16Tile x = int16_tile(packed, 0, 1, cols);
    __m256 sums[MATVEC_STREAMS];
    size_t blocks = cols / BLOCK, b = 0;
    for (size_t k = 0; k < MATVEC_STREAMS; k++) sums[k] = _mm256_setzero_ps();
    for (; b + 8 <= blocks; b += 8) dot_blocks(dtype, sums, rows, &x, b, 8);
    if (b < blocks) dot_blocks(dtype, sums, rows, &x, b, blocks - b);
    for (size_t k = 0; k < MATVEC_STREAMS; k++) dots[k] = sum8(sums[k]);
}

/* Blocks [begin, end) of ROWS rows as panel[block][PAIRS][ROWS][2], and their scales[block][ROWS]. */
OPENED void unpack_int16_panel(DType dtype, int16_t *panel, float *scales,
                               const unsigned char *const rows[ROWS], size_t begin, size_t end) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
    for (size_t b = begin; b < end; b++, panel += BLOCK * ROWS, scales += ROWS)
        for (size_t eight = 0; eight < ROWS; eight += 8) {
            __m256 pairs[2][8];
            for (size_t i = 0; i < 8; i++) {
                __m256i w[2];
                load_int16(dtype, w, rows[eight + i] + b * block_bytes);
                for (size_t half = 0; half < 2; half++) {
                    if (dtype == DTYPE_Q4_0) w[half] = _mm256_sub_epi16(w[half], _mm256_set1_epi16(8));
                    pairs[half][i] = _mm256_castsi256_ps(w[half]);
                }
            }
            for (size_t half = 0; half < 2; half++) {
                transpose8(pairs[half]);
                for (size_t i = 0; i < 8; i++)
                    _mm256_storeu_ps((float *)(void *)(panel + ((8 * half + i) * ROWS + eight) * 2),
                                     pairs[half][i]);
            }
            for (size_t i = eight; i < eight + 8; i++) scales[i] = block_scale(rows[i] + b * block_bytes);
        }
}

/* As tile: y[t][r] = start[r] + Σ_block scale[r]·d[t]·Σ_pair panel[pair][r]·q[pair][t] for `rows` ≤ ROWS rows. */
OPENED void int16_tile_sums(size_t tokens, float *y, size_t y_stride, size_t rows, const float *start,
                            const int16_t *panel, const float *scales, const int16_t *q, const float *d,
                            size_t blocks) {
    Vec totals[2 * TOKENS];
    for (size_t t = 0; t < tokens; t++) load_sums(totals + 2 * t, start ? start : y + t * y_stride, rows);
    for (size_t b = 0; b < blocks; b++, panel += BLOCK * ROWS, q += BLOCK * tokens) {
        Ints sums[2 * TOKENS];
        for (size_t i = 0; i < 2 * tokens; i++) sums[i] = ints_zero();
        for (size_t pair = 0; pair < PAIRS; pair++) {
            Ints w0 = ints_load(panel + pair * 2 * ROWS), w1 = ints_load(panel + pair * 2 * ROWS + 2 * LANES);
            KEEP_IN_REGISTER(w0);
            KEEP_IN_REGISTER(w1);
            for (size_t t = 0; t < tokens; t++) {
                Ints xs = ints_spread(q + (pair * tokens + t) * 2);
                sums[2 * t] = ints_dot(sums[2 * t], w0, xs);
                KEEP_IN_REGISTER(sums[2 * t]);
                sums[2 * t + 1] = ints_dot(sums[2 * t + 1], w1, xs);
                KEEP_IN_REGISTER(sums[2 * t + 1]);
            }
        }
        for (size_t t = 0; t < tokens; t++)
            for (size_t half = 0; half < 2; half++) {
                Vec scale = vec_mul(vec_load(scales + b * ROWS + half * LANES), vec_set(d[b * tokens + t]));
                totals[2 * t + half] =
                    vec_fma(vec_from_ints(sums[2 * t + half]), scale, totals[2 * t + half]);
            }
    }
    for (size_t t = 0; t < tokens; t++) store_sums(y + t * y_stride, totals + 2 * t, rows);
}

static void matmul_int16(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t row_begin,
                         size_t row_end, const void *packed, size_t n) {
    _Alignas(64) int16_t panel[INT_PANEL * ROWS];
    _Alignas(64) float scales[INT_PANEL / BLOCK * ROWS];
    for (size_t begin = 0; begin < w->cols / BLOCK; begin += INT_PANEL / BLOCK) {
        size_t end = smaller(begin + INT_PANEL / BLOCK, w->cols / BLOCK);
        for (size_t r = row_begin; r < row_end; r += ROWS) {
            size_t n_rows = smaller(ROWS, row_end - r);
            const unsigned char *rows[ROWS];
            find_rows(rows, w, r, row_end);
            if (w->dtype == DTYPE_Q8_0)
                unpack_int16_panel(DTYPE_Q8_0, panel, scales, rows, begin, end);
            else
                unpack_int16_panel(DTYPE_Q4_0, panel, scales, rows, begin, end);
            for (size_t t = 0; t < n; t += TOKENS) {
                size_t tokens = group_tokens(n, t / TOKENS);
                Int16Tile x = int16_tile(packed, t, tokens, w->cols);
                FOR_TOKENS(tokens, int16_tile_sums, y + t * y_stride + r, y_stride, n_rows,
                           sums_start(bias, r, begin), panel, scales, x.q + begin * BLOCK * tokens,
                           x.d + begin * tokens, end - begin)
            }
        }
    }
}
