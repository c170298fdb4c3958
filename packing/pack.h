/* Rows of weights in any type, out of floats: the inverse of dtype_unpack, and of kernels/blocks.h. */
#ifndef ATTN_PACK_H
#define ATTN_PACK_H

#include "kernels/dtype.h"
#include "packing/sums.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Packs n finite weights (a multiple of the type's block) at x into `to`, of dtype_bytes(dtype, n) bytes, as near to them
 * as the search (search.h) finds. What is written depends on the weights alone, not on the machine. False: one is too
 * large for the type.
 */
bool pack_row(void *to, DType dtype, const float *x, size_t n, SumTries *adder);

#endif
