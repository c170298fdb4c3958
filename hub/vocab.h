/*
 * The vocabulary of a folder without tokenizer.json. Of GPT-2's vocab.json and merges.txt a tokenizer.json is written, as
 * transformers' converters make one; of SentencePiece's tokenizer.model the keys that GGUF files have, as llama.cpp's makes
 * them. Other files of the folder say which tokens were added, and which of all steer the model. For this folder only.
 */
#ifndef ATTN_HUB_VOCAB_H
#define ATTN_HUB_VOCAB_H

#include "folder.h"
#include "sentencepiece.h"

/* A token that is found before the rest of a text is cut. */
typedef struct Added {
    String text;
    int64_t id;
    size_t order;      /* of equal ones the first counts */
    const Json *flags; /* of tokenizer_config.json, or NULL */
    bool special;
} Added;

typedef struct FolderVocab {
    char *text; /* vocab.json or tokenizer.model */
    size_t n_text;
    Json *json; /* vocab.json */
    char *merges;
    size_t n_merges;     /* bytes of merges.txt */
    SentencePiece model; /* tokenizer.model, if it has pieces */
    Json *listed, *map;  /* added_tokens.json and special_tokens_map.json, or NULL */
    String *names;       /* [n_names] of the tokens that steer the model, sorted */
    size_t n_names;
    Added *added; /* [n_added] by id */
    size_t n_added;
} FolderVocab;

/* tokenizer.huggingface.json out of vocab.json, merges.txt and the added tokens (vocab_json.c). */
void folder_vocab_to_json(Folder *folder);

/* tokenizer.ggml.… out of tokenizer.model and the added tokens, which take their places in it (vocab_keys.c). */
void folder_vocab_to_keys(Folder *folder);

/* A text that is written twice: without `out` to count the bytes, and then with it. */
typedef struct FolderWriter {
    char *out;
    size_t n;
} FolderWriter;

static inline void put(FolderWriter *writer, const void *bytes, size_t n) {
    if (writer->out) memcpy(writer->out + writer->n, bytes, n);
    writer->n += n;
}

#endif
