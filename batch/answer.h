/* The line that answers a request. */
#ifndef ATTN_BATCH_ANSWER_H
#define ATTN_BATCH_ANSWER_H

#include "base/text.h"
#include "batch/likelihood.h"
#include "batch/request.h"
#include "generate.h"

#include <stdbool.h>

/*
 * A text and why it ended; or, with `why`, no text. An answer in OpenAI's format has no time in it, and names itself by the
 * request, so that the same request has the same answer.
 */
typedef struct Answer {
    TextBuffer text;
    size_t n_prompt, n_predicted; /* tokens */
    TextEnd end;
    const Likelihood *likelihoods; /* [n_likelihoods] in the place of a text, or NULL; borrowed */
    size_t n_likelihoods;
    const char *why; /* the request could not be answered; or NULL */
} Answer;

/* Appends the line, with its newline. model: the name that an answer in OpenAI's format gives. False when memory runs out. */
bool answer_print(const Answer *answer, const Request *request, const char *model, TextBuffer *line);

#endif
