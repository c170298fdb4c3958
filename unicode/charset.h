/* Sets of characters, as ranges of code points. One more stands for a byte that is no UTF-8: UTF8_INVALID. */
#ifndef ATTN_CHARSET_H
#define ATTN_CHARSET_H

#include "unicode/categories.h"

typedef struct CharRange {
    uint32_t first, last;
} CharRange;

/* Starts as {0}; the owner frees ranges. What adds to it gives false when memory runs out. */
typedef struct CharSet {
    CharRange *ranges; /* [n] ascending and apart after charset_sort */
    size_t n, capacity;
    size_t n_sorted; /* of the last charset_sort */
} CharSet;

bool charset_add(CharSet *set, uint32_t first, uint32_t last);
bool charset_add_property(CharSet *set, Property property);
bool charset_add_set(CharSet *set, const CharSet *other);
void charset_sort(CharSet *set);
bool charset_invert(CharSet *set);                          /* sorted, and stays so */
bool charset_intersect(CharSet *set, const CharSet *other); /* both sorted, and stay so */
bool charset_equal(const CharSet *a, const CharSet *b);     /* both sorted */

#endif
