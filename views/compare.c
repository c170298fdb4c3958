/*
 * compare: two files, say F32 and Q4_0 of one model, on one text. Both take the same piece of tokens in
 * turn: the first's rows of attention patterns are kept while the second's are held against them, so that
 * of n × n weights only a piece's rows exist at a time.
 */
#include "views/difference.h"
#include "views/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 64,            /* tokens fed together, at most */
    MAX_PATTERN_MIB = 128, /* fewer of them where the rows of all heads would take more */
};

/* |A_b − A_a| of a layer's heads, over queries and keys at or before them. */
typedef struct PatternChange {
    double largest, sum;
    size_t head, query, key; /* where it is largest */
} PatternChange;

typedef struct Comparison {
    const Study *a, *b;
    size_t n, piece;        /* tokens; fed together */
    size_t start;           /* position of the piece under way */
    size_t n_layer, n_head; /* whose patterns are compared; 0: the two differ in shape */
    float *patterns;        /* [n_layer][n_head][piece][n] of a's piece */
    PatternChange *layers;  /* [n_layer] */
    float *logits[2];       /* [piece][n_vocab] */
    Difference difference;
} Comparison;

static bool wants_patterns(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)layer, (void)head;
    const Comparison *comparison = user;
    return site == PROBE_PATTERN && comparison->n_layer > 0;
}

static float *kept_row(const Comparison *comparison, const ProbeView *view) {
    size_t head = view->layer * comparison->n_head + view->head;
    return comparison->patterns +
           (head * comparison->piece + view->position - comparison->start) * comparison->n;
}

static void keep_row(void *user, const ProbeView *view) {
    memcpy(kept_row(user, view), view->data, view->n_cols * sizeof *view->data);
}

static void compare_row(void *user, const ProbeView *view) {
    const Comparison *comparison = user;
    PatternChange *change = &comparison->layers[view->layer];
    const float *a = kept_row(comparison, view), *b = view->data;
    for (size_t key = 0; key < view->n_cols; key++) {
        double moved = fabs((double)b[key] - (double)a[key]);
        change->sum += moved;
        if (moved > change->largest) {
            change->largest = moved;
            change->head = view->head;
            change->query = view->position;
            change->key = key;
        }
    }
}

/* Whether probabilities of the two can be set side by side: the same tokens for the same text. */
static bool check_same_vocabulary(const Study *a, Study *b, Error *error) {
    const char *path_a = a->options->model, *path_b = a->options->other;
    size_t n_a = model_config(a->model)->n_vocab, n_b = model_config(b->model)->n_vocab;
    if (n_a != n_b)
        return error_set(error, "%s has %zu tokens in its vocabulary and %s %zu: compare needs the same ones",
                         path_a, n_a, path_b, n_b);
    const char *text = a->options->prompt ? a->options->prompt : a->text.data;
    size_t n_text = a->options->prompt ? strlen(text) : a->text.n;
    if (!study_encode(b, text, n_text, &b->tokens, &b->bos, error)) return false;
    size_t n = at_most(a->tokens.n, b->tokens.n), same = 0;
    while (same < n && a->tokens.ids[same] == b->tokens.ids[same]) same++;
    if (same == a->tokens.n && same == b->tokens.n) return true;
    if (same < n)
        return error_set(error,
                         "token %zu of the text is %" PRId32 " to %s and %" PRId32
                         " to %s: compare needs the same vocabulary",
                         same, a->tokens.ids[same], path_a, b->tokens.ids[same], path_b);
    return error_set(error, "the text is %zu tokens to %s and %zu to %s: compare needs the same vocabulary",
                     a->tokens.n, path_a, b->tokens.n, path_b);
}

static bool allocate(Comparison *comparison, Error *error) {
    const Config *a = model_config(comparison->a->model), *b = model_config(comparison->b->model);
    comparison->n = comparison->a->tokens.n;
    comparison->piece = at_most(comparison->n, PIECE);
    if (a->n_layer == b->n_layer && a->n_head == b->n_head) {
        comparison->n_layer = a->n_layer;
        comparison->n_head = a->n_head;
        size_t query_bytes = a->n_layer * a->n_head * comparison->n * sizeof(float);
        size_t most = ((size_t)MAX_PATTERN_MIB << 20) / query_bytes;
        if (comparison->piece > most) comparison->piece = most ? most : 1;
        comparison->patterns = floats_new(a->n_layer * a->n_head * comparison->piece, comparison->n);
        comparison->layers = calloc(a->n_layer, sizeof *comparison->layers);
        if (!comparison->patterns || !comparison->layers)
            return error_set(error, "not enough memory for the patterns of %zu tokens", comparison->piece);
    }
    for (int i = 0; i < 2; i++)
        if (!(comparison->logits[i] = floats_new(comparison->piece, a->n_vocab)))
            return error_set(error, "not enough memory for the logits of %zu tokens", comparison->piece);
    return true;
}

static bool run(Comparison *comparison, Error *error) {
    const Tokens *tokens = &comparison->a->tokens;
    const Probe probes[] = {{comparison, wants_patterns, keep_row},
                            {comparison, wants_patterns, compare_row}};
    const Study *studies[] = {comparison->a, comparison->b};
    Session *sessions[2] = {NULL, NULL};
    bool ok = true;
    for (int i = 0; ok && i < 2; i++) ok = (sessions[i] = study_session(studies[i], 0, &probes[i], error));
    for (size_t m; ok && comparison->start < tokens->n; comparison->start += m) {
        size_t start = comparison->start;
        m = at_most(tokens->n - start, comparison->piece);
        show_progress("tokens", start, tokens->n);
        ok = !interrupted() || error_set(error, "interrupted");
        for (int i = 0; ok && i < 2; i++)
            ok = session_feed(sessions[i], tokens->ids + start, m, comparison->logits[i], m, error);
        if (ok)
            difference_add(&comparison->difference, comparison->a->threads, comparison->logits[0],
                           comparison->logits[1], m, model_config(comparison->a->model)->n_vocab,
                           tokens->ids + start + 1, start + m < tokens->n ? m : m - 1);
    }
    show_progress("tokens", 1, 1);
    session_free(sessions[0]);
    session_free(sessions[1]);
    return ok;
}

