/*
 * Layers that keep a state of fixed size in the place of keys and values: the gated short convolution of LFM2 (Liquid AI
 * 2025, arXiv:2511.23404), and the gated delta net (Yang et al. 2024, arXiv:2412.06464) of Qwen3.5. A state goes forward
 * only: what it has taken in cannot be taken out again.
 */
#ifndef ATTN_STATES_H
#define ATTN_STATES_H

#include "base/error.h"
#include "base/memory.h"
#include "kernels/kernels.h"
#include "layers/norm.h"

#include <stdbool.h>
#include <stddef.h>

/* The mixer of a layer. */
typedef enum Mixer { MIXER_ATTENTION, MIXER_CONVOLUTION, MIXER_DELTA_NET } Mixer;

enum { STATE_MAX_HEAD = 256 /* d_head at most: a head's state is d_head² floats */ };

/* The parts that all layers with a state share. */
typedef struct StateShape {
    size_t n_taps;                     /* tokens that a convolution sees, the last ones, its own among them */
    size_t n_channels;                 /* that are convolved: a delta net's q, k and v */
    size_t d_inner;                    /* of what W_out reads */
    size_t n_head, n_key_head, d_head; /* of a delta net: head h has the q and k of head h mod n_key_head … */
    bool grouped;                      /* … or of h / (n_head / n_key_head) */
} StateShape;

/* Weights of one layer; w is [rows = outputs][cols = inputs]. */
typedef struct StateWeights {
    Mixer mixer;         /* MIXER_ATTENTION: the layer has no state, and nothing of this */
    size_t index;        /* of the layer among those with a state */
    const float *kernel; /* [n_taps][n_channels], the token's own row last */
    Linear in;           /* [n_channels][d_model] what is convolved */
    Linear before;       /* [n_channels][d_model] a convolution's gate of that */
    Linear gate;         /* [d_inner][d_model] of what comes out */
    Linear out;          /* [d_model][d_inner] */
    Linear alpha, beta;  /* [n_head][d_model] a delta net's: how much it forgets, and how much it learns */
    const float *decay, *bias; /* [n_head] of alpha; decay is −exp(A_log) */
    Norm norm;                 /* of what a head gives */
} StateWeights;

/* The states and scratch of one session, which owns them. Two threads must not use them at once. */
typedef struct States States;

/* Floats of scratch that a token needs, bytes of n_layer layers' states. */
size_t states_floats(const StateShape *shape);
size_t states_bytes(const StateShape *shape, size_t n_layer);

/* For n_layer layers with a state, and n_chunk tokens at a time. NULL with an error when memory runs out. */
States *states_new(const StateShape *shape, size_t n_layer, size_t n_chunk, const Compute *compute,
                   Error *error);
void states_free(States *states); /* accepts NULL */

/*
 * Like attention_forward, for the n ≤ n_chunk tokens from `position` on: x [n][d_model] → out [n][d_model]. At position 0
 * the state begins anew; else it is that of all tokens before. A token's bits do not depend on what comes with it.
 */
void states_forward(States *states, const StateWeights *weights, size_t position, size_t n, const float *x,
                    float *out);

/* Where all layers' states lie, once a token has been fed. */
Span states_span(const States *states);

#endif
