/*
 * Traces of heads over a whole text, in few bytes: patterns, the norms of values, scores. A probe takes them row by
 * row. They are written as base64 for a page that draws any of them.
 */
#ifndef ATTN_TRACES_H
#define ATTN_TRACES_H

#include "measures/outputnorms.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * A pattern in few bytes: the lower triangle, row after row, of levels round(255·A), most of which are small. They are
 * written in half bytes, the lower half first:
 *
 *     1 … 14   a level
 *     15 l h   the level 16·h + l
 *     0 r …    a run of zeros, which may go on over rows; its length in groups of three bits, the lowest first, the
 *              fourth bit set where more follow
 *
 * Starts as {.arena = …}, from which the bytes come.
 */
typedef struct PackedRows {
    Arena *arena;
    unsigned char *bytes;
    size_t n, capacity;
    size_t zeros; /* zeros at the end that are not written yet */
    bool half;    /* the last byte has room for one more */
} PackedRows;

/*
 * Appends a row of n weights in [0, 1]; those below `least` become 0. packed_rows_finish appends what is held back. Ask
 * the arena whether memory sufficed.
 */
void packed_rows_add(PackedRows *packed, const float *row, size_t n, float least);
void packed_rows_finish(PackedRows *packed);

typedef struct Traces {
    const Subject *subject;
    Arena *arena;
    const bool *layers;      /* [n_layer] those whose heads are traced; borrowed */
    size_t *place;           /* [n_layer] index of a traced layer among the n_layers that are traced */
    size_t n_layers, n;      /* n: tokens */
    size_t from;             /* queries from it on are traced, and values */
    size_t first, n_queries; /* the queries whose scores are kept */
    size_t n_scores;         /* in their rows, of one head */
    float least;             /* weights below it are left out of patterns */
    PackedRows *patterns;    /* [n_layers][n_head] */
    double *value_norms;     /* [n_layers][n_head_kv][n] ‖v_k‖ */
    OutputNorms output_norms;
    float *scores; /* [n_layers][n_head][n_scores] row after row; that of query q has q + 1 numbers */
} Traces;

/*
 * Room for all, of the positions [from, to). Scores are kept for all queries if these are few numbers, otherwise for
 * `query` alone.
 */
bool traces_begin(Traces *traces, const Subject *subject, Arena *arena, const bool *layers, size_t from,
                  size_t to, size_t query, Error *error);

/* A probe calls these. */
bool traces_want(const Traces *traces, ProbeSite site, size_t layer);
void traces_add(Traces *traces, const Activation *seen);

/* Call this once all rows are there. */
bool traces_finish(Traces *traces, Error *error);

/* The place of a traced layer's head in patterns and scores; ‖v_k‖ [n] of a kv head. */
size_t traces_place(const Traces *traces, size_t layer, size_t head);
double *traces_value_norms(const Traces *traces, size_t layer, size_t head);

#endif
