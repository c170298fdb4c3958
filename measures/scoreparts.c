#include "measures/scoreparts.h"

#include "measures/frozennorm.h"

#include <math.h>
#include <string.h>

/* A query, or a key, in parts. */
typedef struct Side {
    size_t position;
    size_t n_heads, head;  /* of its kind; which */
    size_t group, first;   /* numbers that are normed together, which are projected; the first of them */
    const Linear *project; /* W_q or W_k */
    const Norm *norm;      /* of queries or keys */
    ProbeSite site;
    Writers writers;
    double scale;  /* of the norm before attention; 1 where there is none */
    float *actual; /* [group] as the run has them, before their norm; then behind it */
    float *parts;  /* [n + 1][d_head] the last: the whole, by itself */
} Side;

typedef struct Split {
    ScoreParts *out;
    Arena *arena;
    const LayerWeights *weights;
    AttentionShape shape;
    Side query, key;
    Side *watched[2]; /* those whose position is fed, NULL behind them: between the two positions both */
} Split;

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Split *split = user;
    bool here = layer == split->out->layer;
    if (!split->watched[0]) return false;
    switch (site) {
    case PROBE_NORM1_SCALE:
    case PROBE_Q:
    case PROBE_K: return here;
    case PROBE_SCORES:
    case PROBE_PATTERN: return here && head == split->out->head && split->watched[0] == &split->query;
    default: return writers_want(&split->query.writers, site, layer);
    }
}

/* Keeps the numbers of a head among those that are normed together. */
static void keep_head(Side *side, const Activation *seen) {
    size_t d = seen->n_cols, at = seen->head * d;
    if (seen->site != side->site || at < side->first || at - side->first >= side->group) return;
    memcpy(side->actual + at - side->first, seen->data, d * sizeof *seen->data);
}

static void see(Side *side, const Activation *seen) {
    switch (seen->site) {
    case PROBE_NORM1_SCALE: side->scale = (double)*seen->data; break;
    case PROBE_Q:
    case PROBE_K: keep_head(side, seen); break;
    default: writers_add(&side->writers, seen);
    }
}

static void visit(void *user, const Activation *seen) {
    Split *split = user;
    ScoreParts *out = split->out;
    if (seen->site == PROBE_SCORES) out->score = (double)seen->data[out->key];
    if (seen->site == PROBE_PATTERN) out->weight = (double)seen->data[out->key];
    if (seen->site == PROBE_SCORES || seen->site == PROBE_PATTERN) return;
    for (size_t i = 0; i < 2 && split->watched[i]; i++) see(split->watched[i], seen);
}

static bool begin_side(const Split *split, Side *side, Error *error) {
    size_t d_head = split->shape.d_head, at = side->head * d_head;
    side->group = side->norm->gain && side->norm->n > d_head ? side->norm->n : d_head;
    side->first = at / side->group * side->group;
    side->scale = 1;
    side->actual = arena_floats(split->arena, 1, side->group);
    return writers_begin(&side->writers, split->out->subject, split->out->layer, split->arena, error);
}

/* Rows of W_q or W_k; with gates, each head's queries are followed by as many rows that make these. */
static Linear rows_of(const Split *split, const Side *side) {
    size_t first = side->first * (split->shape.gated && side->site == PROBE_Q ? 2 : 1);
    return linear_rows(side->project, first, side->group);
}

/* The n vectors x [n][d_model] projected to y [n][group], without the bias. */
static bool project(const Split *split, const Side *side, size_t n, const float *x, float *y, Error *error) {
    Linear rows = rows_of(split, side);
    size_t d = rows.w.cols;
    Compute compute = subject_compute(split->out->subject, split->arena, PACKED_TOKENS, d);
    if (!arena_ok(split->arena, error, "the parts of a query")) return false;
    rows.bias = NULL;
    for (size_t done = 0, m; done < n; done += m) {
        m = at_most(n - done, PACKED_TOKENS);
        linear_forward(&compute, &(LinearOutput){y + done * side->group, &rows}, 1, x + done * d, m);
    }
    return true;
}

