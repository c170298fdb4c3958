/* How many parameters of each kind a model has, and their bytes. */
#ifndef ATTN_COUNTS_H
#define ATTN_COUNTS_H

#include "model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the tables that show them: the matrices first, then what is added to or scales a vector. */
typedef enum CountKind {
    COUNT_EMBEDDING,
    COUNT_QUERY,
    COUNT_KEY,
    COUNT_VALUE,
    COUNT_OUTPUT,
    COUNT_UP,
    COUNT_GATE,
    COUNT_DOWN,
    COUNT_ROUTER,
    COUNT_UNEMBEDDING,
    N_MATRIX_COUNTS,
    COUNT_POSITIONS = N_MATRIX_COUNTS,
    COUNT_NORMS,
    COUNT_BIASES,
    N_COUNTS
} CountKind;

/* Of one kind, all layers together. Norms and biases are held in F32 whatever the file's type. */
typedef struct Count {
    uint64_t parameters, bytes;
} Count;

/* "embedding", "query" … */
const char *count_name(CountKind kind);

/* A kind of matrix: [rows][cols], in each layer or once. */
typedef struct MatrixShape {
    size_t rows, cols;
    size_t n_heads; /* that share it evenly; 0: not of heads */
    bool in_layers;
} MatrixShape;

MatrixShape count_shape(const Config *config, CountKind kind);

/* Of a model. Tied embeddings count once, as the embedding. */
void count_weights(const Model *model, Count counts[N_COUNTS]);

/* Of a model that `config` describes, with all its family's biases and matrices of the given type. */
void count_config(const Config *config, DType dtype, Count counts[N_COUNTS]);

#endif
