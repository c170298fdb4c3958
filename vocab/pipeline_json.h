/* The steps of a Pipeline, and what stands around them, out of a tokenizer.json. For vocab/vocab_json.c. */
#ifndef ATTN_PIPELINE_JSON_H
#define ATTN_PIPELINE_JSON_H

#include "base/json.h"
#include "vocab/pipeline.h"
#include "vocab/vocab.h"

/* The tokenizer.json that is being read, and what its parts found out for each other. */
typedef struct TokenizerReader {
    const char *path; /* for errors */
    Error *error;
    Pipeline *pipeline;
    bool byte_level; /* the text's bytes are what is merged */
    bool spaces;     /* each space becomes ▁ */
} TokenizerReader;

/* Sets the error "PATH: tokenizer.json: WHAT 'NAME'" and returns false. */
bool tokenizer_refuse(const TokenizerReader *reader, const char *what, String name);

/* Fails likewise for a lack of memory. */
bool tokenizer_no_memory(const TokenizerReader *reader);

/* The member `key`, true or false. A missing one is *value, unless `must`. */
bool tokenizer_flag(const TokenizerReader *reader, const Json *json, const char *key, bool must, bool *value);

/* The member "type" of a part, or the empty text. */
String tokenizer_type(const Json *json);

/* A copy that the pipeline owns; data is NULL when memory runs out. */
String tokenizer_keep(const TokenizerReader *reader, String text);

/* Reads {"String": …} or {"Regex": …}, as `pattern` gives what is searched for. */
bool tokenizer_needle(const TokenizerReader *reader, const Json *pattern, Needle *needle);

/* Fill the pipeline's steps. `json` may be NULL or null. Call pipeline_free after a failure, too. */
bool tokenizer_read_normalizer(TokenizerReader *reader, const Json *json);
bool tokenizer_read_pre_tokenizer(TokenizerReader *reader, const Json *json);

/* After the normaliser: sorts the added tokens, whose texts are contents[n_added], into those looked for before and after it. */
bool tokenizer_sort_added(const TokenizerReader *reader, const String *contents, const bool *normalized);

/* The one token that a post-processor puts in front of the text, and the one behind; −1: none. */
typedef struct Ends {
    int64_t before, after;
} Ends;

/* Reads a post-processor, which may be NULL or null, for a vocabulary of n ids. */
bool tokenizer_read_ends(const TokenizerReader *reader, const Json *json, size_t n, Ends *ends);

/*
 * Fills how the vocabulary's tokens, whose texts the file has in texts[vocab->n], become text: vocab->shown, …strips and
 * bare_first.
 */
bool tokenizer_read_decoder(TokenizerReader *reader, const Json *json, Vocab *vocab, const String *texts);

#endif
