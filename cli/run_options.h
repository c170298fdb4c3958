/* The options of run: what they say, and which go together. */
#ifndef ATTN_RUN_OPTIONS_H
#define ATTN_RUN_OPTIONS_H

#include "base/json.h"
#include "cli/options.h"
#include "generate.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct RunOptions {
    const char *model, *prompt, *prompt_file, *tokenizer, *kv, *logits, *system, *template, *colour_name,
        *steer, *batch, *output, *speculate, *kwargs;
    Json *variables; /* what kwargs says; NULL: it is not given */
    DType kv_dtype;
    int64_t n_predict, n_threads, n_ctx, seed, n_parallel;
    GeneratorOptions generator;
    StringList stop, idle; /* idle: options of llama.cpp that are not needed */
    Colour colour;
    bool escape, echo, tokens, json, info, interactive, chat, in_order, verbose, version, help;
    bool waits;      /* as with -i, for a prompt that nobody has given */
    char path[4096]; /* of the default model */
    char *texts;     /* of -e */
} RunOptions;

extern const char run_help[];

/*
 * Reads a command line. Where it has options alone the default model does, which a note names. run_options_unescape then
 * takes texts as -e has them, and run_options_free frees those.
 */
bool run_options_read(RunOptions *options, int argc, char **argv, Error *error);
bool run_options_unescape(RunOptions *options, Error *error);
void run_options_free(RunOptions *options);

#endif
