#include "vocab/tokens.h"

#include "base/text.h"

#include <stdlib.h>

bool tokens_grow(Tokens *tokens, size_t n, Error *error) {
    int32_t *ids = grow(tokens->ids, sizeof *ids, tokens->n + n, &tokens->capacity);
    if (!ids) return error_set(error, "not enough memory for %zu tokens", tokens->n + n);
    tokens->ids = ids;
    return true;
}

void tokens_free(Tokens *tokens) {
    free(tokens->ids);
    *tokens = (Tokens){0};
}
