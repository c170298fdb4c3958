/* attribute --score: a score of attention, split over what wrote into its query and its key (measures/scoreparts.h). */
#include "measures/scoreparts.h"
#include "views/attribute.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A part of the query with one of the key. */
typedef struct CellRow {
    const char *query, *key;
    double value, share;
} CellRow;

/* A part, over all of the other side. */
typedef struct PartRow {
    char name[32];
    size_t layer, head; /* SIZE_MAX: none */
    double query, key;
} PartRow;

typedef struct ScoreView {
    ScoreParts parts;
    PartRow *rows; /* [n] */
    bool *shown;   /* [n] whether people see the part */
    double *sizes; /* [n·n] |cell| */
    CellRow *top;  /* [n_top] the strongest cells */
    size_t n_top;
} ScoreView;

static bool check(const StudyOptions *options, const AttributeView *v, Error *error) {
    const char *too_much = v->pair.file              ? "--pairs"
                           : v->pair.corrupted       ? "--corrupted"
                           : v->pair.answer          ? "--answer"
                           : v->pair.wrong           ? "--wrong"
                           : v->query_text           ? "--query"
                           : v->head_list            ? "--head"
                           : v->neurons != NOT_GIVEN ? "--neurons"
                                                     : NULL;
    if (too_much)
        return error_set(error, "--score is about a score and not an answer: leave out %s", too_much);
    return options->prompt || options->prompt_file || options->ids ||
           error_set(error, "give the text with -p or -f");
}

static bool parse_number(const char **at, size_t *number) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    unsigned long long value = strtoull(*at, &end, 10);
    *at = end;
    *number = value < SIZE_MAX ? (size_t)value : SIZE_MAX - 1;
    return true;
}

/* "L4H1:11>4" */
static bool parse_score(const AttributeView *v, ScoreParts *parts, Error *error) {
    const char *at = v->score_list;
    unsigned long long layer = 0, head = 0;
    bool one = false;
    if (!parse_head(&at, &layer, &head, &one) || !one || *at++ != ':' || !parse_number(&at, &parts->query) ||
        *at++ != '>' || !parse_number(&at, &parts->key) || *at)
        return error_set(
                   error,
                   "--score: '%s' is no score such as 'L4H1:11>4' (in quotes), query 11 looking at key 4",
                   v->score_list) ||
               wrong_usage(error);
    parts->layer = (size_t)layer;
    parts->head = (size_t)head;
    return true;
}

static bool check_place(const AttributeView *v, const ScoreParts *parts, Error *error) {
    const Study *study = v->study;
    if (!study_check_place(study, parts->layer, parts->head, parts->query, study->subject.tokens.n, error) ||
        !study_check_heads(study, parts->layer, error))
        return false;
    if (parts->key > parts->query)
        return error_set(error, "--score: query %zu does not see key %zu, which comes behind it",
                         parts->query, parts->key);
    ScoreRule rule = score_rule(study->model, parts->layer, parts->head);
    return parts->key >= rule_first_key(&rule, parts->query) ||
           error_set(error, "--score: query %zu does not see key %zu: layer %zu has a window of %zu",
                     parts->query, parts->key, parts->layer, rule.window);
}

static bool make_rows(ScoreView *view, size_t n_top, Arena *arena, Error *error) {
    const ScoreParts *parts = &view->parts;
    size_t n = parts->n, n_cells = n * n;
    view->n_top = at_most(n_top, n_cells);
    view->rows = arena_new(arena, n, sizeof *view->rows);
    view->sizes = arena_new(arena, n_cells, sizeof *view->sizes);
    view->top = arena_new(arena, view->n_top, sizeof *view->top);
    size_t *places = arena_new(arena, view->n_top, sizeof *places);
    if (!arena_ok(arena, error, "%zu parts of a score", n_cells)) return false;
    for (size_t i = 0; i < n; i++) {
        const Writer *writer = &parts->list[i];
        view->rows[i] = (PartRow){.layer = writer->layer,
                                  .head = writer->head,
                                  .query = parts->query_sums[i],
                                  .key = parts->key_sums[i]};
        writer_name(view->rows[i].name, writer);
    }
    for (size_t i = 0; i < n_cells; i++) view->sizes[i] = fabs(parts->cells[i]);
    largest_of(view->sizes, n_cells, view->n_top, places);
    for (size_t i = 0; i < view->n_top; i++) {
        size_t at = places[i];
        view->top[i] = (CellRow){view->rows[at / n].name, view->rows[at % n].name, parts->cells[at],
                                 view->sizes[at] / fmax(view->sizes[places[0]], 1e-300)};
    }
    return true;
}

/* Of the parts those that give most, in either place. */
static bool choose_parts_shown(ScoreView *view, size_t n_wanted, Arena *arena, Error *error) {
    size_t n = view->parts.n, n_top = at_most(n_wanted, n), *places = arena_new(arena, n_top, sizeof *places);
    double *sizes = arena_new(arena, n, sizeof *sizes);
    view->shown = arena_new(arena, n, sizeof *view->shown);
    if (!arena_ok(arena, error, "%zu parts", n)) return false;
    for (size_t i = 0; i < n; i++) sizes[i] = fmax(fabs(view->rows[i].query), fabs(view->rows[i].key));
    largest_of(sizes, n, n_top, places);
    for (size_t i = 0; i < n_top; i++) view->shown[places[i]] = true;
    return true;
}

