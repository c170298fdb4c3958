/*
 * view: what a model does with a text, as one web page: the text's surprisal, what was expected, patterns and scores of
 * all heads, the logit lens. The program gathers the numbers, in one pass over the text, and puts them as JSON into a
 * page that draws them (web/); docs/STUDY.md defines them.
 *
 * With -n the model first writes on; the pass is then over all of it.
 */
#include "web/page.h"
#include "cli/output.h"
#include "measures/ablation.h"
#include "measures/heads.h"
#include "measures/lensrows.h"
#include "measures/patterns.h"
#include "measures/predictions.h"
#include "measures/scores.h"
#include "measures/traces.h"
#include "text/unicode.h"
#include "views/view.h"
#include "web/svg.h"

#include <math.h>
#include <string.h>

enum { TOP = 20, TITLE_CHARACTERS = 60, LARGE_MB = 16 };

typedef struct Page {
    const char *output, *layer_list, *ablate, *svg;
    size_t n_predict, top;
    size_t query; /* the position shown first, whose scores the page has in any case */
    float temp;

    Study *study;
    const Config *config;
    OutputFile file;
    Patterns figure; /* of --svg */
    size_t n_prompt; /* tokens from here on were generated */
    bool *layers;    /* [n_layer] whose heads' patterns are kept */
    Session *session;
    Predictions predictions;
    LensRows lens;
    Traces traces;
    Heads text, repeat; /* without sums where there can be none */
    Ablation ablation;  /* of --ablate */
    Difference difference;
    Predictions without;   /* … those heads */
    const char *made_by;   /* the command line */
    bool *named;           /* [n_vocab] tokens that the page names by id */
    unsigned char *levels; /* [n_tokens][2] norms on their way into the page */
} Page;

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

#define PREDICTION(member) offsetof(Prediction, member)

static const Column position_columns[] = {
    {"surprisal_nats", NULL, CELL_REAL, PREDICTION(surprisal)},
    {"rank", NULL, CELL_SIZE, PREDICTION(rank)},
    {"entropy_nats", NULL, CELL_REAL, PREDICTION(entropy)},
};
static const Table position_table = TABLE(NULL, position_columns);

/* Each token as it was foreseen; nothing foresees the first. */
static void json_positions(Report *report, const Predictions *predictions) {
    json_array(report, "positions");
    json_null(report, NULL);
    for (size_t at = 1; at < predictions->subject->tokens.n; at++)
        table_json_object(report, NULL, &position_table, 0, &predictions->items[at - 1]);
    json_end_array(report);
}

/* A token by its id, whose text the page's vocabulary gives. */
static void json_id(Report *report, const char *key, const Page *page, int32_t id) {
    page->named[id] = true;
    json_int(report, key, id);
}

/* What was expected after each token. Logits are written in full: p is e to the power of their difference to log_sum. */
static void json_next(Report *report, const Page *page, const Predictions *predictions) {
    size_t n_top = predictions->n_top;
    json_array(report, "next");
    for (size_t at = 0; at < predictions->subject->tokens.n; at++) {
        const Prediction *item = &predictions->items[at];
        json_object(report, NULL);
        json_rounded(report, "entropy_nats", item->entropy);
        json_real(report, "log_sum", item->log_sum);
        json_array(report, "top"); /* id, logit, … */
        for (size_t i = at * n_top; i < (at + 1) * n_top; i++) {
            json_id(report, NULL, page, predictions->top[i]);
            json_real(report, NULL, (double)predictions->top_logits[i]);
        }
        json_end_array(report);
        json_array(report, "rest");
        for (size_t j = 0; j < N_TEMPERATURES; j++) json_rounded(report, NULL, item->rest[j]);
        json_end_array(report);
        json_end_object(report);
    }
    json_end_array(report);
}

/*
 * "positions": [null, {"surprisal_nats", "rank", "entropy_nats"}, …], of each token as it was foreseen;
 * with `totals` "totals": {"n", "nll_nats", "perplexity", "bits_per_byte"};
 * "next": [{"entropy_nats", "log_sum", "top": [id, logit, …], "rest": […]}, …], after each token.
 */
