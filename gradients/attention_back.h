/*
 * The way back through attention (attention.h), of a whole text at once. With the pattern P and the scores S of a head,
 * and the gradient dz of what it gives:
 *
 *   dv_j = Σ_i P_ij dz_i      dP_ij = dz_i · v_j      dS_ij = P_ij (dP_ij − Σ_j' P_ij' dP_ij')
 *   dq_i = Σ_j dS_ij k_j · scale                       dk_j = Σ_i dS_ij q_i · scale
 */
#ifndef ATTN_ATTENTION_BACK_H
#define ATTN_ATTENTION_BACK_H

#include "attention.h"
#include "base/error.h"
#include "gradients/saved_activations.h"
#include "gradients/visits.h"
#include "kernels/kernels.h"

#include <stddef.h>

/* One layer's attention under way, there and back. */
typedef struct AttentionTrace AttentionTrace;

/*
 * For texts of n tokens from position 0 on, in a context of n_ctx; `shape` and what it points to must outlive it. Rows are
 * handed over n_chunk at a time at most. NULL with an error when memory runs out. attention_trace_free accepts NULL.
 */
AttentionTrace *attention_trace_new(const AttentionShape *shape, const Compute *compute, size_t n,
                                    size_t n_ctx, size_t n_chunk, Error *error);
void attention_trace_free(AttentionTrace *trace);

/*
 * The way there, in three steps. For each chunk of rows, those from `from` on: x [n][d_model], already normed; once all have
 * been handed over, attention_trace_attend; then for each chunk out [n][d_model]. Where q, k, v and z of the layer are `saved`
 * (or NULL), there is no first step, and they must outlive the layer.
 */
void attention_trace_begin(AttentionTrace *trace, const AttentionWeights *weights, size_t layer,
                           const SavedLayer *saved);
void attention_trace_rows(AttentionTrace *trace, size_t from, size_t n, const float *x);
void attention_trace_attend(AttentionTrace *trace);
void attention_trace_out(AttentionTrace *trace, size_t from, size_t n, float *out);

/*
 * The way back, likewise: dout of each chunk, attention_back_attend, and then dx [n][d_model] of each, to which is added.
 * `probe` (or NULL) sees z, pattern, scores, q, k and v.
 */
void attention_back_out(AttentionTrace *trace, size_t from, size_t n, const float *dout);
void attention_back_attend(AttentionTrace *trace, const GradientProbe *probe);
void attention_back_rows(AttentionTrace *trace, size_t from, size_t n, float *dx);

/*
 * dx += what comes back through the query or gate of one head, or the key or value of one kv head (PROBE_Q_INPUT, _GATE_INPUT,
 * _K_INPUT or _V_INPUT).
 */
void attention_back_head(AttentionTrace *trace, ProbeSite input, size_t head, size_t from, size_t n,
                         float *dx);

#endif
