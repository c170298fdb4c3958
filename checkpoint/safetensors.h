/* The tensors of a safetensors file, under the names and shapes that it gives them. For this folder only. */
#ifndef ATTN_SAFETENSORS_H
#define ATTN_SAFETENSORS_H

#include "format.h"
#include "json.h"

/* One of them. Its bytes lie in the file, and no other tensor of that file has any of them. */
typedef struct Stored {
    String name;       /* in the header's JSON */
    String type;       /* "F32" …, likewise */
    size_t item_bytes; /* of a weight; 0: of a type that nothing here computes with */
    DType dtype;       /* of other weights than those */
    uint32_t n_dims;
    uint64_t dims[TENSOR_MAX_DIMS]; /* as in Tensor: the last of the file's shape comes first */
    const unsigned char *data;
    uint64_t n_bytes;
} Stored;

/* The tensors of all files of a model, in their order. */
typedef struct Shelf {
    Stored *tensors; /* [n] */
    size_t n;
    Json **headers; /* [n_headers], which own the names */
    size_t n_headers;
} Shelf;

/*
 * Puts the tensors of a mapped file on the shelf: its header is a uint64 length and JSON, and is copied before it is
 * read. Fails with an error that names the file. shelf_free frees what the shelf has, also after it failed.
 */
bool safetensors_read(Shelf *shelf, const MappedFile *file, Error *error);
void shelf_free(Shelf *shelf);

/* Whether the bytes look like the beginning of such a file. */
bool safetensors_recognise(const unsigned char *bytes, size_t n);

#endif
