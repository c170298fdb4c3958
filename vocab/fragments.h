/*
 * How GGUF's keys have a text cut: special tokens and the fragments between them. A fragment of byte-level BPE is cut into words
 * by the patterns of its pre-tokenizer; one of SentencePiece is a piece, a sentence with ▁ or a space for each space.
 */
#ifndef ATTN_FRAGMENTS_H
#define ATTN_FRAGMENTS_H

#include "vocab/vocab.h"

/* Near-linear time. */
CutText fragments_cut;

#endif
