/*
 * attend: which tokens a head looks at. The text is fed once, patterns are collected on the way, and rows
 * shown: as heat maps side by side, as the strongest keys of one query, or one by one while the model
 * writes on.
 *
 * Rows and columns are items: the tokens, or with --words runs of them. The weight of a word as key is the
 * sum over its tokens, its row as query the mean over theirs.
 */
#include "measures/patterns.h"
#include "views/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ITEM_WIDTH = 14,                  /* columns of a token */
    LABEL_WIDTH = 5 + ITEM_WIDTH + 1, /* its number, itself, a space */
    KEY_WIDTH = 2 + ITEM_WIDTH + 6,   /* a strong key and its weight */
    SINK_WIDTH = 2 + 11,
    MIN_MAP_WIDTH = 12, /* the name of what it shows stands above it */
};

/* A key of a row. */
typedef struct Key {
    const struct Attend *attend;
    size_t item;
    double weight, share; /* share: of the longest bar */
} Key;

typedef struct Attend {
    size_t layer, head, top, n_predict;
    const char *query, *reduce, *by;
    bool words;
    float temp;

    Study *study;
    Patterns patterns;    /* two of its fields are options */
    Generator *generator; /* with -n; it has the text up to the token shown last */
    size_t *begin;        /* [n_items + 1] first token of each item; the last is the number of tokens */
    size_t n_items;
    JoinedText text;       /* of the prompt */
    bool single;           /* one query's row alone is shown */
    size_t first, n_shown; /* items whose rows are shown */
    double *row;           /* of one item, [n_items] */
    size_t *places;        /* scratch, [n_items] */
    Key *strongest;        /* keys of a row, [n_items] */
} Attend;

static bool read_choices(Attend *attend, Error *error) {
    const Config *config = model_config(attend->study->model);
    Patterns *patterns = &attend->patterns;
    size_t layer = attend->layer, head = attend->head;
    static const char *const bys[] = {"weight", "value"}, *const reduces[] = {"mean", "max"};
    size_t by, reduce;
    if (!parse_choice("--by", attend->by, bys, 2, &by, error) ||
        !parse_choice("--reduce", attend->reduce, reduces, 2, &reduce, error))
        return false;
    if (by == 1 && has_gated_heads(attend->study->model))
        return error_set(
            error,
            "--by value: here a gate stands between a head and W_O, so that a value alone has no size there");
    if (!study_check_heads(attend->study, layer, error)) return false;
    if (attend->reduce && head != NOT_GIVEN)
        return error_set(error, "--reduce takes all heads together; leave out --head %zu", head);
    if (attend->n_predict > 0 && (layer == NOT_GIVEN || (head == NOT_GIVEN && !attend->reduce)))
        return error_set(
            error, "-n shows one row for each new token: choose it with --layer and --head or --reduce");
    if (attend->n_predict > 0 && (attend->query || attend->words))
        return error_set(error, "-n goes without %s: its queries are the new tokens",
                         attend->words ? "--words" : "--query");
    patterns->layer = layer == NOT_GIVEN ? 0 : layer;
    patterns->n_layers = layer == NOT_GIVEN ? config->n_layer : 1;
    patterns->head = head == NOT_GIVEN ? 0 : head;
    patterns->n_heads = head == NOT_GIVEN ? config->n_head : 1;
    patterns->by_value = by == 1;
    patterns->reduce = !attend->reduce ? REDUCE_NONE : reduce == 0 ? REDUCE_MEAN : REDUCE_MAX;
    return true;
}

/* The items of the text, and room for those of n_tokens. */
static bool find_items(Attend *attend, size_t n_tokens, Error *error) {
    const Subject *subject = &attend->study->subject;
    Arena *arena = &attend->study->arena;
    attend->begin = arena_new(arena, n_tokens + 1, sizeof *attend->begin);
    attend->row = arena_new(arena, n_tokens, sizeof *attend->row);
    attend->places = arena_new(arena, n_tokens, sizeof *attend->places);
    attend->strongest = arena_new(arena, n_tokens, sizeof *attend->strongest);
    if (!arena_ok(arena, error, "%zu tokens", n_tokens)) return false;
    for (size_t i = 0; i < n_tokens; i++)
        if (!attend->words || begins_word(subject, i)) attend->begin[attend->n_items++] = i;
    attend->begin[attend->n_items] = n_tokens;
    return join_tokens(subject, arena, true, &attend->text, error);
}

