#include "measures/neurons.h"

#include "measures/distribution.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool layer_has_neurons(const Model *model, size_t layer) {
    return model_weights(model)->layers[layer].experts.n_expert == 0;
}

static size_t n_hidden(const Subject *subject) { return model_config(subject->model)->d_ff; }

bool neurons_begin(Neurons *neurons, const Subject *subject, Arena *arena, Error *error) {
    size_t n = neurons->n_layers * n_hidden(subject), n_there = 0;
    for (size_t i = 0; i < neurons->n_layers; i++)
        if (layer_has_neurons(subject->model, neurons->layer + i)) n_there += n_hidden(subject);
    neurons->subject = subject;
    neurons->arena = arena;
    neurons->n_top = at_most(neurons->n_top, n_there);
    neurons->values = arena_new(arena, n, sizeof *neurons->values);
    neurons->positions = arena_new(arena, n, sizeof *neurons->positions);
    neurons->top = arena_new(arena, neurons->n_top, sizeof *neurons->top);
    return arena_ok(arena, error, "%zu neurons", n);
}

bool neurons_want(const Neurons *neurons, ProbeSite site, size_t layer) {
    return site == PROBE_MLP_POST && layer >= neurons->layer && layer - neurons->layer < neurons->n_layers;
}

void neurons_add(Neurons *neurons, const Activation *seen) {
    size_t first = (seen->layer - neurons->layer) * seen->n_cols;
    float *values = neurons->values + first;
    size_t *positions = neurons->positions + first;
    for (size_t row = 0; row < seen->n_rows; row++) {
        const float *x = seen->data + row * seen->stride;
        for (size_t i = 0; i < seen->n_cols; i++)
            if (fabsf(x[i]) > fabsf(values[i])) values[i] = x[i], positions[i] = seen->position + row;
    }
}

/*
 * Columns of a layer's W_down, [n][d_model], times the residual scale and the gains of the (RMS) norm behind the MLP. Whole rows
 * are unpacked, in which the blocks of quantised types lie.
 */
static void read_columns(const Subject *subject, size_t layer, const size_t *indices, size_t n, float *row,
                         float *columns) {
    const LayerWeights *weights = &model_weights(subject->model)->layers[layer];
    const Matrix *w = &weights->mlp.down.w;
    const float *gain = weights->mlp_post_norm.gain;
    for (size_t r = 0; r < w->rows; r++) {
        matrix_row(subject->compute.kernels, w, r, row);
        float factor = model_config(subject->model)->residual_scale * (gain ? gain[r] : 1);
        for (size_t i = 0; i < n; i++) columns[i * w->rows + r] = row[indices[i]] * factor;
    }
}

bool neuron_direction(const Subject *subject, Arena *arena, size_t layer, size_t neuron, float *direction,
                      Error *error) {
    size_t n = n_hidden(subject);
    if (!layer_has_neurons(subject->model, layer))
        return error_set(error, "layer %zu has experts, and no neurons that all tokens go through", layer);
    if (neuron >= n)
        return error_set(error, "neuron %zu does not exist: layer %zu has %zu, from 0 on", neuron, layer, n);
    float *row = arena_floats(arena, 1, n);
    if (!arena_ok(arena, error, "a row of %zu numbers", n)) return false;
    read_columns(subject, layer, &neuron, 1, row, direction);
    return true;
}

/* The lengths of what the strongest of a layer add. */
static bool measure_layer(Neurons *neurons, size_t layer, Error *error) {
    const Subject *subject = neurons->subject;
    size_t n = 0, d = model_config(subject->model)->d_model;
    Arena scratch = {0};
    size_t *indices = arena_new(&scratch, neurons->n_top, sizeof *indices);
    float *row = arena_floats(&scratch, 1, n_hidden(subject));
    float *columns = arena_floats(&scratch, neurons->n_top, d);
    bool ok = arena_ok(&scratch, error, "what %zu neurons write", neurons->n_top);
    for (size_t i = 0; ok && i < neurons->n_top; i++)
        if (neurons->top[i].layer == layer) indices[n++] = neurons->top[i].index;
    if (n > 0) read_columns(subject, layer, indices, n, row, columns);
    n = 0;
    for (size_t i = 0; ok && i < neurons->n_top; i++)
        if (neurons->top[i].layer == layer)
            neurons->top[i].output_norm = fabs(neurons->top[i].value) * vector_norm(columns + n++ * d, d);
    arena_free(&scratch);
    return ok;
}

