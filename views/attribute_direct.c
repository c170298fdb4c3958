/* attribute --by direct: what every part adds to a logit (measures/attribution.h), of one text or in the mean over many. */
#include "views/attribute_direct.h"

#include "measures/scores.h"

#include <math.h>

enum { MAX_HEADS = 64 };

static bool check(const StudyOptions *options, const AttributeView *v, Error *error) {
    bool has_text = options->prompt || options->prompt_file || options->ids;
    if (v->pair.corrupted) return error_set(error, "--by direct takes one text: leave out --corrupted");
    if (v->pair.wrong && !v->pair.answer)
        return error_set(error, "--wrong takes an answer to be held against: give --answer");
    if (!v->pair.file)
        return has_text || error_set(error, "give the text with -p or -f, or many by --pairs FILE");
    const char *too_much = has_text         ? "-p, -f and --ids"
                           : v->pair.answer ? "--answer"
                           : v->query_text  ? "--query"
                           : v->head_list   ? "--head"
                                            : NULL;
    return !too_much || error_set(error, "--pairs has texts and answers of its own: leave out %s", too_much);
}

/* The heads of "L3H4,L5H2". */
static bool parse_heads(const AttributeView *v, Direct *direct, Error *error) {
    const char *at = v->head_list;
    direct->heads = arena_new(&v->study->arena, MAX_HEADS, sizeof *direct->heads);
    if (!arena_ok(&v->study->arena, error, "%d heads", MAX_HEADS)) return false;
    for (; at; at++) {
        unsigned long long layer = 0, head = 0;
        bool one = false;
        if (direct->n_heads == MAX_HEADS) return error_set(error, "--head takes %d heads at most", MAX_HEADS);
        if (!parse_head(&at, &layer, &head, &one) || !one || (*at && *at != ','))
            return error_set(error, "--head: '%s' is no list of heads such as L3H4,L5H2", v->head_list) ||
                   wrong_usage(error);
        if (!study_check_place(v->study, (size_t)layer, (size_t)head, NOT_GIVEN, 0, error) ||
            !study_check_heads(v->study, (size_t)layer, error))
            return false;
        direct->heads[direct->n_heads++] = (HeadSources){.layer = (size_t)layer, .head = (size_t)head};
        if (!*at) break;
    }
    return !at || !has_gated_heads(v->study->model) ||
           error_set(error,
                     "--head: a gate stands behind this model's values, so they do not add up by position");
}

static bool check_neurons(const AttributeView *v, Error *error) {
    if (v->neurons == NOT_GIVEN) return true;
    if (!study_check_place(v->study, v->neurons, NOT_GIVEN, NOT_GIVEN, 0, error)) return false;
    return !model_weights(v->study->model)->layers[v->neurons].experts.n_expert ||
           error_set(error, "layer %zu has experts: --neurons is for an MLP that all tokens go through",
                     v->neurons);
}

static bool make_rows(const AttributeView *v, Direct *direct, const Attribution *a, Error *error) {
    Arena *arena = &v->study->arena;
    size_t n_neurons =
        v->neurons == NOT_GIVEN ? 0 : model_weights(v->study->model)->layers[v->neurons].mlp.down.w.cols;
    direct->n_rows = a->writers.n;
    direct->rows = arena_new(arena, direct->n_rows, sizeof *direct->rows);
    direct->kinds = arena_new(arena, direct->n_rows, sizeof *direct->kinds);
    direct->layers = arena_new(arena, a->writers.n_layer, sizeof *direct->layers);
    direct->neurons = arena_new(arena, n_neurons, sizeof *direct->neurons);
    direct->n_neurons = n_neurons;
    if (!arena_ok(arena, error, "%zu parts", direct->n_rows)) return false;
    for (size_t i = 0; i < direct->n_rows; i++) {
        const Writer *writer = &a->writers.list[i];
        direct->kinds[i] = writer->kind;
        direct->rows[i] = (DirectRow){.layer = writer->layer, .head = writer->head};
        writer_name(direct->rows[i].name, writer);
    }
    for (size_t i = 0; i < n_neurons; i++) direct->neurons[i].neuron = i;
    return true;
}

