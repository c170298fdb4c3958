#include "measures/writes.h"

#include "measures/distribution.h"
#include "measures/scores.h"

bool writes_begin(Writes *writes, const Subject *subject, Arena *arena, const bool *layers,
                  const OutputNorms *same, Error *error) {
    const Config *config = model_config(subject->model);
    size_t n_layer = config->n_layer, n = subject->tokens.n;
    *writes = (Writes){
        .subject = subject,
        .n_layer = n_layer,
        .n = n,
        .resid = arena_new(arena, n_layer + 1, n * sizeof *writes->resid),
        .attn = arena_new(arena, n_layer, n * sizeof *writes->attn),
        .mlp = arena_new(arena, n_layer, n * sizeof *writes->mlp),
    };
    if (!arena_ok(arena, error, "%zu layers over %zu tokens", n_layer, n)) return false;
    if (has_gated_heads(subject->model)) return true;
    writes->heads = (OutputNorms){
        .n_layers = n_layer, .n_heads = config->n_head, .layers = layers, .roots = same ? same->roots : NULL};
    return output_norms_begin(&writes->heads, subject, arena, n, error);
}

bool writes_want(const Writes *writes, ProbeSite site, size_t layer) {
    switch (site) {
    case PROBE_RESID_PRE:
    case PROBE_ATTN_OUT:
    case PROBE_MLP_OUT: return true;
    case PROBE_RESID_POST: return layer + 1 == writes->n_layer;
    case PROBE_Z: return writes->heads.n_heads > 0 && writes->heads.layers[layer];
    default: return false;
    }
}

void writes_add(Writes *writes, const Activation *seen) {
    double *to = seen->site == PROBE_ATTN_OUT  ? writes->attn
                 : seen->site == PROBE_MLP_OUT ? writes->mlp
                                               : writes->resid;
    size_t row = seen->layer + (seen->site == PROBE_RESID_POST);
    if (seen->site == PROBE_Z) {
        output_norms_add(&writes->heads, seen);
        return;
    }
    for (size_t t = 0; t < seen->n_rows; t++)
        to[row * writes->n + seen->position + t] = vector_norm(seen->data + t * seen->stride, seen->n_cols);
}
