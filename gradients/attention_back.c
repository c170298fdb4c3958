#include "gradients/attention_back.h"

#include "gradients/attention_inner.h"
#include "gradients/linear_back.h"
#include "gradients/norm_back.h"

#include <math.h>
#include <string.h>

enum { LINE = 16 /* floats of a cache line */ };

void attention_back_out(AttentionTrace *trace, size_t from, size_t n, const float *dout) {
    const Matrix *w = &trace->weights->out.w;
    size_t at = from * d_q(trace), count = n * d_q(trace);
    memset(trace->dz + at, 0, count * sizeof *trace->dz);
    linear_back(&trace->compute, w, 0, w->rows, dout, w->rows, n, trace->dz + at);
    for (size_t i = at; trace->shape.gated && i < at + count; i++) {
        float open = sigmoid(trace->gate[i]);
        trace->dgate[i] = trace->dz[i] * trace->z[i] * open * (1 - open);
        trace->dz[i] *= open;
    }
}

/* Adds in lanes: a sum in one would wait for each addition. */
static double dot(const float *x, const float *y, size_t n) {
    double lanes[8] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t j = 0; j < 8; j++) lanes[j] += (double)x[i + j] * (double)y[i + j];
    for (; i < n; i++) sum += (double)x[i] * (double)y[i];
    for (size_t j = 0; j < 8; j++) sum += lanes[j];
    return sum;
}

/* From the gradient of the pattern in s->back to that of the scores before the cap, times the scale of q·k. */
static void back_scores(const AttentionTrace *trace, const AttentionRows *rows, const AttentionScratch *s,
                        const GradientProbe *probe) {
    const float cap = trace->shape.score_cap;
    const float *slopes = trace->shape.slopes;
    bool see_scores = gradient_wanted(probe, PROBE_SCORES, trace->layer, rows->head);
    for (size_t r = 0; r < rows->n_rows; r++) {
        const float *p = s->pattern + r * trace->n;
        float *back = s->back + r * trace->n, *scores = s->scores + r * trace->n;
        size_t position = rows->first + r, n = position + 1 - rows->key;
        const float mean = (float)dot(p, back, n);
        for (size_t i = 0; i < n; i++) back[i] = p[i] * (back[i] - mean);
        if (see_scores)
            probe->visit(probe->user,
                         &(Activation){PROBE_SCORES, trace->layer, rows->head, position, 1, n, n, scores},
                         back);
        for (size_t i = 0; cap != 0 && i < n; i++) {
            if (p[i] == 0) continue; /* hidden: the score is −∞ */
            float distance = (float)(rows->key + i) - (float)position;
            float share = (scores[i] - (slopes ? slopes[rows->head] * distance : 0)) / cap;
            back[i] *= 1 - share * share;
        }
        for (size_t i = 0; i < n; i++) back[i] *= trace->scale;
        memset(back + n, 0, (rows->end - position - 1) * sizeof *back);
    }
}

/* to [n keys][QUERIES] = from, turned. */
static void turn(const AttentionTrace *trace, const AttentionRows *rows, const float *from, float *to) {
    const size_t n = rows->end - rows->key;
    for (size_t first = 0; first < n; first += LINE) /* a line of each row at a time */
        for (size_t r = 0; r < rows->n_rows; r++)
            for (size_t i = first; i < smaller(first + LINE, n); i++)
                to[i * QUERIES + r] = from[r * trace->n + i];
}

