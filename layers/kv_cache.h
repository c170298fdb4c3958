/*
 * The KV cache: the keys and values of all layers' kv heads, and attention's two sums over them. They are kept in F32,
 * in F16, or in Q8_0: an int8 for each number and a scale for each 32 dimensions, half of what F16 takes.
 */
#ifndef ATTN_KV_CACHE_H
#define ATTN_KV_CACHE_H

#include "base/error.h"
#include "base/memory.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    KEY_TILE = 64, /* positions that lie together, and are summed over at once */
    /* A key touches all memory of its tile, so what comes first behind a share lies in small ones, until it is more. */
    TAIL_TILE = 4,
    KV_TAIL = 32,
};

/*
 * The keys of n_heads heads, then their values, each as [n_heads][n_room/KEY_TILE] tiles. A tile of keys is
 * [d_head][KEY_TILE]: it has a row for each dimension, so that scores of neighbouring keys are neighbouring lanes, and
 * both sums are weighted sums of rows. A tile of values is [KEY_TILE][d_head]; in Q8_0 each 32 dimensions, or the fewer
 * that are left, lie together as [KEY_TILE][32]. Behind the numbers of a tile in Q8_0 lie its scales in BF16,
 * [⌈d_head/32⌉][KEY_TILE] for both.
 */
typedef struct KvCache {
    DType dtype;
    size_t n_heads, d_head;
    size_t n_room; /* positions, in whole tiles; those beyond take the places of the first again */
    const Kernels *kernels;
    unsigned char *tiles;
    size_t n_bytes;
    struct KvShare *share;       /* what it has in common with others, or NULL */
    size_t n_shared;             /* positions that are still as they are there */
    unsigned char *tail;         /* [KV_TAIL/TAIL_TILE][2·n_heads] tiles behind the share, or NULL */
    size_t tail_begin, tail_end; /* those that lie there, and not yet in tiles */
} KvCache;

/* Bytes of one key, or one value. */
size_t kv_bytes(DType dtype, size_t d_head);

/* Floats that hold a tile, or 0: heads are so wide that no cache has a tail. */
size_t kv_room_floats(size_t d_head);

/*
 * Reserves address space for n_ctx positions; pages come as they are written. False with an error when that is too much.
 * kv_cache_close may be called in either case, and for a cache that is all zero.
 */
bool kv_cache_open(KvCache *cache, DType dtype, size_t n_heads, size_t d_head, size_t n_ctx,
                   const Kernels *kernels, Error *error);
void kv_cache_close(KvCache *cache);

/*
 * Writes a head's keys and values at n positions from `position` on, those of the next position `stride` floats further.
 * Each is rounded alone, to half a step; in Q8_0 a step is max |x| / 127 of its 32 dimensions, or up to 1/128 more.
 */
void kv_store(const KvCache *cache, size_t head, size_t position, const float *k, const float *v,
              size_t stride, size_t n);

/*
 * scores[row][i] = q_row · key of position first + i, for n rows: q [n][d_head], scores [n][KEY_TILE]. `first` is a
 * multiple of KEY_TILE. What positions that were never stored give means nothing. few: no more than PACKED_TOKENS tokens
 * are under way, and a row's bits must not depend on the others. `room` [kv_room_floats] is for a tile that is put
 * together.
 */
void kv_scores(const KvCache *cache, size_t head, size_t first, const float *q, size_t n, bool few,
               void *room, float *scores);

/* z_row += Σ_i pattern[row][i]·value of position first + i, i < n_keys ≤ KEY_TILE: pattern [n][KEY_TILE], z [n][d_head]. */
void kv_add_values(const KvCache *cache, size_t head, size_t first, size_t n_keys, const float *pattern,
                   size_t n, bool few, void *room, float *z);

/*
 * Gives `to` the keys and values that `from` has at positions 0 … n − 1, both of the same heads and type, with room for n. Unless
 * they are few, and where the system can, the two then have the same memory, and each gets a page of its own when it writes there:
 * a text that begins many others takes the memory of one. Else they are copied.
 */
void kv_cache_share(KvCache *to, KvCache *from, size_t n);

/* Says that n positions from this one on are about to be stored. Before kv_store, and before a span is written to. */
void kv_cache_change(KvCache *cache, size_t position, size_t n);

/* Brings all into the tiles, where kv_values and kv_span look. */
void kv_cache_settle(KvCache *cache);

/* The values of positions 0 … n − 1, as floats: values [n][d_head]. */
void kv_values(const KvCache *cache, size_t head, size_t n, float *values);

/*
 * Where positions 0 … n − 1 of a head's keys lie, in whole tiles, or, for i = n_heads + head, of its values; nothing of them
 * has left a cache with room for n. kv_blank makes zeros of what the last of these tiles has behind position n − 1; zeros
 * [d_head].
 */
Span kv_span(const KvCache *cache, size_t i, size_t n);
void kv_blank(KvCache *cache, size_t n, const float *zeros);

#endif
