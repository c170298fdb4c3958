/*
 * circuit: what heads do by their weights alone (measures/circuit.h): a table of all heads, one head in tokens, or which heads
 * read what others write (measures/composition.h).
 */
#include "measures/composition.h"
#include "measures/scores.h"
#include "views/view.h"

#include <math.h>
#include <string.h>

enum { STRONGEST = 20, N_DIRECTIONS = 4, SHOWN_VALUES = 6, TOKEN_WIDTH = 14 };

static const char *const kind_names[] = {"q", "k", "v"};

/* A head's scores. */
typedef struct CircuitHeadRow {
    size_t layer, head;
    char name[32];
    CircuitScores scores;
} CircuitHeadRow;

/* A pair of heads, as it is shown. */
typedef struct CompositionRow {
    Composition pair;
    char name[32], from[32];
} CompositionRow;

typedef struct CircuitView {
    const char *head_name, *kind_name, *token;
    size_t n_top;

    Circuit circuit;
    size_t layer, head;   /* of --head */
    int32_t id;           /* of --token, or −1 */
    CircuitHeadRow *rows; /* [n_rows] */
    size_t n_rows;
    Eigenvalue *values;      /* [d_head] of --head */
    OvDirection *directions; /* [n_directions] */
    size_t n_directions;
    TokenPair *raised, *lowered, *sought; /* [n_top] of the OV, the largest and smallest; of the QK */
    CompositionKind kind;
    CompositionRow *pairs; /* [n_pairs] of --composition, the strongest first */
    size_t n_pairs;
} CircuitView;

static bool parse_one_head(const Study *study, CircuitView *view, Error *error) {
    const char *at = view->head_name;
    unsigned long long layer, head;
    bool one = false;
    if (!at) return study_check_heads(study, NOT_GIVEN, error);
    if (!parse_head(&at, &layer, &head, &one) || !one || *at)
        return error_set(error, "--head: '%s' is no head such as L4H1", view->head_name) ||
               wrong_usage(error);
    view->layer = (size_t)layer, view->head = (size_t)head;
    return study_check_place(study, view->layer, view->head, NOT_GIVEN, 0, error) &&
           study_check_heads(study, view->layer, error);
}

static bool score_head(CircuitView *view, CircuitHeadRow *row, Eigenvalue *values, Error *error) {
    HeadWeights weights;
    Arena scratch = {0};
    head_name(row->name, row->layer, row->head);
    bool ok = circuit_head(&view->circuit, &scratch, row->layer, row->head, &weights, error) &&
              circuit_scores(&view->circuit, &weights, &row->scores, values, error);
    arena_free(&scratch);
    return ok;
}

static bool score_all(Study *study, CircuitView *view, Error *error) {
    const Config *config = model_config(study->model);
    size_t n = config->n_layer * config->n_head, done = 0;
    view->rows = arena_new(&study->arena, n, sizeof *view->rows);
    if (!arena_ok(&study->arena, error, "%zu heads", n)) return false;
    for (size_t layer = 0; layer < config->n_layer; layer++)
        for (size_t head = 0; head < config->n_head; head++) {
            if (!subject_go_on(&study->subject, "heads", done++, n, error)) return false;
            if (!layer_has_heads(study->model, layer)) continue;
            CircuitHeadRow *row = &view->rows[view->n_rows++];
            row->layer = layer, row->head = head;
            if (!score_head(view, row, NULL, error)) return false;
        }
    subject_go_on(&study->subject, "heads", n, n, NULL);
    return true;
}

static bool find_tokens(CircuitView *view, const HeadWeights *weights, Arena *arena, double scale,
                        Error *error) {
    size_t k = view->n_top;
    const Circuit *circuit = &view->circuit;
    return circuit_pairs(circuit, weights, false, 1, view->id, false, k, view->raised, error) &&
           circuit_pairs(circuit, weights, false, 1, view->id, true, k, view->lowered, error) &&
           circuit_pairs(circuit, weights, true, scale, view->id, false, k, view->sought, error) &&
           circuit_directions(circuit, weights, arena, view->n_directions, k, view->directions, error);
}

