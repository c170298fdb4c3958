/* What the programs share: options, the prompt, a clean end, and text written for other programs. */
#ifndef ATTN_CLI_H
#define ATTN_CLI_H

#include "error.h"
#include "model.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ATTN_VERSION "0.1.0"

/* Exit codes. */
enum { EXIT_BAD_INPUT = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

typedef enum OptionKind {
    OPTION_ON,   /* bool: set to true */
    OPTION_OFF,  /* bool: set to false */
    OPTION_TEXT, /* const char * */
    OPTION_LIST, /* StringList: one more each time */
    OPTION_INT,  /* int64_t in [min, max] */
    OPTION_REAL, /* float in [min, max] */
} OptionKind;

typedef struct StringList {
    const char **items;
    size_t n;
} StringList;

typedef struct Option {
    const char *name;       /* "--temp" */
    const char *short_name; /* "-s", or NULL */
    OptionKind kind;
    void *value; /* of the kind's type */
    double min, max;
} Option;

/*
 * Fills the options' values from argv[1 …] and models [n_models] from the words that are none. Fails on an
 * unknown option, a missing or bad value, one word too many.
 */
bool options_parse(const Option *options, size_t n_options, int argc, char **argv, const char **models,
                   size_t n_models, Error *error);

/*
 * The vocabulary in the file at path, or in the checkpoint `own` where path is NULL; *file is what holds it
 * (NULL: own) and is to be closed after the tokenizer is freed.
 */
Tokenizer *open_vocabulary(const char *path, const Checkpoint *own, Checkpoint **file, Error *error);

/* Whether a model's embedding has a row for each token of the vocabulary, which came from path (NULL: its own). */
bool check_vocabulary(const Model *model, const Tokenizer *tokenizer, const char *path, Error *error);

/*
 * The whole of a file, or of stdin when path is "-"; after Ctrl-C, what there was until then. The caller
 * frees text->data.
 */
bool read_text(const char *path, TextBuffer *text, Error *error);

/*
 * From now on Ctrl-C sets what interrupted() tells (a second one kills), writing to a closed pipe fails, and where a
 * mapped file has been cut short meanwhile `program` says so and ends with EXIT_BAD_INPUT.
 */
void catch_signals(const char *program);
bool interrupted(void);

/* "prompt 256/1024" on a line that is written over, when stderr is a terminal. done = total wipes it. */
void show_progress(const char *what, size_t done, size_t total);

/* Milliseconds of a clock that only goes forward, and the most memory the process has had. */
double now_ms(void);
uint64_t peak_rss_bytes(void);

/* A JSON string, and one without its quotes; bytes that are no UTF-8 become U+FFFD. */
void print_json_string(FILE *file, const char *text, size_t n);
void print_json_characters(FILE *file, const char *text, size_t n);

#endif
