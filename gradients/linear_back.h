/* The way back through y = W·x + bias: what a change of y means for x. Weights stay where they lie, in any type. */
#ifndef ATTN_LINEAR_BACK_H
#define ATTN_LINEAR_BACK_H

#include "kernels/kernels.h"

#include <stddef.h>

/*
 * dx[t] += Wᵀ dy[t] for t < n, over the rows [begin, end) of W alone: the first of them belongs to dy[0]. Rows of dy lie
 * dy_stride floats apart, dx is [n][w->cols]. Each sum takes the rows in their order, whatever the threads.
 */
void linear_back(const Compute *compute, const Matrix *w, size_t begin, size_t end, const float *dy,
                 size_t dy_stride, size_t n, float *dx);

#endif