static bool study_head(Study *study, CircuitView *view, Error *error) {
    Arena *arena = &study->arena;
    HeadWeights weights;
    size_t k = view->n_top = at_most(view->n_top == NOT_GIVEN ? 5 : view->n_top, view->circuit.n_vocab);
    view->n_directions = at_most(N_DIRECTIONS, view->circuit.d_head);
    view->rows = arena_new(arena, 1, sizeof *view->rows);
    view->values = arena_new(arena, view->circuit.d_head, sizeof *view->values);
    view->directions = arena_new(arena, N_DIRECTIONS, sizeof *view->directions);
    view->raised = arena_new(arena, 3 * k + 1, sizeof *view->raised);
    if (!arena_ok(arena, error, "a head")) return false;
    view->lowered = view->raised + k;
    view->sought = view->lowered + k;
    *view->rows = (CircuitHeadRow){.layer = view->layer, .head = view->head};
    view->n_rows = 1;
    return score_head(view, view->rows, view->values, error) &&
           circuit_head(&view->circuit, arena, view->layer, view->head, &weights, error) &&
           find_tokens(view, &weights, arena, score_rule(study->model, view->layer, view->head).scale, error);
}

/* Whether a pair counts: all do, or those of the head that is named. */
static bool counts(const CircuitView *view, const Composition *pair) {
    return !view->head_name || (pair->layer == view->layer && pair->head == view->head) ||
           (pair->from_layer == view->layer && pair->from_head == view->head);
}

static bool compose(Study *study, CircuitView *view, Error *error) {
    Arena *arena = &study->arena;
    size_t n, n_counting = 0;
    Composition *pairs = find_compositions(&view->circuit, arena, view->kind, &n, error);
    if (!pairs) return false;
    double *scores = arena_new(arena, n + 1, sizeof *scores);
    size_t *places = arena_new(arena, n + 1, sizeof *places);
    view->pairs = arena_new(arena, n + 1, sizeof *view->pairs);
    if (!arena_ok(arena, error, "%zu pairs of heads", n)) return false;
    for (size_t i = 0; i < n; i++)
        if (counts(view, &pairs[i])) pairs[n_counting] = pairs[i], scores[n_counting++] = pairs[i].score;
    view->n_pairs = largest_of(scores, n_counting, n_counting, places);
    for (size_t i = 0; i < view->n_pairs; i++) {
        CompositionRow *row = &view->pairs[i];
        row->pair = pairs[places[i]];
        head_name(row->name, row->pair.layer, row->pair.head);
        head_name(row->from, row->pair.from_layer, row->pair.from_head);
    }
    return true;
}

static bool check(const StudyOptions *options, const void *own, Error *error) {
    const CircuitView *view = own;
    size_t kind;
    if (!parse_choice("--composition", view->kind_name, kind_names, 3, &kind, error)) return false;
    if (options->prompt || options->prompt_file || options->ids)
        return error_set(error, "circuit looks at weights alone: leave out the text");
    if (view->kind_name && view->token)
        return error_set(error, "--token goes with --head, and not with --composition");
    if (view->n_top != NOT_GIVEN && (!view->head_name || view->kind_name))
        return error_set(error, "--top goes with --head, and not with --composition");
    return !view->token || view->head_name || error_set(error, "--token goes with --head");
}

static bool compute(Study *study, void *own, Error *error) {
    CircuitView *view = own;
    size_t kind;
    parse_choice("--composition", view->kind_name, kind_names, 3, &kind, error); /* as check() did */
    if (!parse_one_head(study, view, error) ||
        (view->token && !study_token(study, view->token, &view->id, error)) ||
        !circuit_begin(&view->circuit, &study->subject, &study->arena, !view->kind_name, error))
        return false;
    view->kind = (CompositionKind)kind;
    if (view->kind_name) return compose(study, view, error);
    return view->head_name ? study_head(study, view, error) : score_all(study, view, error);
}

#define ROW(member) offsetof(CircuitHeadRow, member)

