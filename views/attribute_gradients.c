/*
 * attribute --by gradient, --by ig: which sites, heads, MLPs and neurons carry the answer, by gradients (nodescores.h).
 */
#include "views/attribute_gradients.h"

#include "cli/print.h"
#include "cli/process.h"
#include "measures/nodescores.h"
#include "measures/scores.h"
#include "views/attribute.h"
#include "views/attribute_edges.h"
#include "views/pairloop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 10, NEURONS = 10, LABEL = 12 };

/* A part of the model, over all pairs. */
typedef struct NodeRow {
    char name[72];
    const char *site;
    NodeKind kind;
    size_t layer, head, neuron, position; /* SIZE_MAX: of none, or summed over all */
    int32_t clean, corrupted;             /* tokens at the position */
    double sum, squares;                  /* over pairs */
    double score, score_error, share, bar;
} NodeRow;

typedef struct NodesView {
    AttributeView *view;
    PairLoop loop;
    bool has_source; /* there is a second text */
    bool is_nll;     /* the metric is the nll of the text */
    size_t steps;    /* 0: one gradient */
    NodeRow *rows;   /* [n_rows] neurons last */
    size_t n_rows, n_nodes;
    size_t *places, neurons;  /* [n_rows] scratch of lists; neurons that are listed */
    double *sizes;            /* [n_rows] likewise */
    NodeRow *listed;          /* [the longest list] likewise */
    double embed, difference; /* sums over pairs: of the embeddings' scores, and what the metric differs by */
} NodesView;

static bool has_text(const StudyOptions *options) {
    return options->prompt || options->prompt_file || options->ids;
}

static bool check_files(const GradientOptions *gradient, Error *error) {
    const char *needs = gradient->dot     ? "--dot"
                        : gradient->svg   ? "--svg"
                        : gradient->graph ? "--graph"
                        : gradient->check ? "--check"
                                          : NULL;
    return gradient->edges || !needs || error_set(error, "%s is of --edges: give that too", needs);
}

const char *gradient_option(const GradientOptions *gradient) {
    return gradient->edges               ? "--edges"
           : gradient->noising           ? "--noising"
           : gradient->steps != SIZE_MAX ? "--steps"
           : gradient->metric_name       ? "--metric"
           : gradient->check             ? "--check"
           : gradient->dot               ? "--dot"
           : gradient->svg               ? "--svg"
           : gradient->graph             ? "--graph"
                                         : NULL;
}

static bool check(const StudyOptions *options, const AttributeView *v, Error *error) {
    const GradientOptions *gradient = &v->gradient;
    bool is_ig = strcmp(v->by_name, "ig") == 0, two = v->pair.file || v->pair.corrupted;
    if (v->query_text || v->head_list)
        return error_set(
            error, "%s is not of --by %s: the metric is that of the last token, and all heads are asked",
            v->head_list ? "--head" : "--query", v->by_name);
    if (gradient->steps != SIZE_MAX && !is_ig) return error_set(error, "--steps is of --by ig");
    if (!check_files(gradient, error)) return false;
    if (two)
        return pairs_check(options, &v->pair, error) &&
               metric_check(gradient->metric_name, &v->pair, error) &&
               (!gradient->edges || attribute_edges.check(options, v, error));
    if (gradient->edges || is_ig || gradient->noising)
        return error_set(error,
                         "%s takes two texts: give the other with --corrupted, or many by --pairs FILE",
                         gradient->edges ? "--edges"
                         : is_ig         ? "--by ig"
                                         : "--noising");
    if (!has_text(options)) return error_set(error, "give a text with -p or -f, or many by --pairs FILE");
    if (v->pair.wrong && !v->pair.answer)
        return error_set(error, "--wrong takes an answer: give it with --answer");
    if (gradient->metric_name && !v->pair.answer)
        return error_set(
            error, "--metric is of an answer: give it with --answer (without, the text's nll is taken)");
    return metric_check(gradient->metric_name, &v->pair, error);
}

