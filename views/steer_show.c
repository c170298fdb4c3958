/* How `steer` shows what came of it. */
#include "views/steer.h"

#include <math.h>
#include <string.h>

#define LAYER(member) offsetof(SteeredLayer, member)

static const Column layer_columns[] = {
    {"layer", "layer", CELL_SIZE, LAYER(layer), 5},
    {"direction", "direction", CELL_REAL, LAYER(length), 12, 4},
    {"stream", "stream", CELL_REAL, LAYER(stream), 12, 4},
};
static const Table layers_table = TABLE("layers", layer_columns);

static const Column next_columns[] = {
    {"token", "next token", CELL_TOKEN, offsetof(NextToken, id), 14, 14},
    {"baseline", "baseline", CELL_REAL, offsetof(NextToken, baseline), 11, 2, 100, "%"},
    {"steered", "steered", CELL_REAL, offsetof(NextToken, steered), 11, 2, 100, "%"},
};
static const Table next_table = TABLE("next", next_columns);

static void json_cells(Report *report, const SteerView *view) {
    const char *key = view->answer ? "probability" : "nll_nats";
    json_array(report, "cells");
    for (size_t i = 0; i < view->n_layers; i++)
        for (size_t k = 0; k < view->n_strengths; k++) {
            json_object(report, NULL);
            json_int(report, "layer", (int64_t)view->layers[i].layer);
            json_real(report, "strength", view->strengths[k]);
            json_real(report, key, view->layers[i].cells[k]);
            json_end_object(report);
        }
    json_end_array(report);
}

static void json_sweep(Report *report, const SteerView *view) {
    json_object(report, "baseline");
    json_real(report, view->answer ? "probability" : "nll_nats", view->answered.baseline);
    json_end_object(report);
    if (view->answer) json_token_object(report, "answer", view->answer_id);
    json_cells(report, view);
}

static void json_runs(Report *report, const SteerView *view) {
    static const char *const keys[] = {"baseline", "steered"};
    static const DifferencePart parts[] = {BASELINE, ABLATED};
    for (int i = 0; i < 2; i++) {
        json_object(report, keys[i]);
        json_difference(report, &view->runs.difference, parts[i]);
        if (view->n_predict)
            json_text(report, "text", view->texts[i].n ? view->texts[i].data : "", view->texts[i].n);
        json_end_object(report);
    }
    table_show(report, &next_table, 0, view->next, view->n_next, sizeof *view->next);
    if (view->answer) table_json_object(report, "answer", &next_table, 0, &view->answered);
}

static void json_steer(Report *report, const SteerView *view) {
    json_text(report, "source", steer_source_names[view->source], SIZE_MAX);
    json_text(report, "site", probe_site_name(view->steering.site), SIZE_MAX);
    json_text(report, "positions", view->position_list ? view->position_list : "all", SIZE_MAX);
    json_bool(report, "project", view->project);
    json_bool(report, "unit", view->unit);
    if (!view->sweep) json_real(report, "strength", (double)view->strength);
    table_show(report, &layers_table, view->sweep ? 1 << 2 : 0, view->layers, view->n_layers,
               sizeof *view->layers);
    (view->sweep ? json_sweep : json_runs)(report, view);
    if (view->output) json_text(report, "output", view->output, SIZE_MAX);
}

/* A text of the command line, as much as a line has room for. */
static void print_part(const Report *report, const char *text, const char *path, size_t n) {
    if (text)
        print_quoted(report, text, strlen(text), 0);
    else
        printf("%zu texts of ", n), print_path(report, path);
}

static void print_source(const Study *study, const SteerView *view) {
    const Report *report = &study->report;
    printf("d: ");
    switch (view->source) {
    case FROM_TEXTS:
        print_part(report, view->plus, view->plus_file, view->n_plus);
        printf("\n   minus ");
        print_part(report, view->minus, view->minus_file, view->n_minus);
        printf("\n   at %s, %s", probe_site_name(view->steering.site),
               view->average && strcmp(view->average, "last") == 0 ? "last positions"
                                                                   : "means over positions");
        break;
    case FROM_NEURON: printf("what neuron %s writes", view->neuron); break;
    case FROM_TOKEN:
        printf("the unembedding row of ");
        print_token(report, view->token_id, 0);
        break;
    case FROM_FILE: print_path(report, view->file); break;
    case N_SOURCES: break;
    }
    puts(view->unit ? ", made 1 long" : "");
}

static void print_how(const SteerView *view) {
    const char *site = probe_site_name(view->steering.site);
    const char *positions = view->position_list ? view->position_list : "all";
    printf("%s of a layer becomes ", site);
    if (view->project)
        printf("x - %s(x.u)u, u = d/|d|", view->sweep ? "strength*" : "");
    else
        printf("x + %s", view->sweep ? "strength*d" : "");
    if (!view->sweep && view->project && view->strength != 1)
        printf(", %g times of it", (double)view->strength);
    if (!view->sweep && !view->project) printf("%g*d", (double)view->strength);
    printf("; positions: %s\n", positions);
}

static void print_texts(const Report *report, const SteerView *view) {
    static const char *const titles[] = {"without: ", "steered: "};
    for (int i = 0; i < 2 && view->n_predict; i++) {
        putchar('\n');
        print_styled(report, STYLE_BOLD, "%s", titles[i]);
        print_quoted(report, view->texts[i].n ? view->texts[i].data : "", view->texts[i].n, 0);
    }
    if (view->n_predict) putchar('\n');
}

static void print_runs(Report *report, const SteerView *view) {
    static const char *const titles[] = {"baseline", "steered", "change"};
    print_styled(report, STYLE_DIM, "direction: the length of d; stream: mean length of x there%s\n\n",
                 view->stream.first ? ", the BOS left out" : "");
    table_show(report, &layers_table, 0, view->layers, view->n_layers, sizeof *view->layers);
    putchar('\n');
    difference_print(report, &view->runs.difference, titles, false);
    putchar('\n');
    table_show(report, &next_table, 0, view->next, view->n_next, sizeof *view->next);
    if (view->answer) table_print_line(report, &next_table, 0, &view->answered);
    print_texts(report, view);
    if (view->output) printf("\n"), print_path(report, view->output), printf(": written\n");
}

static void print_sweep(const Report *report, const SteerView *view) {
    double unit = view->answer ? 1 : BITS_PER_NAT;
    int digits = view->answer ? 5 : 3;
    if (view->answer) {
        printf("probability of ");
        print_token(report, view->answer_id, 0);
        printf(" after the text");
    } else {
        printf("nll of the text, bits a token");
    }
    printf("; without steering %.*f\n\n", digits, view->answered.baseline * unit);
    print_styled(report, STYLE_BOLD, "layer");
    for (size_t k = 0; k < view->n_strengths; k++)
        print_styled(report, STYLE_BOLD, "%9g", view->strengths[k]);
    putchar('\n');
    for (size_t i = 0; i < view->n_layers; i++) {
        printf("%5zu", view->layers[i].layer);
        for (size_t k = 0; k < view->n_strengths; k++)
            printf("%9.*f", digits, view->layers[i].cells[k] * unit);
        putchar('\n');
    }
}

bool steer_show(Study *study, void *own, Error *error) {
    const SteerView *view = own;
    Report *report = &study->report;
    (void)error;
    if (is_json(report)) {
        json_steer(report, view);
        return true;
    }
    print_source(study, view);
    print_how(view);
    if (view->sweep)
        print_sweep(report, view);
    else
        print_runs(report, view);
    return true;
}
