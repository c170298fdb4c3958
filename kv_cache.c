/*
 * In Q8_0 a number is scale · q, |q| ≤ 127. The scale is kept in BF16, which has all of a float's range: F16, the scale
 * of this type in files, would make zeros of small values. A sum unpacks 64 × 64 numbers of a tile at a time into floats,
 * once for all queries, and they stay in L1 while the queries pass.
 */
#include "kv_cache.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

enum {
    MANY_KEYS = 16, /* from this many on, keys are stored a dimension at a time */
};

size_t kv_bytes(DType dtype, size_t d_head) {
    if (dtype != DTYPE_Q8_0) return dtype_bytes(dtype, d_head);
    return d_head + (d_head + INT8_BLOCK - 1) / INT8_BLOCK * sizeof(uint16_t);
}

bool kv_cache_open(KvCache *cache, DType dtype, size_t n_heads, size_t d_head, size_t n_ctx,
                   const Kernels *kernels, Error *error) {
    *cache = (KvCache){.dtype = dtype, .n_heads = n_heads, .d_head = d_head, .kernels = kernels};
    if (__builtin_add_overflow(n_ctx, KEY_TILE - 1, &cache->n_room) ||
        __builtin_mul_overflow(2 * n_heads * kv_bytes(dtype, d_head), cache->n_room / KEY_TILE * KEY_TILE,
                               &cache->n_bytes))
        return error_set(error, "a KV cache of %zu positions cannot be addressed; ask for a smaller context",
                         n_ctx);
    cache->n_room = cache->n_room / KEY_TILE * KEY_TILE;
    void *tiles = mmap(NULL, cache->n_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tiles == MAP_FAILED)
        return error_set(
            error, "cannot reserve %zu MiB of KV cache for %zu positions: %s; ask for a smaller context",
            cache->n_bytes >> 20, n_ctx, strerror(errno));
    cache->tiles = tiles;
    return true;
}

void kv_cache_close(KvCache *cache) {
    if (cache->tiles) munmap(cache->tiles, cache->n_bytes);
}

/* The tile that begins at position `first`; `all` counts the heads of keys, then those of values. */
static unsigned char *tile_at(const KvCache *cache, size_t all, size_t first) {
    return cache->tiles + (all * cache->n_room + first) * kv_bytes(cache->dtype, cache->d_head);
}

/* Writes n numbers as floats of the cache's type. */
static void convert(const KvCache *cache, void *dst, const float *src, size_t n) {
    if (cache->dtype == DTYPE_F16)
        cache->kernels->pack_f16(dst, src, n);
    else
        memcpy(dst, src, n * sizeof *src);
}

/* Writes one key as a column of its F16 tile. One call converts 64 numbers; a call each is slow. */
static void store_key(const KvCache *cache, unsigned char *tile, size_t column, const float *k) {
    for (size_t i = 0, n; i < cache->d_head; i += n) {
        uint16_t halves[KEY_TILE], *to = (uint16_t *)(void *)tile + i * KEY_TILE + column;
        n = cache->d_head - i < KEY_TILE ? cache->d_head - i : KEY_TILE;
        cache->kernels->pack_f16(halves, k + i, n);
        for (size_t j = 0; j < n; j++) to[j * KEY_TILE] = halves[j];
    }
}

/* Writes n keys as the columns of a tile of floats from `column` on. */
static void store_keys(const KvCache *cache, unsigned char *tile, size_t column, const float *k,
                       size_t stride, size_t n) {
    if (n < MANY_KEYS && cache->dtype == DTYPE_F16) {
        for (size_t j = 0; j < n; j++) store_key(cache, tile, column + j, k + j * stride);
        return;
    }
    for (size_t i = 0; i < cache->d_head; i++) {
        float row[KEY_TILE];
        for (size_t j = 0; j < n; j++) row[j] = k[j * stride + i];
        convert(cache, tile + dtype_bytes(cache->dtype, i * KEY_TILE + column), row, n);
    }
}

/* Rounds n ≤ INT8_BLOCK numbers to q and returns their scale: max |x| / 127, rounded up to BF16. It is infinite or NaN if an x is. */
static uint16_t quantise(int8_t *q, const float *x, size_t n) {
    int32_t bits, largest = 0; /* of max |x|: bits order sizes as numbers do, and NaN comes last */
    float step;
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, x + i, sizeof bits);
        bits &= INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    memcpy(&step, &largest, sizeof step);
    step /= 127;
    memcpy(&bits, &step, sizeof bits);
    if (step < INFINITY) bits += 0xffff;
    bits &= ~0xffff;
    memcpy(&step, &bits, sizeof step);
    const float divisor = step > 0 ? step : 1;
    for (size_t i = 0; i < n; i++) {
        float shifted = x[i] / divisor + 0x1.8p23f; /* whose last bits are the nearest integer */
        int32_t rounded;
        memcpy(&rounded, &shifted, sizeof rounded);
        q[i] = (int8_t)rounded;
    }
    return (uint16_t)(bits >> 16);
}

