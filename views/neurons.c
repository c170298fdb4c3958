/*
 * neurons: the hidden numbers of the MLPs (measures/neurons.h). Which are strongest on a text; one of them, or a head, token by
 * token, and what the neuron does to the next token's logits; and the parts of a text of any size where it is strongest.
 */
#include "measures/neurons.h"

#include "cli/corpus.h"
#include "measures/scores.h"
#include "views/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_WIDTH = 14, BAR_WIDTH = 30, N_STRONGEST = 20, N_EXAMPLES = 10, WINDOW = 256, BEFORE_TEXT = 20 };

/* A row of the table of the strongest. */
typedef struct NeuronRow {
    Neuron neuron;
    char name[64];
    int32_t id; /* of its token */
} NeuronRow;

/* A token of the text. */
typedef struct TokenValue {
    size_t position;
    int32_t id;
    double value, share; /* share: of the strongest */
} TokenValue;

typedef struct NeuronsView {
    size_t layer, n_top; /* or NOT_GIVEN */
    const char *neuron, *head, *corpus_path;

    Neurons neurons;    /* without --neuron and --head */
    NeuronRow *rows;    /* [neurons.n_top] */
    UnitTrace trace;    /* with one of them: its unit, in any case */
    TokenValue *values; /* [n_tokens] */
    Examples examples;
    Corpus corpus; /* of --corpus */
    double mean, deviation;
} NeuronsView;

static bool check(const StudyOptions *o, const void *own, Error *error) {
    const NeuronsView *view = own;
    bool unit = view->neuron || view->head;
    if (view->neuron && view->head) return error_set(error, "--neuron and --head: choose one");
    if (unit && view->layer != NOT_GIVEN)
        return error_set(error, "%s names its layer itself: leave out --layer",
                         view->neuron ? "--neuron" : "--head");
    if (view->corpus_path && !unit)
        return error_set(error, "--corpus shows where one is strongest: name it, --neuron L3N120 or --head "
                                "L3H4");
    const char *text = o->prompt ? "-p" : o->prompt_file ? "-f" : o->ids ? "--ids" : NULL;
    if (view->corpus_path && text)
        return error_set(error, "--corpus brings its own text: leave out %s", text);
    if (view->head && !view->corpus_path && view->n_top != NOT_GIVEN)
        return error_set(error, "--top of --head says how many places of --corpus are shown: give that too");
    if (view->corpus_path && view->n_top == 0)
        return error_set(error, "--top 0 leaves nothing to be found in --corpus");
    return view->corpus_path || text ||
           error_set(error, "neurons needs a text: give it with -p or -f, or a large one with --corpus");
}

/* A number up to where it is too large to be one of them. */
static bool read_number(const char **at, size_t *number) {
    const char *begin = *at;
    for (*number = 0; **at >= '0' && **at <= '9'; ++*at)
        *number = *number < SIZE_MAX / 20 ? *number * 10 + (size_t)(**at - '0') : SIZE_MAX;
    return *at > begin;
}

/* "L3N120" or "L3H7". */
static bool read_unit(const Model *model, const char *text, Unit *unit, Error *error) {
    const Config *config = model_config(model);
    const char *option = unit->is_head ? "--head" : "--neuron", *at = text;
    bool ok = (*at == 'L' || *at == 'l') && (at++, read_number(&at, &unit->layer)) &&
              (*at & ~0x20) == (unit->is_head ? 'H' : 'N') && (at++, read_number(&at, &unit->index)) && !*at;
    size_t n = unit->is_head ? config->n_head : config->d_ff;
    if (!ok)
        return error_set(error, "%s: '%s' is none such as %s", option, text,
                         unit->is_head ? "L3H4" : "L3N120") ||
               wrong_usage(error);
    if (unit->layer >= config->n_layer)
        return refuse_number(option, "layer", unit->layer, "there are", config->n_layer, error);
    if (unit->index >= n)
        return refuse_number(option, unit->is_head ? "head" : "neuron", unit->index, "a layer has", n, error);
    if (unit->is_head && !layer_has_heads(model, unit->layer))
        return error_set(error, "%s: layer %zu has no attention heads: it keeps a state instead", option,
                         unit->layer);
    return unit->is_head || layer_has_neurons(model, unit->layer) ||
           error_set(error, "%s: layer %zu has experts, whose hidden numbers are not shown", option,
                     unit->layer);
}

