/* The tensors of a folder's files, under the names and shapes that these give them. For this folder only. */
#ifndef ATTN_STORED_H
#define ATTN_STORED_H

#include "base/json.h"
#include "checkpoint/format.h"

/* One of them. Its bytes lie in a file. */
typedef struct Stored {
    String name;       /* in the file's header, or a copy of it */
    String type;       /* "F32" …, as safetensors calls it */
    size_t item_bytes; /* of a weight; 0: of a type that nothing here computes with */
    DType dtype;       /* of other weights than those */
    uint32_t n_dims;
    uint64_t dims[TENSOR_MAX_DIMS]; /* as in Tensor: the last of the file's shape comes first */
    const unsigned char *data;
    uint64_t n_bytes;
    const char *flaw; /* why it cannot be used, or NULL; then dims and data say nothing */
} Stored;

/* The tensors of all files of a model, in their order. */
typedef struct StoredTensors {
    Stored *tensors; /* [n] */
    size_t n;
    Json **headers; /* [n_headers], which own the names of those from safetensors */
    size_t n_headers;
} StoredTensors;

/* Makes room for `more` tensors behind tensors[n]; false when memory runs out. */
bool stored_room(StoredTensors *stored, size_t more);
void stored_free(StoredTensors *stored);

/* Notes what tensor->type tells. Bits of a weight; 0 if nobody knows the type. */
unsigned stored_type(Stored *tensor);

/*
 * Fills in dims from the sizes of a shape, its last first, i = 0, 1 …; *n_weights, which begins as 1, becomes their
 * product. What is wrong, or NULL. Dimensions of 1 at the front are left out.
 */
const char *stored_dimension(Stored *tensor, size_t i, uint64_t size, uint64_t *n_weights);

#endif
