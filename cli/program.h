/*
 * The parts that the programs share: the prompt, the vocabulary, progress, a clean end, and text written for other
 * programs.
 */
#ifndef ATTN_PROGRAM_H
#define ATTN_PROGRAM_H

#include "attn.h"
#include "base/error.h"
#include "model.h"
#include "sampling.h"
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
 * The whole of a file, or of stdin when path is "-". What has more than `most` bytes is refused: a file unread, anything
 * else where it crosses them. Fails after Ctrl-C. The caller frees text->data.
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
 * The model of those who name none, which a note then does: ./model.bin, else the one that `make install` put beside
 * this program's folder, at ../share/attn/model.gguf of it, written to buffer [size]. NULL: there is neither. The note ends
 * with `and`.
 */
const char *default_model(const char *program, const char *and, char *buffer, size_t size);

/*
 * Whether the path of a model may be one. False with an error where there is no such file, and it looks like a text that
 * was meant for -p.
 */
bool is_model_name(const char *path, Error *error);

/*
 * The programs have other names where they are installed, as attn-run for run: call this first. print_help prints words of
 * ours with these names: in place of "./run ", and behind "usage: ". print_error: "run: MESSAGE" on stderr, likewise.
 */
void name_program(const char *argv0, const char *name);
void print_help(FILE *file, const char *text);
void print_error(const char *program, const Error *error);

/*
 * From now on Ctrl-C sets what interrupted() tells, and the program has a tenth of a second to notice. When that is
 * over, or at a second Ctrl-C or another signal that ends a process, the file that is not whole goes (output.h), and the
 * process ends as that signal ends one; once a file has its name the first such signal waits for the end, however long
 * that takes. Signals that were ignored stay ignored. Writing to a closed pipe, or beyond a limit on files, fails; so
 * does using a standard stream that was closed at the start. Where a mapped file has been cut short meanwhile `program`
 * says so and ends with EXIT_BAD_INPUT. For the main thread.
 */
void catch_signals(const char *program);
bool interrupted(void);

/*
 * From now on Ctrl-C and SIGTERM do no more than that, and write a byte to the file `wake`: for a program that ends in
 * order whenever it is asked to. A second one ends it as if nobody had caught it. After catch_signals.
 */
void catch_ends(int wake);

/*
 * From now on the program notices Ctrl-C when it can, however late, and only a second one ends it; until
 * forget_interrupt, after which it goes on as if Ctrl-C had not come. No other signal is forgotten.
 */
void expect_interrupt(void);
void forget_interrupt(void);

/* Sets what is done before a signal ends the process, within a handler; NULL: nothing more. */
void before_end(void (*restore)(void));

/* A program that has noticed Ctrl-C in time may print what it has, however long that takes. */
void last_words(void);

/* Tells on stderr if the model's file (NULL: there is none) was written to while it was used. */
void note_changed(const char *program, const Model *model);

/* The names of what the model's file asks for and a sampler does not do; and a note of them, if there are any. */
void print_not_done(FILE *out, const SamplingFields *fields);
void note_not_done(const char *program, const SamplingFields *fields);

/*
 * Whether what was printed has gone out, or who reads it wants no more; else an error says that of "the report", or so.
 */
bool end_output(const char *what, Error *error);

/*
 * The exit code, for main to return when all else is done. 0 says that all was done that was asked for, even after a
 * signal that came too late; any other code ends the process by the signal that came, so that a shell's loop ends, too.
 */
int end_program(int code);

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

/* A seed from the clock, below 2^53, so that readers of JSON who know doubles only can give it back to -s. */
uint64_t clock_seed(void);

/* Milliseconds of a clock that only goes forward, and the most memory the process has had. */
double now_ms(void);
uint64_t peak_rss_bytes(void);

/*
 * For words of strangers (base/utf8.h says what of them is safe to show). print_name: a name within a line of ours,
 * in its visible form wherever the line goes. print_text: n bytes of a text that comes in pieces, unchanged, but in
 * their visible form where the file is a terminal; there a CR waits in *cr, false at first, for what follows: a newline
 * swallows it.
 */
void print_name(FILE *file, const char *name);
bool print_text(FILE *file, const char *text, size_t n, bool *cr);

/*
 * A JSON string, and one without its quotes. Bytes that are no UTF-8 become U+FFFD; what is not safe to show is escaped, so
 * that JSON may go to a terminal, too.
 */
void print_json_string(FILE *file, const char *text, size_t n);
void print_json_characters(FILE *file, const char *text, size_t n);

#endif
