/*
 * The way back: the gradient of one number made of the logits with respect to the vectors on the way to it. Weights stay
 * frozen, and where they lie, in every type. Of the way there the residual streams suffice: a layer's other numbers are
 * made again when it is passed, so memory grows with n_layer·n·d_model and not with what layers hold. Of short texts these
 * are saved, too.
 */
#ifndef ATTN_BACKWARD_H
#define ATTN_BACKWARD_H

#include "base/error.h"
#include "gradients/saved_activations.h"
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
    Compute compute;               /* kernels and threads; its scratch is made anew */
    size_t n;                      /* tokens, from position 0 on */
    size_t n_ctx;                  /* of the session that went there (LongRoPE's angles depend on it) */
    const SavedActivations *saved; /* of the way there */
    size_t first_logits;           /* tokens before this one have logits that m does not depend on */
    const float *logits; /* [n − first_logits][n_vocab] of the others, if they are known; or NULL */
    LogitsGradient *logits_gradient;
    void *user;
    const GradientProbe *probe;
    size_t lowest;                 /* layer: those below are not passed */
    bool (*stop)(void *stop_user); /* asked before each layer, or NULL */
    void *stop_user;
} Backward;

/* Bytes that are saved, streams included: 512 tokens of GPT-2 124M whole. Longer texts' streams alone may be more. */
enum { BACKWARD_SAVED = 192 << 20 };

/*
 * Room for what is saved of the way there over n tokens (gradients/saved_activations.h), `most` bytes or the streams alone.
 * False with an error when memory runs out; saved_free may be called in any case.
 */
bool backward_room(SavedActivations *saved, const Model *model, size_t n, size_t most, Error *error);

/*
 * Goes back once; the probe sees the gradients. Beyond what is saved this takes memory for some 20·n·d_model floats. False with
 * an error when memory runs out, when `stop` says so ("interrupted"), and when logits_gradient fails.
 */
bool backward_run(const Backward *backward, Error *error);

#endif