static bool wants_neurons(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)head;
    return neurons_want(&((const NeuronsView *)user)->neurons, site, layer);
}

static void add_neurons(void *user, const Activation *seen) {
    neurons_add(&((NeuronsView *)user)->neurons, seen);
}

/* The strongest of all layers, or of one. */
static bool find_strongest(Study *study, NeuronsView *view, Error *error) {
    const Subject *subject = &study->subject;
    const int32_t *ids = subject->tokens.ids;
    Neurons *neurons = &view->neurons;
    Probe probe = {view, wants_neurons, add_neurons};
    bool one = view->layer != NOT_GIVEN;
    *neurons = (Neurons){.layer = one ? view->layer : 0,
                         .n_layers = one ? 1 : model_config(study->model)->n_layer,
                         .n_top = view->n_top == NOT_GIVEN ? N_STRONGEST : view->n_top};
    if (!study_check_place(study, view->layer, NOT_GIVEN, NOT_GIVEN, 0, error) ||
        !neurons_begin(neurons, subject, &study->arena, error))
        return false;
    if (neurons->n_top == 0)
        return error_set(error, "%s: %s: experts have hidden numbers that are not shown",
                         study->options->model, one ? "this layer has experts" : "all layers have experts");
    view->rows = arena_new(&study->arena, neurons->n_top, sizeof *view->rows);
    if (!arena_ok(&study->arena, error, "%zu neurons", neurons->n_top) ||
        !study_feed(study, &probe, 0, subject->tokens.n, error) || !neurons_finish(neurons, error))
        return false;
    for (size_t i = 0; i < neurons->n_top; i++) {
        const Neuron *neuron = &neurons->top[i];
        view->rows[i] = (NeuronRow){.neuron = *neuron, .id = ids[neuron->position]};
        unit_name(view->rows[i].name, &(Unit){neuron->layer, neuron->index, false});
    }
    return true;
}

static bool wants_unit(void *user, ProbeSite site, size_t layer, size_t head) {
    return trace_wants(&((const NeuronsView *)user)->trace, site, layer, head);
}

static void add_unit(void *user, const Activation *seen) { trace_add(&((NeuronsView *)user)->trace, seen); }

static bool trace_unit(Study *study, NeuronsView *view, Error *error) {
    const Subject *subject = &study->subject;
    UnitTrace *trace = &view->trace;
    size_t n = subject->tokens.n;
    Probe probe = {view, wants_unit, add_unit};
    trace->n_top = view->n_top == NOT_GIVEN ? N_EFFECTS : view->n_top;
    view->values = arena_new(&study->arena, n, sizeof *view->values);
    if (!trace_begin(trace, subject, &study->arena, error) || !study_feed(study, &probe, 0, n, error) ||
        !trace_finish(trace, error))
        return false;
    double most = fabs(trace->values[trace->strongest]);
    for (size_t i = 0; i < n; i++)
        view->values[i] = (TokenValue){i, subject->tokens.ids[i], trace->values[i],
                                       most > 0 ? fabs(trace->values[i]) / most : 0};
    return true;
}

/* Tells how much of the file has been read, where its size is known. */
static bool tell_progress(const Subject *subject, const Corpus *corpus, Error *error) {
    size_t total = (size_t)(corpus->total >> 10), done = at_most((size_t)(corpus->done >> 10), total);
    return subject_go_on(subject, total > 0 ? "KiB of the corpus" : NULL, done, total, error);
}

static bool read_pieces(Study *study, NeuronsView *view, Error *error) {
    Tokens tokens = {0};
    bool ok = true;
    for (String piece = {0}; ok;) {
        ok =
            tell_progress(&study->subject, &view->corpus, error) && corpus_read(&view->corpus, &piece, error);
        if (!ok || piece.n == 0) break;
        tokens.n = 0;
        ok = tokenizer_encode(study->tokenizer, piece.data, piece.n,
                              study->options->special ? ENCODE_SPECIAL : 0, &tokens, error) &&
             examples_add(&view->examples, tokens.ids, tokens.n, error);
    }
    if (view->corpus.total >> 10) subject_go_on(&study->subject, "KiB of the corpus", 1, 1, NULL);
    tokens_free(&tokens);
    return ok && examples_finish(&view->examples, error);
}

