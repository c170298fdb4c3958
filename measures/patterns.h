/*
 * Attention patterns of chosen heads, which a probe collects while a text is fed. They are kept as they are, or
 * weighted by what the keys' values amount to; head by head, or reduced over the heads.
 */
#ifndef ATTN_PATTERNS_H
#define ATTN_PATTERNS_H

#include "measures/outputnorms.h"
#include "measures/scores.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum PatternReduce { REDUCE_NONE, REDUCE_MEAN, REDUCE_MAX } PatternReduce;

/* The steps that change a row, in this order: by_value, reduce, no_sink, normalise. */
typedef struct Patterns {
    size_t layer, n_layers, head, n_heads; /* watched: n_layers × n_heads from these on */
    bool by_value;        /* A[q][k]·‖v_k W_O^h‖; Kobayashi et al. 2020, arXiv:2004.10102 */
    PatternReduce reduce; /* over all that is watched */
    bool no_sink;         /* key 0 left out, the others renormalised */
    bool normalise;       /* each row divided by its sum */

    size_t *watched; /* [n_watched] the layers among these that have heads */
    size_t n_watched;
    size_t n_maps;        /* n_watched·n_heads, layer by layer, or 1 when reduced */
    size_t first, n_rows; /* what is kept: rows of the queries first … first + n_rows − 1 */

    Probe probe; /* for the session; its user is this struct */
    const Subject *subject;
    bool collecting;
    size_t map_size;
    double *rows;    /* [n_maps][map_size]: row after row, that of query q has q + 1 numbers */
    double *dropped; /* [n_maps][n_rows] what no_sink left out of each */
    double *
        learned; /* [n_maps][n_rows] what heads' learned sinks took of each; NULL: not of such rows, or models */
    OutputNorms values; /* with by_value */
} Patterns;

/*
 * Makes room for n_rows rows of a text of up to n_positions tokens. The fields up to `normalise` are set by
 * the caller, all others zero.
 */
bool patterns_begin(Patterns *patterns, const Subject *subject, Arena *arena, size_t n_rows,
                    size_t n_positions, Error *error);

/* From now on the rows kept are those of the queries first … first + n_rows − 1; they start empty. */
void patterns_expect(Patterns *patterns, size_t first);

/* Feeds n tokens to a session with this probe; heads are watched from query `first` on. */
bool patterns_feed(Patterns *patterns, Session *session, const int32_t *ids, size_t n, Error *error);

/* Applies no_sink and normalise, once all rows are there. */
void patterns_finish(Patterns *patterns);

/* The q + 1 numbers of a query's row. */
double *patterns_row(const Patterns *patterns, size_t map, size_t query);

#endif
