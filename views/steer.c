/*
 * steer: a direction added to the residual stream, or taken out of it (measures/steering.h): what the model then writes,
 * expects next and makes of the text; layer by layer and strength by strength; and the direction in a file.
 */
#include "views/steer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_PREDICT = 16, N_TOP = 3 /* where no option says so */ };

static bool at_all_positions(const SteerView *view) {
    return !view->position_list || strcmp(view->position_list, "all") == 0;
}

static bool parse_positions(Study *study, SteerView *view, Error *error) {
    size_t n = study->subject.tokens.n;
    const char *list = view->position_list;
    if (at_all_positions(view)) return true;
    bool *positions = arena_new(&study->arena, n, sizeof *positions);
    if (!arena_ok(&study->arena, error, "%zu positions", n)) return false;
    view->steering.positions = positions;
    view->steering.n_positions = n;
    positions[n - 1] = true;
    if (strcmp(list, "last") == 0) return true;
    positions[n - 1] = false;
    return parse_list("--positions", list, "position", n, positions, error);
}

static bool parse_strengths(SteerView *view, Error *error) {
    const char *at = view->strength_list ? view->strength_list : "1,2,4,8";
    for (;; at++) {
        double value;
        const char *end = parse_real(at, &value);
        if (!end || (*end && *end != ',') || !(fabs(value) <= MAX_STRENGTH))
            return error_set(
                       error,
                       "--strengths takes numbers with commas between them, such as -4,-2,2,4; not '%s'",
                       view->strength_list) ||
                   wrong_usage(error);
        if (view->n_strengths == MAX_STRENGTHS)
            return error_set(error, "--strengths takes up to %d numbers", MAX_STRENGTHS);
        view->strengths[view->n_strengths++] = value;
        if (!*end) return true;
        at = end;
    }
}

/* The rows of -o. What is added behind no layer is refused. */
static bool find_rows(Study *study, SteerView *view, Error *error) {
    size_t n_layer = view->steering.n_layer, before = view->steering.site == PROBE_RESID_PRE;
    if (!view->output) return true;
    if (before && view->chosen[0])
        return error_set(
            error, "-o: what a file holds is added behind a layer, and layer 0 has none before it; take "
                   "other --layers, or --site resid_post");
    view->rows = arena_new(&study->arena, n_layer, sizeof *view->rows);
    if (!arena_ok(&study->arena, error, "%zu rows", n_layer)) return false;
    for (size_t layer = before; layer < n_layer; layer++)
        view->rows[layer - before] = view->steering.directions[layer];
    return directions_fit(view->output, view->rows, error);
}

static bool write_file(const Study *study, const SteerView *view, Error *error) {
    Inputs inputs = study_inputs(study);
    inputs.steering = view->file;
    inputs.more_texts[0] = view->plus_file, inputs.more_texts[1] = view->minus_file;
    return directions_write(view->output, &inputs, view->rows, view->strength, study->model, error);
}

static void list_layers(SteerView *view, size_t d) {
    for (size_t layer = 0; layer < view->steering.n_layer; layer++)
        if (view->steering.directions[layer])
            view->layers[view->n_layers++] = (SteeredLayer){
                .layer = layer,
                .length = vector_norm(view->steering.directions[layer], d),
                .stream = view->sweep ? NAN : view->stream.norms[layer],
            };
}

static NextToken next_token(const SteerView *view, int32_t id, const double log_sums[2]) {
    return (NextToken){id, probability_of(view->runs.last[0], id, log_sums[0]),
                       probability_of(view->runs.last[1], id, log_sums[1])};
}

