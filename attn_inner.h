/* The public library from within: for the files that make it, attn.c and attn_weights.c, attn_gradient.c, attn_generate.c. */
#ifndef ATTN_INNER_H
#define ATTN_INNER_H

#include "attn.h"
#include "base/error.h"
#include "base/floatenv.h"
#include "gradients/saved_activations.h"
#include "kernels/kernels.h"
#include "model.h"
#include "probe.h"
#include "tokenizer.h"

#include <string.h>

struct AttnModel {
    Model *model;
    Checkpoint *vocabulary; /* the file that was named for it, or NULL */
    Tokenizer *tokenizer;   /* NULL: the file has none, and tokens are all that it can be fed */
};

struct AttnSession {
    const AttnModel *model;
    Threads *threads; /* of options.beside, where there is one */
    const Kernels *kernels;
    Session *session;
    AttnSessionOptions options;
    Probe inner; /* what the engine calls, and what calls the options' probe */
    /* Of the last attn_gradient: touching as much memory anew takes a sixth of its CPU time. */
    SavedActivations saved;
};

_Static_assert(sizeof(AttnError) == sizeof((Error *)0)->message,
               "messages have the same size inside and outside");

/* Gives the caller what the engine said; returns false. */
static inline bool tell(AttnError *error, const Error *inner) {
    if (error) memcpy(error->message, inner->message, sizeof error->message);
    return false;
}

static inline bool refuse(AttnError *error, const char *what) {
    Error inner;
    error_set(&inner, "%s", what);
    return tell(error, &inner);
}

static inline bool has_tokenizer(const AttnModel *model, AttnError *error) {
    return model->tokenizer || refuse(error, "the model has no vocabulary: open it with a `tokenizer`");
}

static inline AttnActivation activation_of(const Activation *seen) {
    return (AttnActivation){.site = (AttnSite)seen->site,
                            .layer = seen->layer,
                            .head = seen->head,
                            .position = seen->position,
                            .n_rows = seen->n_rows,
                            .n_cols = seen->n_cols,
                            .stride = seen->stride,
                            .data = seen->data};
}

#endif
