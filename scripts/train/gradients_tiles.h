/* Products of bf16 by tiles of AMX or, without it, by AVX-512's dot products, and numbers as vectors, for gradients.c.

   A product C[32][n] = A[32][k] B[k][n] reads A as rows or as tiles and B as tiles. A tile has 16 rows of 64 bytes: of
   A, 32 numbers along k; of B, 16 pairs along k, one for each of 16 columns. Packed, B is [n/32][k/32][2 tiles]. */
#ifndef ATTN_GRADIENTS_TILES_H
#define ATTN_GRADIENTS_TILES_H

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef uint16_t bf16;
enum { TILE = 512 };     /* numbers in a tile */
enum { L1_STEPS = 16 };  /* steps of a product whose sides stay in L1 */
enum { AHEAD = 1 };      /* steps that a product's longer side is fetched ahead */
enum { WIDE_STEPS = 4 }; /* steps whose left side lies in L1 as F32, beside the right one */
enum { PAD = 16 }; /* floats between rows of products, so that they do not share their place in the caches */

/* Zeros, in large pages. Where there are none left the training ends by a signal: it could not go on. */
static void *memory(size_t bytes) {
    size_t page = 1 << 21;
    bytes = (bytes + page - 1) / page * page;
    void *p = aligned_alloc(page, bytes);
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

/* The tiles of this thread; false: the system grants none. */
static bool begin_tiles(void) {
#if defined(__AMX_BF16__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA)) return false;
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t columns[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.columns[i] = 64, config.rows[i] = 16;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* the intrinsic does not say that it reads all of it */
    _tile_loadconfig(&config);
#endif
    return true;
}

static void end_tiles(void) {
#if defined(__AMX_BF16__)
    _tile_release();
#endif
}

typedef struct {
    const bf16 *data;
    size_t row, step, half; /* bytes from one row, 32 columns, 16 rows to the next */
} Left;

static Left rows_of(const bf16 *a, size_t columns) { return (Left){a, columns * 2, 64, columns * 32}; }
static Left tiles_of(const bf16 *a) { return (Left){a, 64, 4 * TILE, 2 * TILE}; }

#if defined(__AMX_BF16__)
/* c[32][32] = or += a b over `steps` times 32. */
static inline void block(Left left, const bf16 *b, int steps, float *c, size_t c_row, bool add) {
    const char *a = (const char *)left.data;
    char *out = (char *)c;
    __asm__ volatile("" : : : "memory"); /* the intrinsics do not say that they read memory */
    if (add) {
        _tile_loadd(0, out, c_row);
        _tile_loadd(1, out + 64, c_row);
        _tile_loadd(2, out + 16 * c_row, c_row);
        _tile_loadd(3, out + 16 * c_row + 64, c_row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int s = 0; s < steps; s++, a += left.step, b += 2 * TILE) {
        const char *soon = left.row == 64 ? a + AHEAD * left.step : (const char *)(b + AHEAD * 2 * TILE);
        for (int i = 0; i < 16; i++) _mm_prefetch(soon + i * 64, _MM_HINT_T0);
        _tile_loadd(4, a, left.row);
        _tile_loadd(6, b, 64);
        _tile_loadd(7, b + TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        for (int i = 16; i < 32; i++) _mm_prefetch(soon + i * 64, _MM_HINT_T0);
        _tile_loadd(5, a + left.half, left.row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, c_row);
    _tile_stored(1, out + 64, c_row);
    _tile_stored(2, out + 16 * c_row, c_row);
    _tile_stored(3, out + 16 * c_row + 64, c_row);
}
#else
#if defined(SLOW_BF16)
static inline __m512 even_of(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
static inline __m512 odd_of(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
}

/* sum += a[8 rows] b over up to WIDE_STEPS times 32, by F32's multiply-adds, which do twice as much on Intel's cores as
   their bf16 dot. */
static inline void add_products(const char *a, Left left, const bf16 *b, int steps, __m512 sum[8][2]) {
    float wide[8][2][WIDE_STEPS * 16]; /* row, even or odd along k, pair */
    for (int r = 0; r < 8; r++)
        for (int s = 0; s < steps; s++) {
            __m512i pairs = _mm512_loadu_si512(a + (size_t)s * left.step + (size_t)r * left.row);
            _mm512_storeu_ps(&wide[r][0][s * 16], even_of(pairs));
            _mm512_storeu_ps(&wide[r][1][s * 16], odd_of(pairs));
        }
    for (int s = 0; s < steps; s++)
        for (int pair = 0; pair < 16; pair++) {
            const bf16 *row = b + (size_t)s * 2 * TILE + pair * 32;
            __m512i b0 = _mm512_load_si512(row), b1 = _mm512_load_si512(row + TILE);
            __m512 right[2][2] = {{even_of(b0), even_of(b1)}, {odd_of(b0), odd_of(b1)}};
            for (int which = 0; which < 2; which++)
                for (int r = 0; r < 8; r++) {
                    __m512 one = _mm512_set1_ps(wide[r][which][s * 16 + pair]);
                    sum[r][0] = _mm512_fmadd_ps(one, right[which][0], sum[r][0]);
                    sum[r][1] = _mm512_fmadd_ps(one, right[which][1], sum[r][1]);
                }
        }
}
#else
/* The same, by the bf16 dot. */
static inline void add_products(const char *a, Left left, const bf16 *b, int steps, __m512 sum[8][2]) {
    for (int s = 0; s < steps; s++)
        for (int pair = 0; pair < 16; pair++) {
            const bf16 *row = b + (size_t)s * 2 * TILE + pair * 32;
            __m512bh b0 = (__m512bh)_mm512_load_si512(row), b1 = (__m512bh)_mm512_load_si512(row + TILE);
            for (int r = 0; r < 8; r++) {
                int32_t two;
                memcpy(&two, a + (size_t)s * left.step + (size_t)r * left.row + pair * 4, 4);
                __m512bh left_two = (__m512bh)_mm512_set1_epi32(two);
                sum[r][0] = _mm512_dpbf16_ps(sum[r][0], left_two, b0);
                sum[r][1] = _mm512_dpbf16_ps(sum[r][1], left_two, b1);
            }
        }
}
#endif

/* c[32][32] = or += a b over `steps` times 32: 8 rows by 32 columns in registers. */
static inline void block(Left left, const bf16 *b, int steps, float *c, size_t c_row, bool add) {
    for (int i = 0; i < 32; i += 8) {
        const char *a = (const char *)left.data +
                        (i >= 16 ? left.half + (size_t)(i - 16) * left.row : (size_t)i * left.row);
        char *out = (char *)c + (size_t)i * c_row;
        __m512 sum[8][2];
        for (int r = 0; r < 8; r++)
            for (int j = 0; j < 2; j++)
                sum[r][j] =
                    add ? _mm512_loadu_ps((float *)(out + (size_t)r * c_row) + j * 16) : _mm512_setzero_ps();
        for (int s = 0; s < steps; s += WIDE_STEPS)
            add_products(a + (size_t)s * left.step, left, b + (size_t)s * 2 * TILE,
                         steps - s < WIDE_STEPS ? steps - s : WIDE_STEPS, sum);
        for (int r = 0; r < 8; r++)
            for (int j = 0; j < 2; j++)
                _mm512_storeu_ps((float *)(out + (size_t)r * c_row) + j * 16, sum[r][j]);
    }
}
#endif

static Left left_at(Left a, int step) {
    a.data = (const bf16 *)((const char *)a.data + (size_t)step * a.step);
    return a;
}

/* c[32][n], rows of n + PAD */
static void product(Left a, const bf16 *b, int n, int k, float *c) {
    int steps = k / 32;
    for (int s = 0; s < steps; s += L1_STEPS)
        for (int j = 0; j < n / 32; j++)
            block(left_at(a, s), b + ((size_t)j * steps + s) * 2 * TILE,
                  steps - s < L1_STEPS ? steps - s : L1_STEPS, c + j * 32, (size_t)(n + PAD) * 4, s > 0);
}

/* sums += a[m][k] b[k][n], both packed; sums are [n/32][m][32]. `fresh`: they hold nothing yet. */
static void accumulate(bool fresh, const bf16 *a, const bf16 *b, int m, int n, int k, float *sums) {
    int steps = k / 32;
    for (int j = 0; j < n / 32; j++)
        for (int s = 0; s < steps; s += L1_STEPS)
            for (int i = 0; i < m / 32; i++)
                block(tiles_of(a + ((size_t)i * steps + s) * 2 * TILE),
                      b + ((size_t)j * steps + s) * 2 * TILE, steps - s < L1_STEPS ? steps - s : L1_STEPS,
                      sums + ((size_t)j * m + (size_t)i * 32) * 32, 128, s > 0 || !fresh);
}

static inline __m512i pair_low(__m512i a, __m512i b) {
    const __m512i index = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                                           7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    return _mm512_permutex2var_epi16(a, index, b);
}
static inline __m512i pair_high(__m512i a, __m512i b) {
    const __m512i index = _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55,
                                           23, 54, 22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
    return _mm512_permutex2var_epi16(a, index, b);
}

static inline void transpose16(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) { /* r[i + 4 g]: column 4 lane + i of rows 4 g … 4 g + 3 */
        __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88),
                b = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88),
                d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
        t[i] = _mm512_shuffle_i32x4(a, c, 0x88), t[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
        t[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88), t[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
    for (int i = 0; i < 16; i++) r[i] = t[i];
}

/* x[k][n] (rows of `stride`) as B [n/32][all_steps][2 tiles], or its transpose as A [n/32][all_steps][2 tiles]. */
static void pack_pairs(const bf16 *x, size_t stride, int k, int n, bf16 *packed, bool transposed) {
    int steps = k / 32;
    for (int s = 0; s < steps; s++)
        for (int j = 0; j < n / 32; j++) {
            bf16 *to = packed + ((size_t)j * steps + s) * 2 * TILE;
            __m512i low[16], high[16];
            for (int i = 0; i < 16; i++) {
                const bf16 *row = x + (size_t)(s * 32 + 2 * i) * stride + j * 32;
                __m512i r0 = _mm512_loadu_si512(row), r1 = _mm512_loadu_si512(row + stride);
                low[i] = pair_low(r0, r1), high[i] = pair_high(r0, r1);
            }
            if (transposed) transpose16(low), transpose16(high);
            for (int i = 0; i < 16; i++) {
                _mm512_store_si512(to + i * 32, low[i]);
                _mm512_store_si512(to + TILE + i * 32, high[i]);
            }
        }
}

/* The transpose of x[n][k] (rows of `stride`) as B [n/32][k/32][2 tiles]. */
static void pack_rows(const bf16 *x, size_t stride, int n, int k, bf16 *packed) {
    for (int j = 0; j < n / 16; j++)
        for (int s = 0; s < k / 32; s++) {
            __m512i r[16];
            for (int i = 0; i < 16; i++)
                r[i] = _mm512_loadu_si512(x + (size_t)(j * 16 + i) * stride + s * 32);
            transpose16(r);
            bf16 *to = packed + (((size_t)(j / 2) * (k / 32) + s) * 2 + j % 2) * TILE;
            for (int i = 0; i < 16; i++) _mm512_store_si512(to + i * 32, r[i]);
        }
}

static inline __m512i narrow(__m512 low, __m512 high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }
static inline __m256i narrow16(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
static inline __m512 widen(const bf16 *x) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)x)), 16));
}

static inline __m512 exp512(__m512 x) {
    x = _mm512_max_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), _mm512_set1_ps(-126));
    __m512 n = _mm512_roundscale_ps(x, 0), r = _mm512_sub_ps(x, n), y = _mm512_set1_ps(0.00133335581f);
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.00961812911f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.0555041087f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.240226507f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.693147182f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1));
    return _mm512_scalef_ps(y, n);
}

