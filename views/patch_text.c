#include "views/patch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAP_ROWS = 48 /* of heads by position, at most */, LABEL_WIDTH = 9 };

static bool has_positions(const PatchView *v) { return !v->path_list && patch_has_positions(v->what); }
static bool has_neurons(const PatchView *v) { return !v->path_list && v->what == PATCH_NEURONS; }
static bool has_heads(const PatchView *v) {
    return !v->path_list && patch_has_heads(v->what) && !has_neurons(v);
}
static bool in_bits(const PatchView *v) { return v->loop.metric.kind == METRIC_LOGPROB; }

#define ROW(member) offsetof(PatchRow, member)

static const Column columns[] = {
    {"path", "path", CELL_NAME, ROW(name), -18},
    {NULL, "cell", CELL_NAME, ROW(name), -LABEL_WIDTH},
    {"layer", NULL, CELL_SIZE, ROW(layer)},
    {"head", NULL, CELL_SIZE, ROW(head)},
    {"neuron", NULL, CELL_SIZE, ROW(head)},
    {"position", "pos", CELL_SIZE, ROW(position), 4},
    {NULL, "clean", CELL_TOKEN, ROW(clean_token), 15, 13},
    {NULL, "corrupted", CELL_TOKEN, ROW(corrupted_token), 14, 13},
    {"effect", "effect", CELL_REAL, ROW(effect), 10, 4, .format = '+'},
    {"effect_error", "\xc2\xb1", CELL_REAL, ROW(effect_error), 9, 4, .ascii = "+-"},
    {"value_nats", NULL, CELL_REAL, ROW(value)},
    {NULL, "metric", CELL_REAL, ROW(value), 10, 4, .format = '+'},
    {NULL, "metric, bits", CELL_REAL, ROW(value), 13, 4, BITS_PER_NAT, .format = '+'},
    {"value_error_nats", NULL, CELL_REAL, ROW(value_error)},
    {NULL, "\xc2\xb1", CELL_REAL, ROW(value_error), 9, 4, .ascii = "+-"},
    {NULL, "\xc2\xb1", CELL_REAL, ROW(value_error), 9, 4, BITS_PER_NAT, .ascii = "+-"},
    {"same", NULL, CELL_BOOL, ROW(same)},
    {NULL, "", CELL_BAR, ROW(share), 20, .need = 1},
};
enum {
    COL_PATH = 1 << 0,
    COL_CELL = 15 << 1, /* and layer, head, neuron */
    COL_HEAD = 1 << 3,
    COL_NEURON = 1 << 4,
    COL_POSITION = 1 << 5,
    COL_TOKENS = 3 << 6,
    COL_ERRORS = 1 << 9 | 1 << 13 | 3 << 14,
    COL_LOGITS = 1 << 11 | 1 << 14,
    COL_BITS = 1 << 12 | 1 << 15,
};
static const Table cells_table = TABLE("cells", columns), paths_table = TABLE("paths", columns);

static Columns left_out(const PatchView *v) {
    return (v->path_list ? COL_CELL : COL_PATH) | (has_heads(v) ? 0 : COL_HEAD) |
           (has_neurons(v) ? 0 : COL_NEURON) | (has_positions(v) ? 0 : COL_POSITION) |
           (has_positions(v) && !v->pair.file ? 0 : COL_TOKENS) | (v->pair.file ? 0 : COL_ERRORS) |
           (in_bits(v) ? COL_LOGITS : COL_BITS);
}

static void json_patch(Report *report, const PatchView *v) {
    json_text(report, "what", v->path_list ? "path" : patch_names[v->what], SIZE_MAX);
    json_text(report, "direction", v->noising ? "noising" : "denoising", SIZE_MAX);
    if (v->freeze) json_text(report, "freeze", v->freeze, SIZE_MAX);
    pairloop_json(report, &v->loop);
    json_bool(report, "partial", v->partial);
    json_int(report, "n_done", (int64_t)v->n_done);
    json_int(report, "n_same", (int64_t)v->n_same);
    table_show(report, v->path_list ? &paths_table : &cells_table, left_out(v), v->rows, v->n_rows,
               sizeof *v->rows);
}

static void print_metric(Report *report, const PatchView *v) {
    const char *from = v->noising ? "corrupted" : "clean", *into = v->noising ? "clean" : "corrupted";
    printf("%s of the %s run into the %s one\n", v->path_list ? "Edges" : patch_names[v->what], from, into);
    pairloop_print(report, &v->loop);
    if (v->freeze) print_styled(report, STYLE_DIM, "frozen: all patterns, as they are in the %s run\n", into);
    print_styled(report, STYLE_DIM, "effect: (metric - corrupted) / (clean - corrupted)%s%s%s\n",
                 v->pair.file ? ", of the means; " : "",
                 !v->pair.file   ? ""
                 : report->ascii ? "+-"
                                 : "\xc2\xb1",
                 v->pair.file ? ": standard error" : "");
}

static void print_notes(Report *report, const PatchView *v) {
    size_t n_same = v->n_same;
    if (n_same == v->n_rows && !v->partial)
        puts("Both runs have the same bits there: these patches change nothing.");
    else if (n_same)
        print_styled(report, STYLE_DIM,
                     "%zu of %zu have the same bits in both runs: there a patch changes nothing\n", n_same,
                     v->n_rows);
    pairloop_print_notes(report, &v->loop);
    if (v->partial && v->pair.file)
        printf("Ended early: the pairs behind these %zu are missing.\n", v->loop.n_pairs);
    if (v->partial && !v->pair.file) printf("Ended early: %zu of %zu are done.\n", v->n_done, v->n_rows);
}

