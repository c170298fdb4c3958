#include "measures/outputnorms.h"

#include <math.h>

float *head_output(const Subject *subject, Arena *arena, size_t layer, size_t head, Error *error) {
    const Config *config = model_config(subject->model);
    const LayerWeights *weights = &model_weights(subject->model)->layers[layer];
    const Matrix *w = &weights->attention.out.w;
    const float *gain = weights->attn_post_norm.gain;
    size_t d_head = config->d_head, row_bytes = dtype_bytes(w->dtype, w->cols);
    float *columns = arena_floats(arena, w->rows, d_head), *row = arena_floats(arena, 1, w->cols);
    if (!arena_ok(arena, error, "the output projection of a head")) return NULL;
    for (size_t r = 0; r < w->rows; r++) {
        /* Blocks of a quantised type may straddle heads: whole rows are unpacked. */
        subject->compute.kernels->unpack(row, w->dtype, (const char *)w->data + r * row_bytes, w->cols);
        float factor = config->residual_scale * (gain ? gain[r] : 1);
        for (size_t i = 0; i < d_head; i++) columns[r * d_head + i] = row[head * d_head + i] * factor;
    }
    return columns;
}

/* gram [n][n] = WᵀW of w [rows][n]. */
static void gram_of(double *gram, const float *w, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++, w += n)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++) gram[i * n + j] += (double)w[i] * (double)w[j];
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) gram[i * n + j] = gram[j * n + i];
}

/* √(vᵀ G v) */
static double norm_under(const double *gram, const float *v, size_t n) {
    double square = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++) sum += gram[i * n + j] * (double)v[j];
        square += (double)v[i] * sum;
    }
    return square > 0 ? sqrt(square) : 0;
}

static size_t place_of(const OutputNorms *norms, size_t layer, size_t head) {
    return (layer - norms->layer) * norms->n_heads + head - norms->head;
}

bool output_norms_begin(OutputNorms *norms, const Subject *subject, Arena *arena, size_t n_positions,
                        Error *error) {
    const Config *config = model_config(subject->model);
    size_t n = norms->n_layers * norms->n_heads, d_head = config->d_head;
    norms->subject = subject;
    norms->n_positions = n_positions;
    norms->grams = arena_new(arena, n, d_head * d_head * sizeof *norms->grams);
    norms->norms = arena_new(arena, n, n_positions * sizeof *norms->norms);
    if (!arena_ok(arena, error, "the values of %zu heads; choose fewer layers", n)) return false;
    for (size_t i = 0; i < n; i++) {
        size_t layer = norms->layer + i / norms->n_heads, head = norms->head + i % norms->n_heads;
        if (norms->layers && !norms->layers[layer]) continue;
        Arena scratch = {0};
        float *w = head_output(subject, &scratch, layer, head, error);
        if (w) gram_of(norms->grams + i * d_head * d_head, w, config->d_model, d_head);
        arena_free(&scratch);
        if (!w) return false;
    }
    return true;
}

void output_norms_add(OutputNorms *norms, const Activation *seen) {
    const Config *config = model_config(norms->subject->model);
    size_t d_head = config->d_head;
    for (size_t head = norms->head; head < norms->head + norms->n_heads; head++) {
        if (kv_head_of(config, head) != seen->head) continue;
        size_t place = place_of(norms, seen->layer, head);
        const double *gram = norms->grams + place * d_head * d_head;
        double *out = norms->norms + place * norms->n_positions + seen->position;
        for (size_t t = 0; t < seen->n_rows; t++)
            out[t] = norm_under(gram, seen->data + t * seen->stride, d_head);
    }
}

const double *output_norms_of(const OutputNorms *norms, size_t layer, size_t head) {
    return norms->norms + place_of(norms, layer, head) * norms->n_positions;
}
