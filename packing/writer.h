/* Writes a GGUF file (version 3) like one that was read, but for the types of its tensors. */
#ifndef ATTN_WRITER_H
#define ATTN_WRITER_H

#include "checkpoint/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct GgufWriter {
    FILE *file;         /* borrowed */
    uint64_t alignment; /* the checkpoint's own */
    uint64_t at;        /* bytes written */
} GgufWriter;

/* Bytes that a tensor takes in another type. */
uint64_t writer_tensor_bytes(const Tensor *tensor, DType dtype);

/*
 * Writes all that comes before the data. The metadata are the checkpoint's, in their order, with general.file_type and
 * general.quantization_version set, and those of a split file left out; `vocabulary` (NULL: the
 * checkpoint's own) brings all "tokenizer." keys. types[i] is what tensor i will have. Each function of this file returns false with errno where it cannot
 * write.
 */
bool writer_begin(GgufWriter *writer, FILE *file, const Checkpoint *checkpoint, const Checkpoint *vocabulary,
                  const DType *types, uint32_t file_type);

/* The next bytes of the tensors' data, and after each tensor its padding. */
bool writer_add(GgufWriter *writer, const void *bytes, size_t n);
bool writer_pad(GgufWriter *writer);

#endif
