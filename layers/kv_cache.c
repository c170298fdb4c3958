/*
 * In Q8_0 a number is scale · q, |q| ≤ 127. The scale is kept in BF16, which has all of a float's range: F16, the scale
 * of this type in files, would make zeros of small values. Both sums take a block of 32 dimensions at a time, whose q
 * become floats on the way into a register. Scales come from outside: into a block's part of the scores after its sum,
 * and into the pattern before the values are summed.
 */
#define _GNU_SOURCE /* memfd_create */
#include "layers/kv_cache.h"

#include "kernels/compiler.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BLOCK = 32,             /* dimensions that share a scale */
    QUERIES = 64,           /* whose sums are scaled together, at most */
    MANY_KEYS = 16,         /* from this many on, keys are stored a dimension at a time */
    TAIL_DIMS = 256,        /* of heads whose caches have a tail */
    SHARED_BYTES = 1 << 16, /* that two caches share, at least: less is copied as fast */
};

/* The tiles of a cache as they once were: a file without a name, which caches map and of which they copy what they change. */
typedef struct KvShare {
    int file;
    atomic_size_t n_users;
} KvShare;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

size_t kv_bytes(DType dtype, size_t d_head) {
    if (dtype != DTYPE_Q8_0) return dtype_bytes(dtype, d_head);
    return d_head + (d_head + BLOCK - 1) / BLOCK * sizeof(uint16_t);
}

size_t kv_room_floats(size_t d_head) { return d_head <= TAIL_DIMS ? KEY_TILE * d_head : 0; }

bool kv_cache_open(KvCache *cache, DType dtype, size_t n_heads, size_t d_head, size_t n_ctx,
                   const Kernels *kernels, Error *error) {
    *cache = (KvCache){.dtype = dtype, .n_heads = n_heads, .d_head = d_head, .kernels = kernels};
    if (__builtin_add_overflow(n_ctx, KEY_TILE - 1, &cache->n_room) ||
        __builtin_mul_overflow(2 * n_heads * kv_bytes(dtype, d_head), cache->n_room / KEY_TILE * KEY_TILE,
                               &cache->n_bytes))
        return error_set(
            error, "no memory has room for a KV cache of %zu positions; ask for a smaller context", n_ctx);
    cache->n_room = cache->n_room / KEY_TILE * KEY_TILE;
    if (cache->n_bytes == 0) return true; /* no layer has its heads here */
    void *tiles = mmap(NULL, cache->n_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tiles == MAP_FAILED)
        return error_set(
            error, "cannot reserve %zu MiB of KV cache for %zu positions: %s; ask for a smaller context",
            cache->n_bytes >> 20, n_ctx, strerror(errno));
    cache->tiles = tiles;
    return true;
}

static size_t tail_bytes(const KvCache *cache) {
    return KV_TAIL * 2 * cache->n_heads * kv_bytes(cache->dtype, cache->d_head);
}

static void drop_tail(KvCache *cache) {
    if (cache->tail) munmap(cache->tail, tail_bytes(cache));
    cache->tail = NULL;
}

static void leave_share(KvCache *cache) {
    KvShare *share = cache->share;
    cache->share = NULL;
    cache->n_shared = 0;
    if (!share || atomic_fetch_sub(&share->n_users, 1) > 1) return;
    close(share->file);
    free(share);
}

void kv_cache_close(KvCache *cache) {
    if (cache->tiles) munmap(cache->tiles, cache->n_bytes);
    drop_tail(cache);
    leave_share(cache);
}

/* The tile that begins at position `first`; `all` counts the heads of keys, then those of values. */
static unsigned char *tile_at(const KvCache *cache, size_t all, size_t first) {
    return cache->tiles +
           (all * cache->n_room + first % cache->n_room) * kv_bytes(cache->dtype, cache->d_head);
}

/* The small tile of the tail that has a position. */
static unsigned char *tail_tile(const KvCache *cache, size_t all, size_t position) {
    size_t tile = position / TAIL_TILE - cache->tail_begin / TAIL_TILE;
    return cache->tail +
           (tile * 2 * cache->n_heads + all) * TAIL_TILE * kv_bytes(cache->dtype, cache->d_head);
}

