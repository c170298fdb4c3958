/*
 * The heart. For head h and the token at position i, over the keys and values cached so far:
 *
 *   q_i = W_q x_i    k_j = W_k x_j    v_j = W_v x_j     (RoPE turns q_i and k_j by their positions)
 *   score_ij   = q_i · k_j / √d_head                    for j ≤ i; the causal mask hides j > i, a window j ≤ i − window
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

#include "layers/results.h"

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
    float *room;   /* [kv_room_floats] for keys or values that are put together */
} Tile;

/* A layer's numbers for a chunk's tokens, row by row, and the workers' tiles. */
typedef struct Scratch {
    float *q;       /* [n_chunk][n_head][d_head]; room for twice of it where W_q makes gates, too */
    float *gate;    /* [n_chunk][n_head][d_head], or NULL */
    float *k, *v;   /* [n_chunk][n_head_kv][d_head] */
    float *z;       /* [n_chunk][n_head][d_head] */
    float *row;     /* [n_ctx, in whole tiles of keys] scores of one query that a probe watches */
    float *results; /* [results_floats] */
    float *tiles;   /* [n_threads][worker_floats] */
} Scratch;

struct Attention {
    AttentionShape shape;
    Caches *caches;
    Compute compute;
    size_t n_ctx, n_chunk;
    size_t position, n; /* of the chunk under way */
    Attention *next;    /* whose rows come behind those of this one in it, or NULL */
    size_t tile_rows;   /* queries in a query tile */
    float scale;        /* of q·k */

    Scratch own;            /* all NULL where it works in another's */
    const Scratch *scratch; /* its own, or that one */
    Scratch at;             /* where its rows of the chunk under way lie, maybe behind those of another */
    float **cos_sin;        /* [n_ropes] each [n_chunk][dim/2][2]: cos and sin of each pair's angle */
};

/* The context of one layer's loops over the chunk of a text, or of all that go with it. */
typedef struct LayerLoop {
    const Attention *attention;
    const AttentionWeights *weights;
    size_t layer;
    bool rotates, stores; /* of prepare_tiles */
} LayerLoop;

/* Queries for each token that share a kv head. */
static size_t group_of(const AttentionShape *shape) { return shape->n_head / shape->n_head_kv; }

/* Whether so few tokens are under way that each must have the bits that it has alone. */
static bool is_few(const Attention *attention) { return attention->n <= PACKED_TOKENS; }

/* A query's part of a tile: q, z, its scores, their max and sum. */
static size_t row_floats(const AttentionShape *shape) { return 2 * shape->d_head + KEY_TILE + 2; }

/* Queries in a tile: of whole tokens, if those of one are no more than a tile holds; 0: not one fits. */
static size_t tile_rows(const AttentionShape *shape) {
    size_t group = group_of(shape), most = ATTENTION_TILE_BYTES / sizeof(float) / row_floats(shape);
    if (most > QUERY_TILE) most = QUERY_TILE;
    return group < most ? most / group * group : most;
}

/* A tile of queries, and one of keys or values. */
static size_t worker_floats(const AttentionShape *shape) {
    size_t n = tile_rows(shape) * row_floats(shape);
    return n ? n + kv_room_floats(shape->d_head) : 0;
}

size_t attention_tile_bytes(const AttentionShape *shape) { return worker_floats(shape) * sizeof(float); }

static Tile worker_tile(const Attention *attention, unsigned worker) {
    size_t rows = attention->tile_rows, d_head = attention->shape.d_head;
    float *room = attention->at.tiles + worker * worker_floats(&attention->shape),
          *at = room + kv_room_floats(d_head);
    Tile tile = {.room = room, .q = at, .z = at + rows * d_head};
    tile.scores = tile.z + rows * d_head;
    tile.max = tile.scores + rows * KEY_TILE;
    tile.sum = tile.max + rows;
    return tile;
}

