/* How a tokenizer rewrites a text before it cuts it: Unicode's normal forms and simpler steps, one after another. */
#ifndef ATTN_NORMALIZE_H
#define ATTN_NORMALIZE_H

#include "base/text.h"
#include "unicode/mappings.h"

#include <stdbool.h>
#include <stddef.h>

/* The Unicode Standard, section 3.11. */
typedef enum NormalForm { FORM_NFD, FORM_NFC, FORM_NFKD, FORM_NFKC } NormalForm;

/*
 * Appends n bytes of text in that form to `out`. Bytes that are not UTF-8 stay as they are, and nothing composes
 * across them. O(n log n) time, whatever marks there are. False when memory runs out.
 */
bool normalize_form(const Mappings *mappings, NormalForm form, const char *text, size_t n, TextBuffer *out);

/* Likewise each character's own lower case; no rule looks at its neighbours. */
bool normalize_lower(const Mappings *mappings, const char *text, size_t n, TextBuffer *out);

/* Appends a code point as UTF-8. */
bool text_append_character(TextBuffer *out, uint32_t code);

#endif
