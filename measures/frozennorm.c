#include "measures/frozennorm.h"

static double mean_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i];
    return sum / (double)n;
}

void frozen_norm(const Norm *norm, double scale, double times, size_t n, const float *x, float *y) {
    const float *gain = norm->gain;
    double mean = gain && norm->kind == NORM_LAYER ? mean_of(x, n) : 0;
    for (size_t i = 0; i < n; i++)
        y[i] = (float)(gain ? times * ((double)x[i] - mean) * (double)gain[i] / scale : times * (double)x[i]);
}

void frozen_norm_back(const Norm *norm, double scale, double times, size_t n, const float *dy, float *dx) {
    const float *gain = norm->gain;
    for (size_t i = 0; i < n; i++)
        dx[i] = (float)(times * (double)dy[i] * (gain ? (double)gain[i] / scale : 1));
    double mean = gain && norm->kind == NORM_LAYER ? mean_of(dx, n) : 0;
    for (size_t i = 0; i < n; i++) dx[i] = (float)((double)dx[i] - mean);
}
