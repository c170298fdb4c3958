/*
 * The faithfulness of circuits: sets of edges, or of nodes (edgegraph.h), that alone carry a run, while all other edges carry what stands
 * outside (mixture.h):
 *
 *   f(set) = (metric with the set − metric with no edge) / (metric with all edges − metric with no edge)
 *
 * Over sets of growing size MIB (Mueller et al. 2025, arXiv:2504.13151) sums up, by trapezoids over the shares of all edges:
 * CPR, the area under f, which is better the larger it is, and CMD, that between f and 1, which is better the smaller.
 */
#ifndef ATTN_FAITHFULNESS_H
#define ATTN_FAITHFULNESS_H

#include "measures/mixture.h"

/* Edges outside the set carry this. */
typedef enum Outside {
    OUTSIDE_RESAMPLE, /* what the sender adds in the corrupted run */
    OUTSIDE_MEAN,     /* the mean of that over positions */
    OUTSIDE_ZERO,     /* nothing */
    N_OUTSIDES
} Outside;

extern const char *const outside_names[N_OUTSIDES]; /* "resample", … */

enum { N_SHARES = 10 };
extern const double circuit_shares[N_SHARES]; /* MIB's: 0.001, 0.002, 0.005, … 0.5, 1 */

/* How many of n a share is. */
size_t share_of(double share, size_t n);

/*
 * Opens a mixture for circuits of the clean text: what stands outside is made of the corrupted one. Both are [mixture->n];
 * mixture_free in any case.
 */
bool faithful_begin(Mixture *mixture, Outside outside, const int32_t *corrupted, Arena *arena, Error *error);

/* Marks in `in` [n_edges] the first n units of an order, and no other. */
void choose_units(const EdgeGraph *graph, UnitKind kind, const size_t *order, size_t n, bool *in);

/* The areas over circuit_shares: under f [N_SHARES], and between f and 1. */
void faithful_areas(const double *f, double *cpr, double *cmd);

#endif