static bool is_of_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

static bool is_inside_word(const char *bytes, size_t at) {
    return at > 0 && is_of_word(bytes[at - 1]) && is_of_word(bytes[at]);
}

/*
 * The last token with which `wanted` ends, where that is the token (with or without the space before it) or stands in
 * the text as a word. False where there is none.
 */
static bool find_text(const Attend *attend, const char *wanted, size_t *token) {
    const char *bytes = attend->text.bytes; /* a zero stands behind them */
    const size_t *offsets = attend->text.offsets;
    size_t n = strlen(wanted);
    for (size_t i = attend->study->subject.tokens.n; n > 0 && i-- > 0 && offsets[i + 1] >= n;) {
        size_t end = offsets[i + 1], begin = end - n;
        bool is_token = begin == offsets[i] || (begin == offsets[i] + 1 && bytes[offsets[i]] == ' ');
        bool is_word = !is_inside_word(bytes, begin) && !is_inside_word(bytes, end);
        *token = i;
        if ((is_token || is_word) && memcmp(bytes + begin, wanted, n) == 0) return true;
    }
    return false;
}

/* The item that --query means: its number, or the last that has its text. */
static bool find_query(Attend *attend, Error *error) {
    const char *query = attend->query;
    size_t token;
    if (*query && !query[strspn(query, "0123456789")]) {
        /* Too large: the largest, and refused all the same. */
        attend->first = (size_t)strtoll(query, NULL, 10);
        return study_check_place(attend->study, NOT_GIVEN, NOT_GIVEN, attend->first, attend->n_items, error);
    }
    if (!find_text(attend, query, &token))
        return error_set(
            error, "--query: '%s' is no token or word of the text; it may also be a number from 0 to %zu",
            query, attend->n_items - 1);
    while (attend->begin[attend->first + 1] <= token) attend->first++;
    return true;
}

/* As many of the last items as fit the window, as keys and queries of all maps; or the one that was asked for. */
static bool choose_items(Attend *attend, Error *error) {
    const Report *report = &attend->study->report;
    size_t n = attend->n_items, n_tokens = attend->study->subject.tokens.n;
    attend->single = attend->query || attend->n_predict > 0;
    attend->n_shown = attend->single    ? 1
                      : is_json(report) ? n
                                        : at_most(n, (report->width - LABEL_WIDTH) / 2);
    attend->first = attend->query ? 0 : attend->n_predict > 0 ? n_tokens - 1 : n - attend->n_shown;
    return !attend->query || find_query(attend, error);
}

