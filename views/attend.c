/*
 * attend: which tokens a head looks at. The text is fed once, patterns are collected on the way, and rows
 * shown: as heat maps side by side, as the strongest keys of one query, or one by one while the model
 * writes on.
 *
 * Rows and columns are items: the tokens, or with --words runs of them. The weight of a word as key is the
 * sum over its tokens, its row as query the mean over theirs.
 */
#include "views/patterns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ITEM_WIDTH = 14,                  /* columns of a token */
    LABEL_WIDTH = 5 + ITEM_WIDTH + 1, /* its number, itself, a space */
    KEY_WIDTH = 2 + ITEM_WIDTH + 6,   /* a strong key and its weight */
    SINK_WIDTH = 2 + 11,
    MIN_MAP_WIDTH = 12, /* the name of what it shows stands above it */
    TOP = 10,
};

typedef struct Attend {
    Study *study;
    Patterns patterns;
    size_t *begin; /* [n_items + 1] first token of each item; the last is the number of tokens */
    size_t n_items;
    JoinedText text;       /* with --words */
    size_t first, n_shown; /* items whose rows are shown */
    double *row;           /* of one item, [n_items] */
    size_t *strongest;     /* keys of a row, [n_items] */
} Attend;

static bool read_choices(Attend *attend, Error *error) {
    const StudyOptions *o = attend->study->options;
    const Config *config = model_config(attend->study->model);
    Patterns *patterns = &attend->patterns;
    static const char *const bys[] = {"weight", "value"}, *const reduces[] = {"mean", "max"};
    size_t by, reduce;
    if (!parse_choice("--by", o->by, bys, 2, &by, error) ||
        !parse_choice("--reduce", o->reduce, reduces, 2, &reduce, error))
        return false;
    if (o->reduce && o->head >= 0)
        return error_set(error, "--reduce takes all heads together; leave out --head %" PRId64, o->head);
    if (o->n_predict > 0 && (o->layer < 0 || (o->head < 0 && !o->reduce)))
        return error_set(
            error, "-n shows one row for each new token: choose it with --layer and --head or --reduce");
    if (o->n_predict > 0 && (o->query >= 0 || o->words))
        return error_set(error, "-n goes without %s: its queries are the new tokens",
                         o->words ? "--words" : "--query");
    patterns->layer = o->layer < 0 ? 0 : (size_t)o->layer;
    patterns->n_layers = o->layer < 0 ? config->n_layer : 1;
    patterns->head = o->head < 0 ? 0 : (size_t)o->head;
    patterns->n_heads = o->head < 0 ? config->n_head : 1;
    patterns->by_value = by == 1;
    patterns->reduce = !o->reduce ? REDUCE_NONE : reduce == 0 ? REDUCE_MEAN : REDUCE_MAX;
    patterns->no_sink = o->no_sink;
    patterns->normalise = o->norm;
    return true;
}

/* The items of the text, and room for those of n_tokens. */
static bool find_items(Attend *attend, size_t n_tokens, Error *error) {
    const Study *study = attend->study;
    attend->begin = calloc(n_tokens + 1, sizeof *attend->begin);
    attend->row = calloc(n_tokens, sizeof *attend->row);
    attend->strongest = calloc(n_tokens, sizeof *attend->strongest);
    if (!attend->begin || !attend->row || !attend->strongest)
        return error_set(error, "not enough memory for %zu tokens", n_tokens);
    for (size_t i = 0; i < n_tokens; i++)
        if (!study->options->words || begins_word(study, i)) attend->begin[attend->n_items++] = i;
    attend->begin[attend->n_items] = n_tokens;
    return !study->options->words || join_tokens(study, true, &attend->text, error);
}

static size_t item_of(const Attend *attend, size_t token) {
    size_t item = 0;
    while (attend->begin[item + 1] <= token) item++;
    return item;
}

/* The item + 1 numbers of an item's row. */
static const double *item_row(const Attend *attend, size_t map, size_t item) {
    const size_t *begin = attend->begin;
    double n_queries = (double)(begin[item + 1] - begin[item]);
    for (size_t key = 0; key <= item; key++) attend->row[key] = 0;
    for (size_t query = begin[item]; query < begin[item + 1]; query++) {
        const double *row = patterns_row(&attend->patterns, map, query);
        for (size_t key = 0; key <= item; key++)
            for (size_t token = begin[key]; token < begin[key + 1] && token <= query; token++)
                attend->row[key] += row[token] / n_queries;
    }
    return attend->row;
}