static void name_row(NodeRow *row) {
    if (row->neuron != SIZE_MAX)
        snprintf(row->name, sizeof row->name, "L%zu neuron %zu", row->layer, row->neuron);
    else if (row->head != SIZE_MAX)
        snprintf(row->name, sizeof row->name, "L%zuH%zu %s", row->layer, row->head, node_names[row->kind]);
    else
        snprintf(row->name, sizeof row->name, "L%zu %s", row->layer, node_names[row->kind]);
}

static void add_row(NodesView *v, NodeKind kind, size_t layer, size_t head, size_t position,
                    const Pair *pair) {
    NodeRow *row = &v->rows[v->n_rows++];
    bool is_neuron = kind == NODE_NEURON;
    *row =
        (NodeRow){.site = node_names[kind],
                  .kind = kind,
                  .layer = layer,
                  .head = node_has_heads(kind) ? head : SIZE_MAX,
                  .neuron = is_neuron ? head : SIZE_MAX,
                  .position = position,
                  .clean = position == SIZE_MAX ? -1 : pair->clean.ids[position],
                  .corrupted = position == SIZE_MAX || !v->has_source ? -1 : pair->corrupted.ids[position]};
    name_row(row);
}

static bool by_position(NodeKind kind) { return kind <= NODE_Z; }

/* Whether a layer has such parts: one that keeps a state has no heads, and experts have no neurons that are seen. */
static bool layer_has(const NodeScores *scores, size_t layer, NodeKind kind) {
    const Model *model = scores->subject->model;
    if (kind == NODE_NEURON) return !model_weights(model)->layers[layer].experts.n_expert;
    return !node_has_heads(kind) || layer_has_heads(model, layer);
}

static size_t parts_of(const NodeScores *scores, NodeKind kind) {
    return kind == NODE_NEURON ? scores->sites[kind].width : scores->sites[kind].n_heads;
}

/* A row for each part; and, of one text alone, for each position of some. */
static bool make_rows(NodesView *v, const NodeScores *scores, const Pair *pair, Error *error) {
    size_t n_layer = model_config(scores->subject->model)->n_layer, n = v->view->pair.file ? 0 : scores->n,
           n_rows = 0;
    Arena *arena = &v->view->study->arena;
    for (NodeKind kind = 0; kind < N_NODE_KINDS; kind++)
        n_rows += n_layer * parts_of(scores, kind) * (by_position(kind) ? n + 1 : 1);
    v->rows = arena_new(arena, n_rows, sizeof *v->rows);
    if (!arena_ok(arena, error, "%zu scores", n_rows)) return false;
    for (NodeKind kind = 0; kind < N_NODE_KINDS; kind++) {
        if (kind == NODE_NEURON) v->n_nodes = v->n_rows;
        for (size_t layer = 0; layer < n_layer; layer++)
            for (size_t part = 0; layer_has(scores, layer, kind) && part < parts_of(scores, kind); part++) {
                add_row(v, kind, layer, part, SIZE_MAX, pair);
                for (size_t at = 0; by_position(kind) && at < n; at++)
                    add_row(v, kind, layer, part, at, pair);
            }
    }
    return true;
}

static void take_scores(NodesView *v, const NodeScores *scores) {
    for (size_t i = 0; i < v->n_rows; i++) {
        NodeRow *row = &v->rows[i];
        size_t part = row->neuron != SIZE_MAX ? row->neuron : row->head != SIZE_MAX ? row->head : 0;
        double score = nodescores_at(scores, row->kind, row->layer, part, row->position);
        row->sum += score;
        row->squares += score * score;
    }
    v->embed += nodescores_embed(scores);
    v->difference += scores->values[1] - scores->values[0];
}

