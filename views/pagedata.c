#include "views/pagedata.h"

#include "views/view.h"

#include <math.h>

#define PREDICTION(member) offsetof(Prediction, member)

static const Column position_columns[] = {
    {"surprisal_nats", NULL, CELL_REAL, PREDICTION(surprisal)},
    {"rank", NULL, CELL_SIZE, PREDICTION(rank)},
    {"entropy_nats", NULL, CELL_REAL, PREDICTION(entropy)},
};
static const Table position_table = TABLE(NULL, position_columns);

/* Each token as it was foreseen; nothing foresees the first. */
static void json_positions(Report *report, const Predictions *predictions) {
    json_array(report, "positions");
    json_null(report, NULL);
    for (size_t at = 1; at < predictions->subject->tokens.n; at++) {
        json_object(report, NULL);
        table_json_members(report, &position_table, 0, &predictions->items[at - 1]);
        json_end_object(report);
    }
    json_end_array(report);
}

/* What was expected after each token. Logits are written in full: p is e to the power of their difference to log_sum. */
static void json_next(Report *report, const Predictions *predictions) {
    size_t n_top = predictions->n_top;
    json_array(report, "next");
    for (size_t at = 0; at < predictions->subject->tokens.n; at++) {
        const Prediction *item = &predictions->items[at];
        json_object(report, NULL);
        json_rounded(report, "entropy_nats", item->entropy);
        json_real(report, "log_sum", item->log_sum);
        json_array(report, "top"); /* id, logit, … */
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

void json_predictions(Report *report, const Predictions *predictions, bool totals) {
    json_positions(report, predictions);
    if (totals) json_totals(report, &predictions->totals, true);
    json_next(report, predictions);
}

/* [p, rank, id, p, …]: of the final answer, then the likeliest. */
static void json_lens_row(Report *report, const LensRow *row, size_t n_top) {
    json_array(report, NULL);
    json_rounded(report, NULL, (double)row->final_p);
    json_int(report, NULL, row->final_rank);
    for (size_t k = 0; k < n_top; k++) {
        json_int(report, NULL, row->top[k]);
        json_rounded(report, NULL, (double)row->top_p[k]);
    }
    json_end_array(report);
}

void json_lens(Report *report, const LensRows *lens) {
    char name[32];
    json_object(report, "lens");
    json_array(report, "rows");
    for (size_t i = 0; i < lens->n_rows; i++) json_text(report, NULL, lens_row_name(lens, i, name), SIZE_MAX);
    json_end_array(report);
    json_array(report, "positions");
    for (size_t at = 0; at < lens->subject->tokens.n; at++) {
        json_object(report, NULL);
        json_int(report, "final", lens->final[at]);
        json_array(report, "rows");
        for (size_t i = 0; i < lens->n_rows; i++)
            json_lens_row(report, &lens->rows[at * lens->n_rows + i], lens->n_top);
        json_end_array(report);
        json_end_object(report);
    }
    json_end_array(report);
    json_end_object(report);
}

/* [scale, base64 of norms/scale in 16 bits each, little-endian] */
static void json_norms(Report *report, const double *norms, size_t n, unsigned char *levels) {
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, norms[i]);
    for (size_t i = 0; i < n; i++) {
        long level = largest > 0 ? lrint(norms[i] / largest * UINT16_MAX) : 0;
        levels[2 * i] = (unsigned char)(level & 255);
        levels[2 * i + 1] = (unsigned char)(level >> 8);
    }
    json_array(report, NULL);
    json_real(report, NULL, largest / UINT16_MAX);
    json_base64(report, NULL, levels, 2 * n);
    json_end_array(report);
}

typedef enum Trace { TRACE_PATTERN, TRACE_OUTPUT_NORMS, TRACE_VALUE_NORMS, TRACE_SCORES } Trace;

/* What is kept of a head, value norms of a kv head. Scores are written as they lie in memory: little-endian, wherever we run. */
static void json_trace(Report *report, const Traces *traces, Trace trace, size_t layer, size_t head,
                       unsigned char *levels) {
    const PackedRows *packed = traces_pattern(traces, layer, head);
    size_t n_scores;
    const float *scores = traces_scores(traces, layer, head, &n_scores);
    switch (trace) {
    case TRACE_PATTERN: json_base64(report, NULL, packed->bytes, packed->n); break;
    case TRACE_OUTPUT_NORMS:
        json_norms(report, output_norms_of(&traces->output_norms, layer, head), traces->n, levels);
        break;
    case TRACE_VALUE_NORMS:
        json_norms(report, traces_value_norms(traces, layer, head), traces->n, levels);
        break;
    case TRACE_SCORES: json_base64(report, NULL, scores, n_scores * sizeof *scores); break;
    }
}

/* [[one for each head] for each traced layer] */
static void json_by_head(Report *report, const char *key, const Traces *traces, Trace trace,
                         unsigned char *levels) {
    const Config *config = model_config(traces->subject->model);
    size_t n_head = trace == TRACE_VALUE_NORMS ? config->n_head_kv : config->n_head;
    json_array(report, key);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (!traces->layers[layer]) continue;
        json_array(report, NULL);
        for (size_t head = 0; head < n_head; head++) json_trace(report, traces, trace, layer, head, levels);
        json_end_array(report);
    }
    json_end_array(report);
}

void json_traces(Report *report, const Traces *traces, unsigned char *levels) {
    json_object(report, "patterns");
    json_rounded(report, "least", (double)traces->least);
    json_array(report, "layers");
    for (size_t layer = 0; layer < model_config(traces->subject->model)->n_layer; layer++)
        if (traces->layers[layer]) json_int(report, NULL, (int64_t)layer);
    json_end_array(report);
    json_by_head(report, "data", traces, TRACE_PATTERN, levels);
    json_end_object(report);
    json_by_head(report, "output_norms", traces, TRACE_OUTPUT_NORMS, levels);
    json_by_head(report, "value_norms", traces, TRACE_VALUE_NORMS, levels);
    json_object(report, "steps");
    json_int(report, "first", (int64_t)traces->first);
    json_int(report, "n", (int64_t)traces->n_queries);
    json_int(report, "max_keys", MAX_KEYS);
    json_int(report, "max_masked", MAX_MASKED);
    json_by_head(report, "scores", traces, TRACE_SCORES, levels);
    json_end_object(report);
}
