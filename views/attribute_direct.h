/* --by direct between its two files: attribute_direct.c runs the texts, attribute_text.c shows what came of it. */
#ifndef ATTN_ATTRIBUTE_DIRECT_H
#define ATTN_ATTRIBUTE_DIRECT_H

#include "measures/attribution.h"
#include "measures/means.h"
#include "views/attribute.h"

/* A part of the model, or a neuron. */
typedef struct DirectRow {
    char name[32];
    size_t layer, head; /* SIZE_MAX: none */
    size_t neuron;
    Mean values, activations; /* over texts */
    double value, error, activation;
    double share; /* |value| as a share of the largest */
} DirectRow;

/* The sums of a layer's parts; `so_far` counts from the embedding on, without the biases. */
typedef struct LayerRow {
    size_t layer;
    double attention, mlp, so_far;
} LayerRow;

/* A position that a head took its value from. */
typedef struct SourceRow {
    size_t key;
    int32_t id;
    double weight, value, share;
} SourceRow;

/* A head that was asked for. */
typedef struct SourceTable {
    SourceRow *rows; /* [query + 1] */
    size_t *shown;   /* [n_shown] those that people see, the strongest first */
    size_t n_shown;
    double sum;
} SourceTable;

typedef struct Direct {
    size_t n_texts, n_left_out, n_cut;
    Error left_out; /* why the first was */
    bool has_wrong; /* of the texts */

    DirectRow *rows; /* [n_rows] in the order of the parts (writers.h) */
    size_t n_rows;
    WriterKind *kinds;                    /* [n_rows] */
    Mean sums, logits, differences;       /* of all values; of the logit; of one less the other */
    double sum, logit, difference, error; /* error: of the logit */
    double scale;                         /* σ of the last text */
    LayerRow *layers;                     /* [n_layer] */
    DirectRow *neurons;                   /* [n_neurons] or NULL */
    size_t n_neurons;
    DirectRow *top, *top_neurons; /* [n_top], [n_top_neurons] the strongest, a copy */
    size_t n_top, n_top_neurons;
    double other_neurons; /* what the others give together */
    Mean neuron_biases;
    HeadSources *heads;   /* [n_heads] of a single text */
    SourceTable *sources; /* [n_heads] */
    size_t n_heads;
} Direct;

void direct_show(Report *report, AttributeView *view, Direct *direct);

#endif
