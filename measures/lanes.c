#include "measures/lanes.h"

#include "measures/scores.h"

#include <string.h>

enum { MAX_BASE_MIB = 512 /* of the base's vectors: a text may be long */ };

static const Config *config_of(const Lanes *lanes) { return model_config(lanes->subject->model); }

size_t lane_rows(const Lanes *lanes, size_t first) { return lanes->apart ? lanes->n - first : lanes->n; }

static size_t rows_of(const Lanes *lanes, const Lane *lane) { return lanes->n - lane->first; }

/* Shows each lane the rows of it that are among those seen; these begin at row seen->position of what is fed. */
static void show(const Lanes *lanes, const Activation *seen) {
    size_t from = seen->position, to = from + seen->n_rows;
    for (size_t i = 0; i < lanes->n_lanes; i++) {
        const Lane *lane = &lanes->lanes[i];
        size_t begin = lane->at < from ? from : lane->at, end = at_most(lane->at + rows_of(lanes, lane), to);
        if (begin >= end) continue;
        Activation part = *seen;
        part.position = lane->first + begin - lane->at;
        part.n_rows = end - begin;
        part.data += (begin - from) * seen->stride;
        lanes->probe.visit(lanes->probe.user, i, &part);
    }
}

static bool wants_for_itself(const Lanes *lanes, ProbeSite site, size_t layer) {
    switch (site) {
    case PROBE_RESID_PRE: return true;
    case PROBE_Q:
    case PROBE_K:
    case PROBE_V:
    case PROBE_Z: return lanes->apart;
    case PROBE_PATTERN: return lanes->freezes && !lanes->apart;
    case PROBE_RESID_POST: return layer + 1 == config_of(lanes)->n_layer;
    default: return false;
    }
}

/* Probes see patterns of attention that is computed here from there. */
static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Lanes *lanes = user;
    if (wants_for_itself(lanes, site, layer)) return true;
    bool by_position = site == PROBE_PATTERN || site == PROBE_ROT_Q || site == PROBE_ROT_K;
    if (site == PROBE_SCORES || (by_position && lanes->apart)) return false;
    return lanes->probe.wants(lanes->probe.user, site, layer, head);
}

/* Rows of a head into, or out of, an array of all heads' rows [room][n_heads][d_head]. */
static void copy_head(const Activation *seen, float *rows, size_t n_heads, bool out) {
    size_t width = n_heads * seen->n_cols;
    for (size_t i = 0; i < seen->n_rows; i++) {
        float *row = rows + (seen->position + i) * width + seen->head * seen->n_cols;
        memcpy(out ? seen->data + i * seen->stride : row, out ? row : seen->data + i * seen->stride,
               seen->n_cols * sizeof *row);
    }
}

static void keep_resid(Lanes *lanes, const Activation *seen) {
    lanes->is_whole = lanes->is_whole && seen->position == 0 && seen->n_rows == lanes->n_rows;
    if (lanes->is_base)
        memcpy(lanes->base[seen->layer].resid + seen->position * seen->n_cols, seen->data,
               seen->n_rows * seen->n_cols * sizeof *seen->data);
}

static void keep_final(const Lanes *lanes, const Activation *seen) {
    for (size_t i = 0; i < lanes->n_lanes; i++) {
        size_t last = lanes->lanes[i].at + rows_of(lanes, &lanes->lanes[i]) - 1;
        if (last >= seen->position && last < seen->position + seen->n_rows)
            memcpy(lanes->final + i * seen->n_cols, seen->data + (last - seen->position) * seen->n_cols,
                   seen->n_cols * sizeof *seen->data);
    }
}

/* Keeps the base's weights, or puts them where a run has its own; of the session's own attention. */
static void freeze(const Lanes *lanes, const Activation *seen) {
    for (size_t i = 0; i < seen->n_rows; i++) {
        float *kept = lane_pattern(lanes, seen->layer, seen->head, seen->position + i),
              *row = seen->data + i * seen->stride;
        if (lanes->is_base) memcpy(kept, row, seen->n_cols * sizeof *row);
        if (lanes->is_frozen) memcpy(row, kept, seen->n_cols * sizeof *row);
    }
}

