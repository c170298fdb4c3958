/* For tests of vocabularies: one that is open, its ids, and texts as files of cases have them. */
#ifndef ATTN_TESTS_OPENED_H
#define ATTN_TESTS_OPENED_H

#include "open.h"
#include "tokenizer.h"

#include "test.h"

/* A tokenizer and the checkpoint that it borrows from. */
typedef struct Opened {
    Checkpoint *checkpoint;
    Tokenizer *tokenizer;
} Opened;

static inline Opened open_path(const char *path, Error *error) {
    Opened opened = {.checkpoint = checkpoint_open(path, error)};
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
    for (size_t i = 0; i < tokens.n; i++)
        CHECK(detokenizer_push(&detokenizer, tokens.ids[i], &out), "out of memory");
    CHECK(detokenizer_end(&detokenizer, &out), "out of memory");
    return out;
}

static inline size_t parse_hex(const char *text, char *out, char **end) {
    size_t n = 0;
    unsigned byte;
    for (; *text && *text != ' ' && sscanf(text, "%2x", &byte) == 1; text += 2) out[n++] = (char)byte;
    *end = (char *)(uintptr_t)text;
    return n;
}

/* Reads "1 2 3"; *end is after the last number. */
static inline Tokens parse_ids(const char *text, char **end) {
    Tokens tokens = {0};
    for (*end = (char *)(uintptr_t)text;; text = *end) {
        long id = strtol(text, end, 10);
        if (*end == text) return tokens;
        tokens_push(&tokens, (int32_t)id, NULL);
    }
}

/* "1 2 3", as much of it as fits. */
static inline const char *ids_text(const Tokens *tokens) {
    static char text[64];
    *text = '\0';
    for (size_t i = 0; i < tokens->n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "", tokens->ids[i]);
    return text;
}

static inline uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif
