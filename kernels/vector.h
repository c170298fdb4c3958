/*
 * The kernels for any instruction set with vectors of LANES floats. Each set's file defines a few
 * operations on its own vectors and includes this once; what is said here holds for all of them.
 *
 *   Vec, LANES (4, 8 or 16)
 *   vec_set(a)  vec_load(p)  vec_store(p, v)  vec_add, _sub, _mul, _div, _min, _max(a, b)
 *   vec_load_first(p, n), vec_store_first(p, v, n): the first n ≤ LANES lanes, zeros in the others
 *   vec_fma(a, b, c) = a·b + c     vec_round(v) to the nearest integer     vec_ldexp(v, k) = v·2^k
 *   vec_sum(v): the lanes added up, in an order that is always the same
 *   vec_transpose(v): lane j of v[i] changes places with lane i of v[j], LANES vectors
 *   vec_from_f16(p), vec_from_bf16(p), vec_from_int8(p), vec_to_f16(p, v)
 *   vec_from_nibbles(p, high): the low or the high halves of LANES bytes, less 8
 *   half_to_float(h)
 *   fetches_far(): whether the CPU gains by rows that are fetched far before matvec uses them
 *   HAS_INTS where the set can multiply quantised weights as integers: see ints.h
 *   HAS_BF16_DOT where it can multiply pairs of BF16, which lie where a vector has a float:
 *     vec_dot_bf16(a, b, c) = c + both products     vec_to_bf16(p, v)
 *   HAS_TILES where it has AMX's, beside AVX-512: see tiles.h and tile_sums.h
 */
#include "kernels.h"

#include <math.h>
#include <string.h>

enum {
    TOKENS = 6,       /* with two vectors of rows, twelve sums: as many as hide the latency of FMA */
    ROWS = 2 * LANES, /* of a tile */
    PANEL = (LANES == 16 ? 8192 : 4096) / ROWS, /* columns: 32 KB of weights, or 16, half of L1 */
    BLOCK = 32,                                 /* columns of a quantised block, which share a scale */
};

#define BLOCK_BYTES(dtype) ((dtype) == DTYPE_Q8_0 ? 34 : 18) /* a constant, where the dtype is one */

/* Tells the compiler that v may have changed, so that it can neither fetch it once more nor put its sum off. */
#if defined(__x86_64__)
#define KEEP_IN_REGISTER(v) __asm__("" : "+v"(v))
#else
#define KEEP_IN_REGISTER(v) __asm__("" : "+w"(v))
#endif

/* Forces functions open, so that their sizes are constants and their vectors registers. */
#define OPENED static inline __attribute__((always_inline))

/* Opens a function once for each dtype, which is its first argument. */
#define FOR_DTYPE(dtype, function, ...)                                                                      \
    switch (dtype) {                                                                                         \
    case DTYPE_F32: function(DTYPE_F32, __VA_ARGS__); break;                                                 \
    case DTYPE_F16: function(DTYPE_F16, __VA_ARGS__); break;                                                 \
    case DTYPE_BF16: function(DTYPE_BF16, __VA_ARGS__); break;                                               \
    case DTYPE_Q4_0: function(DTYPE_Q4_0, __VA_ARGS__); break;                                               \
    case DTYPE_Q8_0: function(DTYPE_Q8_0, __VA_ARGS__); break;                                               \
    }

/* Opens a function once for each number of tokens in a tile, which is its first argument. */
#define FOR_TOKENS(tokens, function, ...)                                                                    \
    switch (tokens) {                                                                                        \
    case 1: function(1, __VA_ARGS__); break;                                                                 \
    case 2: function(2, __VA_ARGS__); break;                                                                 \
    case 3: function(3, __VA_ARGS__); break;                                                                 \
    case 4: function(4, __VA_ARGS__); break;                                                                 \
    case 5: function(5, __VA_ARGS__); break;                                                                 \
    case TOKENS: function(TOKENS, __VA_ARGS__); break;                                                       \
    }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static float block_scale(const unsigned char *block) {
    uint16_t half;
    memcpy(&half, block, sizeof half);
    return half_to_float(half);
}

