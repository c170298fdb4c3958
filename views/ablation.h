/*
 * A text run with heads or MLPs switched off, against the same text with all of them. Into z of a head (before
 * W_O, so that each query head stands alone under grouped-query attention), or into what an MLP adds, a probe
 * writes
 *
 *   zero      the value bias b_V of the head's kv head, else 0 (--hard-zero: 0 always)
 *   mean      its mean over the positions of a reference text
 *   resample  its values on another text of as many tokens
 */
#ifndef ATTN_STUDY_ABLATION_H
#define ATTN_STUDY_ABLATION_H

#include "views/difference.h"
#include "views/study.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum By { BY_ZERO, BY_MEAN, BY_RESAMPLE } By;

/* What stands in for a layer's z (width n_head·d_head) or mlp_out (width d_model). */
typedef struct Substitute {
    float *rows;  /* [1][width]; resample: [n][width]; NULL where nothing is switched off */
    double *sums; /* mean: [width] over the positions seen so far */
    size_t width;
} Substitute;

typedef struct AblatedLayer {
    float *resid_pre; /* [n][d_model] of the baseline; NULL where no run begins */
    Substitute z, mlp_out;
} AblatedLayer;

typedef enum AblationRun { RUN_REFERENCE, RUN_BASELINE, RUN_ABLATED } AblationRun;

typedef struct Ablation {
    const Study *study;
    const Config *config;
    By by;
    bool in_turn;     /* parts are to be switched off one by one, not together */
    Tokens reference; /* of mean or resample, or none */
    bool *off;      /* [n_layer][n_head + 1]: the parts that a run switches off; a layer's last is its MLP */
    size_t *chosen; /* [n_chosen] places in `off`, in the order in which they were chosen */
    size_t n_chosen;

    AblationRun run; /* under way: what the probe is to do */
    Probe probe;
    Session *session;
    AblatedLayer *layers; /* [n_layer] */
    float *final[2];      /* [n][d_model] leaving the last layer: baseline, ablated */
    float *logits[2];     /* [LOGITS_CHUNK][n_vocab] of each */
} Ablation;

/* Nothing is chosen yet. ablation_free also after a failure. */
bool ablation_begin(Ablation *ablation, const Study *study, Error *error);
void ablation_free(Ablation *ablation);

/* Head n_head is the MLP. */
void ablation_choose(Ablation *ablation, size_t layer, size_t head);

/* "L3H7,L4": a head, and all heads of a layer. The error names the option. */
bool ablation_choose_heads(Ablation *ablation, const char *option, const char *list, Error *error);

/*
 * The run over the reference, if there is one, and that over the text with everything on. At least one part is
 * chosen, and by, in_turn and reference are set. Parts are off from now on, unless they are to be in turn.
 */
bool ablation_baseline(Ablation *ablation, Error *error);

/*
 * The text once more from a layer up, at or below the lowest that is touched, with what is off off, and how that
 * differs from the baseline. `each` (or NULL) sees the logits without those parts.
 */
bool ablation_run(Ablation *ablation, size_t layer, Difference *difference, LogitsVisit *each, void *user,
                  Error *error);

/* The lowest layer that holds a chosen part. */
size_t ablation_first_layer(const Ablation *ablation);

/* Of a place in `off`. part_name: "L3H7", "L1MLP". */
size_t part_layer(const Ablation *ablation, size_t place);
size_t part_head(const Ablation *ablation, size_t place);
const char *part_name(char buffer[32], const Ablation *ablation, size_t place);

/* "delta_nll_nats", "kl_nats", "top1_changed" of a baseline and an ablated run. */
void json_ablated(Report *report, const Difference *difference);
double ablated_delta_nll(const Difference *difference);

#endif
