#include "gradients/kept.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static const ProbeSite sites[N_KEPT] = {
    [KEPT_MID] = PROBE_RESID_MID,
    [KEPT_Q] = PROBE_Q,
    [KEPT_K] = PROBE_K,
    [KEPT_V] = PROBE_V,
    [KEPT_Z] = PROBE_Z,
    [KEPT_MLP_PRE] = PROBE_MLP_PRE,
    [KEPT_MLP_PRE_LINEAR] = PROBE_MLP_PRE_LINEAR,
};

bool kept_begin(Kept *kept, size_t n, size_t n_layer, size_t d_model, size_t most) {
    size_t streams = (n_layer + 1) * n * d_model;
    *kept = (Kept){.n = n, .n_layer = n_layer, .d_model = d_model};
    kept->room = most > streams ? most - streams : 0;
    kept->layers = calloc(n_layer + 1, sizeof *kept->layers);
    bool ok = kept->layers;
    for (size_t layer = 0; ok && layer <= n_layer; layer++)
        ok = (kept->layers[layer].pre = floats_filled_new(n, d_model)) != NULL;
    return ok;
}

void kept_free(Kept *kept) {
    for (size_t layer = 0; kept->layers && layer <= kept->n_layer; layer++) {
        free(kept->layers[layer].pre);
        for (size_t i = 0; i < N_KEPT; i++) free(kept->layers[layer].at[i]);
    }
    free(kept->layers);
    *kept = (Kept){0};
}

bool kept_add(Kept *kept, size_t layer, const size_t width[N_KEPT]) {
    KeptLayer *to = &kept->layers[layer];
    size_t floats = 0;
    for (size_t i = 0; i < N_KEPT; i++) floats += kept->n * width[i];
    if (floats > kept->room) return true;
    kept->room -= floats;
    for (size_t i = 0; i < N_KEPT; i++) {
        if (width[i] == 0) continue;
        to->width[i] = width[i];
        to->at[i] = floats_filled_new(kept->n, width[i]);
        if (!to->at[i]) return false;
    }
    return true;
}

/* Where rows of a site go, and how far apart they lie; NULL: it is not kept. */
static float *rows_of(const Kept *kept, ProbeSite site, size_t layer, size_t *width) {
    *width = kept->d_model;
    if (site == PROBE_RESID_PRE) return kept->layers[layer].pre;
    if (site == PROBE_RESID_POST && layer + 1 == kept->n_layer) return kept->layers[layer + 1].pre;
    for (size_t i = 0; i < N_KEPT && layer < kept->n_layer; i++) {
        *width = kept->layers[layer].width[i];
        if (sites[i] == site) return kept->layers[layer].at[i];
    }
    return NULL;
}

bool kept_wants(const Kept *kept, ProbeSite site, size_t layer) {
    size_t width;
    return rows_of(kept, site, layer, &width);
}

void kept_visit(const Kept *kept, const Activation *seen) {
    size_t width;
    float *to =
        rows_of(kept, seen->site, seen->layer, &width) + seen->position * width + seen->head * seen->n_cols;
    if (width == seen->n_cols && seen->stride == width)
        memcpy(to, seen->data, seen->n_rows * width * sizeof *to);
    else
        for (size_t row = 0; row < seen->n_rows; row++)
            memcpy(to + row * width, seen->data + row * seen->stride, seen->n_cols * sizeof *to);
}
