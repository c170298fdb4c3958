/* Control tokens, those that steer the model, in a text whose bytes come from a template and from outside. */
#ifndef ATTN_CONTROL_TOKENS_H
#define ATTN_CONTROL_TOKENS_H

#include "vocab/vocab.h"

/*
 * A bit for each token, set for those that steer: TOKEN_CONTROL, what looks like markup, and what the template itself
 * writes as one token in text[0, n), where marks [n] are 0 for a byte of its own and 1 for one from outside. Files do not
 * agree on which of them are TOKEN_CONTROL; and as text they are encoded like any other. The caller frees it; NULL when
 * memory runs out.
 */
unsigned char *control_tokens(const Vocab *vocab, const char *text, size_t n, const char *marks);

#endif
