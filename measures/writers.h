/*
 * Everything that has written into the residual stream at one position, as vectors that add up to it: the embedding, what
 * is added by position, each head, each MLP, and the biases. What stands behind a branch (a norm, with the scale that it has
 * in this run; the residual scale) is in them. A probe takes them in.
 */
#ifndef ATTN_WRITERS_H
#define ATTN_WRITERS_H

#include "measures/subject.h"

typedef enum WriterKind {
    WRITER_EMBED,
    WRITER_POSITION,  /* a learned position */
    WRITER_HEAD,      /* z W_O^h, with the values' bias */
    WRITER_ATTENTION, /* a state in attention's place, as one */
    WRITER_MLP,       /* or the experts, as one; with its bias */
    WRITER_BIAS,      /* of the output projections, and of norms behind them */
    WRITER_CLAMP      /* of no stream: what cutting took from a query or key (scoreparts.h) */
} WriterKind;

typedef struct Writer {
    WriterKind kind;
    size_t layer, head; /* SIZE_MAX: none */
} Writer;

typedef struct Writers {
    const Subject *subject;
    size_t n_layer; /* those below it write */
    Writer *list;   /* [n] in the order in which they write, but for the biases, which are the last */
    size_t n;
    size_t *first;  /* [n_layer + 1] of each layer, and the biases */
    float *vectors; /* [n][d_model] */
    double *scales; /* [n_layer] what the norm behind attention divides by; 1 where there is none */
} Writers;

/* Room for those of the layers below n_layer. */
bool writers_begin(Writers *writers, const Subject *subject, size_t n_layer, Arena *arena, Error *error);

/* For the functions of a probe that sees one position. */
bool writers_want(const Writers *writers, ProbeSite site, size_t layer);
void writers_add(Writers *writers, const Activation *seen);

/* To be called once the position has been fed: the vectors become what is added. `arena` may be freed then. */
bool writers_finish(Writers *writers, Arena *arena, Error *error);

/* "embed", "pos_embed", "L3H7", "L3attn", "L3MLP", "bias", "clamp"; 32 bytes are enough. Returns buffer. */
const char *writer_name(char *buffer, const Writer *writer);

#endif
