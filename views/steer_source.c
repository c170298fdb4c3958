/* Where the directions of `steer` come from: the options that say so, and the texts and files that they name. */
#include "cli/input.h"
#include "measures/neurons.h"
#include "views/steer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const steer_source_names[N_SOURCES] = {"texts", "neuron", "token", "file"};

static const ProbeSite sites[] = {PROBE_RESID_PRE, PROBE_ATTN_OUT, PROBE_RESID_MID, PROBE_MLP_OUT,
                                  PROBE_RESID_POST};
enum { N_SITES = sizeof sites / sizeof *sites };

/* Counts the sources that the options name, and finds the last of them. */
static size_t find_source(const SteerView *view, Source *source) {
    bool of_texts = view->plus || view->minus || view->plus_file || view->minus_file;
    const bool given[N_SOURCES] = {of_texts, view->neuron, view->token, view->file};
    size_t n = 0;
    for (size_t i = 0; i < N_SOURCES; i++)
        if (given[i]) *source = (Source)i, n++;
    return n;
}

static bool parse_average(const SteerView *view, size_t *average, Error *error) {
    static const char *const averages[] = {"mean", "last"};
    return parse_choice("--average", view->average, averages, 2, average, error);
}

static bool parse_site(const SteerView *view, size_t *site, Error *error) {
    const char *names[N_SITES];
    for (size_t i = 0; i < N_SITES; i++) names[i] = probe_site_name(sites[i]);
    return parse_choice("--site", view->site_name, names, N_SITES, site, error);
}

bool steer_check_source(const SteerView *view, Error *error) {
    Source source = N_SOURCES;
    size_t n = find_source(view, &source), average, site;
    bool of_texts = source == FROM_TEXTS;
    if (n != 1)
        return error_set(error,
                         "%s: --plus TEXT and --minus TEXT, --plus-file and --minus-file, --neuron L3N120, "
                         "--token T, or --direction FILE",
                         n ? "one direction at a time" : "say where the direction comes from");
    if (of_texts && (!view->plus == !view->plus_file || !view->minus == !view->minus_file))
        return error_set(error,
                         "a direction is the difference of two: give --plus or --plus-file, and --minus or "
                         "--minus-file");
    if (view->average && !of_texts)
        return error_set(error, "--average goes with texts, whose positions it is over");
    return parse_average(view, &average, error) && parse_site(view, &site, error);
}

/* Vectors of a neuron, and of a file, belong behind a layer. */
static bool choose_site(const Study *study, SteerView *view, Error *error) {
    bool behind = view->source == FROM_NEURON || view->source == FROM_FILE;
    size_t site;
    parse_site(view, &site, error); /* as steer_check_source did */
    if (!view->site_name && behind) site = N_SITES - 1;
    view->steering.site = sites[site];
    return steering_has_site(study->model, sites[site]) ||
           error_set(error,
                     "--site: this model's attention and MLP both read resid_pre, so that there is no %s",
                     view->site_name);
}

/* The layers of --layers, those of a file, that of a neuron; else the middle one, or all for a sweep. */
static bool choose_layers(const Study *study, SteerView *view, size_t neuron_layer, Error *error) {
    size_t n_layer = model_config(study->model)->n_layer;
    if (view->layer_list)
        return parse_list("--layers", view->layer_list, "layer", n_layer, view->chosen, error);
    for (size_t layer = 0; layer < n_layer; layer++)
        view->chosen[layer] = view->source == FROM_FILE && !view->directions.single
                                  ? view->directions.rows[layer] != NULL
                              : view->sweep                 ? true
                              : view->source == FROM_NEURON ? layer == neuron_layer
                                                            : layer == n_layer / 2;
    return true;
}

static bool parse_neuron(const Study *study, const char *text, size_t *layer, size_t *neuron, Error *error) {
    char *end = NULL;
    bool ok = text[0] == 'L' && text[1] >= '0' && text[1] <= '9';
    *layer = ok ? strtoul(text + 1, &end, 10) : 0;
    ok = ok && end[0] == 'N' && end[1] >= '0' && end[1] <= '9';
    *neuron = ok ? strtoul(end + 1, &end, 10) : 0;
    if (!ok || *end)
        return error_set(error, "--neuron: '%s' is no neuron such as L3N120", text) || wrong_usage(error);
    return study_check_place(study, at_most(*layer, NOT_GIVEN - 1), NOT_GIVEN, NOT_GIVEN, 0, error) &&
           (*neuron < NOT_GIVEN - 1 || refuse_number("--neuron", "neuron", *neuron, "a layer has",
                                                     model_config(study->model)->d_ff, error));
}

static bool add_text(const Study *study, SiteMeans *means, const char *text, size_t n, Error *error) {
    Subject subject = study->subject;
    subject.tokens = (Tokens){0};
    bool ok = study_encode(study, text, n, &subject.tokens, &subject.bos, error) &&
              site_means_add(means, &subject, error);
    tokens_free(&subject.tokens);
    return ok;
}