/* The tanh form and its derivative */
static inline void gelu(__m512 u, __m512 *h, __m512 *slope) {
    const float root = 1.5957691216f; /* 2 sqrt(2 / pi) */
    __m512 u2 = _mm512_mul_ps(u, u), one = _mm512_set1_ps(1);
    __m512 y =
        _mm512_mul_ps(u, _mm512_fmadd_ps(u2, _mm512_set1_ps(-0.044715f * root), _mm512_set1_ps(-root)));
    __m512 dy = _mm512_fmadd_ps(u2, _mm512_set1_ps(3 * 0.044715f * root), _mm512_set1_ps(root));
    __m512 below = _mm512_add_ps(one, exp512(_mm512_min_ps(y, _mm512_set1_ps(80)))),
           sigmoid = _mm512_rcp14_ps(below);
    sigmoid = _mm512_mul_ps(sigmoid, _mm512_fnmadd_ps(below, sigmoid, _mm512_set1_ps(2)));
    *h = _mm512_mul_ps(u, sigmoid);
    *slope = _mm512_fmadd_ps(_mm512_mul_ps(*h, _mm512_sub_ps(one, sigmoid)), dy, sigmoid);
}

static inline __m512 mean_of(const float *x, int d) {
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < d; i += 16) sum = _mm512_add_ps(sum, _mm512_loadu_ps(x + i));
    return _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)d);
}