static bool search_corpus(Study *study, NeuronsView *view, Error *error) {
    Examples *examples = &view->examples;
    const StudyOptions *o = study->options;
    size_t limit = subject_n_ctx(&study->subject);
    bool bos = o->bos || (!o->no_bos && tokenizer_adds_bos(study->tokenizer));
    study->subject.bos = bos; /* of each window */
    *examples = (Examples){.unit = view->trace.unit,
                           .n_top = view->n_top == NOT_GIVEN ? N_EXAMPLES : view->n_top,
                           .n_window = o->n_ctx ? limit : at_most(WINDOW, limit),
                           .bos = bos ? tokenizer_bos(study->tokenizer) : -1};
    if (bos && examples->bos < 0)
        return error_set(error, "--bos: the vocabulary has no token that begins a text");
    if (examples->n_window < 2 ||
        (model_weights(study->model)->positions.data && limit > model_config(study->model)->n_ctx))
        return error_set(error, "-c %zu: a window has from 2 to %zu tokens here", limit,
                         model_config(study->model)->n_ctx);
    if (!corpus_open(&view->corpus, view->corpus_path, error) ||
        !examples_begin(examples, &study->subject, &study->arena, error) || !read_pieces(study, view, error))
        return false;
    if (examples->n_tokens == 0)
        return error_set(error, "--corpus %s: there is no text in it", view->corpus_path);
    view->mean = examples->sum / (double)examples->n_tokens;
    view->deviation = sqrt(fmax(examples->squares / (double)examples->n_tokens - view->mean * view->mean, 0));
    return true;
}

static bool compute(Study *study, void *own, Error *error) {
    NeuronsView *view = own;
    Unit *unit = &view->trace.unit;
    bool has_unit = view->neuron || view->head;
    unit->is_head = view->head;
    if (has_unit && !read_unit(study->model, view->neuron ? view->neuron : view->head, unit, error))
        return false;
    if (view->corpus_path) return search_corpus(study, view, error);
    return has_unit ? trace_unit(study, view, error) : find_strongest(study, view, error);
}

#define ROW(member) offsetof(NeuronRow, member)

static const Column strongest_columns[] = {
    {NULL, "neuron", CELL_NAME, ROW(name), -12},
    {"layer", NULL, CELL_SIZE, ROW(neuron.layer)},
    {"neuron", NULL, CELL_SIZE, ROW(neuron.index)},
    {"value", "value", CELL_REAL, ROW(neuron.value), 10, 4},
    {"position", "pos", CELL_SIZE, ROW(neuron.position), 6},
    {"token", "token", CELL_TOKEN, ROW(id), TOKEN_WIDTH + 2, TOKEN_WIDTH},
    {"output_norm", "‖value·w‖", CELL_REAL, ROW(neuron.output_norm), 11, 4, .ascii = "|value*w|"},
};
static const Column value_columns[] = {
    {"position", "  pos", CELL_SIZE, offsetof(TokenValue, position), 5},
    {"token", "token", CELL_TOKEN, offsetof(TokenValue, id), TOKEN_WIDTH + 1, TOKEN_WIDTH},
    {"value", "value", CELL_REAL, offsetof(TokenValue, value), 10, 4},
    {NULL, "", CELL_BAR, offsetof(TokenValue, share), BAR_WIDTH},
};

static const Table strongest_table = TABLE("neurons", strongest_columns),
                   values_table = TABLE("values", value_columns);

static void print_strongest(Report *report, const NeuronsView *view) {
    print_styled(report, STYLE_DIM,
                 "value: the hidden number that W_down reads, at the token where it is largest in size\n"
                 "%s: the length of what it adds there to the residual stream\n",
                 report->ascii ? "|value*w|" : "‖value·w‖");
    table_show(report, &strongest_table, 0, view->rows, view->neurons.n_top, sizeof *view->rows);
}