static bool add_values(const AttributeView *v, Direct *direct, const Attribution *a, Error *error) {
    if (!direct->rows && !make_rows(v, direct, a, error)) return false;
    for (size_t i = 0; i < direct->n_rows; i++) mean_add(&direct->rows[i].values, a->values[i]);
    for (size_t i = 0; i < direct->n_neurons; i++) {
        mean_add(&direct->neurons[i].values, a->neurons[i]);
        mean_add(&direct->neurons[i].activations, a->activations[i]);
    }
    mean_add(&direct->neuron_biases, a->neuron_bias);
    mean_add(&direct->sums, a->sum);
    mean_add(&direct->logits, a->logit);
    mean_add(&direct->differences, fabs(a->sum - a->logit));
    direct->scale = a->scale;
    direct->n_texts++;
    return true;
}

/* One text; what it takes lies in `arena`. */
static bool run_text(AttributeView *v, Direct *direct, const Subject *subject, size_t query, Arena *arena,
                     Error *error) {
    Attribution a = {.subject = subject,
                     .query = query,
                     .answer = v->answer,
                     .wrong = v->wrong,
                     .heads = direct->heads,
                     .n_heads = direct->n_heads,
                     .neuron_layer = v->neurons};
    if (!attribution_run(&a, arena, error)) return false;
    v->answer = a.answer;
    return add_values(v, direct, &a, error);
}

static bool run_one(AttributeView *v, Direct *direct, Error *error) {
    const Study *study = v->study;
    if (!subject_check_length(&study->subject, error) ||
        !study_query(v->study, v->query_text, NULL, &v->query, error) ||
        !study_token_given(study, "--answer", v->pair.answer, &v->answer, error) ||
        !study_token_given(study, "--wrong", v->pair.wrong, &v->wrong, error))
        return false;
    if (v->wrong >= 0 && v->wrong == v->answer)
        return error_set(error, "--answer and --wrong are the same token");
    return run_text(v, direct, &study->subject, v->query, &v->study->arena, error);
}

/* Whether the pair is of the kind of those before it. */
static bool same_kind(AttributeView *v, Direct *direct, const Pair *pair, Error *error) {
    bool has_wrong = pair->wrong >= 0;
    if (direct->n_texts == 0) direct->has_wrong = has_wrong;
    if (has_wrong == direct->has_wrong) return true;
    return error_set(error, "%s: line %zu: there is %s \"wrong\", unlike the lines before", v->pair.file,
                     pair->line, has_wrong ? "a" : "no");
}

static bool run_pair(AttributeView *v, Direct *direct, const Pairs *pairs, Error *error) {
    const Pair *pair = &pairs->pair;
    Subject subject = v->study->subject;
    Arena arena = {0};
    Error why = {{0}};
    subject.tokens = pair->clean;
    if (pair->answer == pair->wrong) {
        if (direct->n_left_out++ == 0)
            error_set(&direct->left_out, "line %zu: the answer and the wrong one begin with the same token",
                      pair->line);
        return true;
    }
    if (!same_kind(v, direct, pair, error)) return false;
    direct->n_cut += pair->cut;
    v->answer = pair->answer, v->wrong = pair->wrong;
    bool ok = subject_check_length(&subject, &why) &&
              run_text(v, direct, &subject, pair->clean.n - 1, &arena, &why);
    arena_free(&arena);
    return ok || error_set(error, "%s: line %zu: %s", v->pair.file, pair->line, why.message);
}

static bool run_pairs(AttributeView *v, Direct *direct, Error *error) {
    Pairs pairs = {0};
    bool ok = pairs_open(&pairs, v->study, &v->pair, error), ends = false;
    while (ok && (ok = pairs_next(&pairs, &ends, error)) && !ends) ok = run_pair(v, direct, &pairs, error);
    pairs_close(&pairs);
    if (ok && direct->n_texts == 0)
        return error_set(error, "%s: holds no pair that can be asked%s%s", v->pair.file,
                         direct->n_left_out ? "; " : "", direct->left_out.message);
    return ok;
}

static void finish_row(DirectRow *row) {
    row->value = mean_value(&row->values);
    row->error = mean_error(&row->values);
    row->activation = mean_value(&row->activations);
}

static void finish_rows(DirectRow *rows, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        finish_row(&rows[i]);
        most = fmax(most, fabs(rows[i].value));
    }
    for (size_t i = 0; i < n; i++) rows[i].share = most > 0 ? fabs(rows[i].value) / most : 0;
}

/* Sums each layer's parts. */
static void add_layers(Direct *direct, size_t n_layer) {
    double so_far = 0;
    for (size_t i = 0; i < direct->n_rows; i++) {
        const DirectRow *row = &direct->rows[i];
        if (direct->kinds[i] == WRITER_BIAS) continue;
        so_far += row->value;
        if (row->layer >= n_layer) continue;
        LayerRow *layer = &direct->layers[row->layer];
        *(direct->kinds[i] == WRITER_MLP ? &layer->mlp : &layer->attention) += row->value;
        layer->layer = row->layer;
        layer->so_far = so_far;
    }
}

