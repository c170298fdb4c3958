#include "views/attend.h"

#include <math.h>

enum {
    KEY_WIDTH = 2 + ITEM_WIDTH + 6, /* a strong key and its weight */
    SINK_WIDTH = 2 + 11,
    MIN_MAP_WIDTH = 12, /* the name of what it shows stands above it */
};

void attend_name(const Attend *attend, size_t map, char name[64]) {
    const Patterns *patterns = &attend->patterns;
    const char *reduce = patterns->reduce == REDUCE_MEAN ? "mean" : "max";
    if (!patterns->reduce)
        head_name(name, patterns->watched[map / patterns->n_heads], patterns->head + map % patterns->n_heads);
    else if (patterns->n_layers == 1 && attend->layer != NOT_GIVEN)
        snprintf(name, 64, "L%zu %s of heads", patterns->layer, reduce);
    else
        snprintf(name, 64, "%s of all heads", reduce);
}

String attend_word(const Attend *attend, size_t item) {
    size_t begin = attend->text.offsets[attend->items.begin[item]];
    return (String){attend->text.bytes + begin, attend->text.offsets[attend->items.begin[item + 1]] - begin};
}

/* Prints, for people, an item in `width` columns. */
static void print_item(const Attend *attend, size_t item, size_t width) {
    const Study *study = attend->study;
    if (attend->words) {
        String word = attend_word(attend, item);
        print_quoted(&study->report, word.data, word.n, width);
    } else {
        print_token(&study->report, study->subject.tokens.ids[item], width);
    }
}

