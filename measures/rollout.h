/*
 * How attention of all layers together leads from a position back to the tokens of the text (Abnar & Zuidema 2020,
 * arXiv:2005.00928). With A_l the mean over a layer's heads, and half for the residual connection,
 *
 *   rollout  R_0 = I, R_l = (½·A_l + ½·I)·R_{l−1}: what is left of each token if positions only mix
 *   flow     the largest flow from the position above the last layer to a token below the first, where what may go from
 *            (l, i) to (l − 1, j) is an entry of ½·A_l + ½·I
 *
 * Rows of A_l that sum to less than 1, where heads have learned sinks, are divided by their sum. A layer without heads
 * passes on what it gets.
 */
#ifndef ATTN_ROLLOUT_H
#define ATTN_ROLLOUT_H

#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_FLOW_EDGES = 1 << 21 /* of the graph that a flow goes through */ };

typedef struct Rollout {
    /* The caller's. */
    const Subject *subject;
    size_t query;
    bool wants_flow;

    size_t n, n_layers; /* n: positions up to the query; layers that have heads */
    double *row;        /* [n] of R after the last layer: the query's; sums to 1 */
    double *uniform;    /* [n] likewise, if each query of each layer looked at all its keys alike */
    double *flow;       /* [n] from the query to each token, 0 to 1; or NULL */

    double *mixed;        /* [n][n] R of the layers so far */
    double *pattern;      /* [n][n] of the layer under way: the mean over its heads */
    double *turned;       /* [n] scratch */
    int64_t *capacity;    /* [n_layers][n][n] for the flow, in units of 2^-FLOW_BITS; or NULL */
    size_t layer, n_rows; /* the layer under way, and rows of its last head seen so far */
    bool is_cut;          /* the text went through the layers in pieces */
} Rollout;

/* Feeds the text up to the query. Fails where it is too long to go through the layers at once, or for a flow. */
bool rollout_measure(Rollout *rollout, Arena *arena, Error *error);

#endif
