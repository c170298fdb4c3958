#include "measures/circuit.h"

#include "measures/outputnorms.h"

#include <math.h>
#include <string.h>

enum { BATCH = 64 /* tokens read at a time */ };

static void center(float *row, size_t d) {
    double mean = 0;
    for (size_t i = 0; i < d; i++) mean += (double)row[i] / (double)d;
    for (size_t i = 0; i < d; i++) row[i] = (float)((double)row[i] - mean);
}

/* Whether the stream's mean is lost on the way to whoever reads it: then nothing that is written need have one. */
static bool centers(const Subject *subject) {
    return model_weights(subject->model)->final_norm.kind == NORM_LAYER;
}

void circuit_embed(const Circuit *circuit, size_t first, size_t n, float *rows) {
    const Subject *subject = circuit->subject;
    const Weights *weights = model_weights(subject->model);
    size_t d = circuit->d_model;
    for (size_t t = 0; t < n; t++, rows += d) {
        matrix_row(subject->compute.kernels, &weights->embedding, first + t, rows);
        for (size_t i = 0; i < d; i++) rows[i] *= model_config(subject->model)->embedding_scale;
        if (weights->embedding_norm.gain)
            norm_row(subject->compute.kernels, &weights->embedding_norm, rows, rows, d);
        if (centers(subject)) center(rows, d);
    }
}

void circuit_unembed(const Circuit *circuit, size_t first, size_t n, float *rows) {
    const Subject *subject = circuit->subject;
    const Weights *weights = model_weights(subject->model);
    const float *gain = weights->final_norm.gain;
    size_t d = circuit->d_model;
    for (size_t t = 0; t < n; t++, rows += d) {
        matrix_row(subject->compute.kernels, &weights->unembedding.w, first + t, rows);
        for (size_t i = 0; i < d; i++)
            rows[i] = (rows[i] - circuit->mean_row[i]) * gain[i] * model_config(subject->model)->logit_scale;
        if (centers(subject)) center(rows, d);
    }
}

static bool find_mean(Circuit *circuit, Arena *arena, Error *error) {
    size_t d = circuit->d_model;
    double *mean = arena_new(arena, d, sizeof *mean);
    float *row = arena_floats(arena, 1, d);
    circuit->mean_row = arena_new(arena, d, sizeof *circuit->mean_row);
    if (!arena_ok(arena, error, "a mean of %zu numbers", d)) return false;
    for (size_t id = 0; id < circuit->n_vocab; id++) {
        matrix_row(circuit->subject->compute.kernels, &model_weights(circuit->subject->model)->unembedding.w,
                   id, row);
        for (size_t i = 0; i < d; i++) mean[i] += (double)row[i] / (double)circuit->n_vocab;
    }
    for (size_t i = 0; i < d; i++) circuit->mean_row[i] = (float)mean[i];
    return true;
}

/* Some tokens, whose products are added to the sums. */
typedef struct SumLoop {
    const Circuit *circuit;
    const float *e, *u; /* [n][d_model] */
    size_t n;
} SumLoop;

static void add_rows(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const SumLoop *loop = context;
    size_t d = loop->circuit->d_model;
    for (size_t i = begin; i < end; i++)
        for (size_t t = 0; t < loop->n; t++) {
            double x = (double)loop->e[t * d + i], *copy = loop->circuit->copy + i * d,
                   *same = loop->circuit->same + i * d;
            const float *e = loop->e + t * d, *u = loop->u + t * d;
            for (size_t j = 0; j < d; j++) copy[j] += x * (double)u[j];
            for (size_t j = 0; j < d; j++) same[j] += x * (double)e[j];
        }
}

static bool find_sums(Circuit *circuit, Arena *arena, Error *error) {
    size_t d = circuit->d_model, n_vocab = circuit->n_vocab;
    float *e = arena_floats(arena, BATCH, d), *u = arena_floats(arena, BATCH, d);
    circuit->copy = arena_new(arena, d, d * sizeof *circuit->copy);
    circuit->same = arena_new(arena, d, d * sizeof *circuit->same);
    if (!arena_ok(arena, error, "%zu x %zu numbers", d, d)) return false;
    for (size_t done = 0, n; done < n_vocab; done += n) {
        n = at_most(n_vocab - done, BATCH);
        if (!subject_go_on(circuit->subject, "tokens", done, n_vocab, error)) return false;
        circuit_embed(circuit, done, n, e);
        circuit_unembed(circuit, done, n, u);
        SumLoop loop = {circuit, e, u, n};
        parallel_for(circuit->subject->compute.threads, d, 16, add_rows, &loop);
    }
    subject_go_on(circuit->subject, "tokens", n_vocab, n_vocab, NULL);
    return true;
}

