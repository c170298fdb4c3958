/*
 * Multi-head causal attention with a KV cache (Vaswani et al. 2017, arXiv:1706.03762), grouped-query
 * heads (Ainslie et al. 2023, arXiv:2305.13245), rotary positions (Su et al. 2021, arXiv:2104.09864).
 */
#ifndef ATTN_ATTENTION_H
#define ATTN_ATTENTION_H

#include "error.h"
#include "kernels/kernels.h"
#include "probe.h"

#include <stdbool.h>
#include <stddef.h>

/* Which two dimensions of a head RoPE rotates together. */
typedef enum RopePairing {
    ROPE_NONE,
    ROPE_NEIGHBOURS, /* (2i, 2i + 1): GGUF's llama, llama2.c, the paper */
    ROPE_HALVES,     /* (i, i + rope_dim/2): GPT-NeoX, Hugging Face */
} RopePairing;

typedef struct AttentionShape {
    size_t n_layer, n_head, n_head_kv, d_model, d_head;
    RopePairing rope;
    size_t rope_dim;         /* dimensions of a head that rotate: the first rope_dim */
    const double *rope_freq; /* [rope_dim/2] radians a position for each pair; borrowed */
} AttentionShape;

/* Weights of one layer; w is [rows = outputs][cols = inputs]. */
typedef struct AttentionWeights {
    Linear q;   /* [n_head·d_head][d_model] */
    Linear k;   /* [n_head_kv·d_head][d_model] */
    Linear v;   /* [n_head_kv·d_head][d_model] */
    Linear out; /* [d_model][n_head·d_head] */
} AttentionWeights;

/* The KV cache and scratch of one session, which owns it. Two threads must not use it at once. */
typedef struct Attention Attention;

enum { ATTENTION_TILE_BYTES = 256 << 10 /* of scratch that a thread has at most, whatever the shape */ };

/*
 * Reserves a cache of n_ctx positions in kv_dtype (F32, F16 or Q8_0), whose pages are touched only as it fills, and
 * allocates scratch: for n_chunk tokens, and ATTENTION_TILE_BYTES or less for each thread. NULL with an error when memory
 * runs out. attention_free accepts NULL.
 */
Attention *attention_new(const AttentionShape *shape, size_t n_ctx, DType kv_dtype, size_t n_chunk,
                         const Compute *compute, Error *error);
void attention_free(Attention *attention);

/*
 * Bytes of scratch that a thread needs for a tile of queries and a tile of keys, however long the text is. 0: heads are so
 * wide that a query alone needs more than ATTENTION_TILE_BYTES; there is no attention_new of them.
 */
size_t attention_tile_bytes(const AttentionShape *shape);

/* Bytes of cache for one position in all layers. */
size_t attention_kv_bytes(const AttentionShape *shape, DType kv_dtype);

/*
 * Sets the tokens that the next calls of attention_forward are for: n ≤ n_chunk of them, at positions
 * position … position + n − 1. All earlier positions are in the cache already.
 */
void attention_begin(Attention *attention, size_t position, size_t n);

/*
 * One layer's attention for those tokens: x [n][d_model] (already normed) → out [n][d_model], which is
 * to be added to the residual stream. Their keys and values join the cache. Cannot fail.
 */
void attention_forward(Attention *attention, const AttentionWeights *weights, size_t layer, const float *x,
                       float *out, const Probe *probe);

#endif
