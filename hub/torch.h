/* The tensors of a file that torch.save wrote. For this folder only. */
#ifndef ATTN_TORCH_H
#define ATTN_TORCH_H

#include "stored.h"

/*
 * Puts the tensors of a mapped file on the stored, where they lie; their names live as long as the checkpoint. Two may share
 * bytes. Fails with an error that names the file.
 */
bool torch_read(Checkpoint *checkpoint, StoredTensors *stored, const MappedFile *file, Error *error);

#endif
