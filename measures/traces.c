#include "measures/traces.h"

#include "measures/distribution.h"

#include <math.h>
#include <string.h>

enum {
    MAX_SCORES = 1 << 16, /* numbers of all heads, up to which every query's are kept */
    LONG_TEXT = 512,      /* tokens; of longer ones weights that would be less than one step are not kept */
};

#define STEP (1.0f / 255)

/* Numbers in the rows of queries 0 … n − 1. */
static size_t triangle(size_t n) { return n * (n + 1) / 2; }

/* Room for the patterns of the queries from `from` on. */
static bool begin_patterns(Traces *traces, const Subject *subject, Arena *arena, const bool *layers,
                           size_t from, Error *error) {
    const Config *config = model_config(subject->model);
    size_t n = subject->tokens.n;
    *traces = (Traces){.subject = subject, .arena = arena, .layers = layers, .n = n, .from = from};
    traces->place = arena_new(arena, config->n_layer, sizeof *traces->place);
    if (!arena_ok(arena, error, "%zu layers", config->n_layer)) return false;
    for (size_t layer = 0; layer < config->n_layer; layer++)
        if (layers[layer]) traces->place[layer] = traces->n_layers++;
    size_t n_heads = traces->n_layers * config->n_head;
    traces->least = n > LONG_TEXT ? STEP : STEP / 2;
    traces->patterns = arena_new(arena, n_heads, sizeof *traces->patterns);
    if (!arena_ok(arena, error, "%zu heads over %zu tokens; choose fewer layers", n_heads, n)) return false;
    for (size_t i = 0; i < n_heads; i++) traces->patterns[i].arena = arena;
    return true;
}

bool traces_begin(Traces *traces, const Subject *subject, Arena *arena, const bool *layers, size_t from,
                  size_t to, size_t query, Error *error) {
    const Config *config = model_config(subject->model);
    if (!begin_patterns(traces, subject, arena, layers, from, error)) return false;
    size_t n = traces->n, n_heads = traces->n_layers * config->n_head;
    bool all = (triangle(to) - triangle(from)) * n_heads <= MAX_SCORES;
    traces->first = all ? from : query;
    traces->n_queries = all ? to - from : 1;
    traces->n_scores = triangle(traces->first + traces->n_queries) - triangle(traces->first);
    traces->value_norms =
        arena_new(arena, traces->n_layers * config->n_head_kv, n * sizeof *traces->value_norms);
    traces->scores = arena_new(arena, n_heads, traces->n_scores * sizeof *traces->scores);
    if (!arena_ok(arena, error, "%zu heads over %zu tokens; choose fewer layers", n_heads, n)) return false;
    traces->output_norms =
        (OutputNorms){.n_layers = config->n_layer, .n_heads = config->n_head, .layers = layers};
    return output_norms_begin(&traces->output_norms, subject, arena, n, error);
}

bool traces_want(const Traces *traces, ProbeSite site, size_t layer) {
    return (site == PROBE_V || site == PROBE_SCORES || site == PROBE_PATTERN) && traces->layers[layer];
}

/* Appends half a byte; without memory nothing, which the arena remembers. */
static void push(PackedRows *packed, size_t nibble) {
    if (packed->half) {
        packed->bytes[packed->n - 1] |= (unsigned char)(nibble << 4);
        packed->half = false;
        return;
    }
    if (packed->n == packed->capacity) {
        size_t capacity = 2 * packed->capacity + 256;
        unsigned char *bytes = arena_new(packed->arena, capacity, 1);
        if (!bytes) return;
        if (packed->n > 0) memcpy(bytes, packed->bytes, packed->n);
        packed->bytes = bytes;
        packed->capacity = capacity;
    }
    packed->bytes[packed->n++] = (unsigned char)nibble;
    packed->half = true;
}

void packed_rows_finish(PackedRows *packed) {
    size_t left = packed->zeros;
    if (left == 0) return;
    packed->zeros = 0;
    push(packed, 0);
    for (; left > 7; left >>= 3) push(packed, (left & 7) | 8);
    push(packed, left);
}

void packed_rows_add(PackedRows *packed, const float *row, size_t n, float least) {
    for (size_t i = 0; i < n; i++) {
        long rounded = lrintf(row[i] * 255);
        if (rounded <= 0 || row[i] < least) {
            packed->zeros++;
            continue;
        }
        size_t level = rounded < 255 ? (size_t)rounded : 255;
        packed_rows_finish(packed);
        push(packed, level < 15 ? level : 15);
        if (level < 15) continue;
        push(packed, level & 15);
        push(packed, level >> 4);
    }
}

double *traces_value_norms(const Traces *traces, size_t layer, size_t head) {
    size_t n_head_kv = model_config(traces->subject->model)->n_head_kv;
    return traces->value_norms + (traces->place[layer] * n_head_kv + head) * traces->n;
}

size_t traces_place(const Traces *traces, size_t layer, size_t head) {
    return traces->place[layer] * model_config(traces->subject->model)->n_head + head;
}

void traces_add(Traces *traces, const Activation *seen) {
    if (seen->site == PROBE_V) {
        double *norms = traces_value_norms(traces, seen->layer, seen->head) + seen->position;
        for (size_t t = 0; t < seen->n_rows; t++)
            norms[t] = vector_norm(seen->data + t * seen->stride, seen->n_cols);
        output_norms_add(&traces->output_norms, seen);
        return;
    }
    size_t place = traces_place(traces, seen->layer, seen->head);
    if (seen->position < traces->from) return;
    if (seen->site == PROBE_PATTERN) {
        packed_rows_add(&traces->patterns[place], seen->data, seen->n_cols, traces->least);
    } else if (seen->position >= traces->first && seen->position - traces->first < traces->n_queries) {
        size_t before = triangle(seen->position) - triangle(traces->first);
        memcpy(traces->scores + place * traces->n_scores + before, seen->data,
               seen->n_cols * sizeof *seen->data);
    }
}

bool traces_finish(Traces *traces, Error *error) {
    size_t n_heads = traces->n_layers * model_config(traces->subject->model)->n_head;
    for (size_t i = 0; i < n_heads; i++) packed_rows_finish(&traces->patterns[i]);
    return arena_ok(traces->arena, error, "%zu patterns of %zu tokens", n_heads, traces->n);
}
