/*
 * Both begin with a causal convolution of each channel over the last n_taps tokens, where tokens before the first count
 * as 0. In the short convolution it is the middle, ⊙ being the product number by number:
 *
 *   u_t   = (W_before x_t) ⊙ (W_in x_t)
 *   out_t = W_out ((W_gate x_t) ⊙ Σ_i kernel_i ⊙ u_(t−i))
 *
 * The delta net's state S is, for each head, a matrix from keys to values. It fades; then what it says of the newest key
 * is moved towards the newest value, by the delta rule:
 *
 *   q_t, k_t, v_t = SiLU(Σ_i kernel_i ⊙ W_in x_(t−i)), then q_t / (|q_t| √d_head) and k_t / |k_t|
 *   α_t   = exp(decay · softplus(W_alpha x_t + bias))      β_t = sigmoid(W_beta x_t)
 *   δ_t   = β_t (v_t − α_t S_(t−1) k_t)
 *   S_t   = α_t S_(t−1) + δ_t k_tᵀ
 *   out_t = W_out (norm(S_t q_t) ⊙ SiLU(W_gate x_t))
 *
 * S_(t−1) is read once for both products, since S_t q_t = α_t S_(t−1) q_t + (k_t·q_t) δ_t. Tokens come one after another;
 * heads are dealt to threads.
 */
#include "layers/states.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_STEP = 4 /* tokens of a piece of the convolution */ };

struct States {
    StateShape shape;
    Compute compute;
    size_t layer_floats;
    size_t n_bytes;      /* of memory */
    float *memory;       /* [n_layer][layer_floats]: of each the matrices S, then the rows before the chunk */
    float *rows;         /* [n_taps − 1 + n_chunk][n_channels] what is convolved, those rows first */
    float *mixed;        /* [n_chunk][n_channels] */
    float *gate;         /* [n_chunk][d_inner] */
    float *alpha, *beta; /* [n_chunk][n_head] */
    float *ones;         /* [n_channels] */
};

size_t states_floats(const StateShape *shape) {
    return 2 * shape->n_channels + shape->d_inner + 2 * shape->n_head;
}

static size_t matrices_floats(const StateShape *shape) {
    return shape->n_head * shape->d_head * shape->d_head;
}

static size_t layer_floats(const StateShape *shape) {
    size_t n = matrices_floats(shape) + (shape->n_taps - 1) * shape->n_channels;
    return (n + 15) / 16 * 16; /* whole cache lines */
}

size_t states_bytes(const StateShape *shape, size_t n_layer) {
    return n_layer * layer_floats(shape) * sizeof(float);
}

States *states_new(const StateShape *shape, size_t n_layer, size_t n_chunk, const Compute *compute,
                   Error *error) {
    States *states = calloc(1, sizeof *states);
    if (!states) goto no_memory;
    *states = (States){.shape = *shape,
                       .compute = *compute,
                       .layer_floats = layer_floats(shape),
                       .n_bytes = states_bytes(shape, n_layer)};
    states->memory = floats_new(n_layer, states->layer_floats);
    states->rows = floats_new(shape->n_taps - 1 + n_chunk, shape->n_channels);
    states->mixed = floats_new(n_chunk, shape->n_channels);
    states->gate = floats_new(n_chunk, shape->d_inner);
    states->alpha = floats_new(n_chunk, shape->n_head);
    states->beta = floats_new(n_chunk, shape->n_head);
    states->ones = floats_new(1, shape->n_channels);
    if (!states->memory || !states->rows || !states->mixed || !states->gate || !states->alpha ||
        !states->beta || !states->ones)
        goto no_memory;
    for (size_t i = 0; i < shape->n_channels; i++) states->ones[i] = 1;
    return states;
no_memory:
    error_set(error, "not enough memory for the states of %zu layers", n_layer);
    states_free(states);
    return NULL;
}

void states_free(States *states) {
    if (!states) return;
    free(states->memory);
    free(states->rows);
    free(states->mixed);
    free(states->gate);
    free(states->alpha);
    free(states->beta);
    free(states->ones);
    free(states);
}

/* The context of one layer's loops over the chunk. */
typedef struct LayerLoop {
    const States *states;
    const StateWeights *weights;
    float *matrices; /* [n_head][d_head keys][d_head values] */
    size_t n;
} LayerLoop;

static void multiply(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] *= x[i];
}

/* u of tokens [begin, end); W_before x lies in `mixed`. */
static void gate_before(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const States *states = ((const LayerLoop *)context)->states;
    size_t c = states->shape.n_channels, first = states->shape.n_taps - 1 + begin;
    multiply(states->rows + first * c, states->mixed + begin * c, (end - begin) * c);
}

