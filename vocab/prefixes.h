/* A set of texts, and which of them another text begins with: special tokens, or the pieces of a Unigram vocabulary. */
#ifndef ATTN_PREFIXES_H
#define ATTN_PREFIXES_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Prefix {
    String text; /* borrowed, not empty */
    int32_t id;
    bool takes_space; /* for who finds it: the white space behind it goes with it */
    int32_t shorter;  /* index of the longest other text that this one begins with, −1: none */
} Prefix;

/* Starts as {0}; freed with prefixes_free. */
typedef struct Prefixes {
    Prefix *items; /* [n]; ascending by text after prefixes_sort */
    size_t n, capacity;
    size_t from[257]; /* those whose first byte is b: [from[b], from[b + 1]) */
} Prefixes;

/* Adds a text, which must not be empty. False when memory runs out. */
bool prefixes_add(Prefixes *prefixes, String text, int32_t id);

/* Makes the set ready, after the last text. Of equal texts the one with the lowest id stays. */
void prefixes_sort(Prefixes *prefixes);
void prefixes_free(Prefixes *prefixes);

/* Whether some text starts with this byte. */
static inline bool prefixes_begin(const Prefixes *prefixes, char first) {
    const size_t *from = &prefixes->from[(unsigned char)first];
    return from[0] < from[1];
}

/* Index of the longest text that text[0, n), n > 0, begins with, or −1. Its chain of `shorter` are all others. */
int32_t prefixes_find(const Prefixes *prefixes, const char *text, size_t n);

/*
 * The longest text that text[at, n), at < n, begins with and that may stand there, or −1. `marks` [n] are 0 for a byte of
 * the template's own, 1 for one from outside; `steers` has a bit for each id. What steers may have no byte from outside; and
 * what does not may, but then it takes no byte of one that steers and is the template's own.
 */
int32_t prefixes_find_own(const Prefixes *prefixes, const char *text, const char *marks, size_t at, size_t n,
                          const unsigned char *steers);

/* White space of ASCII, the one that `takes_space` means. */
static inline bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static inline bool bit_of(const unsigned char *bits, int32_t id) { return bits[id / 8] >> id % 8 & 1; }

#endif
