/*
 * The numbers of the way there that the way back starts from: the residual streams and, of as many layers as a limit of
 * memory allows, what else it needs of a layer. What is not kept is made again.
 */
#ifndef ATTN_KEPT_H
#define ATTN_KEPT_H

#include "probe.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum KeptSite {
    KEPT_MID, /* PROBE_RESID_MID, and so on */
    KEPT_Q,
    KEPT_K,
    KEPT_V,
    KEPT_Z,
    KEPT_MLP_PRE,
    KEPT_MLP_PRE_LINEAR,
    N_KEPT
} KeptSite;

/* [n][width] each, heads side by side; NULL where the layer has no such site, or it is not kept. */
typedef struct KeptLayer {
    float *pre; /* [n][d_model] the residual stream entering the layer; always there */
    float *at[N_KEPT];
    size_t width[N_KEPT];
} KeptLayer;

typedef struct Kept {
    size_t n, n_layer, d_model;
    KeptLayer *layers; /* [n_layer + 1], the last of which has the stream that leaves the last layer */
    size_t room;       /* floats that may be kept yet */
} Kept;

/* Room for the streams; `most` floats are kept in all, or more where these alone are more. kept_free may be called in any case. */
bool kept_begin(Kept *kept, size_t n, size_t n_layer, size_t d_model, size_t most);
void kept_free(Kept *kept);

/* Room for a layer's sites of these widths (0: it has none), if there is as much. False when memory runs out. */
bool kept_add(Kept *kept, size_t layer, const size_t width[N_KEPT]);

/* For the probe of the way there, fed from position 0 on: whether a site is kept, and a visit to it. */
bool kept_wants(const Kept *kept, ProbeSite site, size_t layer);
void kept_visit(const Kept *kept, const Activation *seen);

#endif
