#include "measures/subject_cache.h"

#include "measures/subject.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ROOM = 256, /* positions of a kept session */
    MAX_STREAMS_MIB = 256,
};

void subject_cache_free(SubjectCache *cache) {
    session_free(cache->session);
    free(cache->streams);
    session_free(cache->ablated);
    free(cache->ablated_ids);
    free(cache->ablated_factors);
    arena_free(&cache->weights);
    *cache = (SubjectCache){0};
}

static bool keeps(const SubjectCache *cache, ProbeSite site, size_t layer) {
    return site == PROBE_RESID_PRE || (site == PROBE_RESID_POST && layer + 1 == cache->n_layer);
}

static bool looks(const SubjectCache *cache, ProbeSite site, size_t layer, size_t head) {
    return cache->looker && cache->looker->wants(cache->looker->user, site, layer, head);
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    return keeps(user, site, layer) || looks(user, site, layer, head);
}

static void visit(void *user, const Activation *seen) {
    const SubjectCache *cache = user;
    if (keeps(cache, seen->site, seen->layer)) {
        size_t row = (seen->layer + (seen->site == PROBE_RESID_POST)) * cache->n_ctx + seen->position;
        memcpy(cache->streams + row * seen->n_cols, seen->data,
               seen->n_rows * seen->n_cols * sizeof *seen->data);
    }
    if (looks(cache, seen->site, seen->layer, seen->head)) cache->looker->visit(cache->looker->user, seen);
}

static void watch(SubjectCache *cache, Session *session, const Probe *probe) {
    if (cache) cache->looker = probe;
    session_watch(session, cache && cache->streams ? &cache->probe : probe);
}

/*
 * A session with room for the text to grow, unless the context changes numbers, and for its streams, if they are wanted and not
 * too large.
 */
static Session *new_session(const Subject *subject, size_t room, Error *error) {
    SubjectCache *cache = subject->cache;
    const Config *config = model_config(subject->model);
    size_t limit = model_weights(subject->model)->positions.data ? config->n_ctx : SIZE_MAX;
    size_t grown = at_most(room < LEAST_ROOM / 2 ? LEAST_ROOM : 2 * room, limit);
    size_t n_ctx = subject_room_matters(subject) || room > grown ? room : grown,
           row = (config->n_layer + 1) * config->d_model * sizeof(float);
    cache->kv_dtype = subject->kv_dtype;
    cache->n_layer = config->n_layer;
    cache->n_ctx = n_ctx;
    cache->probe = (Probe){cache, wants, visit};
    free(cache->streams);
    session_free(cache->ablated);
    cache->streams = NULL;
    cache->ablated = NULL;
    if (cache->keeps_streams && n_ctx <= ((size_t)MAX_STREAMS_MIB << 20) / row)
        cache->streams = floats_new((config->n_layer + 1) * n_ctx, config->d_model);
    return subject_session(subject, n_ctx, NULL, error);
}

/* The kept session, or, where it will not do, a new one. */
static Session *take_session(const Subject *subject, size_t n_ctx, Error *error) {
    SubjectCache *cache = subject->cache;
    if (!cache) return subject_session(subject, n_ctx, NULL, error);
    size_t room = subject_room(subject, n_ctx, error);
    Session *session = cache->session;
    if (room == 0) return NULL;
    cache->session = NULL;
    if (session && cache->kv_dtype == subject->kv_dtype && session_n_ctx(session) >= room &&
        (session_n_ctx(session) == room || !subject_room_matters(subject)))
        return session;
    session_free(session);
    return new_session(subject, room, error);
}

void subject_release(const Subject *subject, Session *session) {
    if (session && subject->cache && !subject->cache->session) {
        watch(subject->cache, session, NULL);
        session_stop_when(session, NULL, NULL);
        subject->cache->session = session;
    } else {
        session_free(session);
    }
}

Session *subject_resume(const Subject *subject, size_t n_ctx, size_t from, const Probe *probe, Error *error) {
    Session *session = take_session(subject, n_ctx, error);
    if (!session) return NULL;
    const int32_t *ids = subject->tokens.ids;
    session_restore(session, SIZE_MAX);
    session_rewind(session, session_common(session, ids, from));
    size_t same = session_position(session);
    session_stop_when(session, subject->stop, subject->stop_user);
    watch(subject->cache, session, NULL);
    if (subject_feed(subject, session, ids + same, from - same, NULL, NULL, error)) {
        watch(subject->cache, session, probe);
        return session;
    }
    subject_release(subject, session);
    return NULL;
}

bool subject_streams(const Subject *subject, size_t n, float **streams, Error *error) {
    SubjectCache *cache = subject->cache;
    const Config *config = model_config(subject->model);
    for (size_t i = 0; i <= config->n_layer; i++) streams[i] = NULL;
    if (!cache) return true;
    if (!cache->keeps_streams) {
        session_free(cache->session); /* its streams are gone */
        cache->session = NULL;
        cache->keeps_streams = true;
    }
    Session *session = subject_resume(subject, 0, n, NULL, error);
    if (!session) return false;
    subject_release(subject, session);
    for (size_t i = 0; cache->streams && i <= config->n_layer; i++)
        streams[i] = cache->streams + i * cache->n_ctx * config->d_model;
    return true;
}
