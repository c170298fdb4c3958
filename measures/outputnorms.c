#include "measures/outputnorms.h"

#include "measures/distribution.h"
#include "measures/scores.h"

#include <math.h>
#include <string.h>

enum { MAX_KEPT_MIB = 64 /* of the matrices, from one subject to the next */ };

float *head_outputs(const Subject *subject, Arena *arena, size_t layer, size_t head, size_t n_heads,
                    Error *error) {
    const LayerWeights *weights = &model_weights(subject->model)->layers[layer];
    const Matrix *w = &weights->attention.out.w;
    const float *gain = weights->attn_post_norm.gain;
    size_t d_head = model_config(subject->model)->d_head, first = head * d_head, n = n_heads * d_head;
    float *columns = arena_floats(arena, w->rows, n), *row = arena_floats(arena, 1, w->cols);
    if (!arena_ok(arena, error, "the output projection of %zu heads", n_heads)) return NULL;
    for (size_t r = 0; r < w->rows; r++) {
        /* Blocks of a quantised type may straddle heads: whole rows are unpacked. */
        matrix_row(subject->compute.kernels, w, r, row);
        float factor = model_config(subject->model)->residual_scale * (gain ? gain[r] : 1);
        for (size_t i = 0; i < n; i++) columns[r * n + i] = row[first + i] * factor;
    }
    return columns;
}

/* The heads of a layer whose matrices are made. */
typedef struct RootLoop {
    const float *w; /* [rows][n_heads·d_head] */
    size_t rows, n_heads, d_head;
    double *grams; /* [n_heads][d_head][d_head], zero */
    float **roots; /* [n_heads] */
} RootLoop;

/* Cholesky's L of a positive semidefinite matrix, whose lower triangle it takes the place of. */
static void take_root(double *a, size_t n) {
    for (size_t j = 0; j < n; j++) {
        double pivot = a[j * n + j], least = 1e-12 * pivot;
        for (size_t k = 0; k < j; k++) pivot -= a[j * n + k] * a[j * n + k];
        double root =
            pivot > least ? sqrt(pivot) : 0; /* a column that depends on those before adds nothing */
        a[j * n + j] = root;
        for (size_t i = j + 1; i < n; i++) {
            double sum = a[i * n + j];
            for (size_t k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
            a[i * n + j] = root > 0 ? sum / root : 0;
        }
    }
}

static void make_roots(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const RootLoop *loop = context;
    size_t n = loop->d_head;
    for (size_t head = begin; head < end; head++) {
        const float *w = loop->w + head * n;
        double *gram = loop->grams + head * n * n;
        for (size_t r = 0; r < loop->rows; r++, w += loop->n_heads * n)
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j <= i; j++) gram[i * n + j] += (double)w[i] * (double)w[j];
        take_root(gram, n);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) loop->roots[head][i * n + j] = j <= i ? (float)gram[i * n + j] : 0;
    }
}

/* The numbers that are kept of a head's matrix, or NULL. */
static float **kept_root(const Subject *subject, size_t layer, size_t head) {
    SubjectCache *cache = subject->cache;
    const Config *config = model_config(subject->model);
    if (cache && !cache->roots)
        cache->roots = arena_new(&cache->weights, config->n_layer, config->n_head * sizeof *cache->roots);
    return cache && cache->roots ? &cache->roots[layer * config->n_head + head] : NULL;
}

