/*
 * Quantised weights as integers, on x86-64. Activations are rounded to 16 bits by blocks of 32 columns,
 * x ≈ d·q with d = max |x| / 32767: an error of at most 2^-16 of the block's largest number, far below that
 * of the weights. A block's products with int8 or int4 weights are added up exactly in 32 bits
 * (32 · 128 · 32767 < 2^27) and then scaled by both d's, so that only these sums are rounded.
 *
 * The multiply instruction adds pairs of neighbours. A block is taken as its 16 even columns and then its 16
 * odd ones: so few operations make int16 of bytes or nibbles.
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
    int16_t *q;       /* [blocks][PAIRS][tokens][2]; of a single token see pack_alone */
    float *d;         /* [blocks][tokens] */
    int32_t *q_sum_8; /* 8·Σ q of a single token's blocks: what nibbles, 8 too large, add too much */
} Int16Tile;

/* It has room for `tokens`·cols floats and takes little more than half. */
static Int16Tile int16_tile(const void *packed, size_t first, size_t tokens, size_t cols) {
    float *room = (float *)(uintptr_t)packed + first * cols;
    Int16Tile tile = {.q = (int16_t *)(void *)room, .d = room + tokens * cols / 2};
    tile.q_sum_8 = (int32_t *)(void *)(tile.d + (cols / BLOCK + 7) / 8 * 8);
    return tile;
}

/* 32 numbers as int16, even columns in q[0], odd ones in q[1]; returns d. What is not finite makes d NaN. */
static float round_block(__m256i q[2], const float *x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff),
                  pairs = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
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
    __m256 v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_castsi256_ps(_mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor)));
    for (int odd = 0; odd < 2; odd++) {
        __m256 low = odd ? _mm256_shuffle_ps(v[0], v[1], 0xdd) : _mm256_shuffle_ps(v[0], v[1], 0x88);
        __m256 high = odd ? _mm256_shuffle_ps(v[2], v[3], 0xdd) : _mm256_shuffle_ps(v[2], v[3], 0x88);
        q[odd] = _mm256_packs_epi32(_mm256_castps_si256(low), _mm256_castps_si256(high));
        q[odd] = _mm256_permutevar8x32_epi32(q[odd], pairs);
    }
    return max / 32767.0f;
}

static int32_t sum_block(const __m256i q[2]) {
    int16_t numbers[BLOCK];
    int32_t sum = 0;
    memcpy(numbers, q, sizeof numbers);
    for (size_t i = 0; i < BLOCK; i++) sum += numbers[i];
    return sum;
}

/*
 * A single token's blocks go in pairs, so that a vector has one block in each of its 128-bit halves: the lower
 * halves of both blocks' even columns, the upper ones, and likewise the odd ones. Sums of eight blocks come
 * as lanes 0, 2, 4, 6, 1, 3, 5, 7, and so do d and q_sum_8.
 */
static size_t lane_of(size_t block) { return block / 8 * 8 + block % 2 * 4 + block % 8 / 2; }

static void pack_alone(const Int16Tile *tile, const float *x, size_t blocks) {
    for (size_t b = 0; b < (blocks + 7) / 8 * 8; b++) tile->d[b] = 0, tile->q_sum_8[b] = 0;
    for (size_t b = 0; b < blocks; b += 2) {
        size_t n = smaller(2, blocks - b);
        __m256i q[2][2], *to = (__m256i *)(void *)(tile->q + b * BLOCK);
        for (size_t i = 0; i < n; i++) {
            tile->d[lane_of(b + i)] = round_block(q[i], x + (b + i) * BLOCK);
            tile->q_sum_8[lane_of(b + i)] = 8 * sum_block(q[i]);
        }
        for (size_t odd = 0; odd < 2; odd++) {
            if (n == 2) {
                _mm256_storeu_si256(to + 2 * odd, _mm256_permute2x128_si256(q[0][odd], q[1][odd], 0x20));
                _mm256_storeu_si256(to + 2 * odd + 1, _mm256_permute2x128_si256(q[0][odd], q[1][odd], 0x31));
            } else {
                _mm256_storeu_si256(to + odd, q[0][odd]);
            }
        }
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

/* A block's 32 weights as int16, even and odd columns; of Q4_0 they are 8 too large. */
OPENED void load_int16(DType dtype, __m256i w[2], const unsigned char *block) {
    if (dtype == DTYPE_Q8_0) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(block + 2));
        w[0] = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
        w[1] = _mm256_srai_epi16(bytes, 8);
        return;
    }
    const __m256i low_nibbles = _mm256_set1_epi16(15);
    __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(block + 2)));
    /* The lower lane takes low nibbles, columns 0 to 15, the upper one high nibbles, 16 to 31. */
    w[0] = _mm256_and_si256(_mm256_srlv_epi32(bytes, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)), low_nibbles);
    w[1] = _mm256_and_si256(_mm256_srlv_epi32(bytes, _mm256_setr_epi32(8, 8, 8, 8, 12, 12, 12, 12)),
                            low_nibbles);
}