void attention_bend(const Kernels *kernels, const AttentionShape *shape, size_t head, size_t position,
                    size_t key, size_t n, float *scores) {
    if (shape->score_cap != 0) kernels->soft_cap(scores, shape->score_cap, n);
    for (size_t i = 0; shape->slopes && i < n; i++)
        scores[i] += shape->slopes[head] * ((float)(key + i) - (float)position);
}

void attention_softmax(const Kernels *kernels, const float *sinks, size_t head, size_t n, float *row) {
    float max = kernels->max(row, n), sink = sinks ? sinks[head] : -INFINITY;
    if (max < sink) max = sink;
    float sum = kernels->exp_sum(row, max, n) + expf(sink - max);
    kernels->scale(row, 1.0f / sum, n);
}

/* The first key that the query at `position` sees in this layer. */
static size_t first_seen(const Attention *attention, size_t layer, size_t position) {
    size_t window = attention->shape.layers[layer].window;
    return window && position >= window ? position + 1 - window : 0;
}

/*
 * Computes a head that a probe watches by the formula, query by query. Its z replaces that of attend_tile,
 * so the forward pass goes on with what the probe saw, or wrote.
 */
static void attend_watched(const LayerLoop *loop, size_t head, const Probe *probe) {
    const Attention *attention = loop->attention;
    const AttentionShape *shape = &attention->shape;
    const Kernels *kernels = attention->compute.kernels;
    const CachePlace place = attention->caches->places[loop->layer];
    const KvCache *cache = place.cache;
    size_t d_head = shape->d_head, cached = place.head + head / group_of(shape);
    float *row = attention->at.row;
    Tile tile = worker_tile(attention, 0);
    bool see_scores = probe->wants(probe->user, PROBE_SCORES, loop->layer, head);
    bool see_pattern = probe->wants(probe->user, PROBE_PATTERN, loop->layer, head);
    if (!see_scores && !see_pattern) return;

    for (size_t t = 0; t < attention->n; t++) {
        size_t position = attention->position + t, n_keys = position + 1;
        size_t hidden = first_seen(attention, loop->layer, position), first = hidden / KEY_TILE * KEY_TILE;
        if (cache == &attention->caches->whole)
            first = 0; /* the probe may give weight to what the window hides */
        const float *q = attention->at.q + (t * shape->n_head + head) * d_head;
        float *z = attention->at.z + (t * shape->n_head + head) * d_head;
        Activation seen = {PROBE_SCORES, loop->layer, head, position, 1, n_keys, n_keys, row};

        /* score_ij = q_i · k_j / √d_head */
        for (size_t i = 0; i < d_head; i++) tile.q[i] = q[i] * attention->scale;
        for (size_t key = first; key < n_keys; key += KEY_TILE)
            kv_scores(cache, cached, key, tile.q, 1, is_few(attention), tile.room, row + key);
        attention_bend(kernels, shape, head, position, first, n_keys - first, row + first);
        for (size_t key = 0; key < hidden; key++) row[key] = -INFINITY;
        if (see_scores) probe->visit(probe->user, &seen);

        /* pattern_ij = exp(score_ij) / Σ_j' exp(score_ij') */
        attention_softmax(kernels, loop->weights->sinks, head, n_keys, row);
        seen.site = PROBE_PATTERN;
        if (see_pattern) probe->visit(probe->user, &seen);

        /* z_i = Σ_j pattern_ij v_j */
        memset(z, 0, d_head * sizeof *z);
        for (size_t key = first; key < n_keys; key += KEY_TILE) {
            size_t n = n_keys - key < KEY_TILE ? n_keys - key : KEY_TILE;
            kv_add_values(cache, cached, key, n, row + key, 1, is_few(attention), tile.room, z);
        }
    }
}

/*
 * Turns one query's scores of the next tile of keys into weights exp(score − max) and adds them to its running
 * softmax. The query sees the keys [begin, end) of the tile; the others get weight 0. When the maximum grows, z and the
 * sum so far are rescaled first.
 */
