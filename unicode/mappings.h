/*
 * Unicode's mappings of characters: decompositions, lower case, and the classes by which combining marks are ordered (The
 * Unicode Standard, sections 3.11, 3.13, 4.3). The tables stand packed in the program and are unpacked for who needs them.
 */
#ifndef ATTN_MAPPINGS_H
#define ATTN_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Hangul syllables are a lead, a vowel and perhaps a tail, by arithmetic (section 3.12). The first tail is none. */
enum {
    HANGUL_FIRST = 0xac00,
    HANGUL_LAST = 0xd7a3,
    HANGUL_LEAD = 0x1100,
    HANGUL_VOWEL = 0x1161,
    HANGUL_TAIL = 0x11a7,
    HANGUL_LEADS = 19,
    HANGUL_VOWELS = 21,
    HANGUL_TAILS = 28
};

/* One character, and what it becomes: chars[start, start + n) of its Mappings. */
typedef struct Mapping {
    uint32_t code, start;
    uint8_t n;
    bool compatibility; /* decomposes in NFKC and NFKD only */
} Mapping;

/* Rows by code. */
typedef struct MappingTable {
    const Mapping *rows;
    size_t n;
} MappingTable;

/* Two characters that compose to one. */
typedef struct UnicodeComposition {
    uint64_t pair; /* first << 32 | second */
    uint32_t code;
} UnicodeComposition;

/* Immutable once unpacked. */
typedef struct Mappings {
    MappingTable decompositions, lower, classes; /* classes: those that are not 0 */
    uint32_t *chars;
    UnicodeComposition *compositions; /* [n_compositions] by pair */
    size_t n_compositions;
    uint64_t
        changes[0x110000 / 64 / 64]; /* bit: one of 64 code points may change, or what is in front of it */
} Mappings;

/* One block of 150 KB, to be freed; NULL when memory runs out. */
Mappings *mappings_new(void);

/* The row of a code point, or NULL. */
const Mapping *mapping_find(MappingTable table, uint32_t code);

/* The character that the two compose to, Hangul too, or 0. */
uint32_t mappings_compose(const Mappings *mappings, uint32_t first, uint32_t second);

/* Whether the character is itself in every normal form, of class 0, and composes with nothing in front of it. */
static inline bool mappings_keep(const Mappings *mappings, uint32_t code) {
    return code < 0x80 || code > 0x10ffff || !(mappings->changes[code / 64 / 64] >> code / 64 % 64 & 1);
}

#endif
