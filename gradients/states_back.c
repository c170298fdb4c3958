/*
 * layers/states.c has the formulas. A delta net's step is, with the unit vectors q and k and without the index t − 1 or t
 * where S is told apart as S (before) and S' (after),
 *
 *   said = S k      δ = β (v − α said)      S' = α S + δ kᵀ      o = S' q
 *
 * and its way back, from do and the gradient dS' that later steps left,
 *
 *   dS' += do qᵀ             dq = S'ᵀ do
 *   dδ = dS' k               dk = dS'ᵀ δ − α β Sᵀ dδ        dv = β dδ        dβ = dδ · (v − α said)
 *   dα = Σ dS' ∘ S − β dδ · said                            dS = α (dS' − β dδ kᵀ)
 *
 * It takes the S before each step, last step first. They are made again SEGMENT tokens at a time, from one kept before each
 * segment. As in layers/states.c a matrix is [d_head keys][d_head values].
 */
#include "gradients/states_back.h"

#include "gradients/linear_back.h"
#include "gradients/norm_back.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENT = 32, TOKEN_STEP = 4 };

struct StatesTrace {
    StateShape shape;
    Compute compute;
    const StateWeights *weights; /* of the layer under way */
    size_t n;
    float *in, *before;  /* [n][n_channels] what the matrices give */
    float *mixed;        /* [n][n_channels] the sums over taps */
    float *gate;         /* [n][d_inner] */
    float *alpha, *beta; /* [n][n_head] what the matrices give */
    float *o;            /* [n][d_inner] a delta net's, before its norm */
    float *inner;        /* [n][d_inner] what W_out reads */
    float *d_in, *d_before, *d_mixed, *d_gate, *d_alpha, *d_beta, *d_inner;
    float *matrices; /* [workers][n_matrices][d_head²] */
};

static bool is_delta_net(const StatesTrace *trace) { return trace->weights->mixer == MIXER_DELTA_NET; }

static size_t n_segments(const StatesTrace *trace) { return (trace->n + SEGMENT - 1) / SEGMENT; }

/* A worker's: one before each segment, one before each token of a segment, the state under way, and its gradient. */
static size_t n_matrices(const StatesTrace *trace) { return n_segments(trace) + SEGMENT + 2; }

StatesTrace *states_trace_new(const StateShape *shape, const Compute *compute, size_t n, Error *error) {
    StatesTrace *trace = calloc(1, sizeof *trace);
    bool ok = trace;
    if (ok) {
        *trace = (StatesTrace){.shape = *shape, .compute = *compute, .n = n};
        const size_t c = shape->n_channels, d = shape->d_inner, h = shape->n_head;
        struct {
            float **to;
            size_t width;
        } parts[] = {{&trace->in, c},      {&trace->before, c},   {&trace->mixed, c},   {&trace->gate, d},
                     {&trace->alpha, h},   {&trace->beta, h},     {&trace->o, d},       {&trace->inner, d},
                     {&trace->d_in, c},    {&trace->d_before, c}, {&trace->d_mixed, c}, {&trace->d_gate, d},
                     {&trace->d_alpha, h}, {&trace->d_beta, h},   {&trace->d_inner, d}};
        for (size_t i = 0; ok && i < sizeof parts / sizeof *parts; i++)
            ok = (*parts[i].to = floats_new(n, parts[i].width ? parts[i].width : 1)) != NULL;
        size_t matrix = shape->d_head * shape->d_head;
        trace->matrices =
            floats_new(threads_count(compute->threads) * n_matrices(trace), matrix ? matrix : 1);
        ok = ok && trace->matrices;
    }
    if (ok) return trace;
    error_set(error, "not enough memory for the way back through the states of %zu tokens", n);
    states_trace_free(trace);
    return NULL;
}