/* The tokens of both texts, where positions are columns. */
static void print_texts(Report *report, const PatchView *v) {
    if (!has_positions(v) || v->pair.file) return;
    const int32_t *clean = v->study->subject.tokens.ids;
    putchar('\n');
    print_styled(report, STYLE_BOLD, "%4s  %-24s %s\n", "pos", "clean", "corrupted");
    for (size_t i = 0; i < v->n_tokens; i++) {
        bool differs = clean[i] != v->loop.corrupted[i];
        printf("%4zu  ", i);
        print_token(report, clean[i], differs ? 24 : 0);
        if (differs) putchar(' '), print_token(report, v->loop.corrupted[i], 0);
        putchar('\n');
    }
}

static void print_cell(const Report *report, const PatchRow *row) {
    if (!row->done)
        fputs(" ?", stdout);
    else if (row->same)
        fputs(" .", stdout);
    else if (row->effect < 0 && row->share >= 0.125)
        fputs(row->share < 0.5 ? " <" : "<<", stdout);
    else
        print_heat(report, row->effect < 0 ? 0 : row->share);
}

/* Whether a line of the map, whose cells these are, is worth its place among at most MAP_ROWS. */
static double largest_of_row(const PatchRow *rows, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].share > most) most = rows[i].share;
    return most;
}

/* The share that a line must have in some cell to be shown, so that no more than MAP_ROWS are. */
static double least_shown(const PatchView *v, size_t n_lines, size_t n_cells) {
    double least = 0;
    for (size_t n = n_lines; n > MAP_ROWS;) {
        least = least < 0.01 ? 0.01 : 1.2 * least;
        n = 0;
        for (size_t i = 0; i < n_lines; i++) n += largest_of_row(v->rows + i * n_cells, n_cells) >= least;
    }
    return least;
}

size_t patch_columns(const PatchView *v) {
    const Config *config = model_config(v->study->model);
    bool kv = v->what == PATCH_K || v->what == PATCH_V;
    return has_positions(v) ? v->to - v->from : kv ? config->n_head_kv : config->n_head;
}

void patch_line_name(const PatchView *v, const PatchRow *row, char name[24]) {
    snprintf(name, 24, v->what == PATCH_HEAD_POS ? "L%zuH%zu" : "L%zu", row->layer, row->head);
}

static void print_legend(const Report *report, const PatchView *v) {
    double most = 0;
    for (size_t i = 0; i < v->n_rows; i++)
        if (fabs(v->rows[i].effect) > most) most = fabs(v->rows[i].effect);
    print_styled(report, STYLE_DIM,
                 "shade: effect, up to %.4f; <: below 0; .: the same bits in both runs%s\n", most,
                 v->partial && !v->pair.file ? "; ?: not done" : "");
}

/* Lines are layers, or heads; columns positions, or heads: as many as the window is wide at a time. */
static void print_map(const Report *report, const PatchView *v) {
    bool kv = v->what == PATCH_K || v->what == PATCH_V;
    size_t n_cells = patch_columns(v);
    size_t n_lines = v->n_rows / n_cells, room = (report->width - LABEL_WIDTH) / 2;
    double least = least_shown(v, n_lines, n_cells);
    char name[24];
    for (size_t first = 0, n; first < n_cells; first += n) {
        n = at_most(n_cells - first, room);
        printf("\n%-*s", LABEL_WIDTH, has_positions(v) ? "pos" : kv ? "kv head" : "head");
        for (size_t i = first; i < first + n; i++)
            printf("%2zu", (i + (has_positions(v) ? v->from : 0)) % 100);
        putchar('\n');
        for (size_t line = 0; line < n_lines; line++) {
            const PatchRow *rows = v->rows + line * n_cells;
            if (largest_of_row(rows, n_cells) < least) continue;
            patch_line_name(v, rows, name);
            printf("%-*s", LABEL_WIDTH, name);
            for (size_t i = first; i < first + n; i++) print_cell(report, &rows[i]);
            putchar('\n');
        }
    }
    if (least > 0)
        print_styled(report, STYLE_DIM, "only heads that come to %.2f of the largest somewhere\n", least);
    print_legend(report, v);
}

/* Lists those that were done, and changed something, the largest effects first. */
static void print_strongest(Report *report, const PatchView *v) {
    size_t n_listed = 0;
    for (size_t i = 0; i < v->n_rows; i++)
        v->sizes[i] = v->rows[i].done && !v->rows[i].same ? v->rows[i].share : -1;
    size_t n = largest_of(v->sizes, v->n_rows, at_most(v->top, v->n_rows), v->places);
    while (n_listed < n && v->sizes[v->places[n_listed]] >= 0) {
        v->listed[n_listed] = v->rows[v->places[n_listed]];
        n_listed++;
    }
    if (n_listed == 0) return;
    putchar('\n');
    table_show(report, &cells_table, left_out(v), v->listed, n_listed, sizeof *v->listed);
}

void patch_show(Report *report, const PatchView *v) {
    if (is_json(report)) {
        json_patch(report, v);
        return;
    }
    print_metric(report, v);
    if (v->path_list) {
        putchar('\n');
        table_show(report, &paths_table, left_out(v), v->rows, v->n_rows, sizeof *v->rows);
    } else {
        print_texts(report, v);
        if (!has_neurons(v)) print_map(report, v);
        print_strongest(report, v);
    }
    print_notes(report, v);
}
