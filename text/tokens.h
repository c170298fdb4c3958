/* A growing list of token ids. */
#ifndef ATTN_TOKENS_H
#define ATTN_TOKENS_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {0}; freed with tokens_free. */
typedef struct Tokens {
    int32_t *ids;
    size_t n, capacity;
} Tokens;

/* Makes room for n more. */
bool tokens_reserve(Tokens *tokens, size_t n, Error *error);
bool tokens_push(Tokens *tokens, int32_t id, Error *error);
void tokens_free(Tokens *tokens);

#endif
