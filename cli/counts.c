/*
 * A model's parameters, counted by what they do: its tensors one by one, or from its shape alone.
 */
#include "cli/counts.h"

#include <string.h>

const char *count_name(CountKind kind) {
    static const char *const names[N_COUNTS] = {
        [COUNT_EMBEDDING] = "embedding",
        [COUNT_QUERY] = "query",
        [COUNT_KEY] = "key",
        [COUNT_VALUE] = "value",
        [COUNT_OUTPUT] = "output",
        [COUNT_STATE_IN] = "state in",
        [COUNT_STATE_OUT] = "state out",
        [COUNT_UP] = "up",
        [COUNT_GATE] = "gate",
        [COUNT_DOWN] = "down",
        [COUNT_ROUTER] = "router",
        [COUNT_EXPERT_UP] = "expert up",
        [COUNT_EXPERT_GATE] = "expert gate",
        [COUNT_EXPERT_DOWN] = "expert down",
        [COUNT_UNEMBEDDING] = "unembedding",
        [COUNT_POSITIONS] = "positions",
        [COUNT_NORMS] = "norms",
        [COUNT_BIASES] = "biases",
    };
    return names[kind];
}

static void add_floats(Count *count, uint64_t n) {
    count->parameters += n;
    count->bytes += n * sizeof(float);
}

static void add_matrices(Count *count, uint64_t n, DType dtype, size_t rows, size_t cols) {
    if (count->rows == 0) count->rows = rows, count->cols = cols;
    count->parameters += n * rows * cols;
    count->bytes += n * rows * dtype_bytes(dtype, cols);
}

static void count_matrix(Count *count, const Matrix *matrix) {
    if (matrix->data) add_matrices(count, 1, matrix->dtype, matrix->rows, matrix->cols);
}

static void count_linear(Count counts[N_COUNTS], CountKind kind, const Linear *linear) {
    count_matrix(&counts[kind], &linear->w);
    if (linear->w.data && linear->bias) add_floats(&counts[COUNT_BIASES], linear->w.rows);
}

static void count_norm(Count counts[N_COUNTS], const Config *config, const Norm *norm, size_t d) {
    if (norm->gain && !config->family->bare_norms)
        add_floats(&counts[COUNT_NORMS], (uint64_t)d * (norm->bias ? 2 : 1));
}

static void count_head_norm(Count counts[N_COUNTS], const Config *config, const Norm *norm, size_t n_heads) {
    count_norm(counts, config, norm, norm->own_gains ? n_heads * norm->n : norm->n);
}

/* The kinds of an MLP, or of an expert, follow each other. */
static void count_mlp(Count counts[N_COUNTS], CountKind up, const MlpWeights *mlp) {
    count_linear(counts, up, &mlp->up);
    count_linear(counts, up + COUNT_GATE - COUNT_UP, &mlp->gate);
    count_linear(counts, up + COUNT_DOWN - COUNT_UP, &mlp->down);
}

static void count_state(Count counts[N_COUNTS], const Config *config, const StateWeights *state) {
    const StateShape *shape = &config->state;
    if (state->mixer == MIXER_ATTENTION) return;
    const Linear *in[] = {&state->in, &state->before, &state->gate, &state->alpha, &state->beta};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) count_linear(counts, COUNT_STATE_IN, in[i]);
    add_floats(&counts[COUNT_STATE_IN], (uint64_t)shape->n_taps * shape->n_channels);
    count_linear(counts, COUNT_STATE_OUT, &state->out);
    count_norm(counts, config, &state->norm, state->norm.n);
    add_floats(&counts[COUNT_BIASES], 2 * (uint64_t)shape->n_head); /* decay and bias */
}

