/* A template's source as tokens, white space around tags taken away as Jinja's trim_blocks and lstrip_blocks say. */
#ifndef ATTN_JINJA_LEXER_H
#define ATTN_JINJA_LEXER_H

#include "jinja/jinja.h"

typedef enum TokenKind {
    TEXT_TOKEN,       /* what lies between tags: text, never empty */
    STATEMENT_TOKEN,  /* {% */
    EXPRESSION_TOKEN, /* {{ */
    CLOSE_TOKEN,      /* the end of either */
    NAME_TOKEN,       /* text */
    CONST_TOKEN,      /* a number or a string: value */
    OPERATOR_TOKEN,   /* op: a character, or OP_… */
    END_TOKEN,
} TokenKind;

typedef struct Token {
    TokenKind kind;
    uint8_t op;
    uint32_t line;
    String text;
    Any value;
} Token;

typedef struct Lexer {
    Pool *pool; /* of strings with escapes */
    String source;
    size_t at;
    uint32_t line;
    char tag;        /* '%' or '{' within such a tag, 0 between them */
    size_t brackets; /* open within the tag */
    bool after_dot;
} Lexer;

/* The next token; after END_TOKEN comes another. False with an error that names the line. */
bool lexer_next(Lexer *lexer, Token *token, Error *error);

#endif
