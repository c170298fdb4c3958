#include "mlp.h"

typedef struct ActivationLoop {
    const Kernels *kernels;
    MlpKind kind;
    size_t d_ff;
    float *hidden, *gate; /* [n][d_ff] */
} ActivationLoop;

/* h = h² or h where it is positive, else 0. */
static void relu(float *h, size_t n, bool squared) {
    for (size_t i = 0; i < n; i++) {
        float positive = h[i] <= 0 ? 0 : h[i]; /* NaN stays NaN */
        h[i] = squared ? positive * positive : positive;
    }
}

/* Cuts g and h, and lays α and 1/α on them, so that SiLU(g)·h is g·σ(α·g)·(h + 1). */
static void clamp_swiglu(float *g, float *h, size_t n) {
    const float alpha = 1.702f, limit = 7;
    for (size_t i = 0; i < n; i++) {
        g[i] = alpha * (g[i] > limit ? limit : g[i]);
        h[i] = ((h[i] < -limit ? -limit : h[i] > limit ? limit : h[i]) + 1) / alpha;
    }
}

/* Tokens [begin, end): the hidden layer, in gate where there is one and else in hidden. */
static void activate(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const ActivationLoop *a = context;
    size_t n = (end - begin) * a->d_ff;
    float *h = a->hidden + begin * a->d_ff, *g = a->gate + begin * a->d_ff;
    switch (a->kind) {
    case MLP_GELU_TANH: a->kernels->gelu_tanh(h, n); break;
    case MLP_GELU_ERF: a->kernels->gelu_erf(h, n); break;
    case MLP_RELU: relu(h, n, false); break;
    case MLP_RELU_SQUARED: relu(h, n, true); break;
    case MLP_GEGLU:
        a->kernels->gelu_tanh(g, n);
        for (size_t i = 0; i < n; i++) g[i] *= h[i];
        break;
    case MLP_SWIGLU_CLAMPED: clamp_swiglu(g, h, n); /* fall through */
    case MLP_SWIGLU: a->kernels->silu_mul(g, h, n); break;
    }
}

float *mlp_activate(const Compute *compute, MlpKind kind, size_t n, size_t d_ff, float *hidden, float *gate) {
    ActivationLoop loop = {compute->kernels, kind, d_ff, hidden, gate};
    parallel_for(compute->threads, n, 4, activate, &loop);
    return mlp_has_gate(kind) ? gate : hidden;
}

void mlp_forward(const Compute *compute, MlpKind kind, const MlpWeights *weights, size_t layer,
                 size_t position, size_t n, const float *x, float *out, float *hidden, float *gate,
                 const Probe *probe) {
    const bool gated = mlp_has_gate(kind);
    const size_t d_ff = weights->up.w.rows;
    const LinearOutput up[] = {{hidden, &weights->up}, {gate, &weights->gate}};
    linear_forward(compute, up, gated ? 2 : 1, x, n);
    probe_rows(probe, PROBE_MLP_PRE, layer, position, gated ? gate : hidden, n, d_ff);
    if (gated) probe_rows(probe, PROBE_MLP_PRE_LINEAR, layer, position, hidden, n, d_ff);
    float *active = mlp_activate(compute, kind, n, d_ff, hidden, gate);
    probe_rows(probe, PROBE_MLP_POST, layer, position, active, n, d_ff);
    linear_forward(compute, &(LinearOutput){out, &weights->down}, 1, active, n);
}
