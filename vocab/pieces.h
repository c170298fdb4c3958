/*
 * A text on its way to tokens is first cut: into tokens that it holds as they are, and pieces between them, each of which
 * becomes tokens by itself. A file tells one of two ways to do so: vocab/fragments.h is that of GGUF's keys, vocab/pieces_json.h
 * that of a tokenizer.json. Pieces then merge (vocab/merge.h).
 */
#ifndef ATTN_PIECES_H
#define ATTN_PIECES_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct Vocab;

/* A text that is to be cut. */
typedef struct Uncut {
    String text;
    bool special;      /* special tokens are looked for */
    const char *marks; /* [text.n] which bytes are from outside (prefixes_find_own); or NULL */
    const unsigned char
        *steers; /* with marks: a bit for each token that is taken of the template's own bytes alone */
} Uncut;

/* The receiver of what a text is cut into, from its start to its end. Both functions return false to stop. */
typedef struct PieceTaker {
    void *context;
    bool (*token)(void *context, int32_t id);
    bool (*piece)(void *context, const char *text, size_t n); /* n > 0; borrowed until it returns */
} PieceTaker;

/* A way to cut a text. False when memory runs out, or when the taker stops, which sets the error itself. */
typedef bool CutText(const struct Vocab *vocab, const Uncut *uncut, const PieceTaker *taker, Error *error);

#endif
