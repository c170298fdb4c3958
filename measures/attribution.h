/*
 * Direct logit attribution (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; nostalgebraist 2020): the
 * residual stream is a sum of what every part wrote into it, and the final norm, with the scale σ that it has in this run, and
 * the unembedding are linear. So the logit of a token is a sum over parts:
 *
 *   value_c = Σ_d (c_d − mean c)·g_d·u_d/σ         u = W_U[answer] − W_U[wrong], g the norm's gain; RMSNorm's mean is 0
 *
 * Without a wrong token u, and the logit, are less their mean over the vocabulary, which the softmax does not feel. A scale
 * of the logits is in u. Where a soft cap bends logits, this is of what goes into the cap.
 */
#ifndef ATTN_ATTRIBUTION_H
#define ATTN_ATTRIBUTION_H

#include "measures/writers.h"

/* A head whose value is told by the position that it took it from. */
typedef struct HeadSources {
    size_t layer, head;
    double *values;  /* [query + 1] A[query, k]·(v_k W_O^h) through the same */
    double *weights; /* [query + 1] A[query, k] */
} HeadSources;

typedef struct Attribution {
    const Subject *subject;
    size_t query;
    int32_t answer;     /* −1: the likeliest, which it then becomes */
    int32_t wrong;      /* −1: none */
    HeadSources *heads; /* [n_heads] the caller's, with layer and head; of no model with gated heads */
    size_t n_heads;
    size_t
        neuron_layer; /* whose neurons' values are wanted, of an MLP that is no expert; SIZE_MAX: of none */

    Writers writers;
    double *values;      /* [writers.n] */
    double sum, logit;   /* of all values; what the model says */
    double scale;        /* σ */
    double *neurons;     /* [d_ff] mlp_post_j·(column j of W_down) through the same; */
    double *activations; /* [d_ff] mlp_post_j; */
    double neuron_bias;  /* and what the MLP's biases give: with them the sum is the MLP's value */

    Arena *arena;
    float *direction; /* [d_model] a vector's value is its product with this */
    float *final;     /* [d_model] the stream that leaves the last layer */
    float *post;      /* [d_ff] */
    float *logits;    /* [n_vocab] before a cap */
} Attribution;

/* Feeds the subject's tokens up to `query`, and fills in what comes behind neuron_layer. */
bool attribution_run(Attribution *attribution, Arena *arena, Error *error);

#endif