/* Writes n numbers as floats of the cache's type. */
static void convert(const KvCache *cache, void *dst, const float *src, size_t n) {
    if (cache->dtype == DTYPE_F16)
        cache->kernels->pack_f16(dst, src, n);
    else
        memcpy(dst, src, n * sizeof *src);
}

/* Writes one key as a column of its F16 tile of so many. One call converts 64 numbers; a call each is slow. */
static void store_key(const KvCache *cache, unsigned char *tile, size_t columns, size_t column,
                      const float *k) {
    for (size_t i = 0, n; i < cache->d_head; i += n) {
        uint16_t halves[KEY_TILE], *to = (uint16_t *)(void *)tile + i * columns + column;
        n = smaller(KEY_TILE, cache->d_head - i);
        cache->kernels->pack_f16(halves, k + i, n);
        for (size_t j = 0; j < n; j++) to[j * columns] = halves[j];
    }
}

/* Writes n keys as the columns of a tile of floats from `column` on. ALONE, as store_q8 is: opened, both take 12 KB more. */
static ALONE void store_keys(const KvCache *cache, unsigned char *tile, size_t columns, size_t column,
                             const float *k, size_t stride, size_t n) {
    if (n < MANY_KEYS && cache->dtype == DTYPE_F16) {
        for (size_t j = 0; j < n; j++) store_key(cache, tile, columns, column + j, k + j * stride);
        return;
    }
    for (size_t i = 0; i < cache->d_head; i++) {
        float row[KEY_TILE];
        for (size_t j = 0; j < n; j++) row[j] = k[j * stride + i];
        convert(cache, tile + dtype_bytes(cache->dtype, i * columns + column), row, n);
    }
}

/*
 * Rounds n ≤ BLOCK numbers to q and returns their scale: max |x| / 127, rounded up to BF16. If an x is infinite or NaN,
 * so is the scale.
 */
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

/* Writes a key, or a value, in Q8_0. */
static ALONE void store_q8(const KvCache *cache, unsigned char *tile, size_t columns, bool is_key, size_t at,
                           const float *x) {
    uint16_t *scales = (uint16_t *)(void *)(tile + cache->d_head * columns) + at;
    int8_t q[BLOCK], *to = (int8_t *)tile;
    for (size_t i = 0, n; i < cache->d_head; i += n, to += n * columns, scales += columns) {
        n = smaller(BLOCK, cache->d_head - i);
        *scales = quantise(q, x + i, n);
        for (size_t j = 0; j < n; j++) to[is_key ? j * columns + at : at * n + j] = q[j];
    }
}

/* Copies rows of so many bytes, which are mostly those of a small tile: a call each is slow. */
static ALONE void copy_rows(unsigned char *to, size_t to_stride, const unsigned char *from,
                            size_t from_stride, size_t n_rows, size_t n_bytes) {
    switch (n_bytes) {
    case 4:
        for (size_t i = 0; i < n_rows; i++) memcpy(to + i * to_stride, from + i * from_stride, 4);
        break;
    case 8:
        for (size_t i = 0; i < n_rows; i++) memcpy(to + i * to_stride, from + i * from_stride, 8);
        break;
    case 16:
        for (size_t i = 0; i < n_rows; i++) memcpy(to + i * to_stride, from + i * from_stride, 16);
        break;
    default:
        for (size_t i = 0; i < n_rows; i++) memcpy(to + i * to_stride, from + i * from_stride, n_bytes);
    }
}

