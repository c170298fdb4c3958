/*
 * Path patching of single edges, as Goldowsky-Dill et al. 2023 (arXiv:2304.05969) define a direct edge: what a head or an MLP
 * adds to the residual stream becomes that of the other run for one reader alone, which is a head's query, key or value,
 * an MLP, or the final norm. All else on the way, other heads and MLPs between them too, stays what it is in the run that
 * is changed; behind the reader everything is computed. (Wang et al. 2022, arXiv:2211.00593, compute the MLPs between
 * sender and receiver again: their effect is that of this edge and of those through MLPs, together.)
 *
 *   δ = sender's output with the other run's z, less that without    x = stream that the receiver reads + δ
 */
#ifndef ATTN_PATHS_H
#define ATTN_PATHS_H

#include "measures/lanes.h"
#include "measures/readout.h"

/*
 * One end of an edge: a head's z, an MLP, or a state in attention's place sends; a head's query, key, value or gate, an MLP,
 * such a state, or the final norm receives.
 */
typedef struct PathEnd {
    /* PROBE_Z; PROBE_MLP_OUT, PROBE_ATTN_OUT (a state); PROBE_Q, PROBE_K, PROBE_V, PROBE_GATE_INPUT; PROBE_LOGITS: the final norm */
    ProbeSite site;
    size_t layer, head; /* k, v: the kv head; 0 of an MLP or a state */
} PathEnd;

static inline bool is_head_end(const PathEnd *end) {
    return end->site <= PROBE_Z || end->site == PROBE_GATE_INPUT;
}

typedef struct Path {
    PathEnd from, to;
    double value; /* the metric */
    bool same;    /* the sender has the same bits in both runs */

    float *sent[2]; /* [n][cols] of the base and of the source */
    float *delta;   /* [n][d_model] */
    float *read;    /* [n][cols] what the receiver makes of it; a gate: by what z is multiplied for it */
} Path;

typedef struct Paths {
    const Subject *subject;
    Path *paths; /* [n_paths] the caller's, their ends filled in */
    size_t n_paths, n;
    bool noising;

    Lanes lanes;
    Compute compute;         /* of gates */
    float *normed, *gate[2]; /* [n][d_model], [n][d_head]; NULL where heads have none */
    Readout readout;
    float *final[2],
        *made;        /* [d_model] of the base, and of the run under way; [n][d_model] what attention added */
    double values[2]; /* the metric of the base and of the source */
    int run;          /* what the probe does */
    bool sends;       /* the sender's other output is put there */
    Path *path;       /* under way */
} Paths;

/* Whether the receiver comes behind the sender. */
bool path_goes_up(const Config *config, const Path *path);

/*
 * Runs both texts of n tokens, then each path. The fields up to `noising` are the caller's. Call paths_free after a
 * failure, too.
 */
bool paths_run(Paths *paths, const int32_t *clean, const int32_t *corrupted, const Metric *metric,
               Arena *arena, Error *error);
void paths_free(Paths *paths);

#endif