static double mean_change(const Comparison *comparison, size_t layer) {
    double n = (double)comparison->n;
    return comparison->layers[layer].sum / ((double)comparison->n_head * n * (n + 1) / 2);
}

static void json_file(Report *report, const char *key, const char *path, const Study *study) {
    json_object(report, key);
    json_text(report, "model", path, SIZE_MAX);
    json_text(report, "type", weight_type(model_checkpoint(study->model)), SIZE_MAX);
    json_end_object(report);
}

static void print_json(Report *report, const Comparison *comparison) {
    const Difference *difference = &comparison->difference;
    const StudyOptions *options = comparison->a->options;
    double a = difference_nll_a(difference), b = difference_nll_b(difference);
    json_file(report, "a", options->model, comparison->a);
    json_file(report, "b", options->other, comparison->b);
    json_int(report, "n", (int64_t)difference->n_scored);
    json_real(report, "a_nll_nats", a);
    json_real(report, "b_nll_nats", b);
    json_real(report, "delta_nll_nats", b - a);
    json_real(report, "kl_nats", difference_kl(difference));
    json_real(report, "top1_agreement", 1 - difference_top1_changed(difference));
    if (!comparison->n_layer) {
        json_null(report, "layers");
        return;
    }
    json_array(report, "layers");
    for (size_t layer = 0; layer < comparison->n_layer; layer++) {
        const PatternChange *change = &comparison->layers[layer];
        json_object(report, NULL);
        json_int(report, "layer", (int64_t)layer);
        json_real(report, "largest", change->largest);
        json_real(report, "mean", mean_change(comparison, layer));
        json_int(report, "head", (int64_t)change->head);
        json_int(report, "query", (int64_t)change->query);
        json_int(report, "key", (int64_t)change->key);
        json_end_object(report);
    }
    json_end_array(report);
}

static void print_patterns(Report *report, const Comparison *comparison) {
    const Config *a = model_config(comparison->a->model), *b = model_config(comparison->b->model);
    char name[32];
    if (!comparison->n_layer) {
        printf("\npatterns are not compared: %zu layers of %zu heads against %zu of %zu\n", a->n_layer,
               a->n_head, b->n_layer, b->n_head);
        return;
    }
    double most = 0;
    for (size_t layer = 0; layer < comparison->n_layer; layer++)
        if (comparison->layers[layer].largest > most) most = comparison->layers[layer].largest;
    print_styled(report, STYLE_BOLD, "\n%-6s %9s %9s  at\n", "layer", "mean", "largest");
    for (size_t layer = 0; layer < comparison->n_layer; layer++) {
        const PatternChange *change = &comparison->layers[layer];
        printf("%-6zu %9.6f %9.6f", layer, mean_change(comparison, layer), change->largest);
        if (change->largest > 0) {
            int n = printf("  %s %zu>%zu", head_name(name, layer, change->head), change->query, change->key);
            if (report->bars) printf("%*s", n < 18 ? 18 - n : 0, "");
            print_bar(report, change->largest / most, 24);
        }
        putchar('\n');
    }
    print_styled(report, STYLE_DIM,
                 "|A_B - A_A| of the attention weights, over heads, queries and keys\n"
                 "at L3H7 12>5: in head 7 of layer 3, query 12 looking at key 5\n");
}

static void print_text(Report *report, const Comparison *comparison) {
    const Difference *difference = &comparison->difference;
    const StudyOptions *options = comparison->a->options;
    printf("A  %s  %s\n", options->model, weight_type(model_checkpoint(comparison->a->model)));
    printf("B  %s  %s\n", options->other, weight_type(model_checkpoint(comparison->b->model)));
    putchar('\n');
    difference_print(report, difference, "A", "B", "B - A");
    printf("%-14s %31.1f%%  %zu of %zu positions\n", "same top-1",
           100 * (1 - difference_top1_changed(difference)), difference->n - difference->top1_changed,
           difference->n);
    print_styled(report, STYLE_DIM,
                 "nll: of the %zu tokens after the first, mean; KL: bits by which the prediction\n"
                 "moved, mean over positions; same top-1: both expect the same token most\n",
                 difference->n_scored);
    print_patterns(report, comparison);
}

bool view_compare(Study *study, Error *error) {
    Study other = *study; /* the same text, options and threads; a model and tokens of its own */
    other.model = NULL;
    other.vocabulary = NULL;
    other.tokenizer = NULL;
    other.text = (TextBuffer){0};
    other.tokens = (Tokens){0};
    Comparison comparison = {.a = study, .b = &other};
    bool ok =
        study->tokens.n >= 2 ||
        error_set(error, "compare scores each token after the first: give a text of two tokens or more");
    ok = ok && study_open(&other, study->options->other, error);
    ok = ok && check_same_vocabulary(study, &other, error);
    ok = ok && allocate(&comparison, error) && run(&comparison, error);
    if (ok) {
        report_open(&study->report, study);
        if (study->report.json)
            print_json(&study->report, &comparison);
        else
            print_text(&study->report, &comparison);
        report_close(&study->report);
    }
    for (int i = 0; i < 2; i++) free(comparison.logits[i]);
    free(comparison.patterns);
    free(comparison.layers);
    study_close(&other);
    return ok;
}