static void print_effects(Report *report, const NeuronsView *view) {
    const UnitTrace *trace = &view->trace;
    const Config *config = model_config(trace->subject->model);
    printf("\n%s = %.4f at token %zu, where it is strongest: the length of what it adds.\n"
           "Straight to the unembedding it changes the next token's logits most at:\n",
           report->ascii ? "|value*w|" : "‖value·w‖", trace->written.output_norm, trace->strongest);
    effects_show(report, &trace->written, trace->n_top);
    if (trace->behind)
        print_styled(report, STYLE_DIM,
                     "The norm behind the MLP divides by what it does here for all neurons together.\n");
    if (config->logit_cap != 0)
        print_styled(report, STYLE_DIM, "Logits before their soft cap of %.4g.\n", (double)config->logit_cap);
}

static void print_meaning(const Report *report, const Unit *unit) {
    char name[64];
    print_styled(report, STYLE_BOLD, "%s", unit_name(name, unit));
    if (unit->is_head)
        puts(report->ascii ? ": |z W_O|: the length of what the head adds, before a scale or norm behind"
                           : ": ‖z W_O‖: the length of what the head adds, before a scale or norm behind");
    else
        puts(": the hidden number, as W_down reads it");
}

static void print_trace(Study *study, const NeuronsView *view) {
    Report *report = &study->report;
    print_meaning(report, &view->trace.unit);
    table_show(report, &values_table, 0, view->values, study->subject.tokens.n, sizeof *view->values);
    if (!view->trace.unit.is_head) print_effects(report, view);
}

static size_t token_columns(const Report *report, int32_t id) {
    String piece = tokenizer_piece(report->tokenizer, id, true);
    return text_width(report, piece.data, piece.n);
}

/* Of an example's tokens those around `at` that a line of `room` columns has room for: some two thirds of it before. */
static void fit(const Report *report, const Example *example, size_t room, size_t *begin, size_t *end) {
    size_t used = token_columns(report, example->ids[example->at]) + 2, before = room * 2 / 3;
    *begin = example->at, *end = example->at + 1;
    for (size_t n; *begin > 0; --*begin, used += n)
        if (used + (n = token_columns(report, example->ids[*begin - 1])) > before) break;
    for (size_t n; *end < example->n; ++*end, used += n)
        if (used + (n = token_columns(report, example->ids[*end])) > room) break;
}

/* Tokens as one text, for a character may be split over some. */
static bool print_tokens(const Report *report, const int32_t *ids, size_t n, Error *error) {
    TextBuffer text = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        String piece = tokenizer_piece(report->tokenizer, ids[i], true);
        ok = text_append(&text, piece.data, piece.n);
    }
    if (ok) print_column(report, text.data, text.n, 0);
    free(text.data);
    return ok || error_set(error, "not enough memory for a line of text");
}

/* The strongest token is in brackets, and no wider than the line. */
static void print_strong(const Report *report, int32_t id, size_t room) {
    String piece = tokenizer_piece(report->tokenizer, id, true);
    print_style(report, STYLE_BOLD);
    putchar('[');
    print_column(report, piece.data, piece.n, at_most(text_width(report, piece.data, piece.n), room - 2));
    putchar(']');
    print_style(report, STYLE_PLAIN);
}

static bool print_example(const Report *report, const Example *example, Error *error) {
    size_t begin, end, room = report->width - BEFORE_TEXT;
    printf("%9.4f %8" PRIu64 "  ", example->value, example->line);
    fit(report, example, room, &begin, &end);
    if (!print_tokens(report, example->ids + begin, example->at - begin, error)) return false;
    print_strong(report, example->ids[example->at], room);
    if (!print_tokens(report, example->ids + example->at + 1, end - example->at - 1, error)) return false;
    putchar('\n');
    return true;
}

static bool print_examples(const Report *report, const NeuronsView *view, Error *error) {
    const Examples *examples = &view->examples;
    print_meaning(report, &examples->unit);
    print_styled(report, STYLE_DIM,
                 "%" PRIu64 " tokens in windows of %zu; mean value %.4f, a standard deviation of %.4f\n",
                 examples->n_tokens, examples->n_window, view->mean, view->deviation);
    print_styled(report, STYLE_BOLD, "    value     line  [the token] where a window is strongest\n");
    for (size_t i = 0; i < examples->n_best; i++)
        if (!print_example(report, &examples->best[i], error)) return false;
    return true;
}

