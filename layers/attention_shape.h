/* The shape of attention: the numbers that all layers share, and how layers differ. */
#ifndef ATTN_ATTENTION_SHAPE_H
#define ATTN_ATTENTION_SHAPE_H

#include "layers/rope.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* How far a layer sees, and how it turns. */
typedef struct AttentionLayer {
    size_t window;    /* keys that a query sees, the last ones, its own among them; 0: all */
    const Rope *rope; /* one of the model's ropes; NULL: nothing turns */
    bool absent;      /* the layer has no attention, and nothing in the cache */
} AttentionLayer;

/* A number that is 0 is not used. */
typedef struct AttentionShape {
    size_t n_layer, n_head, n_head_kv, d_model, d_head;
    float scale;       /* of q·k; 0: 1/√d_head */
    bool gated;        /* behind each head's query W_q makes a gate, by whose sigmoid z is multiplied */
    float clamp;       /* q, k and v are cut to −clamp … clamp (MPT, OLMo) */
    bool clamp_normed; /* q and k behind their norms (OLMoE) */
    float score_cap;   /* scores become cap·tanh(score/cap); Gemma 2, arXiv:2408.00118, section 2 */
    const float *
        slopes; /* [n_head] ALiBi: each key further back costs so much; Press et al. 2022, arXiv:2108.12409 */
    const Rope *ropes; /* [n_ropes] */
    size_t n_ropes;
    const AttentionLayer *layers; /* [n_layer], or for attention_kv_bytes NULL: all alike; all borrowed */
} AttentionShape;

static inline void clamp(float *x, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) x[i] = fminf(fmaxf(x[i], -limit), limit);
}

#endif