/* What --no-sink left out of an item's row. */
static double item_dropped(const Attend *attend, size_t map, size_t item) {
    const Patterns *patterns = &attend->patterns;
    size_t begin = attend->begin[item], end = attend->begin[item + 1];
    double sum = 0;
    for (size_t query = begin; query < end; query++)
        sum += patterns->dropped[map * patterns->n_rows + query - patterns->first];
    return sum / (double)(end - begin);
}

/* What a map is of: "L3H7", "L3 mean of 12 heads", "max of all heads". */
static void name_map(const Attend *attend, size_t map, char name[64]) {
    const Patterns *patterns = &attend->patterns;
    const char *reduce = patterns->reduce == REDUCE_MEAN ? "mean" : "max";
    if (!patterns->reduce)
        head_name(name, patterns->layer + map / patterns->n_heads, patterns->head + map % patterns->n_heads);
    else if (patterns->n_layers == 1 && attend->study->options->layer >= 0)
        snprintf(name, 64, "L%zu %s of heads", patterns->layer, reduce);
    else
        snprintf(name, 64, "%s of all heads", reduce);
}

/* For people: an item in `width` columns. */
static void print_item(const Attend *attend, size_t item, size_t width) {
    const Study *study = attend->study;
    const size_t *begin = &attend->begin[item], *offsets = attend->text.offsets;
    if (study->options->words)
        print_quoted(&study->report, attend->text.bytes + offsets[begin[0]],
                     offsets[begin[1]] - offsets[begin[0]], width);
    else
        print_token(&study->report, study, study->tokens.ids[begin[0]], width);
}

static void print_label(const Attend *attend, size_t item) {
    print_styled(&attend->study->report, STYLE_DIM, "%4zu ", item);
    print_item(attend, item, ITEM_WIDTH);
}

/* One dim line: what the numbers are. */
static void print_meaning(const Attend *attend) {
    const Report *report = &attend->study->report;
    const Patterns *patterns = &attend->patterns;
    print_style(report, STYLE_DIM);
    if (patterns->by_value)
        fputs(report->ascii ? "Attention weight * |v W_O|" : "Attention weight × ‖v W_O‖", stdout);
    else
        fputs("Attention weights", stdout);
    fputs(" of a query (row) over its keys (columns: itself and what came before)", stdout);
    if (patterns->no_sink)
        fputs(",\nwithout token 0 (sink: what it held), renormalised", stdout);
    else if (patterns->normalise || (!patterns->by_value && patterns->reduce != REDUCE_MAX))
        fputs(report->width > 112 ? "; a row sums to 1" : ";\na row sums to 1", stdout);
    puts(".");
    print_style(report, STYLE_PLAIN);
}

static void print_strong_key(const Attend *attend, const double *row, size_t key) {
    fputs("  ", stdout);
    print_item(attend, key, ITEM_WIDTH);
    printf("%6.3f", row[key]);
}

/* The strongest keys of a row on what is left of a line. */
static void print_strongest(const Attend *attend, const double *row, size_t n, size_t used) {
    const Report *report = &attend->study->report;
    size_t room = report->width > used + KEY_WIDTH ? (report->width - used) / KEY_WIDTH : 1;
    size_t k = largest_of(row, n, at_most(study_top(attend->study, TOP), room), attend->strongest);
    for (size_t i = 0; i < k; i++) print_strong_key(attend, row, attend->strongest[i]);
    putchar('\n');
}

/* The largest number shown, by which the colours go. */
static double largest_shown(const Attend *attend) {
    double largest = 0;
    for (size_t map = 0; map < attend->patterns.n_maps; map++)
        for (size_t i = attend->first; i < attend->first + attend->n_shown; i++) {
            const double *row = item_row(attend, map, i);
            for (size_t key = attend->first; key <= i; key++) largest = fmax(largest, row[key]);
        }
    return largest > 0 ? largest : 1;
}

static void print_legend(const Report *report, double scale) {
    print_styled(report, STYLE_DIM, "cells:");
    for (int i = 0; i <= 4; i++) {
        fputs("  ", stdout);
        print_heat(report, i / 4.0);
        printf(" %.2g", scale * i * i / 16);
    }
    putchar('\n');
}

