/*
 * Scores of a few queries over all their keys lie in scratch as whole rows. Sums over keys take keys and values as they lie
 * for pattern·v and dS·k; for q·k and dz·v they take them turned, a row for each dimension, so that all six sums are
 * weighted sums of rows. Pieces of the work are kv heads, which share nothing; a watched head's are done one by one.
 */
#include "gradients/attention_back.h"

#include "gradients/linear_back.h"
#include "gradients/norm_back.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUERIES = 32, /* of a head that are worked out together */
    LINE = 16,    /* floats of a cache line */
};

/* One worker's scratch; rows of keys are [QUERIES][n]. */
typedef struct Scratch {
    float *q;       /* [QUERIES][d_head] scaled */
    float *scores;  /* kept where the way back needs them: capped, or watched */
    float *pattern; /* the pattern */
    float *back;    /* its gradient, then that of the scores */
    float *turned;  /* [n][QUERIES] one of the two, turned */
    float *row;     /* [the widest row of q or k] */
    float *normed;  /* likewise */
} Scratch;

struct AttentionTrace {
    AttentionShape shape;
    Compute compute;
    const AttentionWeights *weights; /* of the layer under way */
    size_t layer, n, n_chunk;
    float scale;
    float **cos_sin;                      /* [n_ropes] each [n][dim/2][2] */
    const float *q_site, *k_site, *v, *z; /* [n][heads][d_head] as the probe sees them: saved, or … */
    float *own_q, *own_k, *own_v, *own_z; /* … made here */
    bool is_saved;
    float *q, *k; /* behind norms and RoPE: the same where there are none */
    float *gate;  /* [n][n_head][d_head], or NULL */
    float *dq, *dk, *dv, *dz, *dgate;
    float *k_turned, *v_turned; /* [n_head_kv][d_head][n] */
    float *rows;                /* [n_chunk][2·n_head·d_head] */
    float *scratch;             /* [workers][scratch_floats] */
};

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t d_q(const AttentionTrace *trace) { return trace->shape.n_head * trace->shape.d_head; }
static size_t d_kv(const AttentionTrace *trace) { return trace->shape.n_head_kv * trace->shape.d_head; }
static size_t group_of(const AttentionTrace *trace) { return trace->shape.n_head / trace->shape.n_head_kv; }

static const Rope *layer_rope(const AttentionTrace *trace) { return trace->shape.layers[trace->layer].rope; }

static size_t scratch_floats(const AttentionTrace *trace) {
    return QUERIES * trace->shape.d_head + 4 * QUERIES * trace->n + 2 * larger(d_q(trace), d_kv(trace));
}

static Scratch worker_scratch(const AttentionTrace *trace, unsigned worker) {
    size_t keys = QUERIES * trace->n;
    Scratch s = {.q = trace->scratch + worker * scratch_floats(trace)};
    s.scores = s.q + QUERIES * trace->shape.d_head;
    s.pattern = s.scores + keys;
    s.back = s.pattern + keys;
    s.turned = s.back + keys;
    s.row = s.turned + keys;
    s.normed = s.row + larger(d_q(trace), d_kv(trace));
    return s;
}

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

static void clamp(float *x, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) x[i] = fminf(fmaxf(x[i], -limit), limit);
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

/* Norms and cuts a row of all heads' queries or keys, and not yet turns it. */
static void norm_and_cut(const AttentionTrace *trace, const Norm *norm, float *row, size_t d) {
    if (norm->gain) norm_row(trace->compute.kernels, norm, row, row, d);
    if (trace->shape.clamp != 0 && trace->shape.clamp_normed) clamp(row, d, trace->shape.clamp);
}

static void rotate_row(const AttentionTrace *trace, const Rope *rope, float *row, size_t d,
                       const float *cos_sin) {
    for (size_t i = 0; i < d; i += trace->shape.d_head) rope_rotate(rope, row + i, cos_sin);
}

