#include "measures/nodescores.h"

#include "measures/distribution.h"

#include <math.h>
#include <string.h>

enum { MAX_DELTA_MIB = 1024 };

const char *const node_names[N_NODE_KINDS] = {"resid_pre", "attn_out", "mlp_out", "z",       "q",
                                              "k",         "v",        "pattern", "mlp_post"};

static const ProbeSite probe_sites[N_NODE_KINDS] = {PROBE_RESID_PRE, PROBE_ATTN_OUT, PROBE_MLP_OUT,
                                                    PROBE_Z,         PROBE_Q,        PROBE_K,
                                                    PROBE_V,         PROBE_PATTERN,  PROBE_MLP_POST};

static const Config *config_of(const NodeScores *scores) { return model_config(scores->subject->model); }

static NodeSite *site_of(NodeScores *scores, ProbeSite site) {
    for (size_t kind = 0; kind < N_NODE_KINDS; kind++)
        if (probe_sites[kind] == site) return &scores->sites[kind];
    return NULL;
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)layer, (void)head;
    return site_of(user, site) != NULL;
}

/* Whether the sites' numbers, as the way back shows them, are what scores are made of, so that none need to be kept. */
static bool is_alone(const NodeScores *scores) { return !scores->has_source; }

static float *row_of(const NodeScores *scores, const NodeSite *site, const Activation *seen, size_t row) {
    size_t block = site->width / site->n_heads;
    return site->delta + (seen->layer * scores->n + seen->position + row) * site->width + seen->head * block;
}

static void keep_seen(void *user, const Activation *seen) {
    NodeScores *scores = user;
    const NodeSite *site = site_of(scores, seen->site);
    for (size_t row = 0; row < seen->n_rows; row++) {
        float *to = row_of(scores, site, seen, row);
        const float *from = seen->data + row * seen->stride;
        for (size_t i = 0; i < seen->n_cols; i++) to[i] = scores->is_second ? to[i] - from[i] : from[i];
    }
}

/* The row of the difference by which a gradient counts. */
static const float *delta_of(const NodeScores *scores, const NodeSite *site, const Activation *seen,
                             size_t row) {
    return is_alone(scores) ? seen->data + row * seen->stride : row_of(scores, site, seen, row);
}

static void add_neurons(const NodeScores *scores, const NodeSite *site, const Activation *seen,
                        const float *gradient) {
    double *to = site->scores + seen->layer * site->width;
    for (size_t row = 0; row < seen->n_rows; row++) {
        const float *delta = delta_of(scores, site, seen, row), *g = gradient + row * seen->stride;
        for (size_t i = 0; i < seen->n_cols; i++) to[i] += scores->weight * (double)delta[i] * (double)g[i];
    }
}

static void add_gradient(void *user, const Activation *seen, float *gradient) {
    NodeScores *scores = user;
    const NodeSite *site = site_of(scores, seen->site);
    if (seen->site == PROBE_MLP_POST) {
        add_neurons(scores, site, seen, gradient);
        return;
    }
    double *to = site->scores + (seen->layer * site->n_heads + seen->head) * scores->n + seen->position;
    for (size_t row = 0; row < seen->n_rows; row++)
        to[row] += scores->weight *
                   vector_dot(delta_of(scores, site, seen, row), gradient + row * seen->stride, seen->n_cols);
}

static size_t widest_hidden(const NodeScores *scores) {
    size_t widest = 1;
    for (size_t layer = 0; layer < config_of(scores)->n_layer; layer++) {
        const LayerWeights *w = &model_weights(scores->subject->model)->layers[layer];
        if (!w->experts.n_expert && w->mlp.down.w.cols > widest) widest = w->mlp.down.w.cols;
    }
    return widest;
}

static void shape_site(NodeScores *scores, size_t kind) {
    const Config *config = config_of(scores);
    bool is_kv = kind == NODE_K || kind == NODE_V;
    size_t n_heads = !node_has_heads((NodeKind)kind) ? 1 : is_kv ? config->n_head_kv : config->n_head;
    size_t block = kind == NODE_NEURON               ? widest_hidden(scores)
                   : !node_has_heads((NodeKind)kind) ? config->d_model
                   : kind == NODE_PATTERN            ? scores->n
                                                     : config->d_head;
    scores->sites[kind] = (NodeSite){.site = probe_sites[kind], .n_heads = n_heads, .width = n_heads * block};
}

