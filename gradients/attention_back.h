/*
 * The way back through attention (attention.h), of a whole text at once. With the pattern P and the scores S of a head,
 * and the gradient dz of what it gives:
 *
 *   dv_j = Σ_i P_ij dz_i      dP_ij = dz_i · v_j      dS_ij = P_ij (dP_ij − Σ_j' P_ij' dP_ij')
 *   dq_i = Σ_j dS_ij k_j · scale                       dk_j = Σ_i dS_ij q_i · scale
 */
#ifndef ATTN_ATTENTION_BACK_H
#define ATTN_ATTENTION_BACK_H

#include "gradients/attention_trace.h"
#include "gradients/visits.h"

#include <stddef.h>

/*
 * Like the way there (attention_trace.h): dout of each chunk, attention_back_attend, and then dx [n][d_model] of each, to which
 * is added. `probe` (or NULL) sees z, pattern, scores, q, k and v.
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
