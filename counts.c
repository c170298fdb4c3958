/*
 * A model's parameters, counted by what they do: its tensors one by one, or from its shape alone.
 */
#include "counts.h"

#include <string.h>

const char *count_name(CountKind kind) {
    static const char *const names[N_COUNTS] = {
        [COUNT_EMBEDDING] = "embedding", [COUNT_QUERY] = "query",   [COUNT_KEY] = "key",
        [COUNT_VALUE] = "value",         [COUNT_OUTPUT] = "output", [COUNT_UP] = "up",
        [COUNT_GATE] = "gate",           [COUNT_DOWN] = "down",     [COUNT_UNEMBEDDING] = "unembedding",
        [COUNT_POSITIONS] = "positions", [COUNT_NORMS] = "norms",   [COUNT_BIASES] = "biases",
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

static void count_norm(Count counts[N_COUNTS], const Norm *norm, size_t d_model) {
    add_floats(&counts[COUNT_NORMS], (uint64_t)d_model * (norm->bias ? 2 : 1));
}

void count_weights(const Model *model, Count counts[N_COUNTS]) {
    const Config *config = model_config(model);
    const Weights *weights = model_weights(model);
    memset(counts, 0, N_COUNTS * sizeof *counts);
    count_matrix(&counts[COUNT_EMBEDDING], &weights->embedding);
    count_matrix(&counts[COUNT_POSITIONS], &weights->positions);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        const LayerWeights *w = &weights->layers[layer];
        count_norm(counts, &w->attn_norm, config->d_model);
        count_norm(counts, &w->mlp_norm, config->d_model);
        count_linear(counts, COUNT_QUERY, &w->attention.q);
        count_linear(counts, COUNT_KEY, &w->attention.k);
        count_linear(counts, COUNT_VALUE, &w->attention.v);
        count_linear(counts, COUNT_OUTPUT, &w->attention.out);
        count_linear(counts, COUNT_UP, &w->mlp.up);
        count_linear(counts, COUNT_GATE, &w->mlp.gate);
        count_linear(counts, COUNT_DOWN, &w->mlp.down);
    }
    count_norm(counts, &weights->final_norm, config->d_model);
    if (!config->tied) count_linear(counts, COUNT_UNEMBEDDING, &weights->unembedding);
}

/* One matrix [rows][cols] in each layer, and its bias. */
static void count_layers(Count counts[N_COUNTS], CountKind kind, const Config *config, DType dtype,
                         size_t rows, size_t cols) {
    add_matrices(&counts[kind], config->n_layer, dtype, rows, cols);
    if (config->family->biases) add_floats(&counts[COUNT_BIASES], (uint64_t)config->n_layer * rows);
}

void count_config(const Config *config, DType dtype, Count counts[N_COUNTS]) {
    const Family *family = config->family;
    size_t d_model = config->d_model, d_ff = config->d_ff;
    size_t d_q = config->n_head * config->d_head, d_kv = config->n_head_kv * config->d_head;
    memset(counts, 0, N_COUNTS * sizeof *counts);
    add_matrices(&counts[COUNT_EMBEDDING], 1, dtype, config->n_vocab, d_model);
    if (family->learned_positions) add_matrices(&counts[COUNT_POSITIONS], 1, dtype, config->n_ctx, d_model);
    count_layers(counts, COUNT_QUERY, config, dtype, d_q, d_model);
    count_layers(counts, COUNT_KEY, config, dtype, d_kv, d_model);
    count_layers(counts, COUNT_VALUE, config, dtype, d_kv, d_model);
    count_layers(counts, COUNT_OUTPUT, config, dtype, d_model, d_q);
    count_layers(counts, COUNT_UP, config, dtype, d_ff, d_model);
    if (mlp_has_gate(family->mlp)) count_layers(counts, COUNT_GATE, config, dtype, d_ff, d_model);
    count_layers(counts, COUNT_DOWN, config, dtype, d_model, d_ff);
    if (!config->tied) add_matrices(&counts[COUNT_UNEMBEDDING], 1, dtype, config->n_vocab, d_model);
    /* Two norms a layer and the last one; a LayerNorm has a bias beside its gain. */
    uint64_t n_norms = 2 * (uint64_t)config->n_layer + 1;
    add_floats(&counts[COUNT_NORMS], n_norms * d_model * (family->norm == NORM_LAYER ? 2 : 1));
}