/* LANES weights from column c on, a multiple of LANES, of a row of any dtype. */
OPENED Vec load_weights(DType dtype, const unsigned char *row, size_t c) {
    const unsigned char *q8 = row + c / BLOCK * BLOCK_BYTES(DTYPE_Q8_0),
                        *q4 = row + c / BLOCK * BLOCK_BYTES(DTYPE_Q4_0);
    size_t i = c % BLOCK;
    switch (dtype) {
    case DTYPE_F16: return vec_from_f16(row + 2 * c);
    case DTYPE_BF16: return vec_from_bf16(row + 2 * c);
    case DTYPE_Q8_0: return vec_mul(vec_set(block_scale(q8)), vec_from_int8(q8 + 2 + i));
    case DTYPE_Q4_0: return vec_mul(vec_set(block_scale(q4)), vec_from_nibbles(q4 + 2 + i % 16, i / 16));
    case DTYPE_F32: break;
    }
    return vec_load((const float *)(const void *)(row + 4 * c));
}

OPENED void unpack_row(DType dtype, float *dst, const unsigned char *src, size_t n) {
    size_t c = 0;
    for (; c + LANES <= n; c += LANES) vec_store(dst + c, load_weights(dtype, src, c));
    if (c < n) dtype_unpack(dst + c, dtype, src + dtype_bytes(dtype, c), n - c);
}

static void unpack(float *dst, DType dtype, const void *src, size_t n) {
    FOR_DTYPE(dtype, unpack_row, dst, src, n)
}

static void pack_f16(uint16_t *dst, const float *src, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vec_to_f16(dst + i, vec_load(src + i));
    if (i < n) {
        uint16_t few[LANES];
        vec_to_f16(few, vec_load_first(src + i, n - i));
        memcpy(dst + i, few, (n - i) * sizeof *dst);
    }
}

/*
 * matmul. The lanes are rows of weights. A tile is ROWS rows × at most TOKENS tokens, whose sums stay in
 * registers while the columns pass: each column brings ROWS weights, and one number of each token, spread over
 * a vector (Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication"). For that weights
 * are transposed, a panel of columns at a time, in a scratch that stays in L1 while all tokens pass. A sum
 * begins with the bias and takes column after column, whatever the tile.
 */

/* Where rows [r, r + ROWS) begin. Beyond row_end it is the last one's place: something to read, never kept. */
static void find_rows(const unsigned char *rows[ROWS], const Matrix *w, size_t r, size_t row_end) {
    size_t row_bytes = dtype_bytes(w->dtype, w->cols);
    for (size_t i = 0; i < ROWS; i++)
        rows[i] = (const unsigned char *)w->data + smaller(r + i, row_end - 1) * row_bytes;
}

/* Where a tile's sums begin and go: in y, or, where fewer rows are left than a tile has, in a room of its own. */
typedef struct TileSums {
    float *y;
    size_t stride;
    const float *start; /* [ROWS] what all tokens' sums begin with, or NULL: with what y is */
    float room[TOKENS * ROWS];
} TileSums;

OPENED void sums_begin(TileSums *sums, float *y, size_t y_stride, const float *start, size_t tokens,
                       size_t rows) {
    sums->y = y;
    sums->stride = y_stride;
    sums->start = start;
    if (rows == ROWS) return;
    memset(sums->room, 0, sizeof sums->room);
    for (size_t t = 0; t < tokens; t++)
        memcpy(sums->room + t * ROWS, start ? start : y + t * y_stride, rows * sizeof *y);
    sums->y = sums->room;
    sums->stride = ROWS;
    sums->start = NULL;
}

OPENED void sums_end(const TileSums *sums, float *y, size_t y_stride, size_t tokens, size_t rows) {
    for (size_t t = 0; t < tokens && rows < ROWS; t++)
        memcpy(y + t * y_stride, sums->room + t * ROWS, rows * sizeof *y);
}

OPENED void load_sums(Vec v[2 * TOKENS], const TileSums *sums, size_t tokens) {
    for (size_t i = 0; i < 2 * tokens; i++)
        v[i] = vec_load((sums->start ? sums->start : sums->y + i / 2 * sums->stride) + i % 2 * LANES);
}

