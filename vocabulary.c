#include "vocabulary.h"

#include <stdatomic.h>

bool vocabulary_fits(const Model *model, const Tokenizer *tokenizer, const char *path, Error *error) {
    size_t n_vocab = model_config(model)->n_vocab;
    if (tokenizer_n_vocab(tokenizer) == n_vocab) return true;
    return error_set(error, "%s: embeds %zu tokens, but the vocabulary%s%s has %zu",
                     checkpoint_path(model_checkpoint(model)), n_vocab, path ? " of " : "", path ? path : "",
                     tokenizer_n_vocab(tokenizer));
}

/* Linux maps so many bytes around the one that is touched, where pages are small. */
enum { MAPPED_AT_ONCE = 1 << 16 };

typedef struct Opening {
    const Model *model;
    const char *path;
    Checkpoint **file;
    Tokenizer *tokenizer;
    Error *error;
    atomic_bool ended;
} Opening;

/* Piece 0 opens the vocabulary. Each other one touches a tensor, the last first, until that has ended. */
static void open_or_touch(void *context, size_t begin, size_t end, unsigned worker) {
    (void)end;
    (void)worker;
    Opening *opening = context;
    const Checkpoint *own = model_checkpoint(opening->model);
    if (begin == 0) {
        opening->tokenizer = tokenizer_open(opening->path, own, opening->file, opening->error);
        atomic_store(&opening->ended, true);
        return;
    }
    const Tensor *tensor = checkpoint_tensor(own, checkpoint_n_tensors(own) - begin);
    const volatile char *bytes = tensor->data;
    for (uint64_t i = 0; i < tensor->n_bytes && !atomic_load(&opening->ended); i += MAPPED_AT_ONCE)
        (void)bytes[i];
}

Tokenizer *vocabulary_open(const Model *model, const char *path, Threads *threads, Checkpoint **file,
                           Error *error) {
    Opening opening = {.model = model, .path = path, .file = file, .error = error};
    parallel_for(threads, 1 + checkpoint_n_tensors(model_checkpoint(model)), 1, open_or_touch, &opening);
    if (opening.tokenizer && vocabulary_fits(model, opening.tokenizer, path, error)) return opening.tokenizer;
    tokenizer_free(opening.tokenizer);
    return NULL;
}
