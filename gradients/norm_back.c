#include "gradients/norm_back.h"

#include <math.h>
#include <stdbool.h>

typedef struct NormBackLoop {
    const Norm *norm;
    const float *x, *dy;
    float *dx;
    size_t d;
} NormBackLoop;

/* The numbers that are normed together. */
static void back_group(const Norm *norm, const float *gain, const float *x, const float *dy, float *dx) {
    const size_t n = norm->n;
    const bool centres = norm->kind == NORM_LAYER;
    double mean = 0, square = 0, mean_g = 0, mean_gx = 0;
    for (size_t i = 0; centres && i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) {
        double centred = (double)x[i] - mean, g = (double)dy[i] * (double)gain[i];
        square += centred * centred;
        mean_g += g;
        mean_gx += g * centred;
    }
    double inverse = 1 / sqrt(square / (double)n + (double)norm->eps);
    mean_g = centres ? mean_g / (double)n : 0;
    mean_gx *= inverse / (double)n;
    for (size_t i = 0; i < n; i++) {
        double normed = ((double)x[i] - mean) * inverse;
        dx[i] += (float)(((double)dy[i] * (double)gain[i] - mean_g - normed * mean_gx) * inverse);
    }
}

void norm_back_row(const Norm *norm, const float *x, const float *dy, float *dx, size_t d) {
    for (size_t i = 0; i < d; i += norm->n)
        back_group(norm, norm->gain + (norm->own_gains ? i : 0), x + i, dy + i, dx + i);
}

static void back_rows(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const NormBackLoop *loop = context;
    for (size_t row = begin; row < end; row++)
        norm_back_row(loop->norm, loop->x + row * loop->d, loop->dy + row * loop->d, loop->dx + row * loop->d,
                      loop->d);
}

void norm_back(const Compute *compute, const Norm *norm, const float *x, const float *dy, float *dx,
               size_t rows, size_t d) {
    NormBackLoop loop = {norm, x, dy, dx, d};
    parallel_for(compute->threads, rows, 8, back_rows, &loop);
}
