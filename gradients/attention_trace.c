#include "gradients/attention_trace.h"

#include "gradients/attention_inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

AttentionTrace *attention_trace_new(const AttentionShape *shape, const Compute *compute, size_t n,
                                    size_t n_ctx, size_t n_chunk, Error *error) {
    AttentionTrace *trace = calloc(1, sizeof *trace);
    bool ok = trace;
    if (!ok) goto done;
    *trace = (AttentionTrace){.shape = *shape, .compute = *compute, .n = n, .n_chunk = n_chunk};
    trace->scale = shape->scale != 0 ? shape->scale : 1.0f / sqrtf((float)shape->d_head);
    struct {
        float **to;
        size_t width;
    } parts[] = {
        {&trace->own_q, d_q(trace)}, {&trace->own_k, d_kv(trace)},    {&trace->own_v, d_kv(trace)},
        {&trace->q, d_q(trace)},     {&trace->k, d_kv(trace)},        {&trace->own_z, d_q(trace)},
        {&trace->dq, d_q(trace)},    {&trace->dk, d_kv(trace)},       {&trace->dv, d_kv(trace)},
        {&trace->dz, d_q(trace)},    {&trace->k_turned, d_kv(trace)}, {&trace->v_turned, d_kv(trace)},
        {&trace->gate, d_q(trace)},  {&trace->dgate, d_q(trace)},
    };
    for (size_t i = 0; ok && i < sizeof parts / sizeof *parts - (shape->gated ? 0 : 2); i++)
        ok = (*parts[i].to = floats_filled_new(n, parts[i].width)) != NULL;
    trace->rows = ok ? floats_new(n_chunk, 2 * d_q(trace)) : NULL;
    trace->scratch = ok ? floats_new(threads_count(compute->threads), scratch_floats(trace)) : NULL;
    trace->cos_sin = calloc(shape->n_ropes + 1, sizeof *trace->cos_sin);
    ok = ok && trace->rows && trace->scratch && trace->cos_sin;
    for (size_t i = 0; ok && i < shape->n_ropes; i++) {
        const Rope *rope = &shape->ropes[i];
        ok = (trace->cos_sin[i] = floats_new(n, rope->dim)) != NULL;
        for (size_t t = 0; ok && t < n; t++) rope_angles(rope, n_ctx, t, trace->cos_sin[i] + t * rope->dim);
    }
done:
    if (ok) return trace;
    error_set(error, "not enough memory for the way back through attention over %zu tokens", n);
    attention_trace_free(trace);
    return NULL;
}

void attention_trace_free(AttentionTrace *trace) {
    if (!trace) return;
    float *const parts[] = {trace->own_q,    trace->own_k,    trace->own_v, trace->q,
                            trace->k,        trace->own_z,    trace->dq,    trace->dk,
                            trace->dv,       trace->dz,       trace->gate,  trace->dgate,
                            trace->k_turned, trace->v_turned, trace->rows,  trace->scratch};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    for (size_t i = 0; trace->cos_sin && i < trace->shape.n_ropes; i++) free(trace->cos_sin[i]);
    free(trace->cos_sin);
    free(trace);
}

void attention_trace_begin(AttentionTrace *trace, const AttentionWeights *weights, size_t layer,
                           const SavedLayer *saved) {
    trace->weights = weights;
    trace->layer = layer;
    trace->is_saved = saved;
    trace->q_site = saved ? saved->at[SAVED_Q] : trace->own_q;
    trace->k_site = saved ? saved->at[SAVED_K] : trace->own_k;
    trace->v = saved ? saved->at[SAVED_V] : trace->own_v;
    trace->z = saved ? saved->at[SAVED_Z] : trace->own_z;
}

void attention_trace_rows(AttentionTrace *trace, size_t from, size_t n, const float *x) {
    const AttentionShape *shape = &trace->shape;
    size_t dq = d_q(trace), dkv = d_kv(trace), d_head = shape->d_head;
    float *q = trace->own_q + from * dq, *k = trace->own_k + from * dkv, *v = trace->own_v + from * dkv;
    const LinearOutput qkv[] = {{shape->gated ? trace->rows : q, &trace->weights->q},
                                {k, &trace->weights->k},
                                {v, &trace->weights->v}};
    linear_forward(&trace->compute, qkv, 3, x, n);
    for (size_t i = 0; shape->gated && i < n * shape->n_head; i++) {
        memcpy(q + i * d_head, trace->rows + 2 * i * d_head, d_head * sizeof *q);
        memcpy(trace->gate + from * dq + i * d_head, trace->rows + (2 * i + 1) * d_head, d_head * sizeof *q);
    }
    if (shape->clamp == 0) return;
    clamp(v, n * dkv, shape->clamp);
    if (shape->clamp_normed) return;
    clamp(q, n * dq, shape->clamp);
    clamp(k, n * dkv, shape->clamp);
}

