/* run's account of a text that it has generated: one JSON object (--json), and how fast it went (-v). */
#ifndef ATTN_SUMMARY_H
#define ATTN_SUMMARY_H

#include "base/text.h"
#include "generate.h"
#include "tokenizer.h"

#include <stddef.h>
#include <stdint.h>

/* Starts as {0}; summary_free frees text, tokens and logprobs. */
typedef struct Summary {
    const char *model, *end; /* the file's name; why the text ended */
    TextBuffer text;         /* what was generated */
    Tokens tokens;           /* likewise */
    double *logprobs;        /* [tokens.n] nats, before temperature and filters */
    size_t n_prompt, n_predicted;
    Guessed guessed;
    uint64_t seed;
    double load_ms, prompt_ms, predicted_ms;
} Summary;

/* A token and its log-probability. False when memory runs out. */
bool summary_add(Summary *summary, int32_t id, double logprob);
void summary_free(Summary *summary);

void summary_print_json(const Summary *summary);

/* Prints them to stderr. */
void summary_print_timings(const Summary *summary);

#endif