static void softmax_update(const Kernels *kernels, const Tile *tile, size_t row, size_t begin, size_t end,
                           size_t d_head) {
    float *scores = tile->scores + row * KEY_TILE;
    memset(scores, 0, begin * sizeof *scores);
    memset(scores + end, 0, (KEY_TILE - end) * sizeof *scores);
    if (begin == end) return;
    if (kernels->softmax_step) {
        float shrink = kernels->softmax_step(scores + begin, end - begin, &tile->max[row], &tile->sum[row]);
        if (shrink != 1) kernels->scale(tile->z + row * d_head, shrink, d_head);
        return;
    }
    float max = kernels->max(scores + begin, end - begin);
    if (max > tile->max[row]) {
        float shrink = expf(tile->max[row] - max); /* 0 at the first tile, whose max was −∞ */
        kernels->scale(tile->z + row * d_head, shrink, d_head);
        tile->sum[row] *= shrink;
        tile->max[row] = max;
    }
    tile->sum[row] += kernels->exp_sum(scores + begin, tile->max[row], end - begin);
}

/* The part of a tile's keys, which begin at `key`, that come before position `end`. */
static size_t within_tile(size_t end, size_t key) {
    return end <= key ? 0 : end - key < KEY_TILE ? end - key : KEY_TILE;
}

/*
 * Where in q and z, [n_chunk][n_head][d_head], query `row` of a kv head lies: head row mod group of token row / group.
 */
static size_t query_at(const AttentionShape *shape, size_t kv_head, size_t row) {
    size_t group = group_of(shape), token = row / group, head = kv_head * group + row % group;
    return (token * shape->n_head + head) * shape->d_head;
}

/* Attention of the queries [first, first + n_rows) of a kv head, those of the chunk's first token first. */
static void attend_tile(const LayerLoop *loop, size_t kv_head, size_t first, size_t n_rows,
                        const Tile *tile) {
    const Attention *attention = loop->attention;
    const AttentionShape *shape = &attention->shape;
    const CachePlace place = attention->caches->places[loop->layer];
    const bool few = is_few(attention), bends = shape->score_cap != 0 || shape->slopes;
    const float *sinks = loop->weights->sinks;
    size_t d_head = shape->d_head, group = group_of(shape), cached = place.head + kv_head;
    size_t n_keys = attention->position + (first + n_rows - 1) / group + 1;
    size_t first_key = first_seen(attention, loop->layer, attention->position + first / group);

    for (size_t row = 0; row < n_rows; row++) {
        const float *q = attention->at.q + query_at(shape, kv_head, first + row);
        for (size_t i = 0; i < d_head; i++) tile->q[row * d_head + i] = q[i] * attention->scale;
        tile->max[row] = sinks ? sinks[kv_head * group + (first + row) % group] : -INFINITY;
        tile->sum[row] = sinks ? 1 : 0; /* exp(sink − max) */
    }
    memset(tile->z, 0, n_rows * d_head * sizeof *tile->z);

    for (size_t key = first_key / KEY_TILE * KEY_TILE; key < n_keys; key += KEY_TILE) {
        kv_scores(place.cache, cached, key, tile->q, n_rows, few, tile->room, tile->scores);
        for (size_t row = 0; row < n_rows; row++) {
            size_t position = attention->position + (first + row) / group;
            size_t end = within_tile(position + 1, key); /* the causal mask */
            size_t begin = within_tile(first_seen(attention, loop->layer, position), key);
            if (bends)
                attention_bend(attention->compute.kernels, shape, kv_head * group + (first + row) % group,
                               position, key, end, tile->scores + row * KEY_TILE);
            softmax_update(place.cache->kernels, tile, row, begin, end, d_head);
        }
        kv_add_values(place.cache, cached, key, within_tile(n_keys, key), tile->scores, n_rows, few,
                      tile->room, tile->z);
    }
    for (size_t row = 0; row < n_rows; row++) {
        float *z = attention->at.z + query_at(shape, kv_head, first + row);
        for (size_t i = 0; i < d_head; i++) z[i] = tile->z[row * d_head + i] / tile->sum[row];
    }
}

/*
 * The texts' pieces stand in a row, of each as many as `pieces` says. Gives the loop of the text that has this one; *piece
 * becomes its number among that text's own.
 */