/* Beside the row of a map that stands alone: its strongest key, and what the sink held. */
static void print_note(const Attend *attend, size_t map, size_t item, const double *row) {
    size_t strongest = 0;
    for (size_t key = 1; key <= item; key++)
        if (row[key] > row[strongest]) strongest = key;
    if (row[strongest] > 0) print_strong_key(attend, row, strongest);
    if (attend->patterns.no_sink && item > 0) printf("  sink %6.3f", item_dropped(attend, map, item));
}

/* Maps [map, map + n) side by side. */
static void print_maps(const Attend *attend, size_t map, size_t n, double scale, bool notes) {
    const Report *report = &attend->study->report;
    size_t first = attend->first, end = first + attend->n_shown, width = 2 * attend->n_shown;
    int gap = 2 + (width < MIN_MAP_WIDTH ? (int)(MIN_MAP_WIDTH - width) : 0);
    char name[64];
    printf("\n%*s", LABEL_WIDTH, "");
    print_style(report, STYLE_BOLD);
    for (size_t m = 0; m < n; m++) {
        name_map(attend, map + m, name);
        printf("%-*s", m + 1 < n ? (int)width + gap : 0, name);
    }
    print_style(report, STYLE_DIM);
    printf("\n%*s", LABEL_WIDTH, "");
    for (size_t m = 0; m < n; m++) {
        for (size_t key = first; key < end; key++) printf("%2zu", key % 100);
        if (m + 1 < n) printf("%*s", gap, "");
    }
    if (notes) fputs("  strongest key", stdout);
    print_style(report, STYLE_PLAIN);
    putchar('\n');
    for (size_t item = first; item < end; item++) {
        print_label(attend, item);
        putchar(' ');
        for (size_t m = 0; m < n; m++) {
            const double *row = item_row(attend, map + m, item);
            /* Cells go by the square root, so that small weights can be told from none. */
            for (size_t key = first; key <= item; key++) print_heat(report, sqrt(row[key] / scale));
            if (m + 1 < n || notes) printf("%*s", (int)(2 * (end - 1 - item)) + (m + 1 < n ? gap : 0), "");
            if (notes) print_note(attend, map + m, item, row);
        }
        putchar('\n');
    }
}

/* As many of the last items as fit the window, as keys and queries of all maps. */
static void choose_window(Attend *attend) {
    const Report *report = &attend->study->report;
    size_t n = attend->n_items;
    attend->n_shown = report->json ? n : at_most(n, (report->width - LABEL_WIDTH) / 2);
    attend->first = n - attend->n_shown;
}

static void print_all_maps(const Attend *attend) {
    const Report *report = &attend->study->report;
    size_t n_maps = attend->patterns.n_maps, width = 2 * attend->n_shown, room = report->width - LABEL_WIDTH;
    size_t note = KEY_WIDTH + (attend->patterns.no_sink ? SINK_WIDTH : 0);
    bool notes = n_maps == 1 && width + note <= room;
    if (width < MIN_MAP_WIDTH) width = MIN_MAP_WIDTH;
    size_t side_by_side = (room + 2) / (width + 2);
    print_meaning(attend);
    double scale = attend->patterns.by_value ? largest_shown(attend) : 1;
    print_legend(report, scale);
    if (attend->first > 0)
        print_styled(report, STYLE_DIM,
                     "Only the last %zu of %zu %s fit; --query Q shows any one's keys, --json everything.\n",
                     attend->n_shown, attend->n_items, attend->study->options->words ? "words" : "tokens");
    for (size_t map = 0; map < n_maps; map += side_by_side)
        print_maps(attend, map, at_most(n_maps - map, side_by_side), scale, notes);
}

/* One query, one map: a line for each of the strongest keys. */
static void print_keys(const Attend *attend, const double *row, size_t item) {
    const Report *report = &attend->study->report;
    size_t k = largest_of(row, item + 1, study_top(attend->study, TOP), attend->strongest);
    double largest = k ? row[attend->strongest[0]] : 1, total = 0, listed = 0;
    if (!attend->patterns.by_value) largest = 1;
    for (size_t key = 0; key <= item; key++) total += row[key];
    print_styled(report, STYLE_BOLD, " key %-*s %7s\n", ITEM_WIDTH,
                 attend->study->options->words ? "word" : "token",
                 attend->patterns.by_value ? "value" : "weight");
    for (size_t i = 0; i < k; i++) {
        size_t key = attend->strongest[i];
        print_label(attend, key);
        printf(" %7.4f", row[key]);
        print_bar(report, largest > 0 ? row[key] / largest : 0, 30);
        putchar('\n');
        listed += row[key];
    }
    if (k <= item) printf("     %-*s %7.4f\n", ITEM_WIDTH, "others", total - listed);
}