/* Tokens [begin, end): queries and keys as the scores see them. */
static void rotate(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const AttentionTrace *trace = context;
    const Rope *rope = layer_rope(trace);
    size_t dq = d_q(trace), dkv = d_kv(trace);
    for (size_t t = begin; t < end; t++) {
        float *q = trace->q + t * dq, *k = trace->k + t * dkv;
        memcpy(q, trace->q_site + t * dq, dq * sizeof *q);
        memcpy(k, trace->k_site + t * dkv, dkv * sizeof *k);
        norm_and_cut(trace, &trace->weights->q_norm, q, dq);
        norm_and_cut(trace, &trace->weights->k_norm, k, dkv);
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

/* Queries [first, first + n_rows) of a head, and the keys [key, end) that any of them sees. */
typedef struct Rows {
    size_t head, kv_head, first, n_rows, key, end;
    bool keeps; /* the scores are kept */
} Rows;

static Rows rows_at(const AttentionTrace *trace, size_t head, size_t first, bool all_keys, bool keeps) {
    size_t window = trace->shape.layers[trace->layer].window, n_rows = smaller(QUERIES, trace->n - first);
    size_t key = window && first >= window && !all_keys ? first + 1 - window : 0;
    return (Rows){head, head / group_of(trace), first, n_rows, key, first + n_rows, keeps};
}

/* score = cap·tanh(score/cap), and ALiBi's cost of distance. */
static void bend_scores(const AttentionTrace *trace, const Rows *rows, size_t position, float *scores) {
    const AttentionShape *shape = &trace->shape;
    size_t n = position + 1 - rows->key;
    if (shape->score_cap != 0) trace->compute.kernels->soft_cap(scores, shape->score_cap, n);
    for (size_t i = 0; shape->slopes && i < n; i++)
        scores[i] += shape->slopes[rows->head] * ((float)(rows->key + i) - (float)position);
}

/* The softmax of a query's scores, over the keys that it sees; the others get 0. Returns how many a window hides. */
static size_t softmax(const AttentionTrace *trace, const Rows *rows, size_t position, float *scores) {
    const Kernels *kernels = trace->compute.kernels;
    size_t window = trace->shape.layers[trace->layer].window, n = position + 1 - rows->key;
    size_t hidden = window && position >= window ? position + 1 - window - rows->key : 0;
    float sink = trace->weights->sinks ? trace->weights->sinks[rows->head] : -INFINITY;
    float max = fmaxf(kernels->max(scores + hidden, n - hidden), sink);
    float sum = kernels->exp_sum(scores + hidden, max, n - hidden) + expf(sink - max);
    kernels->scale(scores + hidden, 1.0f / sum, n - hidden);
    memset(scores, 0, hidden * sizeof *scores);
    memset(scores + n, 0, (rows->end - position - 1) * sizeof *scores);
    return hidden;
}

/* The pattern of these queries, rows of scratch n floats apart, in columns from 0 on for the keys from rows->key on. */
static void make_pattern(const AttentionTrace *trace, const Rows *rows, const Scratch *s) {
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
        bend_scores(trace, rows, rows->first + r, scores);
        if (rows->keeps) memcpy(s->scores + r * trace->n, scores, n_keys * sizeof *scores);
        size_t hidden = softmax(trace, rows, rows->first + r, scores);
        for (size_t i = 0; rows->keeps && i < hidden; i++) s->scores[r * trace->n + i] = -INFINITY;
    }
}

/* Kv heads [begin, end): z of all their heads' queries. */
static void attend(void *context, size_t begin, size_t end, unsigned worker) {
    const AttentionTrace *trace = context;
    Scratch s = worker_scratch(trace, worker);
    size_t d_head = trace->shape.d_head, group = group_of(trace);
    for (size_t head = begin * group; head < end * group; head++)
        for (size_t first = 0; first < trace->n; first += QUERIES) {
            Rows rows = rows_at(trace, head, first, false, false);
            float *z = trace->own_z + first * d_q(trace) + head * d_head;
            make_pattern(trace, &rows, &s);
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

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

void attention_trace_out(AttentionTrace *trace, size_t from, size_t n, float *out) {
    size_t dq = d_q(trace);
    const float *z = trace->z + from * dq;
    for (size_t i = 0; trace->shape.gated && i < n * dq; i++)
        trace->rows[i] = z[i] * sigmoid(trace->gate[from * dq + i]);
    linear_forward(&trace->compute, &(LinearOutput){out, &trace->weights->out}, 1,
                   trace->shape.gated ? trace->rows : z, n);
}

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
static void back_scores(const AttentionTrace *trace, const Rows *rows, const Scratch *s,
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
static void turn(const AttentionTrace *trace, const Rows *rows, const float *from, float *to) {
    const size_t n = rows->end - rows->key;
    for (size_t first = 0; first < n; first += LINE) /* a line of each row at a time */
        for (size_t r = 0; r < rows->n_rows; r++)
            for (size_t i = first; i < smaller(first + LINE, n); i++)
                to[i * QUERIES + r] = from[r * trace->n + i];
}

/* All that goes back through some queries of a head: adds to dv and dk of its kv head, and writes dq. */
static void back_rows(const AttentionTrace *trace, const Rows *rows, const Scratch *s,
                      const GradientProbe *probe) {
    const Kernels *kernels = trace->compute.kernels;
    size_t d_head = trace->shape.d_head, dq = d_q(trace), dkv = d_kv(trace), n_keys = rows->end - rows->key;
    size_t at = rows->first * dq + rows->head * d_head, key_at = rows->key * dkv + rows->kv_head * d_head;
    make_pattern(trace, rows, s);
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
    Scratch s = worker_scratch(trace, worker);
    size_t group = group_of(trace);
    for (size_t head = begin * group; head < end * group; head++) {
        bool watched = is_watched(loop, head);
        for (size_t first = 0; first < trace->n; first += QUERIES) {
            Rows rows = rows_at(trace, head, first, watched, watched || trace->shape.score_cap != 0);
            back_rows(trace, &rows, &s, watched ? loop->probe : NULL);
        }
    }
}

/* Back through cut and norm of a row, whose numbers at the site are `site`. */
static void back_norm_and_cut(const AttentionTrace *trace, const Norm *norm, const float *site, float *row,
                              size_t d, const Scratch *s) {
    const float limit = trace->shape.clamp;
    bool normed = trace->shape.clamp_normed;
    const float *cut = site;
    if (limit != 0 && normed) {
        cut = s->normed;
        memcpy(s->normed, site, d * sizeof *site);
        norm_and_cut(trace, norm, s->normed, d);
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
    Scratch s = worker_scratch(trace, worker);
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
