/* A Hugging Face folder as a checkpoint. For this folder only. */
#ifndef ATTN_FOLDER_H
#define ATTN_FOLDER_H

#include "format.h"

/*
 * Fills the checkpoint from the folder at `path`: config.json, the weights in model.safetensors or the parts that
 * model.safetensors.index.json lists, or only in `file` (a name in the folder) where that is not NULL and the index does
 * not list it; tokenizer.json and what is said about it. Fails with an error that says what is missing or wrong.
 */
bool folder_read(Checkpoint *checkpoint, const char *path, const char *file, Error *error);

#endif
