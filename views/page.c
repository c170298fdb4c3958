/*
 * view: what a model does with a text, as one web page: the text's surprisal, what was expected, patterns and scores of
 * all heads, the logit lens. The program gathers the numbers, in one pass over the text, and puts them as JSON into a
 * page that draws them (web/); docs/STUDY.md defines them.
 *
 * With -n the model first writes on; the pass is then over all of it.
 */
#include "views/page.h"

#include <string.h>

enum { TOP = 20 };

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    Page *page = user;
    return lens_rows_want(&page->lens, site, layer, head) || (site == PROBE_PATTERN && page->text.sums) ||
           traces_want(&page->traces, site, layer);
}

static void visit(void *user, const Activation *seen) {
    Page *page = user;
    if (lens_rows_want(&page->lens, seen->site, seen->layer, seen->head)) lens_rows_keep(&page->lens, seen);
    if (seen->site == PROBE_PATTERN && page->text.sums) heads_add(&page->text, seen);
    if (traces_want(&page->traces, seen->site, seen->layer)) traces_add(&page->traces, seen);
}

static void add_logits(void *user, size_t position, const float *logits) {
    Page *page = user;
    predictions_add(&page->predictions, position, logits);
    lens_rows_add(&page->lens, page->session, position, logits);
}

static void tell_progress(void *user) {
    const Page *page = user;
    const Subject *subject = &page->study->subject;
    subject_go_on(subject, "generated", subject->tokens.n - page->n_prompt, page->n_predict, NULL);
}

/* -n: the study's tokens become the prompt and what the model wrote behind it. */
static bool generate(Page *page, Error *error) {
    Study *study = page->study;
    Subject *subject = &study->subject;
    size_t n = page->n_prompt;
    Generator *generator = NULL;
    Session *session = subject_session(subject, n + page->n_predict, NULL, error);
    bool ok = session && subject_feed(subject, session, subject->tokens.ids, n - 1, NULL, NULL, error) &&
              (generator = study_generator(study, session, page->temp, error)) &&
              study_generate(study, generator, page->n_predict, tell_progress, page, error);
    generator_free(generator);
    subject_go_on(subject, "", 1, 1, NULL);
    session_free(session);
    return ok;
}

/* The command line as a shell reads it, so that whoever has the page can make it again. */
static const char *command_line(Study *study, Error *error) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%";
    size_t n = sizeof "study";
    for (int i = 0; i < study->argc; i++) n += 4 * strlen(study->argv[i]) + 3;
    char *line = arena_new(&study->arena, n, 1), *at = line;
    if (!arena_ok(&study->arena, error, "the command line")) return NULL;
    at += sprintf(at, "study");
    for (int i = 0; i < study->argc; i++) {
        const char *word = study->argv[i];
        bool is_plain = *word && word[strspn(word, plain)] == '\0';
        at += sprintf(at, is_plain ? " " : " '");
        for (; *word; *at++ = *word++)
            if (*word == '\'') at += sprintf(at, "'\\'");
        if (!is_plain) *at++ = '\'';
    }
    return line;
}

static bool allocate(Page *page, Error *error) {
    Study *study = page->study;
    const Subject *subject = &study->subject;
    Arena *arena = &study->arena;
    size_t n = subject->tokens.n, n_vocab = page->config->n_vocab;
    RandomTexts random = {.bos = repeats_with_bos(study), .seed = study->seed};
    if (page->query == NOT_GIVEN) page->query = page->n_prompt - 1;
    if (page->query >= n)
        return error_set(error, "--query %zu: the model ended the text after token %zu", page->query, n - 1);
    page->named = arena_new(arena, n_vocab, sizeof *page->named);
    page->levels = arena_new(arena, n, 2);
    page->made_by = command_line(study, error);
    return page->made_by &&
           predictions_begin(&page->predictions, subject, arena,
                             at_most(page->top == NOT_GIVEN ? TOP : page->top, n_vocab), error) &&
           lens_rows_begin(&page->lens, subject, arena, error) &&
           traces_begin(&page->traces, subject, arena, page->layers, page->query, error) &&
           (n < 2 || heads_begin(&page->text, subject, arena, NULL, error)) &&
           (!heads_can_repeat(subject, random.bos) ||
            heads_begin(&page->repeat, subject, arena, &random, error));
}

static bool gather(Page *page, Error *error) {
    const Subject *subject = &page->study->subject;
    Probe probe = {page, wants, visit};
    if (!allocate(page, error)) return false;
    if (page->text.sums) heads_start(&page->text, 0);
    page->session = subject_session(subject, 0, &probe, error);
    bool ok = page->session && subject_feed(subject, page->session, subject->tokens.ids, subject->tokens.n,
                                            add_logits, page, error);
    session_free(page->session);
    return ok && traces_finish(&page->traces, error) &&
           (!page->repeat.sums || heads_feed(&page->repeat, false, error));
}

/* --ablate: the text once more without these heads. */
static bool gather_without(Page *page, Error *error) {
    Study *study = page->study;
    Ablation *ablation = &page->ablation;
    if (study->subject.tokens.n < 2)
        return error_set(error, "--ablate scores each token after the first: give a text of two or more");
    return predictions_begin(&page->without, &study->subject, &study->arena, page->predictions.n_top,
                             error) &&
           ablation_baseline(ablation, error) &&
           ablation_run(ablation, &page->difference, predictions_add, &page->without, error);
}

