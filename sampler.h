/* From logits to the next token, from an explicit seed. */
#ifndef ATTN_SAMPLER_H
#define ATTN_SAMPLER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The steps that change the logits, one after another. A step that its option leaves out costs nothing. */
typedef enum SamplerStep {
    STEP_PENALTIES = 1,
    STEP_TOP_K,
    STEP_TOP_P,
    STEP_MIN_P,
    STEP_TEMPERATURE
} SamplerStep;

/*
 * Each step sees the tokens that the steps before it have left, and their probabilities among themselves. The usual order is
 * llama.cpp's: penalties, top-k, top-p, min-p, temperature, then one draw. Filters choose among the model's own
 * probabilities there, and the temperature weighs what they left. With temperature before top-p, and no other step, the
 * tokens drawn are exactly those of llama2.c.
 *
 * Repetition: Keskar et al. 2019, arXiv:1909.05858. Top-p: Holtzman et al. 2019, arXiv:1904.09751.
 * Min-p: Nguyen et al. 2024, arXiv:2407.01082.
 */
typedef struct SamplerOptions {
    float temperature;       /* 0, or so small that logits divided by it overflow: the likeliest token */
    size_t top_k;            /* keep the k likeliest; 0: all */
    float top_p;             /* keep the smallest set with mass > p; ≤ 0 or ≥ 1: all */
    float min_p;             /* keep tokens with p ≥ min_p × the largest p; 0: all */
    float repeat_penalty;    /* logits of recent tokens: ÷ if positive, × if negative; 1: off */
    float presence_penalty;  /* subtracted once from the logit of a recent token; 0: off */
    float frequency_penalty; /* subtracted for each time it occurred; 0: off */
    size_t penalty_window;   /* how many tokens back "recent" reaches */
    uint64_t seed;           /* of xorshift64*; 0 is taken as 1, since that generator cannot leave 0 */
    uint64_t order;          /* steps, four bits each, the first lowest; 0: the usual */
} SamplerOptions;

/* Whether a step changes anything: it is in the order, and its options are not off. */
bool sampler_does(const SamplerOptions *options, SamplerStep step);

typedef struct Sampler Sampler;

/* Scratch for n_vocab candidates. NULL when memory runs out. sampler_free accepts NULL. */
Sampler *sampler_new(const SamplerOptions *options, size_t n_vocab, Error *error);
void sampler_free(Sampler *sampler);

/* Tells the penalties that the text now ends in this token. Prompt tokens count too. */
void sampler_accept(Sampler *sampler, int32_t id);

/* Tells them that another text begins. */
void sampler_forget(Sampler *sampler);

/* A token that may be drawn. */
typedef struct Candidate {
    float p;     /* among the tokens that the last filter saw */
    float logit; /* as the steps have left it */
    int32_t id;
} Candidate;

/* Item i is drawn with probability items[i].p / mass. Borrowed from the sampler, until its next call. */
typedef struct Candidates {
    const Candidate *items;
    size_t n;   /* at least 1 */
    float mass; /* of the items together: 1, or what the last step, if it was top-p, has kept */
} Candidates;

/*
 * The tokens that sampler_next would draw from: the likeliest first if a filter has been at work, otherwise by id. logits
 * [n_vocab] must be finite; they are not changed.
 */
Candidates sampler_candidates(Sampler *sampler, const float *logits);

/* Passes over the draws of n tokens, as if they had been sampled. */
void sampler_skip(Sampler *sampler, size_t n);

/* Draws the next token from sampler_candidates. */
int32_t sampler_next(Sampler *sampler, const float *logits);

/* ln softmax(logits)[id]: the model's own log-probability, before penalties, temperature and filters. */
double sampler_logprob(const float *logits, size_t n_vocab, int32_t id);

/* 32 random bits by xorshift64* (Vigna 2016, arXiv:1402.6246), as samplers draw them; *state must not be 0. */
uint32_t random_draw(uint64_t *state);

#endif
