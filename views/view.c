/*
 * view: what a model does with a text, as one page of the web: the text's surprisal, what was expected, patterns
 * and scores of all heads, the logit lens. The program gathers the numbers, in one pass over the text, and
 * puts them as JSON into a page that draws them (views/page); docs/STUDY.md defines them.
 *
 * With -n the model first writes on; the pass is then over all of it.
 */
#include "views/ablation.h"
#include "views/heads.h"
#include "views/lensrows.h"
#include "views/page.h"
#include "views/predictions.h"
#include "views/svg.h"
#include "views/traces.h"

#include "npy.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

enum { TOP = 20, TITLE_CHARACTERS = 60, LARGE_MB = 16 };

typedef struct View {
    Study *study;
    const Config *config;
    Session *session;
    size_t figure_layer, figure_head; /* of --svg */
    size_t n_prompt;                  /* tokens from here on were generated */
    bool *layers;                     /* [n_layer] whose heads' patterns are kept */
    bool *used;                       /* [n_vocab] tokens that the data names by id */
    Predictions predictions;
    LensRows lens;
    Traces traces;
    Heads text, repeat; /* without texts where there can be none */
    Ablation ablation;  /* of --ablate */
    Difference difference;
    Predictions without; /* … those heads */
} View;

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const View *view = user;
    (void)head;
    return site == PROBE_RESID_PRE || (site == PROBE_PATTERN && view->text.n_batch > 0) ||
           traces_want(&view->traces, site, layer);
}

static void visit(void *user, const ProbeView *seen) {
    View *view = user;
    if (seen->site == PROBE_RESID_PRE) lens_rows_keep(&view->lens, seen);
    if (seen->site == PROBE_PATTERN && view->text.n_batch > 0) heads_add(&view->text, seen);
    if (traces_want(&view->traces, seen->site, seen->layer)) traces_add(&view->traces, seen);
}

static void add_logits(void *user, size_t position, const float *logits) {
    View *view = user;
    predictions_add(&view->predictions, position, logits);
    lens_rows_add(&view->lens, view->session, position, logits);
}

static void tell_progress(void *user) {
    const View *view = user;
    show_progress("generated", view->study->tokens.n - view->n_prompt,
                  (size_t)view->study->options->n_predict);
}

/* --predict: the study's tokens become the prompt and what the model wrote behind it. */
static bool generate(View *view, Error *error) {
    Study *study = view->study;
    size_t n = view->n_prompt;
    float *logits = floats_new(1, view->config->n_vocab);
    Session *session = study_session(study, n + (size_t)study->options->n_predict, NULL, error);
    bool ok = session && (logits || error_set(error, "not enough memory for the logits"));
    ok = ok && study_feed(study, session, study->tokens.ids, n - 1, NULL, NULL, error) &&
         session_feed(session, &study->tokens.ids[n - 1], 1, logits, 1, error) &&
         study_generate(study, session, logits, tell_progress, view, error);
    show_progress("", 1, 1);
    session_free(session);
    free(logits);
    return ok;
}

/* The position that the page shows first, and whose scores it has in any case. */
static size_t first_query(const View *view) {
    int64_t query = view->study->options->query;
    return query >= 0 ? (size_t)query : view->n_prompt - 1;
}

static bool allocate(View *view, Error *error) {
    const Study *study = view->study;
    if (first_query(view) >= study->tokens.n)
        return error_set(error, "--query %zu: the model ended the text after token %zu", first_query(view),
                         study->tokens.n - 1);
    view->used = calloc(view->config->n_vocab, sizeof *view->used);
    if (!view->used) return error_set(error, "not enough memory");
    return predictions_begin(&view->predictions, study, at_most(study_top(study, TOP), view->config->n_vocab),
                             error) &&
           lens_rows_begin(&view->lens, study, error) &&
           traces_begin(&view->traces, study, view->layers, first_query(view), error) &&
           (study->tokens.n < 2 || heads_begin(&view->text, study, false, error)) &&
           (!heads_can_repeat(study) || heads_begin(&view->repeat, study, true, error));
}

static bool gather(View *view, Error *error) {
    const Study *study = view->study;
    Probe probe = {view, wants, visit};
    if (!allocate(view, error)) return false;
    if (view->text.n_batch > 0) heads_start(&view->text, 0);
    view->session = study_session(study, 0, &probe, error);
    bool ok = view->session &&
              study_feed(study, view->session, study->tokens.ids, study->tokens.n, add_logits, view, error);
    session_free(view->session);
    view->session = NULL;
    return ok && traces_finish(&view->traces, error) &&
           (view->repeat.n_batch == 0 || heads_feed(&view->repeat, study, false, error));
}

/* --ablate: the text once more without these heads. */
static bool gather_without(View *view, Error *error) {
    const Study *study = view->study;
    if (study->tokens.n < 2)
        return error_set(error, "--ablate scores each token after the first: give a text of two or more");
    return predictions_begin(&view->without, study, view->predictions.n_top, error) &&
           ablation_baseline(&view->ablation, error) &&
           ablation_run(&view->ablation, ablation_first_layer(&view->ablation), &view->difference,
                        predictions_add, &view->without, error);
}

