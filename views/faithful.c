/*
 * faithful: how much of an answer a circuit carries alone (faithfulness.h): circuits of growing size, by the edges' scores;
 * one that is given; or one that is found by taking edges, or nodes, out (circuitsearch.h).
 */
#include "cli/print.h"
#include "measures/circuitsearch.h"
#include "measures/edgescores.h"
#include "measures/faithfulness.h"
#include "views/faithful_keep.h"
#include "views/pairloop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 5, MOST_TEXTS = 64 };

static const char *const by_names[] = {"ig", "gradient"};

/* A circuit, over all pairs. */
typedef struct CircuitRow {
    double share; /* of all edges, or nodes */
    size_t n;     /* edges, or nodes */
    EffectSums sums;
    double value, value_error, f, f_error;
} CircuitRow;

/* An edge; or a node, which has no reader. */
typedef struct KeptUnit {
    char sender[64], reader[64];
    double score;
} KeptUnit;

typedef struct FaithfulView {
    PairOptions pair;
    const char *metric_name, *by_name, *outside_name, *keep_list;
    size_t steps, top;
    float threshold; /* of --find; below 0: it is not given */
    bool of_nodes, by_kl;

    Study *study;
    PairLoop scoring, running;
    EdgeGraph graph;
    Outside outside;
    bool by_ig;
    UnitKind unit;
    size_t n_units;
    double *scores; /* [n_units] sums over pairs */
    size_t *order;  /* [n_units] those of the circuits first */
    bool *in;       /* [n_edges] */
    CircuitRow rows[N_SHARES];
    size_t n_rows;
    double cpr, cmd;

    SearchText texts[MOST_TEXTS]; /* of --find */
    size_t n_texts;
    CircuitSearch search;
    Readout kl;
    KeptUnit *kept; /* [n_kept] of --find and --keep, the strongest first */
    size_t n_kept;
} FaithfulView;

static const char *units(const FaithfulView *v) { return v->of_nodes ? "nodes" : "edges"; }
static bool finds(const FaithfulView *v) { return v->threshold >= 0; }

static bool check(const StudyOptions *options, const void *view, Error *error) {
    const FaithfulView *v = view;
    size_t by, outside;
    if (!parse_choice("--by", v->by_name, by_names, 2, &by, error) ||
        !parse_choice("--outside", v->outside_name, outside_names, N_OUTSIDES, &outside, error))
        return false;
    if (v->keep_list && finds(v))
        return error_set(error, "--keep gives the circuit that --find looks for: choose one");
    if (v->by_kl && !finds(v)) return error_set(error, "--kl is of --find");
    if (v->top != NOT_GIVEN && !v->keep_list && !finds(v))
        return error_set(error, "--top is of --keep and --find, whose circuit is listed: leave it out");
    if (v->keep_list && (v->by_name || v->steps != NOT_GIVEN))
        return error_set(error, "%s is of a circuit that scores choose, and --keep names one: leave it out",
                         v->by_name ? "--by" : "--steps");
    if (by != 0 && v->steps != NOT_GIVEN) return error_set(error, "--steps is of --by ig");
    if (v->pair.file && strcmp(v->pair.file, "-") == 0)
        return error_set(error, "the pairs are read twice, which stdin does not give: put them in a file");
    return pairs_check(options, &v->pair, error) && metric_check(v->metric_name, &v->pair, error);
}

/*
 * A node's score is the sum over its edges: the gradient of what it adds to the stream is the sum of those of all readers
 * behind it.
 */
static void add_scores(FaithfulView *v, const double *scores) {
    size_t edge = 0;
    for (size_t reader = 0; reader < v->graph.n_readers; reader++)
        for (size_t sender = 0; sender < reader_senders(&v->graph, reader); sender++, edge++)
            v->scores[v->of_nodes ? sender : edge] += scores[edge];
}

