/* How byte-level vocabularies cut text before they merge: what the names in tokenizer.ggml.pre stand for. */
#ifndef ATTN_PRETOKENIZERS_H
#define ATTN_PRETOKENIZERS_H

#include "checkpoint/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>

enum { MAX_PATTERNS = 8 };

typedef struct Pretokenizer {
    const char *names; /* a space between any two */
    bool whole_words;  /* as in Vocab */
    bool add_bos;      /* unless the file says otherwise */
    /* Expressions (regex/pattern.h), NULL after the last. Each cuts the pieces that the one before left, at the start and
       end of every match. */
    const char *patterns[MAX_PATTERNS];
} Pretokenizer;

/* Row i of all, or NULL behind the last. */
const Pretokenizer *pretokenizer_row(size_t i);

/* The row that has the name, or NULL. */
const Pretokenizer *pretokenizer_find(String name);

#endif
