/*
 * Edge attribution patching (Syed et al. 2023, arXiv:2310.10348): how far the metric of one run, the base, would move if
 * one reader alone read what a sender adds in another run, the source, to first order, for all edges (edgegraph.h) at once:
 *
 *   score = Σ over positions of (contribution in the source − that in the base) · ∂metric/∂(what the reader reads)
 *
 * With `steps` the gradient is the mean of those between the two runs' embeddings: EAP-IG (Hanna et al. 2024,
 * arXiv:2403.17806; gradients.h). Two ways there and one back, whatever the number of edges. Memory: gradients.h's, and the
 * contributions of one run, at most 1 GiB.
 */
#ifndef ATTN_EDGESCORES_H
#define ATTN_EDGESCORES_H

#include "measures/contributions.h"
#include "measures/gradients.h"

typedef struct EdgeScores {
    const Subject *subject;
    const EdgeGraph *graph;
    size_t n;     /* tokens of each text */
    size_t steps; /* 0: the gradient of the base alone */
    Metric metric;

    Gradients gradients;
    Contributions delta; /* source − base */
    Contributions other; /* of the base, before it is subtracted */
    double *scores;      /* [n_edges] */
    double *tokens;      /* [n_readers][n] the embeddings' scores by position, which add up to theirs */
    double weight;       /* of a gradient */
    bool is_base;        /* the run under way */
    double values[2];    /* the metric of the base and of the source */
    float *embed[2];     /* [n][d_model] the streams that enter the first layer */
} EdgeScores;

/*
 * Scores texts of n tokens each. The fields up to `metric` are the caller's. edgescores_free may be called in any case.
 */
bool edgescores_run(EdgeScores *scores, const int32_t *base, const int32_t *source, Arena *arena,
                    Error *error);
void edgescores_free(EdgeScores *scores);

#endif
