/*
 * The way there through attention (attention.h), of a whole text at once and without a cache, for who then goes back through
 * it (attention_back.h).
 */
#ifndef ATTN_ATTENTION_TRACE_H
#define ATTN_ATTENTION_TRACE_H

#include "attention.h"
#include "base/error.h"
#include "gradients/saved_activations.h"
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
 * Three steps. For each chunk of rows, those from `from` on: x [n][d_model], already normed; once all have been handed over,
 * attention_trace_attend; then for each chunk out [n][d_model]. Where q, k, v and z of the layer are `saved` (or NULL), there
 * is no first step, and they must outlive the layer.
 */
void attention_trace_begin(AttentionTrace *trace, const AttentionWeights *weights, size_t layer,
                           const SavedLayer *saved);
void attention_trace_rows(AttentionTrace *trace, size_t from, size_t n, const float *x);
void attention_trace_attend(AttentionTrace *trace);
void attention_trace_out(AttentionTrace *trace, size_t from, size_t n, float *out);

#endif
