/* The options of a command line, from const tables: each says where in a struct its value goes. */
#ifndef ATTN_OPTIONS_H
#define ATTN_OPTIONS_H

#include "base/error.h"
#include "cli/print.h"
#include "kernels/dtype.h"

#include <stddef.h>

typedef enum OptionKind {
    OPTION_ON,     /* bool: set to true */
    OPTION_OFF,    /* bool: set to false */
    OPTION_TEXT,   /* const char * */
    OPTION_ONCE,   /* likewise, NULL before it is given; a second one is refused */
    OPTION_SWITCH, /* likewise; "on" where no value follows it, but an option or nothing */
    OPTION_LIST,   /* StringList: one more each time */
    OPTION_INT,    /* int64_t in [min, max] */
    OPTION_SIZE,   /* size_t in [min, max], min ≥ 0 */
    OPTION_REAL,   /* float in [min, max] */
    OPTION_STEPS   /* uint64_t: the order of a SamplerOptions */
} OptionKind;

/* Starts as {0}. It takes no memory, so a command line that is right never fails. */
typedef struct StringList {
    const char *items[128]; /* [n] borrowed from the command line; more are refused */
    size_t n;
} StringList;

typedef struct Option {
    const char *name;       /* "--temp" */
    const char *short_name; /* "-s", or NULL */
    OptionKind kind;
    size_t offset;   /* of the value, of the kind's type, in the struct that holds it */
    double min, max; /* of a number */
    bool file;       /* the value names a file, and is not empty */
    bool escape;     /* it is a text, one or a list, with what options_unescape reads */
} Option;

/* How tokens are drawn: the options of a SamplerOptions, which is the `member` of a struct. */
#define SAMPLING_OPTIONS(type, member)                                                                       \
    {"--temp", NULL, OPTION_REAL, offsetof(type, member.temperature), 0, 1e9},                               \
        {"--top-k", NULL, OPTION_SIZE, offsetof(type, member.top_k), 0, 1e9},                                \
        {"--top-p", NULL, OPTION_REAL, offsetof(type, member.top_p), 0, 1},                                  \
        {"--min-p", NULL, OPTION_REAL, offsetof(type, member.min_p), 0, 1},                                  \
        {"--repeat-penalty", NULL, OPTION_REAL, offsetof(type, member.repeat_penalty), 0.01, 100},           \
        {"--repeat-last-n", NULL, OPTION_SIZE, offsetof(type, member.penalty_window), 0, 1e9},               \
        {"--presence-penalty", NULL, OPTION_REAL, offsetof(type, member.presence_penalty), -1000, 1000},     \
        {"--frequency-penalty", NULL, OPTION_REAL, offsetof(type, member.frequency_penalty), -1000, 1000}, { \
        "--samplers", NULL, OPTION_STEPS, offsetof(type, member.order)                                       \
    }

/* An option of another program: one of ours by another name, or one of which nothing is asked here. */
typedef struct ForeignOption {
    const char *names[3]; /* NULL behind the last */
    const char *ours;     /* the name of ours, or NULL */
    enum {
        TAKES_NOTHING,
        TAKES_VALUE,
        TAKES_SWITCH /* on, off or auto, or nothing */
    } takes;         /* if it is not ours */
} ForeignOption;

typedef struct ForeignOptions {
    const ForeignOption *table; /* [n] */
    size_t n;
} ForeignOptions;

/* A table, and the struct that its offsets are of. */
typedef struct Options {
    const Option *table; /* [n] */
    size_t n;
    void *values;
    bool no_files;                 /* options that name a file are refused */
    const ForeignOptions *foreign; /* that are understood, too, or NULL */
    StringList *idle;              /* gets those of them of which nothing is asked */
} Options;

/* "on" and the like: what follows an option that TAKES_SWITCH, if it is its value. NULL is none. */
bool is_switch(const char *word);

/*
 * Fills the values of all tables [n_tables] from argv[1 …] and words [n_words], which are NULL but where an option fills
 * them, with what is no option. A long one's value may be the next word, or stand behind "=". Fails on an unknown option
 * (and names the one that was probably meant), a missing or bad value, one word too many.
 */
bool options_parse(const Options *tables, size_t n_tables, int argc, char **argv, const char **words,
                   size_t n_words, Error *error);

/*
 * In the texts that a table's options `escape` were given \n, \r, \t, \', \", \\ and \xHH but \x00 become what they stand for,
 * as llama.cpp reads them; other backslashes stay. The texts then lie in *memory, to be freed.
 */
bool options_unescape(const Options *options, char **memory, Error *error);

/*
 * Which of n names the value of an option is; of no value (NULL) the first. The error names the option and
 * what it takes.
 */
bool parse_choice(const char *option, const char *value, const char *const *names, size_t n, size_t *choice,
                  Error *error);

/*
 * The number that a text begins with, and where it ends; NULL where it begins with none. strtod would pass over spaces, and
 * take a plus, "inf" and "nan".
 */
const char *parse_real(const char *text, double *value);

/* The type of KV cache that --kv names: f32, f16 or q8_0. Of no value (NULL) *dtype stays as it is. */
bool parse_kv(const char *value, DType *dtype, Error *error);

/* The colour that --color names: auto, on or off; of no value (NULL) auto. */
bool parse_colour(const char *value, Colour *colour, Error *error);

/*
 * Moves *at behind "L3H7", or (*one is false, *head untouched) behind "L3". False where there is neither. Numbers
 * that are too large become SIZE_MAX − 1, which no model has, and which is no number that was not given.
 */
bool parse_head(const char **at, unsigned long long *layer, unsigned long long *head, bool *one);

/* Makes an error that was just set one of usage, as of a list that cannot be read whatever the model is. Is false. */
bool wrong_usage(Error *error);

/*
 * Fails: of `what` ("layer"), which an option (NULL: none is named) gives by its number, "there are" or "a layer has" n only.
 * A number that parse_head or strtoull made smaller is not shown.
 */
bool refuse_number(const char *option, const char *what, unsigned long long number, const char *there,
                   size_t n, Error *error);

/*
 * A list such as "0,3,5-7" over [0, n): chosen[i] is set for every member; NULL chooses all. Fails, naming the option and
 * `what`, on a number that is not below n, and as wrong usage on what is no such list.
 */
bool parse_list(const char *option, const char *list, const char *what, size_t n, bool *chosen, Error *error);

/* The name [n] nearest to a word that is none of them, a slip or two away (Damerau-Levenshtein); NULL: none is. */
const char *nearest_name(const char *word, const char *const *names, size_t n);

#endif
