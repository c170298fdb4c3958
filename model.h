/*
 * A Model is a checkpoint with its Config and Weights. It is immutable, and any number of Sessions may share it.
 * A Session holds the KV cache, the scratch and the position of one text.
 */
#ifndef ATTN_MODEL_H
#define ATTN_MODEL_H

#include "base/error.h"
#include "base/memory.h"
#include "binding.h"
#include "checkpoint/checkpoint.h"
#include "config.h"
#include "kernels/kernels.h"
#include "probe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Model Model;

/*
 * Opens the checkpoint at path and binds every tensor of its family by name, type and shape. Fails
 * (NULL) on anything missing, left over, misshapen or unsupported. model_close accepts NULL;
 * sessions must be freed first.
 */
Model *model_open(const char *path, Error *error);
Model *model_open_with(const char *path, Progress *progress, void *user,
                       Error *error); /* as checkpoint_open_with */
/* Likewise of a checkpoint that is open (NULL: it is not, and the error said), which is the model's from now on, or closed. */
Model *model_of(Checkpoint *checkpoint, Error *error);
void model_close(Model *model);

const Config *model_config(const Model *model);
const Weights *model_weights(const Model *model);
const Checkpoint *model_checkpoint(const Model *model);
AttentionShape model_attention_shape(const Model *model);

enum { SESSION_CHUNK = 256 }; /* tokens that go through the layers together unless asked otherwise */

typedef struct Session Session;

typedef struct SessionOptions {
    size_t n_ctx;       /* positions to make room for; 0: the model's own n_ctx */
    DType kv_dtype;     /* DTYPE_F32, DTYPE_F16 or DTYPE_Q8_0 */
    bool whole_cache;   /* keeps keys that no later token sees, too, so that session_rewind may go anywhere */
    size_t n_chunk;     /* tokens that go through the layers together; 0: SESSION_CHUNK */
    Compute compute;    /* kernels and threads, which must outlive the session; its scratch is its own */
    const Probe *probe; /* borrowed, or NULL */

    /*
     * A session of the same model and options, which outlives this one, or NULL. The two share its scratch, so that this
     * one costs no more than its cache; they must not be fed at once, but may be together (session_feed_many).
     */
    const Session *beside;

    /* Asked before each layer, or NULL. If it says so, what is being fed is given up: "interrupted". */
    bool (*stop)(void *user);
    void *stop_user;
} SessionOptions;

/*
 * Allocates all memory that the forward pass needs, which can run out of none afterwards. That is the cache and other memory for n_ctx
 * tokens, touched only as far as it is filled; the layers' states; and scratch: at most 256 MiB, for which n_chunk may
 * shrink, and for each thread ATTENTION_TILE_BYTES and 512 KiB of stack. Fails where a token, or a head, needs more.
 * session_free accepts NULL.
 */
Session *session_new(const Model *model, const SessionOptions *options, Error *error);
void session_free(Session *session);

const Model *session_model(const Session *session);
/*
 * The memory that session_new would take with a whole cache and a pool of n_threads, to a few percent: bytes of cache, which
 * is touched only as far as it is filled, and of all else but the threads' stacks; SIZE_MAX where there is no such number.
 * Fails where the model's shape, or n_ctx, is such that session_new always fails.
 */
typedef struct SessionBytes {
    size_t cache, rest;
} SessionBytes;
bool session_measure(const Model *model, const SessionOptions *options, unsigned n_threads,
                     SessionBytes *bytes, Error *error);

size_t session_n_ctx(const Session *session);
size_t session_position(const Session *session); /* tokens fed so far = position of the next */

/* The tokens at positions 0 … session_position − 1; −1 where session_resume was given vectors. */
const int32_t *session_tokens(const Session *session);

/* How many of these n tokens the session's tokens begin with. */
size_t session_common(const Session *session, const int32_t *ids, size_t n);

/*
 * Forgets all positions from `position` (≤ session_position) on. The next token goes there; or to position 0, if the keys
 * that it would see have left the cache of a layer's window, or if layers keep a state, from which nothing can be taken
 * out again: session_position tells.
 */
void session_rewind(Session *session, size_t position);

/*
 * Takes a rewind back: goes forward to `position`, or as far as the tokens that have been fed since are those that had
 * stood there; in a cache that is not whole, only if none have been fed. Returns session_position. It stays where it is if
 * layers keep a state.
 */
size_t session_restore(Session *session, size_t position);

/* From now on `probe` (borrowed) looks, or nobody (NULL), and `stop` is asked, or nobody. */
void session_watch(Session *session, const Probe *probe);
void session_stop_when(Session *session, bool (*stop)(void *user), void *user);

/* Values of a layer's kv head at positions 0 … n − 1, as the cache holds them; it must be whole. values [n][d_head] */
void session_values(Session *session, size_t layer, size_t kv_head, size_t n, float *values);

