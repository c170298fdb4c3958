/*
 * Multi-head causal attention with a KV cache (Vaswani et al. 2017, arXiv:1706.03762), grouped-query
 * heads (Ainslie et al. 2023, arXiv:2305.13245), rotary positions (Su et al. 2021, arXiv:2104.09864).
 */
#ifndef ATTN_ATTENTION_H
#define ATTN_ATTENTION_H

#include "base/error.h"
#include "kernels/kernels.h"
#include "layers/attention_shape.h"
#include "layers/caches.h"
#include "layers/norm.h"
#include "probe.h"

#include <stddef.h>

/* Weights of one layer; w is [rows = outputs][cols = inputs]. */
typedef struct AttentionWeights {
    Linear q;            /* [n_head·d_head][d_model], twice the rows where it makes gates */
    Linear k;            /* [n_head_kv·d_head][d_model] */
    Linear v;            /* [n_head_kv·d_head][d_model] */
    Linear out;          /* [d_model][n_head·d_head] */
    Norm q_norm, k_norm; /* of all heads' queries and keys together, or of each; before RoPE */
    const float
        *sinks; /* [n_head] a score that takes part in each softmax and has no value (gpt-oss); or NULL */
} AttentionWeights;

/* The scratch of one session, which owns it. Two threads must not use it at once. */
typedef struct Attention Attention;

enum { ATTENTION_TILE_BYTES = 256 << 10 /* of scratch that a thread has at most, whatever the shape */ };

/*
 * Allocates scratch: for n_chunk tokens, for a row of n_ctx scores, and ATTENTION_TILE_BYTES or less for each thread. Keys
 * and values go to `caches`, borrowed and open for this shape, n_ctx and n_chunk. With `beside` (or NULL: another of the same
 * sizes, which outlives this one) the two share the scratch of that one, and must not be used at once. NULL with an error
 * when memory runs out. attention_free accepts NULL.
 */
Attention *attention_new(const AttentionShape *shape, Caches *caches, size_t n_ctx, size_t n_chunk,
                         const Compute *compute, const Attention *beside, Error *error);
void attention_free(Attention *attention);

/*
 * Bytes of scratch that a thread needs for a tile of queries and a tile of keys, however long the text is. 0: heads are so
 * wide that a query alone needs more than ATTENTION_TILE_BYTES; there is no attention_new of them.
 */
size_t attention_tile_bytes(const AttentionShape *shape);

/* Bytes of cache for one position in all layers, as long as no window is full. */
size_t attention_kv_bytes(const AttentionShape *shape, DType kv_dtype);

/*
 * Sets the tokens that the next calls of attention_forward are for: n ≤ n_chunk of them, at positions
 * position … position + n − 1. All earlier positions are in the cache already. With `before` (or NULL), another text whose
 * tokens have just been set, the two go together: these rows come behind those, in the scratch that the first text has, which
 * must have room for both.
 */
void attention_begin(Attention *attention, size_t position, size_t n, Attention *before);

/*
 * One layer's attention for those tokens, and those of the texts that go with them: x [n][d_model] (already normed) → out
 * [n][d_model], which is to be added to the residual stream, n being the tokens of all. Their keys and values join the
 * caches. Each token gets the bits that its text alone would give it, if all are at most kernels_company. Cannot fail. A
 * probe looks on where a text goes alone.
 */
void attention_forward(Attention *attention, const AttentionWeights *weights, size_t layer, const float *x,
                       float *out, const Probe *probe);

/*
 * Parts of the formula, for whoever works out attention in another way. The first norms and cuts a token's queries or keys, of
 * all heads, [d]: what RoPE then turns. The second changes a head's n scores beyond q·k, those of the keys from `key` on for the
 * query at `position`. The third makes a row of n scores the pattern, in which the head's sink takes part if there are sinks.
 */
void attention_norm_and_cut(const Kernels *kernels, const AttentionShape *shape, const Norm *norm, float *row,
                            size_t d);
void attention_bend(const Kernels *kernels, const AttentionShape *shape, size_t head, size_t position,
                    size_t key, size_t n, float *scores);
void attention_softmax(const Kernels *kernels, const float *sinks, size_t head, size_t n, float *row);

#endif
