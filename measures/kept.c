#include "measures/kept.h"

#include "measures/subject.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ROOM = 256, /* positions of a kept session */
    MAX_STREAMS_MIB = 256,
};

void kept_free(Kept *kept) {
    session_free(kept->session);
    free(kept->streams);
    session_free(kept->ablated);
    free(kept->ablated_ids);
    free(kept->ablated_factors);
    arena_free(&kept->weights);
    *kept = (Kept){0};
}

static bool keeps(const Kept *kept, ProbeSite site, size_t layer) {
    return site == PROBE_RESID_PRE || (site == PROBE_RESID_POST && layer + 1 == kept->n_layer);
}

static bool looks(const Kept *kept, ProbeSite site, size_t layer, size_t head) {
    return kept->looker && kept->looker->wants(kept->looker->user, site, layer, head);
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    return keeps(user, site, layer) || looks(user, site, layer, head);
}

static void visit(void *user, const Activation *seen) {
    const Kept *kept = user;
    if (keeps(kept, seen->site, seen->layer)) {
        size_t row = (seen->layer + (seen->site == PROBE_RESID_POST)) * kept->n_ctx + seen->position;
        memcpy(kept->streams + row * seen->n_cols, seen->data,
               seen->n_rows * seen->n_cols * sizeof *seen->data);
    }
    if (looks(kept, seen->site, seen->layer, seen->head)) kept->looker->visit(kept->looker->user, seen);
}

static void watch(Kept *kept, Session *session, const Probe *probe) {
    if (kept) kept->looker = probe;
    session_watch(session, kept && kept->streams ? &kept->probe : probe);
}

/* A session with room for the text to grow, and for its streams, if they are wanted and not too large. */
static Session *new_session(const Subject *subject, size_t room, Error *error) {
    Kept *kept = subject->kept;
    const Config *config = model_config(subject->model);
    size_t limit = model_weights(subject->model)->positions.data ? config->n_ctx : SIZE_MAX;
    size_t grown = at_most(room < LEAST_ROOM / 2 ? LEAST_ROOM : 2 * room, limit);
    size_t n_ctx = room < grown ? grown : room, row = (config->n_layer + 1) * config->d_model * sizeof(float);
    kept->kv_dtype = subject->kv_dtype;
    kept->n_layer = config->n_layer;
    kept->n_ctx = n_ctx;
    kept->probe = (Probe){kept, wants, visit};
    free(kept->streams);
    session_free(kept->ablated);
    kept->streams = NULL;
    kept->ablated = NULL;
    if (kept->keeps_streams && n_ctx <= ((size_t)MAX_STREAMS_MIB << 20) / row)
        kept->streams = floats_new((config->n_layer + 1) * n_ctx, config->d_model);
    return subject_session(subject, n_ctx, NULL, error);
}

/* The kept session, or, where it will not do, a new one. */
static Session *take_session(const Subject *subject, size_t n_ctx, Error *error) {
    Kept *kept = subject->kept;
    if (!kept) return subject_session(subject, n_ctx, NULL, error);
    size_t room = subject_room(subject, n_ctx, error);
    Session *session = kept->session;
    if (room == 0) return NULL;
    kept->session = NULL;
    if (session && kept->kv_dtype == subject->kv_dtype && session_n_ctx(session) >= room &&
        (session_n_ctx(session) == room || !subject_room_matters(subject)))
        return session;
    session_free(session);
    return new_session(subject, room, error);
}

void subject_release(const Subject *subject, Session *session) {
    if (session && subject->kept && !subject->kept->session) {
        watch(subject->kept, session, NULL);
        session_heed(session, NULL, NULL);
        subject->kept->session = session;
    } else {
        session_free(session);
    }
}

Session *subject_resume(const Subject *subject, size_t n_ctx, size_t from, const Probe *probe, Error *error) {
    Session *session = take_session(subject, n_ctx, error);
    if (!session) return NULL;
    const int32_t *ids = subject->tokens.ids, *held = session_tokens(session);
    size_t same = 0, most = at_most(session_return(session, SIZE_MAX), from);
    while (same < most && held[same] == ids[same]) same++;
    session_rewind(session, same);
    same = session_position(session);
    session_heed(session, subject->stop, subject->stop_user);
    watch(subject->kept, session, NULL);
    if (subject_feed(subject, session, ids + same, from - same, NULL, NULL, error)) {
        watch(subject->kept, session, probe);
        return session;
    }
    subject_release(subject, session);
    return NULL;
}

bool subject_streams(const Subject *subject, size_t n, float **streams, Error *error) {
    Kept *kept = subject->kept;
    const Config *config = model_config(subject->model);
    for (size_t i = 0; i <= config->n_layer; i++) streams[i] = NULL;
    if (!kept) return true;
    if (!kept->keeps_streams) {
        session_free(kept->session); /* its streams are gone */
        kept->session = NULL;
        kept->keeps_streams = true;
    }
    Session *session = subject_resume(subject, 0, n, NULL, error);
    if (!session) return false;
    subject_release(subject, session);
    for (size_t i = 0; kept->streams && i <= config->n_layer; i++)
        streams[i] = kept->streams + i * kept->n_ctx * config->d_model;
    return true;
}