void states_trace_free(StatesTrace *trace) {
    if (!trace) return;
    float *const parts[] = {trace->in,      trace->before,   trace->mixed,   trace->gate,
                            trace->alpha,   trace->beta,     trace->o,       trace->inner,
                            trace->d_in,    trace->d_before, trace->d_mixed, trace->d_gate,
                            trace->d_alpha, trace->d_beta,   trace->d_inner, trace->matrices};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    free(trace);
}

void states_trace_begin(StatesTrace *trace, const StateWeights *weights) { trace->weights = weights; }

void states_trace_rows(StatesTrace *trace, size_t from, size_t n, const float *x) {
    const StateWeights *weights = trace->weights;
    const size_t c = trace->shape.n_channels, h = trace->shape.n_head;
    const bool delta_net = is_delta_net(trace);
    const LinearOutput in[] = {{trace->in + from * c, &weights->in},
                               {trace->gate + from * trace->shape.d_inner, &weights->gate},
                               {delta_net ? trace->alpha + from * h : trace->before + from * c,
                                delta_net ? &weights->alpha : &weights->before},
                               {trace->beta + from * h, &weights->beta}};
    linear_forward(&trace->compute, in, delta_net ? 4 : 3, x, n);
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }
static float silu(float x) { return x * sigmoid(x); }
static float silu_slope(float x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }
static float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

/* Number i of what is convolved. */
static float convolved(const StatesTrace *trace, size_t i) {
    return is_delta_net(trace) ? trace->in[i] : trace->in[i] * trace->before[i];
}

/* Tokens [begin, end): the sums over taps; and what a short convolution's W_out reads. */
static void convolve(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    StatesTrace *trace = context;
    const size_t c = trace->shape.n_channels, n_taps = trace->shape.n_taps;
    for (size_t t = begin; t < end; t++) {
        float *mixed = trace->mixed + t * c;
        memset(mixed, 0, c * sizeof *mixed);
        for (size_t tap = 0; tap < n_taps; tap++) {
            size_t back = n_taps - 1 - tap;
            for (size_t i = 0; t >= back && i < c; i++)
                mixed[i] += trace->weights->kernel[tap * c + i] * convolved(trace, (t - back) * c + i);
        }
        for (size_t i = 0; !is_delta_net(trace) && i < c; i++)
            trace->inner[t * c + i] = trace->gate[t * c + i] * mixed[i];
    }
}

/* A head's step at a token: what it is made of. */
typedef struct Step {
    size_t q, k, v, o, head; /* where these lie in mixed, and o in o; where alpha and beta do */
    float alpha, beta;
    float q_length, k_length; /* by which they were divided */
    float q_unit[STATE_MAX_HEAD], k_unit[STATE_MAX_HEAD];
    float said[STATE_MAX_HEAD], delta[STATE_MAX_HEAD];
} Step;

/* x / √(|x|² + 10^−6) times `factor`; returns that length. x is SiLU of the sums. */
static float to_length(float *unit, const float *sums, size_t n, float factor) {
    double square = 0;
    for (size_t i = 0; i < n; i++) {
        unit[i] = silu(sums[i]);
        square += (double)unit[i] * (double)unit[i];
    }
    float length = (float)sqrt(square + 1e-6);
    for (size_t i = 0; i < n; i++) unit[i] *= factor / length;
    return length;
}

static void step_read(const StatesTrace *trace, size_t head, size_t t, Step *step) {
    const StateShape *shape = &trace->shape;
    const size_t d = shape->d_head, n_key_head = shape->n_key_head,
                 key_head = shape->grouped ? head / (shape->n_head / n_key_head) : head % n_key_head;
    step->q = t * shape->n_channels + key_head * d;
    step->k = step->q + n_key_head * d;
    step->v = t * shape->n_channels + (2 * n_key_head + head) * d;
    step->o = t * shape->d_inner + head * d;
    step->head = t * shape->n_head + head;
    step->alpha =
        expf(trace->weights->decay[head] * softplus(trace->alpha[step->head] + trace->weights->bias[head]));
    step->beta = sigmoid(trace->beta[step->head]);
    step->k_length = to_length(step->k_unit, trace->mixed + step->k, d, 1);
    step->q_length = to_length(step->q_unit, trace->mixed + step->q, d, 1 / sqrtf((float)d));
}

