/* The way back through a layer that keeps a state in attention's place (layers/states.h), of a whole text at once. */
#ifndef ATTN_STATES_BACK_H
#define ATTN_STATES_BACK_H

#include "base/error.h"
#include "kernels/kernels.h"
#include "layers/states.h"

#include <stddef.h>

/* One layer under way, there and back. */
typedef struct StatesTrace StatesTrace;

/* For texts of n tokens from position 0 on. NULL with an error when memory runs out. states_trace_free accepts NULL. */
StatesTrace *states_trace_new(const StateShape *shape, const Compute *compute, size_t n, Error *error);
void states_trace_free(StatesTrace *trace);

/*
 * The way there, in three steps. For each chunk of rows, those from `from` on: x [n][d_model], already normed; once all have
 * been handed over, states_trace_mix; then for each chunk out [n][d_model].
 */
void states_trace_begin(StatesTrace *trace, const StateWeights *weights);
void states_trace_rows(StatesTrace *trace, size_t from, size_t n, const float *x);
void states_trace_mix(StatesTrace *trace);
void states_trace_out(StatesTrace *trace, size_t from, size_t n, float *out);

/* The way back, likewise: dout of each chunk, states_back_mix, and then dx [n][d_model] of each, to which is added. */
void states_back_out(StatesTrace *trace, size_t from, size_t n, const float *dout);
void states_back_mix(StatesTrace *trace);
void states_back_rows(StatesTrace *trace, size_t from, size_t n, float *dx);

#endif