static bool check_svg(Page *page, Error *error) {
    const Config *config = page->config;
    const char *at = page->svg;
    unsigned long long layer, head;
    bool one;
    if (page->ablate || page->layer_list || page->query != NOT_GIVEN || page->top != NOT_GIVEN)
        return error_set(error, "--svg draws one pattern: leave out --ablate, --layers, --query and --top");
    if (!parse_head(&at, &layer, &head, &one) || !one || *at)
        return error_set(error, "--svg takes a head such as L3H7, not '%s'", page->svg);
    if (layer >= config->n_layer || head >= config->n_head)
        return error_set(error, "--svg: there is no %s: the model has %zu layers of %zu heads, from 0 on",
                         page->svg, config->n_layer, config->n_head);
    if (!study_check_heads(page->study, (size_t)layer, error)) return false;
    page->figure = (Patterns){.layer = (size_t)layer, .n_layers = 1, .head = (size_t)head, .n_heads = 1};
    return true;
}

/* Layers without heads, unless they are asked for. */
static bool leave_out_states(Page *page, Error *error) {
    for (size_t layer = 0; layer < page->config->n_layer; layer++) {
        if (page->layer_list && page->layers[layer] && !study_check_heads(page->study, layer, error))
            return false;
        page->layers[layer] = page->layers[layer] && layer_has_heads(page->study->model, layer);
    }
    return true;
}

/* What can be refused before the model runs. */
static bool check(Page *page, Error *error) {
    Study *study = page->study;
    Arena *arena = &study->arena;
    bool json = study->options->json;
    size_t n_layer = page->config->n_layer, n_positions = page->n_prompt + page->n_predict;
    if (!study_check_place(study, NOT_GIVEN, NOT_GIVEN, page->query, n_positions, error)) return false;
    if (json && (page->output || page->svg))
        return error_set(error, "--json prints the data alone: leave out %s", page->svg ? "--svg" : "-o");
    if (!json && !study_check_output(study, page->output, page->svg ? "figure.svg" : "page.html", error))
        return false;
    if (page->top == 0) return error_set(error, "--top 0 leaves nothing to show: take 1 or more");
    if (page->svg && !check_svg(page, error)) return false;
    page->layers = arena_new(arena, n_layer, sizeof *page->layers);
    return arena_ok(arena, error, "%zu layers", n_layer) && subject_check_length(&study->subject, error) &&
           study_check_predict(study, page->n_predict, error) &&
           parse_list(page->layer_list, "layer", n_layer, page->layers, error) &&
           leave_out_states(page, error) && ablation_begin(&page->ablation, &study->subject, arena, error) &&
           (!page->ablate || choose_heads(&page->ablation, "--ablate", page->ablate, error));
}

static bool compute(Study *study, void *view, Error *error) {
    Page *page = view;
    bool json = study->options->json;
    page->study = study;
    page->config = model_config(study->model);
    page->n_prompt = study->subject.tokens.n;
    if (!check(page, error) || !(json || page_file_open(page, error)) ||
        !(page->n_predict == 0 || generate(page, error)))
        return false;
    if (page->svg) return page_file_write(page, error);
    if (!gather(page, error) || (page->ablate && !gather_without(page, error))) return false;
    if (json) page_json(page, study->report.out);
    return json || page_file_write(page, error);
}

static void free_page(void *view) {
    Page *page = view;
    page_file_abandon(page);
    ablation_free(&page->ablation);
}

static const Page defaults = {.top = NOT_GIVEN, .query = NOT_GIVEN};

#define AT(member) offsetof(Page, member)

static const Option options[] = {
    {"--output", "-o", OPTION_TEXT, AT(output), .file = true},
    {"--predict", "-n", OPTION_SIZE, AT(n_predict), 0, 1e9},
    {"--temp", NULL, OPTION_REAL, AT(temp), 0, 1e9},
    {"--top", NULL, OPTION_SIZE, AT(top), 0, 1000},
    {"--layers", NULL, OPTION_TEXT, AT(layer_list)},
    {"--query", NULL, OPTION_SIZE, AT(query), 0, 1e9},
    {"--ablate", NULL, OPTION_TEXT, AT(ablate)},
    {"--svg", NULL, OPTION_TEXT, AT(svg)},
};

const View view_page = {
    .name = "view",
    .summary = "all of it in one page, for a browser",
    .help =
        "Writes a web page that needs nothing but itself: surprisal of each token, what was expected, every\n"
        "head's pattern and scores, the logit lens, one head step by step.\n"
        "\n"
        "  -o, --output FILE.html   (needed; --json prints the page's numbers instead)\n"
        "  -n N [--temp X]     let the model write N tokens first, greedily or at a temperature\n"
        "  --top K             tokens kept of each distribution (20)\n"
        "  --layers LIST       whose patterns are kept: 0,3,5-7 (all)\n"
        "  --query Q           whose scores are kept where there is no room for all (the prompt's last)\n"
        "  --ablate LIST       also without these heads: L3H7,L4H0, or L3 for all of a layer\n"
        "  --svg L3H7          instead of a page, this head's pattern as a figure\n"
        "\n"
        "  ./study view model.bin -p \"The Eiffel\" -n 4 -o page.html\n",
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(Page),
    .compute = compute,
    .free = free_page,
};
