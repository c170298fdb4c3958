/*
 * A norm whose scale is taken as it was in a run is a linear map, and a bias: what went into the vector can be told apart
 * behind it, and adds up. (Elhage et al. 2021 fold it into the weights beside it; its scale alone is not linear.)
 */
#ifndef ATTN_FROZENNORM_H
#define ATTN_FROZENNORM_H

#include "layers/norm.h"

/*
 * y = times·(x − mean)·gain/scale of norm->n numbers, without the bias; x and y may be the same. A norm without gain is none:
 * y = times·x of n numbers.
 */
void frozen_norm(const Norm *norm, double scale, double times, size_t n, const float *x, float *y);

/* The way back: dx such that dx·x = dy·frozen_norm(x) for every x. */
void frozen_norm_back(const Norm *norm, double scale, double times, size_t n, const float *dy, float *dx);

#endif