static LayerLoop own_loop(const LayerLoop *all, size_t *piece, size_t (*pieces)(const Attention *attention)) {
    LayerLoop loop = *all;
    for (size_t n; *piece >= (n = pieces(loop.attention)); *piece -= n) loop.attention = loop.attention->next;
    return loop;
}

static size_t count_pieces(const Attention *first, size_t (*pieces)(const Attention *attention)) {
    size_t n = 0;
    for (const Attention *text = first; text; text = text->next) n += pieces(text);
    return n;
}

/* Query tiles of a kv head in the chunk. */
static size_t query_tiles(const Attention *attention) {
    return (attention->n * group_of(&attention->shape) + attention->tile_rows - 1) / attention->tile_rows;
}

static size_t attend_pieces(const Attention *attention) {
    return attention->shape.n_head_kv * query_tiles(attention);
}

/* Piece p of a text is query tile p mod query_tiles of kv head p / query_tiles. */
static void attend_tiles(void *context, size_t begin, size_t end, unsigned worker) {
    const LayerLoop *all = context;
    Tile tile = worker_tile(all->attention, worker);
    for (; begin < end; begin++) {
        size_t piece = begin;
        const LayerLoop loop = own_loop(all, &piece, attend_pieces);
        const Attention *attention = loop.attention;
        size_t n_rows = attention->n * group_of(&attention->shape), n_tiles = query_tiles(attention);
        size_t first = piece % n_tiles * attention->tile_rows, left = n_rows - first;
        attend_tile(&loop, piece / n_tiles, first, left < attention->tile_rows ? left : attention->tile_rows,
                    &tile);
    }
}

void attention_norm_and_cut(const Kernels *kernels, const AttentionShape *shape, const Norm *norm, float *row,
                            size_t d) {
    if (norm->gain) norm_row(kernels, norm, row, row, d);
    if (shape->clamp != 0 && shape->clamp_normed) clamp(row, d, shape->clamp);
}

/* Norms and rotates q and k of tokens [begin, end) of the chunk. */
static void rotate(const LayerLoop *loop, size_t begin, size_t end) {
    const Attention *attention = loop->attention;
    const AttentionShape *shape = &attention->shape;
    const Kernels *kernels = attention->compute.kernels;
    const Rope *rope = shape->layers[loop->layer].rope;
    size_t d_head = shape->d_head, d_q = shape->n_head * d_head, d_kv = shape->n_head_kv * d_head;
    for (size_t t = begin; t < end; t++) {
        float *q = attention->at.q + t * d_q, *k = attention->at.k + t * d_kv;
        attention_norm_and_cut(kernels, shape, &loop->weights->q_norm, q, d_q);
        attention_norm_and_cut(kernels, shape, &loop->weights->k_norm, k, d_kv);
        if (rope) {
            const float *cos_sin = attention->cos_sin[rope - shape->ropes] + t * rope->dim;
            for (size_t h = 0; h < shape->n_head; h++) rope_rotate(rope, q + h * d_head, cos_sin);
            for (size_t h = 0; h < shape->n_head_kv; h++) rope_rotate(rope, k + h * d_head, cos_sin);
        }
    }
}

/* Writes their k and v to the cache. */
static void store(const LayerLoop *loop, size_t begin, size_t end) {
    const Attention *attention = loop->attention;
    const AttentionShape *shape = &attention->shape;
    const CachePlace place = attention->caches->places[loop->layer];
    size_t d_head = shape->d_head, d_kv = shape->n_head_kv * d_head;
    for (size_t h = 0, at = begin * d_kv; h < shape->n_head_kv; h++, at += d_head)
        kv_store(place.cache, place.head + h, attention->position + begin, attention->at.k + at,
                 attention->at.v + at, d_kv, end - begin);
}

static size_t store_tiles(const Attention *attention) { return (attention->n + STORE_TILE - 1) / STORE_TILE; }

