#include "measures/mixture.h"

#include <math.h>
#include <string.h>

static const Config *config_of(const Mixture *mixture) { return model_config(mixture->subject->model); }

static bool is_last(const Mixture *mixture, ProbeSite site, size_t layer) {
    return site == PROBE_RESID_POST && layer + 1 == mixture->graph->n_layer;
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Mixture *mixture = user;
    (void)head;
    if (contributions_want(mixture->kept, site, layer) || is_last(mixture, site, layer)) return true;
    return mixture->in && (site == PROBE_RESID_PRE || site == PROBE_Q || site == PROBE_K || site == PROBE_V ||
                           (site == PROBE_Z && mixture->graph->gated) || site == PROBE_RESID_MID);
}

/* Mixing rows [position, position + n_rows) for some readers. */
typedef struct MixLoop {
    const Mixture *mixture;
    size_t first; /* reader */
    size_t position, n_rows;
    float *to; /* [readers][n_rows][d_model] */
} MixLoop;

static void mix(void *context, size_t begin, size_t end, unsigned worker) {
    const MixLoop *loop = context;
    const Mixture *mixture = loop->mixture;
    const EdgeGraph *graph = mixture->graph;
    const Kernels *kernels = mixture->subject->compute.kernels;
    size_t count = loop->n_rows * config_of(mixture)->d_model;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        size_t reader = loop->first + i;
        float *to = loop->to + i * count;
        memset(to, 0, count * sizeof *to);
        for (size_t sender = 0; sender < reader_senders(graph, reader); sender++) {
            bool in = mixture->in[graph->first[reader] + sender];
            kernels->add(to, contribution(in ? &mixture->inside : &mixture->outside, sender, loop->position),
                         count);
        }
    }
}

static void mix_readers(const Mixture *mixture, size_t first, size_t n, const Activation *seen, float *to) {
    MixLoop loop = {mixture, first, seen->position, seen->n_rows, to};
    parallel_for(mixture->subject->compute.threads, n, 1, mix, &loop);
}

/* A matrix makes a reader's numbers, which go to `to` [chunk][n_heads][d_head]. */
typedef struct Projection {
    const Linear *linear;
    size_t first; /* of its rows */
    size_t n_heads;
    float limit; /* they are cut to; 0: they are not */
    float *to;
} Projection;

static Projection projection_of(const Mixture *mixture, const LayerWeights *w, Part part) {
    const AttentionShape shape = model_attention_shape(mixture->subject->model);
    const AttentionWeights *attention = &w->attention;
    size_t d_head = shape.d_head, first = part.head * d_head,
           of_q = shape.gated ? 2 * first : first; /* behind the rows of each head's query stand its gate's */
    float before = shape.clamp_normed ? 0 : shape.clamp;
    switch (part.kind) {
    case PART_QUERY: return (Projection){&attention->q, of_q, shape.n_head, before, mixture->q};
    case PART_GATE: return (Projection){&attention->q, of_q + d_head, shape.n_head, 0, mixture->gate};
    case PART_KEY: return (Projection){&attention->k, first, shape.n_head_kv, before, mixture->k};
    default: return (Projection){&attention->v, first, shape.n_head_kv, shape.clamp, mixture->v};
    }
}

/* One head's queries, keys, values or gates of what it reads, reads [n_rows][d_model]. */
static void project(const Mixture *mixture, const LayerWeights *w, const Projection *by, size_t head,
                    const float *reads, size_t n_rows) {
    size_t d = config_of(mixture)->d_model, d_head = config_of(mixture)->d_head;
    Linear rows = linear_rows(by->linear, by->first, d_head);
    if (w->attn_norm.gain) norm_forward(&mixture->compute, &w->attn_norm, reads, mixture->normed, n_rows, d);
    linear_forward(&mixture->compute, &(LinearOutput){mixture->rows, &rows}, 1,
                   w->attn_norm.gain ? mixture->normed : reads, n_rows);
    if (by->limit != 0) clamp(mixture->rows, n_rows * d_head, by->limit);
    for (size_t i = 0; i < n_rows; i++)
        memcpy(by->to + (i * by->n_heads + head) * d_head, mixture->rows + i * d_head,
               d_head * sizeof *by->to);
}

/*
 * Gates are made of the stream that enters the layer, and no probe sees them. Of that stream nobody else reads, so it becomes
 * zeros; put_gate has the engine's gates made good in z. (In a parallel layer the MLP would read it: none has gates, or a state.)
 */
static void still_gates(const Mixture *mixture, const LayerWeights *w, const Activation *seen) {
    memset(seen->data, 0, seen->n_rows * seen->n_cols * sizeof *seen->data);
    for (size_t head = 0; head < mixture->graph->n_head; head++) {
        Projection by = projection_of(mixture, w, (Part){PART_GATE, seen->layer, head});
        by.to = mixture->still;
        project(mixture, w, &by, head, seen->data, seen->n_rows);
    }
}

