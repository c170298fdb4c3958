/*
 * The numbers of the way there that the way back starts from: the residual streams and, of as many layers as a limit of
 * memory allows, what else it needs of a layer. What is not saved is made again.
 */
#ifndef ATTN_SAVED_ACTIVATIONS_H
#define ATTN_SAVED_ACTIVATIONS_H

#include "probe.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum SavedSite {
    SAVED_MID, /* PROBE_RESID_MID, and so on */
    SAVED_Q,
    SAVED_K,
    SAVED_V,
    SAVED_Z,
    SAVED_MLP_PRE,
    SAVED_MLP_PRE_LINEAR,
    N_SAVED
} SavedSite;

/* [n][width] each, heads side by side; NULL where the layer has no such site, or it is not saved. */
typedef struct SavedLayer {
    float *pre; /* [n][d_model] the residual stream entering the layer; always there */
    float *at[N_SAVED];
    size_t width[N_SAVED];
} SavedLayer;

typedef struct SavedActivations {
    size_t n, n_layer, d_model;
    SavedLayer *layers; /* [n_layer + 1], the last of which has the stream that leaves the last layer */
    size_t room;        /* floats that may be saved yet */
} SavedActivations;

/* Room for the streams; `most` floats are saved in all, or more where these alone are more. Call saved_free in any case. */
bool saved_begin(SavedActivations *saved, size_t n, size_t n_layer, size_t d_model, size_t most);
void saved_free(SavedActivations *saved);

/* Room for a layer's sites of these widths (0: it has none), if there is as much. False when memory runs out. */
bool saved_add(SavedActivations *saved, size_t layer, const size_t width[N_SAVED]);

/* For the probe of the way there, fed from position 0 on: whether a site is saved, and a visit to it. */
bool saved_wants(const SavedActivations *saved, ProbeSite site, size_t layer);
void saved_visit(const SavedActivations *saved, const Activation *seen);

#endif