static bool compute(AttributeView *v, Error *error) {
    Arena *arena = &v->study->arena;
    ScoreView *view = arena_new(arena, 1, sizeof *view);
    if (!arena_ok(arena, error, "a score")) return false;
    v->work = view;
    view->parts.subject = &v->study->subject;
    return parse_score(v, &view->parts, error) && subject_check_length(&v->study->subject, error) &&
           check_place(v, &view->parts, error) &&
           score_parts_can(&v->study->subject, view->parts.layer, error) &&
           score_parts_run(&view->parts, arena, error) && make_rows(view, v->top, arena, error) &&
           choose_parts_shown(view, v->top, arena, error);
}

static const Column cell_columns[] = {
    {"query", "query part", CELL_TEXT, offsetof(CellRow, query), -12},
    {"key", "key part", CELL_TEXT, offsetof(CellRow, key), -12},
    {"value", "value", CELL_REAL, offsetof(CellRow, value), 10, 4, .format = '+'},
    {NULL, "", CELL_BAR, offsetof(CellRow, share), 20, .need = 1},
};
static const Column part_columns[] = {
    {"part", "part", CELL_NAME, offsetof(PartRow, name), -12},
    {"layer", NULL, CELL_SIZE, offsetof(PartRow, layer)},
    {"head", NULL, CELL_SIZE, offsetof(PartRow, head)},
    {"query", "in query", CELL_REAL, offsetof(PartRow, query), 10, 4, .format = '+'},
    {"key", "in key", CELL_REAL, offsetof(PartRow, key), 10, 4, .format = '+'},
};
static const Table strongest_table = TABLE("strongest", cell_columns),
                   parts_table = TABLE("parts", part_columns);

static void json_cells(Report *report, const ScoreParts *parts) {
    json_array(report, "cells");
    for (size_t i = 0; i < parts->n; i++) json_reals(report, NULL, parts->cells + i * parts->n, parts->n);
    json_end_array(report);
}

static void json_score(Report *report, const Study *study, const ScoreView *view) {
    const ScoreParts *parts = &view->parts;
    const int32_t *ids = study->subject.tokens.ids;
    json_text(report, "by", "score", SIZE_MAX);
    json_int(report, "layer", (int64_t)parts->layer);
    json_int(report, "head", (int64_t)parts->head);
    json_int(report, "kv_head", (int64_t)kv_head_of(model_config(study->model), parts->head));
    json_int(report, "query", (int64_t)parts->query);
    json_int(report, "key", (int64_t)parts->key);
    json_token_object(report, "query_token", ids[parts->query]);
    json_token_object(report, "key_token", ids[parts->key]);
    json_real(report, "weight", parts->weight);
    json_real(report, "score", parts->score);
    json_real(report, "soft_cap", parts->rule.cap != 0 ? parts->rule.cap : NAN);
    json_real(report, "uncapped", parts->uncapped);
    json_real(report, "sum", parts->sum);
    json_real(report, "difference", fabs(parts->sum - parts->uncapped));
    json_real(report, "alibi", parts->rule.slope != 0 ? parts->alibi : NAN);
    table_show(report, &strongest_table, 0, view->top, view->n_top, sizeof *view->top);
    table_show(report, &parts_table, 0, view->rows, parts->n, sizeof *view->rows);
    json_cells(report, parts);
}

static void print_asked(const Study *study, const ScoreParts *parts) {
    const Report *report = &study->report;
    const int32_t *ids = study->subject.tokens.ids;
    char name[32];
    printf("%s, query %zu ", head_name(name, parts->layer, parts->head), parts->query);
    print_token(report, ids[parts->query], 0);
    printf(", key %zu ", parts->key);
    print_token(report, ids[parts->key], 0);
    printf(": a score of %.4f, a weight of %.4f\n", parts->score, parts->weight);
    printf("sum of all parts %.4f; off by %.4f\n", parts->sum, fabs(parts->sum - parts->uncapped));
    if (parts->rule.cap != 0)
        printf("It is the score before the soft cap of %g: %.4f\n", parts->rule.cap, parts->uncapped);
    if (parts->rule.slope != 0) printf("of which the distance (ALiBi) gives %.4f\n", parts->alibi);
    print_styled(report, STYLE_DIM,
                 "A query and a key are sums over what wrote into the stream at their positions, so the\n"
                 "score is one over pairs; norms keep the scales that they have in this run\n");
}

static void print_parts(Report *report, const ScoreView *view) {
    putchar('\n');
    table_print_titles(report, &parts_table, 0, NULL);
    for (size_t i = 0; i < view->parts.n; i++)
        if (view->shown[i]) table_print_line(report, &parts_table, 0, &view->rows[i]);
    print_styled(report, STYLE_DIM, "in query: over all parts of the key; in key: over all of the query\n");
}

static bool show(Report *report, AttributeView *v, Error *error) {
    const ScoreView *view = v->work;
    (void)error;
    if (is_json(report)) {
        json_score(report, v->study, view);
        return true;
    }
    print_asked(v->study, &view->parts);
    putchar('\n');
    table_show(report, &strongest_table, 0, view->top, view->n_top, sizeof *view->top);
    print_parts(report, view);
    return true;
}

const AttributeWay attribute_score = {check, compute, show};