static void json_predictions(Report *report, const Page *page, const Predictions *predictions, bool totals) {
    json_positions(report, predictions);
    if (totals) json_totals(report, &predictions->totals, true);
    json_next(report, page, predictions);
}

/* [p, rank, id, p, …]: of the final answer, then the likeliest. */
static void json_lens_row(Report *report, const Page *page, const LensRow *row) {
    json_array(report, NULL);
    json_rounded(report, NULL, (double)row->final_p);
    json_int(report, NULL, row->final_rank);
    for (size_t k = 0; k < page->lens.n_top; k++) {
        json_id(report, NULL, page, row->top[k]);
        json_rounded(report, NULL, (double)row->top_p[k]);
    }
    json_end_array(report);
}

/* "lens": {"rows": ["0_pre", …, "final_post"], "positions": [{"final", "rows": [[p, rank, id, p, …], …]}, …]} */
static void json_lens(Report *report, const Page *page) {
    const LensRows *lens = &page->lens;
    char name[32];
    json_object(report, "lens");
    json_array(report, "rows");
    for (size_t i = 0; i < lens->n_rows; i++) json_text(report, NULL, lens_row_name(lens, i, name), SIZE_MAX);
    json_end_array(report);
    json_array(report, "positions");
    for (size_t at = 0; at < lens->subject->tokens.n; at++) {
        json_object(report, NULL);
        json_id(report, "final", page, lens->final[at]);
        json_array(report, "rows");
        for (size_t i = 0; i < lens->n_rows; i++)
            json_lens_row(report, page, &lens->rows[at * lens->n_rows + i]);
        json_end_array(report);
        json_end_object(report);
    }
    json_end_array(report);
    json_end_object(report);
}

/* [scale, base64 of norms/scale in 16 bits each, little-endian] */
static void json_norms(Report *report, const Page *page, const double *norms) {
    unsigned char *levels = page->levels;
    size_t n = page->traces.n;
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, norms[i]);
    for (size_t i = 0; i < n; i++) {
        long level = largest > 0 ? lrint(norms[i] / largest * UINT16_MAX) : 0;
        levels[2 * i] = (unsigned char)(level & 255);
        levels[2 * i + 1] = (unsigned char)(level >> 8);
    }
    json_array(report, NULL);
    json_real(report, NULL, largest / UINT16_MAX);
    json_base64(report, NULL, levels, 2 * n);
    json_end_array(report);
}

typedef enum Trace { TRACE_PATTERN, TRACE_OUTPUT_NORMS, TRACE_VALUE_NORMS, TRACE_SCORES } Trace;

/* What is kept of a head, value norms of a kv head. Scores are written as they lie in memory: little-endian, wherever we run. */
static void json_trace(Report *report, const Page *page, Trace trace, size_t layer, size_t head) {
    const Traces *traces = &page->traces;
    size_t place = traces_place(traces, layer, head), n_scores = traces->n_scores;
    const PackedRows *packed = &traces->patterns[place];
    switch (trace) {
    case TRACE_PATTERN: json_base64(report, NULL, packed->bytes, packed->n); break;
    case TRACE_OUTPUT_NORMS:
        json_norms(report, page, output_norms_of(&traces->output_norms, layer, head));
        break;
    case TRACE_VALUE_NORMS: json_norms(report, page, traces_value_norms(traces, layer, head)); break;
    case TRACE_SCORES:
        json_base64(report, NULL, traces->scores + place * n_scores, n_scores * sizeof *traces->scores);
        break;
    }
}

/* [[one for each head] for each traced layer] */
static void json_by_head(Report *report, const char *key, const Page *page, Trace trace) {
    const Config *config = page->config;
    size_t n_head = trace == TRACE_VALUE_NORMS ? config->n_head_kv : config->n_head;
    json_array(report, key);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (!page->layers[layer]) continue;
        json_array(report, NULL);
        for (size_t head = 0; head < n_head; head++) json_trace(report, page, trace, layer, head);
        json_end_array(report);
    }
    json_end_array(report);
}

