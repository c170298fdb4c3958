/*
 * The scores of every head of a model (headscores.h) on a text, or on random tokens that stand there twice.
 * Patterns come row by row and are summed at once; what is held is one HeadSums per head.
 */
#ifndef ATTN_STUDY_HEADS_H
#define ATTN_STUDY_HEADS_H

#include "views/headscores.h"
#include "views/study.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Heads {
    size_t n_layer, n_head, n_vocab;
    bool random, bos;   /* random: the text is S tokens twice over, behind a BOS if there is one */
    size_t n_batch;     /* texts: 1 unless random */
    int32_t *ids;       /* [n_batch][text.n] */
    const int32_t *row; /* of ids: the text under way */
    size_t *earlier;    /* [text.n] of the text under way */
    float *uniform;     /* [text.n] */
    HeadText text;
    HeadSums *sums;     /* [n_layer][n_head], and one more: chance, a head that looks everywhere alike */
    double copy_nll[2]; /* nats, sums over the tokens of the first and of the second copy */
    size_t copy_n[2];
} Heads;

/* Whether a text can be repeated: the context holds two tokens or more, and the vocabulary has one. */
bool heads_can_repeat(const Study *study);

/*
 * Makes room for the study's own text, or draws the texts of --repeat and --batch. *heads starts as {0} and is
 * released by heads_free, also after a failure.
 */
bool heads_begin(Heads *heads, const Study *study, bool random, Error *error);
void heads_free(Heads *heads);

/*
 * Feeds all texts to a session of its own. `gain`: of random texts also how much easier the second copy is, which
 * takes the logits of all positions and as long again.
 */
bool heads_feed(Heads *heads, const Study *study, bool gain, Error *error);

/*
 * For who feeds the study's text anyway: heads_start, then each row of each pattern to heads_add (a probe's
 * visit).
 */
void heads_start(Heads *heads, size_t text);
void heads_add(Heads *heads, const ProbeView *view);

/* The members "mode", "n_queries", "chance", "heads" … */
void heads_json(const Heads *heads, Report *report);

/* The same scores in few bytes: "columns" names them, "chance" and each of "rows" (head after head) hold them. */
void heads_json_table(const Heads *heads, Report *report);

#endif
