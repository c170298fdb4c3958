#include "measures/patterns.h"

#include <math.h>
#include <string.h>

static bool is_watched(const Patterns *patterns, size_t layer, size_t head) {
    return layer >= patterns->layer && layer - patterns->layer < patterns->n_layers &&
           head >= patterns->head && head - patterns->head < patterns->n_heads;
}

/* Values of all positions are needed, rows only of those that are kept. */
static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Patterns *patterns = user;
    if (site == PROBE_PATTERN) return patterns->collecting && is_watched(patterns, layer, head);
    return site == PROBE_V && patterns->by_value && is_watched(patterns, layer, patterns->head);
}

static void visit_row(Patterns *patterns, const Activation *seen) {
    size_t layer = 0, n_heads = patterns->n_watched * patterns->n_heads;
    while (patterns->watched[layer] != seen->layer) layer++;
    size_t place = layer * patterns->n_heads + seen->head - patterns->head;
    double *row = patterns_row(patterns, patterns->reduce ? 0 : place, seen->position);
    const double *norms =
        patterns->by_value ? output_norms_of(&patterns->values, seen->layer, seen->head) : NULL;
    double sum = 0;
    for (size_t key = 0; key <= seen->position; key++) {
        sum += (double)seen->data[key];
        double weight = (double)seen->data[key] * (norms ? norms[key] : 1);
        switch (patterns->reduce) {
        case REDUCE_NONE: row[key] = weight; break;
        case REDUCE_MEAN: row[key] += weight / (double)n_heads; break;
        case REDUCE_MAX: row[key] = fmax(row[key], weight); break;
        }
    }
    if (!patterns->learned) return;
    ScoreRule rule = score_rule(patterns->subject->model, seen->layer, seen->head);
    patterns->learned[(patterns->reduce ? 0 : place) * patterns->n_rows + seen->position - patterns->first] +=
        rule_learned_share(&rule, sum) / (double)(patterns->reduce ? n_heads : 1);
}

static void visit(void *user, const Activation *seen) {
    Patterns *patterns = user;
    if (seen->site == PROBE_V)
        output_norms_add(&patterns->values, seen);
    else
        visit_row(patterns, seen);
}

/* Numbers in the first n rows when the first of them is that of query `first`. */
static size_t rows_size(size_t first, size_t n) { return n * (first + 1) + n * (n - (n > 0)) / 2; }

bool patterns_begin(Patterns *patterns, const Subject *subject, Arena *arena, size_t n_rows,
                    size_t n_positions, Error *error) {
    patterns->subject = subject;
    patterns->probe = (Probe){patterns, wants, visit};
    patterns->watched = arena_new(arena, patterns->n_layers, sizeof *patterns->watched);
    if (!arena_ok(arena, error, "%zu layers", patterns->n_layers)) return false;
    for (size_t layer = patterns->layer; layer < patterns->layer + patterns->n_layers; layer++)
        if (layer_has_heads(subject->model, layer)) patterns->watched[patterns->n_watched++] = layer;
    patterns->n_maps = patterns->reduce ? 1 : patterns->n_watched * patterns->n_heads;
    patterns->n_rows = n_rows;
    patterns->map_size = rows_size(n_positions - n_rows, n_rows);
    patterns->rows = arena_new(arena, patterns->n_maps, patterns->map_size * sizeof *patterns->rows);
    patterns->dropped = arena_new(arena, patterns->n_maps, n_rows * sizeof *patterns->dropped);
    if (has_learned_sinks(subject->model) && !patterns->by_value && patterns->reduce != REDUCE_MAX)
        patterns->learned = arena_new(arena, patterns->n_maps, n_rows * sizeof *patterns->learned);
    if (!arena_ok(arena, error, "%zu patterns of %zu rows; choose fewer layers, heads or queries",
                  patterns->n_maps, n_rows))
        return false;
    patterns->values = (OutputNorms){.layer = patterns->layer,
                                     .n_layers = patterns->n_layers,
                                     .head = patterns->head,
                                     .n_heads = patterns->n_heads};
    return !patterns->by_value || output_norms_begin(&patterns->values, subject, arena, n_positions, error);
}

void patterns_expect(Patterns *patterns, size_t first) {
    patterns->first = first;
    memset(patterns->rows, 0, patterns->n_maps * patterns->map_size * sizeof *patterns->rows);
    if (patterns->learned)
        memset(patterns->learned, 0, patterns->n_maps * patterns->n_rows * sizeof *patterns->learned);
}

bool patterns_feed(Patterns *patterns, Session *session, const int32_t *ids, size_t n, Error *error) {
    size_t position = session_position(session);
    size_t n_before = patterns->first > position ? patterns->first - position : 0;
    patterns->collecting = false;
    bool ok = subject_feed(patterns->subject, session, ids, n_before, NULL, NULL, error);
    patterns->collecting = true;
    return ok && subject_feed(patterns->subject, session, ids + n_before, n - n_before, NULL, NULL, error);
}

double *patterns_row(const Patterns *patterns, size_t map, size_t query) {
    return patterns->rows + map * patterns->map_size + rows_size(patterns->first, query - patterns->first);
}

/* A row of zeros stays so: under no_sink that of query 0, which sees nothing else. */
static void divide_by_sum(double *row, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += row[i];
    for (size_t i = 0; sum > 0 && i < n; i++) row[i] /= sum;
}

void patterns_finish(Patterns *patterns) {
    for (size_t map = 0; map < patterns->n_maps; map++)
        for (size_t i = 0; i < patterns->n_rows; i++) {
            size_t query = patterns->first + i;
            double *row = patterns_row(patterns, map, query);
            if (patterns->no_sink) {
                patterns->dropped[map * patterns->n_rows + i] = row[0];
                row[0] = 0;
            }
            if (patterns->no_sink || patterns->normalise) divide_by_sum(row, query + 1);
        }
}
