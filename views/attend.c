/*
 * attend: which tokens a head looks at. The text is fed once, patterns are collected on the way, and rows
 * shown: as heat maps side by side, as the strongest keys of one query, or one by one while the model
 * writes on. Rows and columns are items: the tokens, or with --words runs of them.
 */
#include "views/attend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool parse_choices(const Attend *attend, size_t *by, size_t *reduce, Error *error) {
    static const char *const bys[] = {"weight", "value"}, *const reduces[] = {"mean", "max"};
    return parse_choice("--by", attend->by, bys, 2, by, error) &&
           parse_choice("--reduce", attend->reduce, reduces, 2, reduce, error);
}

static bool check(const StudyOptions *options, const void *own, Error *error) {
    const Attend *attend = own;
    size_t layer = attend->layer, head = attend->head, by, reduce;
    (void)options;
    if (!parse_choices(attend, &by, &reduce, error)) return false;
    if (attend->reduce && head != NOT_GIVEN)
        return error_set(error, "--reduce takes all heads together; leave out --head %zu", head);
    if (attend->n_predict > 0 && (layer == NOT_GIVEN || (head == NOT_GIVEN && !attend->reduce)))
        return error_set(
            error, "-n shows one row for each new token: choose it with --layer and --head or --reduce");
    if (attend->top != NOT_GIVEN && attend->n_predict == 0 && !attend->query)
        return error_set(error, "--top says how many keys of a row are listed: choose one with --query");
    if (attend->temp > 0 && attend->n_predict == 0)
        return error_set(error, "--temp is of what is written: give -n too");
    return attend->n_predict == 0 || !(attend->query || attend->words) ||
           error_set(error, "-n goes without %s: its queries are the new tokens",
                     attend->words ? "--words" : "--query");
}

static bool read_choices(Attend *attend, Error *error) {
    const Config *config = model_config(attend->study->model);
    Patterns *patterns = &attend->patterns;
    size_t layer = attend->layer, head = attend->head, by, reduce;
    parse_choices(attend, &by, &reduce, error); /* as check() did */
    if (attend->top == NOT_GIVEN) attend->top = 10;
    if (by == 1 && has_gated_heads(attend->study->model))
        return error_set(
            error,
            "--by value: here a gate stands between a head and W_O, so that a value alone has no size there");
    if (!study_check_heads(attend->study, layer, error)) return false;
    patterns->layer = layer == NOT_GIVEN ? 0 : layer;
    patterns->n_layers = layer == NOT_GIVEN ? config->n_layer : 1;
    patterns->head = head == NOT_GIVEN ? 0 : head;
    patterns->n_heads = head == NOT_GIVEN ? config->n_head : 1;
    patterns->by_value = by == 1;
    patterns->reduce = !attend->reduce ? REDUCE_NONE : reduce == 0 ? REDUCE_MEAN : REDUCE_MAX;
    return true;
}

/* The items of the text and of what is generated, n_tokens in all, and room for them. */
static bool find_items(Attend *attend, size_t n_tokens, Error *error) {
    const Subject *subject = &attend->study->subject;
    Arena *arena = &attend->study->arena;
    Items *items = &attend->items;
    items->patterns = &attend->patterns;
    items->begin = arena_new(arena, n_tokens + 1, sizeof *items->begin);
    items->row = arena_new(arena, n_tokens, sizeof *items->row);
    attend->places = arena_new(arena, n_tokens, sizeof *attend->places);
    attend->strongest = arena_new(arena, n_tokens, sizeof *attend->strongest);
    if (!arena_ok(arena, error, "%zu tokens", n_tokens)) return false;
    for (size_t i = 0; i < n_tokens; i++)
        if (!attend->words || begins_word(subject, i)) items->begin[items->n++] = i;
    items->begin[items->n] = n_tokens;
    return join_tokens(subject, arena, true, &attend->text, error);
}

/* As many of the last items as fit the window, as keys and queries of all maps; or the one that was asked for. */
static bool choose_items(Attend *attend, Error *error) {
    const Report *report = &attend->study->report;
    size_t n = attend->items.n, n_tokens = attend->study->subject.tokens.n;
    attend->single = attend->query || attend->n_predict > 0;
    attend->n_shown = attend->single    ? 1
                      : is_json(report) ? n
                                        : at_most(n, (report->width - LABEL_WIDTH) / 2);
    attend->first = attend->query ? 0 : attend->n_predict > 0 ? n_tokens - 1 : n - attend->n_shown;
    return !attend->query || study_query(attend->study, attend->query, &attend->items, &attend->first, error);
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
    size_t begin = attend->items.begin[attend->first],
           end = attend->items.begin[attend->first + attend->n_shown];
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
        for (size_t item = 0; item < attend->items.n; item++) {
            String word = attend_word(attend, item);
            json_text(report, NULL, word.data, word.n);
        }
        json_end_array(report);
    }
    if (attend->single) json_int(report, "query", (int64_t)attend->first);
}

/* A map shows some rows; this is the weight of the others. */
static void json_lost(const Attend *attend, Report *report, const char *key, const double *lost, size_t map) {
    json_array(report, key);
    for (size_t item = attend->first; item < attend->first + attend->n_shown; item++)
        json_real(report, NULL, items_lost(&attend->items, lost, map, item));
    json_end_array(report);
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
            json_reals(report, NULL, items_row(&attend->items, map, item), item + 1);
        json_end_array(report);
        if (attend->patterns.no_sink) json_lost(attend, report, "dropped", attend->patterns.dropped, map);
        if (attend->patterns.learned)
            json_lost(attend, report, "learned_sink", attend->patterns.learned, map);
        if (attend->single) {
            size_t k = attend_strongest(attend, items_row(&attend->items, map, first), end, attend->top);
            table_show(report, &attend_top, 0, attend->strongest, k, sizeof *attend->strongest);
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
        attend_print_label(attend, position);
        attend_print_strongest(attend, row, position + 1, LABEL_WIDTH - 1);
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
        attend_print_meaning(attend);
        print_styled(
            report, STYLE_DIM,
            "Each line: a token and its strongest keys; after it the model chose the token of the next "
            "line.\n");
        attend_name(attend, 0, name);
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
        attend_print_query(attend, attend->first);
    else
        attend_print_maps(attend);
    return true;
}

static void free_attend(void *own) { generator_free(((Attend *)own)->generator); }

static const Attend defaults = {.layer = NOT_GIVEN, .head = NOT_GIVEN, .top = NOT_GIVEN};

#define AT(member) offsetof(Attend, member)

static const Option options[] = {
    {"--layer", NULL, OPTION_SIZE, AT(layer), 0, 1e9},
    {"--head", NULL, OPTION_SIZE, AT(head), 0, 1e9},
    {"--query", NULL, OPTION_ONCE, AT(query)},
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
        "  -n N [--temp X]       generate N tokens (greedily), a row for each; needs --layer, and --head\n"
        "                        or --reduce\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(Attend),
    .check = check,
    .compute = compute,
    .show = show,
    .free = free_attend,
};
