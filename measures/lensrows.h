/*
 * The logit lens (nostalgebraist 2020): what each layer's residual stream would predict if it left the model there. At
 * every position of a text in a few numbers, or at one position with all its logits.
 */
#ifndef ATTN_LENSROWS_H
#define ATTN_LENSROWS_H

#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LENS_TOP = 5 };

/* One row: what the stream entering a layer, or leaving the last one, would predict. */
typedef struct LensRow {
    float final_p; /* of the model's answer at this position */
    int32_t final_rank, top[LENS_TOP];
    float top_p[LENS_TOP];
} LensRow;

typedef struct LensRows {
    const Subject *subject;
    size_t n_layer, n_vocab, d_model;
    size_t per_layer; /* rows of a layer: 1, or 2 with the stream between its attention and its MLP */
    size_t n_rows;    /* of a position: n_layer·per_layer, and the stream that leaves the last layer */
    size_t
        n_streams; /* of a position that are kept: n_rows, or one less where the last row's logits are given */
    size_t first, end; /* positions whose streams are kept, … */
    size_t n_kept;     /* … so many at a time: position p's lie at (p − first) mod n_kept */
    size_t n_batch;    /* positions whose rows are unembedded together, a divisor of n_kept */
    float *resid;      /* [n_kept][n_streams][d_model] */
    float *logits;     /* [n_batch][n_streams][n_vocab] */

    /* At every position: */
    size_t n_top;
    int32_t *final; /* [n_tokens] the model's answer after each */
    LensRow *rows;  /* [n_tokens][n_rows] */
} LensRows;

/* Room for the rows of the positions [first, end), which are fed from the first on. */
bool lens_rows_begin(LensRows *lens, const Subject *subject, Arena *arena, size_t first, size_t end,
                     Error *error);

/* Room for the logits of one position's rows; `mid`: also between attention and MLP (a parallel layer has none). */
bool lens_rows_begin_at(LensRows *lens, const Subject *subject, Arena *arena, size_t position, bool mid,
                        Error *error);

/* For a probe: keeps the streams that it sees until they are unembedded. */
bool lens_rows_want(void *lens, ProbeSite site, size_t layer, size_t head);
void lens_rows_keep(void *lens, const Activation *seen);

/*
 * Makes the rows of a position; positions come in order. Its logits [n_vocab] have just been computed, and
 * lens_rows_keep has seen the streams of its whole chunk (subject_feed).
 */
void lens_rows_add(LensRows *lens, const Session *session, size_t position, const float *logits);

/*
 * Makes the logits of the one position, which has been fed last. `frozen`: every row but the last, which stays the
 * model's own to the bit, is divided by the scale of the last one's norm, as TransformerLens did before 2026.
 */
bool lens_rows_unembed(LensRows *lens, const Session *session, Arena *arena, bool frozen, Error *error);

/* "0_pre", "0_mid", "final_post", as TransformerLens's accumulated_resid labels them; 32 bytes are enough. */
const char *lens_row_name(const LensRows *lens, size_t row, char *buffer);

#endif