static void view_free(View *view) {
    free(view->layers);
    free(view->used);
    predictions_free(&view->predictions);
    lens_rows_free(&view->lens);
    traces_free(&view->traces);
    heads_free(&view->text);
    heads_free(&view->repeat);
    ablation_free(&view->ablation);
    predictions_free(&view->without);
}

/* A word as a shell reads it: as it is, or in single quotes. */
static bool append_word(TextBuffer *line, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%";
    size_t n = strlen(word);
    if (n > 0 && strspn(word, plain) == n) return text_append(line, word, n);
    bool ok = text_append(line, "'", 1);
    for (const char *at = word; ok && *at; at++)
        ok = *at == '\'' ? text_append(line, "'\\''", 4) : text_append(line, at, 1);
    return ok && text_append(line, "'", 1);
}

/* The command line, so that whoever has the page can make it again. */
static bool json_command(const Study *study, Report *report, Error *error) {
    TextBuffer line = {0};
    bool ok = text_append(&line, "study", 5);
    for (int i = 0; ok && i < study->argc; i++)
        ok = text_append(&line, " ", 1) && append_word(&line, study->argv[i]);
    if (ok) json_text(report, "made_by", line.data, line.n);
    free(line.data);
    return ok || error_set(error, "not enough memory for the command line");
}

static void json_model(const View *view, Report *report) {
    const Config *config = view->config;
    const StudyOptions *o = view->study->options;
    json_int(report, "n_prompt", (int64_t)view->n_prompt);
    json_int(report, "query", (int64_t)first_query(view));
    json_real(report, "temperature", o->temp < 0 ? 0 : (double)o->temp);
    json_int(report, "n_layer", (int64_t)config->n_layer);
    json_int(report, "n_head", (int64_t)config->n_head);
    json_int(report, "n_head_kv", (int64_t)config->n_head_kv);
    json_int(report, "d_head", (int64_t)config->d_head);
    json_int(report, "d_model", (int64_t)config->d_model);
    json_int(report, "n_vocab", (int64_t)config->n_vocab);
    json_int(report, "n_ctx", (int64_t)config->n_ctx);
    json_bool(report, "rope", config->family->rope != ROPE_NONE);
}

static void json_scores(Report *report, const char *key, const Heads *heads) {
    if (heads->n_batch == 0) {
        json_null(report, key);
        return;
    }
    json_object(report, key);
    heads_json_table(heads, report);
    json_end_object(report);
}

static void json_ablation(const View *view, Report *report) {
    const Ablation *ablation = &view->ablation;
    const Difference *difference = &view->difference;
    if (!view->study->options->ablate) {
        json_null(report, "ablation");
        return;
    }
    json_object(report, "ablation");
    json_array(report, "heads");
    for (size_t i = 0; i < ablation->n_chosen; i++) {
        char name[32];
        json_text(report, NULL, part_name(name, ablation, ablation->chosen[i]), SIZE_MAX);
    }
    json_end_array(report);
    json_text(report, "by", "zero", SIZE_MAX);
    predictions_json_positions(&view->without, report);
    predictions_json_next(&view->without, report);
    json_object(report, "baseline");
    json_int(report, "n", (int64_t)difference->n_scored);
    json_real(report, "nll_nats", difference_nll_a(difference));
    json_end_object(report);
    json_real(report, "nll_nats", difference_nll_b(difference));
    json_ablated(report, difference);
    json_end_object(report);
}

/* The text of every token that is named by its id. */
static void json_vocabulary(View *view, Report *report) {
    predictions_mark(&view->predictions, view->used);
    lens_rows_mark(&view->lens, view->used);
    if (view->study->options->ablate) predictions_mark(&view->without, view->used);
    json_object(report, "vocabulary");
    for (size_t id = 0; id < view->config->n_vocab; id++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", id);
        if (view->used[id]) json_piece(report, key, view->study, (int32_t)id);
    }
    json_end_object(report);
}

static bool write_data(void *user, FILE *file, Error *error) {
    View *view = user;
    const Study *study = view->study;
    Report out = study->report, *report = &out;
    out.json = true;
    out.out = file;
    report_open(report, study);
    json_text(report, "version", ATTN_VERSION, SIZE_MAX);
    if (!json_command(study, report, error)) return false;
    json_model(view, report);
    predictions_json_positions(&view->predictions, report);
    predictions_json_totals(&view->predictions, report);
    predictions_json_next(&view->predictions, report);
    lens_rows_json(&view->lens, report);
    json_object(report, "heads");
    json_scores(report, "text", &view->text);
    json_scores(report, "repeat", &view->repeat);
    json_end_object(report);
    if (!traces_json(&view->traces, report, error)) return false;
    json_ablation(view, report);
    json_vocabulary(view, report);
    report_close(report);
    return true;
}

