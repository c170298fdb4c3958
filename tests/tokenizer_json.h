/* For tests of tokenizer.json: a folder with one, which is opened; and one made of parts. */
#ifndef ATTN_TEST_TOKENIZER_JSON_H
#define ATTN_TEST_TOKENIZER_JSON_H

#include "gguf.h"
#include "opened.h"

#include <sys/stat.h>

static inline void write_file(const char *name, const char *text, size_t n) {
    unlink(scratch_file(name));
    if (text) scratch_put(name, text, n);
}

/* A tokenizer of a folder with these two files; `config` may be NULL. */
static inline Opened open_json(const char *json, size_t n, const char *config, Error *error) {
    write_file("tokenizer.json", json, n);
    write_file("tokenizer_config.json", config, config ? strlen(config) : 0);
    return open_path(scratch_folder, error);
}

/* Of a tokenizer.json whose quotes are single ones here. */
static inline Opened open_quoted(const char *json, const char *config, Error *error) {
    static char text[1 << 14];
    snprintf(text, sizeof text, "%s", json);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    return open_json(text, strlen(text), config, error);
}

/* Models, to which a list of tokens, or of merges, is added; and a post-processor whose tokens have no ids. */
#define UNIGRAM "{'type': 'Unigram', 'vocab': "
#define LETTERS "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2}, 'merges': "
#define WITHOUT_NAME                                                                                         \
    "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': 'a'}}, {'Sequence': {}}]"

/* Of one with one part put in; "model" and "decoder" take the place of these. */
static inline Opened open_with(const char *part, const char *value, Error *error) {
    static char json[1 << 14];
    const char *model = "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2}, 'merges': ['a b']}",
               *decoder = "{'type': 'Fuse'}";
    bool is_model = strcmp(part, "model") == 0, is_decoder = strcmp(part, "decoder") == 0;
    int n = snprintf(json, sizeof json, "{'model': %s, 'decoder': %s", is_model ? value : model,
                     is_decoder ? value : decoder);
    if (!is_model && !is_decoder) n += snprintf(json + n, sizeof json - (size_t)n, ", '%s': %s", part, value);
    snprintf(json + n, sizeof json - (size_t)n, "}");
    return open_quoted(json, NULL, error);
}

/* The end of a tokenizer that shows its tokens as they are. */
#define FUSE ", 'decoder': {'type': 'Fuse'}}"

#endif
