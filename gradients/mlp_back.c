#include "gradients/mlp_back.h"

#include "gradients/linear_back.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 /* numbers whose activations are worked out together, in L1 */ };

typedef struct ActivationLoop {
    const Kernels *kernels;
    MlpKind kind;
    size_t d_ff;
    MlpTrace *trace;
} ActivationLoop;

bool mlp_trace_open(MlpTrace *trace, size_t n, size_t d_ff) {
    float **const parts[] = {&trace->own_hidden, &trace->own_gate, &trace->post,     &trace->hidden_slope,
                             &trace->gate_slope, &trace->d_post,   &trace->d_hidden, &trace->d_gate};
    bool ok = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i] = floats_filled_new(n, d_ff);
        ok = ok && *parts[i];
    }
    return ok;
}

void mlp_trace_close(MlpTrace *trace) {
    free(trace->own_hidden);
    free(trace->own_gate);
    free(trace->post);
    free(trace->hidden_slope);
    free(trace->gate_slope);
    free(trace->d_post);
    free(trace->d_hidden);
    free(trace->d_gate);
    *trace = (MlpTrace){0};
}

static float cut(float x, float limit) { return x < -limit ? -limit : x > limit ? limit : x; }

/*
 * GELU by the tanh formula: with u = √(2/π)·(x + 0.044715 x³) and t = tanh u,
 * value = ½x(1 + t), slope = ½(1 + t) + ½x(1 − t²)·√(2/π)·(1 + 3·0.044715 x²).
 */
static void gelu_tanh(const Kernels *kernels, const float *x, size_t n, float *value, float *slope) {
    const float root = 0.7978845608f, cube = 0.044715f, far = 10; /* beyond it t is ±1 */
    float t[BLOCK];
    for (size_t i = 0; i < n; i++) {
        float near = cut(x[i], far);
        t[i] = root * (near + cube * near * near * near);
    }
    kernels->soft_cap(t, 1, n);
    for (size_t i = 0; i < n; i++) {
        float near = cut(x[i], far);
        value[i] = 0.5f * x[i] * (1 + t[i]);
        slope[i] = 0.5f * (1 + t[i]) + 0.5f * near * (1 - t[i] * t[i]) * root * (1 + 3 * cube * near * near);
    }
}

/* value = x·Φ(x), slope = Φ(x) + x·φ(x), with the normal distribution Φ and its density φ. */
static void gelu_erf(const Kernels *kernels, const float *x, size_t n, float *value, float *slope) {
    const float inverse_root = 0.3989422804f, far = 12; /* 1/√(2π); beyond it Φ is 0 or 1 */
    float density[BLOCK];
    for (size_t i = 0; i < n; i++) value[i] = cut(x[i], far);
    for (size_t i = 0; i < n; i++) density[i] = -0.5f * value[i] * value[i];
    kernels->exp_sum(density, 0, n);
    kernels->gelu_erf(value, n);
    for (size_t i = 0; i < n; i++) {
        float near = cut(x[i], far), share = near == 0 ? 0.5f : value[i] / near;
        value[i] = x[i] * share;
        slope[i] = share + near * inverse_root * density[i];
    }
}

/* With s = 1/(1 + exp(−a·x)): value = x·s, slope = s·(1 + a·x·(1 − s)). SiLU is a = 1. */
static void silu(const Kernels *kernels, const float *x, float a, size_t n, float *value, float *slope) {
    float e[BLOCK];
    for (size_t i = 0; i < n; i++) e[i] = -fabsf(a * x[i]);
    kernels->exp_sum(e, 0, n);
    for (size_t i = 0; i < n; i++) {
        float s = (x[i] < 0 ? e[i] : 1) / (1 + e[i]), rest = (x[i] < 0 ? 1 : e[i]) / (1 + e[i]);
        value[i] = x[i] * s;
        slope[i] = s * (1 + a * x[i] * rest);
    }
}

static void relu(const float *x, bool squared, size_t n, float *value, float *slope) {
    for (size_t i = 0; i < n; i++) {
        float positive = x[i] <= 0 ? 0 : x[i];
        value[i] = squared ? positive * positive : positive;
        slope[i] = squared ? 2 * positive : x[i] > 0;
    }
}

enum { CLAMPED_AT = 7 };
static const float clamped_alpha = 1.702f;

/* The clamped SwiGLU: g and h as they take part, and whether they were cut, which makes the slope 0. */
static void clamp_inputs(const float *g, const float *h, size_t n, float *cut_g, float *cut_h) {
    for (size_t i = 0; i < n; i++) {
        cut_g[i] = g[i] > CLAMPED_AT ? CLAMPED_AT : g[i];
        cut_h[i] = cut(h[i], CLAMPED_AT) + 1;
    }
}

