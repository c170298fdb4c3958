/* How byte-level vocabularies cut text before they merge: what the names in tokenizer.ggml.pre stand for. */
#ifndef ATTN_PRE_H
#define ATTN_PRE_H

#include "checkpoint/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>

enum { MAX_PATTERNS = 8 };

typedef struct Pre {
    const char *names; /* a space between any two */
    bool whole_words;  /* as in Vocab */
    bool add_bos;      /* unless the file says otherwise */
    /* Expressions (text/pattern.h), NULL after the last. Each cuts the pieces that the one before left, at the start and
       end of every match. */
    const char *patterns[MAX_PATTERNS];
} Pre;

/* Row i of all, or NULL behind the last. */
const Pre *pre_row(size_t i);

/* The row that has the name, or NULL. */
const Pre *pre_find(String name);

/* The first name of the row with these n expressions, for a file; without bytes if there is none. */
String pre_name(const String *patterns, size_t n, bool whole_words);

#endif
