/* The position-wise feed-forward layer: up, activation (with or without a gate), down. */
#ifndef ATTN_MLP_H
#define ATTN_MLP_H

#include "kernels/kernels.h"
#include "probe.h"

/* The activation of the hidden layer: h = up(x), and g = gate(x) where there is a gate. */
typedef enum MlpKind {
    MLP_GELU_TANH,    /* GELU(h) by the tanh formula of GPT-2; Hendrycks & Gimpel 2016, arXiv:1606.08415 */
    MLP_GELU_ERF,     /* GELU(h) as it was defined */
    MLP_RELU,         /* max(h, 0) */
    MLP_RELU_SQUARED, /* max(h, 0)²; So et al. 2021, arXiv:2109.08668 */
    MLP_SWIGLU,       /* SiLU(g)·h; Shazeer 2020, arXiv:2002.05202 */
    MLP_GEGLU,        /* GELU(g)·h by the tanh formula; the same */
    MLP_SWIGLU_CLAMPED, /* min(g, 7)·σ(1.702·min(g, 7))·(h cut to ±7, plus 1); OpenAI 2025, arXiv:2508.10925 */
} MlpKind;

static inline bool mlp_has_gate(MlpKind kind) { return kind >= MLP_SWIGLU; }

typedef struct MlpWeights {
    Linear up;   /* [d_ff][d_model] */
    Linear gate; /* [d_ff][d_model]; only where the kind has a gate */
    Linear down; /* [d_model][d_ff] */
} MlpWeights;

/*
 * The middle alone: hidden and gate [n][d_ff] become the activations, which the one of them that it returns then holds.
 */
float *mlp_activate(const Compute *compute, MlpKind kind, size_t n, size_t d_ff, float *hidden, float *gate);

/*
 * x [n][d_model] (already normed) → out [n][d_model], which is to be added to the residual stream.
 * hidden and gate are scratch, [n][d_ff] each; gate is unused where the kind has none. layer and position are what the probe
 * (or NULL) is told.
 */
void mlp_forward(const Compute *compute, MlpKind kind, const MlpWeights *weights, size_t layer,
                 size_t position, size_t n, const float *x, float *out, float *hidden, float *gate,
                 const Probe *probe);

#endif
