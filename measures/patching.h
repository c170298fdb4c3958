/*
 * Activation patching (Vig et al. 2020, arXiv:2004.12265; Meng et al. 2022, arXiv:2202.05262; Heimersheim & Nanda 2024,
 * arXiv:2404.15255): two texts of as many tokens, clean and corrupted, and a metric of the last position's logits. One
 * activation of one run is put into the other; how far does the metric move from one run's towards the other's?
 *
 *   denoising  the clean activation into the corrupted run    noising  the corrupted one into the clean run
 *   effect = (metric − metric of corrupted) / (metric of clean − metric of corrupted)
 *
 * With `freezes` all heads attend in a patched run as they do in the run that is changed, but for a pattern that is patched
 * itself: what a patch moves by other heads' values, and not by where they look.
 *
 * Layers below a patch, and positions before it, stay as they are; where both runs have the same bits there, all do.
 */
#ifndef ATTN_PATCHING_H
#define ATTN_PATCHING_H

#include "measures/lanes.h"
#include "measures/readout.h"

/* Cells that there is one of for each layer and position, or head, or head and position. */
typedef enum PatchWhat {
    PATCH_RESID_PRE,
    PATCH_ATTN_OUT,
    PATCH_MLP_OUT,
    PATCH_Z, /* from here on all positions at once, by head (k, v: by kv head) */
    PATCH_Q,
    PATCH_K,
    PATCH_V,
    PATCH_PATTERN,
    PATCH_HEAD_POS, /* z by head and position */
    PATCH_NEURONS,  /* mlp_post by neuron, which stands for the head, all positions at once */
    N_PATCH_WHATS
} PatchWhat;

extern const char *const patch_names[N_PATCH_WHATS]; /* "resid_pre", … */

bool patch_has_heads(PatchWhat what);
bool patch_has_positions(PatchWhat what);

/* The numbers of a site in one run, all layers of them; pattern [n_head][n] of each query, 0 behind it. */
typedef struct Recording {
    float *rows;         /* [n_layer][n][width] */
    size_t width, block; /* of a row, and of one head in it */
} Recording;

typedef struct PatchCell {
    size_t layer, head, position; /* head: or neuron; SIZE_MAX: of none, of all positions */
    size_t first;                 /* position from which the two runs differ there; n: nowhere */
    double value;                 /* the metric; NaN before it is done */
    bool done;
} PatchCell;

typedef struct Patching {
    const Subject *subject;
    Arena *arena;
    PatchWhat what;
    size_t layer; /* SIZE_MAX: all */
    bool noising, freezes;
    size_t n;        /* tokens */
    size_t from, to; /* the positions that cells are of, from < to <= n, where they have any */

    Lanes lanes;
    Readout readout;
    Recording base, source,
        *under_way;   /* what is changed, what is put there, what is being recorded; or NULL */
    float *final;     /* [most lanes][d_model] */
    double values[2]; /* the metric of the base and of the source */
    PatchCell *cells; /* [n_cells] */
    size_t n_cells, n_done;
    const PatchCell *batch[SESSION_CHUNK]; /* [lanes] under way; NULL elsewhere */
    size_t n_batch;
} Patching;

/*
 * Runs both texts, of n tokens each, and makes the list of cells: those in which both runs have the same bits are done.
 * Call patching_free after a failure, too. The fields up to `to` are the caller's.
 */
bool patching_begin(Patching *patching, const Subject *subject, Arena *arena, const int32_t *clean,
                    const int32_t *corrupted, const Metric *metric, Error *error);
void patching_free(Patching *patching);

double patching_clean(const Patching *patching);
double patching_corrupted(const Patching *patching);

/* How many runs of a whole text the work left amounts to. */
double patching_runs_left(const Patching *patching);

/*
 * Computes as many cells as go together, of those that are not done; *ends when all are. What was done before an error
 * stays.
 */
bool patching_step(Patching *patching, bool *ends, Error *error);

#endif
