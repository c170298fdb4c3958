#include "measures/attribution.h"

#include "gradients/linear_back.h"
#include "measures/distribution.h"
#include "measures/frozennorm.h"

#include <math.h>
#include <string.h>

/* Whether a head's sources are wanted. */
static bool is_wanted(const Attribution *a, size_t layer, size_t head) {
    for (size_t i = 0; i < a->n_heads; i++)
        if (a->heads[i].layer == layer && a->heads[i].head == head) return true;
    return false;
}

/* The same head may be wanted twice. */
static void keep_weights(const Attribution *a, const Activation *seen) {
    for (size_t i = 0; i < a->n_heads; i++)
        for (size_t k = 0;
             a->heads[i].layer == seen->layer && a->heads[i].head == seen->head && k < seen->n_cols; k++)
            a->heads[i].weights[k] = (double)seen->data[k];
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Attribution *a = user;
    switch (site) {
    case PROBE_RESID_POST: return layer + 1 == a->writers.n_layer;
    case PROBE_MLP_POST: return layer == a->neuron_layer;
    case PROBE_PATTERN: return is_wanted(a, layer, head);
    default: return writers_want(&a->writers, site, layer);
    }
}

static void visit(void *user, const Activation *seen) {
    Attribution *a = user;
    switch (seen->site) {
    case PROBE_RESID_POST: memcpy(a->final, seen->data, seen->n_cols * sizeof *a->final); break;
    case PROBE_MLP_POST: memcpy(a->post, seen->data, seen->n_cols * sizeof *a->post); break;
    case PROBE_PATTERN: keep_weights(a, seen); break;
    default: writers_add(&a->writers, seen);
    }
}

static bool make_room(Attribution *a, Error *error) {
    const Config *config = model_config(a->subject->model);
    bool has_neurons = a->neuron_layer != SIZE_MAX;
    size_t d = config->d_model;
    a->values = arena_new(a->arena, 3 + config->n_layer * (config->n_head + 1), sizeof *a->values);
    a->direction = arena_floats(a->arena, 1, d);
    a->final = arena_floats(a->arena, 1, d);
    a->logits = arena_floats(a->arena, 1, config->n_vocab);
    size_t d_ff = has_neurons ? model_weights(a->subject->model)->layers[a->neuron_layer].mlp.down.w.cols : 0;
    a->post = arena_floats(a->arena, 1, d_ff);
    a->neurons = arena_new(a->arena, d_ff, sizeof *a->neurons);
    a->activations = arena_new(a->arena, d_ff, sizeof *a->activations);
    for (size_t i = 0; i < a->n_heads; i++) {
        a->heads[i].values = arena_new(a->arena, a->query + 1, sizeof *a->heads->values);
        a->heads[i].weights = arena_new(a->arena, a->query + 1, sizeof *a->heads->weights);
    }
    return arena_ok(a->arena, error, "the logits of %zu tokens", config->n_vocab);
}

/* y = linear(x) of one vector. */
static bool apply(const Attribution *a, const Linear *linear, const float *x, float *y, Error *error) {
    Compute compute = subject_compute(a->subject, a->arena, 1, linear->w.cols);
    if (!arena_ok(a->arena, error, "a vector of %zu numbers", linear->w.cols)) return false;
    linear_forward(&compute, &(LinearOutput){y, linear}, 1, x, 1);
    return true;
}

/* The logits as they are before the cap that the model has. */
static bool take_cap_off(Attribution *a, Error *error) {
    const Config *config = model_config(a->subject->model);
    const Weights *weights = model_weights(a->subject->model);
    if (config->logit_cap == 0) return true;
    float *normed = arena_floats(a->arena, 1, config->d_model);
    if (!arena_ok(a->arena, error, "the logits")) return false;
    norm_forward(&a->subject->compute, &weights->final_norm, a->final, normed, 1, config->d_model);
    if (!apply(a, &weights->unembedding, normed, a->logits, error)) return false;
    a->subject->compute.kernels->scale(a->logits, config->logit_scale, config->n_vocab);
    return true;
}

/*
 * The metric of a row of numbers, one for each token of the vocabulary: by how much the answer's is more than the
 * wrong one's, or than their mean.
 */
static double asked_of(const Attribution *a, const float *x) {
    size_t n = model_config(a->subject->model)->n_vocab;
    double mean = 0;
    if (a->wrong >= 0) return (double)x[a->answer] - (double)x[a->wrong];
    for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    return (double)x[a->answer] - mean;
}

/* u [d_model], times the logits' scale: the rows of the unembedding, weighted as asked_of weights what they make. */
static bool find_u(const Attribution *a, float *u, Error *error) {
    const Config *config = model_config(a->subject->model);
    const Matrix *w = &model_weights(a->subject->model)->unembedding.w;
    float scale = config->logit_scale;
    size_t n = config->n_vocab;
    float *each = arena_floats(a->arena, 1, n);
    if (!arena_ok(a->arena, error, "the unembedding of %zu tokens", n)) return false;
    for (size_t i = 0; i < n; i++) each[i] = a->wrong >= 0 ? 0 : -scale / (float)n;
    memset(u, 0, config->d_model * sizeof *u);
    each[a->answer] += scale;
    if (a->wrong < 0) {
        linear_back(&a->subject->compute, w, 0, n, each, n, 1, u);
        return true;
    }
    each[a->wrong] -= scale;
    linear_back(&a->subject->compute, w, (size_t)a->answer, (size_t)a->answer + 1, each + a->answer, n, 1, u);
    linear_back(&a->subject->compute, w, (size_t)a->wrong, (size_t)a->wrong + 1, each + a->wrong, n, 1, u);
    return true;
}