/* Puts the positions of a small tile from number `left_out` on into a tile, where the first is position `at`. */
static void put_tile(const KvCache *cache, unsigned char *tile, bool is_key, size_t at,
                     const unsigned char *from, size_t left_out) {
    const size_t d_head = cache->d_head, n = TAIL_TILE - left_out,
                 size = cache->dtype == DTYPE_Q8_0 ? 1 : dtype_bytes(cache->dtype, 1);
    const size_t widest = cache->dtype == DTYPE_Q8_0 ? BLOCK : d_head;
    if (is_key)
        copy_rows(tile + at * size, KEY_TILE * size, from + left_out * size, TAIL_TILE * size, d_head,
                  n * size);
    for (size_t i = 0, m; i < d_head && !is_key; i += m) {
        m = smaller(widest, d_head - i);
        memcpy(tile + (i * KEY_TILE + at * m) * size, from + (i * TAIL_TILE + left_out * m) * size,
               n * m * size);
    }
    if (cache->dtype == DTYPE_Q8_0)
        copy_rows(tile + d_head * KEY_TILE + at * 2, KEY_TILE * 2, from + d_head * TAIL_TILE + left_out * 2,
                  TAIL_TILE * 2, (d_head + BLOCK - 1) / BLOCK, n * 2);
}

/* Puts what the tail has of a tile's positions into it. */
static void put_tail(const KvCache *cache, size_t all, size_t first, unsigned char *tile) {
    size_t begin = first < cache->tail_begin ? cache->tail_begin : first,
           end = smaller(first + KEY_TILE, cache->tail_end);
    for (size_t left_out; begin < end; begin += TAIL_TILE - left_out) {
        left_out = begin % TAIL_TILE;
        put_tile(cache, tile, all < cache->n_heads, begin - first, tail_tile(cache, all, begin), left_out);
    }
}

/* The tile that begins at `first`, put together in `room` where the tail has some of its positions. */
static const unsigned char *whole_tile(const KvCache *cache, size_t all, size_t first, void *room) {
    const unsigned char *tile = tile_at(cache, all, first);
    const size_t begin = cache->tail_begin;
    if (!cache->tail || begin == cache->tail_end || first >= cache->tail_end || first + KEY_TILE <= begin)
        return tile;
    size_t n_rows = all < cache->n_heads || cache->dtype == DTYPE_Q8_0 ? KEY_TILE : begin - first;
    if (first < begin) memcpy(room, tile, n_rows * kv_bytes(cache->dtype, cache->d_head));
    put_tail(cache, all, first, room);
    return room;
}

void kv_cache_settle(KvCache *cache) {
    if (!cache->tail) return;
    for (size_t all = 0; all < 2 * cache->n_heads; all++)
        for (size_t first = cache->tail_begin / KEY_TILE * KEY_TILE; first < cache->tail_end;
             first += KEY_TILE)
            put_tail(cache, all, first, tile_at(cache, all, first));
    drop_tail(cache);
}

/* The tile that a position is stored in: one of the tail where there is one. */
static ALONE unsigned char *stored_in(const KvCache *cache, size_t all, size_t position) {
    return cache->tail ? tail_tile(cache, all, position)
                       : tile_at(cache, all, position / KEY_TILE * KEY_TILE);
}

void kv_store(const KvCache *cache, size_t head, size_t position, const float *k, const float *v,
              size_t stride, size_t n) {
    const size_t columns = cache->tail ? TAIL_TILE : KEY_TILE, values_at = cache->n_heads + head;
    for (size_t done = 0, at, m; done < n; done += m, k += m * stride, v += m * stride) {
        const size_t first = position + done;
        unsigned char *keys = stored_in(cache, head, first), *values = stored_in(cache, values_at, first);
        at = first % columns;
        m = smaller(columns - at, n - done);
        if (cache->dtype == DTYPE_Q8_0) {
            for (size_t j = 0; j < m; j++) store_q8(cache, keys, columns, true, at + j, k + j * stride);
            for (size_t j = 0; j < m; j++) store_q8(cache, values, columns, false, at + j, v + j * stride);
            continue;
        }
        store_keys(cache, keys, columns, at, k, stride, m);
        for (size_t j = 0; j < m; j++)
            convert(cache, values + (at + j) * kv_bytes(cache->dtype, cache->d_head), v + j * stride,
                    cache->d_head);
    }
}

