/* The lines of a data set, of a file or of stdin, one after another, as they come. */
#ifndef ATTN_BATCH_REQUESTS_H
#define ATTN_BATCH_REQUESTS_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Requests Requests;

enum { MAX_SKIPPED_BYTES = 1 << 28 /* of a line, after which no end of it is waited for */ };

/* path "-": stdin. NULL with an error. requests_close accepts NULL. */
Requests *requests_open(const char *path, Error *error);
void requests_close(Requests *requests);

/* Lines that are not blank, of a file that can be read twice; else 0. */
size_t requests_n_lines(const Requests *requests);

/*
 * The next line that is not blank, without its newline, and its number, from 1; *line is good until the next call. A line of more
 * than MAX_LINE_BYTES comes as one of MAX_LINE_BYTES + 1, and is the last if it has no end within MAX_SKIPPED_BYTES more. *ends
 * where there is no more, after Ctrl-C, and, unless `waits`, where whoever writes the lines has not written one yet. False with an
 * error.
 */
bool requests_next(Requests *requests, bool waits, String *line, size_t *number, bool *ends, Error *error);

/* Once there is no more: false with an error if the last line had no end, so that nothing behind it was read. */
bool requests_are_whole(const Requests *requests, Error *error);

#endif