bool neurons_finish(Neurons *neurons, Error *error) {
    size_t d_ff = n_hidden(neurons->subject), n = neurons->n_layers * d_ff;
    double *sizes = arena_new(neurons->arena, n, sizeof *sizes);
    size_t *places = arena_new(neurons->arena, neurons->n_top, sizeof *places);
    if (!arena_ok(neurons->arena, error, "%zu neurons", n)) return false;
    for (size_t i = 0; i < n; i++) /* experts come last */
        sizes[i] = layer_has_neurons(neurons->subject->model, neurons->layer + i / d_ff)
                       ? fabs((double)neurons->values[i])
                       : -1;
    largest_of(sizes, n, neurons->n_top, places);
    for (size_t i = 0; i < neurons->n_top; i++)
        neurons->top[i] = (Neuron){.layer = neurons->layer + places[i] / d_ff,
                                   .index = places[i] % d_ff,
                                   .position = neurons->positions[places[i]],
                                   .value = (double)neurons->values[places[i]]};
    for (size_t i = 0; i < neurons->n_layers; i++)
        if (!subject_go_on(neurons->subject, NULL, i, neurons->n_layers, error) ||
            !measure_layer(neurons, neurons->layer + i, error))
            return false;
    return true;
}

const char *unit_name(char buffer[64], const Unit *unit) {
    snprintf(buffer, 64, "L%zu%c%zu", unit->layer, unit->is_head ? 'H' : 'N', unit->index);
    return buffer;
}

static bool unit_wants(const Unit *unit, ProbeSite site, size_t layer, size_t head) {
    return layer == unit->layer &&
           (unit->is_head ? site == PROBE_RESULT && head == unit->index : site == PROBE_MLP_POST);
}

/* Writes the values at the positions that are seen. */
static void unit_read(const Unit *unit, const Activation *seen, double *values) {
    for (size_t row = 0; row < seen->n_rows; row++) {
        const float *x = seen->data + row * seen->stride;
        values[seen->position + row] = unit->is_head ? vector_norm(x, seen->n_cols) : (double)x[unit->index];
    }
}

/* The place of the largest of n, by size: the first such. */
static size_t strongest_of(const double *values, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (fabs(values[i]) > fabs(values[best])) best = i;
    return best;
}

static const LayerWeights *trace_layer(const UnitTrace *trace) {
    return &model_weights(trace->subject->model)->layers[trace->unit.layer];
}

bool trace_begin(UnitTrace *trace, const Subject *subject, Arena *arena, Error *error) {
    size_t n = subject->tokens.n, n_vocab = model_config(subject->model)->n_vocab;
    trace->subject = subject;
    trace->arena = arena;
    trace->n_top = trace->unit.is_head ? 0 : at_most(trace->n_top, n_vocab);
    trace->values = arena_new(arena, n, sizeof *trace->values);
    trace->scales = arena_new(arena, n, sizeof *trace->scales);
    if (!trace->unit.is_head && trace_layer(trace)->mlp_post_norm.gain) {
        trace->behind = arena_new(arena, n, sizeof *trace->behind);
        trace->made = arena_floats(arena, SESSION_CHUNK, model_config(subject->model)->d_model);
    }
    trace->written.raised = arena_new(arena, trace->n_top, sizeof *trace->written.raised);
    trace->written.lowered = arena_new(arena, trace->n_top, sizeof *trace->written.lowered);
    return arena_ok(arena, error, "the values of %zu tokens", n);
}

bool trace_wants(const UnitTrace *trace, ProbeSite site, size_t layer, size_t head) {
    return unit_wants(&trace->unit, site, layer, head) ||
           (!trace->unit.is_head && site == PROBE_RESID_POST &&
            layer + 1 == model_config(trace->subject->model)->n_layer);
}

/* The norm behind the MLP divides by this, at the positions that are seen. */
static void measure_behind(UnitTrace *trace, const Activation *seen) {
    const LayerWeights *weights = trace_layer(trace);
    Arena scratch = {0};
    size_t d = weights->mlp.down.w.rows;
    Compute compute = subject_compute(trace->subject, &scratch, seen->n_rows, seen->n_cols);
    for (size_t row = 0; row < seen->n_rows; row++) trace->behind[seen->position + row] = NAN;
    if (compute.packed)
        linear_forward(&compute, &(LinearOutput){trace->made, &weights->mlp.down}, 1, seen->data,
                       seen->n_rows);
    for (size_t row = 0; compute.packed && row < seen->n_rows; row++)
        trace->behind[seen->position + row] = norm_scale(&weights->mlp_post_norm, trace->made + row * d);
    arena_free(&scratch);
}

void trace_add(UnitTrace *trace, const Activation *seen) {
    const Norm *norm = &model_weights(trace->subject->model)->final_norm;
    if (seen->site != PROBE_RESID_POST) {
        unit_read(&trace->unit, seen, trace->values);
        if (trace->behind) measure_behind(trace, seen);
        return;
    }
    for (size_t row = 0; row < seen->n_rows; row++)
        trace->scales[seen->position + row] = norm_scale(norm, seen->data + row * seen->stride);
}