static bool compute(Study *study, void *own, Error *error) {
    Attend *attend = own;
    const Subject *subject = &study->subject;
    const int32_t *ids = subject->tokens.ids;
    Patterns *patterns = &attend->patterns;
    size_t n_new = attend->n_predict, n_positions = subject->tokens.n + n_new;
    attend->study = study;
    if (!study_check_place(study, attend->layer, attend->head, NOT_GIVEN, 0, error) ||
        !read_choices(attend, error) || (n_new && !study_check_predict(study, attend->n_predict, error)) ||
        !find_items(attend, n_positions, error) || !choose_items(attend, error))
        return false;
    /* Tokens after the last query cannot change its row. */
    size_t begin = attend->begin[attend->first], end = attend->begin[attend->first + attend->n_shown];
    if (!patterns_begin(patterns, subject, &study->arena, end - begin, n_new ? n_positions : end, error))
        return false;
    patterns_expect(patterns, begin);
    size_t from = patterns->by_value ? 0 : begin; /* of values none may be missed */
    study->session = subject_resume(subject, n_new ? n_positions : 0, from, &patterns->probe, error);
    if (!study->session ||
        !patterns_feed(patterns, study->session, ids + from, (n_new ? begin : end) - from, error) ||
        (n_new && !(attend->generator = study_generator(study, study->session, attend->temp, error))))
        return false;
    patterns_finish(patterns);
    return true;
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

/* The mean over an item's queries of what did not go to its row: lost [n_maps][n_rows]. */
static double item_mean(const Attend *attend, const double *lost, size_t map, size_t item) {
    const Patterns *patterns = &attend->patterns;
    size_t begin = attend->begin[item], end = attend->begin[item + 1];
    double sum = 0;
    for (size_t query = begin; query < end; query++)
        sum += lost[map * patterns->n_rows + query - patterns->first];
    return sum / (double)(end - begin);
}

/* The weight that --no-sink left out of an item's row, and the weight that learned sinks took. */
static double item_dropped(const Attend *attend, size_t map, size_t item) {
    return item_mean(attend, attend->patterns.dropped, map, item);
}

static double item_learned(const Attend *attend, size_t map, size_t item) {
    return item_mean(attend, attend->patterns.learned, map, item);
}

/* Names a map: "L3H7", "L3 mean of 12 heads", "max of all heads". */
static void name_map(const Attend *attend, size_t map, char name[64]) {
    const Patterns *patterns = &attend->patterns;
    const char *reduce = patterns->reduce == REDUCE_MEAN ? "mean" : "max";
    if (!patterns->reduce)
        head_name(name, patterns->watched[map / patterns->n_heads], patterns->head + map % patterns->n_heads);
    else if (patterns->n_layers == 1 && attend->layer != NOT_GIVEN)
        snprintf(name, 64, "L%zu %s of heads", patterns->layer, reduce);
    else
        snprintf(name, 64, "%s of all heads", reduce);
}

static String word_of(const Attend *attend, size_t item) {
    size_t begin = attend->text.offsets[attend->begin[item]];
    return (String){attend->text.bytes + begin, attend->text.offsets[attend->begin[item + 1]] - begin};
}

/* For people: an item in `width` columns. */
static void print_item(const Attend *attend, size_t item, size_t width) {
    const Study *study = attend->study;
    if (attend->words)
        print_quoted(&study->report, word_of(attend, item).data, word_of(attend, item).n, width);
    else
        print_token(&study->report, study->subject.tokens.ids[item], width);
}

static void print_label(const Attend *attend, size_t item) {
    print_styled(&attend->study->report, STYLE_DIM, "%4zu ", item);
    print_item(attend, item, ITEM_WIDTH);
}

/* Prints what W_O stands for where attention's output is normed or scaled before it is added. */
static void print_behind(const Attend *attend) {
    const Model *model = attend->study->model;
    bool normed = model_weights(model)->layers[attend->patterns.layer].attn_post_norm.gain;
    if (normed)
        puts(
            "W_O: times the gains of the norm behind attention, whose division, alike for all keys, is left out.");
    if (model_config(model)->residual_scale != 1)
        printf("W_O: times the residual scale, %.4g.\n", (double)model_config(model)->residual_scale);
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
        printf("%s%s", report->width > 112 && !patterns->learned ? "; a row sums to 1" : ";\na row sums to 1",
               patterns->learned && !patterns->normalise ? " with what the head's learned sink takes" : "");
    puts(".");
    if (patterns->by_value) print_behind(attend);
    print_style(report, STYLE_PLAIN);
}

/* Finds up to k strongest keys of a row's n; returns how many. */
static size_t find_strongest(const Attend *attend, const double *row, size_t n, size_t k) {
    size_t found = largest_of(row, n, k, attend->places);
    double longest = found && attend->patterns.by_value ? row[attend->places[0]] : 1;
    for (size_t i = 0; i < found; i++) {
        double weight = row[attend->places[i]], share = longest > 0 ? weight / longest : 0;
        attend->strongest[i] = (Key){attend, attend->places[i], weight, share};
    }
    return found;
}

static void show_item(Report *report, const char *key, const void *cell) {
    const Key *strong = cell;
    const Attend *attend = strong->attend;
    (void)key;
    if (!is_json(report))
        print_label(attend, strong->item);
    else if (attend->words)
        json_text(report, "word", word_of(attend, strong->item).data, word_of(attend, strong->item).n);
    else
        json_token(report, attend->study->subject.tokens.ids[strong->item]);
}

static const Column key_columns[] = {
    {"key", NULL, CELL_SIZE, offsetof(Key, item)},
    {"token", "", CELL_SHOWN, 0, LABEL_WIDTH - 1, .show = show_item},
    {"weight", "", CELL_REAL, offsetof(Key, weight), 8, 4},
    {NULL, "", CELL_BAR, offsetof(Key, share), 30},
};
static const Table top_table = TABLE("top", key_columns);

static void print_strong_key(const Key *key) {
    fputs("  ", stdout);
    print_item(key->attend, key->item, ITEM_WIDTH);
    printf("%6.3f", key->weight);
}

/* The strongest keys of a row on what is left of a line, which has 40 columns or more (cli/report.c). */
static void print_strongest(const Attend *attend, const double *row, size_t n, size_t used) {
    size_t room = (attend->study->report.width - used) / KEY_WIDTH;
    size_t k = find_strongest(attend, row, n, at_most(attend->top, room ? room : 1));
    for (size_t i = 0; i < k; i++) print_strong_key(&attend->strongest[i]);
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
    find_strongest(attend, row, item + 1, 1);
    if (attend->strongest->weight > 0) print_strong_key(attend->strongest);
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
    print_style(report, STYLE_PLAIN);
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
                     attend->n_shown, attend->n_items, attend->words ? "words" : "tokens");
    for (size_t map = 0; map < n_maps; map += side_by_side)
        print_maps(attend, map, at_most(n_maps - map, side_by_side), scale, notes);
}

