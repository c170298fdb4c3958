/*
 * The caches of all layers: one of those that see every key, and one of those with a window, whose keys come round in a ring.
 */
#ifndef ATTN_CACHES_H
#define ATTN_CACHES_H

#include "layers/kv_cache.h"
#include "layers/rope.h"

/* How far a layer sees, and how it turns. */
typedef struct AttentionLayer {
    size_t window;    /* keys that a query sees, the last ones, its own among them; 0: all */
    const Rope *rope; /* one of the model's ropes; NULL: nothing turns */
    bool absent;      /* the layer has no attention, and nothing in the cache */
} AttentionLayer;

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

/* All is borrowed. */
typedef struct CachesOptions {
    size_t n_layer, n_head_kv, d_head;
    const AttentionLayer *layers; /* [n_layer] */
    size_t n_ctx;                 /* positions */
    size_t n_chunk;               /* tokens that are stored together, at most */
    DType dtype;                  /* F32, F16 or Q8_0 */
    bool whole;                   /* keeps keys that no later token sees, too */
    const Kernels *kernels;
} CachesOptions;

/*
 * Reserves the caches' memory, whose pages are touched only as they fill. False with an error when there is too little.
 * caches_close may be called in either case, and for caches that are all zero.
 */
bool caches_open(Caches *caches, const CachesOptions *options, Error *error);
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
