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
    COUNT_STATE_IN, /* of layers with a state: all that reads the residual stream, and the kernel */
    COUNT_STATE_OUT,
    COUNT_UP,
    COUNT_GATE,
    COUNT_DOWN,
    COUNT_ROUTER, /* and the gate of a shared expert */
    COUNT_EXPERT_UP,
    COUNT_EXPERT_GATE,
    COUNT_EXPERT_DOWN,
    COUNT_UNEMBEDDING,
    N_MATRIX_COUNTS,
    COUNT_POSITIONS = N_MATRIX_COUNTS,
    COUNT_NORMS,
    COUNT_BIASES,
    N_COUNTS
} CountKind;

/*
 * The matrices of one kind, all layers together. Norms and biases are held in F32 whatever the file's type. Up, gate and down
 * are those that every token goes through: an MLP's, or a shared expert's.
 */
typedef struct Count {
    uint64_t parameters, bytes;
    size_t rows, cols; /* of the first matrix of this kind; 0: there is none */
} Count;

/* "embedding", "query" … */
const char *count_name(CountKind kind);

bool count_is_of_experts(CountKind kind);

/* Whether there is one in each layer, or more; and how many heads share it evenly, 0: it is not of heads. */
bool count_is_in_layers(CountKind kind);
size_t count_heads(const Config *config, CountKind kind);

/* The parameters of a model. Tied embeddings count once, as the embedding. */
void count_weights(const Model *model, Count counts[N_COUNTS]);

/*
 * The bytes of a model without experts that `config` describes, with all its family's biases and matrices of the given
 * type.
 */
void count_config(const Config *config, DType dtype, Count counts[N_COUNTS]);

#endif