OPENED void store_sums(const TileSums *sums, const Vec v[2 * TOKENS], size_t tokens) {
    for (size_t i = 0; i < 2 * tokens; i++) vec_store(sums->y + i / 2 * sums->stride + i % 2 * LANES, v[i]);
}

/* LANES rows × n ≤ LANES columns from c on, as one vector a column. */
OPENED void load_columns(Vec columns[LANES], DType dtype, const unsigned char *const rows[LANES], size_t c,
                         size_t n) {
    for (size_t r = 0; r < LANES; r++) {
        if (n == LANES) {
            columns[r] = load_weights(dtype, rows[r], c);
        } else {
            float few[LANES] = {0};
            dtype_unpack(few, dtype, rows[r] + dtype_bytes(dtype, c), n);
            columns[r] = vec_load(few);
        }
    }
    vec_transpose(columns);
}

/* Columns [begin, end) of ROWS rows as panel[column][ROWS]. */
OPENED void unpack_panel(DType dtype, float *panel, const unsigned char *const rows[ROWS], size_t begin,
                         size_t end) {
    for (size_t half = 0; half < 2; half++) {
        Vec columns[LANES];
        float *to = panel + half * LANES;
        size_t c = begin;
        for (; c + LANES <= end; c += LANES) {
            load_columns(columns, dtype, rows + half * LANES, c, LANES);
            for (size_t i = 0; i < LANES; i++, to += ROWS) vec_store(to, columns[i]);
        }
        if (c == end) continue;
        load_columns(columns, dtype, rows + half * LANES, c, end - c);
        for (size_t i = 0; i < end - c; i++, to += ROWS) vec_store(to, columns[i]);
    }
}

OPENED Vec multiply_add(bool pairs, Vec w, Vec x, Vec sum) {
#ifdef HAS_BF16_DOT
    if (pairs) return vec_dot_bf16(w, x, sum);
#endif
    (void)pairs;
    return vec_fma(w, x, sum);
}

/* y[t][r] = start[r] + Σ_c panel[c][r]·x[c][t] for all rows and tokens of the tile; columns may be pairs of BF16. */
OPENED void tile(size_t tokens, bool pairs, const TileSums *y, const float *panel, const float *x,
                 size_t cols) {
    Vec sums[2 * TOKENS];
    load_sums(sums, y, tokens);
    for (size_t c = 0; c < cols; c++) {
        Vec w0 = vec_load(panel + c * ROWS), w1 = vec_load(panel + c * ROWS + LANES);
        KEEP_IN_REGISTER(w0);
        KEEP_IN_REGISTER(w1);
        for (size_t t = 0; t < tokens; t++) {
            Vec xs = vec_set(x[c * tokens + t]);
            sums[2 * t] = multiply_add(pairs, w0, xs, sums[2 * t]);
            sums[2 * t + 1] = multiply_add(pairs, w1, xs, sums[2 * t + 1]);
            KEEP_IN_REGISTER(sums[2 * t]);
            KEEP_IN_REGISTER(sums[2 * t + 1]);
        }
    }
    store_sums(y, sums, tokens);
}

/* So many tokens, of n, from the first one on make a tile. */
static size_t tile_tokens(size_t n, size_t first) { return smaller(TOKENS, n - first); }

static void pack_floats(float *packed, const float *x, size_t first, size_t tokens, size_t cols) {
    float *to = packed + first * cols;
    for (size_t t = 0; t < tokens; t++)
        for (size_t c = 0; c < cols; c++) to[c * tokens + t] = x[(first + t) * cols + c];
}

/* What the sums of rows from r on begin with, for the panel that begins at a column. */
static const float *sums_start(const float *bias, size_t r, size_t column) {
    static const float zeros[ROWS];
    return column ? NULL : bias ? bias + r : zeros;
}

/*
 * With each tile of tokens [t, t + tokens) of n, their share of the `bytes` bytes that lie `ahead` of each row, those
 * of the next panel, is fetched into L2. All at once would be more than a core can wait for; in L1 this panel would
 * give way.
 */
