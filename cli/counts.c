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
        [COUNT_UP] = "up",
        [COUNT_GATE] = "gate",
        [COUNT_DOWN] = "down",
        [COUNT_ROUTER] = "router",
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

static void add_matrices(Count *count, uint64_t n, DType dtype, uint64_t rows, size_t cols) {
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

static void count_mlp(Count counts[N_COUNTS], const MlpWeights *mlp) {
    count_linear(counts, COUNT_UP, &mlp->up);
    count_linear(counts, COUNT_GATE, &mlp->gate);
    count_linear(counts, COUNT_DOWN, &mlp->down);
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
        count_mlp(counts, &w->mlp);
        for (size_t e = 0; e < w->experts.n_expert; e++) count_mlp(counts, &w->experts.experts[e]);
        count_mlp(counts, &w->experts.shared);
        count_linear(counts, COUNT_ROUTER, &w->experts.router);
        count_linear(counts, COUNT_ROUTER, &w->experts.shared_gate);
    }
    count_norm(counts, config, &weights->final_norm, config->d_model);
    count_norm(counts, config, &weights->embedding_norm, config->d_model);
    if (!config->tied) count_linear(counts, COUNT_UNEMBEDDING, &weights->unembedding);
}

MatrixShape count_shape(const Config *config, CountKind kind) {
    size_t d_model = config->d_model, d_ff = config->d_ff;
    size_t d_q = config->n_head * config->d_head, d_kv = config->n_head_kv * config->d_head;
    switch (kind) {
    case COUNT_QUERY: return (MatrixShape){d_q, d_model, config->n_head, true};
    case COUNT_KEY:
    case COUNT_VALUE: return (MatrixShape){d_kv, d_model, config->n_head_kv, true};
    case COUNT_OUTPUT: return (MatrixShape){d_model, d_q, config->n_head, true};
    case COUNT_UP:
    case COUNT_GATE: return (MatrixShape){d_ff, d_model, 0, true};
    case COUNT_DOWN: return (MatrixShape){d_model, d_ff, 0, true};
    case COUNT_ROUTER: return (MatrixShape){config->n_expert, d_model, 0, true};
    default: return (MatrixShape){config->n_vocab, d_model, 0, false};
    }
}

void count_config(const Config *config, DType dtype, Count counts[N_COUNTS]) {
    const Family *family = config->family;
    size_t d_model = config->d_model;
    memset(counts, 0, N_COUNTS * sizeof *counts);
    for (CountKind kind = 0; kind < N_MATRIX_COUNTS; kind++) {
        MatrixShape shape = count_shape(config, kind);
        uint64_t n = shape.in_layers ? config->n_layer : 1;
        if (kind == COUNT_GATE && !mlp_has_gate(family->mlp)) continue;
        if (kind == COUNT_ROUTER && !config->n_expert) continue;
        if (kind == COUNT_UNEMBEDDING && config->tied) continue;
        add_matrices(&counts[kind], n, dtype, shape.rows, shape.cols);
        if (shape.in_layers && family->biases) add_floats(&counts[COUNT_BIASES], n * shape.rows);
    }
    if (family->learned_positions) add_matrices(&counts[COUNT_POSITIONS], 1, dtype, config->n_ctx, d_model);
    /* Two norms a layer and the last one; a LayerNorm has a bias beside its gain. */
    uint64_t n_norms = 2 * (uint64_t)config->n_layer + 1;
    add_floats(&counts[COUNT_NORMS], n_norms * d_model * (family->norm == NORM_LAYER ? 2 : 1));
}
