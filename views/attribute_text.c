/* The words and tables of attribute --by direct. */
#include "views/attribute_direct.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_WIDTH = 7 };

#define ROW(member) offsetof(DirectRow, member)

static const Column part_columns[] = {
    {"part", "part", CELL_NAME, ROW(name), -10},
    {"layer", NULL, CELL_SIZE, ROW(layer)},
    {"head", NULL, CELL_SIZE, ROW(head)},
    {"value", "value", CELL_REAL, ROW(value), 10, 4, .format = '+'},
    {"error", "\xc2\xb1", CELL_REAL, ROW(error), 9, 4, .ascii = "+-"},
    {NULL, "", CELL_BAR, ROW(share), 20, .need = 1},
};
static const Column neuron_columns[] = {
    {"neuron", "neuron", CELL_SIZE, ROW(neuron), 7},
    {"activation", "activation", CELL_REAL, ROW(activation), 12, 4, .format = '+'},
    {"value", "value", CELL_REAL, ROW(value), 10, 4, .format = '+'},
    {"error", "\xc2\xb1", CELL_REAL, ROW(error), 9, 4, .ascii = "+-"},
    {NULL, "", CELL_BAR, ROW(share), 20, .need = 1},
};
enum { PART_ERROR = 1 << 4, NEURON_ERROR = 1 << 3 };

static const Column layer_columns[] = {
    {"layer", "layer", CELL_SIZE, offsetof(LayerRow, layer), 5},
    {"attention", "attention", CELL_REAL, offsetof(LayerRow, attention), 11, 4, .format = '+'},
    {"mlp", "MLP", CELL_REAL, offsetof(LayerRow, mlp), 10, 4, .format = '+'},
    {"so_far", "so far", CELL_REAL, offsetof(LayerRow, so_far), 10, 4, .format = '+'},
};
static const Column source_columns[] = {
    {"key", "key", CELL_SIZE, offsetof(SourceRow, key), 4},
    {"token", "token", CELL_TOKEN, offsetof(SourceRow, id), 15, 14},
    {"weight", "weight", CELL_REAL, offsetof(SourceRow, weight), 9, 4},
    {"value", "value", CELL_REAL, offsetof(SourceRow, value), 10, 4, .format = '+'},
    {NULL, "", CELL_BAR, offsetof(SourceRow, share), 20, .need = 1},
};
static const Table parts_table = TABLE("parts", part_columns), layers_table = TABLE("layers", layer_columns),
                   strongest_table = TABLE("strongest", neuron_columns),
                   sources_table = TABLE("sources", source_columns);

static void json_heads(Report *report, const AttributeView *v, const Direct *direct) {
    json_array(report, "heads");
    for (size_t i = 0; i < direct->n_heads; i++) {
        const SourceTable *sources = &direct->sources[i];
        json_object(report, NULL);
        json_int(report, "layer", (int64_t)direct->heads[i].layer);
        json_int(report, "head", (int64_t)direct->heads[i].head);
        json_real(report, "sum", sources->sum);
        table_show(report, &sources_table, 0, sources->rows, v->query + 1, sizeof *sources->rows);
        json_end_object(report);
    }
    json_end_array(report);
}

static void json_neurons(Report *report, const AttributeView *v, const Direct *direct) {
    json_object(report, "neurons");
    json_int(report, "layer", (int64_t)v->neurons);
    json_int(report, "n", (int64_t)direct->n_neurons);
    table_show(report, &strongest_table, v->pair.file ? 0 : NEURON_ERROR, direct->top_neurons,
               direct->n_top_neurons, sizeof *direct->top_neurons);
    json_real(report, "others", direct->other_neurons);
    json_real(report, "bias", mean_value(&direct->neuron_biases));
    json_end_object(report);
}

static void json_direct(Report *report, const AttributeView *v, const Direct *direct) {
    const Config *config = model_config(v->study->model);
    json_text(report, "by", "direct", SIZE_MAX);
    if (!v->pair.file) {
        json_int(report, "query", (int64_t)v->query);
        json_token_or_null(report, "answer", v->answer);
        json_token_or_null(report, "wrong", v->wrong);
        json_real(report, "scale", direct->scale);
    } else {
        json_int(report, "n_texts", (int64_t)direct->n_texts);
        json_int(report, "n_left_out", (int64_t)direct->n_left_out);
        json_int(report, "n_cut", (int64_t)direct->n_cut);
    }
    json_real(report, "soft_cap", config->logit_cap != 0 ? (double)config->logit_cap : NAN);
    json_real(report, "sum", direct->sum);
    json_real(report, "logit", direct->logit);
    if (v->pair.file) json_real(report, "logit_error", direct->error);
    json_real(report, "difference", direct->difference);
    table_show(report, &parts_table, v->pair.file ? 0 : PART_ERROR, direct->rows, direct->n_rows,
               sizeof *direct->rows);
    table_show(report, &layers_table, 0, direct->layers, config->n_layer, sizeof *direct->layers);
    if (direct->n_heads) json_heads(report, v, direct);
    if (direct->n_neurons) json_neurons(report, v, direct);
}

static void print_asked(const Report *report, const AttributeView *v, const Direct *direct) {
    if (v->pair.file) {
        printf("logit of the answer %s; mean of %zu texts\n",
               direct->has_wrong ? "less that of the wrong one" : "less the mean over the vocabulary",
               direct->n_texts);
        return;
    }
    printf("logit of ");
    print_token(report, v->answer, 0);
    printf(" less %s", v->wrong < 0 ? "the mean over the vocabulary" : "that of ");
    if (v->wrong >= 0) print_token(report, v->wrong, 0);
    printf(", after ");
    print_token(report, v->study->subject.tokens.ids[v->query], 0);
    printf(" (position %zu)\n", v->query);
}