/* The sum over taps, and what becomes of it before heads are looked at: of tokens [begin, end). */
static void convolve(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LayerLoop *loop = context;
    const States *states = loop->states;
    const Kernels *kernels = states->compute.kernels;
    size_t c = states->shape.n_channels, n_taps = states->shape.n_taps;
    for (size_t t = begin; t < end; t++) {
        float *mixed = states->mixed + t * c;
        memset(mixed, 0, c * sizeof *mixed);
        for (size_t i = 0; i < n_taps; i++)
            kernels->add_scaled(mixed, states->rows + (t + i) * c, loop->weights->kernel + i * c, 1, c);
        if (loop->weights->mixer == MIXER_DELTA_NET)
            kernels->silu_mul(mixed, states->ones, c);
        else
            multiply(mixed, states->gate + t * c, c);
    }
}

/* Adds several sums side by side, of which the compiler makes a vector. */
static float dot(const float *x, const float *y, size_t n) {
    float sums[16] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t j = 0; j < 16; j++) sums[j] += x[i + j] * y[i + j];
    for (; i < n; i++) sum += x[i] * y[i];
    for (size_t j = 0; j < 16; j++) sum += sums[j];
    return sum;
}

/* y = x / √(|x|² + 10^−6), times `factor`. */
static void to_length(float *y, const float *x, size_t n, float factor) {
    factor /= sqrtf(dot(x, x, n) + 1e-6f);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * factor;
}

static float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

/* One head's step at token t. */
static void step(const LayerLoop *loop, size_t head, size_t t) {
    const States *states = loop->states;
    const StateShape *shape = &states->shape;
    const StateWeights *weights = loop->weights;
    const Kernels *kernels = states->compute.kernels;
    size_t d = shape->d_head, n_key_head = shape->n_key_head,
           key_head = shape->grouped ? head / (shape->n_head / n_key_head) : head % n_key_head;
    float *q = states->mixed + t * shape->n_channels + key_head * d, *k = q + shape->n_key_head * d;
    float *v = states->mixed + t * shape->n_channels + (2 * shape->n_key_head + head) * d;
    float *gate = states->gate + t * shape->d_inner + head * d, *matrix = loop->matrices + head * d * d;
    float unit[2 * STATE_MAX_HEAD]; /* k, then q */
    float said[2 * STATE_MAX_HEAD]; /* S k, S q */

    float a = states->alpha[t * shape->n_head + head] + weights->bias[head];
    float alpha = expf(weights->decay[head] * softplus(a));
    float beta = 1 / (1 + expf(-states->beta[t * shape->n_head + head]));
    to_length(unit, k, d, 1);
    to_length(unit + d, q, d, 1 / sqrtf((float)d));

    memset(said, 0, 2 * d * sizeof *said);
    kernels->weighted_sums(said, d, unit, d, 2, DTYPE_F32, matrix, d, d, d);
    float *delta = said, kq = dot(unit, unit + d, d);
    for (size_t i = 0; i < d; i++) {
        delta[i] = beta * (v[i] - alpha * said[i]);
        v[i] = alpha * said[d + i] + kq * delta[i];
    }
    kernels->fade_add(matrix, alpha, unit, delta, d, d);

    norm_row(kernels, &weights->norm, v, v, d);
    kernels->silu_mul(gate, v, d);
}

static void run_heads(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LayerLoop *loop = context;
    for (size_t head = begin; head < end; head++)
        for (size_t t = 0; t < loop->n; t++) step(loop, head, t);
}

void states_forward(States *states, const StateWeights *weights, size_t position, size_t n, const float *x,
                    float *out) {
    const StateShape *shape = &states->shape;
    const Compute *compute = &states->compute;
    bool delta_net = weights->mixer == MIXER_DELTA_NET;
    size_t c = shape->n_channels, before = (shape->n_taps - 1) * c;
    float *memory = states->memory + weights->index * states->layer_floats;
    float *window = memory + matrices_floats(shape);
    LayerLoop loop = {states, weights, memory, n};

    if (position == 0) memset(memory, 0, states->layer_floats * sizeof *memory);
    memcpy(states->rows, window, before * sizeof *window);
    const LinearOutput in[] = {
        {states->rows + before, &weights->in},
        {states->gate, &weights->gate},
        {delta_net ? states->alpha : states->mixed, delta_net ? &weights->alpha : &weights->before},
        {states->beta, &weights->beta}};
    linear_forward(compute, in, delta_net ? 4 : 3, x, n);
    if (!delta_net) parallel_for(compute->threads, n, TOKEN_STEP, gate_before, &loop);
    memcpy(window, states->rows + n * c, before * sizeof *window);
    parallel_for(compute->threads, n, TOKEN_STEP, convolve, &loop);
    if (delta_net) parallel_for(compute->threads, shape->n_head, 1, run_heads, &loop);
    linear_forward(compute, &(LinearOutput){out, &weights->out}, 1, delta_net ? states->gate : states->mixed,
                   n);
}

Span states_span(const States *states) { return (Span){states->memory, states->n_bytes}; }