static bool score_pair(void *user, const Pair *pair, Arena *arena, Error *error) {
    FaithfulView *v = user;
    EdgeScores scores = {.subject = &v->study->subject,
                         .graph = &v->graph,
                         .n = pair->clean.n,
                         .steps = v->by_ig ? v->steps : 0,
                         .metric = v->scoring.metric};
    bool ok = edgescores_run(&scores, pair->corrupted.ids, pair->clean.ids, arena, error);
    if (ok) add_scores(v, scores.scores);
    if (ok) pairloop_note(&v->scoring, scores.values[1], scores.values[0]);
    edgescores_free(&scores);
    return ok;
}

/* A run with the first n units of the order. */
static bool run_first(FaithfulView *v, Mixture *mixture, const Pair *pair, size_t n, double *value,
                      Error *error) {
    choose_units(&v->graph, v->unit, v->order, n, v->in);
    return mixture_run(mixture, pair->clean.ids, v->in, value, error);
}

/* Every circuit of the rows, and what their faithfulness is measured by. */
static bool run_circuits(FaithfulView *v, Mixture *mixture, const Pair *pair, Error *error) {
    double none, all, value;
    if (!run_first(v, mixture, pair, 0, &none, error) ||
        !run_first(v, mixture, pair, v->n_units, &all, error) ||
        !readout_check(&mixture->readout, (double[]){all, none}, error))
        return false;
    for (size_t i = 0; i < v->n_rows; i++) {
        if (!subject_go_on(&v->study->subject, "circuits", i, v->n_rows, error) ||
            !run_first(v, mixture, pair, v->rows[i].n, &value, error))
            return false;
        effect_add(&v->rows[i].sums, value, all, none);
    }
    subject_go_on(&v->study->subject, "circuits", v->n_rows, v->n_rows, NULL);
    pairloop_note(&v->running, all, none);
    return true;
}

static bool run_pair(void *user, const Pair *pair, Arena *arena, Error *error) {
    FaithfulView *v = user;
    Mixture mixture = {
        .subject = &v->study->subject, .graph = &v->graph, .n = pair->clean.n, .metric = v->running.metric};
    bool ok = faithful_begin(&mixture, v->outside, pair->corrupted.ids, arena, error) &&
              run_circuits(v, &mixture, pair, error);
    v->running.unfit = mixture.readout.alike;
    mixture_free(&mixture);
    return ok;
}

/* The whole model's logits behind the text that a mixture has just run. */
static bool keep_whole(FaithfulView *v, SearchText *text, Error *error) {
    Arena *arena = &v->study->arena;
    size_t n_vocab = model_config(v->study->model)->n_vocab;
    const Metric metric = {.kind = METRIC_KL, .n_vocab = n_vocab};
    if (!v->by_kl) return true;
    if (v->n_texts == 1 && !readout_begin(&v->kl, &v->study->subject, &metric, arena, error)) return false;
    text->whole = arena_floats(arena, n_vocab, 1);
    if (!arena_ok(arena, error, "the logits of %zu tokens", n_vocab)) return false;
    session_unembed(text->mixture->session, text->mixture->final, 1, text->whole);
    return true;
}

/* Opens a text for the search, which needs all of them at once. */
static bool open_text(void *user, const Pair *pair, Arena *of_pair, Error *error) {
    FaithfulView *v = user;
    Arena *arena = &v->study->arena;
    (void)of_pair;
    if (v->n_texts == MOST_TEXTS) return error_set(error, "--find takes %d pairs at most", MOST_TEXTS);
    Mixture *mixture = arena_new(arena, 1, sizeof *mixture);
    int32_t *clean = arena_new(arena, pair->clean.n, sizeof *clean);
    if (!arena_ok(arena, error, "%zu texts", v->n_texts + 1)) return false;
    memcpy(clean, pair->clean.ids, pair->clean.n * sizeof *clean);
    *mixture = (Mixture){
        .subject = &v->study->subject, .graph = &v->graph, .n = pair->clean.n, .metric = v->running.metric};
    SearchText *text = &v->texts[v->n_texts++];
    *text = (SearchText){mixture, clean, NULL};
    double value = 0, none = 0;
    bool ok = faithful_begin(mixture, v->outside, pair->corrupted.ids, arena, error) &&
              mixture_run(mixture, clean, v->in, &none, error) &&
              mixture_run(mixture, clean, NULL, &value, error) &&
              readout_check(&mixture->readout, (double[]){value, none}, error) && keep_whole(v, text, error);
    v->running.unfit = mixture->readout.alike;
    if (v->running.unfit) mixture_free(v->texts[--v->n_texts].mixture);
    if (ok) pairloop_note(&v->running, value, none);
    return ok;
}