/* The matrices of a layer's heads, kept where they may be. */
static bool find_roots(const OutputNorms *norms, Arena *arena, size_t layer, const float **roots,
                       Error *error) {
    const Subject *subject = norms->subject;
    size_t d_head = model_config(subject->model)->d_head, n = norms->n_heads, size = d_head * d_head,
           bytes = n * size * sizeof(float);
    SubjectCache *cache = subject->cache;
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        float **known = kept_root(subject, layer, norms->head + i);
        roots[i] = known ? *known : NULL;
        all = all && roots[i];
    }
    if (all) return true;
    bool keeps = cache && !cache->weights.refused && cache->root_bytes + bytes <= (size_t)MAX_KEPT_MIB << 20;
    Arena scratch = {0}, *owner = keeps ? &cache->weights : arena;
    float **made = arena_new(&scratch, n, sizeof *made), *room = arena_floats(owner, n, size);
    RootLoop loop = {
        .w = head_outputs(subject, &scratch, layer, norms->head, n, error),
        .rows = model_config(subject->model)->d_model,
        .n_heads = n,
        .d_head = d_head,
        .grams = arena_new(&scratch, n, size * sizeof *loop.grams),
        .roots = made,
    };
    bool ok = loop.w && arena_ok(&scratch, error, "%zu heads", n) &&
              arena_ok(owner, error, "the values of %zu heads; choose fewer layers", n);
    for (size_t i = 0; ok && i < n; i++) roots[i] = made[i] = room + i * size;
    if (ok) parallel_for(subject->compute.threads, n, 1, make_roots, &loop);
    for (size_t i = 0; ok && keeps && i < n; i++) *kept_root(subject, layer, norms->head + i) = made[i];
    if (ok && keeps) cache->root_bytes += bytes;
    arena_free(&scratch);
    return ok;
}

/* ‖v L‖ of the rows seen; each alone, so that it does not matter how they came together. */
static void norms_of(const OutputNorms *norms, const float *root, const Activation *seen, double *out) {
    const Kernels *kernels = norms->subject->compute.kernels;
    size_t n = seen->n_cols;
    for (size_t done = 0, m; done < seen->n_rows; done += m) {
        m = at_most(seen->n_rows - done, PACKED_TOKENS);
        memset(norms->product, 0, m * n * sizeof *norms->product);
        (kernels->few_sums ? kernels->few_sums : kernels->weighted_sums)(
            norms->product, n, seen->data + done * seen->stride, seen->stride, m, DTYPE_F32, root, n, n, n);
        for (size_t t = 0; t < m; t++) out[done + t] = vector_norm(norms->product + t * n, n);
    }
}

static size_t place_of(const OutputNorms *norms, size_t layer, size_t head) {
    return (layer - norms->layer) * norms->n_heads + head - norms->head;
}

bool output_norms_begin(OutputNorms *norms, const Subject *subject, Arena *arena, size_t n_positions,
                        Error *error) {
    size_t n = norms->n_layers * norms->n_heads;
    bool made = norms->roots;
    norms->subject = subject;
    norms->n_positions = n_positions;
    if (!made) norms->roots = arena_new(arena, n, sizeof *norms->roots);
    norms->norms = arena_new(arena, n, n_positions * sizeof *norms->norms);
    norms->product = arena_floats(arena, PACKED_TOKENS, model_config(subject->model)->d_head);
    if (!arena_ok(arena, error, "the values of %zu heads; choose fewer layers", n)) return false;
    for (size_t i = 0; !made && i < norms->n_layers; i++) {
        size_t layer = norms->layer + i;
        if ((norms->layers && !norms->layers[layer]) || !layer_has_heads(subject->model, layer)) continue;
        if (!find_roots(norms, arena, layer, norms->roots + i * norms->n_heads, error)) return false;
    }
    return true;
}

void output_norms_add(OutputNorms *norms, const Activation *seen) {
    const Config *config = model_config(norms->subject->model);
    for (size_t head = norms->head; head < norms->head + norms->n_heads; head++) {
        if (seen->head != (seen->site == PROBE_Z ? head : kv_head_of(config, head))) continue;
        size_t place = place_of(norms, seen->layer, head);
        norms_of(norms, norms->roots[place], seen,
                 norms->norms + place * norms->n_positions + seen->position);
    }
}

const double *output_norms_of(const OutputNorms *norms, size_t layer, size_t head) {
    return norms->norms + place_of(norms, layer, head) * norms->n_positions;
}
