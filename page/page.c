/*
 * view: what a model does with a text, as one web page: the text's surprisal, what was expected, patterns and scores of
 * all heads, the logit lens. The program gathers the numbers, in one pass over the text, and puts them as JSON into a
 * page that draws them (web/); docs/STUDY.md defines them.
 *
 * With -n the model first writes on; the pass is then over all of it.
 */
#include "page/page.h"

#include <string.h>

enum { TOP = 20 };

static bool lens_wants(Numbers *numbers, ProbeSite site, size_t layer, size_t head) {
    return has_part(numbers, PART_LENS) && lens_rows_want(&numbers->lens, site, layer, head);
}

static bool traces_wanted(const Numbers *numbers, ProbeSite site, size_t layer) {
    return has_part(numbers, PART_PATTERNS) && traces_want(&numbers->traces, site, layer);
}

static bool writes_wanted(const Numbers *numbers, ProbeSite site, size_t layer) {
    return has_part(numbers, PART_WRITES) && writes_want(&numbers->writes, site, layer);
}

static bool effects_wanted(const Numbers *numbers, ProbeSite site, size_t layer) {
    return has_part(numbers, PART_EXPLAINED) && effects_want(&numbers->effects, site, layer);
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    Numbers *numbers = user;
    return lens_wants(numbers, site, layer, head) || (site == PROBE_PATTERN && numbers->text.sums) ||
           traces_wanted(numbers, site, layer) || writes_wanted(numbers, site, layer) ||
           effects_wanted(numbers, site, layer);
}

static void visit(void *user, const Activation *seen) {
    Numbers *numbers = user;
    if (lens_wants(numbers, seen->site, seen->layer, seen->head)) lens_rows_keep(&numbers->lens, seen);
    if (seen->site == PROBE_PATTERN && numbers->text.sums) heads_add(&numbers->text, seen);
    if (traces_wanted(numbers, seen->site, seen->layer)) traces_add(&numbers->traces, seen);
    if (writes_wanted(numbers, seen->site, seen->layer)) writes_add(&numbers->writes, seen);
    if (effects_wanted(numbers, seen->site, seen->layer)) effects_add(&numbers->effects, seen);
}

