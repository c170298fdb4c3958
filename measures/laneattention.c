/*
 * attention.c's formula for the rows of lanes: a lane's queries see the base's keys before its first position and its
 * own from there on. Sums are the kernel set's; texts are short, so a head's scores are one whole matrix.
 */
#include "measures/lanes.h"

#include "attention.h"

#include <math.h>
#include <string.h>

/* A layer of a run under way. */
typedef struct LaneLayer {
    Lanes *lanes;
    const AttentionWeights *weights;
    size_t layer;
    bool watched; /* the probe looks at patterns, on the thread that runs the session */
} LaneLayer;

/* A lane's head: where its numbers lie. */
typedef struct LaneHead {
    const Lane *lane;
    size_t index, head, kv_head;
    size_t n_rows;  /* of the lane */
    float *queries; /* [n_rows][d_head] scaled; then z */
    float *scores;  /* [n_rows][n] then the pattern */
} LaneHead;

/* Norms, cuts and turns one row's queries, or keys, [n_heads][d_head]. */
static void turn_row(const LaneLayer *layer, const Norm *norm, float *row, size_t n_heads, size_t position) {
    const Lanes *lanes = layer->lanes;
    const AttentionShape *shape = &lanes->shape;
    const Rope *rope = shape->layers[layer->layer].rope;
    attention_norm_and_cut(lanes->subject->compute.kernels, shape, norm, row, n_heads * shape->d_head);
    if (!rope) return;
    const float *angles = lanes->cos_sin;
    for (const Rope *before = shape->ropes; before < rope; before++) angles += lanes->n * before->dim;
    for (size_t h = 0; h < n_heads; h++)
        rope_rotate(rope, row + h * shape->d_head, angles + position * rope->dim);
}

/* Keys [rows][n_head_kv][d_head] as [n_head_kv][d_head][rows]. */
static void transpose(const float *keys, size_t rows, size_t width, float *to) {
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < width; i++) to[i * rows + t] = keys[t * width + i];
}

/* A lane's queries and keys as attention takes them. */
static void turn_lanes(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LaneLayer *layer = context;
    Lanes *lanes = layer->lanes;
    const AttentionShape *shape = &lanes->shape;
    size_t d_q = shape->n_head * shape->d_head, d_kv = shape->n_head_kv * shape->d_head;
    for (size_t i = begin; i < end; i++) {
        const Lane *lane = &lanes->lanes[i];
        size_t n_rows = lanes->n - lane->first;
        for (size_t t = 0; t < n_rows; t++) {
            float *q = lanes->q + (lane->at + t) * d_q, *k = lanes->k + (lane->at + t) * d_kv;
            turn_row(layer, &layer->weights->q_norm, q, shape->n_head, lane->first + t);
            turn_row(layer, &layer->weights->k_norm, k, shape->n_head_kv, lane->first + t);
        }
        transpose(lanes->k + lane->at * d_kv, n_rows, d_kv, lanes->turned + lane->at * d_kv);
    }
}

/* z[t][i] += Σ_j p[t][j]·v[j][i]: by the sums that do not depend on company, where a set has such. */
static void add_sums(const Lanes *lanes, float *z, size_t z_stride, const float *p, size_t p_stride, size_t n,
                     const float *v, size_t v_stride, size_t n_v, size_t d) {
    const Kernels *kernels = lanes->subject->compute.kernels;
    if (n_v == 0 || d == 0) return;
    (kernels->few_sums ? kernels->few_sums : kernels->weighted_sums)(z, z_stride, p, p_stride, n, DTYPE_F32,
                                                                     v, v_stride, n_v, d);
}

/* q·k of all rows and all keys; those behind a row's position are of no use. */
static void score(const LaneLayer *layer, const LaneHead *at) {
    const Lanes *lanes = layer->lanes;
    const AttentionShape *shape = &lanes->shape;
    size_t n = lanes->n, d = shape->d_head, first = at->lane->first, d_kv = shape->n_head_kv * d;
    float scale = shape->scale != 0 ? shape->scale : 1.0f / sqrtf((float)d);
    for (size_t t = 0; t < at->n_rows; t++) {
        const float *q = lanes->q + ((at->lane->at + t) * shape->n_head + at->head) * d;
        for (size_t i = 0; i < d; i++) at->queries[t * d + i] = q[i] * scale;
    }
    memset(at->scores, 0, at->n_rows * n * sizeof *at->scores);
    add_sums(lanes, at->scores, n, at->queries, d, at->n_rows,
             lanes->base[layer->layer].keys + at->kv_head * d * n, n, d, first);
    add_sums(lanes, at->scores + first, n, at->queries, d, at->n_rows,
             lanes->turned + at->lane->at * d_kv + at->kv_head * d * at->n_rows, at->n_rows, d, at->n_rows);
}