static void prefetch_next(const unsigned char *const rows[ROWS], size_t ahead, size_t bytes, size_t t,
                          size_t tokens, size_t n) {
    size_t lines = (bytes + 63) / 64 * ROWS;
    for (size_t line = lines * t / n; line < lines * (t + tokens) / n; line++)
        __builtin_prefetch(rows[line % ROWS] + ahead + line / ROWS * 64, 0, 2);
}

OPENED void matmul_floats(bool pairs, float *y, size_t y_stride, const Matrix *w, const float *bias,
                          size_t row_begin, size_t row_end, const float *x, size_t n) {
    _Alignas(64) float panel[PANEL * ROWS];
    for (size_t begin = 0; begin < w->cols; begin += PANEL) {
        size_t end = smaller(begin + PANEL, w->cols), bytes = dtype_bytes(w->dtype, end - begin),
               ahead = ROWS * dtype_bytes(w->dtype, w->cols) + dtype_bytes(w->dtype, begin);
        for (size_t r = row_begin; r < row_end; r += ROWS) {
            const unsigned char *rows[ROWS];
            size_t n_rows = smaller(ROWS, row_end - r);
            find_rows(rows, w, r, row_end);
            FOR_DTYPE(w->dtype, unpack_panel, panel, rows, begin, end)
            for (size_t t = 0; t < n; t += TOKENS) {
                size_t tokens = tile_tokens(n, t);
                TileSums sums;
                sums_begin(&sums, y + t * y_stride + r, y_stride, sums_start(bias, r, begin), tokens, n_rows);
                prefetch_next(rows, ahead, bytes, t, tokens, n);
                FOR_TOKENS(tokens, tile, pairs, &sums, panel, x + t * w->cols + begin * tokens, end - begin)
                sums_end(&sums, y + t * y_stride + r, y_stride, tokens, n_rows);
            }
        }
    }
}

#ifdef HAS_BF16_DOT
/*
 * Weights of BF16 as they lie, two columns where a float has one. Activations are rounded to BF16, too, each by 2^-8
 * of itself at most: as much as Q8_0's weights err, so for sets that round to 8 bits (ints.h).
 */
static void pack_pairs(float *packed, const float *x, size_t first, size_t tokens, size_t cols) {
    float *to = packed + first * (cols / 2);
    for (size_t t = 0; t < tokens; t++)
        for (size_t c = 0, n; c < cols; c += n) {
            float pairs[LANES / 2];
            uint16_t halves[LANES];
            n = smaller(LANES, cols - c);
            vec_to_bf16(halves, vec_load_first(x + (first + t) * cols + c, n));
            memcpy(pairs, halves, sizeof pairs);
            for (size_t i = 0; i < n / 2; i++) to[(c / 2 + i) * tokens + t] = pairs[i];
        }
}

static bool in_pairs(DType dtype, size_t cols) { return dtype == DTYPE_BF16 && cols % 2 == 0; }
#endif

/* The rows that matvec reads at once, and how many bytes before its use each is fetched; 0: by the hardware alone. */
typedef struct Streams {
    const unsigned char *rows[MATVEC_STREAMS];
    size_t ahead;
} Streams;