/* The units by the size of their scores: the largest first, or last. */
static bool sort_units(FaithfulView *v, bool weakest_first, Error *error) {
    Arena arena = {0};
    size_t n = v->n_units;
    double *sizes = arena_new(&arena, n, sizeof *sizes);
    bool ok = arena_ok(&arena, error, "%zu %s", n, units(v));
    for (size_t i = 0; ok && i < n; i++) sizes[i] = (weakest_first ? -1 : 1) * fabs(v->scores[i]);
    if (ok) largest_of(sizes, n, n, v->order);
    arena_free(&arena);
    return ok;
}

static void keep_unit(FaithfulView *v, size_t unit) {
    EdgeEnds ends = unit_ends(&v->graph, v->unit, unit);
    KeptUnit *kept = &v->kept[v->n_kept++];
    graph_name(kept->sender, sender_part(&v->graph, ends.sender));
    graph_name(kept->reader, reader_part(&v->graph, ends.reader));
    kept->score = v->scoring.n_pairs ? v->scores[unit] / (double)v->scoring.n_pairs : NAN;
}

static bool is_in(const FaithfulView *v, size_t unit) { return unit_is_in(&v->graph, v->unit, unit, v->in); }

/* Lists the n units that are in, the strongest first. */
static bool list_kept(FaithfulView *v, size_t n, Error *error) {
    v->kept = arena_new(&v->study->arena, n + 1, sizeof *v->kept);
    if (!arena_ok(&v->study->arena, error, "%zu %s", n, units(v)) || !sort_units(v, false, error))
        return false;
    for (size_t i = 0; i < v->n_units; i++)
        if (is_in(v, v->order[i])) keep_unit(v, v->order[i]);
    return true;
}

static bool find_circuit(FaithfulView *v, Error *error) {
    memset(v->in, 0, v->graph.n_edges);
    if (!sort_units(v, true, error) || !pairloop_run(&v->running, v->study, open_text, v, error))
        return false;
    v->search = (CircuitSearch){.subject = &v->study->subject,
                                .texts = v->texts,
                                .n_texts = v->n_texts,
                                .graph = &v->graph,
                                .unit = v->unit,
                                .order = v->order,
                                .threshold = (double)v->threshold,
                                .kl = v->by_kl ? &v->kl : NULL,
                                .in = v->in};
    if (!circuit_search(&v->search, error) || !list_kept(v, v->search.n_in, error)) return false;
    v->rows[0].n = v->search.n_in;
    v->n_rows = 1;
    return true;
}

static bool run_keep(FaithfulView *v, Error *error) {
    size_t n = 0, rest = v->n_units;
    if (!keep_read(v->keep_list, &v->graph, v->unit, v->in, &v->study->arena, error)) return false;
    for (size_t unit = 0; unit < v->n_units; unit++) n += is_in(v, unit);
    if (!list_kept(v, n, error)) return false;
    for (size_t unit = v->n_units, kept = n; unit-- > 0;) v->order[is_in(v, unit) ? --kept : --rest] = unit;
    v->rows[0].n = n;
    v->n_rows = 1;
    return pairloop_run(&v->running, v->study, run_pair, v, error);
}