/* The members "patterns", "output_norms", "value_norms" and "steps". */
static void json_traces(Report *report, const Page *page) {
    const Traces *traces = &page->traces;
    json_object(report, "patterns");
    json_rounded(report, "least", (double)traces->least);
    json_array(report, "layers");
    for (size_t layer = 0; layer < page->config->n_layer; layer++)
        if (page->layers[layer]) json_int(report, NULL, (int64_t)layer);
    json_end_array(report);
    json_by_head(report, "data", page, TRACE_PATTERN);
    json_end_object(report);
    if (has_gated_heads(page->study->model))
        json_null(report, "output_norms"); /* what a gate leaves of them depends on the query */
    else
        json_by_head(report, "output_norms", page, TRACE_OUTPUT_NORMS);
    json_by_head(report, "value_norms", page, TRACE_VALUE_NORMS);
    json_object(report, "steps");
    json_int(report, "first", (int64_t)traces->first);
    json_int(report, "n", (int64_t)traces->n_queries);
    json_int(report, "max_keys", MAX_KEYS);
    json_int(report, "max_masked", MAX_MASKED);
    json_by_head(report, "scores", page, TRACE_SCORES);
    json_end_object(report);
}

typedef enum RulePart { RULE_SLOPE, RULE_SINK } RulePart;

/* [[one for each head] for each traced layer], or null where no head has one. */
static void json_rules(Report *report, const char *key, const Page *page, RulePart part) {
    const Config *config = page->config;
    const Model *model = page->study->model;
    if (part == RULE_SLOPE ? !model_weights(model)->slopes : !has_learned_sinks(model)) {
        json_null(report, key);
        return;
    }
    json_array(report, key);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (!page->layers[layer]) continue;
        json_array(report, NULL);
        for (size_t head = 0; head < config->n_head; head++) {
            ScoreRule rule = score_rule(model, layer, head);
            json_real(report, NULL, part == RULE_SLOPE ? rule.slope : rule.sink);
        }
        json_end_array(report);
    }
    json_end_array(report);
}

/* What scores are made of, and how far each layer sees and whether it turns. */
static void json_layers(Report *report, const Page *page) {
    const Config *config = page->config;
    ScoreRule rule = score_rule(page->study->model, 0, 0);
    char formula[128];
    json_text(report, "score", score_formula(formula, &rule, false), SIZE_MAX);
    json_real(report, "score_scale", rule.scale);
    json_real(report, "score_cap", rule.cap != 0 ? rule.cap : NAN);
    json_rules(report, "slopes", page, RULE_SLOPE);
    json_rules(report, "sinks", page, RULE_SINK);
    json_array(report, "windows");
    for (size_t layer = 0; layer < config->n_layer; layer++)
        json_real(report, NULL, config_is_local(config, layer) ? (double)config->window : NAN);
    json_end_array(report);
    json_array(report, "turns");
    for (size_t layer = 0; layer < config->n_layer; layer++)
        json_bool(report, NULL, config_rope(config, layer));
    json_end_array(report);
}

static void json_model(Report *report, const Page *page) {
    const Config *config = page->config;
    json_text(report, "version", ATTN_VERSION, SIZE_MAX);
    json_text(report, "made_by", page->made_by, SIZE_MAX);
    json_int(report, "n_prompt", (int64_t)page->n_prompt);
    json_int(report, "query", (int64_t)page->query);
    json_real(report, "temperature", (double)page->temp);
    json_rounded(report, "temperature_step", (double)TEMPERATURE_STEP);
    json_int(report, "n_layer", (int64_t)config->n_layer);
    json_int(report, "n_head", (int64_t)config->n_head);
    json_int(report, "n_head_kv", (int64_t)config->n_head_kv);
    json_int(report, "d_head", (int64_t)config->d_head);
    json_int(report, "d_model", (int64_t)config->d_model);
    json_int(report, "n_vocab", (int64_t)config->n_vocab);
    json_int(report, "n_ctx", (int64_t)config->n_ctx);
    json_bool(report, "rope", config->rope.pairing != ROPE_NONE);
    json_layers(report, page);
}

