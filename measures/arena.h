/*
 * Memory that is freed all at once. Requests are not checked one by one: after one has failed, all later ones fail.
 * Call arena_ok after a row of requests, before any of them is used.
 */
#ifndef ATTN_ARENA_H
#define ATTN_ARENA_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that one arena holds: a small file may claim sizes whose products would fill any machine. */
#define ARENA_BYTES ((uint64_t)4 << 30)

/* Starts as {0}. */
typedef struct Arena {
    struct ArenaBlock *blocks; /* the newest first */
    uint64_t n_bytes;          /* of all blocks */
    bool refused;              /* a request has failed */
} Arena;

/* n items of `size` bytes, all zero. NULL when memory runs out, or beyond ARENA_BYTES. */
void *arena_new(Arena *arena, size_t n, size_t size);

/* [rows][cols] floats, not initialised, aligned to a cache line. */
float *arena_floats(Arena *arena, size_t rows, size_t cols);

/* Whether all requests were met; if not, the error names what the memory was for ("12 patterns"). */
bool arena_ok(const Arena *arena, Error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void arena_free(Arena *arena);

#endif
