/* The line that answers a request. */
#ifndef ATTN_BATCH_ANSWER_H
#define ATTN_BATCH_ANSWER_H

#include "base/text.h"
#include "batch/choice.h"
#include "batch/likelihood.h"
#include "batch/request.h"

#include <stdbool.h>

/*
 * The texts of a request; or, with `why`, none. An answer in OpenAI's format has no time in it, and names itself by the
 * request, so that the same request has the same answer.
 */
typedef struct BatchAnswer {
    size_t n_prompt; /* tokens */
    Choice *choices; /* [n_choices], or NULL */
    size_t n_choices;
    const Likelihood *likelihoods; /* [n_likelihoods] in the place of texts, or NULL; borrowed */
    size_t n_likelihoods;
    const char *why; /* the request could not be answered; or NULL */
} BatchAnswer;

/*
 * Appends the line, with its newline. The vocabulary spells tokens; model: the name that an answer in OpenAI's format gives. False
 * when memory runs out.
 */
bool answer_print(const BatchAnswer *answer, const Request *request, const Tokenizer *tokenizer,
                  const char *model, TextBuffer *line);
void answer_free(BatchAnswer *answer);

#endif