OPENED void fetch(const unsigned char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

#ifdef HAS_INTS
#include "ints.h"
#endif

#ifdef HAS_TILES
#include "tiles.h"
enum { GROUP = 48 }; /* tokens: whole tiles of both kinds */
#else
enum { GROUP = TOKENS };
#endif

static size_t matvec_tokens(DType dtype) {
#ifdef HAS_TILES
    if (dtype == DTYPE_BF16) return 4;
    if (dtype == DTYPE_Q8_0) return 5;
#endif
    return dtype == DTYPE_Q4_0 ? 3 : dtype == DTYPE_Q8_0 ? 6 : 10;
}

/* A tile, or a lone token for matvec. */
static void pack_tile(void *packed, DType dtype, const float *x, size_t first, size_t tokens, size_t cols,
                      bool alone) {
#ifdef HAS_INTS
    switch (dtype) {
    case DTYPE_Q8_0: pack_ints(DTYPE_Q8_0, packed, x, first, tokens, cols, alone); return;
    case DTYPE_Q4_0: pack_ints(DTYPE_Q4_0, packed, x, first, tokens, cols, alone); return;
    default: break;
    }
#endif
#ifdef HAS_BF16_DOT
    if (in_pairs(dtype, cols) && !alone) {
        pack_pairs(packed, x, first, tokens, cols);
        return;
    }
#endif
    (void)dtype, (void)alone;
    pack_floats(packed, x, first, tokens, cols);
}

static void pack(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t group) {
    size_t first = group * GROUP, end = smaller(first + GROUP, n);
    bool alone = n <= matvec_tokens(dtype);
#ifdef HAS_TILES
    if (!alone && in_tiles(cols)) {
        for (size_t t = first; t < end; t += SIDE)
            pack_for_tiles(packed, dtype, x, t, smaller(SIDE, end - t), cols);
        return;
    }
#endif
    for (size_t t = first, tokens; t < end; t += tokens) {
        tokens = alone ? 1 : tile_tokens(end, t);
        pack_tile(packed, dtype, x, t, tokens, cols, alone);
    }
}

static void matmul(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t row_begin,
                   size_t row_end, const void *packed, size_t n) {
#ifdef HAS_TILES
    if (in_tiles(w->cols)) {
        Panels panels;
        FOR_DTYPE(w->dtype, matmul_tiles, &panels, y, y_stride, w, bias, row_begin, row_end, packed, n)
        return;
    }
#endif
#ifdef HAS_INTS
    switch (w->dtype) {
    case DTYPE_Q8_0: matmul_ints(DTYPE_Q8_0, y, y_stride, w, bias, row_begin, row_end, packed, n); return;
    case DTYPE_Q4_0: matmul_ints(DTYPE_Q4_0, y, y_stride, w, bias, row_begin, row_end, packed, n); return;
    default: break;
    }
#endif
#ifdef HAS_BF16_DOT
    if (in_pairs(w->dtype, w->cols)) {
        Matrix pairs = {w->data, DTYPE_F32, w->rows, w->cols / 2};
        matmul_floats(true, y, y_stride, &pairs, bias, row_begin, row_end, packed, n);
        return;
    }
#endif
    matmul_floats(false, y, y_stride, w, bias, row_begin, row_end, packed, n);
}

/* Few tokens. Here the lanes are columns, and a row's two vectors of sums are added up at its end. */
OPENED void dot_floats(DType dtype, float dots[MATVEC_STREAMS], const Streams *w, const float *x,
                       size_t cols) {
    Vec sums[MATVEC_STREAMS][2];
    for (size_t k = 0; k < MATVEC_STREAMS; k++) sums[k][0] = sums[k][1] = vec_set(0);
    const size_t bytes = dtype == DTYPE_F32 ? 4 : 2; /* of a number */
    size_t c = 0;
    for (; c + 2 * LANES <= cols; c += 2 * LANES)
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            if (w->ahead) fetch(w->rows[k] + c * bytes + w->ahead, 2 * LANES * bytes);
            for (size_t i = 0; i < 2; i++) {
                Vec weights = load_weights(dtype, w->rows[k], c + i * LANES);
                sums[k][i] = vec_fma(weights, vec_load(x + c + i * LANES), sums[k][i]);
                KEEP_IN_REGISTER(sums[k][i]);
            }
        }
    for (size_t k = 0; k < MATVEC_STREAMS; k++) dots[k] = vec_sum(vec_add(sums[k][0], sums[k][1]));
    for (size_t n; c < cols; c += n) {
        n = smaller(LANES, cols - c);
        for (size_t k = 0; k < MATVEC_STREAMS; k++) {
            float few[LANES] = {0};
            dtype_unpack(few, dtype, w->rows[k] + dtype_bytes(dtype, c), n);
            dots[k] += vec_sum(vec_mul(vec_load(few), vec_load_first(x + c, n)));
        }
    }
}

