#include "packing/vocabulary.h"

#include "text/vocab_keys.h"

bool vocabulary_add(Checkpoint *checkpoint, Error *why, Error *error) {
    VocabKeys keys = {0};
    bool ok = true;
    if (checkpoint_has(checkpoint, "tokenizer.ggml.model") ||
        !checkpoint_has(checkpoint, "tokenizer.huggingface.json"))
        return true;
    if (!vocab_keys_make(&keys, checkpoint, why)) return true;
    for (size_t i = 0; ok && i < keys.n; i++) ok = checkpoint_add(checkpoint, &keys.values[i], error);
    vocab_keys_free(&keys);
    return ok;
}
