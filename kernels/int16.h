/*
 * Integers on x86-64, whose multiply instruction adds the products of two neighbouring int16.
 *
 * Ints is a vector of LANES int32, each of which may be seen as a pair of int16:
 *   ints_zero()  ints_load(p)  ints_spread(p): one pair in all lanes
 *   ints_dot(sum, a, b): sum + a's pair · b's pair in each lane     vec_from_ints(v)
 */

enum {
    UNIT = 2 * sizeof(int16_t),
    PAIRS = BLOCK / 2,
    INT_PANEL = 2 * PANEL,
    AHEAD = 512, /* bytes: how far before its use a row is fetched when there is one token */
};

typedef int16_t PanelInt;

static float round_block(int16_t q[BLOCK], const float *x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i four = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) /* the bits of non-negative floats order as integers do, NaN above all */
        four = _mm256_max_epi32(four,
                                _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)), magnitude));
    __m128i two = _mm_max_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0x4e));
    two = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1));
    float max = _mm_cvtss_f32(_mm_castsi128_ps(two));
    memset(q, 0, BLOCK * sizeof *q);
    if (!isfinite(max)) return NAN;
    if (max < 0x1p-100f) return 0; /* or 1/d would overflow */
    __m256 factor = _mm256_set1_ps(32767.0f / max);
    __m256i v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
    for (int i = 0; i < 2; i++) /* packs works within 128 bits */
        _mm256_storeu_si256((__m256i *)(void *)(q + 16 * i),
                            _mm256_permute4x64_epi64(_mm256_packs_epi32(v[2 * i], v[2 * i + 1]), 0xd8));
    return max / 32767.0f;
}

/* Of a single token's blocks: 8·Σ q < 2^23, what nibbles, 8 too large, add too much. They and d go on with zeros. */
static float *q_sum_8(const IntsTile *tile, size_t blocks) { return tile->d + (blocks + 7) / 8 * 8; }

static void pack_alone(const IntsTile *tile, const float *x, size_t blocks) {
    float *sums = q_sum_8(tile, blocks);
    for (size_t b = 0; b < (blocks + 7) / 8 * 8; b++) tile->d[b] = sums[b] = 0;
    for (size_t b = 0; b < blocks; b++) {
        int16_t *q = tile->q + b * BLOCK;
        int32_t sum = 0;
        tile->d[b] = round_block(q, x + b * BLOCK);
        for (size_t i = 0; i < BLOCK; i++) sum += q[i];
        sums[b] = (float)(8 * sum);
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
                       const unsigned char *const rows[MATVEC_STREAMS], const IntsTile *x, const float *sum_8,
                       size_t b, size_t n) {
    const size_t block_bytes = BLOCK_BYTES(dtype);
    float d[MATVEC_STREAMS][8];
    for (size_t k = 0; k < MATVEC_STREAMS; k++) {
        for (size_t i = 0; i < n * block_bytes; i += 64)
            __builtin_prefetch(rows[k] + b * block_bytes + i + AHEAD);
        __m256 scales = load_scales(rows[k] + b * block_bytes, block_bytes, n);
        scales = _mm256_mul_ps(scales, _mm256_loadu_ps(x->d + b));
        _mm256_storeu_ps(d[k], scales);
        if (dtype == DTYPE_Q4_0) sums[k] = _mm256_fnmadd_ps(scales, _mm256_loadu_ps(sum_8 + b), sums[k]);
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

OPENED void dot_ints(DType dtype, float dots[MATVEC_STREAMS], const unsigned char *const rows[MATVEC_STREAMS],
                     const void *packed, size_t cols) {
    const IntsTile x = ints_tile(packed, 0, 1, cols);
    __m256 sums[MATVEC_STREAMS];
    size_t blocks = cols / BLOCK, b = 0;
    const float *sum_8 = q_sum_8(&x, blocks);
    for (size_t k = 0; k < MATVEC_STREAMS; k++) sums[k] = _mm256_setzero_ps();
    for (; b + 8 <= blocks; b += 8) dot_blocks(dtype, sums, rows, &x, sum_8, b, 8);
    if (b < blocks) dot_blocks(dtype, sums, rows, &x, sum_8, b, blocks - b);
    for (size_t k = 0; k < MATVEC_STREAMS; k++) dots[k] = sum8(sums[k]);
}

/* Blocks [begin, end) of ROWS rows as panel[block][PAIRS][ROWS][2], and their scales[block][ROWS]. */
OPENED void unpack_ints_panel(DType dtype, PanelInt *panel, float *scales,
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

/* As tile: y[t][r] = start[r] + Σ_block scale[r]·d[t]·Σ_pair panel[pair][r]·q[pair][t]. */
OPENED void sum_tile(size_t tokens, const TileSums *y, const PanelInt *panel, const float *scales,
                     const int16_t *q, const float *d, size_t blocks) {
    Vec totals[2 * TOKENS];
    load_sums(totals, y, tokens);
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
    store_sums(y, totals, tokens);
}
