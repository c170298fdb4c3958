/* How well a model foresaw tokens: what is said of each, and of all of them together. */
#ifndef ATTN_SURPRISAL_H
#define ATTN_SURPRISAL_H

#include "measures/distribution.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TokenScore {
    double surprisal; /* nats: −ln p */
    double entropy;   /* nats, of what was expected in its place */
    size_t rank;      /* 1 + the number of tokens with a larger logit */
    bool best;        /* greedy decoding would have chosen it */
} TokenScore;

/* Of token `id` where the logits [n_vocab], whose distribution is `expected`, were the prediction. */
TokenScore token_score(const Distribution *expected, const float *logits, size_t n_vocab, int32_t id);

/* Sums over tokens. Starts as {0}. */
typedef struct Totals {
    double sum, sum_of_squares; /* of the surprisals */
    size_t n, n_best;           /* tokens, and the best among them */
    size_t n_bytes;             /* of their pieces */
} Totals;

void totals_add(Totals *totals, const TokenScore *score, size_t n_bytes);

/* Of no tokens all are NaN. */
typedef struct TextScore {
    size_t n, n_bytes;
    double nll;              /* nats a token: the mean surprisal */
    double perplexity;       /* e^nll */
    double perplexity_error; /* the standard error of nll carried through exp; NaN for a single token */
    double bits_per_byte;    /* NaN when the tokens stand for no bytes */
    double top1_accuracy;    /* share of the best */
} TextScore;

TextScore text_score(const Totals *totals);

#endif