/* A gated MLP's block: post = f(gate)·hidden, whose slopes are f(gate) and hidden·f′(gate). */
static void trace_gated(const ActivationLoop *loop, size_t at, size_t n) {
    const MlpTrace *trace = loop->trace;
    const bool clamped = loop->kind == MLP_SWIGLU_CLAMPED;
    float cut_g[BLOCK], cut_h[BLOCK], value[BLOCK], slope[BLOCK];
    const float *g = trace->gate + at, *h = trace->hidden + at;
    if (clamped) {
        clamp_inputs(g, h, n, cut_g, cut_h);
        g = cut_g, h = cut_h;
    }
    if (loop->kind == MLP_GEGLU)
        gelu_tanh(loop->kernels, g, n, value, slope);
    else
        silu(loop->kernels, g, clamped ? clamped_alpha : 1, n, value, slope);
    for (size_t i = 0; i < n; i++) {
        trace->post[at + i] = value[i] * h[i];
        trace->hidden_slope[at + i] = value[i];
        trace->gate_slope[at + i] = h[i] * slope[i];
    }
    for (size_t i = at; clamped && i < at + n; i++) {
        if (fabsf(trace->hidden[i]) > CLAMPED_AT) trace->hidden_slope[i] = 0;
        if (trace->gate[i] > CLAMPED_AT) trace->gate_slope[i] = 0;
    }
}

static void trace_block(const ActivationLoop *loop, size_t at, size_t n) {
    const float *h = loop->trace->hidden + at;
    float *value = loop->trace->post + at, *slope = loop->trace->hidden_slope + at;
    switch (loop->kind) {
    case MLP_GELU_TANH: gelu_tanh(loop->kernels, h, n, value, slope); break;
    case MLP_GELU_ERF: gelu_erf(loop->kernels, h, n, value, slope); break;
    case MLP_RELU: relu(h, false, n, value, slope); break;
    case MLP_RELU_SQUARED: relu(h, true, n, value, slope); break;
    case MLP_SWIGLU:
    case MLP_GEGLU:
    case MLP_SWIGLU_CLAMPED: trace_gated(loop, at, n); break;
    }
}

static void trace_rows(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const ActivationLoop *loop = context;
    for (size_t at = begin * loop->d_ff, n; at < end * loop->d_ff; at += n) {
        n = end * loop->d_ff - at < BLOCK ? end * loop->d_ff - at : BLOCK;
        trace_block(loop, at, n);
    }
}

void mlp_trace_saved(const Compute *compute, MlpKind kind, size_t n, size_t d_ff, const float *hidden,
                     const float *gate, MlpTrace *trace) {
    trace->hidden = hidden;
    trace->gate = gate;
    ActivationLoop loop = {compute->kernels, kind, d_ff, trace};
    parallel_for(compute->threads, n, 4, trace_rows, &loop);
}

void mlp_trace(const Compute *compute, MlpKind kind, const MlpWeights *weights, size_t n, const float *x,
               MlpTrace *trace) {
    const LinearOutput up[] = {{trace->own_hidden, &weights->up}, {trace->own_gate, &weights->gate}};
    linear_forward(compute, up, mlp_has_gate(kind) ? 2 : 1, x, n);
    mlp_trace_saved(compute, kind, n, weights->up.w.rows, trace->own_hidden, trace->own_gate, trace);
}

void mlp_back_down(const Compute *compute, const MlpWeights *weights, size_t n, const float *dout,
                   MlpTrace *trace) {
    const Matrix *down = &weights->down.w;
    memset(trace->d_post, 0, n * down->cols * sizeof *trace->d_post);
    linear_back(compute, down, 0, down->rows, dout, down->rows, n, trace->d_post);
}

static void back_rows(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const ActivationLoop *loop = context;
    MlpTrace *trace = loop->trace;
    for (size_t i = begin * loop->d_ff; i < end * loop->d_ff; i++)
        trace->d_hidden[i] = trace->d_post[i] * trace->hidden_slope[i];
    for (size_t i = begin * loop->d_ff; mlp_has_gate(loop->kind) && i < end * loop->d_ff; i++)
        trace->d_gate[i] = trace->d_post[i] * trace->gate_slope[i];
}

void mlp_back_activation(const Compute *compute, MlpKind kind, size_t n, size_t d_ff, MlpTrace *trace) {
    ActivationLoop loop = {compute->kernels, kind, d_ff, trace};
    parallel_for(compute->threads, n, 4, back_rows, &loop);
}

void mlp_back_up(const Compute *compute, MlpKind kind, const MlpWeights *weights, size_t n,
                 const MlpTrace *trace, float *dx) {
    size_t d_ff = weights->up.w.rows;
    linear_back(compute, &weights->up.w, 0, d_ff, trace->d_hidden, d_ff, n, dx);
    if (mlp_has_gate(kind)) linear_back(compute, &weights->gate.w, 0, d_ff, trace->d_gate, d_ff, n, dx);
}
