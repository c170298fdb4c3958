/*
 * out = Σ_e w_e·expert_e(x), where w_e = c·p_e for the chosen e, p is the softmax of the router's logits, and c a constant
 * or, where the chosen are made to add up to 1, 1/Σ p of these. In both cases
 *
 *   ∂/∂logit_i = w_i g_i − r_i Σ_e w_e g_e        with g_e = dout · expert_e(x)
 *
 * where r is the softmax over all experts (c constant) or over the chosen alone.
 */
#include "gradients/experts_back.h"

#include "gradients/linear_back.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool experts_trace_open(ExpertsTrace *trace, MlpTrace *mlp, size_t n_chunk, size_t n_expert, size_t d_model) {
    *trace = (ExpertsTrace){.mlp = mlp, .tokens = calloc(n_chunk, sizeof *trace->tokens)};
    struct {
        float **to;
        size_t cols;
    } parts[] = {{&trace->weights, n_expert}, {&trace->logits, n_expert}, {&trace->d_weights, n_expert},
                 {&trace->x, d_model},        {&trace->dx, d_model},      {&trace->out, d_model},
                 {&trace->dout, d_model},     {&trace->gates, 1}};
    bool ok = trace->tokens;
    for (size_t i = 0; ok && i < sizeof parts / sizeof *parts; i++)
        ok = (*parts[i].to = floats_new(n_chunk, parts[i].cols)) != NULL;
    return ok;
}

void experts_trace_close(ExpertsTrace *trace) {
    float *const parts[] = {trace->weights, trace->logits, trace->d_weights, trace->x,
                            trace->dx,      trace->out,    trace->dout,      trace->gates};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    free(trace->tokens);
}

/* Gathers the tokens whose weight is not 0. */
static size_t gather(ExpertsTrace *trace, const float *weight, size_t stride, size_t n, const float *x,
                     size_t d) {
    size_t m = 0;
    for (size_t t = 0; t < n; t++) {
        if (weight[t * stride] == 0) continue;
        memcpy(trace->x + m * d, x + t * d, d * sizeof *x);
        trace->tokens[m++] = t;
    }
    return m;
}

/* Runs an expert on its tokens, those whose weight is not 0: trace->out. Returns how many they are. */
static size_t run_expert(const Compute *compute, MlpKind kind, const MlpWeights *expert, const float *weight,
                         size_t stride, size_t n, const float *x, ExpertsTrace *trace) {
    size_t m = gather(trace, weight, stride, n, x, expert->up.w.cols);
    if (m == 0) return 0;
    mlp_trace(compute, kind, expert, m, trace->x, trace->mlp);
    linear_forward(compute, &(LinearOutput){trace->out, &expert->down}, 1, trace->mlp->post, m);
    return m;
}

static void add_expert(const Compute *compute, MlpKind kind, const MlpWeights *expert, const float *weight,
                       size_t stride, size_t n, const float *x, float *out, ExpertsTrace *trace) {
    size_t d = expert->up.w.cols, m = run_expert(compute, kind, expert, weight, stride, n, x, trace);
    for (size_t i = 0; i < m; i++) {
        size_t t = trace->tokens[i];
        for (size_t j = 0; j < d; j++) out[t * d + j] += weight[t * stride] * trace->out[i * d + j];
    }
}

static bool has_shared(const ExpertsWeights *weights) { return weights->shared.up.w.data; }

void experts_trace(const Compute *compute, MlpKind kind, const ExpertsWeights *weights, size_t n,
                   const float *x, float *out, ExpertsTrace *trace) {
    size_t n_expert = weights->n_expert, d = weights->router.w.cols;
    linear_forward(compute, &(LinearOutput){trace->logits, &weights->router}, 1, x, n);
    memcpy(trace->weights, trace->logits, n * n_expert * sizeof *trace->weights);
    for (size_t t = 0; t < n; t++) experts_choose(compute->kernels, weights, trace->weights + t * n_expert);
    memset(out, 0, n * d * sizeof *out);
    for (size_t e = 0; e < n_expert; e++)
        add_expert(compute, kind, &weights->experts[e], trace->weights + e, n_expert, n, x, out, trace);
    if (!has_shared(weights)) return;
    experts_weigh_shared(compute, weights, x, n, trace->gates);
    add_expert(compute, kind, &weights->shared, trace->gates, 1, n, x, out, trace);
}

