#include "measures/paths.h"

#include <math.h>
#include <string.h>

/* The purpose of a run. */
enum {
    RUN_BASE,    /* notes what senders give */
    RUN_SOURCE,  /* likewise */
    RUN_SEND,    /* finds what a sender's head adds to the stream */
    RUN_RECEIVE, /* adds it to what the receiver reads, and notes what that makes of it */
    RUN_APPLY    /* puts that in its place */
};

static const Config *config_of(const Paths *paths) { return model_config(paths->subject->model); }

static size_t cols_of(const Paths *paths, const PathEnd *end) {
    return is_head_end(end) ? config_of(paths)->d_head : config_of(paths)->d_model;
}

bool path_goes_up(const Config *config, const Path *path) {
    bool beside =
        path->from.site != PROBE_MLP_OUT && path->to.site == PROBE_MLP_OUT && !config->parallel_residual;
    return path->to.site == PROBE_LOGITS || path->from.layer < path->to.layer ||
           (beside && path->from.layer == path->to.layer);
}

static bool is_at(const PathEnd *end, ProbeSite site, size_t layer, size_t head) {
    return end->site == site && end->layer == layer && (!is_head_end(end) || end->head == head);
}

/* The stream that the receiver reads. */
static ProbeSite read_site(const Paths *paths, const PathEnd *to) {
    return to->site == PROBE_MLP_OUT && !config_of(paths)->parallel_residual ? PROBE_RESID_MID
                                                                             : PROBE_RESID_PRE;
}

static bool is_sent(const Paths *paths, ProbeSite site, size_t layer, size_t head) {
    for (size_t i = 0; i < paths->n_paths; i++)
        if (is_at(&paths->paths[i].from, site, layer, head)) return true;
    return false;
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Paths *paths = user;
    const Path *path = paths->path;
    switch (paths->run) {
    case RUN_SEND:
        return is_at(&path->from, site, layer, head) || (site == PROBE_ATTN_OUT && layer == path->from.layer);
    case RUN_RECEIVE:
        return is_at(&path->to, site, layer, head) ||
               (site == read_site(paths, &path->to) && layer == path->to.layer);
    case RUN_APPLY:
        if (path->to.site == PROBE_GATE_INPUT)
            return site == PROBE_Z && layer == path->to.layer && head == path->to.head;
        return is_at(&path->to, site, layer, head);
    default: return is_sent(paths, site, layer, head);
    }
}

/* Copies what is seen to its rows of an array [n][cols], or these back. */
static void copy_rows(const Activation *seen, float *rows, bool back) {
    for (size_t i = 0; i < seen->n_rows; i++) {
        float *row = rows + (seen->position + i) * seen->n_cols, *at = seen->data + i * seen->stride;
        memcpy(back ? at : row, back ? row : at, seen->n_cols * sizeof *row);
    }
}

static void add_delta(const Path *path, const Activation *seen) {
    for (size_t i = 0; i < seen->n_rows; i++)
        for (size_t j = 0; j < seen->n_cols; j++)
            seen->data[i * seen->stride + j] += path->delta[(seen->position + i) * seen->n_cols + j];
}

/* A head's gates of rows of the stream, before their sigmoid. */
static void make_gates(const Paths *paths, const Activation *seen, float *gates) {
    const PathEnd *to = &paths->path->to;
    const LayerWeights *w = &model_weights(paths->subject->model)->layers[to->layer];
    const size_t d_head = config_of(paths)->d_head;
    const Linear rows = linear_rows(&w->attention.q, (2 * to->head + 1) * d_head, d_head);
    norm_forward(&paths->compute, &w->attn_norm, seen->data, paths->normed, seen->n_rows, seen->n_cols);
    linear_forward(&paths->compute, &(LinearOutput){gates, &rows}, 1, paths->normed, seen->n_rows);
}

/* No probe sees gates: they are made here, without and with the difference. */
static void receive_gates(const Paths *paths, const Activation *seen) {
    const size_t d_head = config_of(paths)->d_head;
    float *read = paths->path->read + seen->position * d_head;
    make_gates(paths, seen, paths->gate[0]);
    add_delta(paths->path, seen);
    make_gates(paths, seen, paths->gate[1]);
    for (size_t i = 0; i < seen->n_rows * d_head; i++)
        read[i] = (1 + expf(-paths->gate[0][i])) / (1 + expf(-paths->gate[1][i]));
}

static void apply_gates(const Path *path, const Activation *seen) {
    for (size_t i = 0; i < seen->n_rows; i++)
        for (size_t j = 0; j < seen->n_cols; j++)
            seen->data[i * seen->stride + j] *= path->read[(seen->position + i) * seen->n_cols + j];
}

static void note_sent(const Paths *paths, const Activation *seen) {
    for (size_t i = 0; i < paths->n_paths; i++)
        if (is_at(&paths->paths[i].from, seen->site, seen->layer, seen->head))
            copy_rows(seen, paths->paths[i].sent[paths->run == RUN_SOURCE], false);
}

static void visit(void *user, size_t lane, const Activation *seen) {
    const Paths *paths = user;
    Path *path = paths->path;
    (void)lane;
    switch (paths->run) {
    case RUN_SEND:
        if (seen->site == PROBE_ATTN_OUT)
            copy_rows(seen, paths->made, false);
        else if (paths->sends)
            copy_rows(seen, path->sent[1], true);
        break;
    case RUN_RECEIVE:
        if (is_at(&path->to, seen->site, seen->layer, seen->head))
            copy_rows(seen, path->read, false);
        else if (path->to.site == PROBE_GATE_INPUT)
            receive_gates(paths, seen);
        else
            add_delta(path, seen);
        break;
    case RUN_APPLY:
        if (path->to.site == PROBE_GATE_INPUT)
            apply_gates(path, seen);
        else
            copy_rows(seen, path->read, true);
        break;
    default: note_sent(paths, seen);
    }
}

