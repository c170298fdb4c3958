/*
 * Quantised weights are multiplied as integers. Activations are rounded by blocks of 32 columns, x ≈ d·q with
 * d = max |x| / max |q|, so that a block's products with int8 or int4 weights can be added up exactly. Only then they
 * are scaled by both d's, and only these sums are rounded.
 *
 * A q has one byte or two. Two err by no more than 2^-16 of the block's largest, far less than the weights themselves.
 * One errs as much as Q8_0's weights do. That is enough for text, but two ways to the same logits may end 1e-2 of their
 * span apart, where a float's last bit decides which way a q is rounded.
 */
#ifndef ATTN_PACKED_INTS_H
#define ATTN_PACKED_INTS_H

#include "microkernel.h"

#include <stddef.h>
#include <stdint.h>

/* The activations of tokens that are multiplied together, in the room of `tokens`·cols floats. */
typedef struct PackedInts {
    unsigned char *q; /* [blocks][tokens][BLOCK] int8 or int16 */
    float *d;         /* [blocks, up to a multiple of 8][tokens]; those of a token of matvec end in zeros */
    int32_t *start;   /* likewise: what a product with q begins with */
} PackedInts;

static inline PackedInts packed_ints(size_t bytes, const void *packed, size_t first, size_t tokens,
                                     size_t cols) {
    float *room = (float *)(uintptr_t)packed + first * cols;
    float *d = room + tokens * cols * bytes / sizeof *room;
    float *start = d + (cols / BLOCK + 7) / 8 * 8 * tokens;
    return (PackedInts){.q = (unsigned char *)room, .d = d, .start = (int32_t *)(void *)start};
}

#endif
