/* A model's weights: views into the mapped file, found by name and checked by type and shape. */
#ifndef ATTN_BINDING_H
#define ATTN_BINDING_H

#include "attention.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "config.h"
#include "layers/experts.h"
#include "layers/norm.h"
#include "layers/states.h"
#include "mlp.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct LayerWeights {
    Norm attn_norm; /* before attention; without gain: it reads the residual stream itself */
    AttentionWeights attention;
    StateWeights state;  /* in its place, if it has one */
    Norm attn_post_norm; /* of what attention made; without gain: it is added as it is */
    Norm mlp_norm; /* before the MLP; without gain, in a parallel layer: that of attention serves both */
    MlpWeights mlp;
    ExpertsWeights experts; /* in its place, if it has some */
    Norm mlp_post_norm;
} LayerWeights;

typedef struct Weights {
    Matrix embedding;         /* [n_vocab][d_model] */
    Norm embedding_norm;      /* of the embeddings; without gain: there is none */
    Matrix positions;         /* [position_offset + n_ctx][d_model], data NULL where there are none */
    size_t n_layer, n_states; /* layers, and those with a state */
    LayerWeights *layers;     /* [n_layer] */
    Norm final_norm;
    Linear unembedding; /* [n_vocab][d_model] */
    Rope ropes[2];      /* n_ropes of them: of global, then of local layers */
    size_t n_ropes;
    AttentionLayer *attention_layers; /* [n_layer] */
    float *slopes;                    /* [n_head] ALiBi's; or NULL */
    float *ones;                      /* [d_model] the gain of norms that have none */
    float
        *unpacked; /* norms and biases that the file does not hold in F32, and the kernels of convolutions */
} Weights;

/*
 * Finds every tensor of the family by name and checks its type and shape. Fails on one that is missing
 * or misshapen, and on one that is left over: it would belong to something that is not computed here.
 * weights_free releases what weights owns, also after a failure.
 */
bool weights_bind(Weights *weights, const Config *config, const Checkpoint *checkpoint, Error *error);
void weights_free(Weights *weights);

/* Rows [begin, begin + n) of a matrix, or of a linear layer and its bias; of one that is not there: the same. */
Matrix matrix_rows(const Matrix *w, size_t begin, size_t n);
Linear linear_rows(const Linear *linear, size_t begin, size_t n);

/* Whether a tensor belongs to a tower that reads pictures, by its name. */
bool tensor_reads_pictures(String name);

#endif
