/*
 * A text's way through the model, with its residual streams kept, and the way back: the gradient of a metric with respect
 * to every site. Memory: (n_layer + 1)·n·d_model floats for the streams, at most 1,280 MiB, and what backward_run
 * takes.
 *
 * Integrated gradients (Sundararajan et al. 2017, arXiv:1703.01365) are the mean of the gradients along the straight line
 * from one run's embeddings to another's: for circuits, EAP-IG's "inputs" (Hanna et al. 2024, arXiv:2403.17806). The mean is
 * taken at the middles of `steps` equal parts of the line, which errs less than at their ends.
 */
#ifndef ATTN_GRADIENTS_H
#define ATTN_GRADIENTS_H

#include "gradients/saved_activations.h"
#include "gradients/visits.h"
#include "measures/metric.h"
#include "measures/subject.h"

typedef struct Gradients {
    const Subject *subject;
    size_t n;      /* tokens of a text */
    Metric metric; /* of the last position's logits */
    const int32_t
        *text; /* [n] if given, the number is the nll of this text in the metric's place, mean over tokens */

    Session *session; /* who goes there no more may leave it */
    size_t n_ctx;     /* of it */
    Probe own;
    const Probe *also;      /* looks on too, or NULL */
    SavedActivations saved; /* of the last way there */
    float *logits;          /* [PACKED_TOKENS][n_vocab] */
    float *between;         /* [n][d_model] embeddings on the line */
} Gradients;

/* The fields up to `text` are the caller's. Call gradients_free after a failure, too. */
bool gradients_begin(Gradients *gradients, Arena *arena, Error *error);
void gradients_free(Gradients *gradients);

/* Frees the session alone: the way back does without its cache. */
void gradients_leave(Gradients *gradients);

/*
 * The way there: of the tokens ids [n], or of embed [n][d_model], the stream that enters the first layer, if ids is NULL.
 * `also` (or NULL) looks on. *value is the metric.
 */
bool gradients_there(Gradients *gradients, const int32_t *ids, const float *embed, const Probe *also,
                     double *value, Error *error);

/*
 * The way back of the last way there. With `steps` there and back at so many points between two streams that enter the first
 * layer, embed [2] of [n][d_model]: the probe sees all of them.
 */
bool gradients_back(Gradients *gradients, float *const embed[2], size_t steps, const GradientProbe *probe,
                    Error *error);

/* Whether n scores that were made of gradients are numbers: weights may be finite, and their sums not. */
bool gradients_check(const Gradients *gradients, const double *scores, size_t n, Error *error);

#endif