void count_weights(const Model *model, Count counts[N_COUNTS]) {
    const Config *config = model_config(model);
    const Weights *weights = model_weights(model);
    memset(counts, 0, N_COUNTS * sizeof *counts);
    count_matrix(&counts[COUNT_EMBEDDING], &weights->embedding);
    count_matrix(&counts[COUNT_POSITIONS], &weights->positions);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        const LayerWeights *w = &weights->layers[layer];
        count_norm(counts, config, &w->attn_norm, config->d_model);
        count_norm(counts, config, &w->mlp_norm, config->d_model);
        count_linear(counts, COUNT_QUERY, &w->attention.q);
        count_linear(counts, COUNT_KEY, &w->attention.k);
        count_linear(counts, COUNT_VALUE, &w->attention.v);
        count_linear(counts, COUNT_OUTPUT, &w->attention.out);
        count_norm(counts, config, &w->attn_post_norm, config->d_model);
        count_norm(counts, config, &w->mlp_post_norm, config->d_model);
        count_head_norm(counts, config, &w->attention.q_norm, config->n_head);
        count_head_norm(counts, config, &w->attention.k_norm, config->n_head_kv);
        if (w->attention.sinks) add_floats(&counts[COUNT_BIASES], config->n_head);
        count_state(counts, config, &w->state);
        count_mlp(counts, COUNT_UP, &w->mlp);
        for (size_t e = 0; e < w->experts.n_expert; e++)
            count_mlp(counts, COUNT_EXPERT_UP, &w->experts.experts[e]);
        count_mlp(counts, COUNT_UP, &w->experts.shared);
        count_linear(counts, COUNT_ROUTER, &w->experts.router);
        count_linear(counts, COUNT_ROUTER, &w->experts.shared_gate);
    }
    count_norm(counts, config, &weights->final_norm, config->d_model);
    count_norm(counts, config, &weights->embedding_norm, config->d_model);
    if (!config->tied) count_linear(counts, COUNT_UNEMBEDDING, &weights->unembedding);
}

bool count_is_of_experts(CountKind kind) { return kind >= COUNT_EXPERT_UP && kind <= COUNT_EXPERT_DOWN; }

bool count_is_in_layers(CountKind kind) { return kind >= COUNT_QUERY && kind <= COUNT_EXPERT_DOWN; }

size_t count_heads(const Config *config, CountKind kind) {
    switch (kind) {
    case COUNT_QUERY:
    case COUNT_OUTPUT: return config->n_head;
    case COUNT_KEY:
    case COUNT_VALUE: return config->n_head_kv;
    default: return 0;
    }
}

void count_config(const Config *config, DType dtype, Count counts[N_COUNTS]) {
    const Family *family = config->family;
    size_t d_model = config->d_model, d_ff = config->d_ff, n_vocab = config->n_vocab;
    size_t d_q = config->n_head * config->d_head, d_kv = config->n_head_kv * config->d_head;
    const size_t shapes[N_MATRIX_COUNTS][2] = {
        [COUNT_EMBEDDING] = {n_vocab, d_model},
        [COUNT_QUERY] = {d_q, d_model},
        [COUNT_KEY] = {d_kv, d_model},
        [COUNT_VALUE] = {d_kv, d_model},
        [COUNT_OUTPUT] = {d_model, d_q},
        [COUNT_UP] = {d_ff, d_model},
        [COUNT_GATE] = {mlp_has_gate(family->mlp) ? d_ff : 0, d_model},
        [COUNT_DOWN] = {d_model, d_ff},
        [COUNT_UNEMBEDDING] = {config->tied ? 0 : n_vocab, d_model},
    };
    memset(counts, 0, N_COUNTS * sizeof *counts);
    for (CountKind kind = 0; kind < N_MATRIX_COUNTS; kind++) {
        uint64_t n = count_is_in_layers(kind) ? config->n_layer : 1;
        if (shapes[kind][0] == 0) continue;
        add_matrices(&counts[kind], n, dtype, shapes[kind][0], shapes[kind][1]);
        if (count_is_in_layers(kind) && family->biases)
            add_floats(&counts[COUNT_BIASES], n * shapes[kind][0]);
    }
    if (family->learned_positions) add_matrices(&counts[COUNT_POSITIONS], 1, dtype, config->n_ctx, d_model);
    /* Two norms a layer and the last one; a LayerNorm has a bias beside its gain. */
    uint64_t n_norms = 2 * (uint64_t)config->n_layer + 1;
    add_floats(&counts[COUNT_NORMS], n_norms * d_model * (family->norm == NORM_LAYER ? 2 : 1));
}
