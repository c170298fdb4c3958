/* The view patch between its two files: patch.c runs the texts, patch_text.c shows what came of it. */
#ifndef ATTN_PATCH_H
#define ATTN_PATCH_H

#include "measures/patching.h"
#include "measures/paths.h"
#include "views/pairloop.h"

/* A cell, or a path, over all pairs. */
typedef struct PatchRow {
    char name[48];
    size_t layer, head, position; /* SIZE_MAX: none, or all */
    int32_t clean_token, corrupted_token;
    EffectSums sums;
    bool same; /* both runs have the same bits there, in all pairs */
    bool done;
    double effect, effect_error, value, value_error; /* NaN where it is not done */
    double share;                                    /* |effect| as a share of the largest */
} PatchRow;

typedef struct PatchView {
    PairOptions pair;
    const char *what_name, *metric_name, *path_list, *svg, *freeze;
    bool noising;
    size_t layer, top;
    size_t from, to; /* positions; NOT_GIVEN: all */

    Study *study;
    PairLoop loop;
    PatchWhat what;
    Path *paths; /* [n_paths], or NULL */
    size_t n_paths;
    size_t n_tokens; /* of each text of the last pair: of all, where there are positions */

    PatchRow *rows, *listed; /* [n_rows]; those that are listed */
    size_t *places;          /* [n_rows] of these, scratch */
    double *sizes;           /* [n_rows] likewise */
    size_t n_rows, n_done, n_same;
    bool partial; /* Ctrl-C came */
} PatchView;

/* The columns of the grid of cells, whose lines are layers, or heads. */
size_t patch_columns(const PatchView *view);

/* The label of a line of the grid, whose first cell this is. */
void patch_line_name(const PatchView *view, const PatchRow *row, char name[24]);

/* The report, from the rows. */
void patch_show(Report *report, const PatchView *view);

/* The grid as a figure, to the file of --svg. */
bool patch_figure(const PatchView *view, Error *error);

#endif
