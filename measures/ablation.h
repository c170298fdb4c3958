/*
 * Runs a text with heads or MLPs switched off, or scaled, against the same text with all of them. A probe overwrites z of
 * a head, or what an MLP adds. (z comes before W_O, so each query head stands alone under grouped-query attention.) It
 * writes factor·z + (1 − factor)·substitute, where factor 0 is off and 1 changes nothing, and the substitute is
 *
 *   zero      the value bias b_V of the head's kv head, else 0 (hard_zero: 0 always)
 *   mean      its mean over the positions of a reference text
 *   resample  its values on another text of as many tokens
 */
#ifndef ATTN_ABLATION_H
#define ATTN_ABLATION_H

#include "measures/difference.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum By { BY_ZERO, BY_MEAN, BY_RESAMPLE } By;

/* The vector that stands in for a layer's z (width n_head·d_head) or mlp_out (width d_model). */
typedef struct Substitute {
    float *rows;  /* [1][width]; resample: [n][width]; NULL where nothing is switched off */
    double *sums; /* mean: [width] over the positions seen so far */
    size_t width;
} Substitute;

typedef struct AblatedLayer {
    float *resid_pre; /* [n][d_model] of the baseline, or what is kept of it; NULL where no run begins */
    Substitute z, mlp_out;
} AblatedLayer;

typedef enum AblationRun { RUN_REFERENCE, RUN_BASELINE, RUN_ABLATED } AblationRun;

typedef struct Ablation {
    const Subject *subject;
    Arena *arena;
    const Config *config;
    By by;
    bool hard_zero;   /* zero is 0 even where the head has a value bias */
    bool in_turn;     /* parts are switched off one by one, not together */
    Tokens reference; /* the text of mean or resample; empty otherwise */
    size_t from,
        to; /* positions that a run is compared at, and the one before them: all, unless the caller says */
    const Probe
        *look; /* looks into the runs with parts off, all layers of them, at these positions; or NULL */
    bool looking;
    bool *off;      /* [n_layer][n_head + 1]: the parts that a run changes; a layer's last is its MLP */
    float *factors; /* [n_layer][n_head + 1] of these */
    size_t *chosen; /* [n_chosen] places in `off`, in the order in which they were chosen */
    size_t n_chosen;

    AblationRun run; /* under way: what the probe is to do */
    Probe probe;
    Session *session;
    AblatedLayer *layers; /* [n_layer] */
    float *final[2];      /* [n][d_model] leaving the last layer: baseline (or what is kept of it), ablated */
    float *logits[2];     /* [LOGITS_CHUNK][n_vocab] of each */
    size_t n_last;        /* positions that these hold */
    bool has_baseline;    /* it was kept: no run is needed */
    bool keeps;           /* the run without the parts is kept, too */
    size_t start;         /* tokens that its session holds already */
} Ablation;

/* Nothing is chosen yet. Call ablation_free after a failure too. */
bool ablation_begin(Ablation *ablation, const Subject *subject, Arena *arena, Error *error);
void ablation_free(Ablation *ablation);

enum { MAX_FACTOR = 4 };

/* Head n_head is the MLP. A part that is chosen again gets the later factor. */
void ablation_choose(Ablation *ablation, size_t layer, size_t head, float factor);

/* The first position that a run is compared at. */
size_t ablation_first_position(const Ablation *ablation);

/* The lowest layer of which a part is off. */
size_t ablation_first_layer(const Ablation *ablation);

/*
 * Runs the reference, if there is one, and then the text with everything on. Before it, at least one part is
 * chosen, and by, in_turn and reference are set. After it the chosen parts are off, unless in_turn.
 */
bool ablation_baseline(Ablation *ablation, Error *error);

/*
 * Runs the text again without the parts that `off` marks, from the lowest layer of theirs up. Adds to *difference how
 * the result differs from the baseline, at the positions max(from, 1) − 1 … to − 1, which foresee the tokens from …
 * to − 1. `each` (or NULL) sees the logits of this run there: those of LOGITS_CHUNK positions once `look` has seen these
 * pass through all layers, as in subject_feed.
 */
bool ablation_run(Ablation *ablation, Difference *difference, LogitsVisit *each, void *user, Error *error);

/*
 * The logits [n_vocab] after the last token before `to`, with everything on and without the parts; after ablation_run.
 */
const float *ablation_last_logits(const Ablation *ablation, bool ablated);

/* The layer, head and name ("L3H7", "L1MLP") of a place in `off`. */
size_t part_layer(const Ablation *ablation, size_t place);
size_t part_head(const Ablation *ablation, size_t place);
const char *part_name(char buffer[32], const Ablation *ablation, size_t place);

#endif
