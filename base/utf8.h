/* UTF-8, and which characters a terminal may be given. */
#ifndef ATTN_UTF8_H
#define ATTN_UTF8_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* utf8_decode gives these instead of a code point. */
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

/*
 * The length in bytes of the character that text[0, n), n > 0, starts with. Bytes that are not UTF-8 count as characters,
 * one each.
 */
size_t utf8_length(const char *text, size_t n);

/* Whether a byte of UTF-8 belongs to a character that begins before it. */
static inline bool utf8_continues(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

/* Where the character begins that ends at text[end], end > 0; of bytes that are no UTF-8 at most 4 count as one. */
size_t utf8_before(const char *text, size_t end);

/* Writes a code point as 1 to 4 bytes, and returns their number. */
size_t utf8_encode(uint32_t code_point, char *out);

/* Whether a text is all UTF-8 (RFC 3629). */
bool utf8_is_valid(String text);

/* White space, as Python's str.isspace and str.strip take it. */
bool utf8_is_space(uint32_t code_point);

/*
 * Text that strangers wrote (tokens, metadata, file names, arguments) and a person is to read: whether it may be given to a
 * terminal, or to a log that a terminal will show. This function alone decides it. What it forbids is
 *  - control characters but newline and tab: C0, DEL, and C1, which a terminal takes for ESC sequences even where they
 *    come as UTF-8 (ECMA-48, section 5.3; CWE-150). A lone CR would write over its line;
 *  - what reorders the text around it: the property Bidi_Control (UAX #9; CVE-2021-42574, arXiv:2111.00169);
 *  - the line and paragraph separators, which are newlines to some and nothing to others;
 *  - what carries text that nobody sees: tags, interlinear annotations, deprecated formats, the byte order mark
 *    (The Unicode Standard, sections 23.3, 23.8, 23.9);
 *  - what is no character: the 66 noncharacters (section 23.7), UTF8_INVALID and UTF8_CUT.
 * Joiners stay, since emoji and Indic scripts are written with them. Forbidden characters are shown in a visible form and
 * never left out, for without them other text might come about (UTR #36, section 3.5). GNU ls, less and git do so, too.
 * Terminals are taken to read UTF-8.
 */
bool utf8_is_safe(uint32_t code_point);

/*
 * The visible form of the character that text[0, n) begins with, n > 0: "\n", "\t", "\r", "\u001b", or "\x9b" for one
 * byte that is part of none. Returns the length of what it stands for.
 */
size_t utf8_escape(const char *text, size_t n, char shown[16]);

/*
 * The same only where the character is not safe within a line, as newlines and tabs are not; otherwise the character.
 */
size_t utf8_show(const char *text, size_t n, char shown[16]);

#endif
