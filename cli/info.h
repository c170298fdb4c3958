/* Tells people what a checkpoint holds: run --info. */
#ifndef ATTN_INFO_H
#define ATTN_INFO_H

#include "base/error.h"
#include "sampling.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stdio.h>

/*
 * Prints what the file at path holds: shape, context, tokenizer (of the file at `vocabulary` where that is not NULL),
 * types of tensors, parameters. A well-formed file that cannot run is described too, as far as its keys and tensors
 * tell, and a last line for each reason says why it cannot. False, with nothing printed, when the file is no
 * checkpoint, or `vocabulary` does not go with it.
 */
bool print_info(FILE *out, const char *path, const char *vocabulary, Error *error);

/*
 * One line, without its end: what each option of sampling is that changes anything, and whether the file or an option says so
 * (unmarked: the usual); and what the file asks for that is not done.
 */
void print_sampling(FILE *out, const SamplingFields *fields);

/* run --tokens: ids on one line, or (verbose) id and piece a line each. */
void print_tokens(const Tokenizer *tokenizer, const Tokens *tokens, bool verbose);

#endif
