/*
 * attribute --edges: the edges by which the answer flows (edgescores.h); the strongest as a table and as drawings; and, with
 * --check, what each of these does when it is patched truly, one by one (mixture.h).
 */
#include "views/attribute_edges.h"

#include "cli/process.h"
#include "measures/edgescores.h"
#include "measures/mixture.h"
#include "views/edge_drawing.h"
#include "views/pairloop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 10, MOST_DRAWN = 1000 };

/* Sums over pairs. */
typedef struct PairSums {
    double sum, squares;
} PairSums;

typedef struct EdgeRow {
    char sender[64], reader[64];
    double score, score_error, share, bar;
    double patched, patched_error; /* NAN: it was not patched */
    size_t edge;
} EdgeRow;

typedef struct EdgesView {
    AttributeView *view;
    PairLoop loop, check;
    EdgeGraph graph;
    size_t steps;      /* 0: one gradient */
    PairSums *scores;  /* [n_edges] */
    size_t *places;    /* [n_edges] edges, the strongest first */
    PairSums *patched; /* [n_checked] of the strongest, or NULL */
    size_t n_checked;
    double *tokens;     /* [n_readers][n_tokens] of a single pair */
    double difference;  /* sum over pairs of what the metric differs by */
    double probability; /* of the answer behind the clean text; for --graph */
    EdgeRow *rows;      /* [n_edges] the strongest first */
    EdgeRow *by_edge;   /* [n_edges] the same in the order of the graph */
    double correlation; /* of score and patched, over those checked; NAN: there are too few */
} EdgesView;

static void add_to(PairSums *sums, double x) {
    sums->sum += x;
    sums->squares += x * x;
}

static double mean_of(const PairSums *sums, size_t n) { return sums->sum / (double)n; }

static double error_of(const PairSums *sums, size_t n) {
    double mean = mean_of(sums, n), variance = sums->squares / (double)n - mean * mean;
    return n > 1 ? sqrt(fmax(variance, 0) / (double)(n - 1)) : NAN;
}

static bool find_probability(EdgesView *v, EdgeScores *scores, const Pair *pair, Error *error) {
    double value;
    if (!v->view->gradient.graph) return true;
    Metric metric = scores->gradients.metric;
    scores->gradients.metric.kind = METRIC_LOGPROB;
    bool ok = gradients_there(&scores->gradients, pair->clean.ids, NULL, NULL, &value, error);
    scores->gradients.metric = metric;
    v->probability = exp(value);
    return ok;
}

static bool keep_tokens(EdgesView *v, const EdgeScores *scores, Error *error) {
    size_t n = v->graph.n_readers * scores->n;
    if (v->view->pair.file) return true;
    v->tokens = arena_new(&v->view->study->arena, n, sizeof *v->tokens);
    if (!arena_ok(&v->view->study->arena, error, "%zu tokens", scores->n)) return false;
    memcpy(v->tokens, scores->tokens, n * sizeof *v->tokens);
    return true;
}

static const int32_t *base_of(const EdgesView *v, const Pair *pair) {
    return v->view->gradient.noising ? pair->clean.ids : pair->corrupted.ids;
}

static const int32_t *source_of(const EdgesView *v, const Pair *pair) {
    return v->view->gradient.noising ? pair->corrupted.ids : pair->clean.ids;
}

static bool score_pair(void *user, const Pair *pair, Arena *arena, Error *error) {
    EdgesView *v = user;
    bool noising = v->view->gradient.noising;
    EdgeScores scores = {.subject = &v->view->study->subject,
                         .graph = &v->graph,
                         .n = pair->clean.n,
                         .steps = v->steps,
                         .metric = v->loop.metric};
    bool ok = edgescores_run(&scores, base_of(v, pair), source_of(v, pair), arena, error) &&
              find_probability(v, &scores, pair, error) && keep_tokens(v, &scores, error);
    for (size_t i = 0; ok && i < v->graph.n_edges; i++) add_to(&v->scores[i], scores.scores[i]);
    if (ok) v->difference += scores.values[1] - scores.values[0];
    if (ok) pairloop_note(&v->loop, scores.values[!noising], scores.values[noising]);
    edgescores_free(&scores);
    return ok;
}

