/*
 * A session's tokens and all that it keeps of them, taken out of it and put into another: as bytes, which may be kept, or
 * directly. A model's prompt is then computed once and begins many texts.
 *
 * The bytes: a Header; the pieces of session_span, one after another; and, in 8 bytes, a checksum of both. They are good for
 * the same model, type of cache, and machines of this byte order; a header says which, and all of it is checked.
 */
#ifndef ATTN_SNAPSHOT_H
#define ATTN_SNAPSHOT_H

#include "model.h"

/* Takes, or fills, n bytes; false when it cannot. */
typedef bool SnapshotWrite(void *user, const void *bytes, size_t n);
typedef bool SnapshotRead(void *user, void *bytes, size_t n);

/* Tells models apart, finely tuned ones, too: by all names, types and shapes of tensors, and the beginnings of their data. */
uint64_t model_hash(const Model *model);

/* How many bytes snapshot_save gives. The session's cache must be whole, here and below. */
size_t snapshot_bytes(const Session *session);

/* Gives all bytes away, piece by piece. Fails when `write` does. What the session holds is the same afterwards. */
bool snapshot_save(Session *session, SnapshotWrite *write, void *user, Error *error);

/*
 * Makes the session hold what was saved; what stands behind that is not read. Fails, and the session holds what it held, when
 * the first bytes are of no such session, of another model or type of cache, or of more tokens than its context holds. Fails,
 * and it holds nothing, when bytes are missing, are not those that were saved, or name tokens that do not exist. Bytes that
 * were made with bad intent can give any keys and values, and do no other harm.
 */
bool snapshot_restore(Session *session, SnapshotRead *read, void *user, Error *error);

/*
 * Makes `to` hold what `from` holds, both sessions of one model (session_share). Fails, and changes nothing, as snapshot_restore
 * does.
 */
bool snapshot_copy(Session *to, Session *from, Error *error);

#endif
