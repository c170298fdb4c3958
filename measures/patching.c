#include "measures/patching.h"

#include "measures/scores.h"

#include <math.h>
#include <string.h>

enum { MAX_RECORDED_MIB = 512 /* of both runs */ };

const char *const patch_names[N_PATCH_WHATS] = {"resid_pre", "attn_out", "mlp_out", "z",        "q",
                                                "k",         "v",        "pattern", "head-pos", "neurons"};

static ProbeSite patch_site(PatchWhat what) {
    static const ProbeSite sites[N_PATCH_WHATS] = {
        PROBE_RESID_PRE, PROBE_ATTN_OUT, PROBE_MLP_OUT, PROBE_Z, PROBE_Q,
        PROBE_K,         PROBE_V,        PROBE_PATTERN, PROBE_Z, PROBE_MLP_POST};
    return sites[what];
}

bool patch_has_heads(PatchWhat what) { return what >= PATCH_Z; }
bool patch_has_positions(PatchWhat what) { return what < PATCH_Z || what == PATCH_HEAD_POS; }

static const Config *config_of(const Patching *patching) { return model_config(patching->subject->model); }

static size_t heads_of(const Patching *patching) {
    const Config *config = config_of(patching);
    bool is_kv = patching->what == PATCH_K || patching->what == PATCH_V;
    if (patching->what == PATCH_NEURONS) return config->d_ff;
    return !patch_has_heads(patching->what) ? 1 : is_kv ? config->n_head_kv : config->n_head;
}

static size_t block_of(const Patching *patching) {
    const Config *config = config_of(patching);
    if (patching->what == PATCH_NEURONS) return 1;
    return !patch_has_heads(patching->what)  ? config->d_model
           : patching->what == PATCH_PATTERN ? patching->n
                                             : config->d_head;
}

/* Where a row of a head begins. */
static float *row_of(const Patching *patching, const Recording *recording, size_t layer, size_t position,
                     size_t head) {
    return recording->rows + (layer * patching->n + position) * recording->width + head * recording->block;
}

static void record(const Patching *patching, const Activation *seen) {
    for (size_t i = 0; i < seen->n_rows; i++)
        memcpy(row_of(patching, patching->under_way, seen->layer, seen->position + i, seen->head),
               seen->data + i * seen->stride, seen->n_cols * sizeof *seen->data);
}

/* Whether a cell's numbers are among those of a visit; those of all neurons come together. */
static bool reaches(const Patching *patching, const PatchCell *cell, size_t layer, size_t head) {
    bool any = cell->head == SIZE_MAX || patching->what == PATCH_NEURONS;
    return cell->layer == layer && (any || cell->head == head);
}

/* Puts the source's rows where those of a cell stand. */
static void put(const Patching *patching, const PatchCell *cell, const Activation *seen) {
    bool neuron = patching->what == PATCH_NEURONS;
    size_t begin = neuron ? cell->head : 0, n = neuron ? 1 : seen->n_cols;
    if (!reaches(patching, cell, seen->layer, seen->head)) return;
    for (size_t i = 0; i < seen->n_rows; i++) {
        size_t position = seen->position + i;
        const float *row = row_of(patching, &patching->source, seen->layer, position, seen->head);
        if (cell->position == SIZE_MAX || cell->position == position)
            memcpy(seen->data + i * seen->stride + begin, row + begin, n * sizeof *row);
    }
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Patching *patching = user;
    if (site != patch_site(patching->what)) return false;
    if (patching->under_way) return true;
    for (size_t i = 0; i < patching->n_batch; i++)
        if (reaches(patching, patching->batch[i], layer, head)) return true;
    return false;
}

static void visit(void *user, size_t lane, const Activation *seen) {
    const Patching *patching = user;
    if (patching->under_way)
        record(patching, seen);
    else
        put(patching, patching->batch[lane], seen);
}

static bool make_room(Patching *patching, Error *error) {
    size_t width = heads_of(patching) * block_of(patching), n_layer = config_of(patching)->n_layer;
    size_t limit = ((size_t)MAX_RECORDED_MIB << 20) / sizeof(float) / 2 / n_layer / width;
    if (patching->n > limit)
        return error_set(error,
                         "%s of both texts would take more than %d MiB: shorten them from %zu tokens to %zu",
                         patch_names[patching->what], MAX_RECORDED_MIB, patching->n, limit);
    Recording *recordings[] = {&patching->base, &patching->source};
    for (int i = 0; i < 2; i++)
        *recordings[i] = (Recording){arena_new(patching->arena, n_layer * patching->n, width * sizeof(float)),
                                     width, block_of(patching)};
    patching->final = arena_floats(patching->arena, patching->lanes.most, config_of(patching)->d_model);
    return arena_ok(patching->arena, error, "%s of %zu tokens", patch_names[patching->what], patching->n);
}

static bool run_text(Patching *patching, const int32_t *ids, bool is_base, Error *error) {
    patching->under_way = is_base ? &patching->base : &patching->source;
    bool ok = lanes_text(&patching->lanes, ids, is_base, patching->final, error);
    patching->under_way = NULL;
    if (ok)
        readout_values(&patching->readout, patching->lanes.session, patching->final, 1,
                       &patching->values[!is_base]);
    return ok;
}

