/*
 * One number of the logits at one position, by which two runs of a model are held against each other, and how it changes
 * with each logit: what patching compares, and what gradients begin with. All in nats.
 */
#ifndef ATTN_METRIC_H
#define ATTN_METRIC_H

#include "measures/distribution.h"

#include <stddef.h>
#include <stdint.h>

typedef enum MetricKind {
    METRIC_LOGIT_DIFF, /* z_answer − z_wrong, which is also ln(p_answer / p_wrong) */
    METRIC_LOGIT,      /* z_answer */
    METRIC_LOGPROB,    /* ln p_answer */
    METRIC_NLL,        /* −ln p_answer: with the token that follows as answer, a part of a text's nll */
    METRIC_KL,         /* KL(reference ‖ p): how far the prediction is from one that is given */
    N_METRIC_KINDS
} MetricKind;

extern const char *const metric_names[N_METRIC_KINDS]; /* "logit_diff", … */

typedef struct Metric {
    MetricKind kind;
    int32_t answer, wrong; /* tokens; wrong: of METRIC_LOGIT_DIFF alone */
    size_t n_vocab;
    const float *reference; /* [n_vocab] logits, of METRIC_KL alone; borrowed */
} Metric;

/* Its value for the logits [n_vocab]. NaN where they are. */
double metric_value(const Metric *metric, const float *logits);

/* Replaces the logits [n_vocab] by `times` the metric's derivative with respect to each of them. */
void metric_gradient(const Metric *metric, double times, float *logits);

/* The tokens whose logits alone the metric depends on: how many, at most 2; 0: it depends on all. */
size_t metric_tokens(const Metric *metric, int32_t tokens[2]);

/* Its value for the logits of these tokens, where there are any. */
double metric_of_tokens(const Metric *metric, const double logits[2]);

#endif