/* The 16 bytes at p and, in the upper half, at p + stride. */
OPENED __m256i load_halves(const unsigned char *p, size_t stride) {
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                   _mm_loadu_si128((const __m128i *)(const void *)(p + stride)), 1);
}

/* A row's two blocks times one token's: the sum of the first in the lower lanes, of the second in the upper ones. */
OPENED __m256i dot_two_blocks(DType dtype, const unsigned char *blocks, const int16_t *q) {
    const __m256i *x = (const __m256i *)(const void *)q;
    __m256i w[4]; /* in the order of pack_alone */
    if (dtype == DTYPE_Q8_0) {
        for (size_t half = 0; half < 2; half++) {
            __m256i bytes = load_halves(blocks + 2 + 16 * half, 34);
            w[half] = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
            w[half + 2] = _mm256_srai_epi16(bytes, 8);
        }
    } else {
        const __m256i low_nibbles = _mm256_set1_epi16(15);
        __m256i bytes = load_halves(blocks + 2, 18);
        w[0] = _mm256_and_si256(bytes, low_nibbles);
        w[1] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low_nibbles);
        w[2] = _mm256_and_si256(_mm256_srli_epi16(bytes, 8), low_nibbles);
        w[3] = _mm256_srli_epi16(bytes, 12);
    }
    for (size_t i = 0; i < 4; i++) w[i] = _mm256_madd_epi16(w[i], _mm256_loadu_si256(x + i));
    return _mm256_add_epi32(_mm256_add_epi32(w[0], w[1]), _mm256_add_epi32(w[2], w[3]));
}

/* A row's last block, if it has no other to go with. */
OPENED __m256i dot_last_block(DType dtype, const unsigned char *block, const int16_t *q) {
    const __m256i *x = (const __m256i *)(const void *)q;
    __m256i w[2];
    load_int16(dtype, w, block);
    __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(w[0], _mm256_loadu_si256(x)),
                                   _mm256_madd_epi16(w[1], _mm256_loadu_si256(x + 1)));
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    return _mm256_inserti128_si256(_mm256_setzero_si256(), half, 0);
}

/* The scales with which n ≤ 8 blocks begin, 0 for the others, in the order 0, 2, 4, 6, 1, 3, 5, 7. */
OPENED __m256 load_scales(const unsigned char *blocks, size_t block_bytes, size_t n) {
    uint16_t halves[8] = {0};
    for (size_t i = 0; i < n; i++) memcpy(&halves[i], blocks + i * block_bytes, sizeof *halves);
    return _mm256_cvtph_ps(_mm_setr_epi16((short)halves[0], (short)halves[2], (short)halves[4],
                                          (short)halves[6], (short)halves[1], (short)halves[3],
                                          (short)halves[5], (short)halves[7]));
}

