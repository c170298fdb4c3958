/* One of the texts that a request asks for, and, where it asks for them, the log-probabilities of its tokens. */
#ifndef ATTN_BATCH_CHOICE_H
#define ATTN_BATCH_CHOICE_H

#include "base/text.h"
#include "generate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_TOP = 20 /* of the likeliest tokens that are told of */ };

/* ln p of a token, the model's own: before penalties, temperature and filters. */
typedef struct Foreseen {
    int32_t id;
    double logprob;
} Foreseen;

/* Starts as {0}; choice_free frees what it holds. */
typedef struct Choice {
    TextBuffer text;
    TextEnd end;
    size_t n_predicted; /* tokens, the one that ended the text among them */
    Foreseen *foreseen; /* [n_predicted][1 + n_top] each token, then the likeliest in its place; or NULL */
    size_t room;        /* of these */
} Choice;

/* Adds a token that was sampled from logits [n_vocab], and with `foreseen` how likely it and the n_top likeliest were. */
bool choice_add(Choice *choice, int32_t id, bool foreseen, size_t n_top, const float *logits, size_t n_vocab);
void choice_free(Choice *choice);

#endif