static void json_ablation(Report *report, const Page *page) {
    const Ablation *ablation = &page->ablation;
    char name[32];
    if (!page->ablate) {
        json_null(report, "ablation");
        return;
    }
    json_object(report, "ablation");
    json_array(report, "heads");
    for (size_t i = 0; i < ablation->n_chosen; i++)
        json_text(report, NULL, part_name(name, ablation, ablation->chosen[i]), SIZE_MAX);
    json_end_array(report);
    json_text(report, "by", "zero", SIZE_MAX);
    json_predictions(report, page, &page->without, false);
    json_object(report, "baseline");
    json_difference(report, &page->difference, BASELINE);
    json_end_object(report);
    json_difference(report, &page->difference, ABLATED);
    json_end_object(report);
}

/* The text of every token that was named by its id. */
static void json_vocabulary(Report *report, const Page *page) {
    json_object(report, "vocabulary");
    for (size_t id = 0; id < page->config->n_vocab; id++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", id);
        if (page->named[id]) json_piece(report, key, (int32_t)id);
    }
    json_end_object(report);
}

static void write_data(void *user, FILE *file) {
    const Page *page = user;
    Report json = page->study->report, *report = &json;
    report->json = true;
    report->out = file;
    report_open(report, page->study);
    json_model(report, page);
    json_predictions(report, page, &page->predictions, true);
    json_lens(report, page);
    json_object(report, "heads");
    json_head_scores(report, "text", &page->text);
    json_head_scores(report, "repeat", &page->repeat);
    json_end_object(report);
    json_traces(report, page);
    json_ablation(report, page);
    json_vocabulary(report, page);
    json_end_object(report);
}

/* The page is called by how its text begins. */
static bool write_page(Page *page, Error *error) {
    Study *study = page->study;
    JoinedText text;
    if (!join_tokens(&study->subject, &study->arena, false, &text, error)) return false;
    size_t end = text.offsets[page->n_prompt], begin = 0, n = 0;
    while (begin < end && (text.bytes[begin] == ' ' || text.bytes[begin] == '\n')) begin++;
    size_t at = begin;
    for (uint32_t c; at < end && n < TITLE_CHARACTERS; n++) at += utf8_decode(text.bytes + at, end - at, &c);
    page_write(page->file.file, (String){text.bytes + begin, at - begin}, write_data, page);
    return true;
}

/* --svg: the pattern of one head. */
static bool write_figure(Page *page, Error *error) {
    Study *study = page->study;
    const Tokens *tokens = &study->subject.tokens;
    Patterns *figure = &page->figure;
    if (!patterns_begin(figure, &study->subject, &study->arena, tokens->n, tokens->n, error)) return false;
    Session *session = subject_session(&study->subject, 0, &figure->probe, error);
    bool ok = session && patterns_feed(figure, session, tokens->ids, tokens->n, error);
    if (ok) svg_write(page->file.file, &study->report, figure);
    session_free(session);
    return ok;
}

/* The file gets its name, and one line tells of it. */
static bool finish(Page *page, Error *error) {
    long bytes = ftell(page->file.file); /* −1: a pipe cannot tell */
    if (!output_finish(&page->file, error)) return false;
    size_t n = page->study->subject.tokens.n,
           n_heads = page->svg ? 1 : page->traces.n_layers * page->config->n_head;
    print_path(&page->study->report, page->output);
    printf(": %zu token%s, %zu head%s", n, n == 1 ? "" : "s", n_heads, n_heads == 1 ? "" : "s");
    if (bytes >= 0) printf(", %ld kB", (bytes + 500) / 1000);
    if (bytes > LARGE_MB * 1000000L && !page->svg) fputs("; --layers makes it smaller", stdout);
    putchar('\n');
    return true;
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
    if (!check(page, error) || !(json || output_open(&page->file, page->output, error)) ||
        !(page->n_predict == 0 || generate(page, error)))
        return false;
    if (page->svg) return write_figure(page, error) && finish(page, error);
    if (!gather(page, error) || (page->ablate && !gather_without(page, error))) return false;
    if (json) write_data(page, study->report.out);
    return json || (write_page(page, error) && finish(page, error));
}

static void free_page(void *view) {
    Page *page = view;
    output_abandon(&page->file);
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
