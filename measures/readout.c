#include "measures/readout.h"

#include <math.h>

bool readout_begin(Readout *readout, const Subject *subject, const Metric *metric, Arena *arena,
                   Error *error) {
    const Config *config = model_config(subject->model);
    *readout = (Readout){.subject = subject, .metric = *metric};
    readout->n_tokens = metric_tokens(metric, readout->tokens);
    readout->rows = arena_floats(arena, readout->n_tokens, config->d_model);
    readout->normed = arena_floats(arena, 1, config->d_model);
    readout->logits = readout->n_tokens ? NULL : arena_floats(arena, PACKED_TOKENS, config->n_vocab);
    if (!arena_ok(arena, error, "the logits of %zu tokens", config->n_vocab)) return false;
    for (size_t i = 0; i < readout->n_tokens; i++)
        matrix_row(subject->compute.kernels, &model_weights(subject->model)->unembedding.w,
                   (size_t)readout->tokens[i], readout->rows + i * config->d_model);
    return true;
}

/* This token's logit, as session_unembed has it. */
static double logit_of(const Readout *readout, size_t i) {
    const Config *config = model_config(readout->subject->model);
    const float *bias = model_weights(readout->subject->model)->unembedding.bias;
    const float *row = readout->rows + i * config->d_model;
    double sum = bias ? (double)bias[readout->tokens[i]] : 0, cap = (double)config->logit_cap;
    for (size_t j = 0; j < config->d_model; j++) sum += (double)row[j] * (double)readout->normed[j];
    sum *= (double)config->logit_scale;
    return cap != 0 ? cap * tanh(sum / cap) : sum;
}

/* The metric of as many vectors as are unembedded together. */
static void values_of_all(const Readout *readout, const Session *session, const float *resid, size_t n,
                          double *values) {
    session_unembed(session, resid, n, readout->logits);
    for (size_t i = 0; i < n; i++)
        values[i] = metric_value(&readout->metric, readout->logits + i * readout->metric.n_vocab);
}

static double value_of_few(const Readout *readout, const float *resid) {
    const Model *model = readout->subject->model;
    double logits[2] = {0, 0};
    norm_forward(&readout->subject->compute, &model_weights(model)->final_norm, resid, readout->normed, 1,
                 model_config(model)->d_model);
    for (size_t i = 0; i < readout->n_tokens; i++) logits[i] = logit_of(readout, i);
    return metric_of_tokens(&readout->metric, logits);
}

void readout_values(const Readout *readout, const Session *session, const float *resid, size_t n,
                    double *values) {
    size_t d = model_config(readout->subject->model)->d_model, step = readout->n_tokens ? 1 : PACKED_TOKENS;
    for (size_t done = 0, m; done < n; done += m) {
        m = at_most(n - done, step);
        if (readout->n_tokens)
            values[done] = value_of_few(readout, resid + done * d);
        else
            values_of_all(readout, session, resid + done * d, m, values + done);
    }
}

/* Of a metric of sums of floats: two runs of the same may differ by so much of it. */
static const double ROUNDING = 1e-6;

bool readout_check(Readout *readout, const double values[2], Error *error) {
    if (!isfinite(values[0]) || !isfinite(values[1]))
        return error_set(error, "%s: the logits are not finite; the weights hold NaN or infinity",
                         checkpoint_path(model_checkpoint(readout->subject->model)));
    readout->alike = fabs(values[0] - values[1]) <= ROUNDING * (1 + fabs(values[0]));
    return !readout->alike ||
           error_set(
               error,
               "the metric is %.6g after the clean and the corrupted text alike, so there is nothing to "
               "restore: take texts that the model answers differently",
               values[0]);
}
