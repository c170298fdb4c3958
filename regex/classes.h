/* Reads the sets of characters in a regular expression: \s, \p{L}, [^a-z]. For automaton.c only. */
#ifndef ATTN_CLASSES_H
#define ATTN_CLASSES_H

#include "base/error.h"
#include "base/text.h"
#include "unicode/charset.h"

/* How far an expression was read. */
typedef struct Reader {
    String text;
    size_t at;
    Error *error;
    int depth; /* of groups and classes */
    bool ignore_case;
} Reader;

/* Functions that return an int give FAILED after an error, which they have set. */
enum { FAILED = -1, MAX_DEPTH = 32 };

int reader_fail(Reader *reader, const char *what); /* says where, too */
int reader_out_of_memory(Reader *reader);

/* The byte that many after the next, −1 behind the end. */
int reader_peek(const Reader *reader, size_t ahead);
/* Takes the word if it comes next. */
bool reader_take(Reader *reader, const char *word);

/* Adds what \d, \s or \w names. False when memory runs out. */
bool reader_add_named(CharSet *set, char name);

/* Reads what follows a backslash and adds it to the set. Returns 1 if it is one character, *c, and 0 if it is several. */
int reader_escape(Reader *reader, CharSet *set, uint32_t *c);
/* Reads a character that stands for itself, likewise. */
int reader_literal(Reader *reader, CharSet *set, uint32_t *c);
/* Reads a class, whose [ has been taken. `set` is empty, and sorted afterwards. */
int reader_class(Reader *reader, CharSet *set);
/* Within (?i): adds the other case of each letter. Only ASCII's are known, with ſ and the sign of Kelvin. */
int reader_fold_case(Reader *reader, CharSet *set);

#endif
