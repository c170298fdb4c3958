/* What the programs share: the prompt, the vocabulary, progress, a clean end, and text written for other programs. */
#ifndef ATTN_PROGRAM_H
#define ATTN_PROGRAM_H

#include "attn.h"
#include "error.h"
#include "model.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes. */
enum { EXIT_BAD_INPUT = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

enum {
    MAX_TEXT_BYTES = 1 << 28, /* of a prompt, or a text to score: its tokens take some five times as much */
    MAX_LINE_BYTES = 1 << 24, /* of what is typed */
};

/*
 * The whole of a file, or of stdin when path is "-"; after Ctrl-C, what there was until then. What has more than `most`
 * bytes is refused: a file unread, anything else where it crosses them. The caller frees text->data.
 */
bool read_text(const char *path, size_t most, TextBuffer *text, Error *error);

/*
 * A line of stdin, without its newline, in place of what `line` held; *ends, with no line read, where there is none
 * any more, or after Ctrl-C. The caller frees line->data.
 */
bool read_line(TextBuffer *line, bool *ends, Error *error);

/* The text of a prompt: of a file, or of stdin when path is NULL, without its final newline, which ends the line. */
bool read_prompt_text(const char *path, TextBuffer *text, Error *error);

/*
 * The model of those who name none: ./model.bin, else the one that `make install` put beside this program's folder, at
 * ../share/attn/model.gguf of it, written to buffer [size]. NULL: there is neither.
 */
const char *default_model(char *buffer, size_t size);

/*
 * From now on Ctrl-C sets what interrupted() tells (a second one kills), writing to a closed pipe fails, and where a
 * mapped file has been cut short meanwhile `program` says so and ends with EXIT_BAD_INPUT.
 */
void catch_signals(const char *program);
bool interrupted(void);

/* "prompt 256/1024" on a line that is written over, when stderr is a terminal. done = total wipes it. */
void show_progress(const char *what, size_t done, size_t total);

/* The same until Ctrl-C (a Progress; what may be NULL: nothing is shown). */
bool progress_or_stop(void *user, const char *what, size_t done, size_t total);

/* A seed from the clock, below 2^53, so that readers of JSON who know doubles only can give it back to -s. */
uint64_t clock_seed(void);

/* Milliseconds of a clock that only goes forward, and the most memory the process has had. */
double now_ms(void);
uint64_t peak_rss_bytes(void);

/* A JSON string, and one without its quotes; bytes that are no UTF-8 become U+FFFD. */
void print_json_string(FILE *file, const char *text, size_t n);
void print_json_characters(FILE *file, const char *text, size_t n);

#endif