static void print_sum(const Report *report, const AttributeView *v, const Direct *direct) {
    const Config *config = model_config(v->study->model);
    printf("sum of all parts %+.4f, logit %+.4f", direct->sum, direct->logit);
    if (v->pair.file && !isnan(direct->error))
        printf(report->ascii ? " +- %.4f" : " \xc2\xb1 %.4f", direct->error);
    printf("; off by %.4f\n", direct->difference);
    print_styled(report, STYLE_DIM,
                 "value: what a part's output adds to it by itself, straight through the final norm\n"
                 "and the unembedding; the norm's scale stays what it is in this run%s%s\n",
                 !v->pair.file   ? ""
                 : report->ascii ? ";\n+-"
                                 : ";\n\xc2\xb1",
                 v->pair.file ? ": standard error of the mean" : "");
    if (config->logit_cap != 0)
        print_styled(report, STYLE_DIM,
                     "All of this is before the soft cap that this model puts on logits.\n");
}

static void print_cell(const Report *report, const DirectRow *row, double most) {
    double share = most > 0 ? row->share / most : 0;
    if (row->value < 0 && share >= 0.125)
        fputs(share < 0.5 ? " <" : "<<", stdout);
    else
        print_heat(report, row->value < 0 ? 0 : share);
}

/* The head with the largest value in size; NULL: there are none. */
static const DirectRow *largest_head(const Direct *direct) {
    const DirectRow *most = NULL;
    for (size_t i = 0; i < direct->n_rows; i++)
        if (direct->kinds[i] == WRITER_HEAD && (!most || direct->rows[i].share > most->share))
            most = &direct->rows[i];
    return most;
}

/* Lines are layers, columns heads: as many as the window is wide at a time. */
static void print_map(const Report *report, const AttributeView *v, const Direct *direct) {
    size_t n_head = model_config(v->study->model)->n_head, room = (report->width - LABEL_WIDTH) / 2;
    const DirectRow *most = largest_head(direct);
    if (!most) return;
    for (size_t first = 0, n; first < n_head; first += n) {
        n = at_most(n_head - first, room);
        printf("\n%-*s", LABEL_WIDTH, "head");
        for (size_t i = first; i < first + n; i++) printf("%2zu", i % 100);
        for (size_t i = 0; i < direct->n_rows; i++) {
            if (direct->kinds[i] != WRITER_HEAD || direct->rows[i].head < first ||
                direct->rows[i].head >= first + n)
                continue;
            char name[24];
            snprintf(name, sizeof name, "L%zu", direct->rows[i].layer);
            if (direct->rows[i].head == first) printf("\n%-*s", LABEL_WIDTH, name);
            print_cell(report, &direct->rows[i], most->share);
        }
        putchar('\n');
    }
    print_styled(report, STYLE_DIM, "shade: share of the largest, %s's %+.4f; <: it lowers\n", most->name,
                 most->value);
}

static void print_layers(Report *report, const AttributeView *v, const Direct *direct) {
    putchar('\n');
    table_show(report, &layers_table, 0, direct->layers, model_config(v->study->model)->n_layer,
               sizeof *direct->layers);
    print_styled(report, STYLE_DIM, "so far: from the embedding on; the biases (%+.4f) make it the sum\n",
                 direct->rows[direct->n_rows - 1].value);
}

static void print_sources(Report *report, const HeadSources *head, const SourceTable *sources) {
    char name[32];
    printf("\n%s by the position that it took it from: %+.4f in all\n",
           head_name(name, head->layer, head->head), sources->sum);
    table_print_titles(report, &sources_table, 0, NULL);
    for (size_t i = 0; i < sources->n_shown; i++)
        table_print_line(report, &sources_table, 0, &sources->rows[sources->shown[i]]);
}

static void print_neurons(Report *report, const AttributeView *v, const Direct *direct) {
    printf("\nL%zuMLP by neuron: the strongest of %zu\n", v->neurons, direct->n_neurons);
    table_show(report, &strongest_table, v->pair.file ? 0 : NEURON_ERROR, direct->top_neurons,
               direct->n_top_neurons, sizeof *direct->top_neurons);
    printf("others %+.4f, biases %+.4f\n", direct->other_neurons, mean_value(&direct->neuron_biases));
}

static void print_notes(const Report *report, const Direct *direct) {
    if (direct->n_cut)
        printf("%zu text%s an answer of several tokens: the first of them is taken\n", direct->n_cut,
               direct->n_cut == 1 ? " has" : "s have");
    if (!direct->n_left_out) return;
    printf("%zu text%s left out; %s: ", direct->n_left_out, direct->n_left_out == 1 ? "" : "s",
           direct->n_left_out == 1 ? "it does not fit" : "the first");
    print_wrapped(report, direct->left_out.message, strlen(direct->left_out.message));
    putchar('\n');
}

void direct_show(Report *report, AttributeView *v, Direct *direct) {
    if (is_json(report)) {
        json_direct(report, v, direct);
        return;
    }
    print_asked(report, v, direct);
    print_sum(report, v, direct);
    print_map(report, v, direct);
    print_layers(report, v, direct);
    putchar('\n');
    table_show(report, &parts_table, v->pair.file ? 0 : PART_ERROR, direct->top, direct->n_top,
               sizeof *direct->top);
    for (size_t i = 0; i < direct->n_heads; i++)
        print_sources(report, &direct->heads[i], &direct->sources[i]);
    if (direct->n_neurons) print_neurons(report, v, direct);
    print_notes(report, direct);
}