/* Takes in what the probe left of it. */
static void keep(Lanes *lanes, const Activation *seen) {
    const Config *config = config_of(lanes);
    switch (seen->site) {
    case PROBE_RESID_PRE: keep_resid(lanes, seen); break;
    case PROBE_RESID_POST: keep_final(lanes, seen); break;
    case PROBE_Q: copy_head(seen, lanes->q, config->n_head, false); break;
    case PROBE_K: copy_head(seen, lanes->k, config->n_head_kv, false); break;
    case PROBE_V: copy_head(seen, lanes->v, config->n_head_kv, false); break;
    default: break;
    }
}

static void visit(void *user, const Activation *seen) {
    Lanes *lanes = user;
    if (seen->site == PROBE_Z && lanes->apart && lanes->is_whole) {
        if (seen->head == 0) lanes_attend(lanes, seen->layer);
        copy_head(seen, lanes->z, config_of(lanes)->n_head, true);
    }
    if (seen->site == PROBE_PATTERN && lanes->freezes) freeze(lanes, seen);
    if (lanes->probe.wants(lanes->probe.user, seen->site, seen->layer, seen->head)) show(lanes, seen);
    if (wants_for_itself(lanes, seen->site, seen->layer)) keep(lanes, seen);
}

static bool check_length(const Lanes *lanes, Error *error) {
    size_t limit = subject_n_ctx(lanes->subject);
    return lanes->n <= limit ||
           error_set(error, "a text of %zu tokens is more than the context of %zu: shorten it", lanes->n,
                     limit);
}

static bool check_size(const Lanes *lanes, Error *error) {
    const Config *config = config_of(lanes);
    size_t floats = config->n_layer * (config->d_model + 2 * config->n_head_kv * config->d_head +
                                       (lanes->freezes ? config->n_head * lanes->n : 0));
    size_t limit = ((size_t)MAX_BASE_MIB << 20) / sizeof(float) / floats;
    return lanes->n <= limit ||
           error_set(
               error,
               "this would hold more than %d MiB of the text's vectors: shorten it from %zu tokens to %zu",
               MAX_BASE_MIB, lanes->n, limit);
}

static bool allocate(Lanes *lanes, Arena *arena, Error *error) {
    const Config *config = config_of(lanes);
    size_t n = lanes->n, d_kv = config->n_head_kv * config->d_head, d_q = config->n_head * config->d_head,
           n_threads = threads_count(lanes->subject->compute.threads), d_ropes = 0;
    for (size_t i = 0; i < lanes->shape.n_ropes; i++) d_ropes += lanes->shape.ropes[i].dim;
    lanes->base = arena_new(arena, config->n_layer, sizeof *lanes->base);
    lanes->lanes = arena_new(arena, lanes->most, sizeof *lanes->lanes);
    lanes->resid = arena_floats(arena, lanes->room, config->d_model);
    lanes->q = arena_floats(arena, lanes->room, d_q);
    lanes->z = arena_floats(arena, lanes->room, d_q);
    lanes->k = arena_floats(arena, lanes->room, d_kv);
    lanes->v = arena_floats(arena, lanes->room, d_kv);
    lanes->turned = arena_floats(arena, lanes->room, d_kv);
    lanes->scores = arena_floats(arena, n_threads * n, n);
    lanes->scaled = arena_floats(arena, n_threads * n, 2 * config->d_head);
    lanes->cos_sin = arena_floats(arena, n, d_ropes);
    for (size_t layer = 0;
         arena_ok(arena, error, "%zu copies of the text", lanes->most) && layer < config->n_layer; layer++) {
        bool has_heads = layer_has_heads(lanes->subject->model, layer);
        lanes->base[layer].resid = arena_floats(arena, n, config->d_model);
        lanes->base[layer].keys = has_heads ? arena_floats(arena, n, d_kv) : NULL;
        lanes->base[layer].values = has_heads ? arena_floats(arena, n, d_kv) : NULL;
        lanes->base[layer].pattern =
            has_heads && lanes->freezes ? arena_new(arena, config->n_head * n, n * sizeof(float)) : NULL;
    }
    return arena_ok(arena, error, "%zu layers of %zu tokens", config->n_layer, n);
}

