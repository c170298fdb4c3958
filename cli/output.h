/*
 * Files that appear under their name only when they are whole.
 *
 * Until then a file has no name at all (O_TMPFILE), so that nothing is left behind however the process ends, SIGKILL and a
 * power cut included. Where the file system has no such files, as NFS, it has a name of its own in the same folder,
 * attn-….tmp, which output_remove_unfinished removes; SIGKILL then leaves it there.
 *
 * Under the name is at all times the old file or the new one, whole and, when the new one is there, on the disk.
 * The new file keeps the permissions of the one it replaces, its group, owner and ACL where the system lets us, and never
 * lets anyone read it who could not read the old one, not even while it is being written. Set-user-ID bits go, as they do
 * when a file is written to, and so do other extended attributes. It is a new file: hard links to the old one keep the
 * old content. A link to a file stays one. What the caller may not write to is not replaced.
 *
 * How a program ends tells whether it did all that it was asked for: 0 if so, even when a signal came late. Any other end
 * (an error, a signal) says that something is missing, not that no file was written: a file that was whole before then
 * stays.
 */
#ifndef ATTN_OUTPUT_H
#define ATTN_OUTPUT_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"

#include <stdbool.h>
#include <stdio.h>

/*
 * A path that is no regular file (a device, a pipe) is written in place instead, and stdout is refused. Starts as {0}.
 */
typedef struct OutputFile {
    FILE *file;
    char *path;
    char *temporary; /* the name before its own; "" when path is written in place, or the file has its name */
    bool nameless;   /* it does not even have that yet */
} OutputFile;

/*
 * The files that the same command reads, none of which its output may replace; NULL: nothing. A checkpoint knows all its
 * files, a vocabulary is that of -z.
 */
typedef struct Inputs {
    const Checkpoint *model, *vocabulary;
    const char *text, *template, *steering; /* files */
    const char *more_texts[2];              /* likewise */
} Inputs;

/* Whether a file that will be written at path spares all of these, and what stdin reads; an error says which it would lose. */
bool output_spares(const Inputs *inputs, const char *path, Error *error);

/* output_finish closes the file and gives it its name. After a failure, and at the end, output_abandon. */
bool output_open(OutputFile *output, const char *path, const Inputs *inputs, Error *error);
bool output_finish(OutputFile *output, Error *error);

/* Closes what is open, removes what is not whole, frees what output holds. */
void output_abandon(OutputFile *output);

/*
 * For a signal handler: removes what is not whole, before the process ends; whether the last file has its name, or gets it
 * at this moment, so that the signal should wait for the end of the program, whose status then tells of the file.
 */
void output_remove_unfinished(void);
bool output_is_finished(void);

/* "PATH: cannot write: …" by errno; returns false. */
bool output_failed(const OutputFile *output, Error *error);

#endif