static void add(float *to, const float *x, size_t n) {
    for (size_t i = 0; x && i < n; i++) to[i] += x[i];
}

/* Makes the last part of what the parts [n][group] lack of `whole`. */
static void take_rest(size_t n, size_t group, float *parts, const float *whole) {
    for (size_t i = 0; i < group; i++) {
        double sum = 0;
        for (size_t p = 0; p < n; p++) sum += (double)parts[p * group + i];
        parts[(n - 1) * group + i] += (float)((double)whole[i] - sum);
    }
}

static bool cuts(const Split *split) { return split->shape.clamp != 0; }

/* Each part [n][group] as the norm of queries or keys leaves it, if there is one. */
static void norm_parts(const Split *split, const Side *side, size_t n, size_t n_bias, float *parts) {
    Norm norm = *side->norm;
    size_t size = side->group;
    if (!norm.gain) return;
    if (norm.own_gains) norm.gain += side->first;
    double scale = norm_scale(&norm, side->actual);
    for (size_t p = 0; p < n; p++) frozen_norm(&norm, scale, 1, size, parts + p * size, parts + p * size);
    add(parts + n_bias * size, norm.bias, size);
    norm_row(split->out->subject->compute.kernels, &norm, side->actual, side->actual, size);
    for (size_t i = 0; cuts(split) && split->shape.clamp_normed && i < size; i++)
        side->actual[i] = fminf(fmaxf(side->actual[i], -split->shape.clamp), split->shape.clamp);
}

/* Its own head's numbers of each part, turned to the side's position. */
static bool turn_parts(const Split *split, Side *side, size_t n, const float *parts, size_t n_ctx,
                       Error *error) {
    size_t d_head = split->shape.d_head;
    const Rope *rope = split->shape.layers[split->out->layer].rope;
    float *cos_sin = rope ? arena_floats(split->arena, 1, rope->dim) : NULL;
    size_t own = side->head * d_head - side->first;
    side->parts = arena_floats(split->arena, n + 1, d_head);
    if (!arena_ok(split->arena, error, "%zu parts", n)) return false;
    if (rope) rope_angles(rope, n_ctx, side->position, cos_sin);
    for (size_t p = 0; p <= n; p++) {
        float *part = side->parts + p * d_head;
        memcpy(part, (p < n ? parts + p * side->group : side->actual) + own, d_head * sizeof *part);
        if (rope) rope_rotate(rope, part, cos_sin);
    }
    return true;
}

/* The writers' vectors through the norm before attention, the projection, and what comes behind, one by one. */
static bool split_side(const Split *split, Side *side, size_t n_ctx, Error *error) {
    const Norm *before = &split->weights->attn_norm;
    size_t d = split->shape.d_model, n_written = side->writers.n, n = split->out->n, n_bias = n_written - 1;
    float *written = side->writers.vectors, *parts = arena_new(split->arena, n, side->group * sizeof *parts);
    Linear rows = rows_of(split, side);
    if (!arena_ok(split->arena, error, "%zu parts", n) ||
        !writers_finish(&side->writers, split->arena, error))
        return false;
    for (size_t w = 0; w < n_written; w++)
        frozen_norm(before, side->scale, 1, d, written + w * d, written + w * d);
    if (before->gain) add(written + n_bias * d, before->bias, d);
    if (!project(split, side, n_written, written, parts, error)) return false;
    add(parts + n_bias * side->group, rows.bias, side->group);
    if (cuts(split) && !split->shape.clamp_normed) take_rest(n, side->group, parts, side->actual);
    norm_parts(split, side, n, n_bias, parts);
    if (cuts(split) && split->shape.clamp_normed) take_rest(n, side->group, parts, side->actual);
    return turn_parts(split, side, n, parts, n_ctx, error);
}

