/* A regular expression as nodes of an automaton: what regex/compile.c makes tables of. For compile.c only. */
#ifndef ATTN_AUTOMATON_H
#define ATTN_AUTOMATON_H

#include "base/error.h"
#include "base/text.h"
#include "unicode/charset.h"

typedef enum RegexNodeKind {
    NODE_MATCH,  /* the end of the expression, or of a lookahead */
    NODE_SET,    /* takes a character of sets[set], then `next` */
    NODE_SPLIT,  /* `next`, or if that cannot match, `other` */
    NODE_LOOP,   /* the same; the one of both that is not `exit` leads back here */
    NODE_AHEAD,  /* `next`, where what begins at `other` matches from here on; or, if negated, does not */
    NODE_BEHIND, /* `next`, where the character before is of sets[set]; or, if negated, is not */
} RegexNodeKind;

typedef struct RegexNode {
    RegexNodeKind kind;
    bool negated;
    unsigned char level; /* lookaheads that it is part of, one within the other */
    uint16_t set, next, other, exit;
} RegexNode;

typedef struct Program {
    RegexNode *nodes; /* [n]; nodes[0] ends the expression */
    size_t n, capacity;
    CharSet *sets; /* [n_sets] sorted, no two equal */
    size_t n_sets, sets_capacity;
    uint16_t start;
    unsigned char n_levels; /* levels are below */
    bool looks_behind;      /* has a NODE_BEHIND */
} Program;

/* Reads an expression as regex/pattern.h describes it. Call program_free after a failure too. */
bool program_read(Program *program, String text, Error *error);
void program_free(Program *program);

#endif
