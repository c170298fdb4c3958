/* A character's general category and its script, as Unicode has them. */
#ifndef ATTN_CATEGORIES_H
#define ATTN_CATEGORIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The set that \p{…} names: of categories (The Unicode Standard, table 4-4), a script (UAX #24), or both at once. */
typedef struct Property {
    uint32_t categories; /* a bit for each, in the order of categories.c */
    unsigned script;     /* an index, 0: any */
} Property;

/* Looks up "L", "Lu", "Han", "Script=Han" or "Any". False if it is not known: of scripts a few are (categories.c). */
bool property_find(const char *name, size_t n, Property *property);

/* Whether the character has it. What is no code point (UTF8_INVALID) has none. */
bool property_holds(Property property, uint32_t code_point);

/*
 * The next range of characters that have it, *first to *last, ascending. *at begins as 0. False after the last range.
 */
bool property_next(Property property, size_t *at, uint32_t *first, uint32_t *last);

#endif
