#include "views/traces.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SCORES = 1 << 16, /* numbers of all heads, up to which every query's are kept */
    LONG_TEXT = 512,      /* tokens; of longer ones weights that would be less than one step are not kept */
};

#define STEP (1.0f / 255)

/* Numbers in the rows of queries 0 … n − 1. */
static size_t triangle(size_t n) { return n * (n + 1) / 2; }

/* Numbers in the rows whose scores are kept, of one head. */
static size_t scores_of_head(const Traces *traces) {
    return triangle(traces->first + traces->n_queries) - triangle(traces->first);
}

bool traces_begin(Traces *traces, const Study *study, const bool *layers, size_t query, Error *error) {
    const Config *config = model_config(study->model);
    size_t n = study->tokens.n;
    *traces = (Traces){.study = study, .layers = layers, .n = n};
    traces->place = calloc(config->n_layer, sizeof *traces->place);
    if (!traces->place) return error_set(error, "not enough memory");
    for (size_t layer = 0; layer < config->n_layer; layer++)
        if (layers[layer]) traces->place[layer] = traces->n_layers++;
    size_t n_heads = traces->n_layers * config->n_head;
    bool all = triangle(n) <= MAX_SCORES / n_heads;
    traces->first = all ? 0 : query;
    traces->n_queries = all ? n : 1;
    traces->least = n > LONG_TEXT ? STEP : STEP / 2;
    traces->patterns = calloc(n_heads, sizeof *traces->patterns);
    traces->value_norms = calloc(traces->n_layers * config->n_head_kv, n * sizeof *traces->value_norms);
    traces->scores = calloc(n_heads, scores_of_head(traces) * sizeof *traces->scores);
    if (!traces->patterns || !traces->value_norms || !traces->scores)
        return error_set(error, "not enough memory for %zu heads over %zu tokens; choose fewer --layers",
                         n_heads, n);
    traces->output_norms =
        (OutputNorms){.n_layers = config->n_layer, .n_heads = config->n_head, .layers = layers};
    return output_norms_begin(&traces->output_norms, study, n, error);
}

void traces_free(Traces *traces) {
    size_t n_heads = traces->patterns ? traces->n_layers * model_config(traces->study->model)->n_head : 0;
    for (size_t i = 0; i < n_heads; i++) free(traces->patterns[i].bytes);
    free(traces->place);
    free(traces->patterns);
    free(traces->value_norms);
    free(traces->scores);
    output_norms_free(&traces->output_norms);
}

bool traces_want(const Traces *traces, ProbeSite site, size_t layer) {
    return (site == PROBE_V || site == PROBE_SCORES || site == PROBE_PATTERN) && traces->layers[layer];
}

static double *value_norms_of(const Traces *traces, size_t layer, size_t head) {
    size_t n_head_kv = model_config(traces->study->model)->n_head_kv;
    return traces->value_norms + (traces->place[layer] * n_head_kv + head) * traces->n;
}

/* A traced head among all that are. */
static size_t place_of(const Traces *traces, size_t layer, size_t head) {
    return traces->place[layer] * model_config(traces->study->model)->n_head + head;
}

void traces_add(Traces *traces, const ProbeView *view) {
    if (view->site == PROBE_V) {
        double *norms = value_norms_of(traces, view->layer, view->head) + view->position;
        for (size_t t = 0; t < view->n_rows; t++)
            norms[t] = vector_norm(view->data + t * view->stride, view->n_cols);
        output_norms_add(&traces->output_norms, view);
        return;
    }
    size_t place = place_of(traces, view->layer, view->head);
    if (view->site == PROBE_PATTERN) {
        if (!packed_rows_add(&traces->patterns[place], view->data, view->n_cols, traces->least))
            traces->failed = true;
    } else if (view->position >= traces->first && view->position - traces->first < traces->n_queries) {
        size_t before = triangle(view->position) - triangle(traces->first);
        memcpy(traces->scores + place * scores_of_head(traces) + before, view->data,
               view->n_cols * sizeof *view->data);
    }
}

bool traces_finish(Traces *traces, Error *error) {
    size_t n_heads = traces->n_layers * model_config(traces->study->model)->n_head;
    for (size_t i = 0; i < n_heads; i++)
        if (!packed_rows_finish(&traces->patterns[i])) traces->failed = true;
    return !traces->failed ||
           error_set(error, "not enough memory for %zu patterns of %zu tokens", n_heads, traces->n);
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

typedef void HeadJson(const Traces *traces, Report *report, size_t layer, size_t head,
                      unsigned char *scratch);

static void json_pattern(const Traces *traces, Report *report, size_t layer, size_t head,
                         unsigned char *scratch) {
    (void)scratch;
    const PackedRows *packed = &traces->patterns[place_of(traces, layer, head)];
    json_base64(report, NULL, packed->bytes, packed->n);
}

static void json_output_norms(const Traces *traces, Report *report, size_t layer, size_t head,
                              unsigned char *scratch) {
    json_norms(report, output_norms_of(&traces->output_norms, layer, head), traces->n, scratch);
}

static void json_value_norms(const Traces *traces, Report *report, size_t layer, size_t head,
                             unsigned char *scratch) {
    json_norms(report, value_norms_of(traces, layer, head), traces->n, scratch);
}

/* Bytes of float32 as they lie in memory: little-endian on all machines that we run on. */
static void json_scores(const Traces *traces, Report *report, size_t layer, size_t head,
                        unsigned char *scratch) {
    (void)scratch;
    size_t n = scores_of_head(traces);
    json_base64(report, NULL, traces->scores + place_of(traces, layer, head) * n, n * sizeof *traces->scores);
}

/* [[one for each head] for each traced layer] */
static void json_heads(const Traces *traces, Report *report, const char *key, size_t n_head, HeadJson *one,
                       unsigned char *scratch) {
    json_array(report, key);
    for (size_t layer = 0; layer < model_config(traces->study->model)->n_layer; layer++) {
        if (!traces->layers[layer]) continue;
        json_array(report, NULL);
        for (size_t head = 0; head < n_head; head++) one(traces, report, layer, head, scratch);
        json_end_array(report);
    }
    json_end_array(report);
}

bool traces_json(const Traces *traces, Report *report, Error *error) {
    const Config *config = model_config(traces->study->model);
    unsigned char *scratch = malloc(2 * traces->n);
    if (!scratch) return error_set(error, "not enough memory for the norms of %zu values", traces->n);
    json_object(report, "patterns");
    json_rounded(report, "least", (double)traces->least);
    json_array(report, "layers");
    for (size_t layer = 0; layer < config->n_layer; layer++)
        if (traces->layers[layer]) json_int(report, NULL, (int64_t)layer);
    json_end_array(report);
    json_heads(traces, report, "data", config->n_head, json_pattern, scratch);
    json_end_object(report);
    json_heads(traces, report, "output_norms", config->n_head, json_output_norms, scratch);
    json_heads(traces, report, "value_norms", config->n_head_kv, json_value_norms, scratch);
    json_object(report, "steps");
    json_int(report, "first", (int64_t)traces->first);
    json_int(report, "n", (int64_t)traces->n_queries);
    json_heads(traces, report, "scores", config->n_head, json_scores, scratch);
    json_end_object(report);
    free(scratch);
    return true;
}
