/*
 * A mixture of experts in place of an MLP (Shazeer et al. 2017, arXiv:1701.06538; Fedus et al. 2021, arXiv:2101.03961): a
 * router gives each expert, an MLP, a probability, and each token goes through the few likeliest alone. Only their weights
 * are read.
 */
#ifndef ATTN_EXPERTS_H
#define ATTN_EXPERTS_H

#include "kernels/kernels.h"
#include "mlp.h"
#include "probe.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ExpertsWeights {
    size_t n_expert, n_used; /* n_expert 0: there are none */
    bool renormalise;        /* the probabilities of the chosen are made to add up to 1 */
    float scale;             /* of what the chosen add; the shared expert is not scaled */
    Linear router;           /* [n_expert][d_model] */
    MlpWeights *experts;     /* [n_expert] */
    MlpWeights shared;       /* takes part for every token; up.w.data NULL: there is none */
    Linear shared_gate; /* [1][d_model]: its sigmoid scales the shared expert; w.data NULL: nothing does */
} ExpertsWeights;

/* Floats of scratch that a token needs. */
size_t experts_floats(size_t n_expert, size_t d_model);

/* Turns a token's logits p [n_expert] into the weights of the experts, which are 0 for those that are not chosen. */
void experts_choose(const Kernels *kernels, const ExpertsWeights *weights, float *p);

/* The weight of the shared expert for each of n tokens. */
void experts_weigh_shared(const Compute *compute, const ExpertsWeights *weights, const float *x, size_t n,
                          float *shared);

/*
 * Like mlp_forward, for the n tokens of a layer from `position` on; the probe sees PROBE_ROUTER and PROBE_EXPERT_WEIGHTS.
 * hidden and gate are [max(n, n_used)][d_ff] of the widest expert, scratch is [n][experts_floats].
 */
void experts_forward(const Compute *compute, MlpKind kind, const ExpertsWeights *weights, size_t layer,
                     size_t position, size_t n, const float *x, float *out, float *hidden, float *gate,
                     float *scratch, const Probe *probe);

#endif
