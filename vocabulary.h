/* A model's vocabulary: its own, or another file's that fits. */
#ifndef ATTN_VOCABULARY_H
#define ATTN_VOCABULARY_H

#include "model.h"
#include "tokenizer.h"

/* Whether a model's embedding has a row for each token of the vocabulary, which came from path (NULL: its own). */
bool vocabulary_fits(const Model *model, const Tokenizer *tokenizer, const char *path, Error *error);

/*
 * The vocabulary for a model, as tokenizer_open opens it, if it fits. One thread reads it; the others touch weights
 * meanwhile, which maps their pages before the first token needs them. NULL with an error.
 */
Tokenizer *vocabulary_open(const Model *model, const char *path, Threads *threads, Checkpoint **file,
                           Error *error);

#endif
