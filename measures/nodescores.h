/*
 * Attribution patching (Nanda 2023; Syed et al. 2023, arXiv:2310.10348): how far the metric of one run, the base, would
 * move if a site's numbers became those of another run, the source, to first order, for all sites at once:
 *
 *   score = Σ (source − base) · ∂metric/∂site in the base
 *
 * With `steps` the gradient is the mean of those between the two runs' embeddings (gradients.h). Without a source the
 * other run is one of zeros: score = Σ site · gradient ("gradient × input"), and there are no steps. Memory: the sites of
 * one run, at most 1 GiB; without a source only the streams (gradients.h).
 */
#ifndef ATTN_NODESCORES_H
#define ATTN_NODESCORES_H

#include "measures/gradients.h"

typedef enum NodeKind {
    NODE_RESID_PRE, /* by layer and position */
    NODE_ATTN_OUT,
    NODE_MLP_OUT,
    NODE_Z, /* by layer, head and position (k and v: of the key, by kv head; pattern: of the query) */
    NODE_Q,
    NODE_K,
    NODE_V,
    NODE_PATTERN,
    NODE_NEURON, /* mlp_post, by layer and number; experts have none */
    N_NODE_KINDS
} NodeKind;

extern const char *const node_names[N_NODE_KINDS]; /* "resid_pre", … */

static inline bool node_has_heads(NodeKind kind) { return kind >= NODE_Z && kind < NODE_NEURON; }

/* The numbers of a site, and what they come to. */
typedef struct NodeSite {
    ProbeSite site;
    size_t n_heads; /* 1: of none */
    size_t width;   /* of a row: of all heads */
    float *delta;   /* [n_layer][n][width] source − base; NULL where the base alone counts */
    double *scores; /* [n_layer][n_heads][n]; of neurons [n_layer][width] */
} NodeSite;

typedef struct NodeScores {
    const Subject *subject;
    size_t n;     /* tokens of each text */
    size_t steps; /* 0: the gradient of the base alone */
    Metric metric;
    const int32_t *nll_of; /* as Gradients.text */

    Gradients gradients;
    NodeSite sites[N_NODE_KINDS];
    bool has_source;
    bool is_second;   /* of the run under way: what it shows is subtracted */
    double weight;    /* of a gradient */
    double values[2]; /* the metric of the base and of the source; NaN where there is none */
    float *embed[2];  /* [n][d_model] the streams that enter the first layer */
} NodeScores;

/*
 * Scores texts of n tokens each; source may be NULL. The fields up to `nll_of` are the caller's. nodescores_free may be
 * called in any case.
 */
bool nodescores_run(NodeScores *scores, const int32_t *base, const int32_t *source, Arena *arena,
                    Error *error);
void nodescores_free(NodeScores *scores);

/* The score of a node at a position; SIZE_MAX: summed over all. Of a neuron `head` is its number. */
double nodescores_at(const NodeScores *scores, NodeKind kind, size_t layer, size_t head, size_t position);

/* The sum over what enters the first layer: with integrated gradients the metric's whole difference. */
double nodescores_embed(const NodeScores *scores);

#endif
