/*
 * How much what a head weighs amounts to in its output: ‖v_k W_O^h‖ of a key's value (Kobayashi et al. 2020,
 * arXiv:2004.10102), ‖z W_O^h‖ of the weighted sum of all. The vectors come from a probe. A norm behind attention divides
 * what all heads made by one number for each position: that division is left out, being the same for all keys of a query.
 */
#ifndef ATTN_OUTPUTNORMS_H
#define ATTN_OUTPUTNORMS_H

#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct OutputNorms {
    size_t layer, n_layers, head, n_heads; /* n_layers × n_heads from these on */
    const bool *layers;                    /* [n_layer of the model] those that count; NULL: all */

    /*
     * [n_layers][n_heads] each the lower triangle L [d_head][d_head], zeros above it, of L Lᵀ = W_O^hᵀ W_O^h, so that
     * ‖v W_O^h‖ = ‖v L‖; of layers that do not count NULL. Those of other OutputNorms of the same heads, or NULL: they are
     * made.
     */
    const float **roots;

    const Subject *subject;
    size_t n_positions;
    double *norms;  /* [n_layers][n_heads][n_positions] */
    float *product; /* scratch, [PACKED_TOKENS][d_head] */
} OutputNorms;

/*
 * Makes room for a text of up to n_positions tokens. The fields up to `roots` are set by the caller, all others zero.
 */
bool output_norms_begin(OutputNorms *norms, const Subject *subject, Arena *arena, size_t n_positions,
                        Error *error);

/* Takes in a visit of PROBE_V, or of PROBE_Z, in one of the layers. */
void output_norms_add(OutputNorms *norms, const Activation *seen);

/* A head's norms, [n_positions]. */
const double *output_norms_of(const OutputNorms *norms, size_t layer, size_t head);

/*
 * W_O^h of heads side by side, [d_model][n_heads][d_head]: the columns of the output projection that read them, times the
 * residual scale and the gains of the (RMS) norm behind attention, where the model has them. NULL with an error when
 * memory runs out.
 */
float *head_outputs(const Subject *subject, Arena *arena, size_t layer, size_t head, size_t n_heads,
                    Error *error);

#endif
