/* A folder's tokenizer.json as the keys that GGUF files have. */
#ifndef ATTN_PACKING_VOCABULARY_H
#define ATTN_PACKING_VOCABULARY_H

#include "checkpoint/checkpoint.h"

/*
 * Adds tokenizer.ggml.… (vocab/vocab_keys.h) to a checkpoint that has a tokenizer.json and none of these. Where GGUF has no
 * such keys for what the tokenizer does, *why says so, and nothing is added: attn reads the tokenizer.json, which stays in
 * the file. Where these keys cannot say all that it does, and who goes by them gets other tokens of some texts, *differs lists of
 * which: GGUF has no key for a space that is put in front of a text only if it begins with none, nor for NFC. Both begin
 * empty. False with an error when memory runs out.
 */
bool vocabulary_add(Checkpoint *checkpoint, Error *why, Error *differs, Error *error);

#endif
