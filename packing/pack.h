/* Rows of weights in any type, out of floats: the inverse of dtype_unpack, and of kernels/blocks.h. */
#ifndef ATTN_PACK_H
#define ATTN_PACK_H

#include "kernels/dtype.h"
#include "packing/sums.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Packs n weights (a multiple of the type's block) at x into `to`, of dtype_bytes(dtype, n) bytes, with as little error as
 * the search (search.h) finds. Any adder gives the same bytes, sum_tries_fastest() in the least time. False where one is no
 * finite number, or too large for the type.
 */
bool pack_row(void *to, DType dtype, const float *x, size_t n, SumTries *adder);

#endif