static bool run_curve(FaithfulView *v, Error *error) {
    v->n_rows = N_SHARES;
    for (size_t i = 0; i < N_SHARES; i++) v->rows[i].n = share_of(circuit_shares[i], v->n_units);
    return sort_units(v, false, error) && pairloop_run(&v->running, v->study, run_pair, v, error);
}

static void finish(FaithfulView *v) {
    double f[N_SHARES];
    for (size_t i = 0; i < v->n_rows; i++) {
        CircuitRow *row = &v->rows[i];
        row->share = (double)row->n / (double)v->n_units;
        if (finds(v)) {
            double none = effect_metric(&v->running.corrupted_sums);
            row->value = v->search.value;
            row->f = (v->search.value - none) / (v->search.whole - none);
            row->value_error = row->f_error = NAN;
            continue;
        }
        row->value = effect_metric(&row->sums);
        row->value_error = effect_metric_error(&row->sums);
        row->f = f[i] = effect_mean(&row->sums);
        row->f_error = effect_error(&row->sums);
        if (v->n_rows == N_SHARES) row->share = circuit_shares[i];
    }
    v->cpr = v->cmd = NAN;
    if (v->n_rows == N_SHARES) faithful_areas(f, &v->cpr, &v->cmd);
}

static bool prepare(FaithfulView *v, Error *error) {
    Study *study = v->study;
    size_t by, outside;
    if (!edgegraph_begin(&v->graph, study->model, &study->arena, error)) return false;
    parse_choice("--by", v->by_name, by_names, 2, &by, error); /* as check() did */
    parse_choice("--outside", v->outside_name, outside_names, N_OUTSIDES, &outside, error);
    v->by_ig = by == 0;
    v->outside = (Outside)outside;
    if (v->steps == NOT_GIVEN) v->steps = STEPS;
    v->unit = v->of_nodes ? UNIT_NODE : UNIT_EDGE;
    v->n_units = n_units(&v->graph, v->unit);
    v->scores = arena_new(&study->arena, v->n_units, sizeof *v->scores);
    v->order = arena_new(&study->arena, v->n_units, sizeof *v->order);
    v->in = arena_new(&study->arena, v->graph.n_edges, 1);
    PairLoop loop = {.options = &v->pair, .metric_name = v->metric_name};
    v->scoring = v->running = loop;
    return arena_ok(&study->arena, error, "%zu edges", v->graph.n_edges);
}

static bool compute(Study *study, void *view, Error *error) {
    FaithfulView *v = view;
    v->study = study;
    if (!prepare(v, error)) return false;
    bool ok = (v->keep_list || pairloop_run(&v->scoring, study, score_pair, v, error)) &&
              (v->keep_list ? run_keep
               : finds(v)   ? find_circuit
                            : run_curve)(v, error);
    if (ok) finish(v);
    return ok;
}

#define ROW(member) offsetof(CircuitRow, member)

static const Column columns[] = {
    {NULL, "edges", CELL_REAL, ROW(share), 8, 2, 100, .suffix = "%"},
    {NULL, "nodes", CELL_REAL, ROW(share), 8, 2, 100, .suffix = "%"},
    {"share", NULL, CELL_REAL, ROW(share)},
    {"n_edges", "number", CELL_SIZE, ROW(n), 9},
    {"n_nodes", "number", CELL_SIZE, ROW(n), 9},
    {"value_nats", "metric", CELL_REAL, ROW(value), 11, 4, .format = '+'},
    {"value_error_nats", "\xc2\xb1", CELL_REAL, ROW(value_error), 9, 4, .ascii = "+-"},
    {"faithfulness", "faithfulness", CELL_REAL, ROW(f), 14, 4},
    {"faithfulness_error", "\xc2\xb1", CELL_REAL, ROW(f_error), 9, 4, .ascii = "+-"},
    {NULL, "", CELL_BAR, ROW(f), 20, .need = 1},
};
enum { COL_EDGES = 1 << 0 | 1 << 3, COL_NODES = 1 << 1 | 1 << 4, COL_ERRORS = 1 << 6 | 1 << 8 };
static const Table circuits_table = TABLE("circuits", columns);

