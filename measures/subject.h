/*
 * A subject is what is measured: a model, a text, and what computes. Every measure of this folder takes a Subject and plain
 * arguments. A measure prints nothing and knows no options. It sees the forward pass through probe.h alone.
 */
#ifndef ATTN_SUBJECT_H
#define ATTN_SUBJECT_H

#include "measures/arena.h"
#include "measures/subject_cache.h"
#include "model.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All pointers are borrowed. The owner frees the tokens. */
typedef struct Subject {
    const Model *model;         /* NULL where none is needed */
    const Tokenizer *tokenizer; /* likewise */
    Tokens tokens;              /* of the text, BOS included */
    bool bos;                   /* tokens.ids[0] is a BOS that stands before the text */
    Compute compute;            /* kernels and threads */
    DType kv_dtype;             /* of the caches of its sessions; F32 unless asked otherwise */
    size_t n_ctx;               /* positions that a text may have; 0: as many as the model was trained for */
    Progress *progress;         /* or NULL; `progress_user` is its first argument */
    void *progress_user;
    bool (*stop)(void *user); /* whether to give up, asked before each layer; or NULL */
    void *stop_user;
    SubjectCache *cache; /* of the subjects before, or NULL */
} Subject;

/*
 * The subject's compute, with scratch of its own in which linear_forward packs n rows of `cols` numbers. As with all that is
 * asked of an arena: arena_ok comes before its use.
 */
Compute subject_compute(const Subject *subject, Arena *arena, size_t n, size_t cols);

/* How many positions a text may have. */
size_t subject_n_ctx(const Subject *subject);

/* Whether the subject's tokens are no more than that. */
bool subject_check_length(const Subject *subject, Error *error);

/*
 * How many positions a session makes room for, if n_ctx are wanted (0: as many as the tokens of the subject); 0 with an
 * error if there may not be so many tokens. With LongRoPE it matters, since angles depend on it: it is what ./run makes
 * room for.
 */
size_t subject_room(const Subject *subject, size_t n_ctx, Error *error);
bool subject_room_matters(const Subject *subject);

/* A session for n_ctx positions (0: as many as the tokens of the subject) that `probe` (or NULL) looks into. */
Session *subject_session(const Subject *subject, size_t n_ctx, const Probe *probe, Error *error);

/*
 * A session that holds the subject's tokens before `from`, at which nobody looked; from there on `probe` (or NULL) looks
 * into it. The kept one, if there is any, is fed only what it does not hold. subject_release ends it.
 */
Session *subject_resume(const Subject *subject, size_t n_ctx, size_t from, const Probe *probe, Error *error);
void subject_release(const Subject *subject, Session *session);

/*
 * The vectors that a kept session computed for the subject's first n tokens: the residual stream that entered each
 * layer, and left the last, streams [n_layer + 1] each [n][d_model], borrowed until other tokens are fed. All NULL where
 * nothing is kept.
 */
bool subject_streams(const Subject *subject, size_t n, float **streams, Error *error);

/* Reports progress; what may be NULL: there is none to tell. False with an error if the work is to stop. */
bool subject_go_on(const Subject *subject, const char *what, size_t done, size_t total, Error *error);

enum { LOGITS_CHUNK = 64 }; /* positions whose logits are held at a time */

/* Gets the logits [n_vocab] at each position in turn. */
typedef void LogitsVisit(void *user, size_t position, const float *logits);

/*
 * Feeds n tokens to a session. If `each` is given, the logits of all positions are computed, LOGITS_CHUNK at a time,
 * and shown to it; otherwise none are.
 */
bool subject_feed(const Subject *subject, Session *session, const int32_t *ids, size_t n, LogitsVisit *each,
                  void *user, Error *error);

/* Whether a token of the text begins a word: the first, the one after a BOS, or one that begins with white space. */
bool begins_word(const Subject *subject, size_t at);

/* The bytes of the subject's tokens, end to end; token i's from offsets[i] to offsets[i + 1]. */
typedef struct JoinedText {
    char *bytes;
    size_t *offsets; /* [n_tokens + 1] */
} JoinedText;

/* With `special`, control tokens give their names. */
bool join_tokens(const Subject *subject, Arena *arena, bool special, JoinedText *text, Error *error);

/* The tokens of a text in which a word stands: all that have a byte of it. */
typedef struct WordPlace {
    size_t first, last;
} WordPlace;

/*
 * The last place among n_tokens where `wanted` ends with a token, and is that token (with or without the space before it)
 * or stands in the text as a word. False where there is none.
 */
bool find_word(const JoinedText *text, size_t n_tokens, const char *wanted, WordPlace *place);

/* "L3H7"; 32 bytes are enough. Returns buffer. */
const char *head_name(char *buffer, size_t layer, size_t head);

static inline size_t at_most(size_t n, size_t limit) { return n < limit ? n : limit; }

#endif