static bool run_pair(void *user, const Pair *pair, Arena *arena, Error *error) {
    NodesView *v = user;
    bool noising = v->view->gradient.noising;
    const int32_t *base = noising || !v->has_source ? pair->clean.ids : pair->corrupted.ids;
    const int32_t *source = !v->has_source ? NULL : noising ? pair->corrupted.ids : pair->clean.ids;
    NodeScores scores = {.subject = &v->view->study->subject,
                         .n = pair->clean.n,
                         .steps = v->steps,
                         .metric = v->loop.metric,
                         .nll_of = v->is_nll ? pair->clean.ids : NULL};
    bool ok = nodescores_run(&scores, base, source, arena, error) &&
              (v->rows || make_rows(v, &scores, pair, error));
    if (ok) take_scores(v, &scores);
    if (ok) pairloop_note(&v->loop, scores.values[!noising && v->has_source], scores.values[noising]);
    nodescores_free(&scores);
    return ok;
}

/* One text, without another. */
static bool run_alone(NodesView *v, Error *error) {
    AttributeView *view = v->view;
    Study *study = view->study;
    Pair pair = {.clean = study->subject.tokens, .answer = -1, .wrong = -1};
    size_t kind;
    Arena arena = {0};
    v->loop.study = study;
    v->is_nll = !view->pair.answer;
    if (!study_token_given(study, "--answer", view->pair.answer, &pair.answer, error) ||
        !study_token_given(study, "--wrong", view->pair.wrong, &pair.wrong, error))
        return false;
    parse_choice("--metric", view->gradient.metric_name, metric_names, METRIC_LOGPROB + 1, &kind,
                 error); /* as check() did */
    if (!view->gradient.metric_name) kind = pair.wrong >= 0 ? METRIC_LOGIT_DIFF : METRIC_LOGPROB;
    v->loop.metric = (Metric){v->is_nll ? METRIC_NLL : (MetricKind)kind, pair.answer, pair.wrong,
                              model_config(study->model)->n_vocab, NULL};
    v->loop.n_tokens = pair.clean.n;
    bool ok = run_pair(v, &pair, &arena, error);
    arena_free(&arena);
    return ok;
}

/* Means over pairs, and their standard errors. */
static void finish_rows(NodesView *v) {
    double n = (double)v->loop.n_pairs, whole = v->difference / n, most = 0;
    for (size_t i = 0; i < v->n_rows; i++) {
        NodeRow *row = &v->rows[i];
        row->score = row->sum / n;
        row->score_error = sqrt(fmax(row->squares / n - row->score * row->score, 0) / (n - 1));
        row->share = row->score / whole;
        if (fabs(row->score) > most) most = fabs(row->score);
    }
    for (size_t i = 0; i < v->n_rows; i++) v->rows[i].bar = most > 0 ? fabs(v->rows[i].score) / most : 0;
}

/* Asks for the lists' memory before they are shown: once they are under way, it is too late for an error. */
static bool make_lists(NodesView *v, Error *error) {
    Arena *arena = &v->view->study->arena;
    size_t top = v->view->top;
    v->neurons = v->view->neurons == NOT_GIVEN ? NEURONS : v->view->neurons;
    v->places = arena_new(arena, v->n_rows, sizeof *v->places);
    v->sizes = arena_new(arena, v->n_rows, sizeof *v->sizes);
    v->listed = arena_new(arena, at_most(top > v->neurons ? top : v->neurons, v->n_rows), sizeof *v->listed);
    return arena_ok(arena, error, "%zu scores", v->n_rows);
}

static bool compute(AttributeView *view, Error *error) {
    if (view->gradient.edges) return attribute_edges.compute(view, error);
    NodesView *v = arena_new(&view->study->arena, 1, sizeof *v);
    if (!arena_ok(&view->study->arena, error, "the scores")) return false;
    view->work = v;
    *v = (NodesView){.view = view,
                     .loop = {.options = &view->pair, .metric_name = view->gradient.metric_name},
                     .has_source = view->pair.file || view->pair.corrupted};
    if (view->by == BY_IG) v->steps = view->gradient.steps == SIZE_MAX ? STEPS : view->gradient.steps;
    bool ok = v->has_source ? pairloop_run(&v->loop, view->study, run_pair, v, error) : run_alone(v, error);
    ok = ok && make_lists(v, error);
    if (ok) finish_rows(v);
    pairloop_free(&v->loop);
    return ok;
}

