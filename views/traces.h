/*
 * What heads did over a whole text, in few bytes: patterns, the norms of values, scores. Taken row by row as
 * they come by a probe; written as base64 for a page that draws any of them.
 */
#ifndef ATTN_STUDY_TRACES_H
#define ATTN_STUDY_TRACES_H

#include "views/outputnorms.h"
#include "views/packedrows.h"
#include "views/study.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Traces {
    const Study *study;
    const bool *layers;      /* [n_layer] those whose heads are traced; borrowed */
    size_t *place;           /* [n_layer] of a traced layer among those, n_layers in all */
    size_t n_layers, n;      /* n: tokens */
    size_t first, n_queries; /* whose scores are kept */
    float least;             /* weights below it are left out of patterns */
    PackedRows *patterns;    /* [n_layers][n_head] */
    double *value_norms;     /* [n_layers][n_head_kv][n] ‖v_k‖ */
    OutputNorms output_norms;
    float *
        scores; /* [n_layers][n_head] rows first … first + n_queries − 1; that of query q has q + 1 numbers */
    bool failed; /* memory ran out on the way */
} Traces;

/*
 * Room for the study's tokens. Scores are kept of all queries if these are few numbers, otherwise of `query`
 * alone. traces_free also after a failure.
 */
bool traces_begin(Traces *traces, const Study *study, const bool *layers, size_t query, Error *error);
void traces_free(Traces *traces);

/* For a probe. */
bool traces_want(const Traces *traces, ProbeSite site, size_t layer);
void traces_add(Traces *traces, const ProbeView *view);

/* Once all rows are there. */
bool traces_finish(Traces *traces, Error *error);

/* The members "patterns", "output_norms", "value_norms" and "steps". */
bool traces_json(const Traces *traces, Report *report, Error *error);

#endif
