/* The way back through a norm (layers/norm.h). */
#ifndef ATTN_NORM_BACK_H
#define ATTN_NORM_BACK_H

#include "layers/norm.h"

#include <stddef.h>

/*
 * dx += the gradient of the norm's input x, given dy, that of its output: all [rows][d], where d is a multiple of norm->n.
 * With the statistics of x, x̂ = (x − mean)/σ or x/σ, and g = dy·gain:
 *
 *   dx = (g − mean(g) − x̂·mean(g·x̂))/σ, in an RMS norm without mean(g)
 */
void norm_back(const Compute *compute, const Norm *norm, const float *x, const float *dy, float *dx,
               size_t rows, size_t d);

/* One row of it, on the calling thread. */
void norm_back_row(const Norm *norm, const float *x, const float *dy, float *dx, size_t d);

#endif
