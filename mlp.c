#include "mlp.h"

typedef struct ActivationLoop {
    const Kernels *kernels;
    MlpKind kind;
    size_t d_ff;
    float *hidden, *gate; /* [n][d_ff] */
} ActivationLoop;

/* Tokens [begin, end): GELU(hidden) in hidden, or SiLU(gate)·hidden in gate. */
static void activate(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const ActivationLoop *a = context;
    size_t at = begin * a->d_ff, n = (end - begin) * a->d_ff;
    switch (a->kind) {
    case MLP_GELU_TANH: a->kernels->gelu_tanh(a->hidden + at, n); break;
    case MLP_SWIGLU: a->kernels->silu_mul(a->gate + at, a->hidden + at, n); break;
    }
}

void mlp_forward(const Compute *compute, MlpKind kind, const MlpWeights *weights, size_t n, const float *x,
                 float *out, float *hidden, float *gate) {
    bool gated = mlp_has_gate(kind);
    const LinearOutput up[] = {{hidden, &weights->up}, {gate, &weights->gate}};
    ActivationLoop loop = {compute->kernels, kind, weights->up.w.rows, hidden, gate};
    linear_forward(compute, up, gated ? 2 : 1, x, n);
    parallel_for(compute->threads, n, 4, activate, &loop);
    linear_forward(compute, &(LinearOutput){out, &weights->down}, 1, gated ? gate : hidden, n);
}
