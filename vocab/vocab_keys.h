/* GGUF's keys for the vocabulary of a tokenizer.json, for who writes a GGUF file of a folder. */
#ifndef ATTN_VOCAB_KEYS_H
#define ATTN_VOCAB_KEYS_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>

enum { VOCAB_KEYS = 12 };

/* Starts as {0}; freed with vocab_keys_free. */
typedef struct VocabKeys {
    Value values[VOCAB_KEYS]; /* [n] whose data belong to this */
    size_t n;
} VocabKeys;

/*
 * Makes tokenizer.ggml.model, .tokens, .token_type, .merges or .scores, .pre or .add_space_prefix out of the
 * checkpoint's tokenizer.huggingface.json; and, where the checkpoint lacks them, the ids of BOS, EOS and the unknown
 * token, and whether the first two are put. Byte-level BPE becomes "gpt2", with a name for .pre whose patterns cut a
 * text of all kinds as this tokenizer does. BPE of characters with ▁ for spaces becomes "llama", whose scores are the
 * order of merges. A vocabulary that cannot be said so is refused by name. Nothing is said of NFC: llama.cpp never does
 * it. Ids without a token, as the embedding may have more rows, are named [PAD…] and unused.
 */
bool vocab_keys_make(VocabKeys *keys, const Checkpoint *checkpoint, Error *error);
void vocab_keys_free(VocabKeys *keys);

#endif
