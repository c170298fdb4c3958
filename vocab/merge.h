/*
 * Merging: a piece of text ─► symbols, one per byte (byte-level BPE, whose pieces are words) or character ─► merged pair by
 * pair, the best pair of the piece first, until none is left ─► ids.
 *
 * The pairs that could merge are in a heap and the symbols in a linked list. So n symbols take O(n log n) time, which
 * matters: a megabyte of one letter is a single word.
 */
#ifndef ATTN_MERGE_H
#define ATTN_MERGE_H

#include "base/error.h"
#include "vocab/tokens.h"
#include "vocab/vocab.h"

typedef struct Symbol Symbol;
typedef struct Candidate Candidate;
typedef struct CachedPiece CachedPiece;

/*
 * Merges the pieces of one text. Most words of a text stood in it before, so this remembers short pieces with their ids,
 * as many as the length of the text promises and 2 MiB hold. When two pieces share a slot, the later one stays.
 */
typedef struct Merger {
    const Vocab *vocab;
    const unsigned char *steers; /* a bit for each token that no text may become; or NULL */
    Tokens *tokens;              /* where they go */
    Error *error;

    /* Its own. */
    CachedPiece *cache; /* [n_cache] by hash */
    size_t n_cache;     /* a power of two */
    bool after_unknown; /* the last character was unknown, and its token is pushed */
    bool saw_unknown;   /* what was merged has such a character, and depends on more than its own text */
    const char *text;   /* what is being merged */
    Symbol *symbols;    /* [capacity] */
    Candidate *heap; /* [2 · capacity]: n symbols begin with n − 1 pairs, and a merge trades one for two */
    size_t n_heap, capacity;
} Merger;

/*
 * Makes it ready for a text of n_bytes; the caller has set the first members, which are borrowed, and all others are zero.
 * False when memory runs out, without an error. Call merger_end in any case.
 */
bool merger_begin(Merger *merger, size_t n_bytes);
void merger_end(Merger *merger);

/*
 * The functions of a PieceTaker whose context is a Merger. The first appends a token as it is; the second the tokens of a
 * piece, which merges with nothing around it. They fail when memory runs out, or when the vocabulary has no way to write a
 * byte.
 */
bool merge_token(void *merger, int32_t id);
bool merge_piece(void *merger, const char *text, size_t n);

#endif
