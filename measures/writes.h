/*
 * How much every part of a model writes into the residual stream at each position of a text: the lengths of what heads,
 * attention as a whole and MLPs add to it, and of the stream itself. A probe takes them in.
 */
#ifndef ATTN_WRITES_H
#define ATTN_WRITES_H

#include "measures/outputnorms.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Writes {
    const Subject *subject;
    size_t n_layer, n;  /* n: tokens */
    double *resid;      /* [n_layer + 1][n] entering each layer, and leaving the last */
    double *attn, *mlp; /* [n_layer][n] */
    OutputNorms heads;  /* ‖z W_O^h‖; without heads where a gate stands behind z */
} Writes;

/*
 * Room for the subject's tokens; of heads in the layers [n_layer] alone. `same`: OutputNorms of the same layers that are
 * there already, or NULL.
 */
bool writes_begin(Writes *writes, const Subject *subject, Arena *arena, const bool *layers,
                  const OutputNorms *same, Error *error);

/* A probe calls these. */
bool writes_want(const Writes *writes, ProbeSite site, size_t layer);
void writes_add(Writes *writes, const Activation *seen);

#endif
