/*
 * How likely a model finds a text behind another, as evaluation harnesses ask: the sum of its tokens' log-probabilities, and
 * whether each is the likeliest. The choices of one context share what was computed of it, and go through the layers together.
 * Sets of kernels that round nothing to 8 bits compute it, and a cache in F32: the numbers are those of `study score`.
 */
#ifndef ATTN_BATCH_LIKELIHOOD_H
#define ATTN_BATCH_LIKELIHOOD_H

#include "batch/request.h"
#include "model.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

/* A continuation's likelihood: Σ log p in nats, and over its tokens. */
typedef struct Likelihood {
    double logprob;
    bool is_greedy; /* each token is the likeliest where it stands, the lowest id of several */
    size_t n_bytes; /* of the continuation's text */
    size_t n;
    const int32_t *ids;     /* [n] */
    const double *logprobs; /* [n] */
} Likelihood;

typedef struct Likelihoods Likelihoods;

/* options: of a session; its kernels and cache are chosen here. NULL with an error. likelihoods_free accepts NULL. */
Likelihoods *likelihoods_new(const Model *model, const Tokenizer *tokenizer, const SessionOptions *options,
                             Error *error);
void likelihoods_free(Likelihoods *likelihoods);

/*
 * Gives those of the continuations of a request that has a context: *all [*n], good until the next call. A continuation's
 * tokens are those of both texts together that lie behind as many as the context has alone, its white space at the end counted
 * to the continuation, as EleutherAI's lm-evaluation-harness has it. An empty context is the token that begins every text.
 * *n_context is how many tokens the first one has. Fails where a continuation has no token of its own, or both do not fit the
 * context.
 */
bool likelihoods_of(Likelihoods *likelihoods, const Request *request, const Likelihood **all, size_t *n,
                    size_t *n_context, Error *error);

#endif
