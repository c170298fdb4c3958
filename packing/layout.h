/* A folder's metadata and tensors as GGUF files have them, for who writes one. A GGUF file stays as it is. */
#ifndef ATTN_LAYOUT_H
#define ATTN_LAYOUT_H

#include "checkpoint/checkpoint.h"

/* Puts a key into the metadata, in place of another of that name; all is copied. */
bool checkpoint_add(Checkpoint *checkpoint, const Value *value, Error *error);

/*
 * Gives the tensors the names and order of rows that GGUF files have, and takes keys off that only this program knows. Then
 * tensor->data says nothing, and checkpoint_weights has the weights of tensor i, until it is called again; NULL with an
 * error when memory runs out.
 */
bool checkpoint_lay_out(Checkpoint *checkpoint, Error *error);
const void *checkpoint_weights(Checkpoint *checkpoint, size_t i, Error *error);

#endif