static const Column row_columns[] = {
    {NULL, "head", CELL_NAME, ROW(name), -8},
    {"layer", NULL, CELL_SIZE, ROW(layer)},
    {"head", NULL, CELL_SIZE, ROW(head)},
    {"copying", "copying", CELL_REAL, ROW(scores.copying), 9, 3},
    {"ov_copying", "OV alone", CELL_REAL, ROW(scores.ov_copying), 10, 3},
    {"matching", "matching", CELL_REAL, ROW(scores.matching), 10, 3},
    {"ov_norm", "|OV|", CELL_REAL, ROW(scores.ov_norm), 10, 3},
    {"qk_norm", "|QK|", CELL_REAL, ROW(scores.qk_norm), 10, 3},
};
static const Table rows_table = TABLE("heads", row_columns);

#define PAIR(member) offsetof(CompositionRow, pair.member)

static const Column pair_columns[] = {
    {NULL, "head", CELL_NAME, offsetof(CompositionRow, name), -8},
    {NULL, "reads", CELL_NAME, offsetof(CompositionRow, from), -8},
    {"layer", NULL, CELL_SIZE, PAIR(layer)},
    {"head", NULL, CELL_SIZE, PAIR(head)},
    {"from_layer", NULL, CELL_SIZE, PAIR(from_layer)},
    {"from_head", NULL, CELL_SIZE, PAIR(from_head)},
    {"score", "score", CELL_REAL, PAIR(score), 8, 4},
};
static const Table pairs_table = TABLE("pairs", pair_columns);

static void json_pairs(Report *report, const char *key, const char *value, const TokenPair *pairs, size_t n) {
    json_array(report, key);
    for (size_t i = 0; i < n; i++) {
        json_object(report, NULL);
        if (pairs[i].from >= 0) json_token_object(report, "from", pairs[i].from);
        json_token_object(report, "to", pairs[i].to);
        json_real(report, value, pairs[i].value);
        json_end_object(report);
    }
    json_end_array(report);
}

static void json_values(Report *report, const CircuitView *view) {
    json_array(report, "eigenvalues");
    for (size_t i = 0; i < view->circuit.d_head; i++) {
        json_object(report, NULL);
        json_real(report, "re", view->values[i].re);
        json_real(report, "im", view->values[i].im);
        json_end_object(report);
    }
    json_end_array(report);
}

static void json_head(Report *report, const CircuitView *view) {
    size_t n = view->n_top;
    json_values(report, view);
    if (view->id >= 0) json_token_object(report, "source", view->id);
    json_pairs(report, "raised", "effect", view->raised, n);
    json_pairs(report, "lowered", "effect", view->lowered, n);
    json_pairs(report, "sought", "score", view->sought, n);
    json_array(report, "directions");
    for (size_t i = 0; i < view->n_directions; i++) {
        json_object(report, NULL);
        json_real(report, "singular", view->directions[i].singular);
        json_real(report, "share", view->directions[i].share);
        json_pairs(report, "writes", "effect", view->directions[i].writes, n);
        json_pairs(report, "reads", "product", view->directions[i].reads, n);
        json_end_object(report);
    }
    json_end_array(report);
}

static void print_pairs(const Report *report, const char *title, const TokenPair *pairs, size_t n) {
    print_styled(report, STYLE_BOLD, "\n%s\n", title);
    for (size_t i = 0; i < n; i++) {
        printf("  ");
        print_token(report, pairs[i].from, TOKEN_WIDTH);
        printf(report->ascii ? " > " : " → ");
        print_token(report, pairs[i].to, TOKEN_WIDTH);
        printf(" %+10.3f\n", pairs[i].value);
    }
}

static void print_tokens(const Report *report, const char *title, const TokenPair *pairs, size_t n) {
    printf("    %s", title);
    for (size_t i = 0; i < at_most(n, 3); i++) {
        putchar(' ');
        print_token(report, pairs[i].to, TOKEN_WIDTH - 2);
        printf(" %6.2f", pairs[i].value);
    }
    putchar('\n');
}

