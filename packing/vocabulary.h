/* A folder's tokenizer.json as the keys that GGUF files have. */
#ifndef ATTN_PACKING_VOCABULARY_H
#define ATTN_PACKING_VOCABULARY_H

#include "checkpoint/checkpoint.h"

/*
 * Adds tokenizer.ggml.… to a checkpoint that has a tokenizer.json and none of these: tokens, their types, merges or scores,
 * and the name of what cuts a text before. Where GGUF has no such keys for what the tokenizer does, *why says so (else
 * ""), and nothing is added: attn reads the tokenizer.json, which stays in the file. False with an error when memory
 * runs out, or when the JSON is broken.
 */
bool vocabulary_add(Checkpoint *checkpoint, const char **why, Error *error);

#endif