bool trace_finish(UnitTrace *trace, Error *error) {
    const Subject *subject = trace->subject;
    size_t d = model_config(subject->model)->d_model, at = strongest_of(trace->values, subject->tokens.n);
    trace->strongest = at;
    if (trace->unit.is_head) return true;
    double value = trace->values[at], behind = trace->behind ? trace->behind[at] : 1;
    float *row = arena_floats(trace->arena, 1, n_hidden(subject)), *output = arena_floats(trace->arena, 1, d);
    if (!arena_ok(trace->arena, error, "what a neuron writes")) return false;
    if (isnan(behind)) return error_set(error, "not enough memory for what the MLP adds");
    read_columns(subject, trace->unit.layer, &trace->unit.index, 1, row, output);
    for (size_t i = 0; i < d; i++) output[i] = (float)((double)output[i] * value / behind);
    trace->written.output_norm = vector_norm(output, d);
    effect_through_norm(&model_weights(subject->model)->final_norm, trace->scales[at], output, d);
    HeadEffects *written = &trace->written;
    return effects_top(subject, trace->arena, output, &written, 1, trace->n_top, error);
}

static bool window_wants(void *user, ProbeSite site, size_t layer, size_t head) {
    return unit_wants(&((const Examples *)user)->unit, site, layer, head);
}

static void window_add(void *user, const Activation *seen) {
    const Examples *examples = user;
    unit_read(&examples->unit, seen, examples->values);
}

static void begin_window(Examples *examples) {
    examples->n = 0;
    if (examples->bos >= 0) examples->ids[examples->n++] = examples->bos;
}

bool examples_begin(Examples *examples, const Subject *subject, Arena *arena, Error *error) {
    size_t n = examples->n_window;
    examples->subject = subject;
    examples->probe = (Probe){examples, window_wants, window_add};
    examples->values = arena_new(arena, n, sizeof *examples->values);
    examples->ids = arena_new(arena, n, sizeof *examples->ids);
    examples->best = arena_new(arena, examples->n_top + 1, sizeof *examples->best);
    examples->line = 1;
    if (!arena_ok(arena, error, "%zu examples", examples->n_top)) return false;
    begin_window(examples);
    examples->session = subject_session(subject, n, &examples->probe, error);
    return examples->session;
}

void examples_end(Examples *examples) { session_free(examples->session); }

static size_t lines_of(const Subject *subject, const int32_t *ids, size_t n) {
    size_t lines = 0;
    for (size_t i = 0; i < n; i++) {
        String piece = tokenizer_piece(subject->tokenizer, ids[i], false);
        for (size_t j = 0; j < piece.n; j++) lines += piece.data[j] == '\n';
    }
    return lines;
}

/* The token at `place` of the window, which is so much of the first `first` no text, joins the best, if it is one of them. */
static void keep_best(Examples *examples, size_t place, size_t first) {
    double value = examples->values[place];
    size_t at = examples->n_best;
    while (at > 0 && fabs(examples->best[at - 1].value) < fabs(value)) at--;
    if (at == examples->n_top) return;
    memmove(&examples->best[at + 1], &examples->best[at],
            (examples->n_best - at) * sizeof *examples->best); /* there is room for one more */
    if (examples->n_best < examples->n_top) examples->n_best++;
    size_t begin = place - first > BEFORE_EXAMPLE ? place - BEFORE_EXAMPLE : first,
           end = at_most(place + 1 + AFTER_EXAMPLE, examples->n);
    examples->best[at] =
        (Example){.value = value,
                  .position = examples->n_tokens + place - first,
                  .line = examples->line + lines_of(examples->subject, examples->ids + first, place - first),
                  .at = place - begin,
                  .n = end - begin};
    memcpy(examples->best[at].ids, examples->ids + begin, (end - begin) * sizeof *examples->ids);
}

static bool run_window(Examples *examples, Error *error) {
    const Subject *subject = examples->subject;
    size_t first = examples->bos >= 0, n = examples->n;
    session_rewind(examples->session, 0);
    if (!subject_feed(subject, examples->session, examples->ids, n, NULL, NULL, error)) return false;
    for (size_t i = first; i < n; i++) {
        examples->sum += examples->values[i];
        examples->squares += examples->values[i] * examples->values[i];
    }
    keep_best(examples, first + strongest_of(examples->values + first, n - first), first);
    examples->n_tokens += n - first;
    examples->n_windows++;
    examples->line += lines_of(subject, examples->ids + first, n - first);
    begin_window(examples);
    return true;
}

bool examples_add(Examples *examples, const int32_t *ids, size_t n, Error *error) {
    for (size_t i = 0; i < n; i++) {
        examples->ids[examples->n++] = ids[i];
        if (examples->n == examples->n_window && !run_window(examples, error)) return false;
    }
    return true;
}

bool examples_finish(Examples *examples, Error *error) {
    return examples->n == (size_t)(examples->bos >= 0) || run_window(examples, error);
}
