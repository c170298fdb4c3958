/* For tests of tokenizer.json: a folder with one, which is opened; and one made of parts. */
#ifndef ATTN_TEST_TOKENIZER_JSON_H
#define ATTN_TEST_TOKENIZER_JSON_H

#include "gguf.h"
#include "open.h"
#include "tokenizer.h"

#include <sys/stat.h>

/* A tokenizer of a folder with these two files; `config` may be NULL. */
typedef struct Opened {
    Checkpoint *checkpoint;
    Tokenizer *tokenizer;
} Opened;

static inline void write_file(const char *name, const char *text, size_t n) {
    char path[sizeof scratch_folder + 32];
    snprintf(path, sizeof path, "%s/%s", scratch_folder, name);
    unlink(path);
    FILE *file = text ? fopen(path, "wb") : NULL;
    if (!file) return;
    fwrite(text, 1, n, file);
    fclose(file);
}

static inline Opened open_json(const char *json, size_t n, const char *config, Error *error) {
    write_file("tokenizer.json", json, n);
    write_file("tokenizer_config.json", config, config ? strlen(config) : 0);
    Opened opened = {.checkpoint = checkpoint_open(scratch_folder, error)};
    if (opened.checkpoint) opened.tokenizer = tokenizer_new(opened.checkpoint, error);
    return opened;
}

static inline void close_tokenizer(Opened opened) {
    tokenizer_free(opened.tokenizer);
    checkpoint_close(opened.checkpoint);
}

static inline TextBuffer decode(const Tokenizer *tokenizer, Tokens tokens, bool special) {
    TextBuffer out = {0};
    Detokenizer detokenizer = detokenizer_begin(tokenizer, special);
    for (size_t i = 0; i < tokens.n; i++) detokenizer_push(&detokenizer, tokens.ids[i], &out);
    detokenizer_end(&detokenizer, &out);
    return out;
}

/* Models, to which a list of tokens, or of merges, is added; and a post-processor whose tokens have no ids. */
#define UNIGRAM "{'type': 'Unigram', 'vocab': "
#define LETTERS "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2}, 'merges': "
#define WITHOUT_NAME                                                                                         \
    "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': 'a'}}, {'Sequence': {}}]"

/* A tokenizer.json with one part put in, whose quotes are single ones here; "model" and "decoder" take the place of these. */
static inline Opened open_with(const char *part, const char *value, Error *error) {
    static char json[1 << 14];
    const char *model = "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2}, 'merges': ['a b']}",
               *decoder = "{'type': 'Fuse'}";
    bool is_model = strcmp(part, "model") == 0, is_decoder = strcmp(part, "decoder") == 0;
    int n = snprintf(json, sizeof json, "{'model': %s, 'decoder': %s", is_model ? value : model,
                     is_decoder ? value : decoder);
    if (!is_model && !is_decoder) n += snprintf(json + n, sizeof json - (size_t)n, ", '%s': %s", part, value);
    n += snprintf(json + n, sizeof json - (size_t)n, "}");
    for (char *c = json; *c; c++)
        if (*c == '\'') *c = '"';
    return open_json(json, (size_t)n, NULL, error);
}

/* The end of a tokenizer that shows its tokens as they are. */
#define FUSE ", 'decoder': {'type': 'Fuse'}}"

#endif
