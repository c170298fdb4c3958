/*
 * A pattern in few bytes: the lower triangle, row after row, of levels round(255·A), most of which are small. They are
 * written in half bytes, the lower half first:
 *
 *     1 … 14   a level
 *     15 l h   the level 16·h + l
 *     0 r …    a run of zeros, which may go on over rows; its length in groups of three bits, the lowest first, the
 *              fourth bit set where more follow
 */
#ifndef ATTN_PACKEDROWS_H
#define ATTN_PACKEDROWS_H

#include "measures/arena.h"

#include <stdbool.h>
#include <stddef.h>

/* Starts as {.arena = …}, from which the bytes come. */
typedef struct PackedRows {
    Arena *arena;
    unsigned char *bytes;
    size_t n, capacity;
    size_t zeros; /* zeros at the end that are not written yet */
    bool half;    /* the last byte has room for one more */
} PackedRows;

/*
 * Appends a row of n weights in [0, 1]; those below `least` become 0. packed_rows_finish appends what is held back.
 * False when memory runs out.
 */
bool packed_rows_add(PackedRows *packed, const float *row, size_t n, float least);
bool packed_rows_finish(PackedRows *packed);

#endif
