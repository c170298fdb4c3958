#include "layers/norm.h"

#include <math.h>

typedef struct NormLoop {
    const Kernels *kernels;
    const Norm *norm;
    const float *x;
    float *y;
    size_t d;
} NormLoop;

void norm_row(const Kernels *kernels, const Norm *norm, const float *x, float *y, size_t d) {
    for (size_t i = 0; i < d; i += norm->n) {
        const float *gain = norm->gain + (norm->own_gains ? i : 0);
        switch (norm->kind) {
        case NORM_LAYER: kernels->layer_norm(y + i, x + i, gain, norm->bias, norm->n, norm->eps); break;
        case NORM_RMS: kernels->rms_norm(y + i, x + i, gain, norm->n, norm->eps); break;
        }
    }
}

static void norm_rows(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const NormLoop *loop = context;
    for (size_t row = begin; row < end; row++)
        norm_row(loop->kernels, loop->norm, loop->x + row * loop->d, loop->y + row * loop->d, loop->d);
}

void norm_forward(const Compute *compute, const Norm *norm, const float *x, float *y, size_t rows, size_t d) {
    NormLoop loop = {compute->kernels, norm, x, y, d};
    parallel_for(compute->threads, rows, 8, norm_rows, &loop);
}

double norm_mean(const Norm *norm, const float *x) {
    double sum = 0;
    for (size_t i = 0; i < norm->n && norm->kind == NORM_LAYER; i++) sum += (double)x[i];
    return sum / (double)norm->n;
}

double norm_scale(const Norm *norm, const float *x) {
    double mean = norm_mean(norm, x), sum = 0;
    for (size_t i = 0; i < norm->n; i++) sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return sqrt(sum / (double)norm->n + (double)norm->eps);
}

void norm_probe(const Norm *norm, const Probe *probe, ProbeSite site, size_t layer, size_t position,
                const float *x, size_t rows, float *scratch) {
    if (!probe || !probe->wants(probe->user, site, layer, 0)) return;
    for (size_t row = 0; row < rows; row++) scratch[row] = (float)norm_scale(norm, x + row * norm->n);
    probe->visit(probe->user, &(Activation){site, layer, 0, position, rows, 1, 1, scratch});
}
