/* Reads SentencePiece's model files: ModelProto of sentencepiece_model.proto, a message of protobuf. */
#ifndef ATTN_SENTENCEPIECE_H
#define ATTN_SENTENCEPIECE_H

#include "base/error.h"
#include "base/text.h"

typedef struct Piece {
    String text;
    float score;
    int32_t type; /* 1 to 6, which are GGUF's numbers of tokenizer.ggml.token_type, too */
} Piece;

enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };

/* Texts lie in the file's bytes. */
typedef struct SentencePiece {
    Piece *pieces; /* [n] by id; the caller frees it, also after a failure */
    size_t n;
    uint64_t model_type;               /* 1: Unigram, 2: BPE, 3: words, 4: characters */
    String bos, eos, pad;              /* what the pieces with these roles are called */
    String normalization;              /* its name, for people */
    size_t n_charsmap;                 /* bytes of a table that rewrites characters */
    bool add_dummy_prefix;             /* a space in front of a text */
    bool remove_extra_whitespaces;     /* at both ends of a text, and where one stands before */
    bool escape_whitespaces, suffixed; /* a space is ▁; it belongs to the word before */
} SentencePiece;

/* Fills *model, which starts as {0}, from all n bytes of a file. False with an error that says what is wrong, but not where. */
bool sentencepiece_read(SentencePiece *model, const char *bytes, size_t n, Error *error);

#endif