void attend_print_label(const Attend *attend, size_t item) {
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

void attend_print_meaning(const Attend *attend) {
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

size_t attend_strongest(const Attend *attend, const double *row, size_t n, size_t k) {
    size_t *places = attend->places, found = largest_of(row, n, k, places);
    double longest = found && attend->patterns.by_value ? row[*places] : 1;
    for (size_t i = 0; i < found; i++) {
        double weight = row[places[i]], share = longest > 0 ? weight / longest : 0;
        attend->strongest[i] = (Key){attend, places[i], weight, share};
    }
    return found;
}

static void show_item(Report *report, const char *key, const void *cell) {
    const Key *strong = cell;
    const Attend *attend = strong->attend;
    (void)key;
    if (!is_json(report)) {
        attend_print_label(attend, strong->item);
    } else if (attend->words) {
        String word = attend_word(attend, strong->item);
        json_text(report, "word", word.data, word.n);
    } else {
        json_token(report, attend->study->subject.tokens.ids[strong->item]);
    }
}

static const Column key_columns[] = {
    {"key", NULL, CELL_SIZE, offsetof(Key, item)},
    {"token", "", CELL_SHOWN, 0, LABEL_WIDTH - 1, .show = show_item},
    {"weight", "", CELL_REAL, offsetof(Key, weight), 8, 4},
    {NULL, "", CELL_BAR, offsetof(Key, share), 30},
};
const Table attend_top = TABLE("top", key_columns);

static void print_strong_key(const Key *key) {
    fputs("  ", stdout);
    print_item(key->attend, key->item, ITEM_WIDTH);
    printf("%6.3f", key->weight);
}

void attend_print_strongest(const Attend *attend, const double *row, size_t n, size_t used) {
    /* A line has 40 columns or more (cli/report.c). */
    size_t room = (attend->study->report.width - used) / KEY_WIDTH;
    size_t k = attend_strongest(attend, row, n, at_most(attend->top, room ? room : 1));
    for (size_t i = 0; i < k; i++) print_strong_key(&attend->strongest[i]);
    putchar('\n');
}

/* The largest number shown, by which the colours go. */
static double largest_shown(const Attend *attend) {
    double largest = 0;
    for (size_t map = 0; map < attend->patterns.n_maps; map++)
        for (size_t i = attend->first; i < attend->first + attend->n_shown; i++) {
            const double *row = items_row(&attend->items, map, i);
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
    attend_strongest(attend, row, item + 1, 1);
    if (attend->strongest->weight > 0) print_strong_key(attend->strongest);
    if (attend->patterns.no_sink && item > 0)
        printf("  sink %6.3f", items_lost(&attend->items, attend->patterns.dropped, map, item));
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
        attend_name(attend, map + m, name);
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
        attend_print_label(attend, item);
        putchar(' ');
        for (size_t m = 0; m < n; m++) {
            const double *row = items_row(&attend->items, map + m, item);
            /* Cells go by the square root, so that small weights can be told from none. */
            for (size_t key = first; key <= item; key++) print_heat(report, sqrt(row[key] / scale));
            if (m + 1 < n || notes) printf("%*s", (int)(2 * (end - 1 - item)) + (m + 1 < n ? gap : 0), "");
            if (notes) print_note(attend, map + m, item, row);
        }
        putchar('\n');
    }
}

void attend_print_maps(const Attend *attend) {
    const Report *report = &attend->study->report;
    size_t n_maps = attend->patterns.n_maps, width = 2 * attend->n_shown, room = report->width - LABEL_WIDTH;
    size_t note = KEY_WIDTH + (attend->patterns.no_sink ? SINK_WIDTH : 0);
    bool notes = n_maps == 1 && width + note <= room;
    if (width < MIN_MAP_WIDTH) width = MIN_MAP_WIDTH;
    size_t side_by_side = (room + 2) / (width + 2);
    attend_print_meaning(attend);
    double scale = attend->patterns.by_value ? largest_shown(attend) : 1;
    print_legend(report, scale);
    if (attend->first > 0)
        print_styled(report, STYLE_DIM,
                     "Only the last %zu of %zu %s fit; --query Q shows any one's keys, --json everything.\n",
                     attend->n_shown, attend->items.n, attend->words ? "words" : "tokens");
    for (size_t map = 0; map < n_maps; map += side_by_side)
        print_maps(attend, map, at_most(n_maps - map, side_by_side), scale, notes);
}

/* One query, one map: a line for each of the strongest keys. */
static void print_keys(const Attend *attend, size_t map, const double *row, size_t item) {
    Report *report = &attend->study->report;
    size_t k = attend_strongest(attend, row, item + 1, attend->top);
    double others = 0, listed = 0;
    for (size_t key = 0; key <= item; key++) others += row[key];
    print_styled(report, STYLE_BOLD, " key %-*s %7s\n", ITEM_WIDTH, attend->words ? "word" : "token",
                 attend->patterns.by_value ? "value" : "weight");
    for (size_t i = 0; i < k; i++) {
        table_print_line(report, &attend_top, 0, &attend->strongest[i]);
        listed += attend->strongest[i].weight;
    }
    if (k <= item) printf("     %-*s %7.4f\n", ITEM_WIDTH, "others", others - listed);
    if (attend->patterns.learned)
        printf("     %-*s %7.4f\n", ITEM_WIDTH, "learned sink",
               items_lost(&attend->items, attend->patterns.learned, map, item));
}

void attend_print_query(const Attend *attend, size_t item) {
    const Report *report = &attend->study->report;
    const Patterns *patterns = &attend->patterns;
    char name[64];
    attend_print_meaning(attend);
    print_style(report, STYLE_BOLD);
    printf("\nquery %zu ", item);
    print_item(attend, item, 0);
    print_style(report, STYLE_PLAIN);
    putchar('\n');
    for (size_t map = 0; map < patterns->n_maps; map++) {
        const double *row = items_row(&attend->items, map, item);
        attend_name(attend, map, name);
        if (patterns->n_maps > 1) {
            printf("%-6s", name);
            attend_print_strongest(attend, row, item + 1, 6);
            continue;
        }
        print_styled(report, STYLE_BOLD, "%s", name);
        if (patterns->no_sink)
            printf("   sink %.4f", items_lost(&attend->items, attend->patterns.dropped, map, item));
        putchar('\n');
        print_keys(attend, map, row, item);
    }
}
