/*
 * The file of a data set's answers, which grows line by line, so that a run that was killed goes on where it stopped. Its
 * first line says by which model and settings; each line behind it is an answer, whole, or torn at the end of the file, where
 * it is taken away before the next. Lines come to the disk by groups.
 */
#ifndef ATTN_BATCH_LEDGER_H
#define ATTN_BATCH_LEDGER_H

#include "base/error.h"
#include "base/text.h"
#include "cli/output.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Ledger Ledger;

/*
 * Opens the file at path, or goes on with it, if its first line is `header` (without a newline). Fails where that is another,
 * where another process writes to it, where `inputs` would be lost. What is no regular file (a pipe) is written to as it
 * is, without a header; so is stdout (path NULL), if it is no file that is read. ledger_close tells whether all lines are on
 * the disk, and accepts NULL.
 */
Ledger *ledger_open(const char *path, String header, const Inputs *inputs, Error *error);
bool ledger_close(Ledger *ledger, Error *error);

/* Answers that the file had when it was opened. */
size_t ledger_n_answers(const Ledger *ledger);

/* Whether the request of that name (request_name) has one of these answers. */
bool ledger_has(const Ledger *ledger, String name);

/* Notes that a request of that name was read; false with *new false where one was before, or when memory runs out. */
bool ledger_note(Ledger *ledger, String name, bool *is_new, Error *error);

/* Appends a line of n bytes, whose newline is the last; all of it, or nothing where that fails: ledger_is_unread says whether
 * because the reader of stdout has gone. */
bool ledger_add(Ledger *ledger, const char *line, size_t n, Error *error);
bool ledger_is_unread(const Ledger *ledger);

#endif
