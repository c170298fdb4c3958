#include "views/lensrows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many rows of logits are made at a time that unpacking the weights for them costs little. */
enum { ENOUGH_ROWS = 48 };

bool lens_rows_begin(LensRows *lens, const Study *study, Error *error) {
    const Config *config = model_config(study->model);
    size_t n = study->tokens.n, n_batch = 1;
    while (n_batch < LOGITS_CHUNK && 2 * n_batch * config->n_layer <= ENOUGH_ROWS) n_batch *= 2;
    *lens = (LensRows){
        .study = study,
        .n_layer = config->n_layer,
        .n_vocab = config->n_vocab,
        .d_model = config->d_model,
        .n_batch = n_batch,
        .n_top = at_most(LENS_TOP, config->n_vocab),
        .final = calloc(n, sizeof *lens->final),
        .rows = calloc(n, (config->n_layer + 1) * sizeof *lens->rows),
        .resid = floats_new(LOGITS_CHUNK * config->n_layer, config->d_model),
        .logits = floats_new(n_batch * config->n_layer, config->n_vocab),
    };
    return (lens->final && lens->rows && lens->resid && lens->logits) ||
           error_set(error, "not enough memory for %zu rows of %zu logits", n_batch * config->n_layer,
                     config->n_vocab);
}

void lens_rows_free(LensRows *lens) {
    free(lens->final);
    free(lens->rows);
    free(lens->resid);
    free(lens->logits);
}

/* [n_layer][d_model]; study_feed's chunks begin at multiples of their length. */
static float *resid_at(const LensRows *lens, size_t position) {
    return lens->resid + position % LOGITS_CHUNK * lens->n_layer * lens->d_model;
}

void lens_rows_keep(LensRows *lens, const ProbeView *view) {
    for (size_t i = 0; i < view->n_rows; i++)
        memcpy(resid_at(lens, view->position + i) + view->layer * lens->d_model,
               view->data + i * view->stride, view->n_cols * sizeof *view->data);
}

/* The rows of one position. */
typedef struct RowLoop {
    const LensRows *lens;
    const float *inner; /* [n_layer][n_vocab] logits of the rows before the last */
    const float *last;  /* [n_vocab] the model's own */
    LensRow *rows;      /* [n_layer + 1] */
    int32_t final;
} RowLoop;

static void read_row(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const RowLoop *loop = context;
    const LensRows *lens = loop->lens;
    for (size_t i = begin; i < end; i++) {
        LensRow *row = &loop->rows[i];
        const float *logits = i < lens->n_layer ? loop->inner + i * lens->n_vocab : loop->last;
        float max = lens->study->compute.kernels->max(logits, lens->n_vocab);
        double log_sum = (double)max + log(sum_of_exp(lens->study, logits, lens->n_vocab, max, 1));
        row->final_p = (float)exp((double)logits[loop->final] - log_sum);
        row->final_rank = (int32_t)logits_rank(logits, lens->n_vocab, loop->final);
        logits_top(logits, lens->n_vocab, lens->n_top, row->top);
        for (size_t k = 0; k < lens->n_top; k++)
            row->top_p[k] = (float)exp((double)logits[row->top[k]] - log_sum);
    }
}

void lens_rows_add(LensRows *lens, const Session *session, size_t position, const float *logits) {
    size_t at = position % lens->n_batch, left = lens->study->tokens.n - position;
    if (at == 0)
        session_unembed(session, resid_at(lens, position), at_most(lens->n_batch, left) * lens->n_layer,
                        lens->logits);
    logits_top(logits, lens->n_vocab, 1, &lens->final[position]);
    RowLoop loop = {lens, lens->logits + at * lens->n_layer * lens->n_vocab, logits,
                    lens->rows + position * (lens->n_layer + 1), lens->final[position]};
    parallel_for(lens->study->threads, lens->n_layer + 1, 1, read_row, &loop);
}

void lens_rows_json(const LensRows *lens, Report *report) {
    json_object(report, "lens");
    json_array(report, "rows");
    for (size_t i = 0; i < lens->n_layer; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu_pre", i);
        json_text(report, NULL, name, SIZE_MAX);
    }
    json_text(report, NULL, "final_post", SIZE_MAX);
    json_end_array(report);
    json_array(report, "positions");
    for (size_t at = 0; at < lens->study->tokens.n; at++) {
        json_object(report, NULL);
        json_int(report, "final", lens->final[at]);
        json_array(report, "rows");
        for (size_t i = 0; i <= lens->n_layer; i++) {
            const LensRow *row = &lens->rows[at * (lens->n_layer + 1) + i];
            json_array(report, NULL);
            json_rounded(report, NULL, (double)row->final_p);
            json_int(report, NULL, row->final_rank);
            for (size_t k = 0; k < lens->n_top; k++) {
                json_int(report, NULL, row->top[k]);
                json_rounded(report, NULL, (double)row->top_p[k]);
            }
            json_end_array(report);
        }
        json_end_array(report);
        json_end_object(report);
    }
    json_end_array(report);
    json_end_object(report);
}

void lens_rows_mark(const LensRows *lens, bool *used) {
    size_t n = lens->study->tokens.n;
    for (size_t at = 0; at < n; at++) used[lens->final[at]] = true;
    for (size_t i = 0; i < n * (lens->n_layer + 1); i++)
        for (size_t k = 0; k < lens->n_top; k++) used[lens->rows[i].top[k]] = true;
}
