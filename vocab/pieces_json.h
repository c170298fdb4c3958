/*
 * How a tokenizer.json has a text cut: by its pipeline. Spaces in pieces are then written as in the vocabulary's tokens.
 * Pieces of Unigram, which does not merge, are given as their tokens.
 */
#ifndef ATTN_PIECES_JSON_H
#define ATTN_PIECES_JSON_H

#include "vocab/vocab.h"

/* Near-linear time. A piece that is a token, where the file says that such a one does not merge, is given as a token. */
CutText pieces_json_cut;

/* Writes the text with every space as ▁ and every ▁ as a space. False when memory runs out. */
bool swap_spaces(String text, TextBuffer *out);

#endif