bool circuit_begin(Circuit *circuit, const Subject *subject, Arena *arena, bool sums, Error *error) {
    const Config *config = model_config(subject->model);
    *circuit = (Circuit){subject, config->d_model, config->d_head, config->n_vocab, NULL, NULL, NULL};
    return find_mean(circuit, arena, error) && (!sums || find_sums(circuit, arena, error));
}

/* The gain of a norm of queries or keys, of number i of a head's. */
static float head_gain(const Norm *norm, size_t head, size_t d_head, size_t i) {
    if (!norm->gain) return 1;
    return norm->gain[norm->own_gains ? head * d_head + i : (head * d_head + i) % norm->n];
}

/* d_head rows of a matrix that reads the stream, from `first` on, with the norms' gains. */
static void fold_rows(const Subject *subject, const LayerWeights *layer, const Matrix *w, size_t first,
                      const Norm *norm, size_t head, float *rows) {
    size_t d = w->cols, d_head = model_config(subject->model)->d_head;
    const Norm *before = &layer->attn_norm;
    for (size_t r = 0; r < d_head; r++, rows += d) {
        float gain = norm ? head_gain(norm, head, d_head, r) : 1;
        matrix_row(subject->compute.kernels, w, first + r, rows);
        for (size_t i = 0; i < d; i++) rows[i] *= gain * (before->gain ? before->gain[i] : 1);
        if (before->gain && before->kind == NORM_LAYER) center(rows, d);
    }
}

bool circuit_head(const Circuit *circuit, Arena *arena, size_t layer, size_t head, HeadWeights *weights,
                  Error *error) {
    const Subject *subject = circuit->subject;
    const Config *config = model_config(subject->model);
    const LayerWeights *w = &model_weights(subject->model)->layers[layer];
    size_t d = circuit->d_model, n = circuit->d_head, kv_head = kv_head_of(config, head),
           q_rows = config->family->gated_attention ? 2 * n : n;
    Arena scratch = {0};
    *weights = (HeadWeights){arena_floats(arena, n, d), arena_floats(arena, n, d), arena_floats(arena, n, d),
                             arena_floats(arena, n, d)};
    const float *columns = head_outputs(subject, &scratch, layer, head, 1, error);
    bool ok = columns && arena_ok(arena, error, "the weights of a head");
    if (ok) {
        fold_rows(subject, w, &w->attention.q.w, head * q_rows, &w->attention.q_norm, head, weights->q);
        fold_rows(subject, w, &w->attention.k.w, kv_head * n, &w->attention.k_norm, kv_head, weights->k);
        fold_rows(subject, w, &w->attention.v.w, kv_head * n, NULL, 0, weights->v);
        const RopeConfig *rope = config_rope(config, layer); /* at relative position 0, but longer (YaRN, LongRoPE) */
        for (size_t i = 0; rope && i < rope->dim * d; i++)
            weights->q[i] *= (float)rope->magnitude, weights->k[i] *= (float)rope->magnitude;
    }
    for (size_t i = 0; ok && i < n; i++) {
        for (size_t r = 0; r < d; r++) weights->o[i * d + r] = columns[r * n + i];
        if (centers(subject)) center(weights->o + i * d, d);
    }
    arena_free(&scratch);
    return ok;
}

void rows_product(const float *a, const float *b, size_t n, size_t d, double *product) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t k = 0; k < d; k++) sum += (double)a[i * d + k] * (double)b[j * d + k];
            product[i * n + j] = sum;
        }
}

