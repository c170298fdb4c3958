/*
 * What the model expected at each position of a text: the distribution of the next token in short, and how
 * surprised it was by the token that came.
 */
#ifndef ATTN_STUDY_PREDICTIONS_H
#define ATTN_STUDY_PREDICTIONS_H

#include "views/study.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { N_TEMPERATURES = 20 }; /* T_j = TEMPERATURE_STEP·j for j = 1 … 20 */
#define TEMPERATURE_STEP 0.1f

typedef struct Prediction {
    double log_sum, entropy; /* nats */

    /*
     * ln Σ exp((logit − max)/T_j) over the tokens that are not in top: with the logits of those, all that a
     * softmax at any of these temperatures needs. −∞ where there is none, or the sum is 0.
     */
    double rest[N_TEMPERATURES];

    double surprisal; /* nats, of the token that follows, where there is one */
    size_t rank;      /* of that token */
} Prediction;

typedef struct Predictions {
    const Study *study;
    size_t n_vocab, n_top;
    Prediction *items;  /* [n_tokens]: after each token */
    int32_t *top;       /* [n_tokens][n_top] likeliest first */
    float *top_logits;  /* [n_tokens][n_top] */
    float *others;      /* [n_vocab] logits, −∞ for those in top */
    size_t n_bytes;     /* of the tokens that were foreseen */
    double surprisal;   /* nats, sum */
    size_t n_surprised; /* tokens in that sum */
} Predictions;

/* Room for the tokens of the study, n_top (≤ n_vocab) tokens of each. predictions_free also after a failure. */
bool predictions_begin(Predictions *predictions, const Study *study, size_t n_top, Error *error);
void predictions_free(Predictions *predictions);

/* Takes in the logits at a position; user is the Predictions. */
LogitsVisit predictions_add;

/* "positions": [null, {"surprisal_nats", "rank", "entropy_nats"}, …], of each token as it was foreseen. */
void predictions_json_positions(const Predictions *predictions, Report *report);

/* "totals": {"n", "nll_nats", "perplexity", "bits_per_byte"}. */
void predictions_json_totals(const Predictions *predictions, Report *report);

/* "next": [{"entropy_nats", "log_sum", "top": [id, logit, …], "rest": […]}, …], after each token. */
void predictions_json_next(const Predictions *predictions, Report *report);

/* Sets used[id] of every token in top. */
void predictions_mark(const Predictions *predictions, bool *used);

#endif
