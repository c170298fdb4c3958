/*
 * The families of models: how each differs, and what a checkpoint of one must hold. Config holds its
 * numbers, Weights its tensors, as views into the mapped file.
 */
#ifndef ATTN_FAMILY_H
#define ATTN_FAMILY_H

#include "attention.h"
#include "checkpoint/checkpoint.h"
#include "error.h"
#include "kernels/kernels.h"
#include "mlp.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum NormKind { NORM_LAYER, NORM_RMS } NormKind;

/* How a family differs from the others. A new family is a new row of the table in family.c. */
typedef struct Family {
    const char *architecture; /* general.architecture, and the prefix of its keys */
    NormKind norm;
    RopePairing rope;
    bool learned_positions; /* position_embd is added to the embeddings */
    MlpKind mlp;
    bool fused_qkv; /* one tensor attn_qkv holds the rows of q, k and v in turn */
    bool biases;    /* linear layers and LayerNorms must have one; without, a linear layer may */
} Family;

/* The family whose architecture is so called; NULL: there is none. */
const Family *family_find(String architecture);

typedef struct Config {
    const Family *family;
    size_t n_layer, n_head, n_head_kv;
    size_t d_model, d_head, d_ff;
    size_t n_vocab;
    size_t n_ctx; /* positions that the model was trained for */
    float norm_eps;
    size_t rope_dim;
    float rope_base;        /* θ: pair i turns by θ^(−2i/rope_dim) radians a position … */
    float rope_scale;       /* … divided by this (linear scaling) */
    bool parallel_residual; /* attention and MLP both read resid_pre */
    bool tied;              /* the unembedding is the embedding */
} Config;

/* The kv head that a head reads under grouped-query attention. */
static inline size_t kv_head_of(const Config *config, size_t head) {
    return head * config->n_head_kv / config->n_head;
}

typedef struct Norm {
    const float *gain; /* [d_model] */
    const float *bias; /* [d_model], or NULL */
} Norm;

typedef struct LayerWeights {
    Norm attn_norm;
    AttentionWeights attention;
    Norm mlp_norm;
    MlpWeights mlp;
} LayerWeights;

typedef struct Weights {
    Matrix embedding;     /* [n_vocab][d_model] */
    Matrix positions;     /* [n_ctx][d_model], data NULL where there are none */
    LayerWeights *layers; /* [n_layer] */
    Norm final_norm;
    Linear unembedding; /* [n_vocab][d_model] */
    double *rope_freq;  /* [rope_dim/2] radians a position; owned */
    float *unpacked;    /* norms and biases that the file does not hold in F32; owned */
} Weights;

/* Reads and checks the numbers of the checkpoint's family. Fails on what is missing, absurd or not supported.
 */
bool config_read(Config *config, const Checkpoint *checkpoint, Error *error);

/*
 * Finds every tensor of the family by name and checks its type and shape. Fails on one that is missing
 * or misshapen, and on one that is left over: it would belong to something that is not computed here.
 * weights_free releases what weights owns, also after a failure.
 */
bool weights_bind(Weights *weights, const Config *config, const Checkpoint *checkpoint, Error *error);
void weights_free(Weights *weights);

#endif
