/*
 * A pattern in few bytes: its lower triangle, row after row, in bytes round(255·A). A byte 0 is followed by the
 * number of zeros in this run, which may go on over rows, in LEB128: seven bits a byte, the lowest first, the
 * eighth set where more follow.
 */
#ifndef ATTN_STUDY_PACKEDROWS_H
#define ATTN_STUDY_PACKEDROWS_H

#include <stdbool.h>
#include <stddef.h>

/* Starts as {0}; the owner frees bytes. */
typedef struct PackedRows {
    unsigned char *bytes;
    size_t n, capacity;
    size_t zeros; /* at the end, not yet written */
} PackedRows;

/*
 * Appends a row of n weights in [0, 1], those below `least` as 0; packed_rows_finish what is held back. False when
 * memory runs out.
 */
bool packed_rows_add(PackedRows *packed, const float *row, size_t n, float least);
bool packed_rows_finish(PackedRows *packed);

#endif
