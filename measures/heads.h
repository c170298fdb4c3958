/*
 * The scores of every head's attention, as numbers, on a text or on random tokens that are repeated once. In the
 * second copy, only a head that looks for repetition can tell what comes next. Patterns come row by row and are
 * summed at once, so that only one HeadSums per head is held. Definitions: docs/STUDY.md. Induction and duplicate-token
 * heads: Elhage et al. 2021 ("A Mathematical Framework for Transformer Circuits"), Olsson et al. 2022, arXiv:2209.11895.
 */
#ifndef ATTN_HEADS_H
#define ATTN_HEADS_H

#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tokens x that all rows are about, with what every head needs to know of them. */
typedef struct HeadText {
    size_t n;
    const size_t *earlier; /* [n] the last position before q that holds x_q; q itself when there is none */
    size_t period;         /* S, if the text ends in the same S tokens twice; 0: any text */
} HeadText;

/* Fills earlier [n]. O(n²) comparisons, once for all heads; each head computes n² dot products anyway. */
void find_earlier(const int32_t *ids, size_t n, size_t *earlier);

/*
 * Sums for one head, over any number of rows and texts. Starts as {0}, but for what is known of the head. Queries are
 * all positions except 0, which sees only itself.
 */
typedef struct HeadSums {
    size_t window; /* keys that a query of this head sees; 0: all */
    bool has_sink; /* what is missing in a row to make 1 goes to a learned sink */
    size_t n_rows, n_queries, n_repeated, n_diagonal;
    double entropy, entropy_share, confidence, sink, self, previous, distance, learned; /* over queries */

    /* Means are taken over queries whose token stood before; with a period, over those of the last S tokens. */
    double duplicate, induction;

    double diagonal; /* over rows that reach the diagonal −(S − 1); only with a period */
    double weight, detected, difference; /* over rows: Σ A, Σ A∘D, Σ |A − D| */
} HeadSums;

/* Takes in a row of a head's pattern, [query + 1]. */
void head_sums_add(HeadSums *sums, const HeadText *text, size_t query, const float *row);

/* Means; NAN where there was nothing to average. */
typedef struct HeadScores {
    double entropy;       /* nats, of a row and what a learned sink takes */
    double entropy_share; /* of the most possible: ln of the places that a query sees, that sink among them */
    double confidence;    /* the largest weight of a row */
    double sink, self, previous; /* weight on position 0, on the query, on the position before it */
    double distance;             /* Σ_k A·(q − k) */
    double learned;              /* what a learned sink takes */
    double duplicate;            /* weight on earlier positions of the query's own token */
    double induction;            /* weight on the positions after those */
    double tl_diag;              /* TransformerLens's demos: mean of the diagonal −(S − 1), all of it */

    /* Its detect_head: Σ A∘D / Σ A; 1 − mean over rows of Σ_k |A − D|. D marks what induction counts. */
    double tl_mul, tl_abs;
} HeadScores;

HeadScores head_scores(const HeadSums *sums);

#define HEAD_THRESHOLD 0.4 /* for induction, duplicate and previous: the one that courses use */
#define SINK_THRESHOLD 0.6

/*
 * The first label whose threshold is reached: "induction", "duplicate", "previous", "parked on first token"; or "".
 */
const char *head_label(const HeadScores *scores);

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
void heads_add(void *heads, const Activation *seen);

/* How much less surprising the second copy was, nats a token; NAN without `gain`. */
double heads_repeat_gain(const Heads *heads);

#endif