/* The values, their sum, and the logit beside it. */
static bool find_values(Attribution *a, Error *error) {
    const Weights *weights = model_weights(a->subject->model);
    const Config *config = model_config(a->subject->model);
    const Norm *norm = &weights->final_norm;
    size_t d = config->d_model;
    float *u = arena_floats(a->arena, 1, d);
    if (!arena_ok(a->arena, error, "a vector of %zu numbers", d) || !find_u(a, u, error)) return false;
    a->scale = norm_scale(norm, a->final);
    frozen_norm_back(norm, a->scale, 1, d, u, a->direction);
    for (size_t w = 0; w < a->writers.n; w++)
        a->values[w] = vector_dot(a->writers.vectors + w * d, a->direction, d);
    double *bias = &a->values[a->writers.n - 1];
    if (norm->bias) *bias += vector_dot(norm->bias, u, d);
    if (weights->unembedding.bias)
        *bias += (double)config->logit_scale * asked_of(a, weights->unembedding.bias);
    a->sum = 0;
    for (size_t w = 0; w < a->writers.n; w++) a->sum += a->values[w];
    a->logit = asked_of(a, a->logits);
    return true;
}

/* Splits by source: Σ_k A[q, k]·v_k·w, where w [d_head] is what W_O^h makes of the direction. */
static bool find_sources(const Attribution *a, Session *session, HeadSources *head, Error *error) {
    const Config *config = model_config(a->subject->model);
    const LayerWeights *weights = &model_weights(a->subject->model)->layers[head->layer];
    const Matrix *out = &weights->attention.out.w;
    size_t d = config->d_model, d_head = config->d_head, n = a->query + 1;
    float *asked = arena_floats(a->arena, 1, d), *all = arena_new(a->arena, out->cols, sizeof *all),
          *values = arena_floats(a->arena, n, d_head);
    if (!arena_ok(a->arena, error, "the values of %zu positions", n)) return false;
    frozen_norm_back(&weights->attn_post_norm, a->writers.scales[head->layer], (double)config->residual_scale,
                     d, a->direction, asked);
    linear_back(&a->subject->compute, out, 0, d, asked, d, 1, all);
    session_values(session, head->layer, kv_head_of(config, head->head), n, values);
    for (size_t k = 0; k < n; k++)
        head->values[k] =
            head->weights[k] * vector_dot(values + k * d_head, all + head->head * d_head, d_head);
    return true;
}

/* Splits by neuron, likewise through W_down. */
static bool find_neurons(Attribution *a, Error *error) {
    const Config *config = model_config(a->subject->model);
    const LayerWeights *weights = &model_weights(a->subject->model)->layers[a->neuron_layer];
    const Linear *down = &weights->mlp.down;
    const Norm *norm = &weights->mlp_post_norm;
    size_t d = config->d_model, n = down->w.cols;
    double times = (double)config->residual_scale;
    float *asked = arena_floats(a->arena, 1, d), *all = arena_new(a->arena, n, sizeof *all),
          *made = arena_floats(a->arena, 1, d);
    if (!arena_ok(a->arena, error, "%zu neurons", n) || !apply(a, down, a->post, made, error)) return false;
    frozen_norm_back(norm, norm->gain ? norm_scale(norm, made) : 1, times, d, a->direction, asked);
    linear_back(&a->subject->compute, &down->w, 0, d, asked, d, 1, all);
    for (size_t i = 0; i < n; i++) {
        a->activations[i] = (double)a->post[i];
        a->neurons[i] = a->activations[i] * (double)all[i];
    }
    a->neuron_bias = down->bias ? vector_dot(down->bias, asked, d) : 0; /* norms behind an MLP have none */
    return true;
}

static bool find_all(Attribution *a, Session *session, Error *error) {
    const Config *config = model_config(a->subject->model);
    if (a->answer < 0) a->answer = distribution_of(a->logits, config->n_vocab).best;
    if (!take_cap_off(a, error) || !writers_finish(&a->writers, a->arena, error) || !find_values(a, error))
        return false;
    for (size_t i = 0; i < a->n_heads; i++)
        if (!find_sources(a, session, &a->heads[i], error)) return false;
    return a->neuron_layer == SIZE_MAX || find_neurons(a, error);
}

bool attribution_run(Attribution *a, Arena *arena, Error *error) {
    const Subject *subject = a->subject;
    Probe probe = {a, wants, visit};
    a->arena = arena;
    if (!writers_begin(&a->writers, subject, model_config(subject->model)->n_layer, arena, error) ||
        !make_room(a, error))
        return false;
    Session *session = subject_resume(subject, 0, a->query, &probe, error);
    bool ok = session && session_feed(session, subject->tokens.ids + a->query, 1, a->logits, 1, error) &&
              find_all(a, session, error);
    if (session) subject_release(subject, session);
    return ok;
}
