#include "views/predictions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool predictions_begin(Predictions *predictions, const Study *study, size_t n_top, Error *error) {
    size_t n = study->tokens.n, n_vocab = model_config(study->model)->n_vocab;
    *predictions = (Predictions){
        .study = study,
        .n_vocab = n_vocab,
        .n_top = n_top,
        .items = calloc(n, sizeof *predictions->items),
        .top = calloc(n, (n_top + 1) * sizeof *predictions->top),
        .top_logits = calloc(n, (n_top + 1) * sizeof *predictions->top_logits),
        .others = calloc(n_vocab, sizeof *predictions->others),
    };
    return (predictions->items && predictions->top && predictions->top_logits && predictions->others) ||
           error_set(error, "not enough memory for the predictions after %zu tokens", n);
}

void predictions_free(Predictions *predictions) {
    free(predictions->items);
    free(predictions->top);
    free(predictions->top_logits);
    free(predictions->others);
}

typedef struct RestLoop {
    const Predictions *predictions;
    float max;
    double *rest; /* [N_TEMPERATURES] */
} RestLoop;

static void sum_rest(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const RestLoop *loop = context;
    const Predictions *predictions = loop->predictions;
    for (size_t j = begin; j < end; j++)
        loop->rest[j] = log(sum_of_exp(predictions->study, predictions->others, predictions->n_vocab,
                                       loop->max, TEMPERATURE_STEP * (float)(j + 1)));
}

/* Logits at a position are the prediction of the token after it. */
void predictions_add(void *user, size_t position, const float *logits) {
    Predictions *predictions = user;
    const Study *study = predictions->study;
    size_t n_vocab = predictions->n_vocab, n_top = predictions->n_top;
    Prediction *item = &predictions->items[position];
    int32_t *top = predictions->top + position * n_top;
    Distribution distribution = distribution_of(logits, n_vocab);
    item->log_sum = distribution.log_sum;
    item->entropy = distribution.entropy;

    logits_top(logits, n_vocab, n_top, top);
    memcpy(predictions->others, logits, n_vocab * sizeof *logits);
    for (size_t i = 0; i < n_top; i++) {
        predictions->top_logits[position * n_top + i] = logits[top[i]];
        predictions->others[top[i]] = -INFINITY;
    }
    RestLoop loop = {predictions, (float)distribution.max, item->rest};
    parallel_for(study->threads, N_TEMPERATURES, 1, sum_rest, &loop);

    if (position + 1 == study->tokens.n) return;
    int32_t id = study->tokens.ids[position + 1];
    item->surprisal = distribution.log_sum - (double)logits[id];
    item->rank = logits_rank(logits, n_vocab, id);
    predictions->surprisal += item->surprisal;
    predictions->n_bytes += tokenizer_piece(study->tokenizer, id, false).n;
    predictions->n_surprised++;
}

void predictions_json_positions(const Predictions *predictions, Report *report) {
    json_array(report, "positions");
    json_null(report, NULL);
    for (size_t at = 1; at < predictions->study->tokens.n; at++) {
        const Prediction *before = &predictions->items[at - 1];
        json_object(report, NULL);
        json_real(report, "surprisal_nats", before->surprisal);
        json_int(report, "rank", (int64_t)before->rank);
        json_real(report, "entropy_nats", before->entropy);
        json_end_object(report);
    }
    json_end_array(report);
}

void predictions_json_totals(const Predictions *predictions, Report *report) {
    double sum = predictions->surprisal, n = (double)predictions->n_surprised;
    json_object(report, "totals");
    json_int(report, "n", (int64_t)predictions->n_surprised);
    json_real(report, "nll_nats", sum / n); /* of no tokens: NaN, so null */
    json_real(report, "perplexity", exp(sum / n));
    json_real(report, "bits_per_byte", sum * BITS_PER_NAT / (double)predictions->n_bytes);
    json_end_object(report);
}

void predictions_json_next(const Predictions *predictions, Report *report) {
    size_t n_top = predictions->n_top;
    json_array(report, "next");
    for (size_t at = 0; at < predictions->study->tokens.n; at++) {
        const Prediction *item = &predictions->items[at];
        json_object(report, NULL);
        json_rounded(report, "entropy_nats", item->entropy);
        json_real(report, "log_sum",
                  item->log_sum); /* and logits: in full, since p is a power of their difference */
        json_array(report, "top");
        for (size_t i = at * n_top; i < (at + 1) * n_top; i++) {
            json_int(report, NULL, predictions->top[i]);
            json_real(report, NULL, (double)predictions->top_logits[i]);
        }
        json_end_array(report);
        json_array(report, "rest");
        for (size_t j = 0; j < N_TEMPERATURES; j++) json_rounded(report, NULL, item->rest[j]);
        json_end_array(report);
        json_end_object(report);
    }
    json_end_array(report);
}

void predictions_mark(const Predictions *predictions, bool *used) {
    size_t n = predictions->study->tokens.n * predictions->n_top;
    for (size_t i = 0; i < n; i++) used[predictions->top[i]] = true;
}
