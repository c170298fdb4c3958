#include "measures/rollout.h"

#include "measures/flow.h"
#include "measures/scores.h"

#include <math.h>
#include <string.h>

enum { FLOW_BITS = 50 };

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == PROBE_PATTERN;
}

/* Half of the pattern, its row divided by its sum, and half of the position itself, in place. */
static void mix_row(double *row, size_t query) {
    double sum = 0;
    for (size_t key = 0; key <= query; key++) sum += row[key];
    for (size_t key = 0; key <= query; key++) row[key] *= sum > 0 ? 0.5 / sum : 0;
    row[query] += sum > 0 ? 0.5 : 1;
}

/* R becomes (½·A + ½·I)·R, from the last row up: a row needs those before it as they were. */
static void multiply(Rollout *rollout) {
    size_t n = rollout->n;
    for (size_t i = n; i-- > 0;) {
        const double *weights = rollout->pattern + i * n;
        double *sum = rollout->turned;
        memset(sum, 0, n * sizeof *sum);
        for (size_t j = 0; j <= i; j++)
            for (size_t k = 0; k <= j; k++) sum[k] += weights[j] * rollout->mixed[j * n + k];
        memcpy(rollout->mixed + i * n, sum, n * sizeof *sum);
    }
}

/* Takes in a layer all of whose heads have been seen. */
static void finish_layer(Rollout *rollout) {
    size_t n = rollout->n, n_head = model_config(rollout->subject->model)->n_head;
    if (rollout->n_rows != n * n_head) rollout->is_cut = true;
    for (size_t i = 0; i < n; i++) mix_row(rollout->pattern + i * n, i);
    if (rollout->capacity && !rollout->is_cut) {
        int64_t *capacity = rollout->capacity + rollout->n_layers * n * n;
        for (size_t i = 0; i < n * n; i++) capacity[i] = llrint(ldexp(rollout->pattern[i], FLOW_BITS));
    }
    multiply(rollout);
    memset(rollout->pattern, 0, n * n * sizeof *rollout->pattern);
    rollout->n_rows = 0;
    rollout->n_layers++;
}

static void visit(void *user, const Activation *seen) {
    Rollout *rollout = user;
    double n_head = (double)model_config(rollout->subject->model)->n_head;
    if (rollout->is_cut) return;
    if (rollout->n_rows > 0 && seen->layer != rollout->layer) finish_layer(rollout);
    rollout->layer = seen->layer;
    rollout->n_rows++;
    double *row = rollout->pattern + seen->position * rollout->n;
    for (size_t key = 0; key <= seen->position; key++) row[key] += (double)seen->data[key] / n_head;
}

/* The row of a uniform pattern's rollout: that of the position, times the matrix of each layer from the last down. */
static void find_uniform(const Rollout *rollout) {
    const Model *model = rollout->subject->model;
    double *row = rollout->uniform, *next = rollout->turned;
    size_t n = rollout->n;
    row[n - 1] = 1;
    for (size_t layer = model_config(model)->n_layer; layer-- > 0;) {
        if (!layer_has_heads(model, layer)) continue;
        ScoreRule rule = score_rule(model, layer, 0);
        for (size_t i = 0; i < n; i++) next[i] = row[i] / 2;
        for (size_t i = 0; i < n; i++)
            for (size_t j = rule_first_key(&rule, i); j <= i; j++)
                next[j] += row[i] / 2 / (double)rule_n_keys(&rule, i);
        memcpy(row, next, n * sizeof *row);
    }
}

static bool find_flow(const Rollout *rollout, Arena *arena, Error *error) {
    Flow flow = {.capacity = rollout->capacity, .n_layers = rollout->n_layers, .n = rollout->n};
    if (!flow_begin(&flow, arena, error)) return false;
    for (size_t token = 0; token < rollout->n; token++) {
        if (!subject_go_on(rollout->subject, "flows", token, rollout->n, error)) return false;
        rollout->flow[token] = ldexp((double)flow_to(&flow, token), -FLOW_BITS);
    }
    subject_go_on(rollout->subject, "flows", rollout->n, rollout->n, NULL);
    return true;
}

static size_t count_layers(const Model *model) {
    size_t n = 0;
    for (size_t layer = 0; layer < model_config(model)->n_layer; layer++) n += layer_has_heads(model, layer);
    return n;
}

static bool make_room(Rollout *rollout, Arena *arena, Error *error) {
    size_t n = rollout->n = rollout->query + 1, n_layers = count_layers(rollout->subject->model);
    if (n_layers == 0) return error_set(error, "no layer of this model has attention heads");
    if (rollout->wants_flow && n_layers > MAX_FLOW_EDGES / n / n)
        return error_set(
            error,
            "the flow goes through %d pairs of tokens in all layers; %zu layers of %zu tokens have "
            "more: take a shorter text, or an earlier query",
            MAX_FLOW_EDGES, n_layers, n);
    rollout->row = arena_new(arena, n, sizeof(double));
    rollout->uniform = arena_new(arena, n, sizeof(double));
    rollout->turned = arena_new(arena, n, sizeof(double));
    rollout->mixed = arena_new(arena, n, n * sizeof(double));
    rollout->pattern = arena_new(arena, n, n * sizeof(double));
    if (rollout->wants_flow) {
        rollout->flow = arena_new(arena, n, sizeof(double));
        rollout->capacity = arena_new(arena, n_layers * n, n * sizeof(int64_t));
    }
    if (!arena_ok(arena, error, "patterns of %zu tokens; take a shorter text", n)) return false;
    for (size_t i = 0; i < n; i++) rollout->mixed[i * n + i] = 1;
    return true;
}

bool rollout_measure(Rollout *rollout, Arena *arena, Error *error) {
    const Subject *subject = rollout->subject;
    Probe probe = {rollout, wants, visit};
    if (!make_room(rollout, arena, error)) return false;
    SessionOptions options = {.n_ctx = subject_room(subject, 0, error),
                              .whole_cache = true,
                              .n_chunk = rollout->n,
                              .kv_dtype = subject->kv_dtype,
                              .compute = subject->compute,
                              .probe = &probe,
                              .stop = subject->stop,
                              .stop_user = subject->stop_user};
    Session *session = session_new(subject->model, &options, error);
    bool ok = session && subject_go_on(subject, NULL, 0, 1, error) &&
              session_feed(session, subject->tokens.ids, rollout->n, NULL, 0, error);
    session_free(session);
    if (ok) finish_layer(rollout);
    if (ok && rollout->is_cut)
        ok = error_set(error,
                       "%zu tokens are too many to go through the layers of this model at once; take a "
                       "shorter text, or an earlier query",
                       rollout->n);
    if (!ok) return false;
    memcpy(rollout->row, rollout->mixed + rollout->query * rollout->n, rollout->n * sizeof(double));
    for (size_t key = 0; key < rollout->n; key++)
        if (!isfinite(rollout->row[key]))
            return error_set(
                error,
                "%s: the attention patterns are not finite; the weights hold NaN or infinity, or "
                "overflow the F16 cache (take F32)",
                checkpoint_path(model_checkpoint(subject->model)));
    find_uniform(rollout);
    return !rollout->wants_flow || find_flow(rollout, arena, error);
}
