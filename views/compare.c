/*
 * compare: two files, say F32 and Q4_0 of one model, on one text. Both take the same piece of tokens in
 * turn: the first's rows of attention patterns are kept while the second's are held against them, so that
 * of n × n weights only a piece's rows exist at a time.
 */
#include "measures/scores.h"
#include "views/view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_PATTERN_MIB = 128 /* of a piece's rows of all heads */ };

/* |A_b − A_a| of a layer's heads, over queries and keys at or before them. */
typedef struct PatternChange {
    size_t layer;
    double largest, sum, mean;
    size_t head, query, key; /* where it is largest */
    double share;            /* `largest` as a share of the largest of all layers */
} PatternChange;

typedef struct Comparison {
    Study b;         /* as the study, whose text, options and threads it borrows, but with another model */
    size_t n, piece; /* tokens; fed together */
    size_t start;    /* position of the piece under way */
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

static float *kept_row(const Comparison *comparison, const Activation *seen) {
    size_t head = seen->layer * comparison->n_head + seen->head;
    return comparison->patterns +
           (head * comparison->piece + seen->position - comparison->start) * comparison->n;
}

static void keep_row(void *user, const Activation *seen) {
    memcpy(kept_row(user, seen), seen->data, seen->n_cols * sizeof *seen->data);
}

static void compare_row(void *user, const Activation *seen) {
    const Comparison *comparison = user;
    PatternChange *change = &comparison->layers[seen->layer];
    const float *a = kept_row(comparison, seen), *b = seen->data;
    for (size_t key = 0; key < seen->n_cols; key++) {
        double moved = fabs((double)b[key] - (double)a[key]);
        change->sum += moved;
        if (moved > change->largest) {
            change->largest = moved;
            change->head = seen->head;
            change->query = seen->position;
            change->key = key;
        }
    }
}

/* Whether tokens that were given by number are the same to both. */
static bool check_same_pieces(const Study *a, const Study *b, Error *error) {
    const Tokens *tokens = &a->subject.tokens;
    for (size_t i = 0; i < tokens->n; i++) {
        String of_a = tokenizer_piece(a->tokenizer, tokens->ids[i], true),
               of_b = tokenizer_piece(b->tokenizer, tokens->ids[i], true);
        if (of_a.n != of_b.n || memcmp(of_a.data, of_b.data, of_a.n) != 0)
            return error_set(error,
                             "token %zu of the text, #%" PRId32
                             ", is not the same to %s and to %s: compare needs the same vocabulary",
                             i, tokens->ids[i], a->options->model, b->options->other);
    }
    return true;
}

/* Whether probabilities of the two can be set side by side: the same tokens for the same text. */
static bool check_same_vocabulary(const Study *a, Study *b, Error *error) {
    const char *path_a = a->options->model, *path_b = a->options->other;
    size_t n_a = model_config(a->model)->n_vocab, n_b = model_config(b->model)->n_vocab;
    if (n_a != n_b)
        return error_set(error, "%s has %zu tokens in its vocabulary and %s %zu: compare needs the same ones",
                         path_a, n_a, path_b, n_b);
    const Tokens *of_a = &a->subject.tokens, *of_b = &b->subject.tokens;
    const char *text = a->options->prompt ? a->options->prompt : a->text.data;
    size_t n_text = a->options->prompt ? strlen(text) : a->text.n;
    if (!study_tokenize(b, text, n_text, error)) return false;
    size_t n = at_most(of_a->n, of_b->n), same = 0;
    while (same < n && of_a->ids[same] == of_b->ids[same]) same++;
    if (same == of_a->n && same == of_b->n) return !a->options->ids || check_same_pieces(a, b, error);
    if (same < n)
        return error_set(error,
                         "token %zu of the text is %" PRId32 " to %s and %" PRId32
                         " to %s: compare needs the same vocabulary",
                         same, of_a->ids[same], path_a, of_b->ids[same], path_b);
    return error_set(error, "the text is %zu tokens to %s and %zu to %s: compare needs the same vocabulary",
                     of_a->n, path_a, of_b->n, path_b);
}

static bool allocate(Comparison *comparison, const Subject *subject, Arena *arena, Error *error) {
    const Config *a = model_config(subject->model), *b = model_config(comparison->b.model);
    comparison->n = subject->tokens.n;
    comparison->piece = at_most(comparison->n, LOGITS_CHUNK);
    if (a->n_layer == b->n_layer && a->n_head == b->n_head) {
        comparison->n_layer = a->n_layer;
        comparison->n_head = a->n_head;
        size_t query_bytes = a->n_layer * a->n_head * comparison->n * sizeof(float);
        size_t most = ((size_t)MAX_PATTERN_MIB << 20) / query_bytes;
        if (comparison->piece > most) comparison->piece = most ? most : 1;
        comparison->patterns = arena_floats(arena, a->n_layer * a->n_head * comparison->piece, comparison->n);
        comparison->layers = arena_new(arena, a->n_layer, sizeof *comparison->layers);
    }
    for (int i = 0; i < 2; i++) comparison->logits[i] = arena_floats(arena, comparison->piece, a->n_vocab);
    return arena_ok(arena, error, "the patterns and logits of %zu tokens", comparison->piece);
}

static bool feed(Comparison *comparison, const Subject *subject, Session *const sessions[2], Error *error) {
    const Tokens *tokens = &subject->tokens;
    size_t n_vocab = model_config(subject->model)->n_vocab;
    for (size_t m; comparison->start < tokens->n; comparison->start += m) {
        size_t start = comparison->start;
        m = at_most(tokens->n - start, comparison->piece);
        if (!subject_go_on(subject, "tokens", start, tokens->n, error)) return false;
        for (int i = 0; i < 2; i++)
            if (!session_feed(sessions[i], tokens->ids + start, m, comparison->logits[i], m, error))
                return false;
        difference_add(&comparison->difference, subject->compute.threads, comparison->logits[0],
                       comparison->logits[1], m, n_vocab, tokens->ids + start + 1,
                       start + m < tokens->n ? m : m - 1);
    }
    return true;
}

static bool run(Comparison *comparison, const Subject *subject, Error *error) {
    const Probe probes[] = {{comparison, wants_patterns, keep_row},
                            {comparison, wants_patterns, compare_row}};
    Session *sessions[2] = {subject_session(subject, 0, &probes[0], error)};
    if (sessions[0]) sessions[1] = subject_session(&comparison->b.subject, 0, &probes[1], error);
    bool ok = sessions[1] && feed(comparison, subject, sessions, error);
    subject_go_on(subject, "tokens", 1, 1, NULL);
    session_free(sessions[0]);
    session_free(sessions[1]);
    return ok;
}

static void finish_layers(Comparison *comparison, const Model *model) {
    double n = (double)comparison->n, largest = 0;
    for (size_t i = 0; i < comparison->n_layer; i++) largest = fmax(largest, comparison->layers[i].largest);
    for (size_t i = 0; i < comparison->n_layer; i++) {
        PatternChange *change = &comparison->layers[i];
        change->layer = i;
        change->mean = change->sum / ((double)comparison->n_head * n * (n + 1) / 2);
        change->share = change->largest / largest;
        if (layer_has_heads(model, i) && layer_has_heads(comparison->b.model, i)) continue;
        change->mean = change->largest = NAN;
        change->head = change->query = change->key = SIZE_MAX;
    }
}

static bool compute(Study *study, void *view, Error *error) {
    Comparison *comparison = view;
    const Subject *subject = &study->subject;
    Study *b = &comparison->b;
    if (subject->tokens.n < 2)
        return error_set(error,
                         "compare scores each token after the first: give a text of two tokens or more");
    *b = (Study){.view = study->view, .options = study->options, .subject = *subject};
    b->subject.tokens = (Tokens){0};
    if (!study_open(b, study->options->other, error) || !check_same_vocabulary(study, b, error) ||
        !allocate(comparison, subject, &study->arena, error) || !run(comparison, subject, error))
        return false;
    finish_layers(comparison, study->model);
    return true;
}

/* "L3H7 12>5" and a bar, where anything changed. */
static void show_place(Report *report, const char *key, const void *row) {
    const PatternChange *change = row;
    char name[32], place[96];
    (void)key;
    if (!(change->largest > 0)) return;
    snprintf(place, sizeof place, "  %s %zu>%zu", head_name(name, change->layer, change->head), change->query,
             change->key);
    printf("%-*s", report->bars ? 18 : 0, place);
    print_bar(report, change->share, 24);
}

#define CHANGE(member) offsetof(PatternChange, member)

static const Column columns[] = {
    {"layer", "layer", CELL_SIZE, CHANGE(layer), -6},
    {"largest", NULL, CELL_REAL, CHANGE(largest)},
    {"mean", "mean", CELL_REAL, CHANGE(mean), 10, 6},
    {NULL, "largest", CELL_REAL, CHANGE(largest), 10, 6},
    {"head", NULL, CELL_SIZE, CHANGE(head)},
    {"query", NULL, CELL_SIZE, CHANGE(query)},
    {"key", NULL, CELL_SIZE, CHANGE(key)},
    {NULL, "  at", CELL_SHOWN, .show = show_place},
};
static const Table layers_table = TABLE("layers", columns);

static void show_file(Report *report, bool other, const char *path, const Study *study) {
    const char *type = weight_type(model_checkpoint(study->model));
    if (!is_json(report)) {
        printf("%c  ", "AB"[other]);
        print_path(report, path);
        printf("  %s\n", type);
        return;
    }
    json_object(report, other ? "b" : "a");
    json_text(report, "model", path, SIZE_MAX);
    json_text(report, "type", type, SIZE_MAX);
    json_end_object(report);
}

static void show_difference(Report *report, const Difference *difference) {
    static const char *const titles[] = {"A", "B", "B - A"};
    if (is_json(report)) {
        json_difference(report, difference, COMPARED);
        return;
    }
    putchar('\n');
    difference_print(report, difference, titles, true);
    print_styled(report, STYLE_DIM,
                 "nll: of the %zu tokens after the first, mean; KL: bits by which the prediction\n"
                 "moved, mean over positions; same top-1: both expect the same token most\n",
                 difference->n_scored);
    putchar('\n');
}

static bool show(Study *study, void *view, Error *error) {
    const Comparison *comparison = view;
    const Config *a = model_config(study->model), *b = model_config(comparison->b.model);
    Report *report = &study->report;
    (void)error;
    show_file(report, false, study->options->model, study);
    show_file(report, true, study->options->other, &comparison->b);
    show_difference(report, &comparison->difference);
    if (comparison->n_layer)
        table_show(report, &layers_table, 0, comparison->layers, comparison->n_layer,
                   sizeof *comparison->layers);
    else if (is_json(report))
        json_null(report, "layers");
    else
        printf("patterns are not compared: %zu layer%s of %zu head%s against %zu of %zu\n", a->n_layer,
               a->n_layer == 1 ? "" : "s", a->n_head, a->n_head == 1 ? "" : "s", b->n_layer, b->n_head);
    if (comparison->n_layer && !is_json(report))
        print_styled(report, STYLE_DIM,
                     "|A_B - A_A| of the attention weights, over heads, queries and keys\n"
                     "at: L3H7 12>5 would be head 7 of layer 3, query 12 looking at key 5\n");
    return true;
}

static void close_other(void *view) { study_close(&((Comparison *)view)->b); }

const View view_compare = {
    .name = "compare",
    .summary = "two files on one text",
    .usage = "MODEL MODEL [-p TEXT | -f FILE | stdin] [options]",
    .help = "Say, F32 and Q4_0 of one model: change in surprisal, divergence, how often they agree on the\n"
            "best token, and how far the attention patterns of each layer moved.\n",
    .needs = NEEDS_MODEL | NEEDS_OTHER | NEEDS_TEXT,
    .size = sizeof(Comparison),
    .compute = compute,
    .show = show,
    .free = close_other,
};