/*
 * The memory that holds positions 0 … n − 1 of a session with a whole cache, in session_n_spans pieces, of which some are
 * empty: the tokens, the layers' states, keys and values. Two sessions of one model and cache have pieces of the same sizes.
 * Bytes that were copied there count from session_hold on: the session then holds n tokens. session_blank makes zeros of what
 * lies among them behind the last token. Of layers with states there is the state at the last token only: n is
 * session_position.
 */
size_t session_n_spans(const Session *session);
Span session_span(const Session *session, size_t i, size_t n);
void session_hold(Session *session, size_t n);
void session_blank(Session *session);

/*
 * Makes `to` hold what `from` holds: two sessions with whole caches of one type, of one model, the first with room for it. They
 * share the memory of keys and values until one of the two changes them.
 */
void session_share(Session *to, Session *from);

DType session_kv_dtype(const Session *session);

/*
 * Feeds n ≥ 1 tokens. The logits of the last n_logits of them (at most n) are written to
 * logits [n_logits][n_vocab]; the others are not computed. Fails, with nothing fed, on an id outside the
 * vocabulary, on more tokens than the context holds, on logits that are not finite (the weights
 * hold NaN or infinity), and when `stop` says so; then the session goes back as session_rewind does.
 */
bool session_feed(Session *session, const int32_t *tokens, size_t n, float *logits, size_t n_logits,
                  Error *error);

/* A text's part of a pass that several share: like the arguments of session_feed, n_logits ≤ n. */
typedef struct FeedPart {
    Session *session;
    const int32_t *tokens; /* [n] */
    size_t n;
    float *logits; /* [n_logits][n_vocab] */
    size_t n_logits;
} FeedPart;

/*
 * Feeds several sessions of one model together, each with a part of its own. The weights are read once for all, so that eight
 * tokens of eight texts cost little more than one; the threads and the scratch of the first that is fed do the work. A token
 * gets the bits that its session alone would give it: where a kernel set cannot promise that, and where a session is watched,
 * passes are taken apart. Logits of one part that lie in memory behind those of the part before save a product. Fails like
 * session_feed, and then for all: each session goes back.
 */
bool session_feed_many(const FeedPart *parts, size_t n_parts, Error *error);

/*
 * Feeds a token as session_feed does, and in the same pass n − 1 guesses of what follows it, n ≤ PACKED_TOKENS, if it takes
 * guesses. The session then stands behind the first. If the next token is as guessed, session_restore goes forward over it, and
 * its row of logits [n][n_vocab] is what session_feed would have given, to the bit. Fails as session_feed of the first token
 * alone does; guesses that are at fault cannot be gone forward over.
 */
bool session_feed_guesses(Session *session, const int32_t *tokens, size_t n, float *logits, Error *error);

/* False where layers keep a state, from which no guess can be taken out, and where a probe would see what nobody has said. */
bool session_takes_guesses(const Session *session);

/* Gets the logits [n_vocab] of one token after another. False with an error. */
typedef bool LogitsSink(void *user, const float *logits, size_t n_vocab, Error *error);

/* How tokens are fed. All zero: without anyone looking on. */
typedef struct Feed {
    Progress *progress; /* asked before each chunk, or NULL */
    LogitsSink *
        sink; /* gets the logits of all tokens, FEED_ROWS at a time; NULL: those of the last alone are computed */
    void *user; /* of both */
} Feed;

enum { FEED_ROWS = 32 };

/*
 * Feeds n ≥ 1 tokens in chunks. The logits of the last are written to logits [n_vocab]; NULL: they are not computed.
 * Fails like session_feed, and with "interrupted" when `progress` says so; what was fed until then stays.
 */
bool session_feed_all(Session *session, const int32_t *tokens, size_t n, float *logits, const Feed *feed,
                      Error *error);

/*
 * Makes the session hold exactly these n ≥ 1 tokens: it keeps the longest common prefix of what it has computed, drops
 * what differs and feeds the rest, the last token in any case, since its logits [n_vocab] are wanted.
 */
bool session_sync(Session *session, const int32_t *tokens, size_t n, float *logits, const Feed *feed,
                  Error *error);

/*
 * Like session_feed, for n tokens whose residual stream entering `layer` is known: resid [n][d_model]. The layers
 * below do not run, and their part of the cache is not touched. So if a change begins at a layer, only that layer
 * and those above it are computed again.
 */
bool session_resume(Session *session, size_t layer, const float *resid, size_t n, float *logits,
                    size_t n_logits, Error *error);

/*
 * The residual stream of the token that was fed last, behind the final norm, as the unembedding reads it: hidden [d_model].
 * Somebody has fed one; what was rewound, or held, since then changes nothing.
 */
void session_hidden(const Session *session, float *hidden);

/*
 * Computes the logits [n][n_vocab] that n residual vectors [n][d_model] would give if they left the last layer:
 * final norm and unembedding. This is the logit lens (nostalgebraist 2020). No probe sees it, and nothing is fed.
 */
void session_unembed(const Session *session, const float *resid, size_t n, float *logits);

#endif
