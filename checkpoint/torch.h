/* The tensors of a file that torch.save wrote. For this folder only. */
#ifndef ATTN_TORCH_H
#define ATTN_TORCH_H

#include "shelf.h"

/*
 * Puts the tensors of a mapped file on the shelf, where they lie; their names live as long as the checkpoint. Two may share
 * bytes. Fails with an error that names the file.
 */
bool torch_read(Checkpoint *checkpoint, Shelf *shelf, const MappedFile *file, Error *error);

#endif