static bool make_room(Paths *paths, Arena *arena, Error *error) {
    size_t d = config_of(paths)->d_model, n = paths->n;
    for (size_t i = 0; i < paths->n_paths; i++) {
        Path *path = &paths->paths[i];
        for (int k = 0; k < 2; k++) path->sent[k] = arena_floats(arena, n, cols_of(paths, &path->from));
        path->delta = arena_new(arena, n, d * sizeof(float));
        path->read = arena_floats(arena, n, cols_of(paths, &path->to));
    }
    for (int k = 0; k < 2; k++) paths->final[k] = arena_floats(arena, 1, d);
    paths->made = arena_new(arena, n, d * sizeof(float));
    if (config_of(paths)->family->gated_attention) {
        paths->normed = arena_floats(arena, n, d);
        for (int k = 0; k < 2; k++) paths->gate[k] = arena_floats(arena, n, config_of(paths)->d_head);
        paths->compute = subject_compute(paths->subject, arena, n, d);
    }
    return arena_ok(arena, error, "%zu paths", paths->n_paths);
}

static bool run_from(Paths *paths, int run, size_t layer, size_t first, Error *error) {
    paths->run = run;
    return lanes_run(&paths->lanes, layer, &first, 1, paths->final[1], error);
}

/* The position from which on the sender gives something else. */
static size_t first_difference(const Paths *paths, const Path *path) {
    size_t first = 0, cols = cols_of(paths, &path->from);
    while (first < paths->n &&
           memcmp(path->sent[0] + first * cols, path->sent[1] + first * cols, cols * sizeof(float)) == 0)
        first++;
    return first;
}

/* delta becomes what attention adds with the sender's other z, less what it adds with its own. */
static bool send_head(Paths *paths, Path *path, size_t first, Error *error) {
    size_t d = config_of(paths)->d_model;
    for (int with = 0; with < 2; with++) {
        paths->sends = with;
        if (!run_from(paths, RUN_SEND, path->from.layer, first, error)) return false;
        for (size_t i = first * d; i < paths->n * d; i++)
            path->delta[i] = with ? paths->made[i] - path->delta[i] : paths->made[i];
    }
    return true;
}

static bool send_difference(Paths *paths, Path *path, size_t first, Error *error) {
    if (is_head_end(&path->from)) return send_head(paths, path, first, error);
    for (size_t i = first * config_of(paths)->d_model; i < paths->n * config_of(paths)->d_model; i++)
        path->delta[i] = path->sent[1][i] - path->sent[0][i];
    return true;
}

/* final[1] becomes what leaves the last layer at the last position, with the path changed. */
static bool receive(Paths *paths, const Path *path, size_t first, Error *error) {
    size_t d = config_of(paths)->d_model;
    if (path->to.site != PROBE_LOGITS)
        return run_from(paths, RUN_RECEIVE, path->to.layer, first, error) &&
               run_from(paths, RUN_APPLY, path->to.layer, first, error);
    for (size_t i = 0; i < d; i++)
        paths->final[1][i] = paths->final[0][i] + path->delta[(paths->n - 1) * d + i];
    return true;
}

static bool run_path(Paths *paths, Path *path, Error *error) {
    size_t first = first_difference(paths, path);
    paths->path = path;
    path->same = first == paths->n;
    path->value = paths->values[0];
    if (path->same) return true;
    if (!send_difference(paths, path, first, error) || !receive(paths, path, first, error)) return false;
    readout_values(&paths->readout, paths->lanes.session, paths->final[1], 1, &path->value);
    return true;
}

static bool run_text(Paths *paths, const int32_t *ids, bool is_base, Error *error) {
    float *final = paths->final[!is_base];
    paths->run = is_base ? RUN_BASE : RUN_SOURCE;
    if (!lanes_text(&paths->lanes, ids, is_base, final, error)) return false;
    readout_values(&paths->readout, paths->lanes.session, final, 1, &paths->values[!is_base]);
    return true;
}

bool paths_run(Paths *paths, const int32_t *clean, const int32_t *corrupted, const Metric *metric,
               Arena *arena, Error *error) {
    if (!lanes_begin(&paths->lanes, paths->subject, paths->n, false, arena, error) ||
        !readout_begin(&paths->readout, paths->subject, metric, arena, error) ||
        !make_room(paths, arena, error))
        return false;
    paths->lanes.probe = (LaneProbe){paths, wants, visit};
    if (!run_text(paths, paths->noising ? clean : corrupted, true, error) ||
        !run_text(paths, paths->noising ? corrupted : clean, false, error))
        return false;
    if (!readout_check(&paths->readout, paths->values, error)) return false;
    for (size_t i = 0; i < paths->n_paths; i++)
        if (!subject_go_on(paths->subject, "paths", i, paths->n_paths, error) ||
            !run_path(paths, &paths->paths[i], error))
            return false;
    subject_go_on(paths->subject, "paths", paths->n_paths, paths->n_paths, NULL);
    return true;
}

void paths_free(Paths *paths) { lanes_free(&paths->lanes); }
