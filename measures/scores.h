/*
 * How a head makes scores of q·k, and what its softmax takes in: what differs between families, for who explains a row.
 */
#ifndef ATTN_SCORES_H
#define ATTN_SCORES_H

#include "model.h"

#include <stdbool.h>
#include <stddef.h>

/* score = cap·tanh(q·k·scale/cap) − slope·(query − key) */
typedef struct ScoreRule {
    bool by_root;  /* scale is 1/√d_head */
    double scale;  /* of q·k */
    double cap;    /* 0: q·k·scale is not bent */
    double slope;  /* ALiBi's; 0: there is none */
    size_t window; /* keys that a query sees, the last ones, its own among them; 0: all */
    bool has_sink; /* the softmax has one more place, without a value: rows sum to less than 1 */
    double sink;   /* its score, learned by the model */
} ScoreRule;

ScoreRule score_rule(const Model *model, size_t layer, size_t head);

/* Whether a layer has heads: others keep a state instead (states.h), of which no site of a head tells. */
bool layer_has_heads(const Model *model, size_t layer);

/* Whether a head's z goes through a gate, which nothing shows, before the output projection reads it. */
bool has_gated_heads(const Model *model);

/* Whether any layer's heads have such a sink. */
bool has_learned_sinks(const Model *model);

/* The first key that a query sees, and how many it sees. */
size_t rule_first_key(const ScoreRule *rule, size_t query);
size_t rule_n_keys(const ScoreRule *rule, size_t query);

/* q·k of a key `distance` before the query, from its score; NAN where a cap has bent it. */
double rule_dot(const ScoreRule *rule, double score, size_t distance);

/* The weight that the learned sink takes of a row whose weights have this sum; 0 where there is no sink. */
double rule_learned_share(const ScoreRule *rule, double sum);

/* "q·k_k / √d_head", "50·tanh(q·k_k·0.0625 / 50)", "q·k_k / √d_head − slope·(query − k)". */
const char *score_formula(char buffer[128], const ScoreRule *rule, bool ascii);

#endif
