/*
 * The predictions at each position of a text: a summary of the distribution of the next token, and how
 * surprised the model was by the token that came.
 */
#ifndef ATTN_PREDICTIONS_H
#define ATTN_PREDICTIONS_H

#include "measures/distribution.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { N_TEMPERATURES = 20 }; /* T_j = TEMPERATURE_STEP·j for j = 1 … 20 */
#define TEMPERATURE_STEP 0.1f

typedef struct Prediction {
    double log_sum, entropy; /* nats */

    /*
     * ln Σ exp((logit − max)/T_j) over the tokens that are not in top. With the logits in top, a softmax at any of
     * these temperatures needs no more. −∞ if all tokens are in top.
     */
    double rest[N_TEMPERATURES];

    double surprisal; /* nats, of the token that follows, where there is one */
    size_t rank;      /* of that token */
} Prediction;

typedef struct Predictions {
    const Subject *subject;
    size_t n_vocab, n_top;
    size_t end;        /* tokens before it are scored: all, unless the caller sets it lower */
    Prediction *items; /* [n_tokens]: after each token */
    int32_t *top;      /* [n_tokens][n_top] likeliest first */
    float *top_logits; /* [n_tokens][n_top] */
    float *others;     /* [n_vocab] logits, −∞ for those in top */
    Totals totals;     /* of the tokens that were scored */
} Predictions;

/* Room for the tokens of the subject, n_top (≤ n_vocab) tokens of each. */
bool predictions_begin(Predictions *predictions, const Subject *subject, Arena *arena, size_t n_top,
                       Error *error);

/* Takes in the logits at a position; user is the Predictions. */
LogitsVisit predictions_add;

#endif
