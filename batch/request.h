/*
 * A line of a data set, as a request for a text: the short form {"id", "prompt" or "messages", options}, or a line of OpenAI's
 * batch files, {"custom_id", "method", "url", "body"} with the same in its body, as `vllm run-batch` takes it, too. Or one for
 * likelihoods, {"id", "context", "continuation" or "choices"}.
 */
#ifndef ATTN_BATCH_REQUEST_H
#define ATTN_BATCH_REQUEST_H

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "conversation.h"
#include "sampler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUEST_MAX_STOPS = 16, REQUEST_MAX_TEXTS = 128 };

/* Starts as {0}; request_free frees what it holds, of a line that could not be read, too. */
typedef struct Request {
    size_t line;         /* of the file, from 1 */
    Json *json;          /* of the line; the members below point into it */
    const Json *id;      /* a text or a whole number; NULL: it has none, and the line's number is its name */
    bool is_openai;      /* the answer is a line of OpenAI's batch files */
    const Json *prompts; /* [n_prompts] each a text, or an array of token ids; or NULL */
    size_t n_prompts;    /* 1 of messages, too */
    const Json *context, *continuation,
        *choices;          /* texts, the last an array of them, of which one at least; or NULL */
    ChatMessage *messages; /* [n_messages], or NULL */
    size_t n_messages;
    const Json *variables;    /* the template's further ones; NULL: none */
    SamplerOptions sampling;  /* what is not given is as it was */
    int64_t n_predict;        /* likewise */
    int64_t seed;             /* -1: it gives none */
    size_t n;                 /* how many texts it asks for of each prompt */
    const Json *skip_special; /* a JSON_BOOL: whether texts go without control tokens; NULL: as the program */
    bool logprobs;            /* of each token, and of the n_top likeliest in its place */
    size_t n_top;
    char *stops[REQUEST_MAX_STOPS]; /* [n_stops] */
    size_t n_stops;
    TextBuffer *contents; /* [n_messages] of messages whose content comes in parts */
} Request;

/*
 * Reads a line of n bytes, of which the request keeps a copy. `sampling` and `n_predict` hold where it gives no others. Fails on
 * what is no such line, and on options that are not done here, by name, unless their value asks for nothing; as much of the request
 * as could be read, its id above all, then stays for the answer.
 */
bool request_read(Request *request, const char *line, size_t n, size_t number, const SamplerOptions *sampling,
                  int64_t n_predict, Error *error);
void request_free(Request *request);

/* Whether a value is a whole number, as 2 is, and 2.0, which tables write where a column has gaps. */
bool request_whole(const Json *value, int64_t *number);

/* Appends its name: the id, behind a quote where that is a text, or "line" and its number. False when memory runs out. */
bool request_name(const Request *request, TextBuffer *name);

/* 64 bits of that name and a seed: its own seed, so that a text is the same wherever its line stands. */
uint64_t request_hash(String name, uint64_t seed);

#endif
