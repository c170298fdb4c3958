/*
 * The way there through attention (attention_trace.c) and the way back (attention_back.c) share these; only the two read them.
 *
 * Scores of a few queries over all their keys lie in scratch as whole rows. Sums over keys take keys and values as they lie
 * for pattern·v and dS·k; for q·k and dz·v they take them turned, a row for each dimension, so that all six sums are
 * weighted sums of rows. Pieces of the work are kv heads, which share nothing; a watched head's are done one by one.
 */
#ifndef ATTN_ATTENTION_INNER_H
#define ATTN_ATTENTION_INNER_H

#include "gradients/attention_trace.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum { QUERIES = 32 /* of a head that are worked out together */ };

/* One worker's scratch; rows of keys are [QUERIES][n]. */
typedef struct AttentionScratch {
    float *q;       /* [QUERIES][d_head] scaled */
    float *scores;  /* kept where the way back needs them: capped, or watched */
    float *pattern; /* the pattern */
    float *back;    /* its gradient, then that of the scores */
    float *turned;  /* [n][QUERIES] one of the two, turned */
    float *row;     /* [the widest row of q or k] */
    float *normed;  /* likewise */
} AttentionScratch;

struct AttentionTrace {
    AttentionShape shape;
    Compute compute;
    const AttentionWeights *weights; /* of the layer under way */
    size_t layer, n, n_chunk;
    float scale;
    float **cos_sin;                      /* [n_ropes] each [n][dim/2][2] */
    const float *q_site, *k_site, *v, *z; /* [n][heads][d_head] as the probe sees them: saved, or … */
    float *own_q, *own_k, *own_v, *own_z; /* … made here */
    bool is_saved;
    float *q, *k; /* behind norms and RoPE: the same where there are none */
    float *gate;  /* [n][n_head][d_head], or NULL */
    float *dq, *dk, *dv, *dz, *dgate;
    float *k_turned, *v_turned; /* [n_head_kv][d_head][n] */
    float *rows;                /* [n_chunk][2·n_head·d_head] */
    float *scratch;             /* [workers][scratch_floats] */
};

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static inline size_t d_q(const AttentionTrace *trace) { return trace->shape.n_head * trace->shape.d_head; }
static inline size_t d_kv(const AttentionTrace *trace) {
    return trace->shape.n_head_kv * trace->shape.d_head;
}
static inline size_t group_of(const AttentionTrace *trace) {
    return trace->shape.n_head / trace->shape.n_head_kv;
}

static inline const Rope *layer_rope(const AttentionTrace *trace) {
    return trace->shape.layers[trace->layer].rope;
}

static inline size_t scratch_floats(const AttentionTrace *trace) {
    return QUERIES * trace->shape.d_head + 4 * QUERIES * trace->n + 2 * larger(d_q(trace), d_kv(trace));
}

static inline AttentionScratch worker_scratch(const AttentionTrace *trace, unsigned worker) {
    size_t keys = QUERIES * trace->n;
    AttentionScratch s = {.q = trace->scratch + worker * scratch_floats(trace)};
    s.scores = s.q + QUERIES * trace->shape.d_head;
    s.pattern = s.scores + keys;
    s.back = s.pattern + keys;
    s.turned = s.back + keys;
    s.row = s.turned + keys;
    s.normed = s.row + larger(d_q(trace), d_kv(trace));
    return s;
}

static inline void rotate_row(const AttentionTrace *trace, const Rope *rope, float *row, size_t d,
                              const float *cos_sin) {
    for (size_t i = 0; i < d; i += trace->shape.d_head) rope_rotate(rope, row + i, cos_sin);
}

/* Queries [first, first + n_rows) of a head, and the keys [key, end) that any of them sees. */
typedef struct AttentionRows {
    size_t head, kv_head, first, n_rows, key, end;
    bool keeps; /* the scores are kept */
} AttentionRows;

static inline AttentionRows rows_at(const AttentionTrace *trace, size_t head, size_t first, bool all_keys,
                                    bool keeps) {
    size_t window = trace->shape.layers[trace->layer].window, n_rows = smaller(QUERIES, trace->n - first);
    size_t key = window && first >= window && !all_keys ? first + 1 - window : 0;
    return (AttentionRows){head, head / group_of(trace), first, n_rows, key, first + n_rows, keeps};
}

static inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* The pattern of these queries, rows of scratch n floats apart, in columns from 0 on for the keys from rows->key on. */
void attention_pattern(const AttentionTrace *trace, const AttentionRows *rows, const AttentionScratch *s);

#endif