/* Piece p of the loop is a store tile: its tokens are rotated, then stored, or but one of both. */
static void prepare_tiles(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    for (; begin < end; begin++) {
        size_t tile = begin;
        const LayerLoop loop = own_loop(context, &tile, store_tiles);
        size_t first = tile * STORE_TILE, left = loop.attention->n - first;
        size_t last = first + (left < STORE_TILE ? left : STORE_TILE);
        if (loop.rotates) rotate(&loop, first, last);
        if (loop.stores) store(&loop, first, last);
    }
}

/* Moves the gates behind the queries of n tokens' heads to where they belong, and the queries together. */
static void part_gates(Attention *attention, size_t n) {
    size_t d_head = attention->shape.d_head;
    for (size_t i = 0; i < n * attention->shape.n_head; i++) {
        const float *q = attention->at.q + 2 * i * d_head;
        memcpy(attention->at.gate + i * d_head, q + d_head, d_head * sizeof *q);
        memmove(attention->at.q + i * d_head, q, d_head * sizeof *q);
    }
}

void attention_forward(Attention *attention, const AttentionWeights *weights, size_t layer, const float *x,
                       float *out, const Probe *probe) {
    const AttentionShape *shape = &attention->shape;
    const Compute *compute = &attention->compute;
    size_t n = 0, position = attention->position;
    for (const Attention *text = attention; text; text = text->next) n += text->n;
    LayerLoop loop = {attention, weights, layer, true, true};

    const LinearOutput qkv[] = {
        {attention->at.q, &weights->q}, {attention->at.k, &weights->k}, {attention->at.v, &weights->v}};
    linear_forward(compute, qkv, 3, x, n);
    if (shape->gated) part_gates(attention, n);
    if (shape->clamp != 0)
        for (size_t i = shape->clamp_normed ? 2 : 0; i < 3; i++)
            clamp(qkv[i].y, n * qkv[i].linear->w.rows, shape->clamp);
    probe_heads(probe, PROBE_Q, layer, position, attention->at.q, n, shape->n_head, shape->d_head);
    probe_heads(probe, PROBE_K, layer, position, attention->at.k, n, shape->n_head_kv, shape->d_head);
    probe_heads(probe, PROBE_V, layer, position, attention->at.v, n, shape->n_head_kv, shape->d_head);

    const bool shows = probe && shape->layers[layer].rope; /* what is rotated, before it is stored */
    loop.stores = !shows;
    parallel_for(compute->threads, count_pieces(attention, store_tiles), 1, prepare_tiles, &loop);
    if (shows) {
        probe_heads(probe, PROBE_ROT_Q, layer, position, attention->at.q, n, shape->n_head, shape->d_head);
        probe_heads(probe, PROBE_ROT_K, layer, position, attention->at.k, n, shape->n_head_kv, shape->d_head);
        loop.rotates = false, loop.stores = true;
        parallel_for(compute->threads, count_pieces(attention, store_tiles), 1, prepare_tiles, &loop);
    }
    parallel_for(compute->threads, count_pieces(attention, attend_pieces), 1, attend_tiles, &loop);
    for (size_t head = 0; probe && head < shape->n_head; head++) attend_watched(&loop, head, probe);
    probe_heads(probe, PROBE_Z, layer, position, attention->at.z, n, shape->n_head, shape->d_head);

    for (size_t i = 0; shape->gated && i < n * shape->n_head * shape->d_head; i++)
        attention->at.z[i] /= 1 + expf(-attention->at.gate[i]);
    const Results results = {
        compute,         &weights->out,        layer, position, n, shape->n_head, attention->at.z,
        attention->at.q, attention->at.results};
    if (!probe || !results_forward(&results, probe, out))
        linear_forward(compute, &(LinearOutput){out, &weights->out}, 1, attention->at.z, n);
}

size_t attention_kv_bytes(const AttentionShape *shape, DType kv_dtype) {
    size_t n = shape->n_layer;
    for (size_t layer = 0; shape->layers && layer < shape->n_layer; layer++) n -= shape->layers[layer].absent;
    return 2 * n * shape->n_head_kv * kv_bytes(kv_dtype, shape->d_head);
}