/* The strongest of n rows; NULL with an error when memory runs out. */
static DirectRow *strongest_of(const AttributeView *v, const DirectRow *rows, size_t n, size_t *n_top,
                               Error *error) {
    Arena *arena = &v->study->arena;
    *n_top = at_most(v->top, n);
    size_t *places = arena_new(arena, *n_top, sizeof *places);
    double *sizes = arena_new(arena, n, sizeof *sizes);
    DirectRow *top = arena_new(arena, *n_top + 1, sizeof *top);
    if (!arena_ok(arena, error, "the strongest of %zu", n)) return NULL;
    for (size_t i = 0; i < n; i++) sizes[i] = rows[i].share;
    largest_of(sizes, n, *n_top, places);
    for (size_t i = 0; i < *n_top; i++) top[i] = rows[places[i]];
    return top;
}

static bool find_strongest(const AttributeView *v, Direct *direct, Error *error) {
    direct->top = strongest_of(v, direct->rows, direct->n_rows, &direct->n_top, error);
    if (!direct->top) return false;
    if (direct->n_neurons == 0) return true;
    direct->top_neurons = strongest_of(v, direct->neurons, direct->n_neurons, &direct->n_top_neurons, error);
    if (!direct->top_neurons) return false;
    for (size_t i = 0; i < direct->n_neurons; i++) direct->other_neurons += direct->neurons[i].value;
    for (size_t i = 0; i < direct->n_top_neurons; i++) direct->other_neurons -= direct->top_neurons[i].value;
    return true;
}

/* Where a head's value comes from, by position. */
static bool tell_sources(const AttributeView *v, const HeadSources *head, SourceTable *table, Error *error) {
    Arena *arena = &v->study->arena;
    size_t n = v->query + 1;
    double most = 0, *sizes = arena_new(arena, n, sizeof *sizes);
    table->n_shown = at_most(v->top, n);
    table->rows = arena_new(arena, n, sizeof *table->rows);
    table->shown = arena_new(arena, n, sizeof *table->shown);
    if (!arena_ok(arena, error, "%zu positions", n)) return false;
    for (size_t k = 0; k < n; k++) {
        table->rows[k] =
            (SourceRow){k, v->study->subject.tokens.ids[k], head->weights[k], head->values[k], 0};
        sizes[k] = fabs(head->values[k]);
        most = fmax(most, sizes[k]);
        table->sum += head->values[k];
    }
    for (size_t k = 0; most > 0 && k < n; k++) table->rows[k].share = sizes[k] / most;
    largest_of(sizes, n, table->n_shown, table->shown);
    return true;
}

static bool tell_all_sources(const AttributeView *v, Direct *direct, Error *error) {
    direct->sources = arena_new(&v->study->arena, direct->n_heads, sizeof *direct->sources);
    if (!arena_ok(&v->study->arena, error, "%zu heads", direct->n_heads)) return false;
    for (size_t i = 0; i < direct->n_heads; i++)
        if (!tell_sources(v, &direct->heads[i], &direct->sources[i], error)) return false;
    return true;
}

static bool compute(AttributeView *v, Error *error) {
    Direct *direct = arena_new(&v->study->arena, 1, sizeof *direct);
    if (!arena_ok(&v->study->arena, error, "the parts of the model")) return false;
    v->work = direct;
    direct->has_wrong = v->pair.wrong;
    if (!parse_heads(v, direct, error) || !check_neurons(v, error)) return false;
    if (!(v->pair.file ? run_pairs(v, direct, error) : run_one(v, direct, error))) return false;
    direct->sum = mean_value(&direct->sums);
    direct->logit = mean_value(&direct->logits);
    direct->error = mean_error(&direct->logits);
    direct->difference = mean_value(&direct->differences);
    finish_rows(direct->rows, direct->n_rows);
    finish_rows(direct->neurons, direct->n_neurons);
    add_layers(direct, model_config(v->study->model)->n_layer);
    return find_strongest(v, direct, error) && tell_all_sources(v, direct, error);
}

static bool show(Report *report, AttributeView *v, Error *error) {
    (void)error;
    direct_show(report, v, v->work);
    return true;
}

const AttributeWay attribute_direct = {check, compute, show};