static const Column kept_columns[] = {
    {"node", "node", CELL_NAME, offsetof(KeptUnit, sender), -9},
    {"sender", "from", CELL_NAME, offsetof(KeptUnit, sender), -9},
    {"reader", "to", CELL_NAME, offsetof(KeptUnit, reader), -11},
    {"score_nats", "score", CELL_REAL, offsetof(KeptUnit, score), 10, 4, .format = '+'},
};
enum { COL_NODE = 1 << 0, COL_ENDS = 3 << 1, COL_SCORE = 1 << 3 };
static const Table kept_tables[] = {TABLE("edges", kept_columns), TABLE("nodes", kept_columns)};

static void show_circuits(Report *report, const FaithfulView *v) {
    Columns left_out = (v->of_nodes ? COL_EDGES : COL_NODES) | (v->pair.file && !finds(v) ? 0 : COL_ERRORS);
    table_show(report, &circuits_table, left_out, v->rows, v->n_rows, sizeof *v->rows);
}

static void show_kept(Report *report, const FaithfulView *v, size_t n) {
    Columns left_out = (v->of_nodes ? COL_ENDS : COL_NODE) | (v->keep_list ? COL_SCORE : 0);
    table_show(report, &kept_tables[v->of_nodes], left_out, v->kept, n, sizeof *v->kept);
}

static void json_faithful(Report *report, const FaithfulView *v) {
    bool scored = !v->keep_list;
    if (scored) json_text(report, "by", v->by_ig ? "ig" : "gradient", SIZE_MAX);
    if (scored && v->by_ig) json_int(report, "steps", (int64_t)v->steps);
    json_text(report, "outside", outside_names[v->outside], SIZE_MAX);
    pairloop_json(report, &v->running);
    json_int(report, v->of_nodes ? "n_nodes" : "n_edges", (int64_t)v->n_units);
    if (v->n_rows == N_SHARES) json_real(report, "cpr", v->cpr);
    if (v->n_rows == N_SHARES) json_real(report, "cmd", v->cmd);
    if (finds(v)) {
        json_text(report, "criterion", v->by_kl ? "kl" : "metric", SIZE_MAX);
        json_real(report, "threshold_nats", (double)v->threshold);
        if (v->by_kl) json_real(report, "kl_nats", v->search.divergence);
        json_int(report, "n_tries", (int64_t)v->search.n_tries);
        json_int(report, "n_runs", (int64_t)v->search.n_runs);
    }
    show_circuits(report, v);
    if (v->kept) show_kept(report, v, v->n_kept);
}

static void print_legend(Report *report, const FaithfulView *v) {
    static const char *const outsides[] = {"what is sent in the corrupted run",
                                           "the mean of that over positions", "nothing"};
    print_style(report, STYLE_DIM);
    printf("clean: with all %s; corrupted: with none\n", units(v));
    printf("%s %s.\nfaithfulness: (metric - corrupted) / (clean - corrupted); %zu %s in all\n",
           v->of_nodes ? "Nodes outside a circuit send" : "Edges outside a circuit carry",
           outsides[v->outside], v->n_units, units(v));
    if (!v->keep_list && v->by_ig)
        printf("%s are ranked by integrated gradients in %zu steps\n", units(v), v->steps);
    if (!v->keep_list && !v->by_ig) printf("%s are ranked by the gradient of the corrupted run\n", units(v));
    print_style(report, STYLE_PLAIN);
    putchar('\n');
}