/* said and δ of a step, from the state before it. */
static void step_correct(const StatesTrace *trace, Step *step, const float *state) {
    const size_t d = trace->shape.d_head;
    memset(step->said, 0, d * sizeof *step->said);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) step->said[j] += step->k_unit[i] * state[i * d + j];
    for (size_t j = 0; j < d; j++)
        step->delta[j] = step->beta * (silu(trace->mixed[step->v + j]) - step->alpha * step->said[j]);
}

/* The state from before a step to behind it. */
static void step_move(const StatesTrace *trace, const Step *step, const float *state, float *moved) {
    const size_t d = trace->shape.d_head;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            moved[i * d + j] = step->alpha * state[i * d + j] + step->k_unit[i] * step->delta[j];
}

static float *worker_matrix(const StatesTrace *trace, unsigned worker, size_t i) {
    return trace->matrices + (worker * n_matrices(trace) + i) * trace->shape.d_head * trace->shape.d_head;
}

/* Heads [begin, end): o, and what W_out reads of it. */
static void run_heads(void *context, size_t begin, size_t end, unsigned worker) {
    StatesTrace *trace = context;
    const size_t d = trace->shape.d_head;
    float *state = worker_matrix(trace, worker, 0), normed[STATE_MAX_HEAD];
    Step step;
    for (size_t head = begin; head < end; head++) {
        memset(state, 0, d * d * sizeof *state);
        for (size_t t = 0; t < trace->n; t++) {
            step_read(trace, head, t, &step);
            step_correct(trace, &step, state);
            step_move(trace, &step, state, state);
            float *o = trace->o + step.o;
            memset(o, 0, d * sizeof *o);
            for (size_t i = 0; i < d; i++)
                for (size_t j = 0; j < d; j++) o[j] += step.q_unit[i] * state[i * d + j];
            norm_row(trace->compute.kernels, &trace->weights->norm, o, normed, d);
            for (size_t j = 0; j < d; j++)
                trace->inner[step.o + j] = normed[j] * silu(trace->gate[step.o + j]);
        }
    }
}

void states_trace_mix(StatesTrace *trace) {
    parallel_for(trace->compute.threads, trace->n, TOKEN_STEP, convolve, trace);
    if (is_delta_net(trace)) parallel_for(trace->compute.threads, trace->shape.n_head, 1, run_heads, trace);
}

void states_trace_out(StatesTrace *trace, size_t from, size_t n, float *out) {
    linear_forward(&trace->compute, &(LinearOutput){out, &trace->weights->out}, 1,
                   trace->inner + from * trace->shape.d_inner, n);
}

void states_back_out(StatesTrace *trace, size_t from, size_t n, const float *dout) {
    const Matrix *w = &trace->weights->out.w;
    float *d_inner = trace->d_inner + from * w->cols;
    memset(d_inner, 0, n * w->cols * sizeof *d_inner);
    linear_back(&trace->compute, w, 0, w->rows, dout, w->rows, n, d_inner);
}

/* From the gradient of a unit vector, in its place, to that of the sums of which it was made; adds to d_sums. */
static void back_length(const float *unit, const float *d_unit, const float *sums, size_t n, float factor,
                        float length, float *d_sums) {
    double along = 0;
    for (size_t i = 0; i < n; i++) along += (double)unit[i] / (double)factor * (double)d_unit[i];
    for (size_t i = 0; i < n; i++)
        d_sums[i] += factor / length * (d_unit[i] - unit[i] / factor * (float)along) * silu_slope(sums[i]);
}

/*
 * One step back. `back` holds dS' of the later steps and becomes dS; d_o is the gradient of o. Adds to d_mixed, and writes
 * d_alpha and d_beta.
 */
