/*
 * experts: which experts each token went through, with what weight, and how the text spread over the experts of a layer.
 * The shared expert of a layer, which all tokens go through, is not shown.
 */
#include "views/view.h"

enum { TOKEN_WIDTH = 14, BEFORE_CHOICES = 5 + TOKEN_WIDTH, CHOICE_WIDTH = 12 };

/* An expert that a token went through, and by what its output was multiplied; or the share of tokens that chose it. */
typedef struct ExpertChoice {
    size_t expert;
    double weight;
} ExpertChoice;

/* A layer that has experts. */
typedef struct ExpertsRow {
    size_t layer;
    ExpertChoice *chosen; /* [n_tokens][n_used] the heaviest first */
    double *load;         /* [n_expert] the share of tokens that chose each */
} ExpertsRow;

typedef struct ExpertsView {
    size_t only; /* of --layer */

    const Study *study;
    size_t n_tokens, n_expert, n_used;
    ExpertsRow *rows; /* [n_rows] */
    size_t n_rows;
    double *values;      /* scratch, [n_expert] */
    size_t *places;      /* likewise */
    ExpertChoice *order; /* likewise */
} ExpertsView;

static ExpertsRow *row_of(const ExpertsView *view, size_t layer) {
    for (size_t i = 0; i < view->n_rows; i++)
        if (view->rows[i].layer == layer) return &view->rows[i];
    return NULL;
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)head;
    return site == PROBE_EXPERT_WEIGHTS && row_of(user, layer);
}

static void visit(void *user, const Activation *seen) {
    const ExpertsView *view = user;
    ExpertsRow *row = row_of(view, seen->layer);
    for (size_t t = 0; t < seen->n_rows; t++) {
        const float *weights = seen->data + t * seen->stride;
        ExpertChoice *chosen = row->chosen + (seen->position + t) * view->n_used;
        for (size_t e = 0; e < view->n_expert; e++) view->values[e] = (double)weights[e];
        largest_of(view->values, view->n_expert, view->n_used, view->places);
        for (size_t i = 0; i < view->n_used; i++) {
            size_t expert = view->places[i];
            chosen[i] = (ExpertChoice){expert, view->values[expert]};
            row->load[expert] += 1 / (double)view->n_tokens;
        }
    }
}

static bool compute(Study *study, void *own, Error *error) {
    ExpertsView *view = own;
    const Config *config = model_config(study->model);
    const Weights *weights = model_weights(study->model);
    Arena *arena = &study->arena;
    if (!study_check_place(study, view->only, NOT_GIVEN, NOT_GIVEN, 0, error)) return false;
    view->study = study;
    view->n_tokens = study->subject.tokens.n;
    view->n_expert = config->n_expert;
    view->n_used = config->n_expert_used;
    view->rows = arena_new(arena, config->n_layer, sizeof *view->rows);
    view->values = arena_new(arena, view->n_expert + 1, sizeof *view->values);
    view->places = arena_new(arena, view->n_expert + 1, sizeof *view->places);
    view->order = arena_new(arena, view->n_expert + 1, sizeof *view->order);
    if (!arena_ok(arena, error, "%zu layers", config->n_layer)) return false;
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (!weights->layers[layer].experts.n_expert || (view->only != NOT_GIVEN && layer != view->only))
            continue;
        view->rows[view->n_rows++] =
            (ExpertsRow){layer, arena_new(arena, view->n_tokens, view->n_used * sizeof(ExpertChoice)),
                         arena_new(arena, view->n_expert, sizeof(double))};
    }
    if (view->n_rows == 0)
        return error_set(error, "%s: %s has no experts: all tokens go through the same MLP",
                         study->options->model, view->only == NOT_GIVEN ? "the model" : "this layer");
    Probe probe = {view, wants, visit};
    return arena_ok(arena, error, "the experts of %zu tokens", view->n_tokens) &&
           study_feed(study, &probe, 0, view->n_tokens, error);
}

