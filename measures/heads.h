/*
 * The scores of every head of a model (headscores.h), on a text or on random tokens that are repeated once. In the
 * second copy, only a head that looks for repetition can tell what comes next. Patterns come row by row and are
 * summed at once, so that only one HeadSums per head is held.
 */
#ifndef ATTN_HEADS_H
#define ATTN_HEADS_H

#include "measures/headscores.h"
#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts of S random tokens twice over. */
typedef struct RandomTexts {
    bool bos;      /* each begins with BOS, which the vocabulary must have */
    size_t period; /* S; 0: 50, or what fits the context */
    size_t n;      /* texts; 0: 10 */
    uint64_t seed;
} RandomTexts;

typedef struct Heads {
    const Subject *subject;
    size_t n_layer, n_head, n_vocab;
    bool random, bos;
    size_t n_batch;     /* texts: 1 unless random */
    int32_t *ids;       /* [n_batch][text.n] */
    const int32_t *row; /* of ids: the text under way */
    size_t *earlier;    /* [text.n] of the text under way */
    float *uniform;     /* [text.n] */
    HeadText text;
    HeadSums *sums;     /* [n_layer][n_head], and one more for chance, a head that looks everywhere alike */
    double copy_nll[2]; /* nats, sums over the tokens of the first and of the second copy */
    size_t copy_n[2];
} Heads;

/* The largest S whose text fits the context. */
size_t heads_longest_period(const Subject *subject, bool bos);

/* Whether there can be random texts: the largest S is not 0, and some token stands for text. */
bool heads_can_repeat(const Subject *subject, bool bos);

/* Makes room for the subject's own text (random: NULL), or draws the texts. */
bool heads_begin(Heads *heads, const Subject *subject, Arena *arena, const RandomTexts *random, Error *error);

/*
 * Feeds all texts to a session of its own. With `gain`, random texts also tell how much easier the second copy is.
 * This takes the logits of all positions, and twice the time.
 */
bool heads_feed(Heads *heads, bool gain, Error *error);

/*
 * For a caller that feeds the subject's text itself: heads_start first, then heads_add for each row of each pattern
 * (from a probe's visit).
 */
void heads_start(Heads *heads, size_t text);
void heads_add(Heads *heads, const Activation *seen);

/* How much less surprising the second copy was, nats a token; NAN without `gain`. */
double heads_repeat_gain(const Heads *heads);

#endif