/* The base runs with one edge after another from the source. */
static bool check_pair(void *user, const Pair *pair, Arena *arena, Error *error) {
    EdgesView *v = user;
    const Subject *subject = &v->view->study->subject;
    Mixture mixture = {.subject = subject, .graph = &v->graph, .n = pair->clean.n, .metric = v->check.metric};
    bool *in = arena_new(arena, v->graph.n_edges, 1);
    double source, base, value;
    bool ok = arena_ok(arena, error, "%zu edges", v->graph.n_edges) &&
              mixture_begin(&mixture, arena, error) &&
              mixture_outside(&mixture, source_of(v, pair), &source, error);
    if (ok) memset(in, true, v->graph.n_edges);
    ok = ok && mixture_run(&mixture, base_of(v, pair), in, &base, error);
    for (size_t i = 0; ok && i < v->n_checked; i++) {
        in[v->places[i]] = false;
        ok = subject_go_on(subject, "edges", i, v->n_checked, error) &&
             mixture_run(&mixture, base_of(v, pair), in, &value, error);
        in[v->places[i]] = true;
        if (ok) add_to(&v->patched[i], value - base);
    }
    subject_go_on(subject, "edges", v->n_checked, v->n_checked, NULL);
    if (ok) pairloop_note(&v->check, base, source);
    mixture_free(&mixture);
    return ok;
}

static bool make_room(EdgesView *v, Error *error) {
    Arena *arena = &v->view->study->arena;
    size_t n = v->graph.n_edges;
    v->n_checked = at_most(v->view->gradient.check, n);
    v->scores = arena_new(arena, n, sizeof *v->scores);
    v->places = arena_new(arena, n, sizeof *v->places);
    v->rows = arena_new(arena, n, sizeof *v->rows);
    v->by_edge = arena_new(arena, n, sizeof *v->by_edge);
    v->patched = v->n_checked ? arena_new(arena, v->n_checked, sizeof *v->patched) : NULL;
    return arena_ok(arena, error, "%zu edges", n);
}

static bool sort_edges(EdgesView *v, Error *error) {
    Arena arena = {0};
    size_t n = v->graph.n_edges;
    double *sizes = arena_new(&arena, n, sizeof *sizes);
    bool ok = arena_ok(&arena, error, "%zu edges", n);
    for (size_t i = 0; ok && i < n; i++) sizes[i] = fabs(v->scores[i].sum);
    if (ok) largest_of(sizes, n, n, v->places);
    arena_free(&arena);
    return ok;
}

/* Pearson's, of the scores and the effects of those that were patched. */
static double correlation(const EdgesView *v) {
    double n = (double)v->n_checked, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < v->n_checked; i++) {
        double a = v->rows[i].score, b = v->rows[i].patched;
        x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
    }
    double variances = (xx - x * x / n) * (yy - y * y / n);
    return v->n_checked > 2 && variances > 0 ? (xy - x * y / n) / sqrt(variances) : NAN;
}

static void finish_rows(EdgesView *v) {
    size_t n = v->loop.n_pairs;
    double whole = v->difference / (double)n;
    for (size_t i = 0; i < v->graph.n_edges; i++) {
        EdgeRow *row = &v->rows[i];
        EdgeEnds ends = edge_ends(&v->graph, v->places[i]);
        bool checked = i < v->n_checked;
        graph_name(row->sender, sender_part(&v->graph, ends.sender));
        graph_name(row->reader, reader_part(&v->graph, ends.reader));
        row->edge = v->places[i];
        row->score = mean_of(&v->scores[row->edge], n);
        row->score_error = error_of(&v->scores[row->edge], n);
        row->share = row->score / whole;
        row->bar = v->rows[0].score != 0 ? fabs(row->score / v->rows[0].score) : 0;
        row->patched = checked ? mean_of(&v->patched[i], n) : NAN;
        row->patched_error = checked ? error_of(&v->patched[i], n) : NAN;
        v->by_edge[row->edge] = *row;
    }
    v->correlation = correlation(v);
}