static void step_back(const StatesTrace *trace, const Step *step, const float *state, const float *d_o,
                      float *back) {
    const size_t d = trace->shape.d_head, head = step->head % trace->shape.n_head;
    float dq[STATE_MAX_HEAD], dk[STATE_MAX_HEAD], d_delta[STATE_MAX_HEAD] = {0};
    double d_alpha = 0, d_beta = 0;
    for (size_t i = 0; i < d; i++) {
        double q = 0;
        for (size_t j = 0; j < d; j++) {
            q += (double)d_o[j] * (double)(step->alpha * state[i * d + j] + step->k_unit[i] * step->delta[j]);
            back[i * d + j] += step->q_unit[i] * d_o[j];
            d_delta[j] += back[i * d + j] * step->k_unit[i];
        }
        dq[i] = (float)q;
    }
    for (size_t i = 0; i < d; i++) {
        double k = 0;
        for (size_t j = 0; j < d; j++) {
            float s = state[i * d + j], from_said = step->beta * d_delta[j];
            k += (double)back[i * d + j] * (double)step->delta[j] -
                 (double)step->alpha * (double)s * (double)from_said;
            d_alpha += (double)back[i * d + j] * (double)s;
            back[i * d + j] = step->alpha * (back[i * d + j] - from_said * step->k_unit[i]);
        }
        dk[i] = (float)k;
    }
    for (size_t j = 0; j < d; j++) {
        const float *sum = trace->mixed + step->v + j;
        d_alpha -= (double)step->beta * (double)d_delta[j] * (double)step->said[j];
        d_beta += (double)d_delta[j] * (double)(silu(*sum) - step->alpha * step->said[j]);
        trace->d_mixed[step->v + j] += step->beta * d_delta[j] * silu_slope(*sum);
    }
    float a = trace->alpha[step->head] + trace->weights->bias[head];
    trace->d_alpha[step->head] = (float)d_alpha * step->alpha * trace->weights->decay[head] * sigmoid(a);
    trace->d_beta[step->head] = (float)d_beta * step->beta * (1 - step->beta);
    back_length(step->q_unit, dq, trace->mixed + step->q, d, 1 / sqrtf((float)d), step->q_length,
                trace->d_mixed + step->q);
    back_length(step->k_unit, dk, trace->mixed + step->k, d, 1, step->k_length, trace->d_mixed + step->k);
}

/* From the gradient of what W_out reads to that of o and of the gate. */
static void back_gate(const StatesTrace *trace, const Step *step, float *d_o) {
    const size_t d = trace->shape.d_head;
    float normed[STATE_MAX_HEAD], d_normed[STATE_MAX_HEAD];
    const float *gate = trace->gate + step->o, *d_inner = trace->d_inner + step->o;
    norm_row(trace->compute.kernels, &trace->weights->norm, trace->o + step->o, normed, d);
    for (size_t j = 0; j < d; j++) {
        d_normed[j] = d_inner[j] * silu(gate[j]);
        trace->d_gate[step->o + j] = d_inner[j] * normed[j] * silu_slope(gate[j]);
    }
    memset(d_o, 0, d * sizeof *d_o);
    norm_back_row(&trace->weights->norm, trace->o + step->o, d_normed, d_o, d);
}

