/* What a checkpoint holds, for people: run --info. */
#ifndef ATTN_INFO_H
#define ATTN_INFO_H

#include "model.h"
#include "tokenizer.h"

/* Prints shape, parameters of each kind of matrix, types, tokenizer (which may be NULL) and context to stdout. */
void print_info(const Model *model, const Tokenizer *tokenizer);

#endif
