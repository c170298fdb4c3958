/*
 * The regular expressions by which tokenizers cut text, over Unicode. An expression is compiled once; finding all its
 * matches in n bytes takes O(n) time, whatever the expression and the text, and at most 2n bytes of scratch.
 *
 * It finds what backtracking engines find (Perl, Oniguruma, Rust's, JavaScript's): the leftmost match, and of those
 * that begin there the first by the order of alternatives and by greed.
 *
 * Accepted:   | ( ) (?: ) (?i: ) (?-i: ) (?i) to the end of a group (?= ) (?! ), and (?<= ) (?<! ) of one character
 *             * + ? {m} {m,} {m,n}; followed by ? lazy; by + possessive, which a single character may be
 *             . ^ $ \A \z \b \B; ^ and $ are the ends of the text, and . is all but \n
 *             [ ] [^ ] with ranges, classes within classes, and && for what two have in common
 *             \p{L} \P{Lu} \pN \p{Han} \p{Script=Han}: general categories, and scripts as listed in categories.c
 *             \s White_Space, \d Nd, \w Alphabetic, marks, Nd and Pc; \S \D \W
 *             \n \r \t \f \v \a \e \xHH \x{H…} \uHHHH \u{H…}, and \ before a sign
 * Refused, in a line that says what and where: backreferences, atomic and named groups, longer lookbehind, letters beyond
 * ASCII within (?i), other escapes; and what needs too many states.
 *
 * A byte that is not part of a UTF-8 character is a character that [^…], \S, \W, \D and . take, and no other set.
 */
#ifndef ATTN_PATTERN_H
#define ATTN_PATTERN_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Immutable; may be shared between threads. */
typedef struct Pattern Pattern;

/* Compiles an expression. NULL and an error without the file's name if it is not accepted. */
Pattern *pattern_new(String expression, Error *error);
void pattern_free(Pattern *pattern); /* accepts NULL */

/* The matches in a text, from left to right. They do not overlap. */
typedef struct Matches {
    const Pattern *pattern;
    const char *text;
    size_t n, at;     /* the next match begins at `at` or behind it */
    uint16_t *states; /* of text[begin, end) */
    size_t begin, end;
} Matches;

/* Begins with the text's n bytes. `states` is the caller's, [n] and scratch, most often touched for a few kilobytes only. */
Matches pattern_begin(const Pattern *pattern, const char *text, size_t n, uint16_t *states);

/* The next match is text[*start, *end). It may be empty, but not at the end of the text. False after the last. */
bool pattern_next(Matches *matches, size_t *start, size_t *end);

/* Whether the expression matches nothing at the end of the text, which is not empty. */
bool pattern_matches_end(const Matches *matches);

#endif