/* Tokens [begin, end): queries and keys as the scores see them. */
static void rotate(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const AttentionTrace *trace = context;
    const Rope *rope = layer_rope(trace);
    const Kernels *kernels = trace->compute.kernels;
    size_t dq = d_q(trace), dkv = d_kv(trace);
    for (size_t t = begin; t < end; t++) {
        float *q = trace->q + t * dq, *k = trace->k + t * dkv;
        memcpy(q, trace->q_site + t * dq, dq * sizeof *q);
        memcpy(k, trace->k_site + t * dkv, dkv * sizeof *k);
        attention_norm_and_cut(kernels, &trace->shape, &trace->weights->q_norm, q, dq);
        attention_norm_and_cut(kernels, &trace->shape, &trace->weights->k_norm, k, dkv);
        if (!rope) continue;
        const float *cos_sin = trace->cos_sin[rope - trace->shape.ropes] + t * rope->dim;
        rotate_row(trace, rope, q, dq, cos_sin);
        rotate_row(trace, rope, k, dkv, cos_sin);
    }
}

/* Kv heads [begin, end): their keys and values with a row for each dimension. */
static void turn_keys(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const AttentionTrace *trace = context;
    size_t dkv = d_kv(trace), n = trace->n;
    for (size_t i = begin * trace->shape.d_head; i < end * trace->shape.d_head; i++)
        for (size_t t = 0; t < n; t++) {
            trace->k_turned[i * n + t] = trace->k[t * dkv + i];
            trace->v_turned[i * n + t] = trace->v[t * dkv + i];
        }
}

/* The softmax of a query's scores, over the keys that it sees; the others get 0. Returns how many a window hides. */
static size_t softmax(const AttentionTrace *trace, const AttentionRows *rows, size_t position,
                      float *scores) {
    size_t window = trace->shape.layers[trace->layer].window, n = position + 1 - rows->key;
    size_t hidden = window && position >= window ? position + 1 - window - rows->key : 0;
    attention_softmax(trace->compute.kernels, trace->weights->sinks, rows->head, n - hidden, scores + hidden);
    memset(scores, 0, hidden * sizeof *scores);
    memset(scores + n, 0, (rows->end - position - 1) * sizeof *scores);
    return hidden;
}

void attention_pattern(const AttentionTrace *trace, const AttentionRows *rows, const AttentionScratch *s) {
    const Kernels *kernels = trace->compute.kernels;
    size_t d_head = trace->shape.d_head, n_keys = rows->end - rows->key;
    for (size_t r = 0; r < rows->n_rows; r++) {
        const float *q = trace->q + (rows->first + r) * d_q(trace) + rows->head * d_head;
        for (size_t i = 0; i < d_head; i++) s->q[r * d_head + i] = q[i] * trace->scale;
        memset(s->pattern + r * trace->n, 0, n_keys * sizeof *s->pattern);
    }
    kernels->weighted_sums(s->pattern, trace->n, s->q, d_head, rows->n_rows, DTYPE_F32,
                           trace->k_turned + rows->kv_head * d_head * trace->n + rows->key, trace->n, d_head,
                           n_keys);
    for (size_t r = 0; r < rows->n_rows; r++) {
        float *scores = s->pattern + r * trace->n;
        size_t position = rows->first + r;
        attention_bend(kernels, &trace->shape, rows->head, position, rows->key, position + 1 - rows->key,
                       scores);
        if (rows->keeps) memcpy(s->scores + r * trace->n, scores, n_keys * sizeof *scores);
        size_t hidden = softmax(trace, rows, position, scores);
        for (size_t i = 0; rows->keeps && i < hidden; i++) s->scores[r * trace->n + i] = -INFINITY;
    }
}

/* Kv heads [begin, end): z of all their heads' queries. */
static void attend(void *context, size_t begin, size_t end, unsigned worker) {
    const AttentionTrace *trace = context;
    AttentionScratch s = worker_scratch(trace, worker);
    size_t d_head = trace->shape.d_head, group = group_of(trace);
    for (size_t head = begin * group; head < end * group; head++)
        for (size_t first = 0; first < trace->n; first += QUERIES) {
            AttentionRows rows = rows_at(trace, head, first, false, false);
            float *z = trace->own_z + first * d_q(trace) + head * d_head;
            attention_pattern(trace, &rows, &s);
            for (size_t r = 0; r < rows.n_rows; r++) memset(z + r * d_q(trace), 0, d_head * sizeof *z);
            trace->compute.kernels->weighted_sums(z, d_q(trace), s.pattern, trace->n, rows.n_rows, DTYPE_F32,
                                                  trace->v + rows.key * d_kv(trace) + rows.kv_head * d_head,
                                                  d_kv(trace), rows.end - rows.key, d_head);
        }
}

void attention_trace_attend(AttentionTrace *trace) {
    Threads *threads = trace->compute.threads;
    parallel_for(threads, trace->n, 16, rotate, trace);
    parallel_for(threads, trace->shape.n_head_kv, 1, turn_keys, trace);
    if (!trace->is_saved) parallel_for(threads, trace->shape.n_head_kv, 1, attend, trace);
}

void attention_trace_out(AttentionTrace *trace, size_t from, size_t n, float *out) {
    size_t dq = d_q(trace);
    const float *z = trace->z + from * dq;
    for (size_t i = 0; trace->shape.gated && i < n * dq; i++)
        trace->rows[i] = z[i] * sigmoid(trace->gate[from * dq + i]);
    linear_forward(&trace->compute, &(LinearOutput){out, &trace->weights->out}, 1,
                   trace->shape.gated ? trace->rows : z, n);
}
