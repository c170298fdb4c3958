/*
 * Neurons: the hidden numbers of a layer's MLP, as its last matrix reads them (PROBE_MLP_POST): neuron i of layer L adds
 * value·w_i to the residual stream, w_i being column i of W_down. Which are strongest on a text, how strong one is (or a head,
 * by the length of what it adds) at each token, and in which parts of a long text it is strongest of all. Experts have none.
 */
#ifndef ATTN_NEURONS_H
#define ATTN_NEURONS_H

#include "measures/effects.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a layer's MLP is none of experts. */
bool layer_has_neurons(const Model *model, size_t layer);

/*
 * direction [d_model]: w_i, the column that a neuron writes with, times the residual scale and the gains of a norm behind the
 * MLP; the norm's division, which differs from position to position, is left out. False with an error.
 */
bool neuron_direction(const Subject *subject, Arena *arena, size_t layer, size_t neuron, float *direction,
                      Error *error);

typedef struct Neuron {
    size_t layer, index;
    size_t position; /* where it is strongest, by |value|: the first such */
    double value;    /* there */
    double
        output_norm; /* ‖value·w‖: the length of what it adds, a norm behind the MLP left out but for its gains */
} Neuron;

/* The strongest of some layers, each counted once. */
typedef struct Neurons {
    size_t layer, n_layers; /* those from this one on */
    size_t n_top;

    const Subject *subject;
    Arena *arena;
    float *values;     /* [n_layers][d_ff] the strongest so far */
    size_t *positions; /* [n_layers][d_ff] where */
    Neuron *top;       /* [n_top] the strongest first */
} Neurons;

/* Makes room. The fields up to n_top are set by the caller, all others zero; n_top becomes how many there are, if fewer. */
bool neurons_begin(Neurons *neurons, const Subject *subject, Arena *arena, Error *error);

/* A probe calls the first two; its owner calls the last once the text has been fed. */
bool neurons_want(const Neurons *neurons, ProbeSite site, size_t layer);
void neurons_add(Neurons *neurons, const Activation *seen);
bool neurons_finish(Neurons *neurons, Error *error);

/* A neuron, or a head, whose value is ‖z W_O‖. */
typedef struct Unit {
    size_t layer, index;
    bool is_head;
} Unit;

const char *unit_name(char buffer[64], const Unit *unit); /* "L3N120", "L3H7" */

/* One of them, token by token. What a neuron does to the next token's logits is that of effects.h. */
typedef struct UnitTrace {
    Unit unit;
    size_t n_top; /* tokens raised, and lowered, of a neuron */

    const Subject *subject;
    Arena *arena;
    double *values;      /* [n_tokens] */
    double *scales;      /* [n_tokens] what the final norm divides by; of a neuron */
    double *behind;      /* [n_tokens] what a norm behind the MLP divides by, or NULL */
    float *made;         /* scratch, [SESSION_CHUNK][d_model], or NULL */
    size_t strongest;    /* position, by |value| */
    HeadEffects written; /* there; of a neuron */
} UnitTrace;

/* These are like those of Neurons. */
bool trace_begin(UnitTrace *trace, const Subject *subject, Arena *arena, Error *error);
bool trace_wants(const UnitTrace *trace, ProbeSite site, size_t layer, size_t head);
void trace_add(UnitTrace *trace, const Activation *seen);
bool trace_finish(UnitTrace *trace, Error *error);

/* A part of a long text: the token at which a window is strongest, and some around it. */
enum { BEFORE_EXAMPLE = 24, AFTER_EXAMPLE = 12, EXAMPLE_TOKENS = BEFORE_EXAMPLE + 1 + AFTER_EXAMPLE };

typedef struct Example {
    double value;
    uint64_t position, line;     /* of that token in the whole text; lines from 1 on */
    size_t at, n;                /* it is number `at` of the n tokens */
    int32_t ids[EXAMPLE_TOKENS]; /* [n] */
} Example;

/*
 * A text of any length goes by in windows of n_window tokens, which do not overlap, each as if it were a text of its own, a
 * BOS in front if there is one. Of each window its strongest token counts, by |value|.
 */
typedef struct Examples {
    Unit unit;
    size_t n_top, n_window; /* n_window: a BOS included */
    int32_t bos;            /* or −1 */

    const Subject *subject;
    Session *session;
    Probe probe;
    double *values; /* [n_window] of the one under way */
    int32_t *ids;   /* [n_window] its tokens so far */
    size_t n;       /* of them, the BOS included */
    Example *best;  /* [n_best ≤ n_top] the strongest first */
    size_t n_best;
    uint64_t n_tokens, n_windows, line; /* so far, without BOS; line: in which the window begins */
    double sum, squares;                /* of the values */
} Examples;

/* The fields up to bos are set by the caller, all others zero. examples_end in any case. */
bool examples_begin(Examples *examples, const Subject *subject, Arena *arena, Error *error);
bool examples_add(Examples *examples, const int32_t *ids, size_t n, Error *error);
bool examples_finish(Examples *examples, Error *error); /* the last window is shorter */
void examples_end(Examples *examples);

#endif