static bool show(Study *study, void *view, Error *error) {
    const FaithfulView *v = view;
    Report *report = &study->report;
    (void)error;
    if (is_json(report)) {
        json_faithful(report, v);
        return true;
    }
    pairloop_print(report, &v->running);
    print_legend(report, v);
    show_circuits(report, v);
    if (v->n_rows == N_SHARES)
        printf(
            "\nCPR %.4f (area under the curve; more is better), CMD %.4f (between it and 1; less is better)\n",
            v->cpr, v->cmd);
    if (v->by_kl) printf("\nKL of its prediction from the whole model's: %.4f nats\n", v->search.divergence);
    if (finds(v))
        printf("\n%zu tries, %zu ways through the model; one by one it would have been %zu\n",
               v->search.n_tries, v->search.n_runs, v->n_units * v->n_texts);
    const size_t top = v->top == NOT_GIVEN ? 20 : v->top;
    if (v->kept && top > 0) {
        putchar('\n');
        show_kept(report, v, at_most(v->n_kept, top));
        if (v->n_kept > top) print_styled(report, STYLE_DIM, "and more (--top)\n");
    }
    pairloop_print_notes(report, &v->running);
    return true;
}

static void free_faithful(void *view) {
    FaithfulView *v = view;
    for (size_t i = 0; i < v->n_texts; i++) mixture_free(v->texts[i].mixture);
    pairloop_free(&v->scoring);
    pairloop_free(&v->running);
}

#define AT(member) offsetof(FaithfulView, member)

static const Option options[] = {
    PAIR_OPTIONS(FaithfulView, pair),
    {"--metric", NULL, OPTION_ONCE, AT(metric_name)},
    {"--by", NULL, OPTION_ONCE, AT(by_name)},
    {"--steps", NULL, OPTION_SIZE, AT(steps), 1, 1000},
    {"--outside", NULL, OPTION_ONCE, AT(outside_name)},
    {"--keep", NULL, OPTION_ONCE, AT(keep_list)},
    {"--find", NULL, OPTION_REAL, AT(threshold), 0, 1e6},
    {"--kl", NULL, OPTION_ON, AT(by_kl)},
    {"--nodes", NULL, OPTION_ON, AT(of_nodes)},
    {"--top", NULL, OPTION_SIZE, AT(top), 0, 1e6},
};

static const FaithfulView defaults = {.steps = NOT_GIVEN, .top = NOT_GIVEN, .threshold = -1};

const View view_faithful = {
    .name = "faithful",
    .summary = "how much of an answer a circuit carries alone",
    .usage = "[MODEL] -p CLEAN --corrupted TEXT --answer T [--wrong T] [options]",
    .help = HELP(
        "A circuit is a set of edges between heads, MLPs and embeddings. Here it runs the clean text, while all\n"
        "other edges carry what stands outside: how much of the answer is left? By size, the strongest edges\n"
        "first, with MIB's CPR and CMD; or of a circuit that is given, or found.\n"
        "\n" PAIR_HELP
        "  --outside resample|mean|zero   what is sent in the corrupted run, its mean, nothing\n"
        "  --by ig|gradient   how edges are ranked (attribute --edges)     --steps N   of ig (5)\n"
        "  --keep LIST     a circuit: L3H4,L4H1 (edges among these, and MLPs), or edges: L3H4:L5H2.q,L5H1:final\n"
        "  --find T        takes edges out, the weakest first, as long as the metric moves by T nats at most\n"
        "  --kl            with --find: KL of the prediction from the whole model's grows by T nats at most (ACDC)\n"
        "  --nodes         circuits of nodes: heads, states, MLPs, the embeddings, each with all edges away from it\n"
        "  --metric logit_diff|logit|logprob   of the answer (logit_diff with --wrong, else logprob)\n"
        "  --top N         edges, or nodes, of --keep or --find that are listed (20)\n"
        "\n"
        "examples:\n"
        "  ./study faithful model.bin -p \"When Mary and John met, John gave a book to\" \\\n"
        "      --corrupted \"When Mary and John met, Mary gave a book to\" --answer \" Mary\" --wrong \" John\"\n"
        "  ./study faithful model.bin --pairs pairs/ioi.jsonl --find 0.05 --nodes\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(FaithfulView),
    .check = check,
    .compute = compute,
    .show = show,
    .free = free_faithful,
};
