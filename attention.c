/*
 * The heart. For head h and the token at position i, over the keys and values cached so far:
 *
 *   q_i = W_q x_i    k_j = W_k x_j    v_j = W_v x_j     (RoPE turns q_i and k_j by their positions)
 *   score_ij   = q_i · k_j / √d_head                    for j ≤ i; the causal mask hides j > i
 *   pattern_ij = exp(score_ij) / Σ_j' exp(score_ij')    softmax over j
 *   z_i        = Σ_j pattern_ij v_j
 *   out_i      = W_o [z of head 0; z of head 1; …]
 *
 * Grouped-query attention: head h reads the keys and values of kv head ⌊h·n_head_kv/n_head⌋.
 *
 * attend_watched computes this formula query by query, on a whole row of scores, for heads that a probe
 * watches. attend_tile is the fast way, without an n × n buffer. It takes the keys tile by tile, and each query
 * keeps the maximum m and the sum of its softmax so far. When m grows, what the query has is rescaled (Milakov &
 * Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135). Tiles start at fixed positions. So a
 * token's result does not depend on the thread, and on the chunk only through the rounding of the kernel set.
 */
#include "attention.h"

#include "kv_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUERY_TILE = 64, /* queries that share a tile of keys, at most: of a group's heads and a few tokens */
    STORE_TILE = 32, /* tokens that a worker puts into the cache: 32 F16 of a dimension fill a cache line */
};

/* One worker's scratch: a tile of queries against a tile of keys. */
typedef struct Tile {
    float *q;      /* [rows][d_head] scaled by 1/√d_head */
    float *z;      /* [rows][d_head] Σ exp(score − max)·v so far */
    float *scores; /* [rows][KEY_TILE] */
    float *max;    /* [rows] of the scores so far */
    float *sum;    /* [rows] Σ exp(score − max) so far */
} Tile;

struct Attention {
    AttentionShape shape;
    Compute compute;
    size_t n_chunk;
    size_t position, n; /* of the chunk under way */
    size_t tile_rows;   /* queries in a query tile */
    KvCache cache;      /* of n_layer·n_head_kv heads */

    float *q;       /* [n_chunk][n_head][d_head] */
    float *k, *v;   /* [n_chunk][n_head_kv][d_head] */
    float *z;       /* [n_chunk][n_head][d_head] */
    float *cos_sin; /* [n_chunk][rope_dim/2][2] cos and sin of each pair's angle */
    float *row;     /* [n_ctx, in whole tiles of keys] scores of one query that a probe watches */
    float *tiles;   /* [n_threads][tile_rows][row_floats] */
};

size_t attention_kv_bytes(const AttentionShape *shape, DType kv_dtype) {
    return 2 * shape->n_layer * shape->n_head_kv * kv_bytes(kv_dtype, shape->d_head);
}

/* Queries for each token that share a kv head. */
static size_t group_of(const AttentionShape *shape) { return shape->n_head / shape->n_head_kv; }

/* What a query has in a tile: q, z, its scores, their max and sum. */
static size_t row_floats(const AttentionShape *shape) { return 2 * shape->d_head + KEY_TILE + 2; }

/* Queries in a tile: of whole tokens, if those of one are no more than a tile holds; 0: not one fits. */
static size_t tile_rows(const AttentionShape *shape) {
    size_t group = group_of(shape), most = ATTENTION_TILE_BYTES / sizeof(float) / row_floats(shape);
    if (most > QUERY_TILE) most = QUERY_TILE;
    return group < most ? most / group * group : most;
}

size_t attention_tile_bytes(const AttentionShape *shape) {
    return tile_rows(shape) * row_floats(shape) * sizeof(float);
}