OPENED void matvec_dtype(DType dtype, bool far, float *y, size_t y_stride, const Matrix *w, const float *bias,
                         size_t begin, size_t end, const float *packed, size_t n) {
    const bool quantised = dtype == DTYPE_Q8_0 || dtype == DTYPE_Q4_0;
    size_t row_bytes = dtype_bytes(dtype, w->cols), apart = matvec_rows(w->rows);
    /* Far: from 1 KB on the distance made no difference. Near: tuned on the CPU that does not gain by more. */
    Streams streams = {.ahead = far ? 2048 : quantised ? 512 : 0};
    for (size_t r = begin; r < end; r++) {
        for (size_t k = 0; k < MATVEC_STREAMS; k++) /* beyond the last row that one again, not kept */
            streams.rows[k] =
                (const unsigned char *)w->data + smaller(r + k * apart, w->rows - 1) * row_bytes;
        for (size_t t = 0; t < n; t++) { /* from the second one on the rows are in L1 */
            float dots[MATVEC_STREAMS];
#ifdef HAS_INTS
            if (quantised) {
                IntsTile x = ints_tile(dtype, packed, t, 1, w->cols);
                dot_ints(dtype, dots, &streams, &x, w->cols / BLOCK);
            } else
#endif
                dot_floats(dtype, dots, &streams, packed + t * w->cols, w->cols);
            for (size_t k = 0; k < MATVEC_STREAMS && r + k * apart < w->rows; k++)
                y[t * y_stride + r + k * apart] = (bias ? bias[r + k * apart] : 0.0f) + dots[k];
        }
    }
}

static void matvec(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin, size_t end,
                   const void *packed, size_t n) {
    if (fetches_far())
        FOR_DTYPE(w->dtype, matvec_dtype, true, y, y_stride, w, bias, begin, end, packed, n)
    else
        FOR_DTYPE(w->dtype, matvec_dtype, false, y, y_stride, w, bias, begin, end, packed, n)
}

/* These two have nothing that the compiler's own vectors would miss. */
static void add(float *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void scale(float *y, float a, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] *= a;
}

/*
 * The sums of a few rows over `vectors` vectors of each v, which stay in registers while all v pass. Meanwhile what
 * lies behind these v, in the cache the next tile, is fetched into L2, row by row: all at once gains nothing.
 */
typedef struct WeightedSums {
    float *z;
    const float *p;
    const unsigned char *v;
    size_t z_stride, p_stride, v_stride, n_v;
} WeightedSums;

OPENED void sum_vectors(const WeightedSums *w, DType dtype, size_t t, size_t i, size_t rows, size_t vectors) {
    Vec sums[4 * TOKENS];
    float *z = w->z + t * w->z_stride + i;
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < vectors; k++)
            sums[r * vectors + k] = vec_load(z + r * w->z_stride + k * LANES);
    size_t bytes = dtype == DTYPE_F16 ? 2 : 4; /* of a number */
    for (size_t j = 0; j < w->n_v; j++) {
        Vec v[8];
        for (size_t k = 0; k < vectors * LANES; k += 64 / bytes)
            __builtin_prefetch(w->v + ((w->n_v + j) * w->v_stride + i + k) * bytes, 0, 2);
        for (size_t k = 0; k < vectors; k++) {
            v[k] = load_weights(dtype, w->v, j * w->v_stride + i + k * LANES);
            if (rows > 1) KEEP_IN_REGISTER(v[k]);
        }
        for (size_t r = 0; r < rows; r++) {
            Vec p = vec_set(w->p[(t + r) * w->p_stride + j]);
            for (size_t k = 0; k < vectors; k++) {
                sums[r * vectors + k] = vec_fma(v[k], p, sums[r * vectors + k]);
                KEEP_IN_REGISTER(sums[r * vectors + k]);
            }
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < vectors; k++)
            vec_store(z + r * w->z_stride + k * LANES, sums[r * vectors + k]);
}

/*
 * All of [0, d): as many vectors at a time as make enough sums, then fewer, then the last few numbers. With 32 registers
 * that is four whatever the rows, so that a row of 64 numbers is read at once: memory is fastest in order.
 */
