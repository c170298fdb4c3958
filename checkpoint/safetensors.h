/* The tensors of a safetensors file, under the names and shapes that it gives them. For this folder only. */
#ifndef ATTN_SAFETENSORS_H
#define ATTN_SAFETENSORS_H

#include "shelf.h"

/*
 * Puts the tensors of a mapped file on the shelf: its header is a uint64 length and JSON, and is copied before it is
 * read. Fails with an error that names the file.
 */
bool safetensors_read(Shelf *shelf, const MappedFile *file, Error *error);

/* Whether the bytes look like the beginning of such a file. */
bool safetensors_recognise(const unsigned char *bytes, size_t n);

#endif
