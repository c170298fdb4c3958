/*
 * The logit lens (nostalgebraist 2020) at every position of a text: what each layer's residual stream would
 * predict if it left the model there, in a few numbers.
 */
#ifndef ATTN_STUDY_LENSROWS_H
#define ATTN_STUDY_LENSROWS_H

#include "views/study.h"

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
    const Study *study;
    size_t n_layer, n_vocab, d_model, n_top;
    size_t n_batch; /* positions whose rows are unembedded together, a divisor of LOGITS_CHUNK */
    int32_t *final; /* [n_tokens] the model's answer after each */
    LensRow *rows;  /* [n_tokens][n_layer + 1] */
    float *resid;   /* [LOGITS_CHUNK][n_layer][d_model] entering each layer, of the chunk under way */
    float *logits;  /* [n_batch][n_layer][n_vocab] */
} LensRows;

/* Room for the study's tokens, to be fed from the first on. lens_rows_free also after a failure. */
bool lens_rows_begin(LensRows *lens, const Study *study, Error *error);
void lens_rows_free(LensRows *lens);

/* Keeps what a visit of PROBE_RESID_PRE shows until the logits of these positions are there. */
void lens_rows_keep(LensRows *lens, const ProbeView *view);

/*
 * Makes the rows of a position, each in its turn, whose logits [n_vocab] have just been computed, and with which the
 * streams of its whole chunk (study_feed) have been kept.
 */
void lens_rows_add(LensRows *lens, const Session *session, size_t position, const float *logits);

/* "lens": {"rows": ["0_pre", …, "final_post"], "positions": [{"final", "rows": [[p, rank, id, p, …], …]}, …]} */
void lens_rows_json(const LensRows *lens, Report *report);

/* Sets used[id] of every token in it. */
void lens_rows_mark(const LensRows *lens, bool *used);

#endif
