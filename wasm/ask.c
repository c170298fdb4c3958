/*
 * The engine in a page: the views of study, asked as on a command line. The page puts the model's file at /model and gets a
 * view's JSON as what it prints; errors come on stderr. docs/ARCHITECTURE.md tells who calls what.
 */
#include "views/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED(name) __attribute__((export_name(name)))

static const View *const views[] = {&view_tokens,  &view_next, &view_score,     &view_attend,
                                    &view_heads,   &view_lens, &view_explain,   &view_ablate,
                                    &view_experts, &view_page, &view_selfcheck, &view_shape};

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
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (argc > 0 && strcmp(argv[0], views[i]->name) == 0)
            return told(view_command(views[i], &held, argc, argv, &error), &error);
    error_set(&error, "there is no view '%s' here", argc > 0 ? argv[0] : "");
    return told(EXIT_USAGE, &error);
}
