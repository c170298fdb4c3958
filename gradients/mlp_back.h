/* The way back through an MLP (mlp.h). */
#ifndef ATTN_MLP_BACK_H
#define ATTN_MLP_BACK_H

#include "kernels/kernels.h"
#include "mlp.h"

#include <stdbool.h>
#include <stddef.h>

/* Numbers of the way there that the way back needs, each [n][d_ff]; and room for gradients of as much. */
typedef struct MlpTrace {
    const float *hidden; /* up(x): made here, or saved on the way there */
    const float *gate;   /* gate(x), where there is a gate; likewise */
    float *own_hidden, *own_gate;
    float *post;         /* the activations, which W_down reads */
    float *hidden_slope; /* ∂post/∂hidden */
    float *gate_slope;   /* ∂post/∂gate */
    float *d_post, *d_hidden, *d_gate;
} MlpTrace;

/* Room for n tokens of d_ff hidden numbers. False when memory runs out; mlp_trace_close may be called in any case. */
bool mlp_trace_open(MlpTrace *trace, size_t n, size_t d_ff);
void mlp_trace_close(MlpTrace *trace);

/* The way there: x [n][d_model] → the trace's values; or from hidden and gate, [n][d_ff], that were saved. */
void mlp_trace(const Compute *compute, MlpKind kind, const MlpWeights *weights, size_t n, const float *x,
               MlpTrace *trace);
void mlp_trace_saved(const Compute *compute, MlpKind kind, size_t n, size_t d_ff, const float *hidden,
                     const float *gate, MlpTrace *trace);

/* The three steps back: dout [n][d_model] → d_post; d_post → d_hidden and d_gate; these → dx += … */
void mlp_back_down(const Compute *compute, const MlpWeights *weights, size_t n, const float *dout,
                   MlpTrace *trace);
void mlp_back_activation(const Compute *compute, MlpKind kind, size_t n, size_t d_ff, MlpTrace *trace);
void mlp_back_up(const Compute *compute, MlpKind kind, const MlpWeights *weights, size_t n,
                 const MlpTrace *trace, float *dx);

#endif
