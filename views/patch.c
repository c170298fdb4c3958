/*
 * patch: which activations carry the answer from one text to another (patching.h), or along which edge (paths.h).
 */
#include "views/patch.h"

#include "cli/print.h"
#include "cli/process.h"
#include "measures/scores.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATHS = 256 };
static const double TOLD_MS = 5000; /* work that takes longer is announced */

static const char *const what_names[] = {"resid", "resid_pre", "attn_out", "mlp_out",  "z",      "q",
                                         "k",     "v",         "pattern",  "head-pos", "neurons"};
static const size_t N_WHAT_NAMES = sizeof what_names / sizeof *what_names;

/* The end of an edge: "L3H4", "L5H2.q", "L5MLP", "L4STATE", "final". Moves *at behind it. */
static bool parse_end(const char **at, bool sends, PathEnd *end) {
    static const ProbeSite sites[] = {PROBE_Q, PROBE_K, PROBE_V, PROBE_GATE_INPUT};
    static const char letters[] = "qkvg";
    unsigned long long layer = 0, head = 0;
    bool one;
    *end = (PathEnd){PROBE_LOGITS};
    if (!sends && strncmp(*at, "final", 5) == 0) return *at += 5, true;
    if (!parse_head(at, &layer, &head, &one)) return false;
    *end = (PathEnd){PROBE_MLP_OUT, (size_t)layer, (size_t)head};
    if (!one && strncmp(*at, "MLP", 3) == 0) return *at += 3, true;
    if (!one && strncmp(*at, "STATE", 5) == 0) return end->site = PROBE_ATTN_OUT, *at += 5, true;
    if (!one) return false;
    end->site = PROBE_Z;
    if (sends) return true;
    const char *letter = **at == '.' && (*at)[1] ? strchr(letters, (*at)[1]) : NULL;
    if (!letter) return false;
    end->site = sites[letter - letters];
    return *at += 2, true;
}

static bool check_end(const Study *study, const PathEnd *end, const char *list, Error *error) {
    const Config *config = model_config(study->model);
    bool is_kv = end->site == PROBE_K || end->site == PROBE_V, is_head = is_head_end(end);
    size_t n_head = is_kv ? config->n_head_kv : config->n_head;
    if (end->site == PROBE_LOGITS) return true;
    if (end->layer >= config->n_layer)
        return refuse_number("--path", "layer", end->layer, "there are", config->n_layer, error);
    if (is_head && end->head >= n_head)
        return refuse_number("--path", is_kv ? "kv head" : "head", end->head, "a layer has", n_head, error);
    if (end->site == PROBE_ATTN_OUT && layer_has_heads(study->model, end->layer))
        return error_set(error, "--path %s: layer %zu keeps no state: it has heads", list, end->layer);
    if (end->site == PROBE_GATE_INPUT && !has_gated_heads(study->model))
        return error_set(error, "--path %s: the heads of this model have no gates", list);
    return !is_head || study_check_heads(study, end->layer, error);
}

static bool parse_paths(PatchView *v, Error *error) {
    const char *list = v->path_list, *at = list;
    v->paths = arena_new(&v->study->arena, MAX_PATHS, sizeof *v->paths);
    if (!arena_ok(&v->study->arena, error, "%d paths", MAX_PATHS)) return false;
    for (;; at++) {
        if (v->n_paths == MAX_PATHS) return error_set(error, "--path takes %d edges at most", MAX_PATHS);
        Path *path = &v->paths[v->n_paths++];
        const char *begin = at;
        bool ok = parse_end(&at, true, &path->from) && *at++ == ':' && parse_end(&at, false, &path->to);
        if (!ok || (*at && *at != ','))
            return error_set(
                       error,
                       "--path: '%s' is no list such as L3H4:L5H2.q,L2MLP:L4MLP,L5H1:final (.q, .k, .v or .g)",
                       list) ||
                   wrong_usage(error);
        if (!check_end(v->study, &path->from, list, error) || !check_end(v->study, &path->to, list, error))
            return false;
        if (!path_goes_up(model_config(v->study->model), path))
            return error_set(
                error, "--path %.*s: the receiver does not read what the sender writes: take a later one",
                (int)(at - begin), begin);
        if (!*at) return true;
    }
}

static bool check_neurons(const PatchView *v, Error *error) {
    return model_weights(v->study->model)->layers[v->layer].experts.n_expert == 0 ||
           error_set(error, "layer %zu has experts: their hidden numbers are not patched", v->layer);
}

/* Two names are of one place. */
static bool parse_what(const PatchView *v, PatchWhat *what, Error *error) {
    size_t named;
    if (!parse_choice("--what", v->what_name, what_names, N_WHAT_NAMES, &named, error)) return false;
    *what = (PatchWhat)(named - (named > 0));
    return true;
}

