/* The way back through a mixture of experts (layers/experts.h). Which experts a token goes through counts as fixed. */
#ifndef ATTN_EXPERTS_BACK_H
#define ATTN_EXPERTS_BACK_H

#include "base/error.h"
#include "gradients/mlp_back.h"
#include "gradients/visits.h"
#include "layers/experts.h"

#include <stddef.h>

/* Scratch for n_chunk tokens. */
typedef struct ExpertsTrace {
    MlpTrace *mlp;     /* borrowed: room for n_chunk tokens of the widest expert */
    float *weights;    /* [n_chunk][n_expert] what the router's logits become */
    float *logits;     /* likewise; these, then their gradient */
    float *d_weights;  /* likewise */
    float *x, *dx;     /* [n_chunk][d_model] gathered: what an expert reads, and its gradient */
    float *out, *dout; /* likewise what it makes */
    float *gates;      /* [n_chunk] the shared expert's */
    size_t *tokens;    /* [n_chunk] those of an expert */
} ExpertsTrace;

bool experts_trace_open(ExpertsTrace *trace, MlpTrace *mlp, size_t n_chunk, size_t n_expert, size_t d_model);
void experts_trace_close(ExpertsTrace *trace);

/* The way there: out [n][d_model] for x [n][d_model] already normed. */
void experts_trace(const Compute *compute, MlpKind kind, const ExpertsWeights *weights, size_t n,
                   const float *x, float *out, ExpertsTrace *trace);

/* dx += …, for the same x; the probe sees the router's logits and the experts' weights. */
void experts_back(const Compute *compute, MlpKind kind, const ExpertsWeights *weights, size_t layer,
                  size_t position, size_t n, const float *x, const float *dout, float *dx,
                  ExpertsTrace *trace, const GradientProbe *probe);

#endif
