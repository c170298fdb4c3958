/* Programs print these: help and errors, words of strangers, strings of JSON, colours, and how far they have come. */
#ifndef ATTN_PRINT_H
#define ATTN_PRINT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/*
 * The programs have other names where they are installed, as attn-run for run: call this first. print_help prints words of
 * ours with these names: in place of "./run ", and behind "usage: ". print_error: "run: MESSAGE" on stderr, likewise.
 */
void name_program(const char *argv0, const char *name);
void print_help(FILE *file, const char *text);
void print_error(const char *program, const Error *error);

/* A stranger's name within a line of ours, in its visible form wherever the line goes (base/utf8.h says what is safe). */
void print_name(FILE *file, const char *name);

/*
 * A text on stdout, whose pieces a reader sees as they come. A reader who has gone away ends it, and is no error; a failure
 * ends it and fills *error, for callbacks cannot fail but by ending the text. Starts with `error`, all else zero.
 */
typedef struct Shown {
    Error *error;
    bool piped_out, failed, cr; /* the reader has gone; an error was told; a CR waits for what follows */
} Shown;

/* Writes n bytes at once. shown_fail tells an error, "what: why". Both are false once no more can be shown. */
bool shown_write(Shown *shown, const char *text, size_t n);
bool shown_fail(Shown *shown, const char *what, const char *why);

/*
 * A JSON string, and one without its quotes. Bytes that are no UTF-8 become U+FFFD; what is not safe to show is escaped, so
 * that JSON may go to a terminal, too.
 */
void print_json_string(FILE *file, const char *text, size_t n);
void print_json_characters(FILE *file, const char *text, size_t n);

/*
 * Whether colours go to that file: of themselves to a terminal that is not dumb, unless NO_COLOR is set (no-color.org).
 */
typedef enum Colour { COLOUR_AUTO, COLOUR_ON, COLOUR_OFF } Colour;
bool shows_colour(Colour choice, int file);

/* These codes then stand before and behind what a person typed. */
#define TYPED_BEGIN "\033[1;32m"
#define TYPED_END "\033[0m"

/* "prompt 256/1024" on a line that is written over, when stderr is a terminal. done = total wipes it. */
void show_progress(const char *what, size_t done, size_t total);

/* The same until Ctrl-C (a Progress; what may be NULL: nothing is shown). */
bool progress_or_stop(void *user, const char *what, size_t done, size_t total);

/*
 * Whether what was printed has gone out, or who reads it wants no more; else an error says that of "the report", or so.
 */
bool end_output(const char *what, Error *error);

#endif