/* Weighted sums of rows of the cache, [n_v][d] from v on: z[t][i] += Σ_j p[t][j]·v[j][i] for t < n, i < d. */
static void add_sums(const KvCache *cache, bool few, float *z, size_t z_stride, const float *p,
                     size_t p_stride, size_t n, const void *v, size_t n_v, size_t d) {
    const Kernels *kernels = cache->kernels;
    const DType dtype = cache->dtype == DTYPE_Q8_0 ? DTYPE_I8 : cache->dtype;
    few = few && kernels->few_sums;
    (few ? kernels->few_sums : kernels->weighted_sums)(z, z_stride, p, p_stride, n, dtype, v, d, n_v, d);
}

/* The scales of block b of a tile, as floats. */
static void unpack_scales(const KvCache *cache, float scales[KEY_TILE], const unsigned char *tile, size_t b) {
    const unsigned char *from = tile + (cache->d_head + b * sizeof(uint16_t)) * KEY_TILE;
    cache->kernels->unpack(scales, DTYPE_BF16, from, KEY_TILE);
}

void kv_scores(const KvCache *cache, size_t head, size_t first, const float *q, size_t n, bool few,
               void *room, float *scores) {
    const unsigned char *keys = whole_tile(cache, head, first, room);
    const size_t d_head = cache->d_head;
    memset(scores, 0, n * KEY_TILE * sizeof *scores);
    if (cache->dtype != DTYPE_Q8_0) {
        add_sums(cache, few, scores, KEY_TILE, q, d_head, n, keys, d_head, KEY_TILE);
        return;
    }
    for (size_t i = 0; i < d_head; i += BLOCK) {
        _Alignas(64) float scale[KEY_TILE], sums[QUERIES * KEY_TILE];
        unpack_scales(cache, scale, keys, i / BLOCK);
        for (size_t t = 0, m; t < n; t += m) {
            m = smaller(QUERIES, n - t);
            memset(sums, 0, m * KEY_TILE * sizeof *sums);
            add_sums(cache, few, sums, KEY_TILE, q + t * d_head + i, d_head, m, keys + i * KEY_TILE,
                     smaller(BLOCK, d_head - i), KEY_TILE);
            cache->kernels->add_scaled(scores + t * KEY_TILE, sums, scale, m, KEY_TILE);
        }
    }
}

void kv_add_values(const KvCache *cache, size_t head, size_t first, size_t n_keys, const float *pattern,
                   size_t n, bool few, void *room, float *z) {
    const unsigned char *values = whole_tile(cache, cache->n_heads + head, first, room);
    const size_t d_head = cache->d_head;
    if (cache->dtype != DTYPE_Q8_0) {
        add_sums(cache, few, z, d_head, pattern, KEY_TILE, n, values, n_keys, d_head);
        return;
    }
    for (size_t i = 0; i < d_head; i += BLOCK) {
        _Alignas(64) float scale[KEY_TILE], scaled[QUERIES * KEY_TILE];
        unpack_scales(cache, scale, values, i / BLOCK);
        for (size_t t = 0, m; t < n; t += m) {
            m = smaller(QUERIES, n - t);
            memset(scaled, 0, m * KEY_TILE * sizeof *scaled);
            cache->kernels->add_scaled(scaled, pattern + t * KEY_TILE, scale, m, KEY_TILE);
            add_sums(cache, few, z + t * d_head + i, d_head, scaled, KEY_TILE, m, values + i * KEY_TILE,
                     n_keys, smaller(BLOCK, d_head - i));
        }
    }
}

/* A value is the sum in which it alone has weight. */
void kv_values(const KvCache *cache, size_t head, size_t n, float *values) {
    memset(values, 0, n * cache->d_head * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        float alone[KEY_TILE] = {0};
        size_t first = i / KEY_TILE * KEY_TILE;
        alone[i - first] = 1;
        kv_add_values(cache, head, first, i - first + 1, alone, 1, true, NULL, values + i * cache->d_head);
    }
}

Span kv_span(const KvCache *cache, size_t i, size_t n) {
    size_t n_tiles = (n + KEY_TILE - 1) / KEY_TILE;
    return (Span){tile_at(cache, i, 0), n_tiles * KEY_TILE * kv_bytes(cache->dtype, cache->d_head)};
}