OPENED void sum_rows(size_t rows, const WeightedSums *w, DType dtype, size_t t, size_t d) {
    size_t i = 0;
    if (rows == 1)
        for (; i + 8 * LANES <= d; i += 8 * LANES) sum_vectors(w, dtype, t, i, rows, 8);
    if (rows <= 2 || LANES == 16)
        for (; i + 4 * LANES <= d; i += 4 * LANES) sum_vectors(w, dtype, t, i, rows, 4);
    for (; i + 2 * LANES <= d; i += 2 * LANES) sum_vectors(w, dtype, t, i, rows, 2);
    for (; i + LANES <= d; i += LANES) sum_vectors(w, dtype, t, i, rows, 1);
    for (; i < d; i++)
        for (size_t r = t; r < t + rows; r++)
            for (size_t j = 0; j < w->n_v; j++) {
                float v;
                dtype_unpack(&v, dtype, w->v + dtype_bytes(dtype, j * w->v_stride + i), 1);
                w->z[r * w->z_stride + i] = fmaf(w->p[r * w->p_stride + j], v, w->z[r * w->z_stride + i]);
            }
}

#ifdef HAS_TILES
#include "tile_sums.h"
#endif

static void weighted_sums(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n, DType dtype,
                          const void *v, size_t v_stride, size_t n_v, size_t d) {
    WeightedSums w = {z, p, v, z_stride, p_stride, v_stride, n_v};
#ifdef HAS_TILES
    if (sums_in_tiles(n, d)) {
        sum_in_tiles(&w, dtype, n, d);
        return;
    }
#endif
    for (size_t t = 0, rows; t < n; t += rows) {
        rows = smaller(TOKENS, n - t);
        if (dtype == DTYPE_F16)
            FOR_TOKENS(rows, sum_rows, &w, DTYPE_F16, t, d)
        else
            FOR_TOKENS(rows, sum_rows, &w, DTYPE_F32, t, d)
    }
}

static float max(const float *x, size_t n) {
    float largest = x[0];
    size_t i = 0;
    if (n >= LANES) {
        Vec lanes = vec_load(x);
        for (i = LANES; i + LANES <= n; i += LANES) lanes = vec_max(lanes, vec_load(x + i));
        float lane[LANES];
        vec_store(lane, lanes);
        for (size_t j = 0; j < LANES; j++) largest = lane[j] > largest ? lane[j] : largest;
    }
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/*
 * e^x to 1 ulp, denormal results and both infinities included; NaN stays NaN.
 * x = k·ln 2 + r with |r| ≤ ½ ln 2, and e^r by its Taylor series to r⁷/7!, whose rest is below 2^-27.
 */
static Vec vec_exp(Vec x) {
    static const float factors[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f};
    const Vec log2_e = vec_set(0x1.715476p+0f), minus_ln2 = vec_set(-0x1.62e430p-1f),
              minus_rest = vec_set(0x1.05c610p-29f);
    /* From these bounds on the result is 0 or inf; a NaN passes, as min's and max's second operand or as itself. */
    x = vec_max(vec_set(-104.0f), vec_min(vec_set(89.0f), x));
    Vec k = vec_round(vec_mul(x, log2_e));
    Vec r = vec_fma(k, minus_rest, vec_fma(k, minus_ln2, x));
    Vec e = vec_set(1.0f / 5040);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) e = vec_fma(e, r, vec_set(factors[i]));
    return vec_ldexp(e, k);
}

static float exp_sum(float *x, float largest, size_t n) {
    const Vec shift = vec_set(largest);
    Vec sum = vec_set(0);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Vec e = vec_exp(vec_sub(vec_load(x + i), shift));
        vec_store(x + i, e);
        sum = vec_add(sum, e);
    }
    if (i < n) {
        vec_store_first(x + i, vec_exp(vec_sub(vec_load_first(x + i, n - i), shift)), n - i);
        sum = vec_add(sum, vec_load_first(x + i, n - i));
    }
    return vec_sum(sum);
}

