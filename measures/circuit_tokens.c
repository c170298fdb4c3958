/* A head's circuits in tokens: pairs of them, and the singular directions of W_O W_V. */
#include "measures/circuit.h"
#include "measures/distribution.h"

#include <math.h>
#include <string.h>

enum { BATCH = PACKED_TOKENS };

/* Tokens by the numbers of a head, [n_vocab][d_head]: their rows times those of `weights` [d_head][d_model]. */
static float *token_rows(const Circuit *circuit, Arena *arena, const float *weights, bool unembed,
                         Error *error) {
    const Subject *subject = circuit->subject;
    size_t d = circuit->d_model, n_head = circuit->d_head;
    float *rows = arena_floats(arena, circuit->n_vocab, n_head), *x = arena_floats(arena, BATCH, d);
    Compute compute = subject_compute(subject, arena, BATCH, d);
    Linear linear = {{weights, DTYPE_F32, n_head, d}, NULL};
    if (!arena_ok(arena, error, "%zu tokens by %zu numbers", circuit->n_vocab, n_head)) return NULL;
    for (size_t done = 0, n; done < circuit->n_vocab; done += n) {
        n = at_most(circuit->n_vocab - done, BATCH);
        (unembed ? circuit_unembed : circuit_embed)(circuit, done, n, x);
        linear_forward(&compute, &(LinearOutput){rows + done * n_head, &linear}, 1, x, n);
    }
    return rows;
}

/* Some tokens' rows of a circuit. */
typedef struct CircuitTopLoop {
    const Circuit *circuit;
    float *entries; /* [n][n_vocab] */
    int32_t *ids;   /* [n][k] */
    size_t k;
    bool least;
} CircuitTopLoop;

static void find_top(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const CircuitTopLoop *loop = context;
    size_t n = loop->circuit->n_vocab;
    for (size_t t = begin; t < end; t++) {
        float *row = loop->entries + t * n;
        for (size_t i = 0; loop->least && i < n; i++) row[i] = -row[i];
        logits_top(row, n, loop->k, loop->ids + t * loop->k);
    }
}

/* Puts a pair where it belongs among the k largest so far, of which there are *n. */
static void insert(TokenPair *pairs, size_t *n, size_t k, TokenPair pair) {
    size_t i = *n;
    if (i == k && !(pair.value > pairs[k - 1].value)) return;
    if (*n < k) ++*n;
    for (i = *n - 1; i > 0 && pairs[i - 1].value < pair.value; i--) pairs[i] = pairs[i - 1];
    pairs[i] = pair;
}

static bool find_pairs(const Circuit *circuit, Arena *arena, const float *from, const float *to, double scale,
                       int32_t only, bool least, size_t k, TokenPair *pairs, Error *error) {
    const Subject *subject = circuit->subject;
    size_t n_vocab = circuit->n_vocab, d = circuit->d_head, n_pairs = 0, first = only < 0 ? 0 : (size_t)only,
           end = only < 0 ? n_vocab : first + 1;
    Compute compute = subject_compute(subject, arena, BATCH, d);
    Linear linear = {{to, DTYPE_F32, n_vocab, d}, NULL};
    CircuitTopLoop loop = {circuit, arena_floats(arena, BATCH, n_vocab),
                           arena_new(arena, BATCH, (k + 1) * sizeof(int32_t)), k, least};
    if (!arena_ok(arena, error, "%d rows of %zu tokens", BATCH, n_vocab)) return false;
    for (size_t done = first, n; done < end; done += n) {
        n = at_most(end - done, BATCH);
        if (!subject_go_on(subject, n_vocab > 20000 ? "pairs" : NULL, done, n_vocab, error)) return false;
        linear_forward(&compute, &(LinearOutput){loop.entries, &linear}, 1, from + done * d, n);
        parallel_for(subject->compute.threads, n, 1, find_top, &loop);
        for (size_t t = 0; t < n; t++)
            for (size_t i = 0; i < k; i++) {
                int32_t id = loop.ids[t * k + i];
                insert(pairs, &n_pairs, k,
                       (TokenPair){(int32_t)(done + t), id,
                                   scale * (double)loop.entries[t * n_vocab + (size_t)id]});
            }
    }
    subject_go_on(subject, "pairs", n_vocab, n_vocab, NULL);
    for (size_t i = 0; least && i < n_pairs; i++) pairs[i].value = -pairs[i].value;
    return true;
}

bool circuit_pairs(const Circuit *circuit, const HeadWeights *weights, bool qk, double scale, int32_t only,
                   bool least, size_t k, TokenPair *pairs, Error *error) {
    Arena scratch = {0};

    const float *from = token_rows(circuit, &scratch, qk ? weights->q : weights->v, false, error);
    const float *to = from ? token_rows(circuit, &scratch, qk ? weights->k : weights->o, !qk, error) : NULL;
    bool ok = to && find_pairs(circuit, &scratch, from, to, scale, only, least, k, pairs, error);
    arena_free(&scratch);
    return ok;
}

/* y = Σ_i x_i · rows[i], rows [n][d]. */
static void combine(const double *x, const float *rows, size_t n, size_t d, double *y) {
    memset(y, 0, d * sizeof *y);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++) y[j] += x[i] * (double)rows[i * d + j];
}