/* Makes all that a layer's heads read, and their queries, keys, values and gates of it. */
static void read_heads(const Mixture *mixture, const Activation *seen) {
    const EdgeGraph *graph = mixture->graph;
    const LayerWeights *w = &model_weights(mixture->subject->model)->layers[seen->layer];
    size_t first = graph->first_reader[seen->layer], n_heads = heads_readers(graph, seen->layer);
    size_t count = seen->n_rows * config_of(mixture)->d_model;
    mix_readers(mixture, first, n_heads, seen, mixture->reads);
    for (size_t i = 0; i < n_heads; i++) {
        Part part = reader_part(graph, first + i);
        Projection by = projection_of(mixture, w, part);
        project(mixture, w, &by, part.head, mixture->reads + i * count, seen->n_rows);
    }
    if (graph->gated) still_gates(mixture, w, seen);
}

/* z is multiplied by the sigmoid of the gate that its head has here, and no longer by that of the engine's. */
static void put_gate(const Mixture *mixture, const Activation *seen) {
    for (size_t i = 0; i < seen->n_rows; i++)
        for (size_t j = 0; j < seen->n_cols; j++) {
            size_t at = (i * mixture->graph->n_head + seen->head) * seen->n_cols + j;
            seen->data[i * seen->stride + j] *=
                (1 + expf(-mixture->still[at])) / (1 + expf(-mixture->gate[at]));
        }
}

static void put_head(const Activation *seen, const float *rows, size_t n_heads) {
    for (size_t i = 0; i < seen->n_rows; i++)
        memcpy(seen->data + i * seen->stride, rows + (i * n_heads + seen->head) * seen->n_cols,
               seen->n_cols * sizeof *rows);
}

/* Gives an MLP, a state, or the final norm, its own stream to read; nobody else reads that. */
static void put_stream(const Mixture *mixture, PartKind kind, const Activation *seen) {
    mix_readers(mixture, reader_of(mixture->graph, (Part){kind, seen->layer, 0}), 1, seen, seen->data);
}

static void replace(const Mixture *mixture, const Activation *seen) {
    const EdgeGraph *graph = mixture->graph;
    switch (seen->site) {
    case PROBE_RESID_PRE:
        if (graph_keeps_state(graph, seen->layer)) {
            put_stream(mixture, PART_STATE, seen);
            break;
        }
        read_heads(mixture, seen);
        if (graph->parallel) put_stream(mixture, PART_MLP, seen);
        break;
    case PROBE_Q: put_head(seen, mixture->q, graph->n_head); break;
    case PROBE_K: put_head(seen, mixture->k, graph->n_head_kv); break;
    case PROBE_V: put_head(seen, mixture->v, graph->n_head_kv); break;
    case PROBE_Z: put_gate(mixture, seen); break;
    case PROBE_RESID_MID: put_stream(mixture, PART_MLP, seen); break;
    case PROBE_RESID_POST: put_stream(mixture, PART_FINAL, seen); break;
    default: break;
    }
}

static void visit(void *user, const Activation *seen) {
    const Mixture *mixture = user;
    if (contributions_want(mixture->kept, seen->site, seen->layer)) contributions_add(mixture->kept, seen);
    if (mixture->in) replace(mixture, seen);
    if (is_last(mixture, seen->site, seen->layer) && seen->position + seen->n_rows == mixture->n)
        memcpy(mixture->final, seen->data + (seen->n_rows - 1) * seen->stride,
               seen->n_cols * sizeof *seen->data);
}

static bool make_room(Mixture *mixture, Arena *arena, Error *error) {
    const Config *config = config_of(mixture);
    const EdgeGraph *graph = mixture->graph;
    size_t chunk = at_most(mixture->n, SESSION_CHUNK), d = config->d_model,
           n_heads = (graph->gated ? 2 : 1) * graph->n_head + 2 * graph->n_head_kv;
    Contributions *copies[] = {&mixture->inside, &mixture->outside};
    for (int i = 0; i < 2; i++) {
        *copies[i] = (Contributions){.model = mixture->subject->model, .graph = graph, .n = mixture->n};
        if (!contributions_begin(copies[i], 2, arena, error)) return false;
    }
    mixture->reads = arena_floats(arena, n_heads * chunk, d);
    mixture->q = arena_floats(arena, chunk, graph->n_head * config->d_head);
    mixture->k = arena_floats(arena, chunk, graph->n_head_kv * config->d_head);
    mixture->v = arena_floats(arena, chunk, graph->n_head_kv * config->d_head);
    if (graph->gated) {
        mixture->gate = arena_floats(arena, chunk, graph->n_head * config->d_head);
        mixture->still = arena_floats(arena, chunk, graph->n_head * config->d_head);
    }
    mixture->normed = arena_floats(arena, chunk, d);
    mixture->rows = arena_floats(arena, chunk, config->d_head);
    mixture->final = arena_floats(arena, 1, d);
    mixture->last = arena_new(arena, graph->n_edges, sizeof *mixture->last);
    mixture->compute = subject_compute(mixture->subject, arena, chunk, d);
    return arena_ok(arena, error, "%zu readers of %zu tokens", n_heads, mixture->n);
}