Attention *attention_new(const AttentionShape *shape, size_t n_ctx, DType kv_dtype, size_t n_chunk,
                         const Compute *compute, Error *error) {
    Attention *attention = calloc(1, sizeof *attention);
    if (!attention) goto no_memory;
    size_t d_head = shape->d_head;
    *attention = (Attention){.shape = *shape, .compute = *compute, .n_chunk = n_chunk};
    if (!kv_cache_open(&attention->cache, kv_dtype, shape->n_layer * shape->n_head_kv, d_head, n_ctx,
                       compute->kernels, error))
        goto fail;
    attention->tile_rows = tile_rows(shape);
    attention->q = floats_new(n_chunk, shape->n_head * d_head);
    attention->k = floats_new(n_chunk, shape->n_head_kv * d_head);
    attention->v = floats_new(n_chunk, shape->n_head_kv * d_head);
    attention->z = floats_new(n_chunk, shape->n_head * d_head);
    attention->cos_sin = floats_new(n_chunk, shape->rope_dim);
    attention->row = floats_new(1, attention->cache.n_room);
    attention->tiles = floats_new(threads_count(compute->threads), attention->tile_rows * row_floats(shape));
    if (!attention->q || !attention->k || !attention->v || !attention->z || !attention->cos_sin ||
        !attention->row || !attention->tiles)
        goto no_memory;
    return attention;
no_memory:
    error_set(error, "not enough memory for attention over %zu positions; ask for a smaller context", n_ctx);
fail:
    attention_free(attention);
    return NULL;
}

void attention_free(Attention *attention) {
    if (!attention) return;
    kv_cache_close(&attention->cache);
    free(attention->q);
    free(attention->k);
    free(attention->v);
    free(attention->z);
    free(attention->cos_sin);
    free(attention->row);
    free(attention->tiles);
    free(attention);
}

/* Which of the cache's heads a layer's kv head is. */
static size_t cached_head(const Attention *attention, size_t layer, size_t kv_head) {
    return layer * attention->shape.n_head_kv + kv_head;
}

/* Whether so few tokens are under way that each must have the bits that it has alone. */
static bool is_few(const Attention *attention) { return attention->n <= PACKED_TOKENS; }

/* RoPE turns pair i of a token at position p by p·freq_i; one table serves all heads and layers. */
void attention_begin(Attention *attention, size_t position, size_t n) {
    size_t n_pairs = attention->shape.rope_dim / 2;
    attention->position = position;
    attention->n = n;
    if (attention->shape.rope == ROPE_NONE) return;
    float *cos_sin = attention->cos_sin;
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < n_pairs; i++) {
            double angle = (double)(position + t) * attention->shape.rope_freq[i];
            *cos_sin++ = (float)cos(angle);
            *cos_sin++ = (float)sin(angle);
        }
}

/* Turns one head's q or k [d_head] in place: (a, b) → (a cos − b sin, a sin + b cos) for each pair. */
static void rotate(const AttentionShape *shape, float *x, const float *cos_sin) {
    size_t n_pairs = shape->rope_dim / 2;
    size_t step = shape->rope == ROPE_NEIGHBOURS ? 2 : 1,
           apart = shape->rope == ROPE_NEIGHBOURS ? 1 : n_pairs;
    for (size_t i = 0; i < n_pairs; i++) {
        float *a = x + i * step, *b = a + apart, c = cos_sin[2 * i], s = cos_sin[2 * i + 1], before = *a;
        *a = before * c - *b * s;
        *b = before * s + *b * c;
    }
}

/* The context of one layer's loops over the chunk. */
typedef struct LayerLoop {
    Attention *attention;
    size_t layer;
} LayerLoop;

/* Rotates q and k of tokens [begin, end) of the chunk, and writes k and v to the cache. */
static void rotate_and_store(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LayerLoop *loop = context;
    const Attention *attention = loop->attention;
    const AttentionShape *shape = &attention->shape;
    size_t d_head = shape->d_head;
    for (size_t t = begin; t < end; t++) {
        float *q = attention->q + t * shape->n_head * d_head;
        float *k = attention->k + t * shape->n_head_kv * d_head;
        if (shape->rope != ROPE_NONE) {
            const float *cos_sin = attention->cos_sin + t * (shape->rope_dim / 2) * 2;
            for (size_t h = 0; h < shape->n_head; h++) rotate(shape, q + h * d_head, cos_sin);
            for (size_t h = 0; h < shape->n_head_kv; h++) rotate(shape, k + h * d_head, cos_sin);
        }
    }
    for (size_t h = 0, at = begin * shape->n_head_kv * d_head; h < shape->n_head_kv; h++, at += d_head)
        kv_store(&attention->cache, cached_head(attention, loop->layer, h), attention->position + begin,
                 attention->k + at, attention->v + at, shape->n_head_kv * d_head, end - begin);
}