/* One query, one map: a line for each of the strongest keys. */
static void print_keys(const Attend *attend, size_t map, const double *row, size_t item) {
    Report *report = &attend->study->report;
    size_t k = find_strongest(attend, row, item + 1, attend->top);
    double others = 0, listed = 0;
    for (size_t key = 0; key <= item; key++) others += row[key];
    print_styled(report, STYLE_BOLD, " key %-*s %7s\n", ITEM_WIDTH, attend->words ? "word" : "token",
                 attend->patterns.by_value ? "value" : "weight");
    for (size_t i = 0; i < k; i++) {
        table_print_line(report, &top_table, 0, &attend->strongest[i]);
        listed += attend->strongest[i].weight;
    }
    if (k <= item) printf("     %-*s %7.4f\n", ITEM_WIDTH, "others", others - listed);
    if (attend->patterns.learned)
        printf("     %-*s %7.4f\n", ITEM_WIDTH, "learned sink", item_learned(attend, map, item));
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
        print_keys(attend, map, row, item);
    }
}

/* A map's layer and head; null where it is of several. */
static void json_place(const Attend *attend, Report *report, size_t map) {
    const Patterns *patterns = &attend->patterns;
    double layer = (double)patterns->watched[map / patterns->n_heads],
           head = (double)(patterns->head + map % patterns->n_heads);
    json_real(report, "layer", patterns->reduce && attend->layer == NOT_GIVEN ? NAN : layer);
    json_real(report, "head", patterns->reduce ? NAN : head);
}

/* Writes the options. */
static void json_choices(const Attend *attend, Report *report) {
    json_text(report, "by", attend->patterns.by_value ? "value" : "weight", SIZE_MAX);
    if (attend->reduce)
        json_text(report, "reduce", attend->reduce, SIZE_MAX);
    else
        json_null(report, "reduce");
    json_bool(report, "no_sink", attend->patterns.no_sink);
    json_bool(report, "norm", attend->patterns.normalise);
    if (attend->words) {
        json_array(report, "words");
        for (size_t item = 0; item < attend->n_items; item++)
            json_text(report, NULL, word_of(attend, item).data, word_of(attend, item).n);
        json_end_array(report);
    }
    if (attend->single) json_int(report, "query", (int64_t)attend->first);
}

/* The rows shown of every map, and of a single one its strongest keys. */
static void json_patterns(const Attend *attend, Report *report) {
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
        if (attend->patterns.learned) {
            json_array(report, "learned_sink");
            for (size_t item = first; item < end; item++)
                json_real(report, NULL, item_learned(attend, map, item));
            json_end_array(report);
        }
        if (attend->single) {
            size_t k = find_strongest(attend, item_row(attend, map, first), end, attend->top);
            table_show(report, &top_table, 0, attend->strongest, k, sizeof *attend->strongest);
        }
        json_end_object(report);
    }
    json_end_array(report);
}

