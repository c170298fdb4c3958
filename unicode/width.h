/* Characters on a terminal: how many columns they take, and which ones it shows as one. */
#ifndef ATTN_WIDTH_H
#define ATTN_WIDTH_H

#include <stddef.h>
#include <stdint.h>

/*
 * The columns of a character that is shown as itself: none for marks that combine (Mn, Me), joiners, and the vowels and
 * final consonants that complete a Hangul syllable; two where East_Asian_Width is Wide or Fullwidth (UAX #11); else one.
 */
size_t unicode_width(uint32_t code_point);

/*
 * The bytes of what people take for one character at the start of text[0, n), n > 0: with its marks, a flag, emoji that are
 * joined, a Hangul syllable of several parts (the grapheme clusters of UAX #29, but for Prepend and Indic conjuncts).
 */
size_t unicode_cluster(const char *text, size_t n);

#endif
