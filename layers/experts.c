#include "layers/experts.h"

#include <math.h>
#include <string.h>

size_t experts_floats(size_t n_expert, size_t d_model) { return n_expert + 2 * d_model; }

void experts_choose(const Kernels *kernels, const ExpertsWeights *weights, float *p) {
    size_t n_expert = weights->n_expert;
    float sum = kernels->exp_sum(p, kernels->max(p, n_expert), n_expert), chosen = 0;
    /* Each round takes the largest that is left, the first of equals, and marks it by its sign. */
    for (size_t round = 0; round < weights->n_used; round++) {
        size_t best = 0;
        for (size_t i = 1; i < n_expert; i++)
            if (p[i] > p[best]) best = i;
        chosen += p[best];
        p[best] = -p[best];
    }
    float factor = weights->scale / (weights->renormalise ? chosen : sum);
    for (size_t i = 0; i < n_expert; i++) p[i] = p[i] < 0 ? -p[i] * factor : 0;
}

void experts_weigh_shared(const Compute *compute, const ExpertsWeights *weights, const float *x, size_t n,
                          float *shared) {
    for (size_t t = 0; t < n; t++) shared[t] = 1;
    if (!weights->shared_gate.w.data) return;
    linear_forward(compute, &(LinearOutput){shared, &weights->shared_gate}, 1, x, n);
    for (size_t t = 0; t < n; t++) shared[t] = 1 / (1 + expf(-shared[t]));
}

/* Adds weight · what an expert makes of its tokens, those whose weight is not 0; its weights are `stride` apart. */
static void add_expert(const Compute *compute, MlpKind kind, const MlpWeights *expert, const float *weight,
                       size_t stride, size_t n, const float *x, float *out, float *hidden, float *gate,
                       float *gathered, float *made) {
    size_t d = expert->up.w.cols, m = 0;
    for (size_t t = 0; t < n; t++)
        if (weight[t * stride] != 0) memcpy(gathered + m++ * d, x + t * d, d * sizeof *x);
    if (m == 0) return;
    mlp_forward(compute, kind, expert, 0, 0, m, gathered, made, hidden, gate, NULL);
    for (size_t t = 0; t < n; t++) {
        if (weight[t * stride] == 0) continue;
        for (size_t i = 0; i < d; i++) out[t * d + i] += weight[t * stride] * made[i];
        made += d;
    }
}

/*
 * One token: all chosen experts share its x, so that their first matrices are one loop; all have gates (family.c). Gives the bits
 * that add_expert would.
 */
static void add_chosen(const Compute *compute, MlpKind kind, const ExpertsWeights *weights,
                       const float *weight, const float *x, float *out, float *hidden, float *gate,
                       float *made) {
    enum { AT_ONCE = 16 };
    const size_t d = weights->router.w.cols, d_ff = weights->experts[0].up.w.rows;
    for (size_t e = 0; e < weights->n_expert;) {
        LinearOutput outputs[2 * AT_ONCE];
        size_t chosen[AT_ONCE], n = 0, n_outputs = 0;
        for (; e < weights->n_expert && n < AT_ONCE && n < weights->n_used; e++) {
            if (weight[e] == 0) continue;
            outputs[n_outputs++] = (LinearOutput){hidden + n * d_ff, &weights->experts[e].up};
            outputs[n_outputs++] = (LinearOutput){gate + n * d_ff, &weights->experts[e].gate};
            chosen[n++] = e;
        }
        if (n == 0) return;
        linear_forward(compute, outputs, n_outputs, x, 1);
        const float *active = mlp_activate(compute, kind, n, d_ff, hidden, gate);
        for (size_t i = 0; i < n; i++) {
            linear_forward(compute, &(LinearOutput){made, &weights->experts[chosen[i]].down}, 1,
                           active + i * d_ff, 1);
            for (size_t j = 0; j < d; j++) out[j] += weight[chosen[i]] * made[j];
        }
    }
}

void experts_forward(const Compute *compute, MlpKind kind, const ExpertsWeights *weights, size_t layer,
                     size_t position, size_t n, const float *x, float *out, float *hidden, float *gate,
                     float *scratch, const Probe *probe) {
    size_t n_expert = weights->n_expert, d = weights->router.w.cols;
    float *gathered = scratch, *made = gathered + n * d, *router = made + n * d;
    linear_forward(compute, &(LinearOutput){router, &weights->router}, 1, x, n);
    probe_rows(probe, PROBE_ROUTER, layer, position, router, n, n_expert);
    for (size_t t = 0; t < n; t++) experts_choose(compute->kernels, weights, router + t * n_expert);
    probe_rows(probe, PROBE_EXPERT_WEIGHTS, layer, position, router, n, n_expert);

    memset(out, 0, n * d * sizeof *out);
    if (n == 1) add_chosen(compute, kind, weights, router, x, out, hidden, gate, made);
    for (size_t e = 0; n > 1 && e < n_expert; e++)
        add_expert(compute, kind, &weights->experts[e], router + e, n_expert, n, x, out, hidden, gate,
                   gathered, made);
    if (!weights->shared.up.w.data) return;
    experts_weigh_shared(compute, weights, x, n, router);
    add_expert(compute, kind, &weights->shared, router, 1, n, x, out, hidden, gate, gathered, made);
}