#if defined(__linux__)
#include <sys/resource.h>

/* Makes the tiles of a cache those of a share, of which n positions count. */
static bool join_share(KvCache *cache, KvShare *share, size_t n) {
    void *tiles =
        mmap(NULL, cache->n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, share->file, 0);
    if (tiles == MAP_FAILED) return false;
    munmap(cache->tiles, cache->n_bytes);
    drop_tail(cache);
    leave_share(cache);
    atomic_fetch_add(&share->n_users, 1);
    cache->tiles = tiles;
    cache->share = share;
    cache->n_shared = cache->tail_begin = cache->tail_end = n;
    void *tail = MAP_FAILED; /* without one there is but more memory */
    if (kv_room_floats(cache->d_head) > 0)
        tail = mmap(NULL, tail_bytes(cache), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cache->tail = tail == MAP_FAILED ? NULL : tail;
    return true;
}

/* Writes the tiles of n positions to where they lie in the file. */
static bool write_tiles(const KvCache *cache, int file, size_t n) {
    for (size_t i = 0; i < 2 * cache->n_heads; i++) {
        const Span span = kv_span(cache, i, n);
        const unsigned char *bytes = span.bytes;
        for (size_t done = 0; done < span.n;) {
            ssize_t m =
                pwrite(file, bytes + done, span.n - done, (off_t)((size_t)(bytes - cache->tiles) + done));
            if (m <= 0) return false;
            done += (size_t)m;
        }
    }
    return true;
}

/* A file beyond the process's limit would not fail but end the process by a signal (SIGXFSZ). */
static bool may_have_file(size_t n_bytes) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= n_bytes;
}

/* Whether the first n positions lie in a share, in a new one if need be. */
static bool have_share(KvCache *cache, size_t n) {
    if (cache->share && cache->n_shared >= n) return true;
    kv_cache_settle(cache);
    if (!may_have_file(cache->n_bytes)) return false;
    KvShare *share = malloc(sizeof *share);
    int file = share ? memfd_create("attn-keys-and-values", MFD_CLOEXEC) : -1;
    if (file < 0) {
        free(share);
        return false;
    }
    *share = (KvShare){.file = file};
    bool ok = ftruncate(file, (off_t)cache->n_bytes) == 0 && write_tiles(cache, file, n) &&
              join_share(cache, share, n);
    if (ok) return true;
    close(file);
    free(share);
    return false;
}
#else
static bool join_share(KvCache *cache, KvShare *share, size_t n) {
    return (void)cache, (void)share, (void)n, false;
}
static bool have_share(KvCache *cache, size_t n) { return (void)cache, (void)n, false; }
#endif

void kv_cache_share(KvCache *to, KvCache *from, size_t n) {
    const size_t n_spans = 2 * from->n_heads;
    if (n == 0 || n_spans == 0) return;
    if (to->n_bytes == from->n_bytes && n_spans * kv_span(from, 0, n).n >= SHARED_BYTES &&
        have_share(from, n) && join_share(to, from->share, n))
        return;
    kv_cache_settle(from);
    kv_cache_change(to, 0, 0);
    for (size_t i = 0; i < n_spans; i++) {
        const Span span = kv_span(from, i, n);
        memcpy(kv_span(to, i, n).bytes, span.bytes, span.n);
    }
}

void kv_cache_change(KvCache *cache, size_t position, size_t n) {
    if (cache->n_shared > position) cache->n_shared = position;
    if (position < cache->tail_begin || position + n > cache->tail_begin / TAIL_TILE * TAIL_TILE + KV_TAIL)
        kv_cache_settle(cache);
    else if (cache->tail_end < position + n)
        cache->tail_end = position + n;
}

void kv_blank(KvCache *cache, size_t n, const float *zeros) {
    size_t n_left = (KEY_TILE - n % KEY_TILE) % KEY_TILE;
    kv_cache_settle(cache);
    kv_cache_change(cache, n, n_left);
    for (size_t head = 0; head < cache->n_heads; head++) kv_store(cache, head, n, zeros, zeros, 0, n_left);
}
