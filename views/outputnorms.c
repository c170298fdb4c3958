#include "views/outputnorms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float *head_output(const Study *study, size_t layer, size_t head, Error *error) {
    const Config *config = model_config(study->model);
    const Matrix *w = &model_weights(study->model)->layers[layer].attention.out.w;
    size_t d_head = config->d_head, row_bytes = dtype_bytes(w->dtype, w->cols);
    float *columns = floats_new(w->rows, d_head), *row = floats_new(1, w->cols);
    for (size_t r = 0; columns && row && r < w->rows; r++) {
        /* Blocks of a quantised type may straddle heads: whole rows are unpacked. */
        study->compute.kernels->unpack(row, w->dtype, (const char *)w->data + r * row_bytes, w->cols);
        memcpy(columns + r * d_head, row + head * d_head, d_head * sizeof *row);
    }
    if (!columns || !row) {
        error_set(error, "not enough memory for the output projection of a head");
        free(columns);
        columns = NULL;
    }
    free(row);
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

static bool counts(const OutputNorms *norms, size_t layer) { return !norms->layers || norms->layers[layer]; }

static size_t place_of(const OutputNorms *norms, size_t layer, size_t head) {
    return (layer - norms->layer) * norms->n_heads + head - norms->head;
}

bool output_norms_begin(OutputNorms *norms, const Study *study, size_t n_positions, Error *error) {
    const Config *config = model_config(study->model);
    size_t n = norms->n_layers * norms->n_heads, d_head = config->d_head;
    norms->study = study;
    norms->n_positions = n_positions;
    norms->grams = calloc(n, d_head * d_head * sizeof *norms->grams);
    norms->norms = calloc(n, n_positions * sizeof *norms->norms);
    if (!norms->grams || !norms->norms)
        return error_set(error, "not enough memory for the values of %zu heads; choose fewer layers", n);
    for (size_t i = 0; i < n; i++) {
        size_t layer = norms->layer + i / norms->n_heads, head = norms->head + i % norms->n_heads;
        if (!counts(norms, layer)) continue;
        float *w = head_output(study, layer, head, error);
        if (!w) return false;
        gram_of(norms->grams + i * d_head * d_head, w, config->d_model, d_head);
        free(w);
    }
    return true;
}

void output_norms_free(OutputNorms *norms) {
    free(norms->grams);
    free(norms->norms);
}

void output_norms_add(OutputNorms *norms, const ProbeView *view) {
    const Config *config = model_config(norms->study->model);
    size_t d_head = config->d_head;
    for (size_t head = norms->head; head < norms->head + norms->n_heads; head++) {
        if (kv_head_of(config, head) != view->head) continue;
        size_t place = place_of(norms, view->layer, head);
        const double *gram = norms->grams + place * d_head * d_head;
        double *out = norms->norms + place * norms->n_positions + view->position;
        for (size_t t = 0; t < view->n_rows; t++)
            out[t] = norm_under(gram, view->data + t * view->stride, d_head);
    }
}

const double *output_norms_of(const OutputNorms *norms, size_t layer, size_t head) {
    return norms->norms + place_of(norms, layer, head) * norms->n_positions;
}