#define ROW(member) offsetof(NodeRow, member)

static const Column columns[] = {
    {NULL, "part", CELL_NAME, ROW(name), -18},
    {"site", NULL, CELL_TEXT, ROW(site)},
    {"layer", NULL, CELL_SIZE, ROW(layer)},
    {"head", NULL, CELL_SIZE, ROW(head)},
    {"neuron", NULL, CELL_SIZE, ROW(neuron)},
    {"position", "pos", CELL_SIZE, ROW(position), 5},
    {NULL, "clean", CELL_TOKEN, ROW(clean), 15, 13},
    {NULL, "corrupted", CELL_TOKEN, ROW(corrupted), 14, 13},
    {"score_nats", "score", CELL_REAL, ROW(score), 10, 4, .format = '+'},
    {"score_error_nats", "\xc2\xb1", CELL_REAL, ROW(score_error), 9, 4, .ascii = "+-"},
    {"share", "share", CELL_REAL, ROW(share), 9, 4, .format = '+'},
    {NULL, "", CELL_BAR, ROW(bar), 16, .need = 1},
};
enum {
    COL_NAME = 1 << 0,
    COL_PLACE = 1 << 5,
    COL_CLEAN = 1 << 6,
    COL_CORRUPTED = 1 << 7,
    COL_ERROR = 1 << 9,
    COL_SHARE = 1 << 10
};
static const Table nodes_table = TABLE("nodes", columns), neurons_table = TABLE("strongest_neurons", columns);

static Columns left_out(const NodesView *v) {
    return (v->view->pair.file ? 0 : COL_ERROR) | (v->has_source ? 0 : COL_CORRUPTED | COL_SHARE);
}

/* A sort of rows that is listed by itself. */
typedef bool IsListed(const NodeRow *row);

static bool is_token(const NodeRow *row) {
    return row->kind == NODE_RESID_PRE && row->layer == 0 && row->position != SIZE_MAX;
}
static bool is_part(const NodeRow *row) {
    return (row->kind == NODE_Z || row->kind == NODE_MLP_OUT) && row->position == SIZE_MAX;
}
static bool is_inner(const NodeRow *row) { return row->kind >= NODE_Q && row->kind <= NODE_PATTERN; }
static bool is_place(const NodeRow *row) {
    return (row->kind == NODE_Z || row->kind == NODE_MLP_OUT) && row->position != SIZE_MAX;
}
static bool is_neuron(const NodeRow *row) { return row->kind == NODE_NEURON; }

/* Puts the strongest `most` rows of a sort, the strongest first, to v->listed. Returns how many. */
static size_t strongest(const NodesView *v, IsListed *is_listed, size_t most) {
    size_t n = 0;
    for (size_t i = 0; i < v->n_rows; i++) v->sizes[i] = is_listed(&v->rows[i]) ? v->rows[i].bar : -1;
    size_t found = largest_of(v->sizes, v->n_rows, at_most(most, v->n_rows), v->places);
    for (size_t i = 0; i < found; i++)
        if (v->sizes[v->places[i]] > 0) v->listed[n++] = v->rows[v->places[i]];
    return n;
}

static void list(Report *report, const NodesView *v, const char *title, IsListed *is_listed, size_t most,
                 Columns without) {
    size_t n = strongest(v, is_listed, most);
    if (n == 0) return;
    putchar('\n');
    print_styled(report, STYLE_BOLD, "%s\n", title);
    table_show(report, &nodes_table, left_out(v) | without, v->listed, n, sizeof *v->listed);
}

static const char *direction(const NodesView *v) {
    return !v->has_source ? NULL : v->view->gradient.noising ? "noising" : "denoising";
}

