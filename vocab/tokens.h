/* A growing list of token ids. */
#ifndef ATTN_TOKENS_H
#define ATTN_TOKENS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {0}; freed with tokens_free. */
typedef struct Tokens {
    int32_t *ids;
    size_t n, capacity;
} Tokens;

/* Makes room for n more where there is none. */
bool tokens_grow(Tokens *tokens, size_t n, Error *error);

/* Makes room for n more. Called for each word of a text. */
static inline bool tokens_reserve(Tokens *tokens, size_t n, Error *error) {
    return n <= tokens->capacity - tokens->n || tokens_grow(tokens, n, error);
}

static inline bool tokens_push(Tokens *tokens, int32_t id, Error *error) {
    if (!tokens_reserve(tokens, 1, error)) return false;
    tokens->ids[tokens->n++] = id;
    return true;
}

void tokens_free(Tokens *tokens);

#endif