static void print_query(const Attend *attend, size_t item) {
    const Report *report = &attend->study->report;
    const Patterns *patterns = &attend->patterns;
    char name[64];
    print_meaning(attend);
    print_style(report, STYLE_BOLD);
    printf("\nquery %zu ", item);
    print_item(attend, item, 0);
    print_style(report, STYLE_PLAIN);
    putchar('\n');
    for (size_t map = 0; map < patterns->n_maps; map++) {
        const double *row = item_row(attend, map, item);
        name_map(attend, map, name);
        if (patterns->n_maps > 1) {
            printf("%-6s", name);
            print_strongest(attend, row, item + 1, 6);
            continue;
        }
        print_styled(report, STYLE_BOLD, "%s", name);
        if (patterns->no_sink) printf("   sink %.4f", item_dropped(attend, map, item));
        putchar('\n');
        print_keys(attend, row, item);
    }
}

static void json_place(const Attend *attend, Report *report, size_t map) {
    const Patterns *patterns = &attend->patterns;
    bool all_layers = patterns->reduce && attend->study->options->layer < 0;
    if (all_layers)
        json_null(report, "layer");
    else
        json_int(report, "layer", (int64_t)(patterns->layer + map / patterns->n_heads));
    if (patterns->reduce)
        json_null(report, "head");
    else
        json_int(report, "head", (int64_t)(patterns->head + map % patterns->n_heads));
}

static void json_word(const Attend *attend, Report *report, const char *key, size_t item) {
    json_joined(report, key, &attend->text, attend->begin[item], attend->begin[item + 1]);
}

/* The strongest keys of a row. */
static void json_top(const Attend *attend, Report *report, const double *row, size_t n) {
    const Study *study = attend->study;
    size_t k = largest_of(row, n, study_top(study, TOP), attend->strongest);
    json_array(report, "top");
    for (size_t i = 0; i < k; i++) {
        size_t key = attend->strongest[i];
        json_object(report, NULL);
        json_int(report, "key", (int64_t)key);
        if (study->options->words)
            json_word(attend, report, "word", key);
        else
            json_token(report, study->tokens.ids[key], study);
        json_real(report, "weight", row[key]);
        json_end_object(report);
    }
    json_end_array(report);
}

/* What was asked for. */
static void json_choices(const Attend *attend, Report *report) {
    const StudyOptions *o = attend->study->options;
    json_text(report, "by", attend->patterns.by_value ? "value" : "weight", SIZE_MAX);
    if (o->reduce)
        json_text(report, "reduce", o->reduce, SIZE_MAX);
    else
        json_null(report, "reduce");
    json_bool(report, "no_sink", o->no_sink);
    json_bool(report, "norm", o->norm);
    if (!o->words) return;
    json_array(report, "words");
    for (size_t item = 0; item < attend->n_items; item++) json_word(attend, report, NULL, item);
    json_end_array(report);
}

/* The rows shown of every map, and of a single one its strongest keys. */
static void json_patterns(const Attend *attend, Report *report, bool single) {
    size_t first = attend->first, end = first + attend->n_shown;
    json_array(report, "patterns");
    for (size_t map = 0; map < attend->patterns.n_maps; map++) {
        json_object(report, NULL);
        json_place(attend, report, map);
        json_array(report, "rows");
        for (size_t item = first; item < end; item++)
            json_reals(report, NULL, item_row(attend, map, item), item + 1);
        json_end_array(report);
        if (attend->patterns.no_sink) {
            json_array(report, "dropped");
            for (size_t item = first; item < end; item++)
                json_real(report, NULL, item_dropped(attend, map, item));
            json_end_array(report);
        }
        if (single) json_top(attend, report, item_row(attend, map, first), first + 1);
        json_end_object(report);
    }
    json_end_array(report);
}

