/*
 * What a head attends to, as numbers: sums over the rows of its pattern, one row at a time, and means made of
 * them. Definitions: docs/STUDY.md. Induction and duplicate-token heads: Elhage et al. 2021 ("A Mathematical
 * Framework for Transformer Circuits"), Olsson et al. 2022, arXiv:2209.11895.
 */
#ifndef ATTN_HEADSCORES_H
#define ATTN_HEADSCORES_H

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
 * Sums for one head, over any number of rows and texts. Starts as {0}. Queries are all positions except 0, which
 * sees only itself.
 */
typedef struct HeadSums {
    size_t n_rows, n_queries, n_repeated, n_diagonal;
    double entropy, entropy_share, confidence, sink, self, previous, distance; /* over queries */

    /* Over queries whose token stood before; with a period, over those of the last S tokens. */
    double duplicate, induction;

    double diagonal; /* over rows that reach the diagonal −(S − 1); only with a period */
    double weight, detected, difference; /* over rows: Σ A, Σ A∘D, Σ |A − D| */
} HeadSums;

/* Takes in a row of a head's pattern, [query + 1]. */
void head_sums_add(HeadSums *sums, const HeadText *text, size_t query, const float *row);

/* Means; NAN where there was nothing to average. */
typedef struct HeadScores {
    double entropy;              /* nats, of a row */
    double entropy_share;        /* of ln(q + 1), the entropy of a row that looks everywhere alike */
    double confidence;           /* the largest weight of a row */
    double sink, self, previous; /* weight on position 0, on the query, on the position before it */
    double distance;             /* Σ_k A·(q − k) */
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

#endif
