#include "measures/edgescores.h"

#include <string.h>

static const Config *config_of(const EdgeScores *scores) { return model_config(scores->subject->model); }

static const Contributions *under_way(const EdgeScores *scores) {
    return scores->is_base ? &scores->other : &scores->delta;
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)head;
    return contributions_want(under_way(user), site, layer);
}

static void visit(void *user, const Activation *seen) { contributions_add(under_way(user), seen); }

/* The reader whose input a site of the way back is; false: it is none. */
static bool is_reader(const EdgeScores *scores, ProbeSite site, size_t layer, size_t head, size_t *reader) {
    PartKind kind = PART_FINAL;
    switch (site) {
    case PROBE_Q_INPUT: kind = PART_QUERY; break;
    case PROBE_K_INPUT: kind = PART_KEY; break;
    case PROBE_V_INPUT: kind = PART_VALUE; break;
    case PROBE_GATE_INPUT: kind = PART_GATE; break;
    case PROBE_STATE_INPUT: kind = PART_STATE; break;
    case PROBE_MLP_INPUT: kind = PART_MLP; break;
    case PROBE_RESID_POST:
        if (layer + 1 == config_of(scores)->n_layer) break;
        return false;
    default: return false;
    }
    *reader = reader_of(scores->graph, (Part){kind, layer, head});
    return true;
}

static bool wants_gradient(void *user, ProbeSite site, size_t layer, size_t head) {
    size_t reader;
    return is_reader(user, site, layer, head, &reader);
}

/* Sums sixteen lanes of floats, each of a few numbers, in an order that the length alone fixes. */
static double dot(const float *x, const float *y, size_t n) {
    enum { LANES = 16, DEPTH = 16 };
    double sum = 0;
    size_t i = 0;
    for (; i + LANES * DEPTH <= n; i += LANES * DEPTH) {
        float lanes[LANES] = {0};
        for (size_t k = i; k < i + LANES * DEPTH; k += LANES)
            for (size_t j = 0; j < LANES; j++) lanes[j] += x[k + j] * y[k + j];
        for (size_t j = 0; j < LANES; j++) sum += (double)lanes[j];
    }
    for (; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

typedef struct ScoreLoop {
    EdgeScores *scores;
    const Activation *seen;
    const float *gradient;
    double *edges; /* of the reader */
} ScoreLoop;

static void score_senders(void *context, size_t begin, size_t end, unsigned worker) {
    const ScoreLoop *loop = context;
    (void)worker;
    for (size_t sender = begin; sender < end; sender++)
        loop->edges[sender] +=
            loop->scores->weight * dot(contribution(&loop->scores->delta, sender, loop->seen->position),
                                       loop->gradient, loop->seen->n_rows * loop->seen->n_cols);
}

static void score_tokens(const EdgeScores *scores, size_t reader, const Activation *seen,
                         const float *gradient) {
    double *tokens = scores->tokens + reader * scores->n + seen->position;
    for (size_t i = 0; i < seen->n_rows; i++)
        tokens[i] += scores->weight * dot(contribution(&scores->delta, 0, seen->position + i),
                                          gradient + i * seen->n_cols, seen->n_cols);
}

static void add_gradient(void *user, const Activation *seen, float *gradient) {
    EdgeScores *scores = user;
    size_t reader = 0;
    is_reader(scores, seen->site, seen->layer, seen->head, &reader);
    ScoreLoop loop = {scores, seen, gradient, scores->scores + scores->graph->first[reader]};
    score_tokens(scores, reader, seen, gradient);
    parallel_for(scores->subject->compute.threads, reader_senders(scores->graph, reader), 8, score_senders,
                 &loop);
}

static bool make_room(EdgeScores *scores, Arena *arena, Error *error) {
    Contributions *copies[] = {&scores->delta, &scores->other};
    for (int i = 0; i < 2; i++) {
        *copies[i] = (Contributions){.model = scores->subject->model, .graph = scores->graph, .n = scores->n};
        if (!contributions_begin(copies[i], 2, arena, error)) return false;
        scores->embed[i] = arena_floats(arena, scores->n, config_of(scores)->d_model);
    }
    scores->scores = arena_new(arena, scores->graph->n_edges, sizeof *scores->scores);
    scores->tokens = arena_new(arena, scores->graph->n_readers * scores->n, sizeof *scores->tokens);
    return arena_ok(arena, error, "%zu edges", scores->graph->n_edges);
}

/* The source goes first, so that the base's streams are there for the way back. */
static bool run_text(EdgeScores *scores, const int32_t *ids, bool is_base, Error *error) {
    Gradients *gradients = &scores->gradients;
    Probe probe = {scores, wants, visit};
    scores->is_base = is_base;
    if (!gradients_there(gradients, ids, NULL, &probe, &scores->values[!is_base], error)) return false;
    memcpy(scores->embed[!is_base], gradients->saved.layers[0].pre,
           scores->n * config_of(scores)->d_model * sizeof(float));
    return true;
}

static void subtract_base(const EdgeScores *scores) {
    size_t count = scores->graph->n_senders * scores->n * config_of(scores)->d_model;
    for (size_t i = 0; i < count; i++) scores->delta.rows[i] -= scores->other.rows[i];
}

bool edgescores_run(EdgeScores *scores, const int32_t *base, const int32_t *source, Arena *arena,
                    Error *error) {
    Gradients *gradients = &scores->gradients;
    GradientProbe probe = {scores, wants_gradient, add_gradient};
    *gradients = (Gradients){.subject = scores->subject, .n = scores->n, .metric = scores->metric};
    scores->weight = scores->steps ? 1 / (double)scores->steps : 1;
    if (!gradients_begin(gradients, arena, error) || !make_room(scores, arena, error) ||
        !run_text(scores, source, false, error) || !run_text(scores, base, true, error))
        return false;
    subtract_base(scores);
    return gradients_back(gradients, scores->embed, scores->steps, &probe, error) &&
           gradients_check(gradients, scores->scores, scores->graph->n_edges, error) &&
           gradients_check(gradients, scores->tokens, scores->graph->n_readers * scores->n, error);
}

void edgescores_free(EdgeScores *scores) { gradients_free(&scores->gradients); }
