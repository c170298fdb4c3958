/*
 * How far a head reads what an earlier one wrote, by the weights alone (Elhage et al. 2021): ‖A B‖/(‖A‖·‖B‖), Frobenius
 * norms, with B = W_O W_V of the earlier head and A what of the later one reads it: by its query (W_Kᵀ W_Q), its key (W_Qᵀ
 * W_K) or its value (W_O W_V). 0: not at all; chance is some 1/√d_model times a few.
 */
#ifndef ATTN_COMPOSITION_H
#define ATTN_COMPOSITION_H

#include "measures/circuit.h"

typedef enum CompositionKind { BY_QUERY, BY_KEY, BY_VALUE } CompositionKind;

typedef struct Composition {
    size_t layer, head, from_layer, from_head; /* the later one, and the one that it reads */
    double score;
} Composition;

/*
 * All pairs of heads whose layers have some, the earlier ones' layers first; *n of them. Heads within a layer do not read each
 * other. NULL with an error.
 */
Composition *find_compositions(const Circuit *circuit, Arena *arena, CompositionKind kind, size_t *n,
                               Error *error);

#endif
