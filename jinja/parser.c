/* The tokens and nodes that all parsing of templates needs, and its errors. */
#include "jinja/parser.h"

#include <stdarg.h>
#include <stdio.h>

Node *parser_fail(Parser *p, const char *format, ...) {
    char what[256];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (!p->failed) error_set(p->error, "the chat template, line %u: %s", p->token.line, what);
    p->failed = true;
    p->token = (Token){.kind = END_TOKEN, .line = p->token.line};
    return NULL;
}

void parser_advance(Parser *p) {
    if (p->failed || lexer_next(&p->lexer, &p->token, p->error)) return;
    p->failed = true;
    p->token = (Token){.kind = END_TOKEN};
}

bool parser_skip_name(Parser *p, const char *name) {
    bool is = is_name(p->token, name);
    if (is) parser_advance(p);
    return is;
}

bool parser_skip_op(Parser *p, unsigned op) {
    bool is = is_op(p->token, op);
    if (is) parser_advance(p);
    return is;
}

void parser_expect_op(Parser *p, char op) {
    if (!parser_skip_op(p, (unsigned char)op)) parser_fail(p, "'%c' is missing", op);
}

void parser_expect_close(Parser *p) {
    if (p->token.kind == CLOSE_TOKEN)
        parser_advance(p);
    else
        parser_fail(p, "the tag should end here");
}

String parser_expect_name(Parser *p) {
    String name = p->token.text;
    if (p->token.kind != NAME_TOKEN) parser_fail(p, "a name is missing");
    parser_advance(p);
    return name;
}

void *parser_take(Parser *p, size_t n) {
    void *taken = p->failed ? NULL : pool_take(p->lexer.pool, n);
    if (!taken) parser_fail(p, "not enough memory");
    return taken;
}

Node *parser_node(Parser *p, NodeKind kind) {
    Node *node = parser_take(p, sizeof *node);
    if (!node) node = &p->none;
    node->kind = (uint8_t)kind;
    node->line = p->token.line;
    return node;
}

Node *parser_node_of(Parser *p, NodeKind kind, Node *a, Node *b) {
    Node *node = parser_node(p, kind);
    node->a = a, node->b = b;
    if (a && !p->failed) node->line = a->line;
    return node;
}

bool parser_enter(Parser *p) {
    if (++p->depth > TEMPLATE_MAX_NESTING) parser_fail(p, "too much within each other");
    return !p->failed;
}
