/*
 * Data sets: requests in, a line each; answers out, a line each, as soon as each is ready or in the order of the requests.
 * Several texts are under way at once and go through the layers together (session_feed_many); where one ends the next begins.
 * A text does not depend on the others. Prompts that begin alike are computed once as far as that goes.
 */
#ifndef ATTN_BATCH_H
#define ATTN_BATCH_H

#include "base/error.h"
#include "cli/output.h"
#include "model.h"
#include "sampler.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct BatchSetup {
    const char *program;            /* whose name stands before notes */
    const char *requests, *answers; /* files; "-": stdin; NULL: stdout */
    const char *template_file;      /* or NULL: the model's own */
    const Model *model;
    const Tokenizer *tokenizer;
    SessionOptions session; /* of each text; its n_chunk is chosen here */
    SamplerOptions
        sampling;      /* where a request gives no others; not settled yet, so that they win over the file */
    uint64_t seed;     /* each request's own is made of this one and its name */
    int64_t n_predict; /* −1: until the text ends */
    size_t n_parallel;
    bool in_order, special;
    const Inputs *inputs;
} BatchSetup;

/*
 * Answers all requests that have no answer yet. A request that cannot be read, or fed, gets an answer that says why, and the
 * rest goes on. Fails on files that cannot be read or written, on a line without end once the lines before it are answered, and
 * after Ctrl-C; whatever was written by then stays.
 */
bool batch_run(const BatchSetup *setup, Error *error);

#endif