/* The likeliest tokens of either run, those of the steered one first. */
static bool compare_next(Study *study, SteerView *view, Error *error) {
    size_t n_vocab = model_config(study->model)->n_vocab, n = at_most(view->n_top, n_vocab);
    int32_t *ids = arena_new(&study->arena, 2 * n + 1, sizeof *ids);
    view->next = arena_new(&study->arena, 2 * n + 1, sizeof *view->next);
    if (!arena_ok(&study->arena, error, "%zu tokens", n)) return false;
    const double log_sums[] = {distribution_of(view->runs.last[0], n_vocab).log_sum,
                               distribution_of(view->runs.last[1], n_vocab).log_sum};
    logits_top(view->runs.last[1], n_vocab, n, ids);
    logits_top(view->runs.last[0], n_vocab, n, ids + n);
    for (size_t i = 0; i < 2 * n; i++) {
        size_t j = 0;
        while (j < i && ids[j] != ids[i]) j++;
        if (j == i) view->next[view->n_next++] = next_token(view, ids[i], log_sums);
    }
    if (view->answer) view->answered = next_token(view, view->answer_id, log_sums);
    return true;
}

static void ignore(void *user) { (void)user; }

/* Lets one of the runs write on; its text goes to view->texts. */
static bool write_on(Study *study, SteerView *view, int run, Error *error) {
    Tokens *tokens = &study->subject.tokens;
    Session *session = view->runs.sessions[run];
    size_t n = tokens->n;
    session_watch(session, run ? &view->steering.probe : NULL);
    session_rewind(session, n - 1);
    size_t held = session_position(session);
    if (held < n - 1 &&
        !subject_feed(&study->subject, session, tokens->ids + held, n - 1 - held, NULL, NULL, error))
        return false;
    Generator *generator = study_generator(study, session, view->temperature, error);
    bool ok = generator && study_generate(study, generator, view->n_predict, ignore, NULL, error);
    for (size_t i = n; ok && i < tokens->n; i++) {
        String piece = tokenizer_piece(study->tokenizer, tokens->ids[i], true);
        ok = text_append(&view->texts[run], piece.data, piece.n) || error_set(error, "not enough memory");
    }
    tokens->n = n;
    generator_free(generator);
    return ok;
}

static bool compare_runs(Study *study, SteerView *view, Error *error) {
    size_t n = study->subject.tokens.n;
    Probe look = {&view->stream, site_means_want, site_means_see};
    view->stream = (SiteMeans){
        .site = view->steering.site, .layers = view->chosen, .positions = view->steering.positions};
    if (!site_means_begin(&view->stream, &study->subject, &study->arena, error)) return false;
    site_means_expect(&view->stream, &study->subject);
    return steered_runs(&view->runs, &study->subject, &study->arena, n + view->n_predict, &look,
                        steering_probe(&view->steering), error) &&
           compare_next(study, view, error) &&
           (view->n_predict == 0 || (write_on(study, view, 0, error) && write_on(study, view, 1, error)));
}

/* A number of the sweep: nll, or the probability of --answer. */
static bool score_cell(const Study *study, SteerView *view, Steering *steering, float *last, double *cell,
                       Error *error) {
    size_t n_vocab = model_config(study->model)->n_vocab;
    if (!steered_score(&study->subject, steering_probe(steering), cell, last, error)) return false;
    if (view->answer) *cell = probability_of(last, view->answer_id, distribution_of(last, n_vocab).log_sum);
    return true;
}

static bool run_sweep(Study *study, SteerView *view, Error *error) {
    float *last = arena_floats(&study->arena, 1, model_config(study->model)->n_vocab);
    const float **alone = arena_new(&study->arena, view->steering.n_layer, sizeof *alone);
    size_t n = view->n_layers * view->n_strengths, done = 0;
    if (!arena_ok(&study->arena, error, "a sweep")) return false;
    Steering steering = view->steering;
    steering.directions = alone;
    if (!score_cell(study, view, &steering, last, &view->answered.baseline, error)) return false;
    for (size_t i = 0; i < view->n_layers; i++) {
        SteeredLayer *row = &view->layers[i];
        alone[row->layer] = view->steering.directions[row->layer];
        for (size_t k = 0; k < view->n_strengths; k++) {
            steering.strength = (float)view->strengths[k];
            if (!subject_go_on(&study->subject, "runs", done++, n, error) ||
                !score_cell(study, view, &steering, last, &row->cells[k], error))
                return false;
        }
        alone[row->layer] = NULL;
    }
    subject_go_on(&study->subject, "runs", n, n, NULL);
    return true;
}

