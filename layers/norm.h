/* The norms that keep a vector's size in hand before a branch reads it, behind a branch, and of queries and keys. */
#ifndef ATTN_NORM_H
#define ATTN_NORM_H

#include "kernels/kernels.h"
#include "probe.h"

#include <stddef.h>

typedef enum NormKind {
    NORM_LAYER, /* (x − mean)/√(var + eps)·gain + bias; Ba et al. 2016, arXiv:1607.06450 */
    NORM_RMS,   /* x/√(mean x² + eps)·gain; Zhang & Sennrich 2019, arXiv:1910.07467 */
} NormKind;

typedef struct Norm {
    NormKind kind;
    float eps;
    size_t n;          /* numbers that are normed together */
    const float *gain; /* [n]; NULL: there is no such norm */
    const float *bias; /* [n], or NULL */
    bool own_gains; /* each n numbers of a row have a gain of their own: [d] instead of [n], without bias */
} Norm;

/* y = norm of x, [rows][d] each, where d is a multiple of norm->n. They may be the same. */
void norm_forward(const Compute *compute, const Norm *norm, const float *x, float *y, size_t rows, size_t d);

/* Applies it to one row of n numbers: (x − mean)/scale·gain + bias; RMSNorm's mean is 0. */
double norm_mean(const Norm *norm, const float *x);
double norm_scale(const Norm *norm, const float *x);

/* Shows the scales of rows x [rows][norm->n] at `site`, if the probe wants them. scratch [rows] */
void norm_probe(const Norm *norm, const Probe *probe, ProbeSite site, size_t layer, size_t position,
                const float *x, size_t rows, float *scratch);

/* One row of it, on the calling thread. */
void norm_row(const Kernels *kernels, const Norm *norm, const float *x, float *y, size_t d);

#endif
