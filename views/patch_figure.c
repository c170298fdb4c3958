/* The grid of `patch` as a figure: lines are layers, or heads, columns positions, or heads. */
#include "attn.h"
#include "cli/figure.h"
#include "views/patch.h"

#include <math.h>
#include <stdio.h>

static const PatchRow *row_at(const PatchView *v, size_t row, size_t col) {
    return &v->rows[row * patch_columns(v) + col];
}

static FigureLabel label(const void *user, bool is_col, size_t at) {
    const PatchView *v = user;
    const PatchRow *row = is_col ? row_at(v, 0, at) : row_at(v, at, 0);
    FigureLabel label = {"", row->clean_token, -1};
    if (!is_col)
        patch_line_name(v, row, label.word);
    else if (!patch_has_positions(v->what))
        snprintf(label.word, sizeof label.word, v->what == PATCH_K || v->what == PATCH_V ? "KV%zu" : "H%zu",
                 row->head);
    else if (v->pair.file)
        snprintf(label.word, sizeof label.word, "%zu", row->position);
    else if (row->corrupted_token != row->clean_token)
        label.other = row->corrupted_token;
    return label;
}

static double effect(const void *user, size_t row, size_t col) { return row_at(user, row, col)->effect; }

static void draw(const PatchView *v, FILE *file) {
    const char *from = v->noising ? "corrupted" : "clean", *into = v->noising ? "clean" : "corrupted";
    const Report report = {.tokenizer = v->study->tokenizer};
    char title[64], about[300];
    double most = 0;
    for (size_t i = 0; i < v->n_rows; i++) most = fmax(most, fabs(v->rows[i].effect));
    snprintf(title, sizeof title, "%s: %s into %s", patch_names[v->what], from, into);
    snprintf(about, sizeof about,
             "Effect of each patch: (metric - corrupted) / (clean - corrupted); metric %s, clean %+.4f, "
             "corrupted %+.4f nats; %zu pair%s%s. attn %s",
             metric_names[v->loop.metric.kind], effect_metric(&v->loop.clean),
             effect_metric(&v->loop.corrupted_sums), v->loop.n_pairs, v->loop.n_pairs == 1 ? "" : "s",
             v->freeze ? "; patterns frozen" : "", ATTN_VERSION);
    figure_write(file, &(Figure){.report = &report,
                                 .title = title,
                                 .about = about,
                                 .n_rows = v->n_rows / patch_columns(v),
                                 .n_cols = patch_columns(v),
                                 .most = most > 0 ? most : 1,
                                 .scale = true,
                                 .to = ", ",
                                 .user = v,
                                 .label = label,
                                 .value = effect});
}

bool patch_figure(const PatchView *v, Error *error) {
    OutputFile output = {0};
    Inputs inputs = study_inputs(v->study);
    if (v->pair.file) inputs.text = v->pair.file;
    bool ok = output_open(&output, v->svg, &inputs, error);
    if (ok) draw(v, output.file);
    ok = ok && output_finish(&output, error);
    output_abandon(&output);
    return ok;
}