static void json_nodes(Report *report, const NodesView *v) {
    size_t n_neurons = strongest(v, is_neuron, v->neurons);
    json_text(report, "by", v->steps ? "ig" : "gradient", SIZE_MAX);
    if (v->steps) json_int(report, "steps", (int64_t)v->steps);
    if (direction(v)) {
        json_text(report, "direction", direction(v), SIZE_MAX);
        pairloop_json(report, &v->loop);
        json_real(report, "difference_nats", v->difference / (double)v->loop.n_pairs);
    } else {
        json_text(report, "metric", metric_names[v->loop.metric.kind], SIZE_MAX);
        json_real(report, "value_nats", effect_metric(&v->loop.clean));
    }
    json_real(report, "embed_nats", v->embed / (double)v->loop.n_pairs);
    table_show(report, &nodes_table, left_out(v), v->rows, v->n_nodes, sizeof *v->rows);
    table_show(report, &neurons_table, left_out(v), v->listed, n_neurons, sizeof *v->listed);
}

static void print_alone(Report *report, const NodesView *v) {
    if (v->is_nll)
        fputs("metric: the text's nll, nats a token", stdout);
    else {
        fputs(v->loop.metric.kind == METRIC_LOGPROB ? "metric, in nats: ln of the probability of "
                                                    : "metric, in nats: logit of ",
              stdout);
        print_token(report, v->loop.metric.answer, 0);
        if (v->loop.metric.kind == METRIC_LOGIT_DIFF) fputs(" less that of ", stdout);
        if (v->loop.metric.kind == METRIC_LOGIT_DIFF) print_token(report, v->loop.metric.wrong, 0);
    }
    printf(": %+.4f\n", effect_metric(&v->loop.clean));
    print_styled(report, STYLE_DIM, "score: a part's numbers times the metric's gradient, summed\n");
}

static void print_head(Report *report, const NodesView *v) {
    bool noising = v->view->gradient.noising;
    const char *base = noising ? "clean" : "corrupted", *source = noising ? "corrupted" : "clean";
    if (!v->has_source) {
        print_alone(report, v);
        return;
    }
    pairloop_print(report, &v->loop);
    print_style(report, STYLE_DIM);
    printf("score: (%s - %s) times the gradient ", source, base);
    if (v->steps)
        printf("(mean of %zu on the way between their embeddings)\n", v->steps);
    else
        printf("in the %s run\n", base);
    puts("share: of the metric's difference");
    print_style(report, STYLE_PLAIN);
}

static void print_embed(Report *report, const NodesView *v) {
    double n = (double)v->loop.n_pairs;
    putchar('\n');
    if (!v->has_source) {
        print_styled(report, STYLE_DIM, "Sum over the embeddings of all tokens: %+.4f\n", v->embed / n);
        return;
    }
    print_styled(report, STYLE_DIM,
                 "Sum over the embeddings of all tokens: %+.4f; the metric's difference: %+.4f%s\n",
                 v->embed / n, v->difference / n, v->steps ? "" : "\n(--by ig brings them together)");
}

static bool show(Report *report, AttributeView *view, Error *error) {
    if (view->gradient.edges) return attribute_edges.show(report, view, error);
    const NodesView *v = view->work;
    if (is_json(report)) {
        json_nodes(report, v);
        return true;
    }
    print_head(report, v);
    list(report, v, "Tokens, by their embeddings", is_token, view->top, COL_NAME);
    list(report, v, "Heads and MLPs", is_part, view->top, COL_PLACE | COL_CLEAN | COL_CORRUPTED);
    list(report, v, "Queries, keys, values and patterns of heads", is_inner, view->top,
         COL_PLACE | COL_CLEAN | COL_CORRUPTED);
    list(report, v, "Heads and MLPs by position", is_place, view->top, 0);
    list(report, v, "Neurons", is_neuron, v->neurons, COL_PLACE | COL_CLEAN | COL_CORRUPTED);
    print_embed(report, v);
    pairloop_print_notes(report, &v->loop);
    return true;
}

const AttributeWay attribute_gradients = {check, compute, show};