static double dot(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* dx += what comes back through one expert; d_weight gets the gradient of its tokens' weights. */
static void back_expert(const Compute *compute, MlpKind kind, const MlpWeights *expert, const float *weight,
                        size_t stride, size_t n, const float *x, const float *dout, float *dx,
                        float *d_weight, ExpertsTrace *trace) {
    size_t d = expert->up.w.cols, m = run_expert(compute, kind, expert, weight, stride, n, x, trace);
    for (size_t i = 0; i < m; i++) {
        size_t t = trace->tokens[i];
        d_weight[t * stride] = (float)dot(dout + t * d, trace->out + i * d, d);
        for (size_t j = 0; j < d; j++) trace->dout[i * d + j] = weight[t * stride] * dout[t * d + j];
    }
    if (m == 0) return;
    memset(trace->dx, 0, m * d * sizeof *trace->dx);
    mlp_back_down(compute, expert, m, trace->dout, trace->mlp);
    mlp_back_activation(compute, kind, m, expert->up.w.rows, trace->mlp);
    mlp_back_up(compute, kind, expert, m, trace->mlp, trace->dx);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < d; j++) dx[trace->tokens[i] * d + j] += trace->dx[i * d + j];
}

/* A token's logits become their gradient, by that of its weights. */
static void back_choice(const ExpertsWeights *weights, const float *w, const float *dw, float *logits) {
    size_t n = weights->n_expert;
    double total = 0, max = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) total += (double)w[i] * (double)dw[i];
    for (size_t i = 0; i < n; i++)
        if (w[i] != 0 || !weights->renormalise) max = fmax(max, (double)logits[i]);
    for (size_t i = 0; i < n; i++)
        if (w[i] != 0 || !weights->renormalise) sum += exp((double)logits[i] - max);
    for (size_t i = 0; i < n; i++) {
        double share = w[i] != 0 || !weights->renormalise ? exp((double)logits[i] - max) / sum : 0;
        logits[i] = (float)((double)w[i] * (double)dw[i] - share * total);
    }
}

static void back_shared(const Compute *compute, MlpKind kind, const ExpertsWeights *weights, size_t n,
                        const float *x, const float *dout, float *dx, ExpertsTrace *trace) {
    experts_weigh_shared(compute, weights, x, n, trace->gates);
    back_expert(compute, kind, &weights->shared, trace->gates, 1, n, x, dout, dx, trace->d_weights, trace);
    if (!weights->shared_gate.w.data) return;
    for (size_t t = 0; t < n; t++) trace->d_weights[t] *= trace->gates[t] * (1 - trace->gates[t]);
    linear_back(compute, &weights->shared_gate.w, 0, 1, trace->d_weights, 1, n, dx);
}

void experts_back(const Compute *compute, MlpKind kind, const ExpertsWeights *weights, size_t layer,
                  size_t position, size_t n, const float *x, const float *dout, float *dx,
                  ExpertsTrace *trace, const GradientProbe *probe) {
    size_t n_expert = weights->n_expert;
    memset(trace->d_weights, 0, n * n_expert * sizeof *trace->d_weights);
    for (size_t e = 0; e < n_expert; e++)
        back_expert(compute, kind, &weights->experts[e], trace->weights + e, n_expert, n, x, dout, dx,
                    trace->d_weights + e, trace);
    gradient_rows(probe, PROBE_EXPERT_WEIGHTS, layer, position, trace->weights, trace->d_weights, n,
                  n_expert);
    float *logits = trace->logits, *d_logits = trace->d_weights;
    for (size_t t = 0; t < n; t++)
        back_choice(weights, trace->weights + t * n_expert, d_logits + t * n_expert, logits + t * n_expert);
    linear_forward(compute, &(LinearOutput){d_logits, &weights->router}, 1, x, n);
    gradient_rows(probe, PROBE_ROUTER, layer, position, d_logits, logits, n, n_expert);
    linear_back(compute, &weights->router.w, 0, n_expert, logits, n_expert, n, dx);
    if (has_shared(weights)) back_shared(compute, kind, weights, n, x, dout, dx, trace);
}