static void print_values(const Report *report, const CircuitView *view) {
    size_t n = at_most(view->circuit.d_head, SHOWN_VALUES);
    print_styled(report, STYLE_BOLD, "\neigenvalues of the full OV, the largest %zu\n", n);
    for (size_t i = 0, column = 0; i < n; i++) {
        char text[64];
        int length = view->values[i].im != 0
                         ? snprintf(text, sizeof text, "%.3f%+.3fi", view->values[i].re, view->values[i].im)
                         : snprintf(text, sizeof text, "%.3f", view->values[i].re);
        if (column > 0 && column + (size_t)length + 2 > 80) putchar('\n'), column = 0;
        column += (size_t)printf("  %s", text);
    }
    putchar('\n');
}

static void print_head(Report *report, const CircuitView *view) {
    print_values(report, view);
    print_pairs(report, "full OV: looking at the left makes the right likelier, by so much in its logit",
                view->raised, view->n_top);
    print_pairs(report, "and less likely", view->lowered, view->n_top);
    print_pairs(report, "full QK: a query of the left scores a key of the right", view->sought, view->n_top);
    print_styled(report, STYLE_BOLD, "\nsingular directions of the OV\n");
    for (size_t i = 0; i < view->n_directions; i++) {
        printf("  %.4f  %.1f%% of its square\n", view->directions[i].singular,
               100 * view->directions[i].share);
        print_tokens(report, "reads ", view->directions[i].reads, view->n_top);
        print_tokens(report, "writes", view->directions[i].writes, view->n_top);
    }
}

static void print_legend(const Report *report, const CircuitView *view) {
    print_style(report, STYLE_DIM);
    puts("By weights alone. OV: what a head adds for what it looks at; QK: what it looks\n"
         "for; full: from embedding to unembedding. Norms' divisions, biases and position\n"
         "embeddings are left out, and nothing is turned: RoPE at relative position 0.");
    if (view->kind_name)
        printf("score: how far the %s of a head reads what an earlier one writes, 0 to 1\n",
               view->kind == BY_QUERY ? "query"
               : view->kind == BY_KEY ? "key"
                                      : "value");
    else
        puts("copying: sum of the full OV's eigenvalues over the sum of their sizes: near 1,\n"
             "it makes what it looks at likelier; OV alone: without embedding and unembedding\n"
             "matching: likewise of the full QK: near 1, it looks for the query's own token");
    print_style(report, STYLE_PLAIN);
    putchar('\n');
}

static bool show(Study *study, void *own, Error *error) {
    const CircuitView *view = own;
    Report *report = &study->report;
    (void)error;
    if (!is_json(report)) print_legend(report, view);
    if (view->kind_name) {
        if (is_json(report)) json_text(report, "composition", kind_names[view->kind], SIZE_MAX);
        table_show(report, &pairs_table, 0, view->pairs,
                   is_json(report) ? view->n_pairs : at_most(view->n_pairs, STRONGEST), sizeof *view->pairs);
        return true;
    }
    table_show(report, &rows_table, 0, view->rows, view->n_rows, sizeof *view->rows);
    if (view->head_name) (is_json(report) ? json_head : print_head)(report, view);
    return true;
}

static const CircuitView defaults = {.n_top = NOT_GIVEN, .id = -1};

#define AT(member) offsetof(CircuitView, member)

static const Option options[] = {
    {"--head", NULL, OPTION_ONCE, AT(head_name)},
    {"--composition", NULL, OPTION_ONCE, AT(kind_name)},
    {"--token", NULL, OPTION_ONCE, AT(token)},
    {"--top", NULL, OPTION_SIZE, AT(n_top), 1, 100},
};

const View view_circuit = {
    .name = "circuit",
    .summary = "what heads do by their weights alone, whatever the text",
    .usage = "[MODEL] [options]",
    .help = HELP(
        "Copying scores, eigenvalues, singular directions and composition of heads (Elhage et al. 2021).\n"
        "\n"
        "  --head L4H1          one head: the tokens that its OV and QK circuits pair, its singular directions\n"
        "  --token T            of pairs those from this token (a text, or #id)\n"
        "  --top K              so many pairs of --head (5)\n"
        "  --composition q|k|v  how far queries, keys or values read what earlier heads write\n"
        "\n"
        "examples:\n"
        "  ./study circuit model.bin\n"
        "  ./study circuit model.bin --head L4H1 --token \" king\"\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(CircuitView),
    .check = check,
    .compute = compute,
    .show = show,
};