static bool list_parts(Split *split, Error *error) {
    ScoreParts *out = split->out;
    const Writers *writers = &split->query.writers;
    out->list = arena_new(split->arena, writers->n + 1, sizeof *out->list);
    out->n = writers->n + cuts(split);
    out->query_sums = arena_new(split->arena, out->n, sizeof *out->query_sums);
    out->key_sums = arena_new(split->arena, out->n, sizeof *out->key_sums);
    out->cells = arena_new(split->arena, out->n, out->n * sizeof *out->cells);
    if (!arena_ok(split->arena, error, "%zu parts of a score", out->n)) return false;
    memcpy(out->list, writers->list, writers->n * sizeof *out->list);
    out->list[writers->n] = (Writer){WRITER_CLAMP, SIZE_MAX, SIZE_MAX};
    return true;
}

/* q_i·k_j·scale; i or j = n: of the whole. */
static double product_of(const Split *split, size_t i, size_t j) {
    size_t d_head = split->shape.d_head;
    const float *q = split->query.parts + i * d_head, *k = split->key.parts + j * d_head;
    double sum = 0;
    for (size_t x = 0; x < d_head; x++) sum += (double)q[x] * (double)k[x];
    return sum * split->out->rule.scale;
}

static void fill_cells(const Split *split) {
    ScoreParts *out = split->out;
    size_t n = out->n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double product = product_of(split, i, j);
            out->cells[i * n + j] = product;
            out->query_sums[i] += product;
            out->key_sums[j] += product;
            out->sum += product;
        }
    out->alibi = -out->rule.slope * (double)(out->query - out->key);
    out->sum += out->alibi;
    out->uncapped = out->rule.cap != 0 ? product_of(split, n, n) + out->alibi : out->score;
}

/* Feeds the tokens up to the query, of which the sides' positions are watched. */
static bool feed(Split *split, Session *session, Error *error) {
    const ScoreParts *out = split->out;
    const Subject *subject = out->subject;
    const int32_t *ids = subject->tokens.ids;
    if (out->key < out->query) {
        split->watched[0] = &split->key;
        if (!subject_feed(subject, session, ids + out->key, 1, NULL, NULL, error)) return false;
        split->watched[0] = NULL;
        size_t n = out->query - out->key - 1;
        if (n && !subject_feed(subject, session, ids + out->key + 1, n, NULL, NULL, error)) return false;
    }
    split->watched[0] = &split->query;
    split->watched[1] = out->key == out->query ? &split->key : NULL;
    return subject_feed(subject, session, ids + out->query, 1, NULL, NULL, error);
}

bool score_parts_can(const Subject *subject, size_t layer, Error *error) {
    const AttentionWeights *weights = &model_weights(subject->model)->layers[layer].attention;
    size_t d_head = model_config(subject->model)->d_head;
    return !has_gated_heads(subject->model) || !weights->q_norm.gain || weights->q_norm.n <= d_head ||
           error_set(
               error,
               "the queries of this model have gates between them, and a norm over all: no score of it is "
               "taken apart");
}

bool score_parts_run(ScoreParts *out, Arena *arena, Error *error) {
    const Subject *subject = out->subject;
    const Config *config = model_config(subject->model);
    const LayerWeights *weights = &model_weights(subject->model)->layers[out->layer];
    const AttentionWeights *attention = &weights->attention;
    Split split = {
        .out = out,
        .arena = arena,
        .weights = weights,
        .shape = model_attention_shape(subject->model),
        .query = {.position = out->query,
                  .head = out->head,
                  .project = &attention->q,
                  .norm = &attention->q_norm,
                  .site = PROBE_Q},
        .key = {.position = out->key,
                .head = kv_head_of(config, out->head),
                .project = &attention->k,
                .norm = &attention->k_norm,
                .site = PROBE_K},
    };
    Probe probe = {&split, wants, visit};
    out->rule = score_rule(subject->model, out->layer, out->head);
    if (!begin_side(&split, &split.query, error) || !begin_side(&split, &split.key, error) ||
        !list_parts(&split, error))
        return false;
    Session *session = subject_resume(subject, 0, out->key, &probe, error);
    bool ok = session && feed(&split, session, error);
    size_t n_ctx = session ? session_n_ctx(session) : 0;
    if (session) subject_release(subject, session);
    if (!ok || !split_side(&split, &split.query, n_ctx, error) ||
        !split_side(&split, &split.key, n_ctx, error))
        return false;
    fill_cells(&split);
    return true;
}
