/*
 * Patterns by items: runs of tokens, such as words, as their rows and columns. The weight of an item as key is the sum over
 * its tokens, its row as query the mean over theirs.
 */
#ifndef ATTN_ITEMS_H
#define ATTN_ITEMS_H

#include "measures/patterns.h"

/* The caller fills it. */
typedef struct Items {
    const Patterns *patterns;
    size_t *begin; /* [n + 1] first token of each item; the last is the number of tokens */
    size_t n;
    double *row; /* room for n numbers: the row asked for last */
} Items;

/* The item + 1 numbers of an item's row of a map, which hold until another row is asked for. */
const double *items_row(const Items *items, size_t map, size_t item);

/* The mean over an item's queries of what did not go to its row: lost [n_maps][n_rows], Patterns.dropped or .learned. */
double items_lost(const Items *items, const double *lost, size_t map, size_t item);

#endif