bool mixture_begin(Mixture *mixture, Arena *arena, Error *error) {
    const Subject *subject = mixture->subject;
    mixture->own = (Probe){mixture, wants, visit};
    if (mixture->n > subject_n_ctx(subject))
        return error_set(error, "a text of %zu tokens is more than the context of %zu: shorten it",
                         mixture->n, subject_n_ctx(subject));
    if (!make_room(mixture, arena, error) ||
        !readout_begin(&mixture->readout, subject, &mixture->metric, arena, error))
        return false;
    mixture->session = subject_session(subject, mixture->n, &mixture->own, error);
    return mixture->session;
}

void mixture_free(Mixture *mixture) {
    session_free(mixture->session);
    mixture->session = NULL;
}

static bool read_value(Mixture *mixture, double *value, Error *error) {
    readout_values(&mixture->readout, mixture->session, mixture->final, 1, value);
    return isfinite(*value) ||
           error_set(error, "%s: the logits are not finite; the weights hold NaN or infinity",
                     checkpoint_path(model_checkpoint(mixture->subject->model)));
}

/* A way through the layers from the first on, or from one of which all below is as it was. */
static bool run_from(Mixture *mixture, const int32_t *ids, size_t layer, Error *error) {
    session_rewind(mixture->session, 0);
    if (layer == 0) return session_feed(mixture->session, ids, mixture->n, NULL, 0, error);
    /* Nobody reads the stream that is handed over: every reader has a mixture of its own. */
    return session_resume(mixture->session, layer, contribution(&mixture->inside, 0, 0), mixture->n, NULL, 0,
                          error);
}

bool mixture_outside(Mixture *mixture, const int32_t *ids, double *value, Error *error) {
    mixture->in = NULL;
    mixture->kept = &mixture->outside;
    mixture->has_last = false;
    return run_from(mixture, ids, 0, error) && read_value(mixture, value, error);
}

/* The layer of the first reader that has other edges than in the run before; n_layer: the final norm. */
static size_t first_changed(const Mixture *mixture, const bool *in) {
    size_t edge = 0, n_edges = mixture->graph->n_edges;
    if (!mixture->has_last) return 0;
    while (edge < n_edges && in[edge] == mixture->last[edge]) edge++;
    if (edge == n_edges) return mixture->graph->n_layer;
    Part reader = reader_part(mixture->graph, edge_ends(mixture->graph, edge).reader);
    return reader.kind == PART_FINAL ? mixture->graph->n_layer : reader.layer;
}

/* The final norm reads this at the last position. */
static void mix_final(const Mixture *mixture) {
    Activation last = {PROBE_RESID_POST, 0, 0, mixture->n - 1, 1, config_of(mixture)->d_model, 0,
                       mixture->final};
    put_stream(mixture, PART_FINAL, &last);
}

bool mixture_run(Mixture *mixture, const int32_t *ids, const bool *in, double *value, Error *error) {
    size_t layer = in ? first_changed(mixture, in) : 0;
    mixture->in = in;
    mixture->kept = &mixture->inside;
    mixture->has_last = false;
    if (layer == mixture->graph->n_layer)
        mix_final(mixture);
    else if (!run_from(mixture, ids, layer, error))
        return false;
    mixture->has_last = in;
    if (in) memcpy(mixture->last, in, mixture->graph->n_edges * sizeof *in);
    return read_value(mixture, value, error);
}

void mixture_outside_zero(Mixture *mixture) {
    mixture->has_last = false;
    memset(mixture->outside.rows, 0,
           mixture->graph->n_senders * mixture->n * config_of(mixture)->d_model * sizeof(float));
}

void mixture_outside_mean(Mixture *mixture) {
    size_t d = config_of(mixture)->d_model, n = mixture->n;
    mixture->has_last = false;
    for (size_t sender = 0; sender < mixture->graph->n_senders; sender++) {
        float *rows = contribution(&mixture->outside, sender, 0);
        for (size_t i = 0; i < d; i++) {
            double sum = 0;
            for (size_t t = 0; t < n; t++) sum += (double)rows[t * d + i];
            for (size_t t = 0; t < n; t++) rows[t * d + i] = (float)(sum / (double)n);
        }
    }
}
