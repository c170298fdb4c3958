/*
 * The vocabulary of a tokenizer as a file describes it: the bytes of every token, what kind of token it
 * is, which pairs merge, how text is cut before, and fast look-ups of all that.
 */
#ifndef ATTN_VOCAB_H
#define ATTN_VOCAB_H

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "regex/pattern.h"
#include "vocab/pieces.h"
#include "vocab/prefixes.h"
#include "vocab/pretokenizers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The order in which pairs merge: a list of merges, or the scores of the tokens that they make; or Unigram's scores. */
typedef enum VocabKind { VOCAB_BPE, VOCAB_SPM, VOCAB_UNIGRAM } VocabKind;

/* The values are GGUF's own (tokenizer.ggml.token_type). */
typedef enum TokenType {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,      /* stands for what has no token */
    TOKEN_CONTROL,      /* <|endoftext|>: steers the model and is not text */
    TOKEN_USER_DEFINED, /* text that is one token wherever it appears */
    TOKEN_UNUSED,
    TOKEN_BYTE, /* SentencePiece's <0x0A> */
} TokenType;

/* One way to make a token of two. */
typedef struct Merge {
    uint32_t left; /* bytes of the first of the two */
    uint32_t next; /* order of the next merge in the file that makes the same token, 0: none */
} Merge;

enum { BEGINS_SPECIAL = 1, BEGINS_DEFINED = 2 };

enum { MAX_ENDS = 16 };

typedef struct Vocab {
    VocabKind kind;
    char name[64];    /* for people */
    bool byte_level;  /* merging begins with bytes; else with characters, and ▁ in a token is a space */
    bool whole_words; /* a piece of text that is a token is not merged: merges do not reach all tokens */
    bool verbatim;    /* not byte_level, and tokens are as the file has them, apart from … */
    bool swaps_spaces; /* … ▁, which stands here as a space, and spaces as ▁: in tokens and pieces of text */
    bool fuses_unknown;   /* unknown characters side by side are one unknown token */
    bool unknown_bytes;   /* what no token writes, a byte too, is `unknown`, or fails where there is none */
    size_t n;             /* tokens */
    char *bytes;          /* all texts end to end, as in running text; for control tokens their names */
    unsigned char *types; /* [n] TokenType */

    /* Four tables in one block, which begins with the first. */
    uint32_t *by_text; /* hash table of texts, as vocab.c places them: id + 1, and in other bits a hash's */
    uint32_t *orders;  /* [n] the pair whose token has the lowest order merges first */
    uint32_t *starts;  /* [n + 1] text i is bytes[starts[i], starts[i + 1]) */
    Merge *merges;     /* VOCAB_BPE: by order, 1 and up; orders has each token's first, or 0 */

    uint32_t id_mask;              /* the bits of by_text that hold id + 1 */
    size_t longest;                /* bytes of the longest text in by_text */
    bool distinct;                 /* no two normal tokens have the same text */
    unsigned char joined[256][32]; /* bit: byte b follows byte a within some text of by_text */
    int32_t byte_ids[256];         /* −1: no token */

    Prefixes
        specials; /* control, unknown and user-defined tokens, found before the rest of a text is split */
    /* By first byte: BEGINS_SPECIAL, and BEGINS_DEFINED if one of them is user-defined. */
    unsigned char begins[256];

    CutText *cut; /* how a text is cut before it merges */
    /* fragments_cut uses them: each cuts the pieces of text that the one before left, where its matches begin and end. */
    Pattern *patterns[MAX_PATTERNS];
    size_t n_patterns;

    int32_t bos, eos, eot, unknown; /* ids, −1: none */
    int32_t ends[MAX_ENDS];         /* [n_ends] other ids that end a text, by the file */
    size_t n_ends;
    bool add_bos, add_eos, add_space;
    bool squeezes_spaces; /* VOCAB_SPM: of spaces side by side one counts, at the ends of a text none */

    /* Of a tokenizer.json; NULL and 0 otherwise. */
    struct Pipeline *pipeline; /* what is done to a text before */
    struct Unigram *unigram;   /* of VOCAB_UNIGRAM */
    char *shown;               /* the texts that tokens become in running text, if not those in bytes … */
    uint32_t *shown_starts;    /* … [n + 1] likewise */

    /* The start of a decoded text. */
    char stripped[4];                 /* a character of which the first … */
    size_t stripped_length, n_strips; /* … n_strips are dropped there */
    bool bare_first;                  /* the first token loses its spaces */
    bool control_opens;               /* a control token that is shown counts as the first */
} Vocab;

