/*
 * The caches of all layers: one of those that see every key, and one of those with a window, whose keys come round in a ring.
 */
#ifndef ATTN_CACHES_H
#define ATTN_CACHES_H

#include "layers/attention_shape.h"
#include "layers/kv_cache.h"

/* Where a layer's keys and values lie. */
typedef struct CachePlace {
    const KvCache *cache;
    size_t head; /* the first of the layer's n_head_kv in it */
} CachePlace;

typedef struct Caches {
    KvCache whole, windows;
    CachePlace *places; /* [n_layer] */
    size_t widest;      /* window of the layers in the ring; 0: there are none */
    size_t n_stored;    /* positions that were ever in the cache since it was filled from 0 */
    float *zeros;       /* [d_head] */
} Caches;

/*
 * Reserves memory for n_ctx positions in dtype (F32, F16 or Q8_0), whose pages are touched only as they fill; n_chunk tokens
 * are stored together, at most. Of layers with a window only that is kept, unless `whole`. False with an error when there is
 * too little. caches_close may be called in either case, and for caches that are all zero.
 */
bool caches_open(Caches *caches, const AttentionShape *shape, size_t n_ctx, size_t n_chunk, DType dtype,
                 bool whole, const Kernels *kernels, Error *error);
void caches_close(Caches *caches);

/* Whether they still have all that tokens from `position` on see. If not, they must be filled from 0 again. */
bool caches_reach(const Caches *caches, size_t position);

/* Says that n tokens from `position` on are about to be stored. */
void caches_begin(Caches *caches, size_t position, size_t n);

/* Gives `to` the keys and values that `from` has at positions 0 … n − 1, both being whole: see kv_cache_share. */
void caches_share(Caches *to, Caches *from, size_t n);

/* Makes zeros of what the last key tiles of whole caches have behind position n − 1 (kv_span). */
void caches_blank(Caches *caches, size_t n);

#endif
