/*
 * Guesses how a text goes on, from the text itself: where its last tokens stood before, what followed them there may follow
 * again. Nobody believes a guess: it is fed with the token before it, in one pass, and stays only if it is what is sampled
 * then. So it changes how soon a token is there, and never which. No model is asked.
 *
 * How many guesses are worth a pass follows from two things that are measured on the way: how often guesses
 * held whose match was as long, and how long passes of 1, 2, 4, 8 and 16 tokens take.
 */
#ifndef ATTN_GUESS_H
#define ATTN_GUESS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { MAX_GUESSES = 15 };

typedef enum Speculate {
    SPECULATE_AUTO, /* guesses when that is expected to pay */
    SPECULATE_ON,   /* whenever there is one, as many as there can be: passes do not depend on the clock */
    SPECULATE_OFF
} Speculate;

typedef struct Guesses Guesses;

/*
 * Holds no text yet. Memory grows with the text to 4.5 MiB, behind which the older half of it is forgotten; when it runs out
 * there are fewer guesses, and no error. guesses_free accepts NULL.
 */
Guesses *guesses_new(Speculate speculate, Error *error);
void guesses_free(Guesses *guesses);

/*
 * The text goes on with n tokens that were not sampled; like all, they tell how good guesses are. guesses_part: what comes
 * next does not follow what came last.
 */
void guesses_read(Guesses *guesses, const int32_t *ids, size_t n);
void guesses_part(Guesses *guesses);

/* The text goes on with a token that was sampled. */
void guesses_learn(Guesses *guesses, int32_t id);

/* Writes the guesses to feed behind the text's last token to ids, at most `most`; returns how many: 0 to MAX_GUESSES. */
size_t guesses_make(const Guesses *guesses, int32_t *ids, size_t most);

/* A pass of n tokens has taken so many seconds: the text's last, and n − 1 guesses. */
void guesses_time(Guesses *guesses, size_t n, double seconds);

/* A clock for that. */
double guesses_now(void);

#endif