static bool make_room(Study *study, SteerView *view, Error *error) {
    const Config *config = model_config(study->model);
    Arena *arena = &study->arena;
    view->chosen = arena_new(arena, config->n_layer, sizeof *view->chosen);
    view->room = arena_new(arena, config->n_layer + 1, config->d_model * sizeof *view->room);
    view->steering.directions = arena_new(arena, config->n_layer, sizeof *view->steering.directions);
    view->layers = arena_new(arena, config->n_layer, sizeof *view->layers);
    return arena_ok(arena, error, "directions of %zu layers", config->n_layer);
}

/* Refuses what a file cannot say: it is added, at all positions, behind layers. */
static bool check_file(const SteerView *view, Error *error) {
    const char *site = view->site_name;
    if (view->project || !at_all_positions(view))
        return error_set(
            error, "-o: what a file holds is added at all positions: leave out --project and --positions");
    return !site || strcmp(site, "resid_pre") == 0 || strcmp(site, "resid_post") == 0 ||
           error_set(error, "-o: what a file holds is added behind a layer: --site resid_post, or resid_pre");
}

static bool check(const StudyOptions *options, const void *own, Error *error) {
    const SteerView *view = own;
    (void)options;
    if (!steer_check_source(view, error)) return false;
    if (view->strength_list && !view->sweep) return error_set(error, "--strengths goes with --sweep");
    const char *idle = !isnan(view->strength)         ? "--strength"
                       : view->n_predict != NOT_GIVEN ? "-n"
                       : view->n_top != NOT_GIVEN     ? "--top"
                       : !isnan(view->temperature)    ? "--temp"
                                                      : NULL;
    if (view->sweep && idle)
        return error_set(error, "--sweep takes --strengths and gives one number for each: leave out %s",
                         idle);
    if (view->sweep && view->output)
        return error_set(error, "--sweep tries many, and -o writes one: choose a layer and a strength first");
    return !view->output || check_file(view, error);
}

/* Takes what no option gave. */
static void settle(SteerView *view) {
    if (isnan(view->strength)) view->strength = 1;
    if (isnan(view->temperature)) view->temperature = 0;
    if (view->n_predict == NOT_GIVEN) view->n_predict = view->sweep ? 0 : N_PREDICT;
    if (view->n_top == NOT_GIVEN) view->n_top = N_TOP;
}

static bool compute(Study *study, void *own, Error *error) {
    SteerView *view = own;
    settle(view);
    view->steering.strength = view->strength;
    view->steering.project = view->project;
    if (!subject_check_length(&study->subject, error)) return false;
    if (study->subject.tokens.n < 2)
        return error_set(error, "steer scores each token after the first: give a text of two tokens or more");
    if (!study_check_predict(study, view->n_predict, error) || !make_room(study, view, error) ||
        (view->answer && !study_token(study, view->answer, &view->answer_id, error)) ||
        (view->sweep && !parse_strengths(view, error)) || !parse_positions(study, view, error) ||
        !steer_find_directions(study, view, error) || !find_rows(study, view, error))
        return false;
    if (!view->sweep && !compare_runs(study, view, error)) return false;
    list_layers(view, model_config(study->model)->d_model);
    if (view->sweep) return run_sweep(study, view, error);
    return !view->output || write_file(study, view, error);
}

static void free_view(void *own) {
    SteerView *view = own;
    steered_runs_free(&view->runs);
    directions_free(&view->directions);
    for (int i = 0; i < 2; i++) free(view->texts[i].data);
}

