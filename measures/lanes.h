/*
 * Copies of one text, the base, each changed from some layer and some position on: lanes. What lies before the change is
 * the same for all, and is computed once. Behind it, lanes go through the layers together, as the rows of one long text that a
 * session is fed, so that each weight is read once for all of them. Nothing but attention tells one row from another; so
 * attention is computed here, lane by lane, and takes the place of z (probe.h).
 *
 * Where a layer keeps a state, or the cache is not F32, lanes go one by one, whole, by the session's own attention.
 */
#ifndef ATTN_MEASURES_LANES_H
#define ATTN_MEASURES_LANES_H

#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>

/* As Probe, of each lane: positions are those of the text. PROBE_SCORES, PROBE_LOGITS, and rot_q and rot_k are never seen. */
typedef struct LaneProbe {
    void *user;
    bool (*wants)(void *user, ProbeSite site, size_t layer, size_t head);
    void (*visit)(void *user, size_t lane, const Activation *seen);
} LaneProbe;

typedef struct Lane {
    size_t first; /* position of its first row; those before are the base's */
    size_t at;    /* its first row in what is fed */
} Lane;

/* The base's numbers in a layer. */
typedef struct LaneBase {
    float *resid;   /* [n][d_model] entering the layer */
    float *keys;    /* [n_head_kv][d_head][n], normed and turned; NULL where the layer has no heads */
    float *values;  /* [n][n_head_kv][d_head] */
    float *pattern; /* [n_head][n][n] its weights, row = query, where they are frozen; else NULL */
} LaneBase;

typedef struct Lanes {
    const Subject *subject;
    LaneProbe probe; /* looks into all runs from now on; the caller may change it between them */
    size_t n;        /* tokens of the text */
    bool freezes;    /* what lanes_run runs attends as the base does, whatever its queries and keys are */
    size_t room;     /* rows that go together; as many as the text has, or more */
    size_t most;     /* lanes that do */

    AttentionShape shape;
    bool apart;      /* attention is computed here */
    size_t n_angles; /* the context that angles of RoPE are for */
    Session *session;
    Probe own;
    LaneBase *base; /* [n_layer] */

    Lane *lanes; /* [n_lanes] of the run under way */
    size_t n_lanes, n_rows;
    bool is_base;   /* the run makes it */
    bool is_frozen; /* the run takes its weights of attention */
    bool is_whole;  /* all rows went together so far */
    float *final;   /* [n_lanes][d_model] */
    float *resid;   /* [room][d_model] what a run begins with */
    float *q, *z;   /* [room][n_head][d_head] of the layer under way */
    float *k, *v;   /* [room][n_head_kv][d_head] */
    float *turned;  /* each lane's keys: [n_head_kv][d_head][rows of the lane] */
    float *scores;  /* [threads][n][n] */
    float *scaled;  /* [threads][n][d_head] a head's queries, then what it makes */
    float *cos_sin; /* [n_ropes] each [n][dim]: of each position */
} Lanes;

/* For texts of n tokens. Call lanes_free after a failure, too; the arena holds the rest. */
bool lanes_begin(Lanes *lanes, const Subject *subject, size_t n, bool freezes, Arena *arena, Error *error);
void lanes_free(Lanes *lanes);

/*
 * Runs a whole text of n tokens as lane 0; it becomes the base if that is said. final [d_model]: what leaves the last layer
 * at the last position.
 */
bool lanes_text(Lanes *lanes, const int32_t *ids, bool is_base, float *final, Error *error);

/*
 * Runs n_lanes ≥ 1 copies of the base from a layer on, lane i from position firsts[i] < n on, where the probe has yet to
 * change it; they may be `most`, and have `room` rows. final [n_lanes][d_model] likewise.
 */
bool lanes_run(Lanes *lanes, size_t layer, const size_t *firsts, size_t n_lanes, float *final, Error *error);

/* The rows that a lane from this position takes. */
size_t lane_rows(const Lanes *lanes, size_t first);

/* The base's weights of a head's query. */
static inline float *lane_pattern(const Lanes *lanes, size_t layer, size_t head, size_t query) {
    return lanes->base[layer].pattern + (head * lanes->n + query) * lanes->n;
}

/* For lanes.c: attention of all lanes in a layer, from q, k and v to z, once these are there (laneattention.c). */
void lanes_attend(Lanes *lanes, size_t layer);

#endif