/* sums += n ≤ 8 blocks of a row times one token's, from block b on, a multiple of 8. */
OPENED __m256 dot_blocks(DType dtype, __m256 sums, const unsigned char *row, const Int16Tile *x, size_t b,
                         size_t n) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
    __m256i two[4];
    for (size_t i = 0; i < 4; i++)
        two[i] = n >= 2 * i + 2
                     ? dot_two_blocks(dtype, row + (b + 2 * i) * block_bytes, x->q + (b + 2 * i) * BLOCK)
                 : n == 2 * i + 1
                     ? dot_last_block(dtype, row + (b + 2 * i) * block_bytes, x->q + (b + 2 * i) * BLOCK)
                     : _mm256_setzero_si256();
    __m256i four[2];
    for (size_t i = 0; i < 2; i++)
        four[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(two[2 * i], two[2 * i + 1]),
                                   _mm256_unpackhi_epi32(two[2 * i], two[2 * i + 1]));
    __m256i sum =
        _mm256_add_epi32(_mm256_unpacklo_epi64(four[0], four[1]), _mm256_unpackhi_epi64(four[0], four[1]));
    if (dtype == DTYPE_Q4_0)
        sum = _mm256_sub_epi32(sum, _mm256_loadu_si256((const __m256i *)(const void *)(x->q_sum_8 + b)));
    __m256 d = _mm256_mul_ps(load_scales(row + b * block_bytes, block_bytes, n), _mm256_loadu_ps(x->d + b));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), d, sums);
}

OPENED void dot_int16(DType dtype, float dots[MATVEC_STREAMS],
                      const unsigned char *const rows[MATVEC_STREAMS], const void *packed, size_t cols) {
    const Int16Tile x = int16_tile(packed, 0, 1, cols);
    const size_t block_bytes = BLOCK_BYTES(dtype);
    __m256 sums[MATVEC_STREAMS];
    size_t blocks = cols / BLOCK, b = 0;
    for (size_t k = 0; k < MATVEC_STREAMS; k++) sums[k] = _mm256_setzero_ps();
    for (; b + 8 <= blocks; b += 8)
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            for (size_t i = 0; i < 8 * block_bytes; i += 64)
                __builtin_prefetch(rows[k] + b * block_bytes + i + AHEAD);
            sums[k] = dot_blocks(dtype, sums[k], rows[k], &x, b, 8);
        }
    for (size_t k = 0; k < MATVEC_STREAMS && b < blocks; k++)
        sums[k] = dot_blocks(dtype, sums[k], rows[k], &x, b, blocks - b);
    for (size_t k = 0; k < MATVEC_STREAMS; k++) dots[k] = sum8(sums[k]);
}

/* Blocks [begin, end) of ROWS rows as panel[block][PAIRS][ROWS][2], and their scales[block][ROWS]. */
OPENED void unpack_int16_panel(DType dtype, int16_t *panel, float *scales,
                               const unsigned char *const rows[ROWS], size_t begin, size_t end) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
    for (size_t b = begin; b < end; b++, panel += BLOCK * ROWS, scales += ROWS)
        for (size_t eight = 0; eight < ROWS; eight += 8) {
            __m256 pairs[2][8];
            for (int i = 0; i < 8; i++) {
                __m256i w[2];
                load_int16(dtype, w, rows[eight + (size_t)i] + b * block_bytes);
                for (int odd = 0; odd < 2; odd++) {
                    if (dtype == DTYPE_Q4_0) w[odd] = _mm256_sub_epi16(w[odd], _mm256_set1_epi16(8));
                    pairs[odd][i] = _mm256_castsi256_ps(w[odd]);
                }
            }
            for (size_t odd = 0; odd < 2; odd++) {
                transpose8(pairs[odd]);
                for (size_t i = 0; i < 8; i++)
                    _mm256_storeu_ps((float *)(void *)(panel + ((8 * odd + i) * ROWS + eight) * 2),
                                     pairs[odd][i]);
            }
            for (size_t i = eight; i < eight + 8; i++) scales[i] = block_scale(rows[i] + b * block_bytes);
        }
}

/* y[t][r] += Σ_block scale[r]·d[t]·Σ_pair panel[pair][r]·q[pair][t] for `rows` ≤ ROWS rows. */
OPENED void int16_tile_sums(size_t tokens, float *y, size_t y_stride, size_t rows, const int16_t *panel,
                            const float *scales, const int16_t *q, const float *d, size_t blocks) {
    Vec totals[2 * TOKENS];
    for (size_t t = 0; t < tokens; t++) load_sums(totals + 2 * t, y + t * y_stride, rows);
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

static void matmul_int16(float *y, size_t y_stride, const Matrix *w, size_t row_begin, size_t row_end,
                         const void *packed, size_t n) {
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
                FOR_TOKENS(tokens, int16_tile_sums, y + t * y_stride + r, y_stride, n_rows, panel, scales,
                           x.q + begin * BLOCK * tokens, x.d + begin * tokens, end - begin)
            }
        }
    }
}