/* Up to 8 bytes as a number: the first in its lowest byte, zeros after the last. */
static inline uint64_t text_word(const char *text, size_t n) {
    uint64_t word = 0;
    uint32_t half[2];
    if (n == 8) {
        memcpy(&word, text, 8);
    } else if (n >= 4) {
        memcpy(&half[0], text, 4);
        memcpy(&half[1], text + n - 4, 4);
        word = half[0] | (uint64_t)half[1] << 8 * (n - 4);
    } else if (n > 0) {
        word = (unsigned char)text[0] | (uint64_t)(unsigned char)text[n / 2] << 8 * (n / 2) |
               (uint64_t)(unsigned char)text[n - 1] << 8 * (n - 1);
    }
    return word;
}

/* Fills *vocab from tokenizer.ggml.… (vocab/vocab_gguf.c). Call vocab_free after a failure too. */
bool vocab_load(Vocab *vocab, const Checkpoint *checkpoint, Error *error);
void vocab_free(Vocab *vocab);

/* Likewise from the text of a tokenizer.json, tokenizer.huggingface.json (vocab/vocab_json.c). */
bool vocab_load_json(Vocab *vocab, const Checkpoint *checkpoint, Error *error);

/* Reads who is BOS, EOS, end of turn and unknown, and what is put, from tokenizer.ggml.…; what is not there stays. */
bool vocab_read_roles(Vocab *vocab, const Checkpoint *checkpoint, Error *error);

/*
 * Filling a Vocab of zeros, whose kind and flags are set, from any source: vocab_begin, vocab_add_token for each id from
 * 0 on, then vocab_add_merge from the first to the last, or vocab_set_score for each id; then vocab_end, also after a
 * failure. The caller sets the ids with a role. The first five members are the caller's; the others begin as zeros.
 */
typedef struct VocabBuilder {
    Vocab *vocab;
    Error *error;
    const char *path, *tokens, *merges; /* for errors: the file, and what it calls its tokens and merges */
    size_t n_tokens, n_merges;          /* added so far */
    int32_t last;                       /* the token that the last merge makes */
    char *scratch;                      /* a merge's text */
    bool
        strict; /* parts of merges must be tokens, and of equal merges the last counts: Hugging Face's rules */
    bool apart; /* the next token is not what text becomes by merging */
} VocabBuilder;

/* Makes room for n tokens, spelt by n_bytes in all, and n_merges. */
bool vocab_begin(VocabBuilder *builder, size_t n, size_t n_bytes, size_t n_merges);
/*
 * Spelt as files do: GPT-2's characters for bytes, or ▁ for spaces and <0x0A> for bytes. STRING_PADDING lies behind it.
 */
bool vocab_add_token(VocabBuilder *builder, String spelt, TokenType type);
bool vocab_add_merge(VocabBuilder *builder, String left, String right); /* likewise */
void vocab_set_score(Vocab *vocab, size_t id, float score);             /* not NaN */
/* Returns whether the Vocab is ready, which it is not unless ok. */
bool vocab_end(VocabBuilder *builder, bool ok);

/* The text of a token of the vocabulary. */
String vocab_text(const Vocab *vocab, int32_t id);

/* The text that a token stands for; of a control token its name. */
String vocab_shown(const Vocab *vocab, int32_t id);

/* The token of exactly this text, or −1. SentencePiece's control and byte tokens are not text. */
int32_t vocab_find(const Vocab *vocab, String text);

/* Whether some token spans a place between these two bytes. If not, no merge ever crosses it. */
static inline bool vocab_joins(const Vocab *vocab, char a, char b) {
    return vocab->joined[(unsigned char)a][(unsigned char)b / 8] >> (unsigned char)b % 8 & 1;
}

/*
 * The token that the text becomes if its first `left` bytes, a token, and the others, one too, merge, and the merge's
 * *order; −1 if they do not.
 */
int32_t vocab_find_merge(const Vocab *vocab, String text, size_t left, uint32_t *order);

/* The longest special token that text[0, n), n > 0, starts with, or NULL; without `control`, user-defined only. */
const Prefix *vocab_find_special(const Vocab *vocab, const char *text, size_t n, bool control);

#endif