/*
 * Σ (x − mean)², in four sums, which do not wait for each other. Float lanes will do here: no term is negative, so that
 * rounding stays below (n/(4·LANES) + 4·LANES + 8)·2^-24 of the sum, and far below that in practice.
 */
static float sum_squares(const float *x, float mean, size_t n) {
    const Vec shift = vec_set(mean);
    Vec sums[4] = {vec_set(0), vec_set(0), vec_set(0), vec_set(0)};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (size_t k = 0; k < 4; k++) {
            Vec d = vec_sub(vec_load(x + i + k * LANES), shift);
            sums[k] = vec_fma(d, d, sums[k]);
        }
    float total = vec_sum(vec_add(vec_add(sums[0], sums[1]), vec_add(sums[2], sums[3])));
    for (; i < n; i++) total += (x[i] - mean) * (x[i] - mean);
    return total;
}

/* Σ x in double lanes, so that a mean of thousands still leaves differences of thousandths right. */
static double sum_in_double(const float *x, size_t n) {
    double sums[32] = {0};
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (size_t j = 0; j < 32; j++) sums[j] += (double)x[i + j];
    for (size_t half = 16; half; half /= 2)
        for (size_t j = 0; j < half; j++) sums[j] += sums[half + j];
    for (; i < n; i++) sums[0] += (double)x[i];
    return sums[0];
}

static void layer_norm(float *y, const float *x, const float *gain, const float *bias, size_t n, float eps) {
    float mean = (float)(sum_in_double(x, n) / (double)n);
    float factor = 1.0f / sqrtf(sum_squares(x, mean, n) / (float)n + eps);
    const Vec shift = vec_set(mean), factors = vec_set(factor);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Vec normed = vec_mul(vec_sub(vec_load(x + i), shift), factors);
        vec_store(y + i, vec_fma(normed, vec_load(gain + i), bias ? vec_load(bias + i) : vec_set(0)));
    }
    for (; i < n; i++) y[i] = (x[i] - mean) * factor * gain[i] + (bias ? bias[i] : 0);
}

static void rms_norm(float *y, const float *x, const float *gain, size_t n, float eps) {
    float factor = 1.0f / sqrtf(sum_squares(x, 0.0f, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * factor * gain[i];
}

/* x·sigmoid(u): nothing cancels, neither near 0 nor far below it. With u = x it is SiLU, to 3 ulp. */
static Vec times_sigmoid(Vec x, Vec u) {
    return vec_div(x, vec_add(vec_set(1.0f), vec_exp(vec_sub(vec_set(0.0f), u))));
}

/* ½·(1 + tanh u) = sigmoid(2u), so GELU is x·sigmoid(√(8/π)·(x + 0.044715·x³)): to 2^-22·|x|. */
static Vec gelu(Vec x) {
    Vec cubic = vec_fma(vec_mul(x, x), vec_set(0.044715f), vec_set(1.0f));
    return times_sigmoid(x, vec_mul(vec_mul(x, vec_set(1.5957691f)), cubic));
}

static void gelu_tanh(float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vec_store(x + i, gelu(vec_load(x + i)));
    if (i < n) vec_store_first(x + i, gelu(vec_load_first(x + i, n - i)), n - i);
}

static void silu_mul(float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Vec x = vec_load(gate + i);
        vec_store(gate + i, vec_mul(times_sigmoid(x, x), vec_load(up + i)));
    }
    if (i < n) {
        Vec x = vec_load_first(gate + i, n - i);
        vec_store_first(gate + i, vec_mul(times_sigmoid(x, x), vec_load_first(up + i, n - i)), n - i);
    }
}

/* The table, but for its name. */
#define VECTOR_KERNELS                                                                                       \
    .matvec_tokens = matvec_tokens, .group = GROUP, .pack = pack, .matmul = matmul, .matvec = matvec,        \
    .unpack = unpack, .pack_f16 = pack_f16, .add = add, .scale = scale, .weighted_sums = weighted_sums,      \
    .max = max, .exp_sum = exp_sum, .layer_norm = layer_norm, .rms_norm = rms_norm, .gelu_tanh = gelu_tanh,  \
    .silu_mul = silu_mul
