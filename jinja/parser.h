/*
 * A parser of templates: expressions.c parses what stands in tags, parse.c the statements; names.c knows whose names are; and
 * parser.c has what all need.
 */
#ifndef ATTN_JINJA_PARSER_H
#define ATTN_JINJA_PARSER_H

#include "jinja/lexer.h"

/* The names that a scope's own statements use, without those of the scopes within. */
typedef struct NameScope {
    struct NameScope *outer;
    struct NameScope *before; /* the one that began before, of all */
    struct UsedName *names;   /* the latest first */
    Node **body;              /* its statements */
} NameScope;

/* After an error all tokens are ends, so that every function comes back soon. */
typedef struct Parser {
    Lexer lexer;
    Token token;
    Error *error;
    bool failed;
    unsigned depth;            /* of calls of enter */
    unsigned uses;             /* special names that the innermost macro has */
    Node none;                 /* of new_node */
    unsigned loops;            /* around the statement, within the macro */
    unsigned fors;             /* around the statement */
    NameScope *scope, *scopes; /* the current one; the one that began last */
    unsigned names;            /* of all scopes */
} Parser;

/* An error at the current token, if it is the first; NULL. */
Node *parser_fail(Parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

void parser_advance(Parser *p);

static inline bool is_name(Token token, const char *name) {
    return token.kind == NAME_TOKEN && string_equals(token.text, name);
}
static inline bool is_op(Token token, unsigned op) { return token.kind == OPERATOR_TOKEN && token.op == op; }

/* Takes the token if it is that. */
bool parser_skip_name(Parser *p, const char *name);
bool parser_skip_op(Parser *p, unsigned op);

/* Takes the token, which must be that: an operator, the end of the tag, a name. */
void parser_expect_op(Parser *p, char op);
void parser_expect_close(Parser *p);
String parser_expect_name(Parser *p);

/* Likewise a name that a value is to have. */
String parser_new_name(Parser *p);

/* USES_… of the name, 0 for most. */
unsigned special_name(String name);

/* n bytes, zeros, of the template's pool; NULL after an error. */
void *parser_take(Parser *p, size_t n);

/* A node, never NULL: after an error one that nobody looks at. node_of has up to two parts. */
Node *parser_node(Parser *p, NodeKind kind);
Node *parser_node_of(Parser *p, NodeKind kind, Node *a, Node *b);

/* Whether there may be another level; followed by `p->depth--`. */
bool parser_enter(Parser *p);

/* A scope's statements are parsed between these, and lie at `body`. */
void names_begin(Parser *p);
void names_end(Parser *p, Node **body);

/* Notes that the current scope uses a name, to set it by a statement or otherwise. */
void names_use(Parser *p, String name, bool sets);

/*
 * What the branches of an `if` use, each as if the others were not there: names_fork before them, names_branch behind the body
 * (0), all `elif`s together (1) and `else` (2), of which any may be missing, then names_join.
 */
enum { N_BRANCHES = 3 };
typedef struct NameBranches {
    struct UsedName *before, *names[N_BRANCHES];
} NameBranches;
NameBranches names_fork(const Parser *p);
void names_branch(Parser *p, NameBranches *branches, size_t i);
void names_join(Parser *p, const NameBranches *branches);

/* When all is parsed: lets scopes begin with statements that make names undefined, where they are that until they are set. */
void names_hide(Parser *p);

/* One expression by `parse`, or a tuple of several with commas between them. */
typedef Node *Parse(Parser *p);
Node *parse_tuple(Parser *p, Parse *parse);
Node *parse_expression(Parser *p);
Node *parse_or(Parser *p); /* without a condition */
Node *parse_filters(Parser *p,
                    Node *node); /* a chain of filters of a node, or of NULL, from the first name on */

#endif
