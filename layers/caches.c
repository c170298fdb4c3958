#include "layers/caches.h"

#include <stdlib.h>

/* Deals the layers to the two caches: a window whose ring would be no shorter than the context lies with the others. */
bool caches_open(Caches *caches, const AttentionShape *shape, size_t n_ctx, size_t n_chunk, DType dtype,
                 bool whole, const Kernels *kernels, Error *error) {
    size_t n_heads[2] = {0}, n_ring = 0, widest = 0, d_head = shape->d_head;
    *caches = (Caches){.places = calloc(shape->n_layer, sizeof *caches->places),
                       .zeros = calloc(d_head, sizeof *caches->zeros)};
    if (!caches->places || !caches->zeros)
        return error_set(
            error, "not enough memory for attention over %zu positions; ask for a smaller context", n_ctx);
    for (size_t layer = 0; layer < shape->n_layer && !whole; layer++)
        if (shape->layers[layer].window < n_ctx && shape->layers[layer].window > widest)
            widest = shape->layers[layer].window;
    /* A chunk overwrites tiles whose oldest keys its first token no longer sees. */
    if (widest) n_ring = widest + n_chunk + KEY_TILE - 2;
    if (n_ring >= n_ctx) widest = 0;
    for (size_t layer = 0; layer < shape->n_layer; layer++) {
        if (shape->layers[layer].absent) continue;
        size_t window = shape->layers[layer].window;
        bool rings = window && window <= widest;
        caches->places[layer] = (CachePlace){rings ? &caches->windows : &caches->whole, n_heads[rings]};
        n_heads[rings] += shape->n_head_kv;
    }
    caches->widest = widest;
    return kv_cache_open(&caches->whole, dtype, n_heads[0], d_head, n_ctx, kernels, error) &&
           (!widest || kv_cache_open(&caches->windows, dtype, n_heads[1], d_head, n_ring, kernels, error));
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
    kv_cache_change(&caches->whole, position, n);
    if (position == 0) caches->n_stored = 0;
    if (caches->n_stored < position + n) caches->n_stored = position + n;
}

void caches_share(Caches *to, Caches *from, size_t n) {
    kv_cache_share(&to->whole, &from->whole, n);
    to->n_stored = n;
}

void caches_blank(Caches *caches, size_t n) {
    kv_blank(&caches->whole, n, caches->zeros);
}