static bool read_options(PatchView *v, Error *error) {
    parse_what(v, &v->what, error); /* as check() did */
    if (!study_check_place(v->study, v->layer, NOT_GIVEN, NOT_GIVEN, 0, error)) return false;
    if (v->path_list) return parse_paths(v, error);
    if (v->what == PATCH_NEURONS) return check_neurons(v, error);
    return !patch_has_heads(v->what) || study_check_heads(v->study, v->layer, error);
}

/* Where all patterns are frozen nobody reads queries and keys. */
static bool check_freeze(const PatchView *v, Error *error) {
    size_t which;
    bool unread = v->what_name && (strcmp(v->what_name, "q") == 0 || strcmp(v->what_name, "k") == 0);
    if (!v->freeze) return true;
    if (!parse_choice("--freeze", v->freeze, (const char *const[]){"pattern"}, 1, &which, error))
        return false;
    return !(v->path_list || unread) ||
           error_set(error, "--freeze pattern is of cells that do not act by patterns alone: leave out %s",
                     v->path_list                     ? "--path"
                     : strcmp(v->what_name, "q") == 0 ? "--what q"
                                                      : "--what k");
}

static bool check(const StudyOptions *options, const void *view, Error *error) {
    const PatchView *v = view;
    PatchWhat what;
    if (!parse_what(v, &what, error)) return false;
    if (v->path_list && (v->what_name || v->layer != NOT_GIVEN || v->top != NOT_GIVEN))
        return error_set(error, "--path names edges: leave out %s",
                         v->what_name            ? "--what"
                         : v->layer != NOT_GIVEN ? "--layer"
                                                 : "--top");
    if (v->svg && (v->path_list || what == PATCH_NEURONS))
        return error_set(error, "--svg draws a grid of cells, which %s has not",
                         v->path_list ? "--path" : "--what neurons");
    bool ranged = v->from != NOT_GIVEN || v->to != NOT_GIVEN;
    if (ranged && (v->path_list || !patch_has_positions(what)))
        return error_set(error, "--from and --to choose positions, which %s has not",
                         v->path_list ? "--path" : "this --what");
    if (what == PATCH_NEURONS && v->layer == NOT_GIVEN) /* they are so many */
        return error_set(error, "--what neurons takes those of one layer: name it with --layer");
    return check_freeze(v, error) && pairs_check(options, &v->pair, error) &&
           metric_check(v->metric_name, &v->pair, error);
}

static void add_value(PatchView *v, PatchRow *row, double value, bool same, double clean, double corrupted) {
    effect_add(&row->sums, value, clean, corrupted);
    row->same = same && (row->same || v->loop.n_pairs == 0);
    row->done = true;
}

static void end_name(char *name, size_t size, const PathEnd *end) {
    if (end->site == PROBE_LOGITS)
        snprintf(name, size, "final");
    else if (end->site == PROBE_MLP_OUT)
        snprintf(name, size, "L%zuMLP", end->layer);
    else if (end->site == PROBE_ATTN_OUT)
        snprintf(name, size, "L%zuSTATE", end->layer);
    else if (end->site == PROBE_GATE_INPUT)
        snprintf(name, size, "L%zuH%zu.g", end->layer, end->head);
    else
        snprintf(name, size, "L%zuH%zu%s%s", end->layer, end->head, end->site == PROBE_Z ? "" : ".",
                 end->site == PROBE_Z ? "" : probe_site_name(end->site));
}

static bool make_rows(PatchView *v, size_t n, Error *error) {
    Arena *arena = &v->study->arena;
    v->n_rows = n;
    if (v->top == NOT_GIVEN) v->top = 10;
    v->rows = arena_new(arena, n, sizeof *v->rows);
    v->listed = arena_new(arena, at_most(v->top, n), sizeof *v->listed);
    v->places = arena_new(arena, n, sizeof *v->places);
    v->sizes = arena_new(arena, n, sizeof *v->sizes);
    return arena_ok(&v->study->arena, error, "%zu cells", n);
}

static bool run_paths(void *user, const Pair *pair, Arena *arena, Error *error) {
    PatchView *v = user;
    Paths paths = {.subject = &v->study->subject,
                   .paths = v->paths,
                   .n_paths = v->n_paths,
                   .n = pair->clean.n,
                   .noising = v->noising};
    bool ok = paths_run(&paths, pair->clean.ids, pair->corrupted.ids, &v->loop.metric, arena, error) &&
              (v->rows || make_rows(v, v->n_paths, error));
    double clean = paths.values[!v->noising], corrupted = paths.values[v->noising];
    v->loop.unfit = paths.readout.alike;
    for (size_t i = 0; ok && i < v->n_paths; i++) {
        PatchRow *row = &v->rows[i];
        char from[20], to[20];
        end_name(from, sizeof from, &v->paths[i].from);
        end_name(to, sizeof to, &v->paths[i].to);
        snprintf(row->name, sizeof row->name, "%s:%s", from, to);
        add_value(v, row, v->paths[i].value, v->paths[i].same, clean, corrupted);
    }
    paths_free(&paths);
    if (ok) pairloop_note(&v->loop, clean, corrupted);
    return ok;
}

