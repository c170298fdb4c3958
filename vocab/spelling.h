/*
 * The spellings of vocabularies: byte-level BPE writes each byte as a visible character, a space as Ġ (Radford et al. 2019,
 * bytes_to_unicode in encoder.py); SentencePiece writes a space as ▁ (U+2581).
 */
#ifndef ATTN_SPELLING_H
#define ATTN_SPELLING_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* GPT-2's character for a byte. */
uint32_t spell_byte(char byte);

/*
 * Writes the bytes that a spelling of byte-level BPE stands for, and returns how many. A text with other characters stands
 * for itself, and *is_spelt becomes false. `text` has STRING_PADDING behind it, and `out` room for as much behind text.n
 * bytes.
 */
size_t unspell_bytes(String text, char *out, bool *is_spelt);

/* Appends them, whatever lies behind the text. False when memory runs out. */
bool append_unspelt(String text, TextBuffer *out);

/* Writes the text with every ▁ as a space; returns the bytes, at most text.n. */
size_t unspell_spaces(String text, char *out);

/* The byte of a name such as <0x0A>, with `any_case` of <0x0a>, too; or −1. */
int named_byte(String name, bool any_case);

#endif
