/*
 * Any bytes as a checkpoint: through everything of the library that reads a file and describes it, then a text and
 * three tokens if it will do; and as directions. test_bad_input does this to the files that it damages, the fuzzer to its own.
 */
#ifndef ATTN_TESTS_ANYFILE_H
#define ATTN_TESTS_ANYFILE_H

#define _GNU_SOURCE /* memfd_create */

#include "base/utf8.h"
#include "cli/directions.h"
#include "cli/info.h"
#include "model.h"
#include "open.h"
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whether a terminal may be given that line. */
static bool is_safe_line(const char *line, size_t n) {
    uint32_t c;
    for (size_t at = 0; at < n;) {
        at += utf8_decode(line + at, n - at, &c);
        if (c < ' ' || !utf8_is_safe(c)) return false;
    }
    return true;
}

/* A failure must have left one line, safe to show, which begins with the path if there is one. */
static void check(bool ok, const Error *error, const char *path) {
    if (ok) return;
    bool is_line = error->message[0] && is_safe_line(error->message, strlen(error->message));
    if (is_line && (!path || strncmp(error->message, path, strlen(path)) == 0)) return;
    fprintf(stderr, "a failure that says '%s'\n", error->message);
    abort();
}

static void try_tokenizer(const Checkpoint *checkpoint) {
    static const char text[] = "ab ab\n\xe2\x96\x81 the \xff<s>12'll\xc3";
    Error error = {{0}};
    Tokens tokens = {0};
    TextBuffer out = {0};
    Tokenizer *tokenizer = tokenizer_new(checkpoint, &error);
    check(tokenizer != NULL, &error, checkpoint_path(checkpoint));
    if (tokenizer == NULL) return;
    check(tokenizer_encode(tokenizer, text, sizeof text - 1, ENCODE_ENDS | ENCODE_SPECIAL, &tokens, &error),
          &error, NULL);
    Detokenizer detokenizer = detokenizer_begin(tokenizer, true);
    for (size_t i = 0; i < tokens.n; i++) detokenizer_push(&detokenizer, tokens.ids[i], &out);
    detokenizer_end(&detokenizer, &out);
    free(out.data);
    tokens_free(&tokens);
    tokenizer_free(tokenizer);
}

static void try_model(const char *path, Threads *threads) {
    Error error = {{0}};
    Model *model = model_open(path, &error);
    check(model != NULL, &error, path);
    if (model == NULL) return;
    size_t n_vocab = model_config(model)->n_vocab;
    const int32_t tokens[] = {0, (int32_t)n_vocab - 1, 0};
    SessionOptions options = {.n_ctx = 4,
                              .kv_dtype = DTYPE_F16,
                              .n_chunk = 2,
                              .compute = {.kernels = kernels_pick(NULL, &error), .threads = threads}};
    Session *session = session_new(model, &options, &error);
    check(session != NULL, &error, NULL);
    float *logits = malloc(n_vocab * sizeof *logits);
    if (session && logits) check(session_feed(session, tokens, 3, logits, 1, &error), &error, path);
    free(logits);
    session_free(session);
    model_close(model);
}

/* As directions for a model, if that lies there. */
static void try_directions(const char *path) {
    static Model *model;
    static bool looked;
    Error error = {{0}};
    Directions directions = {0};
    if (!looked) model = model_open("tests/data/reference/gpt2-f32.gguf", &error);
    looked = true;
    if (model) check(directions_read(&directions, path, model, &error), &error, path);
    directions_free(&directions);
}

static void try_any_file(const unsigned char *bytes, size_t n) {
    static int file = -1;
    static FILE *nowhere;
    static Threads *threads;
    static char path[64];
    Error error = {{0}};
    if (file < 0) {
        file = memfd_create("checkpoint", 0);
        nowhere = fopen("/dev/null", "w");
        threads = threads_new(1, &error);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) != 0 || pwrite(file, bytes, n, 0) != (ssize_t)n) abort();
    Checkpoint *checkpoint = checkpoint_open(path, &error);
    check(checkpoint != NULL, &error, path);
    if (checkpoint) try_tokenizer(checkpoint);
    bool told = print_info(nowhere, path, NULL, &error);
    check(told == (checkpoint != NULL), &error, path);
    checkpoint_close(checkpoint);
    try_model(path, threads);
    try_directions(path);
}

#endif
