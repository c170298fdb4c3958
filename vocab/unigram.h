/* Unigram: of all ways to cut a text into pieces, the one whose scores sum to the most (Kudo 2018, arXiv:1804.10959). */
#ifndef ATTN_UNIGRAM_H
#define ATTN_UNIGRAM_H

#include "vocab/prefixes.h"
#include "vocab/tokens.h"

enum { UNIGRAM_MAX_PIECE = 512 }; /* bytes; each place of a text is compared with that many at most */

typedef struct Unigram {
    Prefixes pieces; /* sorted; id: of the token */
    double *scores;  /* [tokens] logarithms of probabilities */
    double unknown_score;
    int32_t unknown;         /* −1: none */
    const int32_t *byte_ids; /* [256], −1: none; NULL where bytes do not stand for unknown characters */
} Unigram;

/*
 * Appends the tokens of a text, none of which has its bit in `steers` (NULL: any may be). A character that is no piece is unknown; neighbours of that kind are one token, or
 * those of their bytes. Linear time. Fails when memory runs out, or when there is no token for what is unknown.
 */
bool unigram_encode(const Unigram *unigram, String text, const unsigned char *steers, Tokens *tokens,
                    Error *error);

#endif
