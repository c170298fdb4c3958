#include "text/tokens.h"

#include "text/buffer.h"

#include <stdlib.h>

bool tokens_reserve(Tokens *tokens, size_t n, Error *error) {
    if (n <= tokens->capacity - tokens->n) return true;
    int32_t *ids = grow(tokens->ids, sizeof *ids, tokens->n + n, &tokens->capacity);
    if (!ids) return error_set(error, "not enough memory for %zu tokens", tokens->n + n);
    tokens->ids = ids;
    return true;
}

bool tokens_push(Tokens *tokens, int32_t id, Error *error) {
    if (!tokens_reserve(tokens, 1, error)) return false;
    tokens->ids[tokens->n++] = id;
    return true;
}

void tokens_free(Tokens *tokens) {
    free(tokens->ids);
    *tokens = (Tokens){0};
}