/* One row of scores becomes one of the pattern, 0 behind its position. */
static void soften(const LaneLayer *layer, const LaneHead *at, size_t position, float *row) {
    const Lanes *lanes = layer->lanes;
    const AttentionShape *shape = &lanes->shape;
    const Kernels *kernels = lanes->subject->compute.kernels;
    size_t n_keys = position + 1, window = shape->layers[layer->layer].window;
    attention_bend(kernels, shape, at->head, position, 0, n_keys, row);
    for (size_t key = 0; window && key + window < n_keys; key++) row[key] = -INFINITY;
    attention_softmax(kernels, layer->weights->sinks, at->head, n_keys, row);
    memset(row + n_keys, 0, (lanes->n - n_keys) * sizeof *row);
}

/* The weights of a head's queries, the lane's own or the base's. */
static void find_pattern(const LaneLayer *layer, const LaneHead *at) {
    const Lanes *lanes = layer->lanes;
    size_t n = lanes->n, floats = at->n_rows * n;
    float *of_base = lanes->freezes ? lane_pattern(lanes, layer->layer, at->head, at->lane->first) : NULL;
    if (lanes->is_frozen) {
        memcpy(at->scores, of_base, floats * sizeof *of_base);
        return;
    }
    score(layer, at);
    for (size_t t = 0; t < at->n_rows; t++) soften(layer, at, at->lane->first + t, at->scores + t * n);
    if (lanes->freezes && lanes->is_base) memcpy(of_base, at->scores, floats * sizeof *of_base);
}

static void show_pattern(const LaneLayer *layer, const LaneHead *at, size_t position, float *row) {
    const LaneProbe *probe = &layer->lanes->probe;
    size_t n_keys = position + 1;
    if (layer->watched && probe->wants(probe->user, PROBE_PATTERN, layer->layer, at->head))
        probe->visit(probe->user, at->index,
                     &(Activation){PROBE_PATTERN, layer->layer, at->head, position, 1, n_keys, n_keys, row});
}

static void weigh_values(const LaneLayer *layer, const LaneHead *at) {
    const Lanes *lanes = layer->lanes;
    const AttentionShape *shape = &lanes->shape;
    size_t n = lanes->n, d = shape->d_head, first = at->lane->first, d_kv = shape->n_head_kv * d;
    memset(at->queries, 0, at->n_rows * d * sizeof *at->queries);
    add_sums(lanes, at->queries, d, at->scores, n, at->n_rows,
             lanes->base[layer->layer].values + at->kv_head * d, d_kv, first, d);
    add_sums(lanes, at->queries, d, at->scores + first, n, at->n_rows,
             lanes->v + at->lane->at * d_kv + at->kv_head * d, d_kv, at->n_rows, d);
    for (size_t t = 0; t < at->n_rows; t++)
        memcpy(lanes->z + ((at->lane->at + t) * shape->n_head + at->head) * d, at->queries + t * d,
               d * sizeof *at->queries);
}

/* Piece i is head i mod n_head of lane i / n_head. */
static void attend(void *context, size_t begin, size_t end, unsigned worker) {
    const LaneLayer *layer = context;
    Lanes *lanes = layer->lanes;
    const AttentionShape *shape = &lanes->shape;
    for (size_t i = begin; i < end; i++) {
        LaneHead at = {
            .lane = &lanes->lanes[i / shape->n_head], .index = i / shape->n_head, .head = i % shape->n_head};
        at.kv_head = at.head * shape->n_head_kv / shape->n_head;
        at.n_rows = lanes->n - at.lane->first;
        at.queries = lanes->scaled + worker * lanes->n * 2 * shape->d_head;
        at.scores = lanes->scores + worker * lanes->n * lanes->n;
        find_pattern(layer, &at);
        for (size_t t = 0; t < at.n_rows; t++)
            show_pattern(layer, &at, at.lane->first + t, at.scores + t * lanes->n);
        weigh_values(layer, &at);
    }
}

/* The base's keys and values, of a lane that is all of the text. */
static void keep_base(const LaneLayer *layer) {
    const Lanes *lanes = layer->lanes;
    size_t floats = lanes->n * lanes->shape.n_head_kv * lanes->shape.d_head;
    memcpy(lanes->base[layer->layer].keys, lanes->turned, floats * sizeof(float));
    memcpy(lanes->base[layer->layer].values, lanes->v, floats * sizeof(float));
}

static bool is_watched(const Lanes *lanes, size_t layer) {
    for (size_t head = 0; head < lanes->shape.n_head; head++)
        if (lanes->probe.wants(lanes->probe.user, PROBE_PATTERN, layer, head)) return true;
    return false;
}

void lanes_attend(Lanes *lanes, size_t layer) {
    const Model *model = lanes->subject->model;
    LaneLayer loop = {lanes, &model_weights(model)->layers[layer].attention, layer, is_watched(lanes, layer)};
    size_t n_pieces = lanes->n_lanes * lanes->shape.n_head;
    Threads *threads = lanes->subject->compute.threads;
    parallel_for(threads, lanes->n_lanes, 1, turn_lanes, &loop);
    if (lanes->is_base) keep_base(&loop);
    if (loop.watched)
        attend(&loop, 0, n_pieces, 0);
    else
        parallel_for(threads, n_pieces, 4, attend, &loop);
}
