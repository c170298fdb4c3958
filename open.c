/* The formats that are read. A page reads GGUF alone: wasm/left_out.c has the others, which know no file there. */
#include "open.h"

#include "checkpoint/format.h"
#include "hub/folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const Format *const formats[] = {&format_gguf,   &format_safetensors,    &format_torch,
                                        &format_llmc,   &format_llmc_tokenizer, &format_llama2c_tokenizer,
                                        &format_llama2c};

/* Maps what lies at the checkpoint's path and lets its format fill in all but what is sorted. */
static bool read_format(Checkpoint *checkpoint, Error *error) {
    struct stat status;
    if (!checkpoint->given && stat(checkpoint->path, &status) == 0 && S_ISDIR(status.st_mode))
        return folder_read(checkpoint, checkpoint->path, NULL, error);
    const MappedFile *file = checkpoint_map(checkpoint, checkpoint->path, error);
    if (!file) return false;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!formats[i]->recognise(file->bytes, file->n_bytes)) continue;
        if (checkpoint->given && (formats[i] == &format_safetensors || formats[i] == &format_torch))
            return error_set(error, "%s: weights of a folder, which has more files: open it by its path",
                             checkpoint->path);
        return formats[i]->read(checkpoint, error);
    }
    return refuse_foreign(file, error);
}

/* Opens what is at path, with what `begin` says of how. */
static Checkpoint *open_as(const char *path, Checkpoint begin, Error *error) {
    if (!begin.given && !*path) return error_set(error, "no file is named: the path is empty"), NULL;
    Checkpoint *checkpoint = malloc(sizeof *checkpoint);
    if (checkpoint) *checkpoint = begin;
    if (!checkpoint || !(checkpoint->path = strdup(path))) {
        error_set(error, "%s: not enough memory", path);
        goto fail;
    }
    if (read_format(checkpoint, error) && checkpoint_index(checkpoint, error)) {
        checkpoint->given = NULL;
        return checkpoint;
    }
fail:
    checkpoint_close(checkpoint);
    return NULL;
}

Checkpoint *checkpoint_open(const char *path, Error *error) {
    return checkpoint_open_with(path, NULL, NULL, error);
}

Checkpoint *checkpoint_open_with(const char *path, Progress *progress, void *user, Error *error) {
    return open_as(path, (Checkpoint){.progress = progress, .user = user}, error);
}

Checkpoint *checkpoint_open_given(const char *name, const GivenFile *given, Error *error) {
    return open_as(name, (Checkpoint){.given = given}, error);
}

Checkpoint *checkpoint_open_vocabulary(const char *path, Error *error) {
    Error why;
    Checkpoint *checkpoint = checkpoint_open(path, error);
    return checkpoint ? checkpoint : open_as(path, (Checkpoint){.vocabulary_only = true}, &why);
}
