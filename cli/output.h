/* Files that appear under their name only when they are whole. */
#ifndef ATTN_OUTPUT_H
#define ATTN_OUTPUT_H

#include "error.h"

#include <stdbool.h>
#include <stdio.h>

/*
 * A file being written under a temporary name beside its own until it is whole; a link to a file stays one. What is
 * no regular file (a device, a pipe) is written in place instead, and stdout is refused. Starts as {0}.
 */
typedef struct OutputFile {
    FILE *file;
    char *path;
    char *temporary; /* "" when path is written in place, or the file has its name */
} OutputFile;

/* output_finish closes the file and gives it its name. After a failure, and at the end, output_abandon. */
bool output_open(OutputFile *output, const char *path, Error *error);
bool output_finish(OutputFile *output, Error *error);

/* Closes what is open, removes what is not whole, frees what output holds. */
void output_abandon(OutputFile *output);

/* Removes what is not whole, for a signal handler that ends the process. */
void output_remove_unfinished(void);

/* "PATH: cannot write: …" by errno; returns false. */
bool output_failed(const OutputFile *output, Error *error);

#endif