/* Angles of all positions; the tables of the shape's ropes stand one behind the other. */
static void find_angles(Lanes *lanes) {
    float *at = lanes->cos_sin;
    for (size_t i = 0; i < lanes->shape.n_ropes; i++)
        for (size_t p = 0; p < lanes->n; p++, at += lanes->shape.ropes[i].dim)
            rope_angles(&lanes->shape.ropes[i], lanes->n_angles, p, at);
}

static bool open_session(Lanes *lanes, Error *error) {
    const Subject *subject = lanes->subject;
    size_t n_ctx = lanes->apart ? lanes->room : lanes->n_angles;
    SessionOptions session = {.n_ctx = n_ctx,
                              .n_chunk = lanes->room,
                              .whole_cache = true,
                              .kv_dtype = subject->kv_dtype,
                              .compute = subject->compute,
                              .probe = &lanes->own,
                              .stop = subject->stop,
                              .stop_user = subject->stop_user};
    lanes->session = session_new(subject->model, &session, error);
    return lanes->session;
}

bool lanes_begin(Lanes *lanes, const Subject *subject, size_t n, bool freezes, Arena *arena, Error *error) {
    const Config *config = model_config(subject->model);
    bool apart = subject->kv_dtype == DTYPE_F32 && model_weights(subject->model)->n_states == 0;
    bool learned = model_weights(subject->model)->positions.data;
    size_t room = learned ? at_most(SESSION_CHUNK, config->n_ctx) : SESSION_CHUNK;
    *lanes = (Lanes){.subject = subject,
                     .n = n,
                     .freezes = freezes,
                     .room = apart && n < room ? room : n,
                     .most = apart ? (n < room ? room : n) : 1,
                     .shape = model_attention_shape(subject->model),
                     .apart = apart,
                     .n_angles = subject_room(subject, n, error),
                     .own = {lanes, wants, visit}};
    if (!check_length(lanes, error) || !check_size(lanes, error) || !allocate(lanes, arena, error) ||
        !open_session(lanes, error))
        return false;
    find_angles(lanes);
    return true;
}

void lanes_free(Lanes *lanes) {
    session_free(lanes->session);
    lanes->session = NULL;
}

static void lay_out(Lanes *lanes, const size_t *firsts, size_t n) {
    lanes->n_lanes = n;
    lanes->n_rows = 0;
    lanes->is_whole = true;
    for (size_t i = 0; i < n; i++) {
        lanes->lanes[i] = (Lane){lanes->apart ? firsts[i] : 0, lanes->n_rows};
        lanes->n_rows += rows_of(lanes, &lanes->lanes[i]);
    }
    session_rewind(lanes->session, 0);
}

/* Whether all rows went through the layers together; a session takes fewer at a time where they are very wide. */
static bool check_whole(const Lanes *lanes, Error *error) {
    return lanes->is_whole || !lanes->apart ||
           error_set(error, "a text of %zu tokens does not go through the layers at once: give a shorter one",
                     lanes->n);
}

bool lanes_text(Lanes *lanes, const int32_t *ids, bool is_base, float *final, Error *error) {
    lay_out(lanes, &(size_t){0}, 1);
    lanes->final = final;
    lanes->is_base = is_base;
    bool ok = session_feed(lanes->session, ids, lanes->n, NULL, 0, error) && check_whole(lanes, error);
    lanes->is_base = false;
    return ok;
}

bool lanes_run(Lanes *lanes, size_t layer, const size_t *firsts, size_t n_lanes, float *final, Error *error) {
    size_t d = config_of(lanes)->d_model;
    lay_out(lanes, firsts, n_lanes);
    lanes->final = final;
    lanes->is_frozen = lanes->freezes;
    for (size_t i = 0; i < n_lanes; i++) {
        const Lane *lane = &lanes->lanes[i];
        memcpy(lanes->resid + lane->at * d, lanes->base[layer].resid + lane->first * d,
               rows_of(lanes, lane) * d * sizeof *lanes->resid);
    }
    bool ok = session_resume(lanes->session, layer, lanes->resid, lanes->n_rows, NULL, 0, error) &&
              check_whole(lanes, error);
    lanes->is_frozen = false;
    return ok;
}