/* The row of the token fed last, the only one that patterns keep here. */
static void show_generated(const Attend *attend) {
    const Patterns *patterns = &attend->patterns;
    Report *report = &attend->study->report;
    size_t position = patterns->first;
    const double *row = patterns_row(patterns, 0, position);
    if (is_json(report)) {
        json_object(report, NULL);
        json_token(report, attend->study->subject.tokens.ids[position]);
        json_int(report, "position", (int64_t)position);
        json_array(report, "patterns");
        json_object(report, NULL);
        json_place(attend, report, 0);
        json_reals(report, "row", row, position + 1);
        if (patterns->no_sink) json_real(report, "dropped", patterns->dropped[0]);
        if (patterns->learned) json_real(report, "learned_sink", patterns->learned[0]);
        json_end_object(report);
        json_end_array(report);
        json_end_object(report);
    } else {
        print_label(attend, position);
        print_strongest(attend, row, position + 1, LABEL_WIDTH - 1);
    }
    fflush(report->out);
}

/* A token has been fed: shows its row and makes room for that of the next. */
static void go_on(void *user) {
    Attend *attend = user;
    patterns_finish(&attend->patterns);
    show_generated(attend);
    patterns_expect(&attend->patterns, attend->study->subject.tokens.n);
}

/* The row of the last token of the prompt, after which the first new one is chosen, and of each new one as it comes. */
static bool show_generation(Attend *attend, Error *error) {
    Report *report = &attend->study->report;
    char name[64];
    if (is_json(report)) {
        json_patterns(attend, report);
        json_array(report, "generated");
    } else {
        print_meaning(attend);
        print_styled(
            report, STYLE_DIM,
            "Each line: a token and its strongest keys; after it the model chose the token of the next "
            "line.\n");
        name_map(attend, 0, name);
        print_styled(report, STYLE_BOLD, "\n%s\n", name);
        show_generated(attend);
    }
    patterns_expect(&attend->patterns, attend->first + 1);
    bool ok = study_generate(attend->study, attend->generator, attend->n_predict, go_on, attend, error);
    if (is_json(report)) json_end_array(report);
    return ok;
}

static bool show(Study *study, void *own, Error *error) {
    Attend *attend = own;
    Report *report = &study->report;
    if (is_json(report)) json_choices(attend, report);
    if (attend->n_predict > 0) return show_generation(attend, error);
    if (is_json(report))
        json_patterns(attend, report);
    else if (attend->single)
        print_query(attend, attend->first);
    else
        print_all_maps(attend);
    return true;
}

static void free_attend(void *own) { generator_free(((Attend *)own)->generator); }

static const Attend defaults = {.layer = NOT_GIVEN, .head = NOT_GIVEN, .top = 10};

#define AT(member) offsetof(Attend, member)

static const Option options[] = {
    {"--layer", NULL, OPTION_SIZE, AT(layer), 0, 1e9},
    {"--head", NULL, OPTION_SIZE, AT(head), 0, 1e9},
    {"--query", NULL, OPTION_TEXT, AT(query)},
    {"--top", NULL, OPTION_SIZE, AT(top), 0, 1000},
    {"--reduce", NULL, OPTION_TEXT, AT(reduce)},
    {"--no-sink", NULL, OPTION_ON, AT(patterns.no_sink)},
    {"--by", NULL, OPTION_TEXT, AT(by)},
    {"--norm", NULL, OPTION_ON, AT(patterns.normalise)},
    {"--words", NULL, OPTION_ON, AT(words)},
    {"--predict", "-n", OPTION_SIZE, AT(n_predict), 0, 1e9},
    {"--temp", NULL, OPTION_REAL, AT(temp), 0, 1e9},
};

const View view_attend = {
    .name = "attend",
    .summary = "which tokens a head looks at",
    .help = HELP(
        "The attention pattern: row = query, column = key, each row sums to 1.\n"
        "\n"
        "  --layer L, --head H   of one layer, one head (all)\n"
        "  --query Q             one query's strongest keys    --top K   so many (10)\n"
        "                        Q: a number (of a word with --words), or the text of a token or a word,\n"
        "                        the last in the text\n"
        "  --reduce mean|max     over the heads (of all layers without --layer)\n"
        "  --no-sink             leave out the first token and renormalise\n"
        "  --by weight|value     weight A, or A * |v W_O| (Kobayashi et al. 2020); --norm: rows sum to 1\n"
        "  --words               add up keys, average queries, word by word\n"
        "  -n N [--temp X]       generate N tokens (greedily), a row for each; needs --layer and --head,\n"
        "                        or --reduce\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(Attend),
    .compute = compute,
    .show = show,
    .free = free_attend,
};
