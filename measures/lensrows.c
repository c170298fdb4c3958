#include "measures/lensrows.h"

#include "measures/distribution.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* So many rows of logits are made at a time that unpacking the weights for them costs little. */
enum { ENOUGH_ROWS = 48 };

static LensRows lens_of(const Subject *subject, size_t per_layer) {
    const Config *config = model_config(subject->model);
    return (LensRows){.subject = subject,
                      .n_layer = config->n_layer,
                      .n_vocab = config->n_vocab,
                      .d_model = config->d_model,
                      .per_layer = per_layer,
                      .n_rows = config->n_layer * per_layer + 1};
}

static bool builder_room(LensRows *lens, Arena *arena, Error *error) {
    lens->resid = arena_floats(arena, lens->n_kept * lens->n_streams, lens->d_model);
    lens->logits = arena_floats(arena, lens->n_batch * lens->n_streams, lens->n_vocab);
    return arena_ok(arena, error, "%zu rows of %zu logits", lens->n_batch * lens->n_streams, lens->n_vocab);
}

bool lens_rows_begin(LensRows *lens, const Subject *subject, Arena *arena, size_t first, size_t end,
                     Error *error) {
    size_t n = subject->tokens.n;
    *lens = lens_of(subject, 1);
    lens->first = first;
    lens->end = end;
    lens->n_streams = lens->n_rows - 1;
    lens->n_kept = LOGITS_CHUNK; /* as much as subject_feed feeds at a time */
    lens->n_batch = 1;
    while (2 * lens->n_batch * lens->n_layer <= ENOUGH_ROWS) lens->n_batch *= 2;
    lens->n_top = at_most(LENS_TOP, lens->n_vocab);
    lens->final = arena_new(arena, n, sizeof *lens->final);
    lens->rows = arena_new(arena, n, lens->n_rows * sizeof *lens->rows);
    return builder_room(lens, arena, error);
}

bool lens_rows_begin_at(LensRows *lens, const Subject *subject, Arena *arena, size_t position, bool mid,
                        Error *error) {
    *lens = lens_of(subject, mid && !model_config(subject->model)->parallel_residual ? 2 : 1);
    lens->n_streams = lens->n_rows;
    lens->first = position;
    lens->end = position + 1;
    lens->n_kept = lens->n_batch = 1;
    return builder_room(lens, arena, error);
}

/* [n_streams][d_model] */
static float *resid_at(const LensRows *lens, size_t position) {
    return lens->resid + (position - lens->first) % lens->n_kept * lens->n_streams * lens->d_model;
}

bool lens_rows_want(void *user, ProbeSite site, size_t layer, size_t head) {
    const LensRows *lens = user;
    (void)head;
    return site == PROBE_RESID_PRE || (site == PROBE_RESID_MID && lens->per_layer == 2) ||
           (site == PROBE_RESID_POST && layer + 1 == lens->n_layer && lens->n_streams == lens->n_rows);
}

void lens_rows_keep(void *user, const Activation *seen) {
    const LensRows *lens = user;
    size_t row = seen->layer * lens->per_layer + (seen->site == PROBE_RESID_MID);
    if (seen->site == PROBE_RESID_POST) row = lens->n_rows - 1;
    for (size_t i = 0; i < seen->n_rows; i++)
        memcpy(resid_at(lens, seen->position + i) + row * lens->d_model, seen->data + i * seen->stride,
               seen->n_cols * sizeof *seen->data);
}

/* The rows of one position. */
typedef struct LensRowLoop {
    const LensRows *lens;
    const float *inner; /* [n_streams][n_vocab] logits of the rows before the last */
    const float *last;  /* [n_vocab] the model's own */
    LensRow *rows;      /* [n_rows] */
    int32_t final;
} LensRowLoop;

static void read_row(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LensRowLoop *loop = context;
    const LensRows *lens = loop->lens;
    const Kernels *kernels = lens->subject->compute.kernels;
    for (size_t i = begin; i < end; i++) {
        LensRow *row = &loop->rows[i];
        const float *logits = i < lens->n_streams ? loop->inner + i * lens->n_vocab : loop->last;
        float max = kernels->max(logits, lens->n_vocab);
        double log_sum = (double)max + log(sum_of_exp(kernels, logits, lens->n_vocab, max, 1));
        row->final_p = (float)probability_of(logits, loop->final, log_sum);
        row->final_rank = (int32_t)logits_rank(logits, lens->n_vocab, loop->final);
        logits_top(logits, lens->n_vocab, lens->n_top, row->top);
        for (size_t k = 0; k < lens->n_top; k++)
            row->top_p[k] = (float)probability_of(logits, row->top[k], log_sum);
    }
}

void lens_rows_add(LensRows *lens, const Session *session, size_t position, const float *logits) {
    size_t at = (position - lens->first) % lens->n_batch, left = lens->end - position;
    if (at == 0)
        session_unembed(session, resid_at(lens, position), at_most(lens->n_batch, left) * lens->n_streams,
                        lens->logits);
    logits_top(logits, lens->n_vocab, 1, &lens->final[position]);
    LensRowLoop loop = {lens, lens->logits + at * lens->n_streams * lens->n_vocab, logits,
                        lens->rows + position * lens->n_rows, lens->final[position]};
    parallel_for(lens->subject->compute.threads, lens->n_rows, 1, read_row, &loop);
}

/* The final norm of all rows with the scale of the last, in place. */
static void norm_frozen(const LensRows *lens) {
    const Norm *norm = &model_weights(lens->subject->model)->final_norm;
    double scale = norm_scale(norm, lens->resid + (lens->n_rows - 1) * lens->d_model);
    for (size_t row = 0; row < lens->n_rows; row++) {
        float *x = lens->resid + row * lens->d_model;
        double mean = norm_mean(norm, x);
        for (size_t i = 0; i < lens->d_model; i++)
            x[i] = (float)(((double)x[i] - mean) / scale * (double)norm->gain[i] +
                           (norm->bias ? (double)norm->bias[i] : 0));
    }
}

bool lens_rows_unembed(LensRows *lens, const Session *session, Arena *arena, bool frozen, Error *error) {
    const Config *config = model_config(lens->subject->model);
    size_t n = lens->n_rows, d_model = lens->d_model;
    if (!frozen) {
        session_unembed(session, lens->resid, n, lens->logits);
        return true;
    }
    Compute compute = subject_compute(lens->subject, arena, n, d_model);
    if (!arena_ok(arena, error, "%zu rows", n)) return false;
    n--;
    session_unembed(session, lens->resid + n * d_model, 1, lens->logits + n * lens->n_vocab);
    norm_frozen(lens);
    LinearOutput output = {lens->logits, &model_weights(lens->subject->model)->unembedding};
    linear_forward(&compute, &output, 1, lens->resid, n);
    if (config->logit_scale != 1)
        compute.kernels->scale(lens->logits, config->logit_scale, n * config->n_vocab);
    if (config->logit_cap != 0)
        compute.kernels->soft_cap(lens->logits, config->logit_cap, n * config->n_vocab);
    return true;
}

const char *lens_row_name(const LensRows *lens, size_t row, char *buffer) {
    if (row + 1 == lens->n_rows) return strcpy(buffer, "final_post");
    snprintf(buffer, 32, "%zu_%s", row / lens->per_layer, row % lens->per_layer ? "mid" : "pre");
    return buffer;
}