static bool show_text(Attend *attend, Error *error) {
    Study *study = attend->study;
    Report *report = &study->report;
    const StudyOptions *o = study->options;
    size_t n = study->tokens.n;
    if (!find_items(attend, n, error)) return false;
    if (o->query >= 0) {
        attend->first = item_of(attend, (size_t)o->query);
        attend->n_shown = 1;
    } else {
        choose_window(attend);
    }
    /* What comes after the last query cannot change its row. */
    size_t begin = attend->begin[attend->first], end = attend->begin[attend->first + attend->n_shown];
    Patterns *patterns = &attend->patterns;
    if (!patterns_begin(patterns, study, end - begin, end, error)) return false;
    patterns_expect(patterns, begin);
    Session *session = study_session(study, 0, &patterns->probe, error);
    bool ok = session && patterns_feed(patterns, session, study->tokens.ids, end, error);
    session_free(session);
    if (!ok) return false;
    patterns_finish(patterns);

    report_open(report, study);
    if (report->json) {
        json_choices(attend, report);
        if (o->query >= 0) json_int(report, "query", o->query);
        json_patterns(attend, report, o->query >= 0);
    } else if (o->query >= 0) {
        print_query(attend, attend->first);
    } else {
        print_all_maps(attend);
    }
    report_close(report);
    return true;
}

/* The row of the token fed last, the only one that patterns keep here. */
static void show_generated(const Attend *attend) {
    const Study *study = attend->study;
    const Patterns *patterns = &attend->patterns;
    size_t position = patterns->first;
    const double *row = patterns_row(patterns, 0, position);
    if (study->report.json) {
        Report *report = &attend->study->report;
        json_object(report, NULL);
        json_token(report, study->tokens.ids[position], study);
        json_int(report, "position", (int64_t)position);
        json_array(report, "patterns");
        json_object(report, NULL);
        json_place(attend, report, 0);
        json_reals(report, "row", row, position + 1);
        if (patterns->no_sink) json_real(report, "dropped", patterns->dropped[0]);
        json_end_object(report);
        json_end_array(report);
        json_end_object(report);
    } else {
        print_label(attend, position);
        print_strongest(attend, row, position + 1, LABEL_WIDTH - 1);
    }
    fflush(stdout);
}

/* The row of the last token of the prompt, after which the first new one is chosen. */
static void open_generation(const Attend *attend) {
    Report *report = &attend->study->report;
    char name[64];
    report_open(report, attend->study);
    if (report->json) {
        json_choices(attend, report);
        json_int(report, "query", (int64_t)attend->first);
        json_patterns(attend, report, true);
        json_array(report, "generated");
        return;
    }
    print_meaning(attend);
    print_styled(report, STYLE_DIM,
                 "Each line: a token and its strongest keys; after it the model chose the token of the next "
                 "line.\n");
    name_map(attend, 0, name);
    print_styled(report, STYLE_BOLD, "\n%s\n", name);
    show_generated(attend);
}

/* A token has been fed: shows its row and makes room for that of the next. */
static void go_on(void *user) {
    Attend *attend = user;
    patterns_finish(&attend->patterns);
    show_generated(attend);
    patterns_expect(&attend->patterns, attend->study->tokens.n);
}

static bool show_generation(Attend *attend, Error *error) {
    Study *study = attend->study;
    if (!study_check_predict(study, error)) return false;
    Patterns *patterns = &attend->patterns;
    size_t n = study->tokens.n, n_positions = n + (size_t)study->options->n_predict;
    attend->first = n - 1;
    attend->n_shown = 1;
    float *logits = floats_new(1, model_config(study->model)->n_vocab);
    Session *session = NULL;
    bool ok = logits || error_set(error, "not enough memory for the logits");
    ok = ok && find_items(attend, n_positions, error) &&
         patterns_begin(patterns, study, 1, n_positions, error);
    if (ok) {
        patterns_expect(patterns, attend->first);
        session = study_session(study, n_positions, &patterns->probe, error);
        ok = session && patterns_feed(patterns, session, study->tokens.ids, n - 1, error) &&
             session_feed(session, &study->tokens.ids[n - 1], 1, logits, 1, error);
    }
    if (ok) {
        patterns_finish(patterns);
        open_generation(attend);
        patterns_expect(patterns, n);
        ok = study_generate(study, session, logits, go_on, attend, error);
        if (study->report.json) json_end_array(&study->report);
        report_close(&study->report);
    }
    session_free(session);
    free(logits);
    return ok;
}

bool view_attend(Study *study, Error *error) {
    Attend attend = {.study = study};
    bool ok = read_choices(&attend, error) &&
              (study->options->n_predict > 0 ? show_generation(&attend, error) : show_text(&attend, error));
    patterns_free(&attend.patterns);
    free(attend.begin);
    free(attend.row);
    free(attend.strongest);
    joined_free(&attend.text);
    return ok;
}
