/*
 * ablate: what changes when heads or MLPs are switched off (ablation.h): together, or, in a sweep, each in turn.
 */
#include "views/ablation.h"

#include <stdlib.h>
#include <string.h>

enum { STRONGEST = 10 /* cells of a sweep that are listed */ };

typedef enum Sweep { SWEEP_NONE, SWEEP_HEADS, SWEEP_MLPS } Sweep;

static const char *const by_names[] = {"zero", "mean", "resample"};
static const char *const sweep_names[] = {"", "heads", "mlps"}; /* an option's from 1 on */

typedef struct Ablate {
    Ablation ablation;
    Sweep sweep;
    Difference *cells; /* [n_cells] baseline against ablated */
    double *kl;        /* [n_cells] their KL(baseline ‖ ablated), nats */
    size_t n_cells;    /* parts in a sweep, else 1 */
} Ablate;

static bool choose_mlps(Ablation *ablation, const char *list, Error *error) {
    size_t n_layer = ablation->config->n_layer;
    bool *layers = calloc(n_layer, sizeof *layers);
    if (!layers) return error_set(error, "not enough memory");
    Error cause;
    bool ok =
        parse_list(list, "layer", n_layer, layers, &cause) || error_set(error, "--mlps: %s", cause.message);
    for (size_t layer = 0; ok && layer < n_layer; layer++)
        if (layers[layer]) ablation_choose(ablation, layer, ablation->config->n_head);
    free(layers);
    return ok;
}

static bool read_options(Ablate *ablate, Error *error) {
    Ablation *ablation = &ablate->ablation;
    const StudyOptions *options = ablation->study->options;
    size_t by, sweep;
    if (!parse_choice("--by", options->by, by_names, 3, &by, error) ||
        !parse_choice("--sweep", options->sweep, sweep_names + 1, 2, &sweep, error))
        return false;
    sweep = options->sweep ? sweep + 1 : SWEEP_NONE;
    ablate->sweep = (Sweep)sweep;
    ablation->by = (By)by;
    ablation->in_turn = sweep != SWEEP_NONE;
    if (ablation->study->tokens.n < 2)
        return error_set(error,
                         "ablate scores each token after the first: give a text of two tokens or more");
    if (!options->heads && !options->mlps && !sweep)
        return error_set(error, "say what to switch off: --heads L0H1, --mlps 0, or --sweep heads|mlps");
    if ((options->heads || options->mlps) && sweep)
        return error_set(error, "--sweep takes all %s in turn: give it without --heads and --mlps",
                         sweep_names[sweep]);
    if (options->hard_zero && by != BY_ZERO)
        return error_set(error, "--hard-zero says what zero is: it does not go with --by %s", by_names[by]);
    if (options->with && by == BY_ZERO)
        return error_set(error,
                         "--with is the reference text of --by mean or --by resample; give one of these");
    if (!options->with && by == BY_RESAMPLE)
        return error_set(error, "--by resample takes its values from another text: give it by --with FILE");
    const Config *config = ablation->config;
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        for (size_t head = 0; sweep == SWEEP_HEADS && head < config->n_head; head++)
            ablation_choose(ablation, layer, head);
        if (sweep == SWEEP_MLPS) ablation_choose(ablation, layer, config->n_head);
    }
    return (!options->heads || ablation_choose_heads(ablation, "--heads", options->heads, error)) &&
           (!options->mlps || choose_mlps(ablation, options->mlps, error));
}

static bool read_reference(Ablation *ablation, Error *error) {
    const Study *study = ablation->study;
    const char *path = study->options->with;
    size_t n = study->tokens.n, limit = study_n_ctx(study);
    TextBuffer text = {0};
    bool bos, ok = read_text(path, &text, error);
    if (ok && text.n == 0) ok = error_set(error, "--with %s: the file is empty", path);
    ok = ok && study_encode(study, text.data, text.n, &ablation->reference, &bos, error);
    free(text.data);
    if (!ok) return false;
    if (ablation->by == BY_RESAMPLE && ablation->reference.n != n)
        return error_set(error, "--with %s: %zu tokens, but the text has %zu; --by resample needs as many",
                         path, ablation->reference.n, n);
    return ablation->reference.n <= limit ||
           error_set(error, "--with %s: %zu tokens, more than the context of %zu", path,
                     ablation->reference.n, limit);
}

