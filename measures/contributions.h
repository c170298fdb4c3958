/*
 * The contribution of every sender (edgegraph.h) to the residual stream in one run, so that they add up to it exactly. A
 * head's is z W_O, and an equal share of what attention adds besides (its bias). Behind a norm, as in Gemma 2, it is the
 * head's part of what comes out, with the norm's scale of that run held. A probe takes them in.
 */
#ifndef ATTN_CONTRIBUTIONS_H
#define ATTN_CONTRIBUTIONS_H

#include "measures/edgegraph.h"
#include "probe.h"

typedef struct Contributions {
    const Model *model;
    const EdgeGraph *graph;
    size_t n;           /* tokens */
    float *rows;        /* [n_senders][n][d_model] */
    float *added, *sum; /* [d_model] scratch */
} Contributions;

/* Room; 1 GiB at most, for `copies` of it. */
bool contributions_begin(Contributions *contributions, size_t copies, Arena *arena, Error *error);

/* The rows of a sender from a position on. */
static inline float *contribution(const Contributions *contributions, size_t sender, size_t position) {
    return contributions->rows +
           (sender * contributions->n + position) * model_config(contributions->model)->d_model;
}

/* For the functions of a probe; the sites of a layer must come in their order. */
bool contributions_want(const Contributions *contributions, ProbeSite site, size_t layer);
void contributions_add(const Contributions *contributions, const Activation *seen);

#endif
