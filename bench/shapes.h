/* The shapes of known models, and checkpoints of random weights in these shapes. */
#ifndef ATTN_BENCH_SHAPES_H
#define ATTN_BENCH_SHAPES_H

#include "error.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct ModelShape {
    const char *name, *family; /* family: "gpt2" or "llama" */
    uint32_t n_layer, n_head, n_head_kv, d_model, d_ff, n_vocab, n_ctx;
} ModelShape;

enum { N_MODEL_SHAPES = 2 };
extern const ModelShape model_shapes[N_MODEL_SHAPES]; /* gpt2-124m, tinyllama-1.1b */

/* Bytes of a checkpoint's tensors; its header takes some KB more. */
uint64_t shape_bytes(const ModelShape *shape, DType dtype);

/*
 * Writes a GGUF checkpoint without a vocabulary: matrices of small random numbers in dtype, vectors in F32.
 * False with an error when the file cannot be written, or after Ctrl-C.
 */
bool shape_write(const ModelShape *shape, DType dtype, FILE *file, Error *error);

#endif
