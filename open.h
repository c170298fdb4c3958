/* Opening a checkpoint of any format, which the content of the file decides, not its name. */
#ifndef ATTN_OPEN_H
#define ATTN_OPEN_H

#include "checkpoint/checkpoint.h"

/*
 * Maps the file at path, or the weights of the Hugging Face folder at path, or around the safetensors or PyTorch file at
 * path, or all parts of a split GGUF whose first is at path; and checks its whole structure: afterwards every tensor lies
 * inside the file, overlaps no other, has the bytes its shape asks for, and no name or key occurs twice. Whether anything can
 * be computed with it is not asked: tensors may be of any type. Who writes to the file while it is open changes weights
 * and nothing else; a file that is made shorter kills the process (SIGBUS), as with any mapping.
 * NULL with an error that names the file, what is wrong and what to do. checkpoint_close accepts NULL.
 */
Checkpoint *checkpoint_open(const char *path, Error *error);

/* Likewise, and tells of a folder's weights that have to be turned; progress may be NULL. */
Checkpoint *checkpoint_open_with(const char *path, Progress *progress, void *user, Error *error);

/*
 * Likewise for a file without a path: GGUF that is not split, or a single file of the other formats but a folder's. `name` is
 * what errors call it.
 */
Checkpoint *checkpoint_open_given(const char *name, const GivenFile *given, Error *error);

/*
 * Likewise for who wants a vocabulary: of a folder whose model is of a kind that is not read, or whose weights are not there,
 * that alone, without tensors.
 */
Checkpoint *checkpoint_open_vocabulary(const char *path, Error *error);

#endif
