#include "measures/composition.h"

#include "measures/scores.h"

#include <math.h>

/* A head's rows, and their products with themselves. */
typedef struct ComposedHead {
    size_t layer, head;
    HeadWeights weights;
    double *reading; /* [n][n] A Aᵀ, where Aᵀ P is what it makes of P: k, q or o */
    double *vv;      /* [n][n] V Vᵀ */
    double norm;     /* of what reads */
    double ov_norm;
} ComposedHead;

typedef struct CompositionLoop {
    const Circuit *circuit;
    const ComposedHead *parts;
    Composition *pairs;
    const size_t *later, *earlier; /* [n] which parts each is of */
    CompositionKind kind;
    double *scratch; /* [n_threads][2][n][n] */
} CompositionLoop;

/* The rows that read the stream. */
static const float *reader(const ComposedHead *part, CompositionKind kind) {
    return kind == BY_QUERY ? part->weights.q : kind == BY_KEY ? part->weights.k : part->weights.v;
}

/* The weights through which goes what the weights above have read. */
static const float *beyond(const ComposedHead *part, CompositionKind kind) {
    return kind == BY_QUERY ? part->weights.k : kind == BY_KEY ? part->weights.q : part->weights.o;
}

static void score_pairs(void *context, size_t begin, size_t end, unsigned worker) {
    const CompositionLoop *loop = context;
    size_t n = loop->circuit->d_head;
    double *p = loop->scratch + worker * 2 * n * n;
    for (size_t i = begin; i < end; i++) {
        const ComposedHead *later = &loop->parts[loop->later[i]], *earlier = &loop->parts[loop->earlier[i]];
        rows_product(reader(later, loop->kind), earlier->weights.o, n, loop->circuit->d_model, p);
        double norms = later->norm * earlier->ov_norm;
        double score = sandwich_norm(later->reading, p, earlier->vv, n, p + n * n);
        loop->pairs[i] = (Composition){later->layer, later->head, earlier->layer, earlier->head,
                                       norms > 0 ? score / norms : 0};
    }
}

static double product_norm(const double *aa, const double *bb, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n * n; i++) sum += aa[i] * bb[i];
    return sqrt(fmax(sum, 0));
}

static bool make_part(const Circuit *circuit, Arena *arena, CompositionKind kind, ComposedHead *part,
                      double *scratch, Error *error) {
    size_t n = circuit->d_head, d = circuit->d_model;
    part->reading = arena_new(arena, n, n * sizeof(double));
    part->vv = arena_new(arena, n, n * sizeof(double));
    if (!circuit_head(circuit, arena, part->layer, part->head, &part->weights, error)) return false;
    rows_product(beyond(part, kind), beyond(part, kind), n, d, part->reading);
    rows_product(reader(part, kind), reader(part, kind), n, d, scratch);
    part->norm = product_norm(part->reading, scratch, n);
    rows_product(part->weights.v, part->weights.v, n, d, part->vv);
    rows_product(part->weights.o, part->weights.o, n, d, scratch);
    part->ov_norm = product_norm(part->vv, scratch, n);
    return true;
}

static ComposedHead *make_parts(const Circuit *circuit, Arena *arena, CompositionKind kind, size_t *n,
                                Error *error) {
    const Subject *subject = circuit->subject;
    const Config *config = model_config(subject->model);
    size_t size = circuit->d_head * circuit->d_head;
    ComposedHead *parts = arena_new(arena, config->n_layer, config->n_head * sizeof *parts);
    double *scratch = arena_new(arena, size, sizeof *scratch);
    if (!arena_ok(arena, error, "%zu layers of %zu heads", config->n_layer, config->n_head)) return NULL;
    for (size_t layer = 0; layer < config->n_layer; layer++)
        for (size_t head = 0; layer_has_heads(subject->model, layer) && head < config->n_head; head++) {
            ComposedHead *part = &parts[(*n)++];
            *part = (ComposedHead){.layer = layer, .head = head};
            if (!subject_go_on(subject, NULL, 0, 1, error) ||
                !make_part(circuit, arena, kind, part, scratch, error))
                return NULL;
        }
    return parts;
}

Composition *find_compositions(const Circuit *circuit, Arena *arena, CompositionKind kind, size_t *n,
                               Error *error) {
    enum { PIECE = 64 };
    const Subject *subject = circuit->subject;
    size_t n_parts = 0, size = circuit->d_head * circuit->d_head;
    const ComposedHead *parts = make_parts(circuit, arena, kind, &n_parts, error);
    if (!parts) return NULL;
    size_t most = n_parts * (n_parts + 1) / 2, *later = arena_new(arena, most, sizeof *later),
           *earlier = arena_new(arena, most, sizeof *earlier);
    Composition *pairs = arena_new(arena, most + 1, sizeof *pairs);
    double *scratch = arena_new(arena, threads_count(subject->compute.threads), 2 * size * sizeof *scratch);
    if (!arena_ok(arena, error, "%zu pairs of heads", most)) return NULL;
    *n = 0;
    for (size_t i = 0; i < n_parts; i++)
        for (size_t j = 0; j < i; j++)
            if (parts[j].layer < parts[i].layer) later[*n] = i, earlier[(*n)++] = j;
    for (size_t done = 0; done < *n; done += PIECE) {
        CompositionLoop loop = {circuit, parts, pairs + done, later + done, earlier + done, kind, scratch};
        if (!subject_go_on(subject, "pairs", done, *n, error)) return NULL;
        parallel_for(subject->compute.threads, at_most(*n - done, PIECE), 1, score_pairs, &loop);
    }
    subject_go_on(subject, "pairs", *n, *n, NULL);
    return pairs;
}
