/*
 * From tokens to text: a Generator feeds a session, samples token after token and gives the text away in whole
 * characters, until something ends it. The session holds the tokens; a caller who has the whole text at hand, a chat say,
 * gives it to session_sync, which computes only what is new.
 */
#ifndef ATTN_GENERATE_H
#define ATTN_GENERATE_H

#include "base/error.h"
#include "guess.h"
#include "model.h"
#include "sampler.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a text ended. */
typedef enum TextEnd {
    END_LIMIT,   /* as many tokens as were asked for */
    END_TOKEN,   /* the model ended it */
    END_STOP,    /* a stop text came */
    END_CONTEXT, /* the context is full */
    END_CALLER,  /* the callback said so */
} TextEnd;

/* As JSON says it: "limit", "end", "stop", "context", "interrupted". */
const char *text_end_name(TextEnd end);

/*
 * Called for each token as it is sampled: `text` [n] is what can be shown since the last call, whole characters that
 * belong to no stop text; it may be empty. id is −1 when text is left over at the end. False ends the text.
 */
typedef bool TextPiece(void *user, int32_t id, const char *text, size_t n);

typedef struct GeneratorOptions {
    SamplerOptions sampling;
    const char *const *stop; /* [n_stop] texts that end the text before them; borrowed */
    size_t n_stop;
    bool special; /* control tokens are shown by name */
    bool shift;   /* a full context drops its oldest half */

    /*
     * Whether generator_run guesses tokens to come, and checks them in the pass of those before. Tokens, logits and what the
     * session holds are the same to the bit. `guess`, unless it is NULL, writes up to n ids of tokens that may follow the text,
     * and says how many: they are what is guessed then, of a second head of the model, say.
     */
    Speculate speculate;
    size_t (*guess)(void *user, int32_t *ids, size_t n);
    void *guess_user;
} GeneratorOptions;

typedef struct Generator Generator;

/* Model and tokenizer must have the same vocabulary, and outlive it, like the session. generator_free accepts NULL. */
Generator *generator_new(const Model *model, const Tokenizer *tokenizer, Session *session,
                         const GeneratorOptions *options, Error *error);
void generator_free(Generator *generator);

/* [n_vocab] after the last token that was fed: what the next one is sampled from. */
float *generator_logits(const Generator *generator);

/* Tokens that were guessed so far, and those of them that were then sampled. */
typedef struct Guessed {
    size_t n, n_held;
} Guessed;
Guessed generator_guessed(const Generator *generator);

/*
 * Adds n tokens to the text, behind what was generated, and feeds them. *fits is false, and nothing done, when the context
 * has no room for them even after a shift. Where feeding fails the text is as it was, or empty (session_rewind).
 */
bool generator_add(Generator *generator, const int32_t *ids, size_t n, const Feed *feed, bool *fits,
                   Error *error);

/*
 * Gives the text of tokens that were added to `piece` (NULL: to nobody), in one piece with id −1. A character that they
 * leave open goes on in what is generated.
 */
bool generator_echo(Generator *generator, const int32_t *ids, size_t n, TextPiece *piece, void *user,
                    Error *error);

/* Makes the text exactly these n ≥ 1 tokens (session_sync), and echoes them to nobody. */
bool generator_sync(Generator *generator, const int32_t *ids, size_t n, const Feed *feed, Error *error);

/*
 * Samples the next token from generator_logits, after feeding the one sampled before if that has not been fed. *end is
 * END_CONTEXT, and *id untouched, when there is no room for it; END_TOKEN when the token ends the text, and it is then
 * not to be fed; else END_LIMIT.
 */
bool generator_sample(Generator *generator, int32_t *id, TextEnd *end, Error *error);

/* Feeds the token sampled last, so that the session holds the whole text. */
bool generator_settle(Generator *generator, Error *error);

/*
 * The same for n generators of one model, whose tokens go through the layers together; those that have nothing to feed, or no
 * room for it, are left as they are. logits [GENERATORS_TOGETHER][n_vocab] is scratch. Fails like session_feed_many; those
 * that had not been fed by then still are not.
 */
enum { GENERATORS_TOGETHER = 64 };
bool generators_settle(Generator *const *generators, size_t n, float *logits, Error *error);

/*
 * Generates one token and shows it; *end is END_LIMIT while the text goes on. What is still held back then comes with
 * generator_finish, once, whatever has ended the text: *end says what did, and becomes END_STOP where a stop text comes to light.
 */
bool generator_step(Generator *generator, TextPiece *piece, void *user, TextEnd *end, Error *error);
bool generator_finish(Generator *generator, TextPiece *piece, void *user, TextEnd *end, Error *error);

/* Generates up to n tokens (SIZE_MAX: until something else ends the text); *end says what did. */
bool generator_run(Generator *generator, size_t n, TextPiece *piece, void *user, TextEnd *end, Error *error);

#endif