static void name_row(const PatchView *v, const Pair *pair, const PatchCell *cell, PatchRow *row) {
    row->layer = cell->layer, row->head = cell->head, row->position = cell->position;
    if (v->what == PATCH_NEURONS)
        snprintf(row->name, sizeof row->name, "L%zuN%zu", cell->layer, cell->head);
    else if (patch_has_heads(v->what))
        head_name(row->name, cell->layer, cell->head);
    else
        snprintf(row->name, sizeof row->name, "L%zu", cell->layer);
    if (cell->position == SIZE_MAX) return;
    row->clean_token = pair->clean.ids[cell->position];
    row->corrupted_token = pair->corrupted.ids[cell->position];
}

static bool take_cells(PatchView *v, const Pair *pair, const Patching *patching, Error *error) {
    double clean = patching_clean(patching), corrupted = patching_corrupted(patching);
    if (!v->rows && !make_rows(v, patching->n_cells, error)) return false;
    v->n_tokens = patching->n, v->from = patching->from, v->to = patching->to;
    for (size_t i = 0; i < patching->n_cells; i++) {
        const PatchCell *cell = &patching->cells[i];
        name_row(v, pair, cell, &v->rows[i]);
        if (cell->done) add_value(v, &v->rows[i], cell->value, cell->first == patching->n, clean, corrupted);
    }
    pairloop_note(&v->loop, clean, corrupted);
    return true;
}

/* How long the rest takes, by what a part of it took. */
static void announce(const Patching *patching, double ms, double runs_done) {
    double left = patching_runs_left(patching) * ms / runs_done;
    if (!(left >= TOLD_MS)) return; /* or there was nothing to do */
    bool minutes = left > 120e3;
    fprintf(stderr,
            "study: note: %zu cells will take some %.0f %s; Ctrl-C ends it, and prints what is done\n",
            patching->n_cells - patching->n_done, left / (minutes ? 60e3 : 1e3), minutes ? "min" : "s");
    expect_interrupt(); /* what was promised is kept on a slow machine, too */
}

static bool fill(PatchView *v, Patching *patching, Error *error) {
    double start = now_ms(), runs = patching_runs_left(patching);
    for (bool ends = false, told = v->loop.n_pairs > 0; !ends;) {
        if (!subject_go_on(patching->subject, "cells", patching->n_done, patching->n_cells, error) ||
            !patching_step(patching, &ends, error))
            return false;
        if (!told) announce(patching, now_ms() - start, runs - patching_runs_left(patching));
        told = true;
    }
    subject_go_on(patching->subject, "cells", patching->n_cells, patching->n_cells, NULL);
    return true;
}

/* A table of positions wants as many tokens in all pairs that it has. */
static bool same_length(const PatchView *v, const Pair *pair, Error *error) {
    size_t before = v->n_tokens;
    if (v->loop.n_pairs == 0 || !patch_has_positions(v->what) || pair->clean.n == before) return true;
    return error_set(
        error,
        "%zu tokens, where the pairs before have %zu; a table of positions wants as many in all (--what z, "
        "q, k, v or pattern does not)",
        pair->clean.n, before);
}

/* The positions of --from and --to. */
static bool find_range(const PatchView *v, Patching *patching, Error *error) {
    size_t n = patching->n;
    if (!patch_has_positions(v->what)) return true;
    patching->from = v->from == NOT_GIVEN ? 0 : v->from;
    patching->to = v->to == NOT_GIVEN ? n : v->to;
    return (patching->from < patching->to && patching->to <= n) ||
           error_set(
               error,
               "--from %zu --to %zu: there are the positions 0 to %zu, and --to is the one behind the last",
               patching->from, patching->to, n - 1);
}

static bool run_cells(void *user, const Pair *pair, Arena *arena, Error *error) {
    PatchView *v = user;
    Patching patching = {
        .what = v->what, .layer = v->layer, .noising = v->noising, .freezes = v->freeze, .n = pair->clean.n};
    v->loop.unfit = !same_length(v, pair, error);
    if (v->loop.unfit || !find_range(v, &patching, error)) return false;
    bool ok = patching_begin(&patching, &v->study->subject, arena, pair->clean.ids, pair->corrupted.ids,
                             &v->loop.metric, error);
    v->loop.unfit = patching.readout.alike;
    bool whole = ok && fill(v, &patching, error);
    /* Of a single pair what is done is worth having; of many only those that are. */
    v->partial = ok && !whole && interrupted() && !v->pair.file;
    if (whole || v->partial) ok = take_cells(v, pair, &patching, error);
    patching_free(&patching);
    return ok && (whole || v->partial);
}

