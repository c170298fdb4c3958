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
    const char *what_name, *metric_name, *path_list;
    bool noising;
    size_t layer, top;

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

/* The report, from the rows. */
void patch_show(Report *report, PatchView *view);

#endif