/* "attn: " and how the text begins. */
static bool make_title(const View *view, TextBuffer *title, Error *error) {
    const Study *study = view->study;
    JoinedText text = {0};
    bool ok = join_tokens(study, false, &text, error);
    size_t end = ok ? text.offsets[view->n_prompt] : 0, at = 0, n = 0;
    while (at < end && (text.bytes[at] == ' ' || text.bytes[at] == '\n')) at++;
    size_t begin = at;
    for (uint32_t c; at < end && n < TITLE_CHARACTERS; n++) at += utf8_decode(text.bytes + at, end - at, &c);
    if (ok && !(text_append(title, "attn: ", 6) && text_append(title, text.bytes + begin, at - begin)))
        ok = error_set(error, "not enough memory for the title");
    joined_free(&text);
    return ok;
}

static bool write_page(View *view, FILE *file, Error *error) {
    TextBuffer title = {0};
    bool ok = make_title(view, &title, error) &&
              page_write(file, (String){title.data, title.n}, write_data, view, error);
    free(title.data);
    return ok;
}

/* --svg: the pattern of one head. */
static bool write_figure(View *view, FILE *file, Error *error) {
    const Study *study = view->study;
    size_t n = study->tokens.n;
    Patterns patterns = {.layer = view->figure_layer, .n_layers = 1, .head = view->figure_head, .n_heads = 1};
    Session *session = NULL;
    bool ok = patterns_begin(&patterns, study, n, n, error);
    if (ok) session = study_session(study, 0, &patterns.probe, error);
    ok = session && patterns_feed(&patterns, session, study->tokens.ids, n, error);
    if (ok) svg_write(file, study, &patterns);
    session_free(session);
    patterns_free(&patterns);
    return ok;
}

/* The file gets its name, and one line tells of it. */
static bool finish(const View *view, OutputFile *output, Error *error) {
    const StudyOptions *o = view->study->options;
    long bytes = ftell(output->file); /* −1: a pipe cannot tell */
    if (!output_finish(output, error)) return false;
    size_t n = view->study->tokens.n, n_heads = o->svg ? 1 : view->traces.n_layers * view->config->n_head;
    printf("%s: %zu token%s, %zu head%s", o->output, n, n == 1 ? "" : "s", n_heads, n_heads == 1 ? "" : "s");
    if (bytes >= 0) printf(", %ld kB", (bytes + 500) / 1000);
    if (bytes > LARGE_MB * 1000000L && !o->svg) fputs("; --layers makes it smaller", stdout);
    putchar('\n');
    return true;
}

/* What can be refused before the model runs. */
static bool check_options(View *view, Error *error) {
    const Study *study = view->study;
    const StudyOptions *o = study->options;
    const char *list = o->svg;
    unsigned long long layer, head;
    bool one;
    if (o->json && (o->output || o->svg))
        return error_set(error, "--json prints the data alone: leave out %s", o->svg ? "--svg" : "-o");
    if (!o->json && !study_check_output(study, o->svg ? "figure.svg" : "page.html", error)) return false;
    if (o->top == 0) return error_set(error, "--top 0 leaves nothing to show: take 1 or more");
    if (o->svg && (o->ablate || o->layers || o->query >= 0 || o->top >= 0))
        return error_set(error, "--svg draws one pattern: leave out --ablate, --layers, --query and --top");
    if (o->svg) {
        if (!parse_head(&list, &layer, &head, &one) || !one || *list)
            return error_set(error, "--svg takes a head such as L3H7, not '%s'", o->svg);
        if (layer >= view->config->n_layer || head >= view->config->n_head)
            return error_set(error, "--svg: there is no %s: the model has %zu layers of %zu heads, from 0 on",
                             o->svg, view->config->n_layer, view->config->n_head);
        view->figure_layer = (size_t)layer;
        view->figure_head = (size_t)head;
    }
    if (!study_check_length(study, error) || !study_check_predict(study, error)) return false;
    view->layers = calloc(view->config->n_layer, sizeof *view->layers);
    if (!view->layers) return error_set(error, "not enough memory");
    return parse_list(o->layers, "layer", view->config->n_layer, view->layers, error) &&
           ablation_begin(&view->ablation, study, error) &&
           (!o->ablate || ablation_choose_heads(&view->ablation, "--ablate", o->ablate, error));
}

bool view_view(Study *study, Error *error) {
    const StudyOptions *o = study->options;
    View view = {.study = study, .config = model_config(study->model), .n_prompt = study->tokens.n};
    OutputFile output = {0};
    bool ok = check_options(&view, error) && (o->json || output_open(&output, o->output, error)) &&
              (o->n_predict == 0 || generate(&view, error));
    if (o->svg) {
        ok = ok && write_figure(&view, output.file, error);
    } else {
        ok = ok && gather(&view, error) && (!o->ablate || gather_without(&view, error));
        ok = ok && (o->json ? write_data(&view, stdout, error) : write_page(&view, output.file, error));
    }
    ok = ok && (o->json || finish(&view, &output, error));
    output_abandon(&output);
    view_free(&view);
    return ok;
}