/* The text of an option, or each line of a file that is not empty. */
static bool add_texts(const Study *study, SiteMeans *means, const char *text, const char *path,
                      Error *error) {
    TextBuffer lines = {0};
    if (text) return add_text(study, means, text, strlen(text), error);
    bool ok = read_prompt_text(path, &lines, error);
    for (size_t at = 0, n; ok && at < lines.n; at += n + 1) {
        const char *line = lines.data + at, *end = memchr(line, '\n', lines.n - at);
        n = end ? (size_t)(end - line) : lines.n - at;
        size_t length = n > 0 && line[n - 1] == '\r' ? n - 1 : n;
        if (length > 0) ok = add_text(study, means, line, length, error);
    }
    free(lines.data);
    return ok && (means->n_texts > 0 || error_set(error, "%s: holds no text", path));
}

static bool of_texts(const Study *study, SteerView *view, Error *error) {
    size_t average, d = model_config(study->model)->d_model;
    Arena scratch = {0};
    parse_average(view, &average, error); /* as steer_check_source did */
    SiteMeans means[2];
    const char *const texts[] = {view->plus, view->minus}, *const files[] = {view->plus_file,
                                                                             view->minus_file};
    bool ok = true;
    for (int i = 0; ok && i < 2; i++) {
        means[i] = (SiteMeans){.site = view->steering.site, .layers = view->chosen, .last = average == 1};
        ok = site_means_begin(&means[i], &study->subject, &scratch, error) &&
             add_texts(study, &means[i], texts[i], files[i], error);
    }
    for (size_t layer = 0; ok && layer < view->steering.n_layer; layer++)
        if (view->chosen[layer]) site_difference(&means[0], &means[1], layer, view->room + layer * d);
    if (ok) view->n_plus = means[0].n_texts, view->n_minus = means[1].n_texts;
    arena_free(&scratch);
    return ok;
}

/* The same vector for every layer that is chosen, or the file's own rows. */
static bool of_vector(const SteerView *view, const float *vector, size_t d, Error *error) {
    for (size_t layer = 0; layer < view->steering.n_layer; layer++) {
        const float *from = vector ? vector : view->directions.rows[layer];
        if (!view->chosen[layer]) continue;
        if (!from) return error_set(error, "--layers: %s has no direction for layer %zu", view->file, layer);
        memcpy(view->room + layer * d, from, d * sizeof *from);
    }
    return true;
}

static bool find_vectors(const Study *study, SteerView *view, size_t layer, size_t neuron, Error *error) {
    size_t d = model_config(study->model)->d_model;
    float *vector = view->room + view->steering.n_layer * d;
    Arena scratch = {0};
    bool ok = false;
    switch (view->source) {
    case FROM_TEXTS: return of_texts(study, view, error);
    case FROM_FILE: return of_vector(view, view->directions.single ? view->directions.data : NULL, d, error);
    case FROM_TOKEN: token_direction(&study->subject, view->token_id, vector); break;
    case FROM_NEURON:
        ok = neuron_direction(&study->subject, &scratch, layer, neuron, vector, error);
        arena_free(&scratch);
        if (!ok) return false;
        break;
    case N_SOURCES: break;
    }
    return of_vector(view, vector, d, error);
}

/* Takes each to length 1 with --unit, and notes which there are. A direction of zeros is refused: it does nothing. */
static bool finish(SteerView *view, size_t d, Error *error) {
    for (size_t layer = 0; layer < view->steering.n_layer; layer++) {
        float *direction = view->room + layer * d;
        double length = vector_norm(direction, d);
        if (!view->chosen[layer]) continue;
        if (!(length > 0) || !isfinite(length))
            return error_set(error, "the direction of layer %zu has length %g: nothing to steer by", layer,
                             length);
        for (size_t i = 0; view->unit && i < d; i++) direction[i] = (float)((double)direction[i] / length);
        view->steering.directions[layer] = direction;
    }
    return true;
}

bool steer_find_directions(const Study *study, SteerView *view, Error *error) {
    const Config *config = model_config(study->model);
    size_t layer = 0, neuron = 0;
    view->steering.n_layer = config->n_layer;
    find_source(view, &view->source);
    if (!choose_site(study, view, error) ||
        (view->neuron && !parse_neuron(study, view->neuron, &layer, &neuron, error)) ||
        (view->token && !study_token(study, view->token, &view->token_id, error)) ||
        (view->file && !directions_read(&view->directions, view->file, study->model, error)) ||
        !choose_layers(study, view, layer, error))
        return false;
    directions_note("study", &view->directions);
    return find_vectors(study, view, layer, neuron, error) && finish(view, config->d_model, error);
}
