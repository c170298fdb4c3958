/*
 * The outputs of heads by themselves at one position, and what each does to the next token's logits if it goes straight
 * to the unembedding (direct logit attribution; Elhage et al. 2021, "A Mathematical Framework for Transformer
 * Circuits"). Norms on the way there are taken with the scale that they have anyway at that position. A probe takes in
 * what this needs.
 */
#ifndef ATTN_EFFECTS_H
#define ATTN_EFFECTS_H

#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Effect {
    int32_t id;
    double logit; /* what is added to it, the mean over the vocabulary left out */
} Effect;

/* The output of one head, or of another part of the model. */
typedef struct HeadEffects {
    double output_norm;       /* the length of what it adds */
    Effect *raised, *lowered; /* [n_top] */
} HeadEffects;

typedef struct Effects {
    size_t layer, n_layers, head, n_heads; /* n_layers × n_heads from these on; no heads: nothing is wanted */
    const bool *layers;                    /* [n_layer of the model] those that count; NULL: all */
    size_t query, n_top;

    const Subject *subject;
    Arena *arena;
    float *z;           /* [n_layers][n_head of the model][d_head] Σ weight·v */
    float *resid;       /* [d_model] leaving the last layer */
    HeadEffects *heads; /* [n_layers][n_heads] */
} Effects;

/* Makes room. The fields up to n_top are set by the caller, all others zero; n_top becomes n_vocab where it is more. */
bool effects_begin(Effects *effects, const Subject *subject, Arena *arena, Error *error);

/*
 * Turns c [d_model], which is added to the residual stream, into what it hands to the unembedding where the final norm
 * divides by `scale`: c·gain/scale, centred first where the norm centres.
 */
void effect_through_norm(const Norm *norm, double scale, float *c, size_t d);

/* The n_top (≤ n_vocab) tokens that each of n such vectors, outputs [n][d_model], raises and lowers most. */
bool effects_top(const Subject *subject, Arena *arena, const float *outputs, HeadEffects *const *heads,
                 size_t n, size_t n_top, Error *error);

/* A probe calls these. */
bool effects_want(const Effects *effects, ProbeSite site, size_t layer);
void effects_add(Effects *effects, const Activation *seen);

/* Call this once the query has been fed. */
bool effects_finish(Effects *effects, Error *error);

const HeadEffects *effects_of(const Effects *effects, size_t layer, size_t head);

#endif