static Tile worker_tile(const Attention *attention, unsigned worker) {
    size_t rows = attention->tile_rows, d_head = attention->shape.d_head;
    float *at = attention->tiles + worker * rows * row_floats(&attention->shape);
    Tile tile = {.q = at, .z = at + rows * d_head};
    tile.scores = tile.z + rows * d_head;
    tile.max = tile.scores + rows * KEY_TILE;
    tile.sum = tile.max + rows;
    return tile;
}

/*
 * Computes a head that a probe watches by the formula, query by query. Its z replaces that of attend_tile,
 * so the forward pass goes on with what the probe saw, or wrote.
 */
static void attend_watched(const Attention *attention, size_t layer, size_t head, const Probe *probe) {
    const AttentionShape *shape = &attention->shape;
    const Kernels *kernels = attention->compute.kernels;
    size_t d_head = shape->d_head, kv_head = head / group_of(shape);
    size_t cached = cached_head(attention, layer, kv_head);
    float *row = attention->row, scale = 1.0f / sqrtf((float)d_head);
    Tile tile = worker_tile(attention, 0);
    bool see_scores = probe->wants(probe->user, PROBE_SCORES, layer, head);
    bool see_pattern = probe->wants(probe->user, PROBE_PATTERN, layer, head);
    if (!see_scores && !see_pattern) return;

    for (size_t t = 0; t < attention->n; t++) {
        size_t position = attention->position + t, n_keys = position + 1;
        const float *q = attention->q + (t * shape->n_head + head) * d_head;
        float *z = attention->z + (t * shape->n_head + head) * d_head;
        Activation seen = {PROBE_SCORES, layer, head, position, 1, n_keys, n_keys, row};

        for (size_t i = 0; i < d_head; i++) tile.q[i] = q[i] * scale;
        for (size_t key = 0; key < n_keys; key += KEY_TILE)
            kv_scores(&attention->cache, cached, key, tile.q, 1, is_few(attention), row + key);
        if (see_scores) probe->visit(probe->user, &seen);
        float sum = kernels->exp_sum(row, kernels->max(row, n_keys), n_keys);
        kernels->scale(row, 1.0f / sum, n_keys);
        seen.site = PROBE_PATTERN;
        if (see_pattern) probe->visit(probe->user, &seen);

        memset(z, 0, d_head * sizeof *z);
        for (size_t key = 0; key < n_keys; key += KEY_TILE) {
            size_t n = n_keys - key < KEY_TILE ? n_keys - key : KEY_TILE;
            kv_add_values(&attention->cache, cached, key, n, row + key, 1, is_few(attention), z);
        }
    }
}

/*
 * Turns one query's scores of the next tile of keys into weights exp(score − max) and adds them to its running
 * softmax. The query sees the first `visible` keys; the others get weight 0. When the maximum grows, z and the
 * sum so far are rescaled first.
 */
static void softmax_update(const Kernels *kernels, const Tile *tile, size_t row, size_t visible,
                           size_t d_head) {
    float *scores = tile->scores + row * KEY_TILE;
    memset(scores + visible, 0, (KEY_TILE - visible) * sizeof *scores);
    if (visible == 0) return;
    float max = kernels->max(scores, visible);
    if (max > tile->max[row]) {
        float shrink = expf(tile->max[row] - max); /* 0 at the first tile, whose max was −∞ */
        kernels->scale(tile->z + row * d_head, shrink, d_head);
        tile->sum[row] *= shrink;
        tile->max[row] = max;
    }
    tile->sum[row] += kernels->exp_sum(scores, tile->max[row], visible);
}

/* Where in q and z, [n_chunk][n_head][d_head], query `row` of a kv head lies: head row mod group of token row / group. */
static size_t query_at(const AttentionShape *shape, size_t kv_head, size_t row) {
    size_t group = group_of(shape), token = row / group, head = kv_head * group + row % group;
    return (token * shape->n_head + head) * shape->d_head;
}