/* All that goes back through some queries of a head: adds to dv and dk of its kv head, and writes dq. */
static void back_rows(const AttentionTrace *trace, const AttentionRows *rows, const AttentionScratch *s,
                      const GradientProbe *probe) {
    const Kernels *kernels = trace->compute.kernels;
    size_t d_head = trace->shape.d_head, dq = d_q(trace), dkv = d_kv(trace), n_keys = rows->end - rows->key;
    size_t at = rows->first * dq + rows->head * d_head, key_at = rows->key * dkv + rows->kv_head * d_head;
    attention_pattern(trace, rows, s);
    turn(trace, rows, s->pattern, s->turned);
    kernels->weighted_sums(trace->dv + key_at, dkv, s->turned, QUERIES, n_keys, DTYPE_F32, trace->dz + at, dq,
                           rows->n_rows, d_head);
    for (size_t r = 0; r < rows->n_rows; r++) memset(s->back + r * trace->n, 0, n_keys * sizeof *s->back);
    kernels->weighted_sums(s->back, trace->n, trace->dz + at, dq, rows->n_rows, DTYPE_F32,
                           trace->v_turned + rows->kv_head * d_head * trace->n + rows->key, trace->n, d_head,
                           n_keys);
    for (size_t r = 0; gradient_wanted(probe, PROBE_PATTERN, trace->layer, rows->head) && r < rows->n_rows;
         r++) {
        size_t position = rows->first + r, n = position + 1 - rows->key;
        probe->visit(probe->user,
                     &(Activation){PROBE_PATTERN, trace->layer, rows->head, position, 1, n, n,
                                   s->pattern + r * trace->n},
                     s->back + r * trace->n);
    }
    back_scores(trace, rows, s, probe);
    kernels->weighted_sums(trace->dq + at, dq, s->back, trace->n, rows->n_rows, DTYPE_F32, trace->k + key_at,
                           dkv, n_keys, d_head);
    turn(trace, rows, s->back, s->turned);
    kernels->weighted_sums(trace->dk + key_at, dkv, s->turned, QUERIES, n_keys, DTYPE_F32, trace->q + at, dq,
                           rows->n_rows, d_head);
}

typedef struct AttentionBackLoop {
    AttentionTrace *trace;
    const GradientProbe *probe;
} AttentionBackLoop;

static bool is_watched(const AttentionBackLoop *loop, size_t head) {
    return gradient_wanted(loop->probe, PROBE_SCORES, loop->trace->layer, head) ||
           gradient_wanted(loop->probe, PROBE_PATTERN, loop->trace->layer, head);
}

/* Kv heads [begin, end). */
static void back_heads(void *context, size_t begin, size_t end, unsigned worker) {
    const AttentionBackLoop *loop = context;
    const AttentionTrace *trace = loop->trace;
    AttentionScratch s = worker_scratch(trace, worker);
    size_t group = group_of(trace);
    for (size_t head = begin * group; head < end * group; head++) {
        bool watched = is_watched(loop, head);
        for (size_t first = 0; first < trace->n; first += QUERIES) {
            AttentionRows rows = rows_at(trace, head, first, watched, watched || trace->shape.score_cap != 0);
            back_rows(trace, &rows, &s, watched ? loop->probe : NULL);
        }
    }
}

/* Back through cut and norm of a row, whose numbers at the site are `site`. */
static void back_norm_and_cut(const AttentionTrace *trace, const Norm *norm, const float *site, float *row,
                              size_t d, const AttentionScratch *s) {
    const float limit = trace->shape.clamp;
    bool normed = trace->shape.clamp_normed;
    const float *cut = site;
    if (limit != 0 && normed) {
        cut = s->normed;
        memcpy(s->normed, site, d * sizeof *site);
        attention_norm_and_cut(trace->compute.kernels, &trace->shape, norm, s->normed, d);
    }
    for (size_t i = 0; limit != 0 && normed && i < d; i++)
        if (fabsf(cut[i]) >= limit) row[i] = 0;
    if (!norm->gain) return;
    memcpy(s->row, row, d * sizeof *row);
    memset(row, 0, d * sizeof *row);
    norm_back_row(norm, site, s->row, row, d);
}

/* Tokens [begin, end): from the gradients of turned queries and keys to those at their sites. */
static void unrotate(void *context, size_t begin, size_t end, unsigned worker) {
    const AttentionTrace *trace = context;
    const Rope *rope = layer_rope(trace);
    AttentionScratch s = worker_scratch(trace, worker);
    size_t dq = d_q(trace), dkv = d_kv(trace);
    for (size_t t = begin; t < end; t++) {
        float *q = trace->dq + t * dq, *k = trace->dk + t * dkv;
        if (rope) {
            const float *cos_sin = trace->cos_sin[rope - trace->shape.ropes] + t * rope->dim;
            for (size_t i = 0; i < rope->dim; i++) s.row[i] = i % 2 ? -cos_sin[i] : cos_sin[i];
            rotate_row(trace, rope, q, dq, s.row);
            rotate_row(trace, rope, k, dkv, s.row);
        }
        back_norm_and_cut(trace, &trace->weights->q_norm, trace->q_site + t * dq, q, dq, &s);
        back_norm_and_cut(trace, &trace->weights->k_norm, trace->k_site + t * dkv, k, dkv, &s);
    }
}

/* A number that was cut does not move: its gradient is 0. */
static void back_cut(const float *x, float *dx, size_t n, float limit) {
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) >= limit) dx[i] = 0;
}