/* One over the standard deviation */
static inline __m512 scale_of(const float *x, __m512 mean, int d) {
    __m512 squares = _mm512_setzero_ps();
    for (int i = 0; i < d; i += 16) {
        __m512 y = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
        squares = _mm512_fmadd_ps(y, y, squares);
    }
    return _mm512_set1_ps(1 / sqrtf(_mm512_reduce_add_ps(squares) / (float)d + 1e-5f));
}

/* out = norm(x) weight + bias */
static void layer_norm(const float *x, const float *weight, const float *bias, int d, bf16 *out) {
    __m512 mean = mean_of(x, d), scale = scale_of(x, mean, d);
    for (int i = 0; i < d; i += 16) {
        __m512 y = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + i), mean), scale);
        y = _mm512_fmadd_ps(y, _mm512_loadu_ps(weight + i), _mm512_loadu_ps(bias + i));
        _mm256_storeu_si256((void *)(out + i), narrow16(y));
    }
}

/* dx += the gradient at x, of dy at the norm's output. */
static void layer_norm_back(const float *x, const float *weight, const float *dy, int d, float *dx,
                            float *d_weight, float *d_bias) {
    __m512 mean = mean_of(x, d), scale = scale_of(x, mean, d), s1 = _mm512_setzero_ps(), s2 = s1;
    for (int i = 0; i < d; i += 16) {
        __m512 y = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + i), mean), scale),
               g = _mm512_loadu_ps(dy + i);
        _mm512_storeu_ps(d_weight + i, _mm512_fmadd_ps(g, y, _mm512_loadu_ps(d_weight + i)));
        _mm512_storeu_ps(d_bias + i, _mm512_add_ps(g, _mm512_loadu_ps(d_bias + i)));
        g = _mm512_mul_ps(g, _mm512_loadu_ps(weight + i));
        s1 = _mm512_add_ps(s1, g), s2 = _mm512_fmadd_ps(g, y, s2);
    }
    __m512 m1 = _mm512_set1_ps(_mm512_reduce_add_ps(s1) / (float)d),
           m2 = _mm512_set1_ps(_mm512_reduce_add_ps(s2) / (float)d);
    for (int i = 0; i < d; i += 16) {
        __m512 y = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + i), mean), scale);
        __m512 g = _mm512_mul_ps(_mm512_loadu_ps(dy + i), _mm512_loadu_ps(weight + i));
        g = _mm512_mul_ps(_mm512_sub_ps(g, _mm512_fmadd_ps(y, m2, m1)), scale);
        _mm512_storeu_ps(dx + i, _mm512_add_ps(g, _mm512_loadu_ps(dx + i)));
    }
}

#endif
