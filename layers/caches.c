#include "layers/caches.h"

#include <stdlib.h>

/* Deals the layers to the two caches: a window whose ring would be no shorter than the context lies with the others. */
bool caches_open(Caches *caches, const CachesOptions *o, Error *error) {
    size_t n_heads[2] = {0}, n_ring = 0;
    *caches = (Caches){.places = calloc(o->n_layer, sizeof *caches->places),
                       .zeros = calloc(o->d_head, sizeof *caches->zeros)};
    if (!caches->places || !caches->zeros)
        return error_set(
            error, "not enough memory for attention over %zu positions; ask for a smaller context", o->n_ctx);
    for (size_t layer = 0; layer < o->n_layer && !o->whole; layer++)
        if (o->layers[layer].window < o->n_ctx && o->layers[layer].window > caches->widest)
            caches->widest = o->layers[layer].window;
    /* A chunk overwrites tiles whose oldest keys its first token no longer sees. */
    if (caches->widest) n_ring = caches->widest + o->n_chunk + KEY_TILE - 2;
    if (n_ring >= o->n_ctx) caches->widest = 0;
    for (size_t layer = 0; layer < o->n_layer; layer++) {
        if (o->layers[layer].absent) continue;
        size_t window = o->layers[layer].window;
        bool rings = window && window <= caches->widest;
        caches->places[layer] = (CachePlace){rings ? &caches->windows : &caches->whole, n_heads[rings]};
        n_heads[rings] += o->n_head_kv;
    }
    return kv_cache_open(&caches->whole, o->dtype, n_heads[0], o->d_head, o->n_ctx, o->kernels, error) &&
           (!caches->widest ||
            kv_cache_open(&caches->windows, o->dtype, n_heads[1], o->d_head, n_ring, o->kernels, error));
}

void caches_close(Caches *caches) {
    kv_cache_close(&caches->whole);
    kv_cache_close(&caches->windows);
    free(caches->places);
    free(caches->zeros);
}

bool caches_reach(const Caches *caches, size_t position) {
    return !caches->widest || position == 0 ||
           position + caches->windows.n_room + 1 >= caches->n_stored + caches->widest;
}

void caches_begin(Caches *caches, size_t position, size_t n) {
    kv_cache_change(&caches->whole, position);
    if (position == 0) caches->n_stored = 0;
    if (caches->n_stored < position + n) caches->n_stored = position + n;
}

void caches_share(Caches *to, Caches *from, size_t n) {
    kv_cache_share(&to->whole, &from->whole, n);
    to->n_stored = n;
}

void caches_blank(Caches *caches, size_t n) {
    kv_cache_change(&caches->whole, n);
    kv_blank(&caches->whole, n, caches->zeros);
}