/* A head's tokens from the last to the first. */
static void back_head(const StatesTrace *trace, size_t head, unsigned worker) {
    const size_t d = trace->shape.d_head, bytes = d * d * sizeof(float), kept = n_segments(trace);
    float *state = worker_matrix(trace, worker, kept + SEGMENT),
          *back = worker_matrix(trace, worker, kept + SEGMENT + 1);
    float d_o[STATE_MAX_HEAD];
    Step step;
    memset(state, 0, bytes);
    memset(back, 0, bytes);
    for (size_t t = 0; t < trace->n; t++) {
        if (t % SEGMENT == 0) memcpy(worker_matrix(trace, worker, t / SEGMENT), state, bytes);
        step_read(trace, head, t, &step);
        step_correct(trace, &step, state);
        step_move(trace, &step, state, state);
    }
    for (size_t segment = kept; segment-- > 0;) {
        size_t first = segment * SEGMENT, end = first + SEGMENT < trace->n ? first + SEGMENT : trace->n;
        memcpy(state, worker_matrix(trace, worker, segment), bytes);
        for (size_t t = first; t < end; t++) {
            memcpy(worker_matrix(trace, worker, kept + t - first), state, bytes);
            step_read(trace, head, t, &step);
            step_correct(trace, &step, state);
            step_move(trace, &step, state, state);
        }
        for (size_t t = end; t-- > first;) {
            const float *before = worker_matrix(trace, worker, kept + t - first);
            step_read(trace, head, t, &step);
            step_correct(trace, &step, before);
            back_gate(trace, &step, d_o);
            step_back(trace, &step, before, d_o, back);
        }
    }
}

/* Key heads [begin, end): all heads that share one, since they add to the same query and key. */
static void back_heads(void *context, size_t begin, size_t end, unsigned worker) {
    const StatesTrace *trace = context;
    const StateShape *shape = &trace->shape;
    const size_t group = shape->n_head / shape->n_key_head;
    for (size_t key_head = begin; key_head < end; key_head++)
        for (size_t i = 0; i < group; i++)
            back_head(trace, shape->grouped ? key_head * group + i : key_head + i * shape->n_key_head,
                      worker);
}

/* Tokens [begin, end): from the gradients of the sums over taps to those of what was convolved. */
static void back_taps(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const StatesTrace *trace = context;
    const size_t c = trace->shape.n_channels, n_taps = trace->shape.n_taps;
    for (size_t t = begin; t < end; t++)
        for (size_t i = 0; i < c; i++) {
            size_t at = t * c + i;
            float sum = 0;
            for (size_t ahead = 0; ahead < n_taps && t + ahead < trace->n; ahead++)
                sum += trace->weights->kernel[(n_taps - 1 - ahead) * c + i] * trace->d_mixed[at + ahead * c];
            trace->d_in[at] = is_delta_net(trace) ? sum : sum * trace->before[at];
            if (!is_delta_net(trace)) trace->d_before[at] = sum * trace->in[at];
        }
}

void states_back_mix(StatesTrace *trace) {
    const StateShape *shape = &trace->shape;
    const size_t n = trace->n, count = n * shape->n_channels;
    if (is_delta_net(trace)) {
        memset(trace->d_mixed, 0, count * sizeof *trace->d_mixed);
        parallel_for(trace->compute.threads, shape->n_key_head, 1, back_heads, trace);
    } else {
        for (size_t i = 0; i < count; i++) {
            trace->d_gate[i] = trace->d_inner[i] * trace->mixed[i];
            trace->d_mixed[i] = trace->d_inner[i] * trace->gate[i];
        }
    }
    parallel_for(trace->compute.threads, n, TOKEN_STEP, back_taps, trace);
}

static void add_back(const StatesTrace *trace, const Linear *linear, const float *dy, size_t from, size_t n,
                     float *dx) {
    size_t rows = linear->w.rows;
    linear_back(&trace->compute, &linear->w, 0, rows, dy + from * rows, rows, n, dx);
}

void states_back_rows(StatesTrace *trace, size_t from, size_t n, float *dx) {
    const StateWeights *weights = trace->weights;
    add_back(trace, &weights->in, trace->d_in, from, n, dx);
    add_back(trace, &weights->gate, trace->d_gate, from, n, dx);
    if (is_delta_net(trace)) {
        add_back(trace, &weights->alpha, trace->d_alpha, from, n, dx);
        add_back(trace, &weights->beta, trace->d_beta, from, n, dx);
    } else {
        add_back(trace, &weights->before, trace->d_before, from, n, dx);
    }
}