static bool write_file(const EdgesView *v, const char *path, void (*write)(FILE *, const EdgeDrawing *),
                       const EdgeDrawing *drawing, Error *error) {
    OutputFile output = {0};
    Inputs inputs = study_inputs(v->view->study);
    if (!path) return true;
    if (v->view->pair.file) inputs.text = v->view->pair.file;
    bool ok = output_open(&output, path, &inputs, error);
    if (ok) write(output.file, drawing);
    ok = ok && output_finish(&output, error);
    output_abandon(&output);
    return ok;
}

static bool draw(EdgesView *v, Error *error) {
    const GradientOptions *gradient = &v->view->gradient;
    Study *study = v->view->study;
    size_t n = at_most(at_most(v->view->top, v->graph.n_edges), MOST_DRAWN);
    if (!gradient->dot && !gradient->svg && !gradient->graph) return true;
    DrawnEdge *edges = arena_new(&study->arena, n, sizeof *edges);
    Report report = {.tokenizer = study->tokenizer};
    JoinedText prompt;
    if (!arena_ok(&study->arena, error, "%zu edges", n) ||
        !join_tokens(&study->subject, &study->arena, true, &prompt, error))
        return false;
    for (size_t i = 0; i < n; i++) {
        EdgeEnds ends = edge_ends(&v->graph, v->rows[i].edge);
        double *tokens = v->tokens && ends.sender == 0 ? v->tokens + ends.reader * v->loop.n_tokens : NULL;
        edges[i] = (DrawnEdge){ends, v->rows[i].score, tokens};
    }
    EdgeDrawing drawing = {&v->graph,
                           edges,
                           n,
                           &report,
                           study->subject.tokens.ids,
                           v->loop.n_tokens,
                           {prompt.bytes, prompt.offsets[study->subject.tokens.n]},
                           v->loop.metric.answer,
                           v->probability,
                           study->options->model};
    return write_file(v, gradient->dot, drawing_dot, &drawing, error) &&
           write_file(v, gradient->svg, drawing_svg, &drawing, error) &&
           write_file(v, gradient->graph, drawing_graph, &drawing, error);
}

static bool run(EdgesView *v, Error *error) {
    Study *study = v->view->study;
    return edgegraph_begin(&v->graph, study->model, &study->arena, error) && make_room(v, error) &&
           pairloop_run(&v->loop, study, score_pair, v, error) && sort_edges(v, error) &&
           (!v->n_checked || pairloop_run(&v->check, study, check_pair, v, error));
}

/* Each drawing has a file of its own: the later one would take the place of the other. */
static bool check_names(const GradientOptions *gradient, Error *error) {
    const char *const names[] = {gradient->dot, gradient->svg, gradient->graph};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            if (names[i] && names[j] && strcmp(names[i], names[j]) == 0)
                return error_set(error, "%s: two drawings cannot have one name; choose another", names[i]);
    return true;
}

static bool check(const StudyOptions *options, const AttributeView *view, Error *error) {
    const GradientOptions *gradient = &view->gradient;
    (void)options;
    if (!check_names(gradient, error)) return false;
    if (view->neurons != NOT_GIVEN)
        return error_set(error, "--edges has whole MLPs and no neurons: leave out --neurons");
    if (view->pair.file && gradient->graph)
        return error_set(error, "--graph draws the tokens of one pair: give it with -p and --corrupted");
    return !(view->pair.file && gradient->check && strcmp(view->pair.file, "-") == 0) ||
           error_set(error, "--check reads the pairs twice, which stdin does not give: put them in a file");
}

static bool compute(AttributeView *view, Error *error) {
    EdgesView *v = arena_new(&view->study->arena, 1, sizeof *v);
    const GradientOptions *gradient = &view->gradient;
    if (!arena_ok(&view->study->arena, error, "the edges")) return false;
    view->work = v;
    PairLoop loop = {.options = &view->pair, .metric_name = gradient->metric_name};
    *v = (EdgesView){.view = view, .loop = loop, .check = loop};
    if (view->by == BY_IG) v->steps = gradient->steps == SIZE_MAX ? STEPS : gradient->steps;
    bool ok = run(v, error);
    if (ok) finish_rows(v);
    ok = ok && draw(v, error);
    pairloop_free(&v->loop);
    pairloop_free(&v->check);
    return ok;
}