/* Tokens of which the sites take no more than MAX_DELTA_MIB. */
static bool check_size(const NodeScores *scores, Error *error) {
    size_t n_layer = config_of(scores)->n_layer, floats = 0;
    for (size_t kind = 0; kind < N_NODE_KINDS; kind++) floats += scores->sites[kind].width;
    double mib = (double)n_layer * (double)scores->n * (double)floats * sizeof(float) / (1 << 20);
    return mib <= MAX_DELTA_MIB ||
           error_set(error, "all sites of %zu tokens take %.0f MiB, of at most %d: shorten the text",
                     scores->n, mib, MAX_DELTA_MIB);
}

static size_t n_scores(const NodeScores *scores, size_t kind) {
    const NodeSite *site = &scores->sites[kind];
    return config_of(scores)->n_layer * (kind == NODE_NEURON ? site->width : site->n_heads * scores->n);
}

static bool make_room(NodeScores *scores, Arena *arena, Error *error) {
    size_t n_layer = config_of(scores)->n_layer, n = scores->n;
    for (size_t kind = 0; kind < N_NODE_KINDS; kind++) shape_site(scores, kind);
    if (!is_alone(scores) && !check_size(scores, error)) return false;
    for (size_t kind = 0; kind < N_NODE_KINDS; kind++) {
        NodeSite *site = &scores->sites[kind];
        if (!is_alone(scores)) site->delta = arena_new(arena, n_layer * n, site->width * sizeof(float));
        site->scores = arena_new(arena, n_scores(scores, kind), sizeof(double));
    }
    for (int i = 0; i < 2; i++) scores->embed[i] = arena_floats(arena, n, config_of(scores)->d_model);
    return arena_ok(arena, error, "the sites of %zu tokens", n);
}

/* The source goes first, if there is one, so that the base's streams are there for the way back. */
static bool run_text(NodeScores *scores, const int32_t *ids, int which, bool is_second, Error *error) {
    Gradients *gradients = &scores->gradients;
    const Probe keeps = {scores, wants, keep_seen};
    scores->is_second = is_second;
    if (!gradients_there(gradients, ids, NULL, is_alone(scores) ? NULL : &keeps, &scores->values[which],
                         error))
        return false;
    memcpy(scores->embed[which], gradients->saved.layers[0].pre,
           scores->n * config_of(scores)->d_model * sizeof(float));
    return true;
}

bool nodescores_run(NodeScores *scores, const int32_t *base, const int32_t *source, Arena *arena,
                    Error *error) {
    Gradients *gradients = &scores->gradients;
    GradientProbe probe = {scores, wants, add_gradient};
    *gradients = (Gradients){
        .subject = scores->subject, .n = scores->n, .metric = scores->metric, .text = scores->nll_of};
    scores->values[1] = NAN;
    scores->has_source = source;
    scores->weight = scores->steps ? 1 / (double)scores->steps : 1;
    if (!gradients_begin(gradients, arena, error) || !make_room(scores, arena, error) ||
        (source && !run_text(scores, source, 1, false, error)) || !run_text(scores, base, 0, source, error))
        return false;
    if (is_alone(scores)) gradients_leave(gradients); /* what it holds is not needed on the way back */
    bool ok = gradients_back(gradients, scores->embed, scores->steps, &probe, error);
    for (size_t kind = 0; ok && kind < N_NODE_KINDS; kind++)
        ok = gradients_check(gradients, scores->sites[kind].scores, n_scores(scores, kind), error);
    return ok;
}

void nodescores_free(NodeScores *scores) { gradients_free(&scores->gradients); }

double nodescores_at(const NodeScores *scores, NodeKind kind, size_t layer, size_t head, size_t position) {
    const NodeSite *site = &scores->sites[kind];
    double sum = 0;
    if (kind == NODE_NEURON) return site->scores[layer * site->width + head];
    const double *row = site->scores + (layer * site->n_heads + head) * scores->n;
    if (position != SIZE_MAX) return row[position];
    for (size_t i = 0; i < scores->n; i++) sum += row[i];
    return sum;
}

double nodescores_embed(const NodeScores *scores) {
    return nodescores_at(scores, NODE_RESID_PRE, 0, 0, SIZE_MAX);
}
