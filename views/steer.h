/* The view `steer`, for its own files only. */
#ifndef ATTN_STEER_VIEW_H
#define ATTN_STEER_VIEW_H

#include "cli/directions.h"
#include "measures/steering.h"
#include "views/view.h"

enum { MAX_STRENGTHS = 8 };

/* Where a direction comes from. */
typedef enum Source { FROM_TEXTS, FROM_NEURON, FROM_TOKEN, FROM_FILE, N_SOURCES } Source;

/* A layer that is steered. */
typedef struct SteeredLayer {
    size_t layer;
    double length;               /* of its direction */
    double stream;               /* mean length of what it is added to (SiteMeans) */
    double cells[MAX_STRENGTHS]; /* of a sweep: nll in nats, or the answer's probability */
} SteeredLayer;

/* A token that may come next, and its probability. */
typedef struct NextToken {
    int32_t id;
    double baseline, steered;
} NextToken;

typedef struct SteerView {
    const char *plus, *minus, *plus_file, *minus_file, *neuron, *token, *file;
    const char *average, *site_name, *layer_list, *position_list, *strength_list, *answer, *output;
    float strength, temperature;
    bool project, unit, sweep;
    size_t n_predict, n_top;

    Source source;
    size_t n_plus, n_minus; /* texts of FROM_TEXTS */
    int32_t token_id, answer_id;
    bool *chosen;          /* [n_layer] */
    float *room;           /* [n_layer][d_model] directions */
    Directions directions; /* of --direction */
    const float **rows;    /* [n_layer] of -o */
    Steering steering;
    SiteMeans stream;
    SteeredRuns runs;
    double strengths[MAX_STRENGTHS];
    size_t n_strengths;
    SteeredLayer *layers; /* [n_layers] */
    size_t n_layers;
    NextToken *next; /* [n_next] */
    size_t n_next;
    NextToken answered;  /* of --answer */
    TextBuffer texts[2]; /* generated without and with it */
} SteerView;

/* Whether the options name one source, and the choices that go with it. In steer_source.c. */
bool steer_check_source(const SteerView *view, Error *error);

/* Fills chosen, steering.directions and the site by the options. In steer_source.c. */
bool steer_find_directions(const Study *study, SteerView *view, Error *error);

/* Shows it. In steer_show.c. */
bool steer_show(Study *study, void *view, Error *error);

extern const char *const steer_source_names[N_SOURCES];

#endif