#define ROW(member) offsetof(EdgeRow, member)

static const Column columns[] = {
    {"sender", "from", CELL_NAME, ROW(sender), -9},
    {"reader", "to", CELL_NAME, ROW(reader), -11},
    {"score_nats", "score", CELL_REAL, ROW(score), 10, 4, .format = '+'},
    {"score_error_nats", "\xc2\xb1", CELL_REAL, ROW(score_error), 9, 4, .ascii = "+-"},
    {"share", "share", CELL_REAL, ROW(share), 9, 4, .format = '+'},
    {"patched_nats", "patched", CELL_REAL, ROW(patched), 10, 4, .format = '+'},
    {"patched_error_nats", "\xc2\xb1", CELL_REAL, ROW(patched_error), 9, 4, .ascii = "+-"},
    {NULL, "", CELL_BAR, ROW(bar), 16, .need = 1},
};
enum { COL_ERROR = 1 << 3, COL_PATCHED = 1 << 5, COL_PATCHED_ERROR = 1 << 6 };
static const Table edges_table = TABLE("edges", columns);

static Columns left_out(const EdgesView *v, bool checked) {
    return (v->view->pair.file ? 0 : COL_ERROR | COL_PATCHED_ERROR) |
           (checked ? 0 : COL_PATCHED | COL_PATCHED_ERROR);
}

static void json_edges(Report *report, const EdgesView *v) {
    json_text(report, "by", v->steps ? "ig" : "gradient", SIZE_MAX);
    if (v->steps) json_int(report, "steps", (int64_t)v->steps);
    json_text(report, "direction", v->view->gradient.noising ? "noising" : "denoising", SIZE_MAX);
    pairloop_json(report, &v->loop);
    json_real(report, "difference_nats", v->difference / (double)v->loop.n_pairs);
    json_int(report, "n_edges", (int64_t)v->graph.n_edges);
    json_int(report, "n_checked", (int64_t)v->n_checked);
    json_real(report, "correlation", v->correlation);
    table_show(report, &edges_table, left_out(v, v->n_checked > 0), v->by_edge, v->graph.n_edges,
               sizeof *v->by_edge);
}

static void print_legend(Report *report, const EdgesView *v) {
    bool noising = v->view->gradient.noising;
    const char *base = noising ? "clean" : "corrupted", *source = noising ? "corrupted" : "clean";
    print_style(report, STYLE_DIM);
    printf("score: (what is sent in the %s run - in the %s one) times the gradient\n"
           "where it is read",
           source, base);
    if (v->steps)
        printf(" (mean of %zu on the way between the embeddings)\n", v->steps);
    else
        printf(" in the %s run\n", base);
    printf("share: of the metric's difference; %zu edges\n", v->graph.n_edges);
    if (v->n_checked)
        printf("patched: what the metric moves by when this edge alone is the %s run's\n", source);
    print_style(report, STYLE_PLAIN);
}

static bool show(Report *report, AttributeView *view, Error *error) {
    const EdgesView *v = view->work;
    (void)error;
    if (is_json(report)) {
        json_edges(report, v);
        return true;
    }
    size_t top = at_most(view->top > v->n_checked ? view->top : v->n_checked, v->graph.n_edges),
           checked = at_most(top, v->n_checked);
    pairloop_print(report, &v->loop);
    print_legend(report, v);
    putchar('\n');
    if (checked) table_show(report, &edges_table, left_out(v, true), v->rows, checked, sizeof *v->rows);
    if (checked && checked < top) putchar('\n');
    if (checked < top)
        table_show(report, &edges_table, left_out(v, false), v->rows + checked, top - checked,
                   sizeof *v->rows);
    if (!isnan(v->correlation))
        print_styled(report, STYLE_DIM, "\nCorrelation of score and patched: %.4f\n", v->correlation);
    pairloop_print_notes(report, &v->loop);
    return true;
}

const AttributeWay attribute_edges = {check, compute, show};
