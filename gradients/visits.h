/* The probe of the way back: who asks for a site sees its numbers and their gradient. */
#ifndef ATTN_VISITS_H
#define ATTN_VISITS_H

#include "probe.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Both functions are called on the thread that goes back, layers from the last one down. seen->data holds the site's
 * numbers, to be read alone; `gradient` has their rows and stride. The way back goes on with what is written there.
 * Norms' scales are no sites of the way back; of a head's result the numbers are not made again (seen->data is NULL), and
 * what is written there is lost. A layer's sites come from the last to the first; of scores and pattern, a row's pattern comes before its scores.
 */
typedef struct GradientProbe {
    void *user;
    bool (*wants)(void *user, ProbeSite site, size_t layer, size_t head);
    void (*visit)(void *user, const Activation *seen, float *gradient);
} GradientProbe;

static inline bool gradient_wanted(const GradientProbe *probe, ProbeSite site, size_t layer, size_t head) {
    return probe && probe->wants(probe->user, site, layer, head);
}

/* Visits [n][d] contiguous rows from `position` on, if they are wanted. */
void gradient_rows(const GradientProbe *probe, ProbeSite site, size_t layer, size_t position,
                   const float *data, float *gradient, size_t n, size_t d);

/* Likewise visits each head of [n][n_head][d_head] contiguous rows in turn. */
void gradient_heads(const GradientProbe *probe, ProbeSite site, size_t layer, const float *data,
                    float *gradient, size_t n, size_t n_head, size_t d_head);

#endif
