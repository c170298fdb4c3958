/*
 * Heads by their weights alone, whatever the text (Elhage et al. 2021, "A Mathematical Framework for Transformer
 * Circuits"). With all weights as TransformerLens folds them (norms' gains in the side that reads; what is written, and
 * what reads from behind a LayerNorm, centred; the unembedding centred over the vocabulary, too):
 *
 *   OV    W_O W_V       what a head adds for what it looks at      full: W_U W_O W_V W_E, between tokens
 *   QK    W_Qᵀ W_K      what it looks for                          full: W_Eᵀ W_Qᵀ W_K W_E
 *
 * Norms' divisions, biases, gates and position embeddings are left out, and queries and keys are not turned, as at relative
 * position 0 under RoPE.
 */
#ifndef ATTN_CIRCUIT_H
#define ATTN_CIRCUIT_H

#include "measures/eigen.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A head's weights, folded. The rows of q, k and v read, those of o are the columns that write. */
typedef struct HeadWeights {
    float *q, *k, *v, *o; /* [d_head][d_model] each */
} HeadWeights;

typedef struct Circuit {
    const Subject *subject;
    size_t d_model, d_head, n_vocab;
    float *mean_row; /* [d_model] of the unembedding over the vocabulary */
    double *copy;    /* [d_model][d_model] Σ over tokens of embedding × unembedding, W_E W_Uᵀ */
    double *same;    /* [d_model][d_model] likewise embedding × embedding */
} Circuit;

/* Reads embedding and unembedding; `sums`: also the two matrices, which circuit_scores needs. */
bool circuit_begin(Circuit *circuit, const Subject *subject, Arena *arena, bool sums, Error *error);

/* The weights of a layer's head. */
bool circuit_head(const Circuit *circuit, Arena *arena, size_t layer, size_t head, HeadWeights *weights,
                  Error *error);

typedef struct CircuitScores {
    double copying;          /* Σλ/Σ|λ| of the full OV: near 1, a token makes itself likelier */
    double ov_copying;       /* of W_O W_V alone */
    double matching;         /* of the full QK: near 1, it looks for what is like the query's own token */
    double ov_norm, qk_norm; /* Frobenius norms of W_O W_V and W_Qᵀ W_K */
} CircuitScores;

/* The scores, and in `values` (or NULL) the d_head eigenvalues of the full OV that are not 0. */
bool circuit_scores(const Circuit *circuit, const HeadWeights *weights, CircuitScores *scores,
                    Eigenvalue *values, Error *error);

/* A and B [n][d], rows: A Bᵀ [n][n] in doubles. */
void rows_product(const float *a, const float *b, size_t n, size_t d, double *product);

/* ‖Aᵀ P B‖_F of A Aᵀ, P, B Bᵀ, [n][n] each; scratch [n][n]. */
double sandwich_norm(const double *aa, const double *p, const double *bb, size_t n, double *scratch);

/* Rows [first, first + n) of the embedding or the unembedding, as they are folded, to rows [n][d_model]. */
void circuit_embed(const Circuit *circuit, size_t first, size_t n, float *rows);
void circuit_unembed(const Circuit *circuit, size_t first, size_t n, float *rows);

/* A pair of tokens, and how much. */
typedef struct TokenPair {
    int32_t from, to;
    double value;
} TokenPair;

/*
 * The k largest entries of the full OV (from: the token that is looked at; to: what it makes likelier) or, with `qk`, of the
 * full QK times the scores' scale (from: the query's token; to: the key's). `only`: those from this token; −1: of all. With
 * `least` the smallest.
 */
bool circuit_pairs(const Circuit *circuit, const HeadWeights *weights, bool qk, double scale, int32_t only,
                   bool least, size_t k, TokenPair *pairs, Error *error);

/* A singular direction of W_O W_V: u·σ·vᵀ. u's sign is such that its largest effect on a logit is one upward. */
typedef struct OvDirection {
    double singular, share; /* σ, and σ² as a share of the sum over all */
    TokenPair *writes,
        *reads; /* [k] tokens (`to`) that u raises most, and whose embedding has the largest product with v */
} OvDirection;

/* The first n ≤ d_head of them, with k tokens each. */
bool circuit_directions(const Circuit *circuit, const HeadWeights *weights, Arena *arena, size_t n, size_t k,
                        OvDirection *directions, Error *error);

#endif