/* Attention of the queries [first, first + n_rows) of a kv head, those of the chunk's first token first. */
static void attend_tile(const Attention *attention, size_t layer, size_t kv_head, size_t first, size_t n_rows,
                        const Tile *tile) {
    const AttentionShape *shape = &attention->shape;
    const Kernels *kernels = attention->compute.kernels;
    const KvCache *cache = &attention->cache;
    const bool few = is_few(attention);
    size_t d_head = shape->d_head, group = group_of(shape), cached = cached_head(attention, layer, kv_head);
    size_t n_keys = attention->position + (first + n_rows - 1) / group + 1;
    float scale = 1.0f / sqrtf((float)d_head);

    for (size_t row = 0; row < n_rows; row++) {
        const float *q = attention->q + query_at(shape, kv_head, first + row);
        for (size_t i = 0; i < d_head; i++) tile->q[row * d_head + i] = q[i] * scale;
        tile->max[row] = -INFINITY;
        tile->sum[row] = 0;
    }
    memset(tile->z, 0, n_rows * d_head * sizeof *tile->z);

    for (size_t key = 0; key < n_keys; key += KEY_TILE) {
        size_t n = n_keys - key < KEY_TILE ? n_keys - key : KEY_TILE;
        kv_scores(cache, cached, key, tile->q, n_rows, few, tile->scores);
        for (size_t row = 0; row < n_rows; row++) {
            size_t seen = attention->position + (first + row) / group + 1; /* the causal mask */
            size_t visible = seen <= key ? 0 : seen - key < n ? seen - key : n;
            softmax_update(kernels, tile, row, visible, d_head);
        }
        kv_add_values(cache, cached, key, n, tile->scores, n_rows, few, tile->z);
    }
    for (size_t row = 0; row < n_rows; row++) {
        float *z = attention->z + query_at(shape, kv_head, first + row);
        for (size_t i = 0; i < d_head; i++) z[i] = tile->z[row * d_head + i] / tile->sum[row];
    }
}

/* Query tiles of a kv head in the chunk. */
static size_t query_tiles(const Attention *attention) {
    return (attention->n * group_of(&attention->shape) + attention->tile_rows - 1) / attention->tile_rows;
}

/* Piece p of the loop is query tile p mod query_tiles of kv head p / query_tiles. */
static void attend_tiles(void *context, size_t begin, size_t end, unsigned worker) {
    const LayerLoop *loop = context;
    const Attention *attention = loop->attention;
    size_t n_rows = attention->n * group_of(&attention->shape), n_tiles = query_tiles(attention);
    Tile tile = worker_tile(attention, worker);
    for (size_t piece = begin; piece < end; piece++) {
        size_t first = piece % n_tiles * attention->tile_rows, left = n_rows - first;
        attend_tile(attention, loop->layer, piece / n_tiles, first,
                    left < attention->tile_rows ? left : attention->tile_rows, &tile);
    }
}

void attention_forward(Attention *attention, const AttentionWeights *weights, size_t layer, const float *x,
                       float *out, const Probe *probe) {
    const AttentionShape *shape = &attention->shape;
    const Compute *compute = &attention->compute;
    size_t n = attention->n, position = attention->position;
    LayerLoop loop = {attention, layer};

    const LinearOutput qkv[] = {
        {attention->q, &weights->q}, {attention->k, &weights->k}, {attention->v, &weights->v}};
    linear_forward(compute, qkv, 3, x, n);
    probe_heads(probe, PROBE_Q, layer, position, attention->q, n, shape->n_head, shape->d_head);
    probe_heads(probe, PROBE_K, layer, position, attention->k, n, shape->n_head_kv, shape->d_head);
    probe_heads(probe, PROBE_V, layer, position, attention->v, n, shape->n_head_kv, shape->d_head);

    parallel_for(compute->threads, n, STORE_TILE, rotate_and_store, &loop);
    parallel_for(compute->threads, shape->n_head_kv * query_tiles(attention), 1, attend_tiles, &loop);
    for (size_t head = 0; probe && head < shape->n_head; head++)
        attend_watched(attention, layer, head, probe);
    probe_heads(probe, PROBE_Z, layer, position, attention->z, n, shape->n_head, shape->d_head);

    linear_forward(compute, &(LinearOutput){out, &weights->out}, 1, attention->z, n);
}