static bool make_scratch(Attention *attention, size_t n_room) {
    const AttentionShape *shape = &attention->shape;
    Scratch *own = &attention->own;
    size_t n_chunk = attention->n_chunk, d_head = shape->d_head, d_attn = shape->n_head * d_head;
    own->q = floats_new(n_chunk, (shape->gated ? 2 : 1) * d_attn);
    if (shape->gated) own->gate = floats_new(n_chunk, d_attn);
    own->k = floats_new(n_chunk, shape->n_head_kv * d_head);
    own->v = floats_new(n_chunk, shape->n_head_kv * d_head);
    own->z = floats_new(n_chunk, d_attn);
    own->row = floats_new(1, n_room);
    own->results = floats_new(1, results_floats(shape->d_model, d_attn));
    own->tiles = floats_new(threads_count(attention->compute.threads), worker_floats(shape));
    return own->q && own->k && own->v && own->z && own->row && own->results && own->tiles &&
           (own->gate || !shape->gated);
}

Attention *attention_new(const AttentionShape *shape, Caches *caches, size_t n_ctx, size_t n_chunk,
                         const Compute *compute, const Attention *beside, Error *error) {
    Attention *attention = calloc(1, sizeof *attention);
    if (!attention) goto no_memory;
    size_t d_head = shape->d_head, n_room = (n_ctx + KEY_TILE - 1) / KEY_TILE * KEY_TILE;
    *attention = (Attention){
        .shape = *shape, .caches = caches, .compute = *compute, .n_ctx = n_ctx, .n_chunk = n_chunk};
    attention->scale = shape->scale != 0 ? shape->scale : 1.0f / sqrtf((float)d_head);
    attention->tile_rows = tile_rows(shape);
    if (!beside && !make_scratch(attention, n_room)) goto no_memory;
    attention->scratch = beside ? beside->scratch : &attention->own;
    attention->cos_sin = calloc(shape->n_ropes + 1, sizeof *attention->cos_sin);
    if (!attention->cos_sin) goto no_memory;
    for (size_t i = 0; i < shape->n_ropes; i++) {
        attention->cos_sin[i] = floats_new(n_chunk, shape->ropes[i].dim);
        if (!attention->cos_sin[i]) goto no_memory;
    }
    return attention;
no_memory:
    error_set(error, "not enough memory for attention over %zu positions; ask for a smaller context", n_ctx);
    attention_free(attention);
    return NULL;
}

void attention_free(Attention *attention) {
    if (!attention) return;
    for (size_t i = 0; attention->cos_sin && i < attention->shape.n_ropes; i++) free(attention->cos_sin[i]);
    free(attention->cos_sin);
    free(attention->own.q);
    free(attention->own.gate);
    free(attention->own.k);
    free(attention->own.v);
    free(attention->own.z);
    free(attention->own.row);
    free(attention->own.results);
    free(attention->own.tiles);
    free(attention);
}

/* Where the rows lie that come behind n of them. */
static Scratch behind(const Scratch *at, const AttentionShape *shape, size_t n) {
    Scratch next = *at;
    size_t d_attn = shape->n_head * shape->d_head, d_kv = shape->n_head_kv * shape->d_head;
    next.q += n * d_attn;
    next.k += n * d_kv;
    next.v += n * d_kv;
    next.z += n * d_attn;
    return next;
}

/* One table of angles serves all heads, and all layers that turn alike. */
void attention_begin(Attention *attention, size_t position, size_t n, Attention *before) {
    const AttentionShape *shape = &attention->shape;
    attention->position = position;
    attention->n = n;
    attention->next = NULL;
    attention->at = before ? behind(&before->at, shape, before->n) : *attention->scratch;
    if (before) before->next = attention;
    caches_begin(attention->caches, position, n);
    for (size_t i = 0; i < shape->n_ropes; i++)
        for (size_t t = 0; t < n; t++)
            rope_angles(&shape->ropes[i], attention->n_ctx, position + t,
                        attention->cos_sin[i] + t * shape->ropes[i].dim);
}
