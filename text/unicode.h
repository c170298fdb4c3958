/* What the tokenizer asks of Unicode: where a character ends, and whether it is a letter. */
#ifndef ATTN_UNICODE_H
#define ATTN_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* What utf8_decode gives instead of a code point. */
enum {
    UTF8_INVALID = 0x110000, /* bytes that are no character */
    UTF8_CUT,                /* bytes that end within a character */
};

/*
 * Decodes the UTF-8 character that text[0, n) starts with, n > 0, and returns its length in bytes. For
 * bytes that are no character it returns the length of the maximal subpart that one U+FFFD stands for (The
 * Unicode Standard, section 3.9, table 3-8), at least 1.
 */
size_t utf8_decode(const char *text, size_t n, uint32_t *code_point);

/* The classes that tokenizers' patterns tell apart: \p{L}, \p{N}, \s (White_Space), and the rest. */
typedef enum CharClass { CHAR_OTHER, CHAR_LETTER, CHAR_NUMBER, CHAR_SPACE } CharClass;

/* unicode_class for any code point, by bisection. */
CharClass unicode_search_class(uint32_t code_point);

/* Code points beyond U+10FFFF, such as UTF8_INVALID, are CHAR_OTHER. Most text is ASCII, which needs no search. */
static inline CharClass unicode_class(uint32_t code_point) {
    if (code_point >= 0x80) return unicode_search_class(code_point);
    if ((code_point | 0x20) - 'a' < 26) return CHAR_LETTER;
    if (code_point - '0' < 10) return CHAR_NUMBER;
    return code_point == ' ' || code_point - '\t' < 5 ? CHAR_SPACE : CHAR_OTHER;
}

#endif