static void add_logits(void *user, size_t position, const float *logits) {
    Numbers *numbers = user;
    if (has_part(numbers, PART_PREDICTIONS)) predictions_add(&numbers->predictions, position, logits);
    if (has_part(numbers, PART_LENS)) lens_rows_add(&numbers->lens, numbers->session, position, logits);
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
    Session *session = subject_resume(subject, n + page->n_predict, n - 1, NULL, error);
    bool ok = session && (generator = study_generator(study, session, page->temp, error)) &&
              study_generate(study, generator, page->n_predict, tell_progress, page, error);
    generator_free(generator);
    subject_go_on(subject, "", 1, 1, NULL);
    subject_release(subject, session);
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

/* The positions that are shown, once the text is all there. */
static bool choose_positions(Page *page, Error *error) {
    size_t n = page->study->subject.tokens.n;
    if (page->query_text && page->query == NOT_GIVEN &&
        !study_query(page->study, page->query_text, NULL, &page->query, error))
        return false;
    page->ranged = page->from != NOT_GIVEN || page->to != NOT_GIVEN;
    if (page->from == NOT_GIVEN) page->from = 0;
    if (page->to == NOT_GIVEN) page->to = n;
    if (page->from >= page->to || page->to > n)
        return error_set(
            error,
            "--from %zu --to %zu: there are the positions 0 to %zu, and --to is the one behind the last",
            page->from, page->to, n - 1);
    if (page->query == NOT_GIVEN) page->query = page->ranged ? page->to - 1 : page->n_prompt - 1;
    if (page->query >= n)
        return error_set(error, "--query %zu: the model ended the text after token %zu", page->query, n - 1);
    if (page->query < page->from || page->query >= page->to)
        return error_set(error, "--query %zu is not in --from %zu --to %zu", page->query, page->from,
                         page->to);
    return true;
}

/* The first position that is fed under the probe: token --from is foreseen one before it. */
static size_t first_fed(const Page *page) {
    return page->from - (page->from > 0 && has_part(&page->as_is, PART_PREDICTIONS));
}

static bool begin_predictions(Numbers *numbers, Error *error) {
    const Page *page = numbers->page;
    size_t n_top = at_most(page->top == NOT_GIVEN ? TOP : page->top, page->config->n_vocab);
    if (!has_part(numbers, PART_PREDICTIONS)) return true;
    if (!predictions_begin(&numbers->predictions, &page->study->subject, &page->study->arena, n_top, error))
        return false;
    numbers->predictions.end = page->to;
    return true;
}

/* So many tokens are listed as `explain` lists. */
static bool begin_effects(Numbers *numbers, Error *error) {
    const Page *page = numbers->page;
    Study *study = page->study;
    if (!has_part(numbers, PART_EXPLAINED) || has_gated_heads(study->model)) return true;
    numbers->effects = (Effects){.n_layers = page->config->n_layer,
                                 .n_heads = page->config->n_head,
                                 .layers = page->layers,
                                 .query = page->query,
                                 .n_top = N_EFFECTS};
    return effects_begin(&numbers->effects, &study->subject, &study->arena, error);
}

static bool begin_text(Numbers *numbers, Error *error) {
    Study *study = numbers->page->study;
    if (!has_part(numbers, PART_TEXT) || study->subject.tokens.n < 2) return true;
    if (!heads_begin(&numbers->text, &study->subject, &study->arena, NULL, error)) return false;
    heads_start(&numbers->text, 0);
    return true;
}

/* Room for the numbers of a text that is fed from `first` on. */
static bool begin_numbers(Numbers *numbers, size_t first, Error *error) {
    const Page *page = numbers->page;
    const Subject *subject = &page->study->subject;
    Arena *arena = &page->study->arena;
    bool patterns = has_part(numbers, PART_PATTERNS);
    return begin_predictions(numbers, error) &&
           (!has_part(numbers, PART_LENS) ||
            lens_rows_begin(&numbers->lens, subject, arena, first, page->to, error)) &&
           (!patterns || traces_begin(&numbers->traces, subject, arena, page->layers, page->from, page->to,
                                      page->query, error)) &&
           (!has_part(numbers, PART_WRITES) ||
            writes_begin(&numbers->writes, subject, arena, page->layers,
                         patterns ? &numbers->traces.output_norms : NULL, error)) &&
           begin_effects(numbers, error) && begin_text(numbers, error);
}

static bool finish_numbers(Numbers *numbers, Error *error) {
    return (!has_part(numbers, PART_PATTERNS) || traces_finish(&numbers->traces, error)) &&
           (!numbers->effects.n_heads || effects_finish(&numbers->effects, error));
}

static bool feed(Page *page, Error *error) {
    const Subject *subject = &page->study->subject;
    Numbers *numbers = &page->as_is;
    Probe probe = {numbers, wants, visit};
    size_t first = first_fed(page);
    bool logits = has_part(numbers, PART_PREDICTIONS | PART_LENS);
    Session *session = subject_resume(subject, 0, first, &probe, error);
    numbers->session = session;
    bool ok = session && subject_feed(subject, session, subject->tokens.ids + first, page->to - first,
                                      logits ? add_logits : NULL, numbers, error);
    subject_release(subject, session);
    return ok && finish_numbers(numbers, error);
}

static bool begin_repeat(Page *page, Error *error) {
    Study *study = page->study;
    RandomTexts random = {.bos = repeats_with_bos(study), .seed = study->seed};
    if (!has_part(&page->as_is, PART_REPEAT) || !heads_can_repeat(&study->subject, random.bos)) return true;
    return heads_begin(&page->repeat, &study->subject, &study->arena, &random, error);
}

static bool gather(Page *page, Error *error) {
    Arena *arena = &page->study->arena;
    if (!choose_positions(page, error)) return false;
    page->named = arena_new(arena, page->config->n_vocab, sizeof *page->named);
    page->levels = arena_new(arena, page->study->subject.tokens.n, 2);
    page->made_by = command_line(page->study, error);
    if (!page->made_by || !begin_numbers(&page->as_is, first_fed(page), error) || !begin_repeat(page, error))
        return false;
    return ((page->as_is.parts & ~(unsigned)PART_REPEAT) == 0 || feed(page, error)) &&
           (!page->repeat.sums || heads_feed(&page->repeat, false, error));
}

/* --ablate: the text once more without these parts. */
static bool gather_without(Page *page, Error *error) {
    Numbers *changed = &page->changed;
    Ablation *ablation = &page->ablation;
    Probe probe = {changed, wants, visit};
    if (page->study->subject.tokens.n < 2 && !page->ranged)
        return error_set(error, "--ablate scores each token after the first: give a text of two or more");
    ablation->from = page->from;
    ablation->to = page->to;
    if (changed->parts & ~(unsigned)PART_PREDICTIONS) ablation->look = &probe;
    if (!begin_numbers(changed, ablation_first_position(ablation), error) ||
        !ablation_baseline(ablation, error))
        return false;
    changed->session = ablation->session;
    return ablation_run(ablation, &page->difference, add_logits, changed, error) &&
           finish_numbers(changed, error);
}

static bool check_svg(Page *page, Error *error) {
    const Config *config = page->config;
    const char *at = page->svg;
    unsigned long long layer, head;
    bool one;
    if (!parse_head(&at, &layer, &head, &one) || !one || *at)
        return error_set(error, "--svg takes a head such as L3H7, not '%s'", page->svg) || wrong_usage(error);
    if (layer >= config->n_layer || head >= config->n_head)
        return error_set(error, "--svg: there is no %s: the model has %zu layer%s of %zu head%s, from 0 on",
                         page->svg, config->n_layer, config->n_layer == 1 ? "" : "s", config->n_head,
                         config->n_head == 1 ? "" : "s");
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

static bool is_ranged(const Page *page) { return page->from != NOT_GIVEN || page->to != NOT_GIVEN; }

/* --parts */
static bool parse_parts(const Page *page, unsigned *parts, Error *error) {
    static const struct {
        const char *name;
        unsigned parts;
    } names[] = {
        {"predictions", PART_PREDICTIONS},
        {"patterns", PART_PATTERNS},
        {"lens", PART_LENS},
        {"heads", PART_TEXT | PART_REPEAT},
        {"text", PART_TEXT},
        {"repeat", PART_REPEAT},
        {"writes", PART_WRITES},
        {"explained", PART_EXPLAINED},
    };
    *parts = page->part_list ? 0 : is_ranged(page) ? ALL_PARTS - PART_TEXT - PART_REPEAT : ALL_PARTS;
    for (const char *at = page->part_list; at; at = *at ? at + 1 : NULL) {
        size_t n = strcspn(at, ","), i = 0;
        while (i < sizeof names / sizeof *names && (strncmp(names[i].name, at, n) != 0 || names[i].name[n]))
            i++;
        if (i == sizeof names / sizeof *names)
            return error_set(
                error,
                "--parts: '%s' is no list of predictions, patterns, lens, writes, explained, heads, text, repeat",
                page->part_list);
        *parts |= names[i].parts;
        at += n;
    }
    return true;
}

static void choose_parts_of_page(Page *page, Error *error) {
    parse_parts(page, &page->parts, error); /* as check_together() did */
    page->as_is = (Numbers){.page = page, .parts = page->ablated_only ? 0 : page->parts};
    page->changed = (Numbers){.page = page, .parts = page->parts & ~(unsigned)PART_REPEAT};
}

/* --query may mean a token that the model has yet to write: a number is known before, a word is sought when all are there. */
static bool check_query(Page *page, Error *error) {
    Study *study = page->study;
    if (!page->query_text) return true;
    if (page->n_predict == 0) return study_query(study, page->query_text, NULL, &page->query, error);
    return !study_query_number(page->query_text, &page->query) ||
           study_check_place(study, NOT_GIVEN, NOT_GIVEN, page->query, page->n_prompt + page->n_predict,
                             error);
}

/* Refuses what can be refused before the model runs. */
static bool check(Page *page, Error *error) {
    Study *study = page->study;
    Arena *arena = &study->arena;
    size_t n_layer = page->config->n_layer;
    if (!check_query(page, error)) return false;
    choose_parts_of_page(page, error);
    if (page->svg && !check_svg(page, error)) return false;
    page->layers = arena_new(arena, n_layer, sizeof *page->layers);
    return arena_ok(arena, error, "%zu layers", n_layer) && subject_check_length(&study->subject, error) &&
           study_check_predict(study, page->n_predict, error) &&
           parse_list("--layers", page->layer_list, "layer", n_layer, page->layers, error) &&
           leave_out_states(page, error) && ablation_begin(&page->ablation, &study->subject, arena, error) &&
           (!page->ablate || choose_parts(&page->ablation, "--ablate", page->ablate, error));
}

static bool compute(Study *study, void *view, Error *error) {
    Page *page = view;
    bool json = study->options->json;
    page->study = study;
    if (page->no_model) return page_file_open(page, error) && page_file_write(page, error);
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

static bool is_bare(const void *view) { return ((const Page *)view)->no_model; }

static bool check_parts(const StudyOptions *o, const Page *page, Error *error) {
    unsigned parts;
    if (!parse_parts(page, &parts, error)) return false;
    if (is_ranged(page) && parts & PART_TEXT)
        return error_set(error,
                         "--parts %s: heads' scores are means over all queries; leave out --from and --to",
                         page->part_list);
    if ((is_ranged(page) || page->part_list || page->ablated_only) && !o->json)
        return error_set(
            error, "--from, --to, --parts and --ablated-only choose from the numbers: give them with --json");
    return page->ablate || !page->ablated_only ||
           error_set(error, "--ablated-only: say by --ablate what is switched off");
}

static bool check_together(const StudyOptions *o, const void *view, Error *error) {
    const Page *page = view;
    if (page->no_model && (!page->live || o->model || o->prompt || o->prompt_file || o->json))
        return error_set(error, "--no-model goes with --live and -o alone: a page that takes a GGUF file");
    if (page->no_model && !page->output) return error_set(error, "the page needs a file: -o page.html");
    if (page->live && (o->json || page->svg))
        return error_set(error, "--live writes a page: leave out %s", page->svg ? "--svg" : "--json");
    if (page->live && o->tokenizer)
        return error_set(error, "--live takes the model's own vocabulary: leave out -z");
    if (!check_parts(o, page, error)) return false;
    if (o->json && (page->output || page->svg))
        return error_set(error, "--json prints the data alone: leave out %s", page->svg ? "--svg" : "-o");
    if (!o->json && !page->output)
        return error_set(error, "view writes a file: name it with -o %s",
                         page->svg ? "figure.svg" : "page.html");
    if (page->top == 0) return error_set(error, "--top 0 leaves nothing to show: take 1 or more");
    return !page->svg || !(page->ablate || page->layer_list || page->query_text || page->top != NOT_GIVEN) ||
           error_set(error, "--svg draws one pattern: leave out --ablate, --layers, --query and --top");
}

static const Page defaults = {.top = NOT_GIVEN, .query = NOT_GIVEN, .from = NOT_GIVEN, .to = NOT_GIVEN};

#define AT(member) offsetof(Page, member)

static const Option options[] = {
    {"--output", "-o", OPTION_ONCE, AT(output), .file = true},
    {"--predict", "-n", OPTION_SIZE, AT(n_predict), 0, 1e9},
    {"--temp", NULL, OPTION_REAL, AT(temp), 0, 1e9},
    {"--top", NULL, OPTION_SIZE, AT(top), 0, 1000},
    {"--layers", NULL, OPTION_ONCE, AT(layer_list)},
    {"--query", NULL, OPTION_ONCE, AT(query_text)},
    {"--from", NULL, OPTION_SIZE, AT(from), 0, 1e9},
    {"--to", NULL, OPTION_SIZE, AT(to), 0, 1e9},
    {"--parts", NULL, OPTION_ONCE, AT(part_list)},
    {"--ablated-only", NULL, OPTION_ON, AT(ablated_only)},
    {"--ablate", NULL, OPTION_ONCE, AT(ablate)},
    {"--svg", NULL, OPTION_ONCE, AT(svg)},
    {"--live", NULL, OPTION_ON, AT(live)},
    {"--no-model", NULL, OPTION_ON, AT(no_model)},
    {"--yes", NULL, OPTION_ON, AT(yes)},
};

const View view_page = {
    .name = "view",
    .summary = "all of it in one page, for a browser",
    .help = HELP(
        "Writes a web page that needs nothing but itself: surprisal of each token, what was expected, every\n"
        "head's pattern and scores, the logit lens, one head step by step.\n"
        "\n"
        "  -o, --output FILE.html   (needed; --json prints the page's numbers instead)\n"
        "  -n N [--temp X]     let the model write N tokens first, greedily or at a temperature\n"
        "  --top K             tokens kept of each distribution (20)\n"
        "  --layers LIST       whose patterns are kept: 0,3,5-7 (all)\n"
        "  --query Q           whose scores are kept if not all fit, and what heads write there (the last)\n"
        "  --ablate LIST       also without these: L3H7, L3 (a layer's heads), L3MLP, L3H7=0.5 (half of it)\n"
        "  --json --parts LIST   of predictions,patterns,lens,writes,explained,heads (text,repeat)\n"
        "  --json --ablated-only   with --ablate: not what is known of the text as it is\n"
        "  --json --from N --to M   only of the positions N to M - 1; the text before is fed all the same\n"
        "  --svg L3H7          instead of a page, this head's pattern as a figure\n"
        "  --live              engine and model in the page: one types into it, and it answers\n"
        "  --no-model          … without a model: the page takes a GGUF file   --yes   even above 200 MB\n"
        "\n"
        "  ./study view model.bin -p \"The Eiffel\" -n 4 -o page.html\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(Page),
    .check = check_together,
    .is_bare = is_bare,
    .compute = compute,
    .free = free_page,
};