static const SteerView defaults = {
    .strength = NAN, .temperature = NAN, .n_predict = NOT_GIVEN, .n_top = NOT_GIVEN};

#define AT(member) offsetof(SteerView, member)

static const Option options[] = {
    {"--plus", NULL, OPTION_ONCE, AT(plus)},
    {"--minus", NULL, OPTION_ONCE, AT(minus)},
    {"--plus-file", NULL, OPTION_ONCE, AT(plus_file), .file = true},
    {"--minus-file", NULL, OPTION_ONCE, AT(minus_file), .file = true},
    {"--average", NULL, OPTION_TEXT, AT(average)},
    {"--neuron", NULL, OPTION_ONCE, AT(neuron)},
    {"--token", NULL, OPTION_ONCE, AT(token)},
    {"--direction", NULL, OPTION_ONCE, AT(file), .file = true},
    {"--unit", NULL, OPTION_ON, AT(unit)},
    {"--site", NULL, OPTION_TEXT, AT(site_name)},
    {"--layers", NULL, OPTION_ONCE, AT(layer_list)},
    {"--positions", NULL, OPTION_ONCE, AT(position_list)},
    {"--strength", NULL, OPTION_REAL, AT(strength), -MAX_STRENGTH, MAX_STRENGTH},
    {"--project", NULL, OPTION_ON, AT(project)},
    {"--predict", "-n", OPTION_SIZE, AT(n_predict), 0, 1e9},
    {"--temp", NULL, OPTION_REAL, AT(temperature), 0, 1e9},
    {"--top", NULL, OPTION_SIZE, AT(n_top), 0, 1000},
    {"--answer", NULL, OPTION_ONCE, AT(answer)},
    {"--sweep", NULL, OPTION_ON, AT(sweep)},
    {"--strengths", NULL, OPTION_ONCE, AT(strength_list)},
    {"--output", "-o", OPTION_ONCE, AT(output), .file = true},
};

const View view_steer = {
    .name = "steer",
    .summary = "a direction added to the residual stream, or taken out of it",
    .help = HELP(
        "What the model makes of the text with a direction d added to a vector x on its way: x + strength*d.\n"
        "\n"
        "the direction:\n"
        "  --plus TEXT, --minus TEXT   what the two differ in at the site: mean over their positions,\n"
        "                              or with --average last their last one\n"
        "  --plus-file, --minus-file FILE   likewise the means over texts, one a line\n"
        "  --neuron L3N120             what neuron 120 of layer 3's MLP writes (its column of W_down)\n"
        "  --token T                   the unembedding row of a token (a text, or #id)\n"
        "  --direction FILE            of a file: .npy, or a control vector of llama.cpp (GGUF)\n"
        "  --unit                      make it 1 long\n"
        "where, and how much:\n"
        "  --site S        resid_pre (resid_post of neurons and files), attn_out, resid_mid, mlp_out, resid_post\n"
        "  --layers LIST   1,3-5 (the middle one; a neuron's, a file's own)\n"
        "  --positions P   all (also of what is written), last, or a list such as 0,3-5\n"
        "  --strength X    (1)             --project   take out X of what x has of d, instead of adding\n"
        "what is shown:\n"
        "  -n, --predict N   tokens written with and without it (16)    --temp X   at this temperature (0)\n"
        "  --top K         likeliest next tokens of each (3)            --answer T   this one, too\n"
        "  --sweep         every layer alone by --strengths LIST (1,2,4,8): p of --answer, or nll\n"
        "  -o, --output FILE   write strength*d: FILE.npy, or else a control vector, for ./run and llama.cpp\n"
        "\n"
        "examples:\n"
        "  ./study steer model.bin -p \"She said\" --plus \"I love it\" --minus \"I hate it\" --strength 2\n"
        "  ./study steer model.bin -p \"The Eiffel\" --token \" company\" --unit --sweep --answer \" company\"\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(SteerView),
    .check = check,
    .compute = compute,
    .show = steer_show,
    .free = free_view,
};
