/* The tensors of a safetensors file, under the names and shapes that it gives them. For this folder only. */
#ifndef ATTN_SAFETENSORS_H
#define ATTN_SAFETENSORS_H

#include "stored.h"

/*
 * Puts the tensors of a mapped file behind the stored ones: its header is a uint64 length and JSON, and is copied before it is
 * read. Fails with an error that names the file.
 */
bool safetensors_read(StoredTensors *stored, const MappedFile *file, Error *error);

#endif