/* A^½ of a symmetric positive semidefinite matrix, by its own directions; the matrix is lost. */
static void square_root(double *a, size_t n, double *root, double *vectors, double *values) {
    symmetric_eigen(a, n, values, vectors);
    memset(root, 0, n * n * sizeof *root);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                root[i * n + j] += sqrt(fmax(values[k], 0)) * vectors[k * n + i] * vectors[k * n + j];
}

/*
 * W_O W_V = O V, whose singular values are the roots of the eigenvalues of A^½ V Vᵀ A^½ with A = Oᵀ O. If y is a vector of
 * that, v = Vᵀ A^½ y/σ and u = O V v/σ.
 */
typedef struct Singular {
    size_t n, d;
    double *root, *inner, *vectors, *values, *vv; /* [n][n], values [n] */
    double *x, *read, *write;                     /* [n], [d], [d] */
} Singular;

static bool singular_begin(Singular *s, Arena *arena, const HeadWeights *weights, Error *error) {
    size_t n = s->n, size = n * n * sizeof(double);
    s->root = arena_new(arena, 1, size);
    s->inner = arena_new(arena, 1, size);
    s->vectors = arena_new(arena, 1, size);
    s->vv = arena_new(arena, 1, size);
    s->values = arena_new(arena, n, sizeof(double));
    s->x = arena_new(arena, n, sizeof(double));
    s->read = arena_new(arena, s->d, sizeof(double));
    s->write = arena_new(arena, s->d, sizeof(double));
    if (!arena_ok(arena, error, "the singular directions of a head")) return false;
    rows_product(weights->o, weights->o, n, s->d, s->inner);
    square_root(s->inner, n, s->root, s->vectors, s->values);
    rows_product(weights->v, weights->v, n, s->d, s->vv);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t k = 0; k < n; k++)
                for (size_t l = 0; l < n; l++)
                    sum += s->root[i * n + k] * s->vv[k * n + l] * s->root[l * n + j];
            s->inner[i * n + j] = sum;
        }
    symmetric_eigen(s->inner, n, s->values, s->vectors);
    return true;
}

/* The unit vectors read and write of direction k, whose singular value is σ. */
static void find_direction(Singular *s, const HeadWeights *weights, size_t k, double sigma) {
    size_t n = s->n, d = s->d;
    for (size_t i = 0; i < n; i++) {
        s->x[i] = 0;
        for (size_t j = 0; j < n; j++) s->x[i] += s->root[i * n + j] * s->vectors[k * n + j] / sigma;
    }
    combine(s->x, weights->v, n, d, s->read);
    for (size_t i = 0; i < n; i++) {
        s->x[i] = 0;
        for (size_t j = 0; j < d; j++) s->x[i] += (double)weights->v[i * d + j] * s->read[j] / sigma;
    }
    combine(s->x, weights->o, n, d, s->write);
}

/* The product of each token's row with a vector, to products [n_vocab]. */
static void token_products(const Circuit *circuit, const double *x, bool unembed, float *row,
                           float *products) {
    for (size_t id = 0; id < circuit->n_vocab; id++) {
        double sum = 0;
        (unembed ? circuit_unembed : circuit_embed)(circuit, id, 1, row);
        for (size_t i = 0; i < circuit->d_model; i++) sum += x[i] * (double)row[i];
        products[id] = (float)sum;
    }
}

/* The largest of the products, times a sign. */
static void take_top(float *products, size_t n_vocab, float sign, size_t k, int32_t *ids, TokenPair *pairs) {
    for (size_t i = 0; i < n_vocab; i++) products[i] *= sign;
    logits_top(products, n_vocab, k, ids);
    for (size_t i = 0; i < k; i++) pairs[i] = (TokenPair){-1, ids[i], (double)products[ids[i]]};
}

/* 1, or −1 where the number furthest from 0 is below it. */
static float sign_of(const float *x, size_t n) {
    float furthest = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(furthest)) furthest = x[i];
    return furthest < 0 ? -1 : 1;
}

bool circuit_directions(const Circuit *circuit, const HeadWeights *weights, Arena *arena, size_t n, size_t k,
                        OvDirection *directions, Error *error) {
    size_t n_vocab = circuit->n_vocab;
    double sum = 0;
    Arena scratch = {0};
    Singular s = {.n = circuit->d_head, .d = circuit->d_model};
    float *products = arena_floats(&scratch, 1, n_vocab), *row = arena_floats(&scratch, 1, s.d);
    int32_t *ids = arena_new(&scratch, k + 1, sizeof *ids);
    TokenPair *pairs = arena_new(arena, 2 * n, (k + 1) * sizeof *pairs);
    bool ok = arena_ok(arena, error, "%zu directions", n) && singular_begin(&s, &scratch, weights, error);
    for (size_t i = 0; ok && i < s.n; i++) sum += fmax(s.values[i], 0);
    for (size_t i = 0; ok && i < n; i++) {
        double square = fmax(s.values[i], 0), sigma = sqrt(square);
        directions[i] =
            (OvDirection){sigma, sum > 0 ? square / sum : 0, pairs + 2 * i * k, pairs + (2 * i + 1) * k};
        ok = subject_go_on(circuit->subject, NULL, i, n, error);
        find_direction(&s, weights, i, sigma > 0 ? sigma : 1);
        token_products(circuit, s.write, true, row, products);
        float sign = sign_of(products, n_vocab);
        take_top(products, n_vocab, sign, k, ids, directions[i].writes);
        token_products(circuit, s.read, false, row, products);
        take_top(products, n_vocab, sign, k, ids, directions[i].reads);
    }
    arena_free(&scratch);
    return ok;
}
