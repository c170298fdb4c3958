/* The position-wise feed-forward layer: up, activation (with or without a gate), down. */
#ifndef ATTN_MLP_H
#define ATTN_MLP_H

#include "kernels/kernels.h"

typedef enum MlpKind {
    MLP_GELU_TANH, /* down(GELU(up(x))), GPT-2 */
    MLP_SWIGLU,    /* down(SiLU(gate(x))·up(x)), Llama; Shazeer 2020, arXiv:2002.05202 */
} MlpKind;

static inline bool mlp_has_gate(MlpKind kind) {
    switch (kind) {
    case MLP_GELU_TANH: return false;
    case MLP_SWIGLU: return true;
    }
    return false;
}

typedef struct MlpWeights {
    Linear up;   /* [d_ff][d_model] */
    Linear gate; /* [d_ff][d_model]; only where the kind has a gate */
    Linear down; /* [d_model][d_ff] */
} MlpWeights;

/*
 * x [n][d_model] (already normed) → out [n][d_model], which is to be added to the residual stream.
 * hidden and gate are scratch, [n][d_ff] each; gate is unused where the kind has none.
 */
void mlp_forward(const Compute *compute, MlpKind kind, const MlpWeights *weights, size_t n, const float *x,
                 float *out, float *hidden, float *gate);

#endif