static void json_example(Report *report, const Example *example) {
    json_object(report, NULL);
    json_real(report, "value", example->value);
    json_int(report, "position", (int64_t)example->position);
    json_int(report, "line", (int64_t)example->line);
    json_int(report, "at", (int64_t)example->at);
    json_array(report, "tokens");
    for (size_t i = 0; i < example->n; i++) {
        json_object(report, NULL);
        json_token(report, example->ids[i]);
        json_end_object(report);
    }
    json_end_array(report);
    json_end_object(report);
}

static void json_examples(Report *report, const NeuronsView *view) {
    const Examples *examples = &view->examples;
    json_text(report, "corpus", view->corpus_path, SIZE_MAX);
    json_int(report, "n_corpus_tokens", (int64_t)examples->n_tokens);
    json_int(report, "n_windows", (int64_t)examples->n_windows);
    json_int(report, "window", (int64_t)examples->n_window);
    json_real(report, "mean", view->mean);
    json_real(report, "deviation", view->deviation);
    json_array(report, "examples");
    for (size_t i = 0; i < examples->n_best; i++) json_example(report, &examples->best[i]);
    json_end_array(report);
}

static void json_trace(Study *study, const NeuronsView *view) {
    Report *report = &study->report;
    const UnitTrace *trace = &view->trace;
    table_show(report, &values_table, 0, view->values, study->subject.tokens.n, sizeof *view->values);
    json_int(report, "strongest", (int64_t)trace->strongest);
    if (trace->unit.is_head) return;
    json_real(report, "output_norm", trace->written.output_norm);
    effects_show(report, &trace->written, trace->n_top);
}

static void json_neurons(Study *study, const NeuronsView *view) {
    Report *report = &study->report;
    const Unit *unit = &view->trace.unit;
    if (!view->neuron && !view->head) {
        table_show(report, &strongest_table, 0, view->rows, view->neurons.n_top, sizeof *view->rows);
        return;
    }
    json_int(report, "layer", (int64_t)unit->layer);
    json_int(report, unit->is_head ? "head" : "neuron", (int64_t)unit->index);
    if (view->corpus_path)
        json_examples(report, view);
    else
        json_trace(study, view);
}

static bool show(Study *study, void *own, Error *error) {
    const NeuronsView *view = own;
    if (view->corpus_path && !is_json(&study->report)) return print_examples(&study->report, view, error);
    if (is_json(&study->report))
        json_neurons(study, view);
    else if (view->values)
        print_trace(study, view);
    else
        print_strongest(&study->report, view);
    return true;
}

static void free_neurons(void *own) {
    NeuronsView *view = own;
    examples_end(&view->examples);
    corpus_close(&view->corpus);
}

static const NeuronsView defaults = {.layer = NOT_GIVEN, .n_top = NOT_GIVEN};

#define AT(member) offsetof(NeuronsView, member)

static const Option options[] = {
    {"--layer", NULL, OPTION_SIZE, AT(layer), 0, 1e9},
    {"--top", NULL, OPTION_SIZE, AT(n_top), 0, 1000},
    {"--neuron", NULL, OPTION_ONCE, AT(neuron)},
    {"--head", NULL, OPTION_ONCE, AT(head)},
    {"--corpus", NULL, OPTION_ONCE, AT(corpus_path), .file = true},
};

const View view_neurons = {
    .name = "neurons",
    .summary = "the MLPs' hidden numbers, and the texts that excite one",
    .help = HELP(
        "The neurons that are strongest on a text. Of one: its value at each token, and the tokens that it\n"
        "raises and lowers. With a corpus: where in it one, or a head, is strongest.\n"
        "\n"
        "  --layer L             of one layer (all)        --top K   so many (20; 5 tokens; 10 places)\n"
        "  --neuron L3N120       one neuron, token by token\n"
        "  --head L3H4           one head: the length of what it adds\n"
        "  --corpus FILE         the places in a text of any size (- for stdin), read in windows of 256\n"
        "                        tokens (-c N: of N)\n"
        "\n"
        "examples:\n"
        "  ./study neurons model.bin -p \"The Eiffel Tower is in\" --neuron L3N120\n"
        "  ./study neurons model.bin --neuron L3N120 --corpus book.txt\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(NeuronsView),
    .check = check,
    .compute = compute,
    .show = show,
    .free = free_neurons,
};
