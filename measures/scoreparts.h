/*
 * Why a head looked where it did: one score of attention, split over everything that wrote into its query and into its key
 * (the QK circuit of Elhage et al. 2021, between all pairs of writers). With the scales of the norms as they are in this run
 * (before attention, of queries and keys) a query is a sum over writers, q = Σ_i q_i, a key likewise, RoPE turns each part by
 * its position, and
 *
 *   q·k·scale = Σ_ij q_i·k_j·scale     before a soft cap; a bias that grows with the distance (ALiBi) stands beside
 *
 * The biases are one part of a query, and one of a key: of the norm before, of W_q or W_k, of the norm of queries or keys,
 * and those of the output projections below. Where a model cuts queries and keys, what it took is a part.
 */
#ifndef ATTN_SCOREPARTS_H
#define ATTN_SCOREPARTS_H

#include "measures/scores.h"
#include "measures/writers.h"

typedef struct ScoreParts {
    const Subject *subject;
    size_t layer, head, query, key; /* key ≤ query, and within the window */

    Writer *list; /* [n] the parts: writers below the layer, and "clamp" where the model cuts */
    size_t n;
    double *cells;                 /* [n][n] by part of the query, then of the key */
    double *query_sums, *key_sums; /* [n] over the other */
    double sum;                    /* of all cells, and of: */
    double alibi;                  /* −slope·(query − key); 0 where there is none */
    double score;                  /* what the softmax got, … */
    double uncapped;               /* … and before a cap: `sum` is to be this */
    double weight;                 /* softmax of it */
    ScoreRule rule;
} ScoreParts;

/* Whether such a score can be taken apart in this model. False with an error. */
bool score_parts_can(const Subject *subject, size_t layer, Error *error);

/* Fills in all from `list` on, with memory from the arena. The fields before are the caller's. */
bool score_parts_run(ScoreParts *parts, Arena *arena, Error *error);

#endif
