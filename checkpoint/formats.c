/* The formats that are read: the file's content decides. A page reads GGUF alone (wasm/left_out.c). */
#include "folder.h"
#include "format.h"

static const Format *const formats[] = {&format_gguf,   &format_safetensors,    &format_torch,
                                        &format_llmc,   &format_llmc_tokenizer, &format_llama2c_tokenizer,
                                        &format_llama2c};

bool checkpoint_read(Checkpoint *checkpoint, Error *error) {
    struct stat status;
    if (stat(checkpoint->path, &status) == 0 && S_ISDIR(status.st_mode))
        return folder_read(checkpoint, checkpoint->path, NULL, error);
    const MappedFile *file = checkpoint_map(checkpoint, checkpoint->path, error);
    if (!file) return false;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->recognise(file->bytes, file->n_bytes)) return formats[i]->read(checkpoint, error);
    return refuse_foreign(file, error);
}