static void finish_rows(PatchView *v) {
    double most = 0;
    for (size_t i = 0; i < v->n_rows; i++) {
        PatchRow *row = &v->rows[i];
        row->effect = row->done ? effect_mean(&row->sums) : NAN;
        row->effect_error = row->done ? effect_error(&row->sums) : NAN;
        row->value = row->done ? effect_metric(&row->sums) : NAN;
        row->value_error = row->done ? effect_metric_error(&row->sums) : NAN;
        v->n_done += row->done;
        v->n_same += row->same;
        if (fabs(row->effect) > most) most = fabs(row->effect);
    }
    for (size_t i = 0; i < v->n_rows; i++) v->rows[i].share = most > 0 ? fabs(v->rows[i].effect) / most : 0;
}

static bool compute(Study *study, void *view, Error *error) {
    PatchView *v = view;
    v->study = study;
    v->loop = (PairLoop){.options = &v->pair, .metric_name = v->metric_name, .in_bits = true};
    if (!read_options(v, error)) return false;
    if (!pairloop_run(&v->loop, study, v->path_list ? run_paths : run_cells, v, error)) {
        v->partial = interrupted() && v->loop.n_pairs > 0;
        if (!v->partial) return false;
    }
    if (v->partial) last_words();
    finish_rows(v);
    return !v->svg || v->partial || patch_figure(v, error);
}

static bool show(Study *study, void *view, Error *error) {
    PatchView *v = view;
    patch_show(&study->report, v);
    return !v->partial || error_set(error, "interrupted");
}

static void free_patch(void *view) { pairloop_free(&((PatchView *)view)->loop); }

#define AT(member) offsetof(PatchView, member)

static const Option options[] = {
    PAIR_OPTIONS(PatchView, pair),
    {"--what", NULL, OPTION_TEXT, AT(what_name)},
    {"--metric", NULL, OPTION_TEXT, AT(metric_name)},
    {"--path", NULL, OPTION_ONCE, AT(path_list)},
    {"--layer", NULL, OPTION_SIZE, AT(layer), 0, 1e9},
    {"--from", NULL, OPTION_SIZE, AT(from), 0, 1e9},
    {"--to", NULL, OPTION_SIZE, AT(to), 0, 1e9},
    {"--top", NULL, OPTION_SIZE, AT(top), 0, 1e6},
    {"--svg", NULL, OPTION_ONCE, AT(svg), .file = true},
    {"--freeze", NULL, OPTION_ONCE, AT(freeze)},
    {"--noising", NULL, OPTION_ON, AT(noising)},
};

static const PatchView defaults = {.layer = NOT_GIVEN, .from = NOT_GIVEN, .to = NOT_GIVEN, .top = NOT_GIVEN};

const View view_patch = {
    .name = "patch",
    .summary = "which activations carry the answer from one text to another",
    .usage = "[MODEL] -p CLEAN --corrupted TEXT --answer T [--wrong T] [options]",
    .help = HELP(
        "One activation of the clean run is put into the corrupted run. The effect is the share of the way from\n"
        "the corrupted run's metric to the clean one's: 0 as if nothing had been done, 1 all of it.\n"
        "\n" PAIR_HELP
        "  --what resid|attn_out|mlp_out|head-pos   by layer and position (resid: what enters it; head-pos: z by head)\n"
        "  --what z|q|k|v|pattern|neurons   by head (k, v: kv head), or hidden number of the MLP; all positions\n"
        "  --layer N       of one layer (needed for neurons)\n"
        "  --from N --to M   of the positions N to M - 1\n"
        "  --path LIST     edges: L3H4:L5H2.q, L4STATE:L5MLP, L5H1:final; the reader alone sees the change\n"
        "  --noising       a corrupted activation into the clean run\n"
        "  --freeze pattern   all heads attend as in the run that is changed\n"
        "  --metric logit_diff|logit|logprob   of the answer (logit_diff with --wrong, else logprob)\n"
        "  --top N         cells that are listed (10)     --svg FILE   the grid as a figure for a paper\n"
        "\n"
        "examples:\n"
        "  ./study patch model.bin -p \"When Mary and John met, John gave a book to\" \\\n"
        "      --corrupted \"When Mary and John met, Mary gave a book to\" --answer \" Mary\" --wrong \" John\"\n"
        "  ./study patch model.bin --pairs pairs/ioi.jsonl --what z\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(PatchView),
    .check = check,
    .compute = compute,
    .show = show,
    .free = free_patch,
};