void attention_back_attend(AttentionTrace *trace, const GradientProbe *probe) {
    const AttentionShape *shape = &trace->shape;
    Threads *threads = trace->compute.threads;
    size_t n = trace->n, layer = trace->layer, n_q = n * d_q(trace), n_kv = n * d_kv(trace);
    AttentionBackLoop loop = {trace, probe};
    bool watched = false;
    for (size_t head = 0; head < shape->n_head; head++) watched = watched || is_watched(&loop, head);
    gradient_heads(probe, PROBE_Z, layer, trace->z, trace->dz, n, shape->n_head, shape->d_head);
    memset(trace->dq, 0, n_q * sizeof *trace->dq);
    memset(trace->dk, 0, n_kv * sizeof *trace->dk);
    memset(trace->dv, 0, n_kv * sizeof *trace->dv);
    if (watched)
        back_heads(&loop, 0, shape->n_head_kv, 0); /* a probe is asked on this thread */
    else
        parallel_for(threads, shape->n_head_kv, 1, back_heads, &loop);
    const GradientProbe *turning = shape->layers[layer].rope ? probe : NULL;
    gradient_heads(turning, PROBE_ROT_K, layer, trace->k, trace->dk, n, shape->n_head_kv, shape->d_head);
    gradient_heads(turning, PROBE_ROT_Q, layer, trace->q, trace->dq, n, shape->n_head, shape->d_head);
    parallel_for(threads, n, 16, unrotate, trace);
    gradient_heads(probe, PROBE_V, layer, trace->v, trace->dv, n, shape->n_head_kv, shape->d_head);
    gradient_heads(probe, PROBE_K, layer, trace->k_site, trace->dk, n, shape->n_head_kv, shape->d_head);
    gradient_heads(probe, PROBE_Q, layer, trace->q_site, trace->dq, n, shape->n_head, shape->d_head);
    if (shape->clamp == 0) return;
    back_cut(trace->v, trace->dv, n_kv, shape->clamp);
    if (shape->clamp_normed) return;
    back_cut(trace->k_site, trace->dk, n_kv, shape->clamp);
    back_cut(trace->q_site, trace->dq, n_q, shape->clamp);
}

/* The gradients of W_q's rows: those of the queries, and of the gates behind each head's. */
static const float *q_rows(AttentionTrace *trace, size_t from, size_t n) {
    size_t d_head = trace->shape.d_head, at = from * d_q(trace);
    if (!trace->shape.gated) return trace->dq + at;
    for (size_t i = 0; i < n * trace->shape.n_head; i++) {
        memcpy(trace->rows + 2 * i * d_head, trace->dq + at + i * d_head, d_head * sizeof *trace->dq);
        memcpy(trace->rows + (2 * i + 1) * d_head, trace->dgate + at + i * d_head,
               d_head * sizeof *trace->dq);
    }
    return trace->rows;
}

void attention_back_rows(AttentionTrace *trace, size_t from, size_t n, float *dx) {
    const AttentionWeights *weights = trace->weights;
    const Compute *compute = &trace->compute;
    size_t n_q = weights->q.w.rows, n_kv = d_kv(trace);
    linear_back(compute, &weights->q.w, 0, n_q, q_rows(trace, from, n), n_q, n, dx);
    linear_back(compute, &weights->k.w, 0, n_kv, trace->dk + from * n_kv, n_kv, n, dx);
    linear_back(compute, &weights->v.w, 0, n_kv, trace->dv + from * n_kv, n_kv, n, dx);
}

void attention_back_head(AttentionTrace *trace, ProbeSite input, size_t head, size_t from, size_t n,
                         float *dx) {
    const AttentionWeights *weights = trace->weights;
    const bool is_k = input == PROBE_K_INPUT, is_v = input == PROBE_V_INPUT;
    const Matrix *w = is_k ? &weights->k.w : is_v ? &weights->v.w : &weights->q.w;
    const float *dy = is_k   ? trace->dk + from * w->rows
                      : is_v ? trace->dv + from * w->rows
                             : q_rows(trace, from, n);
    size_t d_head = trace->shape.d_head, first = head * d_head;
    if (!is_k && !is_v && trace->shape.gated) first = (2 * head + (input == PROBE_GATE_INPUT)) * d_head;
    linear_back(&trace->compute, w, first, first + d_head, dy + first, w->rows, n, dx);
}