/* c = A B */
static void multiply(const double *a, const double *b, size_t n, double *c) {
    memset(c, 0, n * n * sizeof *c);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

/* ‖Aᵀ P B‖² = tr(Pᵀ A Aᵀ P B Bᵀ) = Σ_ij (A Aᵀ P)_ij (P B Bᵀ)_ij */
double sandwich_norm(const double *aa, const double *p, const double *bb, size_t n, double *scratch) {
    double sum = 0;
    multiply(aa, p, n, scratch);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double right = 0;
            for (size_t k = 0; k < n; k++) right += p[i * n + k] * bb[k * n + j];
            sum += scratch[i * n + j] * right;
        }
    return sqrt(fmax(sum, 0));
}

/* Rows of a circuit, times a matrix of the tokens. */
typedef struct ProductLoop {
    const float *a, *b; /* [n][d] */
    const double *sums; /* [d][d] */
    size_t n, d;
    double *rows;    /* [n][d] scratch */
    double *product; /* [n][n] */
} ProductLoop;

static void multiply_rows(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const ProductLoop *loop = context;
    size_t n = loop->n, d = loop->d;
    for (size_t r = begin; r < end; r++) {
        double *row = loop->rows + r * d;
        memset(row, 0, d * sizeof *row);
        for (size_t i = 0; i < d; i++) {
            double x = (double)loop->a[r * d + i];
            for (size_t j = 0; j < d; j++) row[j] += x * loop->sums[i * d + j];
        }
        for (size_t c = 0; c < n; c++) {
            double sum = 0;
            for (size_t j = 0; j < d; j++) sum += row[j] * (double)loop->b[c * d + j];
            loop->product[r * n + c] = sum;
        }
    }
}

/* A·sums·Bᵀ [n][n]: its eigenvalues are those of the full circuit that are not 0. */
static void full_product(const Circuit *circuit, const float *a, const float *b, const double *sums,
                         double *rows, double *product) {
    ProductLoop loop = {a, b, sums, circuit->d_head, circuit->d_model, rows, product};
    parallel_for(circuit->subject->compute.threads, circuit->d_head, 1, multiply_rows, &loop);
}

/* Σλ/Σ|λ|: the sum is real, for λ come in pairs. */
static bool trace_share(double *product, size_t n, Eigenvalue *values, double *share, Error *error) {
    double sum = 0, sizes = 0;
    if (!eigenvalues(product, n, values))
        return error_set(error, "a head's weights are not finite, or its eigenvalues are not found");
    for (size_t i = 0; i < n; i++) {
        sum += values[i].re;
        sizes += hypot(values[i].re, values[i].im);
    }
    *share = sizes > 0 ? sum / sizes : 0;
    return true;
}

bool circuit_scores(const Circuit *circuit, const HeadWeights *weights, CircuitScores *scores,
                    Eigenvalue *values, Error *error) {
    size_t n = circuit->d_head, d = circuit->d_model;
    Arena scratch = {0};
    double *product = arena_new(&scratch, n, n * sizeof *product),
           *aa = arena_new(&scratch, n, n * sizeof *aa), *bb = arena_new(&scratch, n, n * sizeof *bb),
           *rows = arena_new(&scratch, n, d * sizeof *rows);
    Eigenvalue *own = arena_new(&scratch, n, sizeof *own);
    bool ok = arena_ok(&scratch, error, "the products of a head");
    if (ok) {
        rows_product(weights->o, weights->o, n, d, aa);
        rows_product(weights->v, weights->v, n, d, bb);
        scores->ov_norm = 0;
        for (size_t i = 0; i < n * n; i++) scores->ov_norm += aa[i] * bb[i];
        scores->ov_norm = sqrt(scores->ov_norm);
        rows_product(weights->q, weights->q, n, d, aa);
        rows_product(weights->k, weights->k, n, d, bb);
        scores->qk_norm = 0;
        for (size_t i = 0; i < n * n; i++) scores->qk_norm += aa[i] * bb[i];
        scores->qk_norm = sqrt(scores->qk_norm);
        rows_product(weights->v, weights->o, n, d, product);
        ok = trace_share(product, n, own, &scores->ov_copying, error);
    }
    if (ok) {
        full_product(circuit, weights->k, weights->q, circuit->same, rows, product);
        ok = trace_share(product, n, own, &scores->matching, error);
    }
    if (ok) {
        full_product(circuit, weights->v, weights->o, circuit->copy, rows, product);
        ok = trace_share(product, n, values ? values : own, &scores->copying, error);
    }
    arena_free(&scratch);
    return ok;
}
