/*
 * A circuit by true patches, after ACDC (Conmy et al. 2023, arXiv:2304.14997): all edges, or nodes, are in at first; in a
 * given order, the weakest first, they are taken out, and stay out if the metric moves by no more than a threshold. ACDC takes
 * them one by one, each a way through the model; here some are tried together: twice as many after each try that went well,
 * half as many after one that did not, down to a single one, which then stays in. A group counts as one: so the threshold is
 * kept more strictly than by ACDC.
 *
 * ACDC's own criterion is not the metric but the divergence KL(whole model ‖ circuit) of what comes next, which may not grow
 * by more than the threshold: `kl` asks for that.
 */
#ifndef ATTN_CIRCUITSEARCH_H
#define ATTN_CIRCUITSEARCH_H

#include "measures/mixture.h"

/* The texts that the metric is the mean of. */
typedef struct SearchText {
    Mixture *mixture; /* with what stands outside */
    const int32_t *clean;
    float *whole; /* [n_vocab] logits of the whole model, where `kl` is asked for; else NULL */
} SearchText;

typedef struct CircuitSearch {
    const Subject *subject;
    SearchText *texts; /* [n_texts] */
    size_t n_texts;
    const EdgeGraph *graph;
    UnitKind unit;
    const size_t *order; /* [n_units] the weakest first */
    double threshold;    /* nats that the metric may move by, or KL grow, with each try */
    Readout *kl;         /* a METRIC_KL, whose reference is set for each text; NULL: the texts' metric */

    bool *in;               /* [n_edges] the circuit; the caller's room */
    size_t n_in;            /* units */
    size_t n_tries, n_runs; /* n_runs: ways through the model, all texts counted */
    double whole, value;    /* the metric with all edges, and with the circuit */
    double divergence;      /* KL of the circuit; NaN where it is not asked for */
} CircuitSearch;

/* The fields up to `in` are the caller's. */
bool circuit_search(CircuitSearch *search, Error *error);

#endif
