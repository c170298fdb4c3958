/*
 * The way back: the gradient of one number made of the logits with respect to the vectors on the way to it. Weights stay
 * frozen, and where they lie, in every type. Of the way there the residual streams suffice: a layer's other numbers are
 * made again when it is passed, so memory grows with n_layer·n·d_model and not with what layers hold.
 */
#ifndef ATTN_BACKWARD_H
#define ATTN_BACKWARD_H

#include "base/error.h"
#include "gradients/visits.h"
#include "kernels/kernels.h"
#include "model.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Turns the logits [n][n_vocab] of the tokens position … position + n − 1 into ∂m/∂logits, where m is the number whose
 * gradient is wanted. False with an error.
 */
typedef bool LogitsGradient(void *user, size_t position, size_t n, float *logits, Error *error);

/* All pointers are borrowed. */
typedef struct Backward {
    const Model *model;
    Compute compute; /* kernels and threads; its scratch is made anew */
    size_t n;        /* tokens, from position 0 on */
    size_t n_ctx;    /* of the session that went there (LongRoPE's angles depend on it) */
    float *const *
        streams; /* [n_layer + 1] the residual stream entering each layer, and leaving the last: [n][d_model] */
    size_t first_logits; /* tokens before this one have logits that m does not depend on */
    LogitsGradient *logits_gradient;
    void *user;
    const GradientProbe *probe;
    size_t lowest;                 /* layer: those below are not passed */
    bool (*stop)(void *stop_user); /* asked before each layer, or NULL */
    void *stop_user;
} Backward;

/*
 * For the probe of the way there, fed from position 0 on: whether a site is one of `streams`, and a visit to it kept there.
 */
bool backward_is_stream(const Model *model, ProbeSite site, size_t layer);
void backward_keep(float *const *streams, const Activation *seen);

/*
 * Goes back once; the probe sees the gradients. Beyond the streams this takes memory for some 20·n·d_model floats. False with
 * an error when memory runs out, when `stop` says so ("interrupted"), and when logits_gradient fails.
 */
bool backward_run(const Backward *backward, Error *error);

#endif
