/*
 * The engine in a page: the views of study, asked as on a command line. The page puts the model's file at /model and gets a
 * view's JSON as what it prints; errors come on stderr. docs/ARCHITECTURE.md tells who calls what.
 */
#include "views/view.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPORTED(name) __attribute__((export_name(name)))

static Kept kept;
static Held held = {.path = "/model", .kept = &kept};

static int told(int code, const Error *error) {
    fflush(stdout);
    if (code != EXIT_SUCCESS) fprintf(stderr, "%s\n", error->message);
    return code;
}

/* Room for what the page passes; it frees what it asked for. */
EXPORTED("room") void *ask_room(size_t n) { return malloc(n); }
EXPORTED("free") void ask_free(void *room) { free(room); }

/* Opens the model; 0, or not with a message. */
EXPORTED("open") int ask_open(void) {
    Error error;
    Checkpoint *vocabulary;
    bool ok = (held.threads = threads_new(1, &error)) && (held.model = model_open(held.path, &error)) &&
              (held.tokenizer = tokenizer_open(NULL, model_checkpoint(held.model), &vocabulary, &error)) &&
              vocabulary_fits(held.model, held.tokenizer, NULL, &error);
    return told(ok ? EXIT_SUCCESS : EXIT_BAD_INPUT, &error);
}

/* A view's command: its name and options, texts that end in 0. Returns what study's exit code would be. */
EXPORTED("ask") int ask(int argc, char **argv) {
    Error error;
    return told(view_ask(&held, argc, argv, &error), &error);
}
