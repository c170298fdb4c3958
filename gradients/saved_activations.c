#include "gradients/saved_activations.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static const ProbeSite sites[N_SAVED] = {
    [SAVED_MID] = PROBE_RESID_MID,
    [SAVED_Q] = PROBE_Q,
    [SAVED_K] = PROBE_K,
    [SAVED_V] = PROBE_V,
    [SAVED_Z] = PROBE_Z,
    [SAVED_MLP_PRE] = PROBE_MLP_PRE,
    [SAVED_MLP_PRE_LINEAR] = PROBE_MLP_PRE_LINEAR,
};

bool saved_begin(SavedActivations *saved, size_t n, size_t n_layer, size_t d_model, size_t most) {
    size_t streams = (n_layer + 1) * n * d_model;
    *saved = (SavedActivations){.n = n, .n_layer = n_layer, .d_model = d_model};
    saved->room = most > streams ? most - streams : 0;
    saved->layers = calloc(n_layer + 1, sizeof *saved->layers);
    bool ok = saved->layers;
    for (size_t layer = 0; ok && layer <= n_layer; layer++)
        ok = (saved->layers[layer].pre = floats_filled_new(n, d_model)) != NULL;
    return ok;
}

void saved_free(SavedActivations *saved) {
    for (size_t layer = 0; saved->layers && layer <= saved->n_layer; layer++) {
        free(saved->layers[layer].pre);
        for (size_t i = 0; i < N_SAVED; i++) free(saved->layers[layer].at[i]);
    }
    free(saved->layers);
    *saved = (SavedActivations){0};
}

bool saved_add(SavedActivations *saved, size_t layer, const size_t width[N_SAVED]) {
    SavedLayer *to = &saved->layers[layer];
    size_t floats = 0;
    for (size_t i = 0; i < N_SAVED; i++) floats += saved->n * width[i];
    if (floats > saved->room) return true;
    saved->room -= floats;
    for (size_t i = 0; i < N_SAVED; i++) {
        if (width[i] == 0) continue;
        to->width[i] = width[i];
        to->at[i] = floats_filled_new(saved->n, width[i]);
        if (!to->at[i]) return false;
    }
    return true;
}

/* Where rows of a site go, and how far apart they lie; NULL: it is not saved. */
static float *rows_of(const SavedActivations *saved, ProbeSite site, size_t layer, size_t *width) {
    *width = saved->d_model;
    if (site == PROBE_RESID_PRE) return saved->layers[layer].pre;
    if (site == PROBE_RESID_POST && layer + 1 == saved->n_layer) return saved->layers[layer + 1].pre;
    for (size_t i = 0; i < N_SAVED && layer < saved->n_layer; i++) {
        *width = saved->layers[layer].width[i];
        if (sites[i] == site) return saved->layers[layer].at[i];
    }
    return NULL;
}

bool saved_wants(const SavedActivations *saved, ProbeSite site, size_t layer) {
    size_t width;
    return rows_of(saved, site, layer, &width);
}

void saved_visit(const SavedActivations *saved, const Activation *seen) {
    size_t width;
    float *to =
        rows_of(saved, seen->site, seen->layer, &width) + seen->position * width + seen->head * seen->n_cols;
    if (width == seen->n_cols && seen->stride == width)
        memcpy(to, seen->data, seen->n_rows * width * sizeof *to);
    else
        for (size_t row = 0; row < seen->n_rows; row++)
            memcpy(to + row * width, seen->data + row * seen->stride, seen->n_cols * sizeof *to);
}
