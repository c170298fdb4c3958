/*
 * The engine in a page: the views of study, asked as on a command line. The page makes room for a model's file, puts its
 * bytes there, opens it once, and asks; answers and errors are what is written to files 1 and 2, the module's only import
 * (WASI's fd_write). docs/ARCHITECTURE.md tells more.
 */
#include "page/ask.h"
#include "cli/process.h"
#include "open.h"
#include "views/view.h"
#include "vocabulary.h"
#include "wasm/system.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPORTED(name) __attribute__((export_name(name)))

/*
 * Room for n bytes, which may be more than an address can tell: a file, a command. 0, with a message, where there is none;
 * addresses from 2^31 on are negative numbers in JavaScript. The page frees commands.
 */
EXPORTED("room") void *ask_room(double n);
EXPORTED("free") void ask_free(void *room);

/*
 * Opens the model whose n bytes were put into a room, which it keeps, once; name is what messages call it (cache, too), or
 * 0. Returns 0, or not, with a message.
 */
EXPORTED("open") int ask_open(void *bytes, size_t n, const char *name);

/* A view's command: its name and options, texts that end in 0. Returns what study's exit code would be. */
EXPORTED("ask") int ask(int argc, char **argv);

static SubjectCache cache;
static OpenModel opened = {.cache = &cache};
static bool is_open;

static int told(int code, const Error *error) {
    fflush(stdout);
    if (code != EXIT_SUCCESS) fprintf(stderr, "%s\n", error->message);
    return code;
}

void *ask_room(double n) {
    void *room = n >= 0 && n < 0x1p31 ? system_room((size_t)n) : NULL;
    Error error;
    if (room) return room;
    error_set(&error, "there is no memory for %.0f bytes: a page has room for models below 2 GiB", n);
    told(EXIT_BAD_INPUT, &error);
    return NULL;
}

void ask_free(void *room) { free(room); }

int ask_open(void *bytes, size_t n, const char *name) {
    Error error;
    Checkpoint *vocabulary;
    if (opened.path) {
        error_set(&error, "a model was opened here; open the next in an instance of its own");
        return told(EXIT_USAGE, &error);
    }
    opened.path = name ? name : "model";
    opened.out = stdout;
    const GivenFile given = {.bytes = bytes, .n_bytes = n};
    is_open =
        (opened.threads = threads_new(1, &error)) &&
        (opened.model = model_of(checkpoint_open_given(opened.path, &given, &error), &error)) &&
        (opened.tokenizer = tokenizer_open(NULL, model_checkpoint(opened.model), &vocabulary, &error)) &&
        vocabulary_fits(opened.model, opened.tokenizer, NULL, &error);
    return told(is_open ? EXIT_SUCCESS : EXIT_BAD_INPUT, &error);
}

int ask(int argc, char **argv) {
    Error error;
    if (!is_open) {
        error_set(&error, "no model is open");
        return told(EXIT_USAGE, &error);
    }
    return told(view_ask(&opened, argc, argv, &error), &error);
}
