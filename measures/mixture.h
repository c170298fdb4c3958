/*
 * A run in which every reader (edgegraph.h) reads a mixture of its own: along the edges that are `in`, what the senders add
 * in this very run; along all others, what they add outside it, in another run or as a mean. Which is what it is to patch all
 * edges of a set at once, layer by layer (Conmy et al. 2023, arXiv:2304.14997; Hanna et al. 2024, arXiv:2403.17806): with all
 * edges in, it is the run itself, with none the one outside, and with all but one it is path patching of that edge.
 */
#ifndef ATTN_MIXTURE_H
#define ATTN_MIXTURE_H

#include "measures/contributions.h"
#include "measures/readout.h"

typedef struct Mixture {
    const Subject *subject;
    const EdgeGraph *graph;
    size_t n; /* tokens */
    Metric metric;

    Session *session;
    Probe own;
    Readout readout;
    Contributions inside, outside; /* of the run under way, and of what stands in elsewhere */
    const bool *in;                /* [n_edges] of the run under way; NULL: it is a plain one */
    const Contributions *kept;     /* which contributions the run under way makes */
    float *reads;                  /* [n_readers of a layer][chunk][d_model] */
    float *q, *k, *v;              /* [chunk][heads][d_head] of the layer under way */
    float *gate,
        *still; /* likewise gates, and those that a stream of zeros makes; NULL where heads have none */
    float *normed, *rows; /* [chunk][d_model]; [chunk][d_head] of one head */
    float *final;         /* [d_model] leaving the last layer at the last position */
    Compute compute;
    bool *last;    /* [n_edges] those that were in in the run before */
    bool has_last; /* there is one, and `inside` is its; who writes to `outside` clears this */
} Mixture;

/* The fields up to `metric` are the caller's. Call mixture_free after a failure, too. */
bool mixture_begin(Mixture *mixture, Arena *arena, Error *error);
void mixture_free(Mixture *mixture);

/* A plain run of a text [n], whose contributions are from now on those outside. */
bool mixture_outside(Mixture *mixture, const int32_t *ids, double *value, Error *error);

/* Zeros take the place of those outside; or, at all positions, their mean over positions does. */
void mixture_outside_zero(Mixture *mixture);
void mixture_outside_mean(Mixture *mixture);

/*
 * The run of a text [n], the same in all such runs, with the edges in [n_edges]; all of them if it is NULL, without any way
 * about. Layers below the first reader for which this is another set than in the run before do not run again: they would give
 * the same bits.
 */
bool mixture_run(Mixture *mixture, const int32_t *ids, const bool *in, double *value, Error *error);

#endif
