/* A model and a session from within: for session.c, which makes sessions and says what they hold, and model.c, which feeds them. */
#ifndef ATTN_SESSION_H
#define ATTN_SESSION_H

#include "attention.h"
#include "layers/states.h"
#include "model.h"

struct Model {
    Checkpoint *checkpoint;
    Config config;
    Weights weights;
};

struct Session {
    const Model *model;
    Attention *attention;
    States *states; /* of the layers that have one in attention's place, or NULL */
    Compute compute;
    const Probe *probe;
    bool whole;               /* the cache loses nothing, and no layer keeps a state */
    bool (*stop)(void *user); /* or NULL */
    void *stop_user;
    bool stopped; /* what was fed last */
    size_t n_ctx, n_chunk;
    size_t position; /* tokens fed so far */
    size_t known;    /* ≥ position: tokens whose keys and values the cache still has; of states, none */
    int32_t *tokens; /* [n_ctx] those tokens */
    float *last;     /* [d_model] the residual stream behind the last layer, of the token fed last */
    bool borrows;    /* the scratch is another session's, down to `experts`, and compute.packed */
    float *resid;    /* [n_chunk][d_model] the residual stream */
    float *normed;   /* [n_chunk][d_model] */
    float *branch;   /* [n_chunk][d_model] what attention or MLP adds */
    float *hidden;   /* [n_chunk][d_ff of the widest MLP] */
    float *gate;     /* likewise, touched only where the MLP has a gate */
    float *experts;  /* [n_chunk][experts_floats], or NULL */

    /* While it is fed: its part, where it stood before, its tokens in the pass under way, and the text behind it in there. */
    const FeedPart *part;
    size_t start, n;
    Session *next;

    Caches caches;
};

/* Forgets what lies behind a position, or all, if it cannot be gone back to. */
static inline void go_back(Session *session, size_t position) {
    bool reaches = !session->states && caches_reach(&session->caches, position);
    session->position = reaches ? position : 0;
    if (!reaches) session->known = 0;
}

#endif