static bool run_cells(Ablate *ablate, Error *error) {
    Ablation *ablation = &ablate->ablation;
    ablate->n_cells = ablate->sweep ? ablation->n_chosen : 1;
    ablate->cells = calloc(ablate->n_cells, sizeof *ablate->cells);
    ablate->kl = calloc(ablate->n_cells, sizeof *ablate->kl);
    if (!ablate->cells || !ablate->kl) return error_set(error, "not enough memory for ablate");
    if (!ablation_baseline(ablation, error)) return false;
    if (!ablate->sweep)
        return ablation_run(ablation, ablation_first_layer(ablation), ablate->cells, NULL, NULL, error);
    bool ok = true;
    for (size_t i = 0; ok && i < ablate->n_cells; i++) {
        size_t place = ablation->chosen[i];
        show_progress(sweep_names[ablate->sweep], i, ablate->n_cells);
        ablation->off[place] = true;
        ok = ablation_run(ablation, part_layer(ablation, place), &ablate->cells[i], NULL, NULL, error);
        ablation->off[place] = false;
        ablate->kl[i] = difference_kl(&ablate->cells[i]);
    }
    show_progress(sweep_names[ablate->sweep], 1, 1);
    return ok;
}

static void print_json(Report *report, const Ablate *ablate) {
    const Ablation *ablation = &ablate->ablation;
    char name[32];
    json_text(report, "by", by_names[ablation->by], SIZE_MAX);
    json_bool(report, "hard_zero", ablation->study->options->hard_zero);
    json_object(report, "baseline");
    json_int(report, "n", (int64_t)ablate->cells->n_scored);
    json_real(report, "nll_nats", difference_nll_a(ablate->cells));
    json_end_object(report);
    if (!ablate->sweep) {
        json_array(report, "ablated");
        for (size_t i = 0; i < ablation->n_chosen; i++)
            json_text(report, NULL, part_name(name, ablation, ablation->chosen[i]), SIZE_MAX);
        json_end_array(report);
        json_object(report, "ablation");
        json_real(report, "nll_nats", difference_nll_b(ablate->cells));
        json_ablated(report, ablate->cells);
        json_end_object(report);
        return;
    }
    json_text(report, "sweep", sweep_names[ablate->sweep], SIZE_MAX);
    json_array(report, "cells");
    for (size_t i = 0; i < ablate->n_cells; i++) {
        json_object(report, NULL);
        json_int(report, "layer", (int64_t)part_layer(ablation, ablation->chosen[i]));
        if (ablate->sweep == SWEEP_HEADS)
            json_int(report, "head", (int64_t)part_head(ablation, ablation->chosen[i]));
        json_ablated(report, &ablate->cells[i]);
        json_end_object(report);
    }
    json_end_array(report);
}

static void print_how(Report *report, const Ablation *ablation) {
    const StudyOptions *options = ablation->study->options;
    bool has_head = part_head(ablation, *ablation->chosen) < ablation->config->n_head;
    switch (ablation->by) {
    case BY_ZERO:
        printf("set to zero%s\n", !has_head            ? ""
                                  : options->hard_zero ? ", value bias and all"
                                                       : " (a head: to its value bias, if it has one)");
        break;
    case BY_MEAN:
        printf("set to the mean over %s (%zu tokens)\n", options->with ? options->with : "this text",
               options->with ? ablation->reference.n : ablation->study->tokens.n);
        break;
    case BY_RESAMPLE: printf("set to the values on %s\n", options->with); break;
    }
    print_styled(report, STYLE_DIM,
                 "change: nll without it minus nll with it, bits a token; above 0: it helped\n"
                 "KL: bits by which the prediction moved; top-1: where the likeliest token is\n"
                 "another; both over all positions\n");
}

