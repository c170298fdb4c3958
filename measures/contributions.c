#include "measures/contributions.h"

#include <string.h>

enum { MAX_MIB = 1024 };

bool contributions_begin(Contributions *contributions, size_t copies, Arena *arena, Error *error) {
    size_t n_senders = contributions->graph->n_senders, d = model_config(contributions->model)->d_model;
    size_t limit = ((size_t)MAX_MIB << 20) / sizeof(float) / copies / n_senders / d;
    if (contributions->n > limit)
        return error_set(
            error,
            "what heads and MLPs add would take more than %d MiB: shorten the text from %zu tokens to %zu",
            MAX_MIB, contributions->n, limit);
    contributions->rows = arena_new(arena, n_senders * contributions->n, d * sizeof(float));
    contributions->added = arena_floats(arena, 1, d);
    contributions->sum = arena_floats(arena, 1, d);
    return arena_ok(arena, error, "what heads and MLPs add at %zu tokens", contributions->n);
}

bool contributions_want(const Contributions *contributions, ProbeSite site, size_t layer) {
    (void)contributions;
    return site == PROBE_RESULT || site == PROBE_ATTN_OUT || site == PROBE_MLP_OUT ||
           (site == PROBE_RESID_PRE && layer == 0);
}

static void keep(const Contributions *contributions, PartKind kind, const Activation *seen) {
    size_t sender = sender_of(contributions->graph, (Part){kind, seen->layer, seen->head});
    memcpy(contribution(contributions, sender, seen->position), seen->data,
           seen->n_rows * seen->n_cols * sizeof *seen->data);
}

/* y += x */
static void add(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

/* A head's row behind the norm whose scale is that of all heads' sum. */
static void put_through(const Norm *norm, double scale, float *row) {
    double mean = norm_mean(norm, row);
    for (size_t i = 0; i < norm->n; i++)
        row[i] = (float)(((double)row[i] - mean) / scale * (double)norm->gain[i]);
}

/* The norm behind attention divides by this at a position. */
static double scale_behind(const Contributions *contributions, const LayerWeights *w, size_t first,
                           size_t position) {
    size_t d = w->attn_post_norm.n;
    const float *bias = w->attention.out.bias;
    for (size_t i = 0; i < d; i++) contributions->sum[i] = bias ? bias[i] : 0;
    for (size_t head = 0; head < contributions->graph->n_head; head++)
        add(contributions->sum, contribution(contributions, first + head, position), d);
    return norm_scale(&w->attn_post_norm, contributions->sum);
}

/* From z W_O of each head at a position to its part of what attention adds there. */
static void share_out(const Contributions *contributions, size_t layer, size_t position, const float *added) {
    const Config *config = model_config(contributions->model);
    const LayerWeights *w = &model_weights(contributions->model)->layers[layer];
    size_t d = config->d_model, first = sender_of(contributions->graph, (Part){PART_HEAD, layer, 0});
    bool normed = w->attn_post_norm.gain;
    double scale = normed ? scale_behind(contributions, w, first, position) : 1;
    float *rest = contributions->added;
    memcpy(rest, added, d * sizeof *rest);
    for (size_t head = 0; head < config->n_head; head++) {
        float *row = contribution(contributions, first + head, position);
        if (normed) put_through(&w->attn_post_norm, scale, row);
        for (size_t i = 0; i < d; i++) {
            row[i] *= config->residual_scale;
            rest[i] -= row[i];
        }
    }
    for (size_t i = 0; i < d; i++) rest[i] /= (float)config->n_head;
    for (size_t head = 0; head < config->n_head; head++)
        add(contribution(contributions, first + head, position), rest, d);
}

void contributions_add(const Contributions *contributions, const Activation *seen) {
    switch (seen->site) {
    case PROBE_RESID_PRE: keep(contributions, PART_EMBED, seen); break;
    case PROBE_RESULT: keep(contributions, PART_HEAD, seen); break;
    case PROBE_MLP_OUT: keep(contributions, PART_MLP, seen); break;
    default:
        if (graph_keeps_state(contributions->graph, seen->layer)) {
            keep(contributions, PART_STATE, seen);
            break;
        }
        for (size_t i = 0; i < seen->n_rows; i++)
            share_out(contributions, seen->layer, seen->position + i, seen->data + i * seen->stride);
    }
}
