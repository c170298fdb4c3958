#include "snapshot.h"

#include <inttypes.h>
#include <string.h>

enum { FORMAT = 1, SAMPLED = 4096 /* bytes of a tensor that tell it from another */ };

static const char magic[8] = "attn KV";

typedef struct Header {
    char magic[8];
    uint32_t format, kv_dtype;
    uint64_t model; /* model_hash */
    uint64_t n_ctx; /* of the session: LongRoPE turns keys by it */
    uint64_t n_tokens;
} Header;

_Static_assert(sizeof(Header) == 40, "a header has no gaps");

/*
 * Eight bytes at a time, each times an odd number, with the high half, which depends on all bits, brought down. It finds
 * what broke by chance, not who wants to deceive.
 */
static uint64_t hash_more(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, at + i, n - i < sizeof word ? n - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

uint64_t model_hash(const Model *model) {
    const Checkpoint *checkpoint = model_checkpoint(model);
    const char *architecture = model_config(model)->family->architecture;
    uint64_t hash = hash_more(0, architecture, strlen(architecture));
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        const uint64_t shape[] = {(uint64_t)tensor->dtype, tensor->dims[0], tensor->dims[1], tensor->dims[2],
                                  tensor->dims[3]};
        hash = hash_more(hash, tensor->name.data, tensor->name.n);
        hash = hash_more(hash, shape, sizeof shape);
        hash = hash_more(hash, tensor->data, tensor->n_bytes < SAMPLED ? (size_t)tensor->n_bytes : SAMPLED);
    }
    return hash;
}

/* All but which model it is. */
static Header header_of(const Session *session) {
    Header header = {.format = FORMAT,
                     .kv_dtype = (uint32_t)session_kv_dtype(session),
                     .n_ctx = session_n_ctx(session),
                     .n_tokens = session_position(session)};
    memcpy(header.magic, magic, sizeof magic);
    return header;
}

/* Whether keys are turned alike in two contexts. */
static bool turns_alike(const Model *model, uint64_t n_ctx, uint64_t other) {
    const Weights *weights = model_weights(model);
    bool alike = true;
    for (size_t i = 0; i < weights->n_ropes; i++) {
        const Rope *rope = &weights->ropes[i];
        if (rope->long_freq) alike &= (n_ctx > rope->n_ctx_original) == (other > rope->n_ctx_original);
    }
    return alike;
}

/* Whether the session can hold as many tokens, in such a cache, as the header of the same model says; `how` they come to it. */
static bool check_room(const Header *header, const Session *session, const char *how, Error *error) {
    if (header->kv_dtype != (uint32_t)session_kv_dtype(session))
        return error_set(error, "the %s keys and values are of another type than the session's cache", how);
    if (header->n_tokens > session_n_ctx(session))
        return error_set(error, "%" PRIu64 " tokens were %s, more than the context of %zu holds",
                         header->n_tokens, how, session_n_ctx(session));
    return turns_alike(session_model(session), header->n_ctx, session_n_ctx(session)) ||
           error_set(error,
                     "this model turns keys in a context of %" PRIu64
                     ", as was %s, and in one of %zu, as here, by other angles; take the same context",
                     header->n_ctx, how, session_n_ctx(session));
}

static bool check_header(const Header *header, const Session *session, Error *error) {
    if (memcmp(header->magic, magic, sizeof magic) != 0)
        return error_set(error, "these bytes are of no saved session");
    if (header->format != FORMAT)
        return error_set(error, "the session was saved in format %" PRIu32 "; %d is read here",
                         header->format, FORMAT);
    if (header->model != model_hash(session_model(session)))
        return error_set(error, "the session was saved from another model than %s",
                         checkpoint_path(model_checkpoint(session_model(session))));
    return check_room(header, session, "saved", error);
}

static size_t spans_bytes(const Session *session, size_t n) {
    size_t n_bytes = 0;
    for (size_t i = 0; i < session_n_spans(session); i++) n_bytes += session_span(session, i, n).n;
    return n_bytes;
}

size_t snapshot_bytes(const Session *session) {
    return sizeof(Header) + spans_bytes(session, session_position(session)) + sizeof(uint64_t);
}

bool snapshot_save(Session *session, SnapshotWrite *write, void *user, Error *error) {
    Header header = header_of(session);
    header.model = model_hash(session_model(session));
    uint64_t hash = hash_more(0, &header, sizeof header);
    session_blank(session);
    bool ok = write(user, &header, sizeof header);
    for (size_t i = 0; ok && i < session_n_spans(session); i++) {
        Span span = session_span(session, i, session_position(session));
        hash = hash_more(hash, span.bytes, span.n);
        ok = span.n == 0 || write(user, span.bytes, span.n);
    }
    ok = ok && write(user, &hash, sizeof hash);
    return ok || error_set(error, "the session was not saved: whoever takes the bytes takes no more");
}

static bool is_token(const Session *session, int32_t id) {
    return id >= 0 && (size_t)id < model_config(session_model(session))->n_vocab;
}

bool snapshot_restore(Session *session, SnapshotRead *read, void *user, Error *error) {
    Header header;
    uint64_t saved;
    if (!read(user, &header, sizeof header))
        return error_set(error, "the saved session has no beginning, or cannot be read");
    if (!check_header(&header, session, error)) return false;
    uint64_t hash = hash_more(0, &header, sizeof header);
    size_t n = (size_t)header.n_tokens;
    session_hold(session, 0);
    bool complete = true, real = true;
    for (size_t i = 0; complete && i < session_n_spans(session); i++) {
        Span span = session_span(session, i, n);
        complete = span.n == 0 || read(user, span.bytes, span.n);
        if (complete) hash = hash_more(hash, span.bytes, span.n);
    }
    complete = complete && read(user, &saved, sizeof saved);
    if (!complete) return error_set(error, "the saved session ends too early, or cannot be read");
    if (saved != hash) return error_set(error, "the saved session is damaged: its checksum is another");
    for (size_t i = 0; i < n; i++) real = real && is_token(session, session_tokens(session)[i]);
    if (!real) return error_set(error, "the saved session has tokens that are not in the vocabulary");
    session_hold(session, n);
    return true;
}

bool snapshot_copy(Session *to, Session *from, Error *error) {
    const Header header = header_of(from);
    if (!check_room(&header, to, "forked", error)) return false;
    session_share(to, from);
    return true;
}
