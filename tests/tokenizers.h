/* For tests of vocabularies: opening one, its ids and pieces, and GGUF files with little else. */
#ifndef ATTN_TESTS_TOKENIZERS_H
#define ATTN_TESTS_TOKENIZERS_H

#include "opened.h"

#include <unistd.h>

static inline Opened open_tokenizer(const char *path) {
    Error error = {{0}};
    Opened opened = open_path(path, &error);
    CHECK(opened.tokenizer, "%s", error.message);
    return opened;
}

static inline Tokens encode(const Tokenizer *tokenizer, const char *text, size_t n, unsigned flags) {
    Tokens tokens = {0};
    Error error = {{0}};
    CHECK(tokenizer_encode(tokenizer, text, n, flags, &tokens, &error), "%s", error.message);
    return tokens;
}

static inline void check_ids(Tokens got, Tokens expected, const char *what) {
    bool same =
        got.n == expected.n && (!got.n || memcmp(got.ids, expected.ids, got.n * sizeof *got.ids) == 0);
    CHECK(same, "%s", what);
    for (size_t i = 0; !same && i < got.n; i++) printf(" %d", got.ids[i]);
    if (!same) printf(" given\n");
}

static inline void check_piece(const Tokenizer *tokenizer, int32_t id, bool special, const char *expected) {
    String piece = tokenizer_piece(tokenizer, id, special);
    CHECK(piece.n == strlen(expected) && memcmp(piece.data, expected, piece.n) == 0, "token %d: '%.*s'", id,
          (int)piece.n, piece.data);
}

/* Writes GGUF metadata, for vocabularies as small or as broken as a test wants them. */
typedef struct Writer {
    char path[32];
    FILE *file;
    uint64_t n_entries;
} Writer;

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

static inline void put(Writer *writer, const void *data, size_t n) { fwrite(data, 1, n, writer->file); }
static inline void put_u32(Writer *writer, uint32_t value) { put(writer, &value, sizeof value); }
static inline void put_u64(Writer *writer, uint64_t value) { put(writer, &value, sizeof value); }

static inline void put_string(Writer *writer, const char *text) {
    put_u64(writer, strlen(text));
    put(writer, text, strlen(text));
}

static inline void put_name(Writer *writer, const char *name, uint32_t type) {
    put_string(writer, name);
    put_u32(writer, type);
    writer->n_entries++;
}

static inline void put_key(Writer *writer, const char *key, uint32_t type) {
    char name[64];
    snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
    put_name(writer, name, type);
}

static inline void add_string(Writer *writer, const char *key, const char *value) {
    put_key(writer, key, STRING);
    put_string(writer, value);
}

static inline void add_u32(Writer *writer, const char *key, uint32_t value) {
    put_key(writer, key, U32);
    put_u32(writer, value);
}

static inline void add_bool(Writer *writer, const char *key, bool value) {
    put_key(writer, key, BOOL);
    put(writer, value ? "\1" : "", 1);
}

/* An array of the words of a text, which '|' separates; NULL: none. */
static inline void add_strings(Writer *writer, const char *key, const char *words) {
    uint64_t n = words != NULL;
    for (const char *c = words; c && *c; c++) n += *c == '|';
    put_key(writer, key, ARRAY);
    put_u32(writer, STRING);
    put_u64(writer, n);
    for (size_t length; n--; words += length + (n > 0)) {
        length = strcspn(words, "|");
        put_u64(writer, length);
        put(writer, words, length);
    }
}

/* An array of 32-bit numbers of that type. */
static inline void add_numbers(Writer *writer, const char *key, uint32_t type, const void *values, size_t n) {
    put_key(writer, key, ARRAY);
    put_u32(writer, type);
    put_u64(writer, n);
    put(writer, values, n * 4);
}

static inline Writer begin_file(void) {
    Writer writer = {.path = "/tmp/attn-test-XXXXXX"};
    writer.file = fdopen(mkstemp(writer.path), "wb");
    put(&writer, "GGUF", 4);
    put_u32(&writer, 3);
    put_u64(&writer, 0); /* tensors */
    put_u64(&writer, 0); /* entries: open_written */
    return writer;
}

/* gpt2 with tokens and merges as given. */
static inline Writer begin_gpt2(const char *tokens, const char *merges) {
    Writer writer = begin_file();
    add_string(&writer, "model", "gpt2");
    add_strings(&writer, "tokens", tokens);
    add_strings(&writer, "merges", merges);
    return writer;
}

/* SentencePiece's with n tokens and their scores. */
static inline Writer begin_llama(const char *tokens, const float *scores, size_t n) {
    Writer writer = begin_file();
    add_string(&writer, "model", "llama");
    add_strings(&writer, "tokens", tokens);
    add_numbers(&writer, "scores", F32, scores, n);
    return writer;
}

/* Ends the file and opens it, which needs its name no longer. */
static inline Opened open_file(Writer *writer, Error *error) {
    static const char padding[32] = {0};
    put(writer, padding, (size_t)(-ftell(writer->file) & 31));
    fseek(writer->file, 16, SEEK_SET);
    put_u64(writer, writer->n_entries);
    fclose(writer->file);
    Opened opened = open_path(writer->path, error);
    unlink(writer->path);
    return opened;
}

static inline Opened open_written(Writer *writer) {
    Error error = {{0}};
    Opened opened = open_file(writer, &error);
    CHECK(opened.tokenizer, "%s", error.message);
    return opened;
}

/* Likewise, but the tokenizer must be refused, with an error that contains the words. */
static inline void check_refused(Writer *writer, const char *words) {
    Error error = {{0}};
    Opened opened = open_file(writer, &error);
    CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, words), "expected '%s', got '%s'",
          words, error.message);
    close_tokenizer(opened);
}

#endif
