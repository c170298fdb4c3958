#include "measures/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { CACHE_LINE = 64 };

typedef struct ArenaBlock {
    struct ArenaBlock *next;
} ArenaBlock;

static void *refuse(Arena *arena) {
    arena->refused = true;
    return NULL;
}

/* calloc'ed, so that pages of what is never touched cost nothing; aligned by hand, within one line more. */
void *arena_new(Arena *arena, size_t n, size_t size) {
    size_t n_bytes, whole;
    if (__builtin_mul_overflow(n, size, &n_bytes) ||
        __builtin_add_overflow(n_bytes, sizeof(ArenaBlock) + CACHE_LINE, &whole))
        return refuse(arena);
    bool fits = !arena->refused && whole <= ARENA_BYTES - arena->n_bytes;
    ArenaBlock *block = fits ? calloc(1, whole) : NULL;
    if (!block) return refuse(arena);
    arena->n_bytes += whole;
    block->next = arena->blocks;
    arena->blocks = block;
    return (void *)(((uintptr_t)(block + 1) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
}

float *arena_floats(Arena *arena, size_t rows, size_t cols) {
    size_t row_bytes;
    if (__builtin_mul_overflow(cols, sizeof(float), &row_bytes)) return refuse(arena);
    return arena_new(arena, rows, row_bytes);
}

bool arena_ok(const Arena *arena, Error *error, const char *format, ...) {
    char what[128];
    va_list args;
    if (!arena->refused) return true;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(error, "not enough memory for %s; a view may take %d GiB", what,
                     (int)(ARENA_BYTES >> 30));
}

void arena_free(Arena *arena) {
    for (ArenaBlock *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    *arena = (Arena){0};
}
