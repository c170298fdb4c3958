/*
 * Steering: a direction is added to a vector on its way through the forward pass, or taken out of it.
 *
 *   adding      x + s·d           (activation addition: Turner et al. 2023, arXiv:2308.10248)
 *   projecting  x − s·(x·u)·u     u = d/‖d‖ (directional ablation: Arditi et al. 2024, arXiv:2406.11717)
 *
 * at one site of chosen layers, at all positions or some, with strength s. And where directions come from: what two sets of
 * texts differ in at the site, a row of the unembedding; what a neuron writes: measures/neurons.h. Files: cli/directions.h.
 */
#ifndef ATTN_STEERING_H
#define ATTN_STEERING_H

#include "measures/difference.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The caller fills all but the probe. */
typedef struct Steering {
    ProbeSite site;           /* one of [n][d_model] */
    const float **directions; /* [n_layer] each [d_model]; NULL where nothing is changed */
    size_t n_layer;
    float strength;
    bool project;
    const bool *positions; /* [n_positions] those that are changed, none behind them; NULL: all */
    size_t n_positions;

    Probe probe;
} Steering;

/* Whether vectors of the residual stream's width pass there, in a model like this. */
bool steering_has_site(const Model *model, ProbeSite site);

/* Makes the probe, which borrows the steering. Returns it. */
const Probe *steering_probe(Steering *steering);

/*
 * Means of a site over texts. The caller fills the first four. A BOS, unless it alone is asked for, is left out: many models
 * park attention on it, and let its vector grow so long that it would be most of any mean.
 */
typedef struct SiteMeans {
    ProbeSite site;
    const bool *layers;    /* [n_layer] those that are wanted */
    bool last;             /* of the last position of a text alone */
    const bool *positions; /* [tokens of a text, then the only one] of these; NULL: of all */

    size_t d_model, n_texts;
    double *sums;  /* [n_layer][d_model] of the texts' means */
    double *norms; /* [n_layer] likewise of the vectors' lengths */

    const Subject *text; /* under way */
    size_t first;        /* its first position that may count */
    double share;        /* of a position in its text's mean */
} SiteMeans;

bool site_means_begin(SiteMeans *means, const Subject *subject, Arena *arena, Error *error);

/* Feeds the subject's tokens, of which there is one at least. */
bool site_means_add(SiteMeans *means, const Subject *text, Error *error);

/* For the functions of a probe, of who feeds a text on its own; site_means_expect comes first. */
void site_means_expect(SiteMeans *means, const Subject *text);
bool site_means_want(void *means, ProbeSite site, size_t layer, size_t head);
void site_means_see(void *means, const Activation *seen);

/* direction [d_model]: the mean of one set of texts less that of the other, in a layer. */
void site_difference(const SiteMeans *plus, const SiteMeans *minus, size_t layer, float *direction);

/* A token's row of the unembedding. */
void token_direction(const Subject *subject, int32_t id, float *direction);

/* The subject's text twice, with nothing changed and steered. */
typedef struct SteeredRuns {
    Session *sessions[2]; /* with room for n_ctx tokens; they hold the text */
    float *logits[2];     /* [LOGITS_CHUNK][n_vocab] scratch */
    float *last[2];       /* [n_vocab] after the last token */
    Difference difference;
} SteeredRuns;

/* `look` (or NULL) looks into the first run. Call steered_runs_free in any case. */
bool steered_runs(SteeredRuns *runs, const Subject *subject, Arena *arena, size_t n_ctx, const Probe *look,
                  const Probe *steering, Error *error);
void steered_runs_free(SteeredRuns *runs);

/* The mean surprisal of the subject's tokens but the first, in nats, steered, and the logits [n_vocab] after the last. */
bool steered_score(const Subject *subject, const Probe *steering, double *nll, float *last, Error *error);

#endif