static void print_one(Report *report, const Ablate *ablate) {
    const Ablation *ablation = &ablate->ablation;
    const Difference *difference = ablate->cells;
    char name[32];
    size_t column = 0;
    for (size_t i = 0; i < ablation->n_chosen; i++) {
        part_name(name, ablation, ablation->chosen[i]);
        if (column && column + strlen(name) > report->width) putchar('\n'), column = 0;
        column += (size_t)printf("%s ", name);
    }
    if (column + 60 > report->width) putchar('\n'); /* what print_how adds */
    print_how(report, ablation);
    putchar('\n');
    difference_print(report, difference, "baseline", "ablated", "change");
    printf("%-14s %31.1f%%  %zu of %zu positions\n", "top-1 changed",
           100 * difference_top1_changed(difference), difference->top1_changed, difference->n);
}

static void print_cell(Report *report, const Ablate *ablate, size_t cell, double most) {
    const Ablation *ablation = &ablate->ablation;
    const Difference *difference = &ablate->cells[cell];
    char name[32];
    printf("%-8s %+9.4f %9.4f %7.1f%%", part_name(name, ablation, ablation->chosen[cell]),
           ablated_delta_nll(difference) * BITS_PER_NAT, difference_kl(difference) * BITS_PER_NAT,
           100 * difference_top1_changed(difference));
    print_bar(report, difference_kl(difference) / most, 24);
    putchar('\n');
}

/* Layers down, heads across, as many as the window is wide at a time. */
static void print_map(Report *report, const Ablate *ablate, double most) {
    const Config *config = ablate->ablation.config;
    size_t n_head = config->n_head, room = (report->width - 7) / 2;
    for (size_t first = 0, n; first < n_head; first += n) {
        n = at_most(n_head - first, room);
        printf("\nhead   ");
        for (size_t head = first; head < first + n; head++) printf("%2zu", head % 100);
        putchar('\n');
        for (size_t layer = 0; layer < config->n_layer; layer++) {
            printf("L%-5zu ", layer);
            for (size_t head = first; head < first + n; head++)
                print_heat(report, ablate->kl[layer * n_head + head] / most);
            putchar('\n');
        }
    }
}

static void print_sweep(Report *report, const Ablate *ablate) {
    const Ablation *ablation = &ablate->ablation;
    size_t strongest[STRONGEST], n_strongest = largest_of(ablate->kl, ablate->n_cells, STRONGEST, strongest);
    double most = ablate->kl[strongest[0]];
    bool heads = ablate->sweep == SWEEP_HEADS;
    printf("each %s in turn ", heads ? "head" : "MLP");
    print_how(report, ablation);
    printf("baseline: nll %.4f bits a token over %zu\n", difference_nll_a(ablate->cells) * BITS_PER_NAT,
           ablate->cells->n_scored);
    if (heads) {
        print_map(report, ablate, most);
        print_styled(report, STYLE_DIM, "shade: KL, from 0 to %.4f bits\n", most * BITS_PER_NAT);
    }
    print_styled(report, STYLE_BOLD, "\n%-8s %9s %9s %8s\n", heads ? "head" : "MLP", "change", "KL", "top-1");
    if (!heads)
        for (size_t i = 0; i < ablate->n_cells; i++) print_cell(report, ablate, i, most);
    for (size_t i = 0; heads && i < n_strongest; i++) print_cell(report, ablate, strongest[i], most);
}

bool view_ablate(Study *study, Error *error) {
    Report *report = &study->report;
    Ablate ablate = {0};
    Ablation *ablation = &ablate.ablation;
    bool ok = ablation_begin(ablation, study, error) && read_options(&ablate, error) &&
              (!study->options->with || read_reference(ablation, error)) && run_cells(&ablate, error);
    if (ok) {
        report_open(report, study);
        if (report->json)
            print_json(report, &ablate);
        else if (ablate.sweep)
            print_sweep(report, &ablate);
        else
            print_one(report, &ablate);
        report_close(report);
    }
    ablation_free(ablation);
    free(ablate.cells);
    free(ablate.kl);
    return ok;
}
