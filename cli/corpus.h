/* A text of any length, read piece by piece: what a program holds of it does not grow with the file. */
#ifndef ATTN_CORPUS_H
#define ATTN_CORPUS_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Corpus {
    const char *name; /* borrowed */
    FILE *file;
    char *bytes;          /* [CORPUS_BYTES] */
    size_t n, given;      /* read; and given out of these, in the last piece */
    uint64_t done, total; /* bytes given out, and of the file; total is 0 where nobody knows */
} Corpus;

enum { CORPUS_BYTES = 1 << 14 };

/* Opens a file, or stdin for "-". corpus_close in any case; a Corpus that is zero may be closed. */
bool corpus_open(Corpus *corpus, const char *path, Error *error);
void corpus_close(Corpus *corpus);

/*
 * The next bytes, up to CORPUS_BYTES of them: they end behind a newline or, in a longer line, before a space, or between two
 * characters; *piece is empty at the end. It lasts until the next call. Fails after Ctrl-C.
 */
bool corpus_read(Corpus *corpus, String *piece, Error *error);

#endif
