/*
 * The tables of a pattern, by which regex/pattern.c finds its matches: characters by class, states by what follows, and where
 * a match goes on. compile.c fills them, once. For these two files only.
 */
#ifndef ATTN_TABLES_H
#define ATTN_TABLES_H

#include "regex/pattern.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MAX_CLASSES = 255,
    NO_MATCH = UINT16_MAX,
    DONE = UINT16_MAX - 1,
    OPEN = UINT16_MAX - 2, /* depends on what follows */
    PAGE_BITS = 8,
    N_PAGES = (0x110000 >> PAGE_BITS) + 1,
};

struct Pattern {
    unsigned char bytes[256]; /* class by a character's first byte; n_classes beyond ASCII */
    /* By class: the state before a character of it, where that is the same whatever follows; else 0. */
    uint16_t decided[MAX_CLASSES];
    uint16_t pages[N_PAGES + 1]; /* the range that each page's first character lies in */
    uint32_t *firsts;            /* [n_ranges] first characters of the ranges of one class, ascending */
    unsigned char *classes;      /* [n_ranges] */
    size_t n_ranges, n_classes;
    /*
     * [n_classes + 1][n_states] the state before a character of that class, by the state behind it; with the last class,
     * before the text. Unless something looks behind, the entry for state 0 is decided[].
     */
    uint16_t *before;
    /* [n_states][n_targets] where to go on from a target: to the target behind the next character, or DONE */
    uint16_t *after;
    /* [n_classes + 1][n_targets] the same by the next character's class, or OPEN; with the last class, OPEN */
    uint16_t *first;
    /* [n_classes + 1][n_classes + 1] where a match goes on from its start, by two characters' classes, or OPEN */
    uint16_t *pairs;
    uint32_t rows[256]; /* by a character's first byte: its row in `first` */
    size_t n_states, n_targets;
    uint16_t at_end; /* the state behind the text's end */
    bool looks_behind;
};

#endif