/* Writes a key, as a column of its tile, or a value, as a row, in Q8_0. */
static void store_q8(const KvCache *cache, unsigned char *tile, bool is_key, size_t at, const float *x) {
    const size_t d_head = cache->d_head, step = is_key ? KEY_TILE : 1;
    int8_t block[INT8_BLOCK], *to = (int8_t *)tile + (is_key ? at : at * d_head);
    uint16_t *scales = (uint16_t *)(void *)(tile + d_head * KEY_TILE) + at;
    for (size_t i = 0, n; i < d_head; i += n, scales += KEY_TILE) {
        n = d_head - i < INT8_BLOCK ? d_head - i : INT8_BLOCK;
        *scales = quantise(block, x + i, n);
        for (size_t j = 0; j < n; j++) to[(i + j) * step] = block[j];
    }
}

void kv_store(const KvCache *cache, size_t head, size_t position, const float *k, const float *v,
              size_t stride, size_t n) {
    for (size_t done = 0, at, m; done < n; done += m, k += m * stride, v += m * stride) {
        at = (position + done) % KEY_TILE;
        m = n - done < KEY_TILE - at ? n - done : KEY_TILE - at;
        unsigned char *keys = tile_at(cache, head, position + done - at),
                      *values = tile_at(cache, cache->n_heads + head, position + done - at);
        for (size_t j = 0; j < m; j++)
            if (cache->dtype == DTYPE_Q8_0) {
                store_q8(cache, keys, true, at + j, k + j * stride);
                store_q8(cache, values, false, at + j, v + j * stride);
            } else {
                convert(cache, values + dtype_bytes(cache->dtype, (at + j) * cache->d_head), v + j * stride,
                        cache->d_head);
            }
        if (cache->dtype != DTYPE_Q8_0) store_keys(cache, keys, at, k, stride, m);
    }
}

/* Rows that lie in a tile, [n_v][d], as weighted_sums takes them. */
typedef struct Rows {
    const unsigned char *numbers;
    const uint16_t *scales; /* of Q8_0 */
    size_t n_v, d;
    bool along_rows; /* a scale is for 32 numbers of a row, not of a column */
} Rows;

/* z[t] += Σ_j p[t][j]·row j for n rows of z and p. */
static void sum(const KvCache *cache, const Rows *rows, float *z, size_t z_stride, const float *p,
                size_t p_stride, size_t n, bool few) {
    const Kernels *kernels = cache->kernels;
    void (*const weighted_sums)(float *, size_t, const float *, size_t, size_t, DType, const void *, size_t,
                                size_t, size_t) =
        few && kernels->few_sums ? kernels->few_sums : kernels->weighted_sums;
    if (cache->dtype != DTYPE_Q8_0) {
        weighted_sums(z, z_stride, p, p_stride, n, cache->dtype, rows->numbers, rows->d, rows->n_v, rows->d);
        return;
    }
    _Alignas(64) float panel[INT8_TILE * INT8_TILE], scales[INT8_TILE / INT8_BLOCK * INT8_TILE];
    for (size_t j = 0, i, n_v, d; j < rows->n_v; j += n_v) {
        n_v = rows->n_v - j < INT8_TILE ? rows->n_v - j : INT8_TILE;
        for (i = 0; i < rows->d; i += d) {
            d = rows->d - i < INT8_TILE ? rows->d - i : INT8_TILE;
            size_t first = rows->along_rows ? i : j, n_scales = rows->along_rows ? d : n_v;
            n_scales = (n_scales + INT8_BLOCK - 1) / INT8_BLOCK * INT8_TILE;
            kernels->unpack(scales, DTYPE_BF16, rows->scales + first / INT8_BLOCK * INT8_TILE, n_scales);
            kernels->unpack_int8(panel, (const int8_t *)rows->numbers + j * rows->d + i, rows->d, n_v, d,
                                 scales, rows->along_rows);
            weighted_sums(z + i, z_stride, p + j, p_stride, n, DTYPE_F32, panel, INT8_TILE, n_v, d);
        }
    }
}

static const uint16_t *scales_of(const KvCache *cache, const unsigned char *tile) {
    return (const uint16_t *)(const void *)(tile + cache->d_head * KEY_TILE);
}

void kv_scores(const KvCache *cache, size_t head, size_t first, const float *q, size_t n, bool few,
               float *scores) {
    const unsigned char *tile = tile_at(cache, head, first);
    Rows rows = {tile, scales_of(cache, tile), cache->d_head, KEY_TILE, false};
    memset(scores, 0, n * KEY_TILE * sizeof *scores);
    sum(cache, &rows, scores, KEY_TILE, q, cache->d_head, n, few);
}

void kv_add_values(const KvCache *cache, size_t head, size_t first, size_t n_keys, const float *pattern,
                   size_t n, bool few, float *z) {
    const unsigned char *tile = tile_at(cache, cache->n_heads + head, first);
    Rows rows = {tile, scales_of(cache, tile), n_keys, cache->d_head, true};
    sum(cache, &rows, z, cache->d_head, pattern, KEY_TILE, n, few);
}