/* The first position from which on a cell's numbers differ; n: nowhere. */
static size_t first_difference(const Patching *patching, const PatchCell *cell) {
    size_t head = cell->head == SIZE_MAX ? 0 : cell->head,
           at = cell->position == SIZE_MAX ? 0 : cell->position,
           end = cell->position == SIZE_MAX ? patching->n : at + 1;
    while (at < end && memcmp(row_of(patching, &patching->base, cell->layer, at, head),
                              row_of(patching, &patching->source, cell->layer, at, head),
                              patching->base.block * sizeof(float)) == 0)
        at++;
    return at == end ? patching->n : at;
}

/* Whether nobody reads what is patched: behind the last layer's attention only the last position counts. */
static bool is_unread(const Patching *patching, const PatchCell *cell) {
    return patching->what != PATCH_RESID_PRE && cell->position != SIZE_MAX &&
           cell->position + 1 < patching->n && cell->layer + 1 == config_of(patching)->n_layer;
}

static void add_cell(Patching *patching, size_t layer, size_t head, size_t position) {
    PatchCell *cell = &patching->cells[patching->n_cells++];
    *cell = (PatchCell){layer, head, position, 0, NAN, false};
    cell->first = first_difference(patching, cell);
    if (cell->first < patching->n && !is_unread(patching, cell)) return;
    cell->value = patching->values[0];
    cell->done = true;
    patching->n_done++;
}

static bool is_wanted(const Patching *patching, size_t layer) {
    if (patching->layer != SIZE_MAX && layer != patching->layer) return false;
    const Model *model = patching->subject->model;
    if (patching->what == PATCH_NEURONS) return model_weights(model)->layers[layer].experts.n_expert == 0;
    return !patch_has_heads(patching->what) || layer_has_heads(model, layer);
}

static bool list_cells(Patching *patching, Error *error) {
    size_t n_head = heads_of(patching), n_layer = config_of(patching)->n_layer,
           n_positions = patch_has_positions(patching->what) ? patching->to - patching->from : 1;
    patching->cells = arena_new(patching->arena, n_layer * n_head, n_positions * sizeof *patching->cells);
    if (!arena_ok(patching->arena, error, "%zu cells", n_layer * n_head * n_positions)) return false;
    for (size_t layer = 0; layer < n_layer; layer++)
        for (size_t head = 0; head < n_head && is_wanted(patching, layer); head++)
            for (size_t p = 0; p < n_positions; p++)
                add_cell(patching, layer, patch_has_heads(patching->what) ? head : SIZE_MAX,
                         patch_has_positions(patching->what) ? patching->from + p : SIZE_MAX);
    return true;
}

double patching_clean(const Patching *patching) { return patching->values[!patching->noising]; }
double patching_corrupted(const Patching *patching) { return patching->values[patching->noising]; }

bool patching_begin(Patching *patching, const Subject *subject, Arena *arena, const int32_t *clean,
                    const int32_t *corrupted, const Metric *metric, Error *error) {
    patching->subject = subject;
    patching->arena = arena;
    if (!lanes_begin(&patching->lanes, subject, patching->n, patching->freezes, arena, error) ||
        !readout_begin(&patching->readout, subject, metric, arena, error) || !make_room(patching, error))
        return false;
    patching->lanes.probe = (LaneProbe){patching, wants, visit};
    return run_text(patching, patching->noising ? clean : corrupted, true, error) &&
           run_text(patching, patching->noising ? corrupted : clean, false, error) &&
           readout_check(&patching->readout, patching->values, error) && list_cells(patching, error);
}

void patching_free(Patching *patching) { lanes_free(&patching->lanes); }

double patching_runs_left(const Patching *patching) {
    size_t n_layer = config_of(patching)->n_layer, rows = 0;
    for (size_t i = 0; i < patching->n_cells; i++) {
        const PatchCell *cell = &patching->cells[i];
        if (!cell->done) rows += (n_layer - cell->layer) * lane_rows(&patching->lanes, cell->first);
    }
    return (double)rows / (double)(n_layer * patching->n);
}

/* Gathers cells of one layer; the first that is not done says which. Places of them in cells: firsts' order is theirs. */
static void gather(Patching *patching, size_t *firsts, size_t *places) {
    size_t most = at_most(patching->lanes.most, SESSION_CHUNK), rows = 0, layer = SIZE_MAX;
    patching->n_batch = 0;
    for (size_t i = 0; i < patching->n_cells && patching->n_batch < most; i++) {
        const PatchCell *cell = &patching->cells[i];
        if (cell->done) continue;
        if (layer == SIZE_MAX) layer = cell->layer;
        size_t more = lane_rows(&patching->lanes, cell->first);
        if (cell->layer != layer || rows + more > patching->lanes.room) break;
        rows += more;
        firsts[patching->n_batch] = cell->first;
        places[patching->n_batch] = i;
        patching->batch[patching->n_batch++] = cell;
    }
}

bool patching_step(Patching *patching, bool *ends, Error *error) {
    size_t firsts[SESSION_CHUNK], places[SESSION_CHUNK];
    double values[SESSION_CHUNK];
    gather(patching, firsts, places);
    *ends = patching->n_batch == 0;
    if (*ends) return true;
    if (!lanes_run(&patching->lanes, patching->batch[0]->layer, firsts, patching->n_batch, patching->final,
                   error))
        return false;
    readout_values(&patching->readout, patching->lanes.session, patching->final, patching->n_batch, values);
    for (size_t i = 0; i < patching->n_batch; i++) {
        patching->cells[places[i]].value = values[i];
        patching->cells[places[i]].done = true;
    }
    patching->n_done += patching->n_batch;
    return true;
}
