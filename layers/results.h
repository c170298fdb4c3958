/*
 * Results: what each head by itself adds to the residual stream. Σ_h z_h W_O^h is what the output projection makes of all
 * heads at once. Nobody pays for it but a probe that wants it.
 */
#ifndef ATTN_RESULTS_H
#define ATTN_RESULTS_H

#include "kernels/kernels.h"
#include "probe.h"

#include <stdbool.h>
#include <stddef.h>

/* Where the results come from. */
typedef struct Results {
    const Compute *compute;
    const Linear *project; /* W_O [d_model][n_head·d_head] and the bias */
    size_t layer, position, n, n_head;
    const float *z; /* [n][n_head·d_head] */
    float *rest;    /* likewise: room for what nobody looks at */
    float *scratch; /* [results_floats] */
} Results;

size_t results_floats(size_t d_model, size_t d_z);

/*
 * Shows the results that the probe wants. If it wrote to one, returns true, and out [n][d_model] is the sum of what was
 * written, of the results that it did not look at, and of the bias; otherwise out holds nothing.
 */
bool results_forward(const Results *results, const Probe *probe, float *out);

#endif