/* A choice for people: the expert, and its weight or share. As many as the line has room for; a mark where there are more. */
static void print_choices(const Report *report, const char *format, double unit, const ExpertChoice *choices,
                          size_t n) {
    size_t shown =
        at_most(n, (report->width - BEFORE_CHOICES - 2) / CHOICE_WIDTH); /* a width is 40 at least */
    for (size_t i = 0; i < shown; i++) {
        printf("%5zu", choices[i].expert);
        printf(format, choices[i].weight * unit);
    }
    puts(shown == n ? "" : report->ascii ? " .." : " …");
}

static void print_layer(const Report *report, const ExpertsView *view, const ExpertsRow *row) {
    print_styled(report, STYLE_BOLD, "\nlayer %-*zu expert and weight, the heaviest first\n",
                 BEFORE_CHOICES - 6, row->layer);
    for (size_t t = 0; t < view->n_tokens; t++) {
        print_styled(report, STYLE_DIM, "%4zu ", t);
        print_token(report, view->study->subject.tokens.ids[t], TOKEN_WIDTH);
        print_choices(report, " %6.4f", 1, row->chosen + t * view->n_used, view->n_used);
    }
    largest_of(row->load, view->n_expert, view->n_expert, view->places);
    for (size_t i = 0; i < view->n_expert; i++)
        view->order[i] = (ExpertChoice){view->places[i], row->load[view->places[i]]};
    printf("%-*s", BEFORE_CHOICES, "load");
    print_choices(report, " %5.1f%%", 100, view->order, view->n_expert);
}

static void json_layer(Report *report, const ExpertsView *view, const ExpertsRow *row) {
    json_object(report, NULL);
    json_int(report, "layer", (int64_t)row->layer);
    for (int weights = 0; weights < 2; weights++) {
        json_array(report, weights ? "weights" : "experts");
        for (size_t t = 0; t < view->n_tokens; t++) {
            const ExpertChoice *chosen = row->chosen + t * view->n_used;
            json_array(report, NULL);
            for (size_t i = 0; i < view->n_used; i++)
                if (weights)
                    json_real(report, NULL, chosen[i].weight);
                else
                    json_int(report, NULL, (int64_t)chosen[i].expert);
            json_end_array(report);
        }
        json_end_array(report);
    }
    json_reals(report, "load", row->load, view->n_expert);
    json_end_object(report);
}

static bool show(Study *study, void *own, Error *error) {
    const ExpertsView *view = own;
    Report *report = &study->report;
    (void)error;
    if (is_json(report)) {
        json_int(report, "n_expert", (int64_t)view->n_expert);
        json_int(report, "n_expert_used", (int64_t)view->n_used);
        json_array(report, "layers");
        for (size_t i = 0; i < view->n_rows; i++) json_layer(report, view, &view->rows[i]);
        json_end_array(report);
        return true;
    }
    print_styled(
        report, STYLE_DIM,
        "Each token goes through %zu of %zu experts; weight: by which an expert's output is multiplied\n"
        "load: how many of the %zu tokens chose an expert; if all were chosen alike: %.1f%%\n",
        view->n_used, view->n_expert, view->n_tokens, 100 * (double)view->n_used / (double)view->n_expert);
    for (size_t i = 0; i < view->n_rows; i++) print_layer(report, view, &view->rows[i]);
    return true;
}

static const ExpertsView defaults = {.only = NOT_GIVEN};

static const Option options[] = {{"--layer", NULL, OPTION_SIZE, offsetof(ExpertsView, only), 0, 1e9}};

const View view_experts = {
    .name = "experts",
    .summary = "which experts each token goes through",
    .help = HELP(
        "Of a model whose layers have experts in place of an MLP: the experts that the router chose for each\n"
        "token, their weights, and how often each was chosen.\n"
        "\n"
        "  --layer L   of one layer (all)\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(ExpertsView),
    .compute = compute,
    .show = show,
};
