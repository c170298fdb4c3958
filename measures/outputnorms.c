#include "measures/outputnorms.h"

#include "measures/scores.h"

#include <math.h>

enum { MAX_KEPT_MIB = 64 /* of the matrices, from one subject to the next */ };

/* W_O [d_model][n_head·d_head] as head_output scales it, the columns [first, first + n) of it. */
static float *output_columns(const Subject *subject, Arena *arena, size_t layer, size_t first, size_t n,
                             Error *error) {
    const LayerWeights *weights = &model_weights(subject->model)->layers[layer];
    const Matrix *w = &weights->attention.out.w;
    const float *gain = weights->attn_post_norm.gain;
    size_t row_bytes = dtype_bytes(w->dtype, w->cols);
    float *columns = arena_floats(arena, w->rows, n), *row = arena_floats(arena, 1, w->cols);
    if (!arena_ok(arena, error, "the output projection of a head")) return NULL;
    for (size_t r = 0; r < w->rows; r++) {
        /* Blocks of a quantised type may straddle heads: whole rows are unpacked. */
        subject->compute.kernels->unpack(row, w->dtype, (const char *)w->data + r * row_bytes, w->cols);
        float factor = model_config(subject->model)->residual_scale * (gain ? gain[r] : 1);
        for (size_t i = 0; i < n; i++) columns[r * n + i] = row[first + i] * factor;
    }
    return columns;
}

float *head_output(const Subject *subject, Arena *arena, size_t layer, size_t head, Error *error) {
    size_t d_head = model_config(subject->model)->d_head;
    return output_columns(subject, arena, layer, head * d_head, d_head, error);
}

/* The heads of a layer whose matrices are made. */
typedef struct GramLoop {
    const float *w; /* [rows][n_heads·d_head] */
    size_t rows, n_heads, d_head;
    double **grams; /* [n_heads], zero */
} GramLoop;

static void make_grams(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const GramLoop *loop = context;
    size_t n = loop->d_head;
    for (size_t head = begin; head < end; head++) {
        const float *w = loop->w + head * n;
        for (size_t r = 0; r < loop->rows; r++, w += loop->n_heads * n)
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j <= i; j++) loop->grams[head][i * n + j] += (double)w[i] * (double)w[j];
    }
}

/* What is kept of a head's matrix, or NULL. */
static double **kept_gram(const Subject *subject, size_t layer, size_t head) {
    Kept *kept = subject->kept;
    const Config *config = model_config(subject->model);
    if (kept && !kept->grams)
        kept->grams = arena_new(&kept->weights, config->n_layer, config->n_head * sizeof *kept->grams);
    return kept && kept->grams ? &kept->grams[layer * config->n_head + head] : NULL;
}

/* The matrices of a layer's heads, kept where they may be. */
static bool find_grams(const OutputNorms *norms, Arena *arena, size_t layer, const double **grams,
                       Error *error) {
    const Subject *subject = norms->subject;
    size_t d_head = model_config(subject->model)->d_head, n = norms->n_heads, bytes = sizeof(double);
    Kept *kept = subject->kept;
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        double **known = kept_gram(subject, layer, norms->head + i);
        grams[i] = known ? *known : NULL;
        all = all && grams[i];
    }
    if (all) return true;
    bytes *= d_head * d_head;
    bool keeps = kept && kept->grams && !kept->weights.refused &&
                 kept->gram_bytes + n * bytes <= (size_t)MAX_KEPT_MIB << 20;
    Arena scratch = {0}, *owner = keeps ? &kept->weights : arena;
    float *w = output_columns(subject, &scratch, layer, norms->head * d_head, n * d_head, error);
    double **made = arena_new(&scratch, n, sizeof *made), *room = arena_new(owner, n, bytes);
    bool ok = w && arena_ok(&scratch, error, "%zu heads", n) &&
              arena_ok(owner, error, "the values of %zu heads; choose fewer layers", n);
    for (size_t i = 0; ok && i < n; i++) grams[i] = made[i] = room + i * d_head * d_head;
    if (ok) {
        GramLoop loop = {w, model_config(subject->model)->d_model, n, d_head, made};
        parallel_for(subject->compute.threads, n, 1, make_grams, &loop);
    }
    for (size_t i = 0; ok && keeps && i < n; i++) *kept_gram(subject, layer, norms->head + i) = made[i];
    if (ok && keeps) kept->gram_bytes += n * bytes;
    arena_free(&scratch);
    return ok;
}

/* √(vᵀ G v) */
static double norm_under(const double *gram, const float *v, size_t n, double *product) {
    double square = 0;
    for (size_t i = 0; i < n; i++) product[i] = gram[i * n + i] * (double)v[i];
    for (size_t i = 1; i < n; i++)
        for (size_t j = 0; j < i; j++) product[j] += 2 * (double)v[i] * gram[i * n + j];
    for (size_t i = 0; i < n; i++) square += (double)v[i] * product[i];
    return square > 0 ? sqrt(square) : 0;
}

static size_t place_of(const OutputNorms *norms, size_t layer, size_t head) {
    return (layer - norms->layer) * norms->n_heads + head - norms->head;
}

bool output_norms_begin(OutputNorms *norms, const Subject *subject, Arena *arena, size_t n_positions,
                        Error *error) {
    size_t n = norms->n_layers * norms->n_heads;
    bool made = norms->grams;
    norms->subject = subject;
    norms->n_positions = n_positions;
    if (!made) norms->grams = arena_new(arena, n, sizeof *norms->grams);
    norms->norms = arena_new(arena, n, n_positions * sizeof *norms->norms);
    norms->product = arena_new(arena, model_config(subject->model)->d_head, sizeof *norms->product);
    if (!arena_ok(arena, error, "the values of %zu heads; choose fewer layers", n)) return false;
    for (size_t i = 0; !made && i < norms->n_layers; i++) {
        size_t layer = norms->layer + i;
        if ((norms->layers && !norms->layers[layer]) || !layer_has_heads(subject->model, layer)) continue;
        if (!find_grams(norms, arena, layer, norms->grams + i * norms->n_heads, error)) return false;
    }
    return true;
}

void output_norms_add(OutputNorms *norms, const Activation *seen) {
    const Config *config = model_config(norms->subject->model);
    for (size_t head = norms->head; head < norms->head + norms->n_heads; head++) {
        if (seen->head != (seen->site == PROBE_Z ? head : kv_head_of(config, head))) continue;
        size_t place = place_of(norms, seen->layer, head);
        double *out = norms->norms + place * norms->n_positions + seen->position;
        for (size_t t = 0; t < seen->n_rows; t++)
            out[t] = norm_under(norms->grams[place], seen->data + t * seen->stride, config->d_head,
                                norms->product);
    }
}

const double *output_norms_of(const OutputNorms *norms, size_t layer, size_t head) {
    return norms->norms + place_of(norms, layer, head) * norms->n_positions;
}
