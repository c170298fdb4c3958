/*
 * Pairs of texts that views compare: a clean one and a corrupted one of as many tokens, the answer that the clean one asks
 * for, and a wrong one. One pair comes from the command line, or many from a file of lines of JSON,
 *
 *   {"clean": "…", "corrupted": "…", "answer": " Mary", "wrong": " John"}
 *
 * read one by one. `answer` and `wrong` (which may be left out) are texts as they follow the clean one, with their space.
 * Other fields are passed over.
 */
#ifndef ATTN_PAIRS_H
#define ATTN_PAIRS_H

#include "base/text.h"
#include "views/view.h"

#include <stdio.h>

/* Options of a view, which is also given the clean text by -p or -f. Starts as {0}. */
typedef struct PairOptions {
    const char *file, *corrupted, *answer, *wrong;
} PairOptions;

#define PAIR_OPTIONS(type, member)                                                                           \
    {"--pairs", NULL, OPTION_ONCE, offsetof(type, member.file), .file = true},                               \
        {"--corrupted", NULL, OPTION_ONCE, offsetof(type, member.corrupted)},                                \
        {"--answer", NULL, OPTION_ONCE, offsetof(type, member.answer)}, {                                    \
        "--wrong", NULL, OPTION_ONCE, offsetof(type, member.wrong)                                           \
    }

#define PAIR_HELP                                                                                            \
    "  --corrupted TEXT   of as many tokens as the clean text, which -p or -f gives\n"                       \
    "  --answer T, --wrong T   what follows the clean text, and what should not: a token's text, or #123\n"  \
    "  --pairs FILE    many instead: {\"clean\", \"corrupted\", \"answer\", \"wrong\"} a line; means\n"

typedef struct Pair {
    Tokens clean, corrupted;
    int32_t answer, wrong; /* tokens; wrong −1: there is none */
    bool cut;              /* answer or wrong is several tokens: the first is taken */
    size_t line;           /* of the file; 0: of the command line */
} Pair;

/* Starts as {0}. */
typedef struct Pairs {
    Study *study;
    const PairOptions *options;
    FILE *file; /* or NULL */
    TextBuffer text;
    size_t n_read; /* lines, or pairs of the command line */
    Pair pair;     /* the last that was read */
} Pairs;

/* Whether the options are those of one pair, or of a file: for a view's `check`. */
bool pairs_check(const StudyOptions *options, const PairOptions *pairs, Error *error);

/* Call pairs_close after a failure, too. */
bool pairs_open(Pairs *pairs, Study *study, const PairOptions *options, Error *error);
void pairs_close(Pairs *pairs);

/* Reads the next one to pairs->pair; *ends when there is none. The error names file, line and field. */
bool pairs_next(Pairs *pairs, bool *ends, Error *error);

/* For pairs.c: the next one of the file (pairs_file.c). */
bool pairs_read_line(Pairs *pairs, bool *ends, Error *error);

/*
 * Whether the texts have as many tokens, and differ, and the answers do: else the error says where, with the tokens of both
 * beside each other.
 */
bool pair_fits(const Pairs *pairs, const Pair *pair, Error *error);

#endif
