/*
 * rollout: how attention of all layers together leads from one position back to the tokens of the text
 * (measures/rollout.h), beside what it would be if every position looked at all it sees alike.
 */
#include "measures/rollout.h"
#include "views/view.h"

#include <math.h>

/* A token of the text, as the query's rollout has it. */
typedef struct RolloutRow {
    size_t key;
    int32_t id;
    double rollout, uniform, ratio;
    double flow, flow_share; /* NAN without --flow */
    double share;            /* of the largest rollout */
} RolloutRow;

typedef struct RolloutView {
    const char *query_text;
    size_t query, n_top;

    Rollout rollout;
    RolloutRow *rows; /* [rollout.n] */
    size_t *largest;  /* [n_shown] rows that people see, in the order of the text or the largest first */
    size_t n_shown;
    double others; /* the rollout of all other rows */
} RolloutView;

static void fill_rows(RolloutView *view, const Subject *subject) {
    const Rollout *rollout = &view->rollout;
    double flow = 0, most = 0;
    for (size_t i = 0; i < rollout->n; i++) {
        flow += rollout->flow ? rollout->flow[i] : 0;
        if (rollout->row[i] > most) most = rollout->row[i];
    }
    for (size_t i = 0; i < rollout->n; i++) {
        double of_flow = rollout->flow ? rollout->flow[i] : NAN;
        view->rows[i] = (RolloutRow){i,
                                     subject->tokens.ids[i],
                                     rollout->row[i],
                                     rollout->uniform[i],
                                     rollout->row[i] / rollout->uniform[i],
                                     of_flow,
                                     of_flow / flow,
                                     rollout->row[i] / most};
    }
}

/* All rows if there are no more than --top, else the largest. */
static void choose_rows(RolloutView *view) {
    size_t n = view->rollout.n;
    bool all = n <= view->n_top;
    view->n_shown = all ? n : largest_of(view->rollout.row, n, view->n_top, view->largest);
    for (size_t i = 0; all && i < n; i++) view->largest[i] = i;
    view->others = 1;
    for (size_t i = 0; i < view->n_shown; i++) view->others -= view->rollout.row[view->largest[i]];
}

static bool compute(Study *study, void *own, Error *error) {
    RolloutView *view = own;
    Arena *arena = &study->arena;
    size_t n_tokens = study->subject.tokens.n;
    if (!subject_check_length(&study->subject, error) ||
        !study_query(study, view->query_text, NULL, &view->query, error))
        return false;
    view->rollout.subject = &study->subject;
    view->rollout.query = view->query;
    view->rows = arena_new(arena, view->query + 1, sizeof *view->rows);
    view->largest = arena_new(arena, view->query + 1, sizeof *view->largest);
    if (!arena_ok(arena, error, "%zu tokens", n_tokens) || !rollout_measure(&view->rollout, arena, error))
        return false;
    fill_rows(view, &study->subject);
    choose_rows(view);
    return true;
}

#define ROW(member) offsetof(RolloutRow, member)

static const Column columns[] = {
    {"key", "key", CELL_SIZE, ROW(key), 4},
    {"token", "token", CELL_TOKEN, ROW(id), 15, 14},
    {"rollout", "rollout", CELL_REAL, ROW(rollout), 9, 4},
    {"uniform", "uniform", CELL_REAL, ROW(uniform), 9, 4},
    {"ratio", "ratio", CELL_REAL, ROW(ratio), 8, 2},
    {"flow", "flow", CELL_REAL, ROW(flow), 9, 4},
    {"flow_share", "share", CELL_REAL, ROW(flow_share), 8, 4},
    {NULL, "", CELL_BAR, ROW(share), 14},
};
static const Table keys_table = TABLE("keys", columns);
enum { FLOW_COLUMNS = 3 << 5 };

static void print_legend(const Study *study, const RolloutView *view) {
    const Report *report = &study->report;
    printf("query %zu ", view->query);
    print_token(report, study->subject.tokens.ids[view->query], 0);
    printf(", %zu layer%s\n", view->rollout.n_layers, view->rollout.n_layers == 1 ? "" : "s");
    print_style(report, STYLE_DIM);
    puts("rollout: share of each token when every layer mixes by the mean pattern of its\n"
         "heads, half of it and half of the position itself; uniform: if each looked at\n"
         "all it sees alike; ratio: how many times as much");
    if (view->rollout.flow)
        puts("flow: the largest flow from the query to the token through the same weights;\n"
             "share: of the sum of these");
    print_style(report, STYLE_PLAIN);
    putchar('\n');
}

static void print_end(const Report *report, const RolloutView *view) {
    const RolloutRow *first = view->rows;
    if (view->n_shown < view->rollout.n) printf("%20s %8.4f\n", "others", view->others);
    print_styled(report, STYLE_DIM,
                 "A causal model piles mass on token 0, which all positions see: %.4f here, and\n"
                 "%.4f if all looked alike. What values carry and MLPs do is not seen.\n",
                 first->rollout, first->uniform);
}

static bool show(Study *study, void *own, Error *error) {
    RolloutView *view = own;
    Report *report = &study->report;
    Columns left_out = view->rollout.flow ? 0 : FLOW_COLUMNS;
    (void)error;
    if (is_json(report)) {
        json_int(report, "query", (int64_t)view->query);
        json_int(report, "n_layers", (int64_t)view->rollout.n_layers);
        table_show(report, &keys_table, left_out, view->rows, view->rollout.n, sizeof *view->rows);
        if (view->n_shown < view->rollout.n) json_real(report, "others", view->others);
        return true;
    }
    print_legend(study, view);
    table_print_titles(report, &keys_table, left_out, NULL);
    for (size_t i = 0; i < view->n_shown; i++)
        table_print_line(report, &keys_table, left_out, &view->rows[view->largest[i]]);
    print_end(report, view);
    return true;
}

static const RolloutView defaults = {.n_top = 24};

#define AT(member) offsetof(RolloutView, member)

static const Option options[] = {
    {"--query", NULL, OPTION_ONCE, AT(query_text)},
    {"--top", NULL, OPTION_SIZE, AT(n_top), 0, 1e6},
    {"--flow", NULL, OPTION_ON, AT(rollout.wants_flow)},
};

const View view_rollout = {
    .name = "rollout",
    .summary = "which tokens a position's attention leads back to, through all layers",
    .help = HELP("Attention rollout and attention flow (Abnar & Zuidema 2020).\n"
                 "\n"
                 "  --query Q   from this position (the last)\n"
                 "  --flow      also the largest flow from it to each token; for short texts\n"
                 "  --top K     tokens to list where there are more (24)\n"
                 "\n"
                 "examples:\n"
                 "  ./study rollout model.bin -p \"The king Zilgan rode out. Then king Zil\"\n"
                 "  ./study rollout model.bin -f tale.txt --query 20 --flow --json\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(RolloutView),
    .compute = compute,
    .show = show,
};
