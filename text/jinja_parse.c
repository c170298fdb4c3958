/*
 * A template's source as a tree (jinja.h): a parser by recursive descent, whose grammar and precedences are those of jinja2's
 * parser.py (3.1). After an error all tokens are ends, so that every function comes back soon.
 */
#include "text/jinja_lexer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct Parser {
    Lexer lexer;
    Token token;
    Error *error;
    bool failed;
    unsigned depth; /* of calls of enter */
    unsigned uses;  /* special names that the innermost macro has */
    Node none;      /* of new_node */
    unsigned loops; /* around the statement, within the macro */
} Parser;

static Node *parse_expression(Parser *p);
static Node *parse_statements(Parser *p, const char *ends);

static Node *parse_fail(Parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static Node *parse_fail(Parser *p, const char *format, ...) {
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

static void advance(Parser *p) {
    if (p->failed || lexer_next(&p->lexer, &p->token, p->error)) return;
    p->failed = true;
    p->token = (Token){.kind = END_TOKEN};
}

/* The token after the current one. */
static Token look(const Parser *p) {
    Lexer ahead = p->lexer;
    Token token = {.kind = END_TOKEN};
    if (!p->failed && !lexer_next(&ahead, &token, NULL)) token = (Token){.kind = END_TOKEN};
    return token;
}

static bool is_name(Token token, const char *name) {
    return token.kind == NAME_TOKEN && string_equals(token.text, name);
}
static bool is_op(Token token, unsigned op) { return token.kind == OPERATOR_TOKEN && token.op == op; }

static bool skip_name(Parser *p, const char *name) {
    bool is = is_name(p->token, name);
    if (is) advance(p);
    return is;
}

static bool skip_op(Parser *p, unsigned op) {
    bool is = is_op(p->token, op);
    if (is) advance(p);
    return is;
}

static void expect_op(Parser *p, char op) {
    if (!skip_op(p, (unsigned char)op)) parse_fail(p, "'%c' is missing", op);
}

static void expect_close(Parser *p) {
    if (p->token.kind == CLOSE_TOKEN)
        advance(p);
    else
        parse_fail(p, "the tag should end here");
}

static String expect_name(Parser *p) {
    String name = p->token.text;
    if (p->token.kind != NAME_TOKEN) parse_fail(p, "a name is missing");
    advance(p);
    return name;
}

/* A node, never NULL: after an error one that nobody looks at. */
static Node *new_node(Parser *p, NodeKind kind) {
    Node *node = p->failed ? &p->none : pool_take(p->lexer.pool, sizeof *node);
    if (!node) {
        parse_fail(p, "not enough memory");
        node = &p->none;
    }
    node->kind = (uint8_t)kind;
    node->line = p->token.line;
    return node;
}

/* A node of up to three parts. */
static Node *node_of(Parser *p, NodeKind kind, Node *a, Node *b, Node *c) {
    Node *node = new_node(p, kind);
    node->a = a, node->b = b, node->c = c;
    if (a && !p->failed) node->line = a->line;
    return node;
}

/* Whether there may be another level; followed by `p->depth--`. */
static bool enter(Parser *p) {
    if (++p->depth > TEMPLATE_MAX_NESTING) parse_fail(p, "too much within each other");
    return !p->failed;
}

/* ---- Expressions ---- */

/* The arguments of a call, from its bracket on. */
static Node *parse_arguments(Parser *p) {
    Node *first = NULL, **tail = &first;
    bool named = false;
    expect_op(p, '(');
    while (!p->failed && !is_op(p->token, ')')) {
        Node *node = new_node(p, NODE_ARGUMENT);
        if (is_op(p->token, '*') || is_op(p->token, OP_POWER)) {
            node->op = p->token.op;
            advance(p);
        } else if (p->token.kind == NAME_TOKEN && is_op(look(p), '=')) {
            node->text = expect_name(p);
            advance(p);
        } else if (named) {
            parse_fail(p, "an argument without a name comes behind one that has one");
        }
        named = named || node->text.n || node->op == OP_POWER;
        node->a = parse_expression(p);
        *tail = node, tail = &node->next;
        if (!skip_op(p, ',')) break;
    }
    expect_op(p, ')');
    return first;
}

/* Whether an expression can not begin here, so that a comma before it was the last. */
static bool is_tuple_end(const Parser *p, bool is_target) {
    return p->token.kind == CLOSE_TOKEN || is_op(p->token, ')') || (is_target && is_name(p->token, "in"));
}

/* Items with commas between them, up to `close`, which is left. */
static Node *parse_items(Parser *p, char close, bool pairs) {
    Node *first = NULL, **tail = &first;
    while (!p->failed && !is_op(p->token, (unsigned char)close)) {
        Node *item = parse_expression(p);
        *tail = item, tail = &item->next;
        if (pairs) {
            expect_op(p, ':');
            item = parse_expression(p);
            *tail = item, tail = &item->next;
        }
        if (!skip_op(p, ',')) break;
    }
    return first;
}

typedef Node *Parse(Parser *p);

/* One expression, or a tuple of several with commas between them. */
static Node *parse_tuple(Parser *p, Parse *parse) {
    Node *tuple = new_node(p, NODE_TUPLE), **tail = &tuple->a;
    bool is_tuple = false;
    while (!p->failed && !is_tuple_end(p, false)) {
        *tail = parse(p);
        tail = &(*tail)->next;
        if (!is_op(p->token, ',')) break;
        is_tuple = true;
        advance(p);
    }
    if (is_tuple || p->failed) return tuple;
    return tuple->a ? tuple->a : tuple;
}

static Node *parse_primary(Parser *p) {
    Node *node = new_node(p, NODE_CONST);
    Token token = p->token;
    if (token.kind == CONST_TOKEN) {
        node->value = token.value;
        for (advance(p); node->value.kind == VALUE_STRING && p->token.kind == CONST_TOKEN &&
                         p->token.value.kind == VALUE_STRING;
             advance(p)) { /* strings that follow each other are one */
            String a = text_of(node->value), b = text_of(p->token.value);
            char *both = pool_take(p->lexer.pool, a.n + b.n + 1);
            if (!both) return parse_fail(p, "not enough memory"), node;
            memcpy(both, a.data, a.n);
            memcpy(both + a.n, b.data, b.n);
            node->value = value_text(both, a.n + b.n);
        }
    } else if (token.kind == NAME_TOKEN) {
        static const char *const names[] = {"false", "False", "true", "True", "none", "None"};
        advance(p);
        for (size_t i = 0; i < 6; i++)
            if (is_name(token, names[i])) {
                node->value = i < 4 ? value_bool(i >= 2) : value_of_kind(VALUE_NONE);
                return node;
            }
        node->kind = NODE_NAME;
        node->text = token.text;
        if (is_name(token, "varargs")) p->uses |= USES_VARARGS;
        if (is_name(token, "kwargs")) p->uses |= USES_KWARGS;
        if (is_name(token, "caller")) p->uses |= USES_CALLER;
    } else if (skip_op(p, '(')) {
        bool empty = is_op(p->token, ')');
        node = parse_tuple(p, parse_expression);
        if (!empty && node->kind == NODE_TUPLE && !node->a) parse_fail(p, "an expression is missing");
        expect_op(p, ')');
    } else if (skip_op(p, '[')) {
        node->kind = NODE_LIST;
        node->a = parse_items(p, ']', false);
        expect_op(p, ']');
    } else if (skip_op(p, '{')) {
        node->kind = NODE_DICT;
        node->a = parse_items(p, '}', true);
        expect_op(p, '}');
    } else {
        parse_fail(p, "an expression is missing");
    }
    return node;
}

/* What stands in the brackets of a[…], which are open: an expression, or a slice. */
static Node *parse_subscript(Parser *p) {
    Node *slice = new_node(p, NODE_SLICE), **parts[] = {&slice->a, &slice->b, &slice->c};
    bool colon = false;
    for (size_t i = 0; i < 3; i++) {
        if (!is_op(p->token, ':') && !is_op(p->token, ']')) *parts[i] = parse_expression(p);
        if (i == 2 || !skip_op(p, ':')) break;
        colon = true;
    }
    if (!colon && !slice->a) parse_fail(p, "an expression is missing");
    return colon ? slice : slice->a;
}

static Node *parse_postfix(Parser *p, Node *node) {
    while (!p->failed) {
        if (is_op(p->token, '(')) {
            node = node_of(p, NODE_CALL, node, NULL, NULL);
            node->args = parse_arguments(p);
        } else if (skip_op(p, '[')) {
            node = node_of(p, NODE_GETITEM, node, NULL, NULL);
            node->b = parse_subscript(p);
            expect_op(p, ']');
        } else if (skip_op(p, '.')) {
            bool number = p->token.kind == CONST_TOKEN && p->token.value.kind == VALUE_INT;
            node = node_of(p, number ? NODE_GETITEM : NODE_GETATTR, node, NULL, NULL);
            if (number)
                node->b = parse_primary(p);
            else
                node->text = expect_name(p);
        } else {
            break;
        }
    }
    return node;
}

/* A chain of filters, from the first name on. */
static Node *parse_filters(Parser *p, Node *node) {
    do {
        node = node_of(p, NODE_FILTER, node, NULL, NULL);
        node->line = p->token.line;
        node->text = expect_name(p);
        if (is_op(p->token, '(')) node->args = parse_arguments(p);
    } while (skip_op(p, '|'));
    return node;
}

static Node *parse_test(Parser *p, Node *node) {
    bool negated = skip_name(p, "not");
    node = node_of(p, NODE_TEST, node, NULL, NULL);
    node->text = expect_name(p);
    bool word = p->token.kind == NAME_TOKEN && !is_name(p->token, "else") && !is_name(p->token, "or") &&
                !is_name(p->token, "and") && !is_name(p->token, "if") && !is_name(p->token, "is");
    if (is_op(p->token, '(')) {
        node->args = parse_arguments(p);
    } else if (word || p->token.kind == CONST_TOKEN || is_op(p->token, '[') || is_op(p->token, '{')) {
        node->args = new_node(p, NODE_ARGUMENT);
        node->args->a = parse_postfix(p, parse_primary(p));
    }
    return negated ? node_of(p, NODE_NOT, node, NULL, NULL) : node;
}

static Node *parse_unary(Parser *p, bool filters) {
    Node *node;
    if (is_op(p->token, '-') || is_op(p->token, '+')) {
        NodeKind kind = p->token.op == '-' ? NODE_NEGATIVE : NODE_POSITIVE;
        advance(p);
        node = new_node(p, kind);
        if (enter(p)) node->a = parse_unary(p, false);
        p->depth--;
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    while (filters && !p->failed)
        if (skip_op(p, '|'))
            node = parse_filters(p, node);
        else if (skip_name(p, "is"))
            node = parse_test(p, node);
        else if (is_op(p->token, '('))
            node = parse_postfix(p, node);
        else
            break;
    return node;
}

/* Operators that bind from left to right, each level tighter than the one before. */
static Node *parse_binary(Parser *p, size_t level) {
    static const uint8_t levels[][5] = {{'+', '-'}, {'~'}, {'*', '/', OP_FLOOR, '%'}, {OP_POWER}};
    if (level == 4) return parse_unary(p, true);
    Node *node = parse_binary(p, level + 1), **tail = NULL;
    while (p->token.kind == OPERATOR_TOKEN && memchr(levels[level], p->token.op, 4)) {
        uint8_t op = p->token.op;
        advance(p);
        Node *right = parse_binary(p, level + 1);
        if (op != '~') {
            node = node_of(p, NODE_BINARY, node, right, NULL);
            node->op = op;
            continue;
        }
        if (!tail) tail = &node->next, node = node_of(p, NODE_CONCAT, node, NULL, NULL);
        *tail = right, tail = &right->next;
    }
    return node;
}

/* The operator of a comparison that stands here, which is taken; 0: none. */
static uint8_t take_comparison(Parser *p) {
    uint8_t op = 0;
    if (p->token.kind == OPERATOR_TOKEN && p->token.op) {
        bool is = strchr("<>", p->token.op) || (p->token.op >= OP_EQUAL && p->token.op <= OP_AT_LEAST);
        op = is ? p->token.op : 0;
    } else if (is_name(p->token, "in")) {
        op = OP_IN;
    } else if (is_name(p->token, "not") && is_name(look(p), "in")) {
        op = OP_NOT_IN;
        advance(p);
    }
    if (op) advance(p);
    return op;
}

static Node *parse_comparison(Parser *p) {
    Node *node = parse_binary(p, 0), **tail = NULL;
    for (uint8_t op; (op = take_comparison(p)) != 0;) {
        if (!tail) node = node_of(p, NODE_COMPARE, node, NULL, NULL), tail = &node->b;
        Node *operand = new_node(p, NODE_OPERAND);
        operand->op = op;
        operand->a = parse_binary(p, 0);
        *tail = operand, tail = &operand->next;
    }
    return node;
}

static Node *parse_not(Parser *p) {
    if (!skip_name(p, "not")) return parse_comparison(p);
    Node *node = new_node(p, NODE_NOT);
    if (enter(p)) node->a = parse_not(p);
    p->depth--;
    return node;
}

static Node *parse_and(Parser *p) {
    Node *node = parse_not(p);
    while (skip_name(p, "and")) node = node_of(p, NODE_AND, node, parse_not(p), NULL);
    return node;
}

static Node *parse_or(Parser *p) {
    Node *node = parse_and(p);
    while (skip_name(p, "or")) node = node_of(p, NODE_OR, node, parse_and(p), NULL);
    return node;
}

static Node *parse_expression(Parser *p) {
    Node *node = enter(p) ? parse_or(p) : &p->none;
    while (skip_name(p, "if")) {
        Node *test = parse_or(p);
        node = node_of(p, NODE_CONDITION, test, node, NULL);
        if (skip_name(p, "else")) node->c = parse_expression(p);
    }
    p->depth--;
    return node;
}

/* ---- Statements ---- */

/* What is assigned to: names, in brackets or not, with commas between them; with `attributes` also one name.name. */
static Node *parse_target(Parser *p, bool attributes) {
    Node *tuple = new_node(p, NODE_TUPLE), **tail = &tuple->a;
    bool is_tuple = false;
    while (!p->failed && !is_tuple_end(p, true)) {
        Node *item;
        if (skip_op(p, '(')) {
            item = enter(p) ? parse_target(p, false) : &p->none;
            p->depth--;
            expect_op(p, ')');
        } else {
            item = new_node(p, NODE_NAME);
            item->text = expect_name(p);
        }
        if (attributes && !is_tuple && skip_op(p, '.')) {
            item = node_of(p, NODE_GETATTR, item, NULL, NULL);
            item->text = expect_name(p);
        }
        *tail = item, tail = &item->next;
        if (!skip_op(p, ',')) break;
        is_tuple = true;
    }
    if (!tuple->a) parse_fail(p, "a name is missing");
    return is_tuple || p->failed ? tuple : tuple->a;
}

/* Statements up to one of the words, which is then the token. */
static Node *parse_body(Parser *p, const char *ends) {
    expect_close(p);
    Node *body = enter(p) ? parse_statements(p, ends) : NULL;
    p->depth--;
    return body;
}

/* Likewise up to this one word, which is taken. */
static Node *parse_last_body(Parser *p, const char *end) {
    Node *body = parse_body(p, end);
    advance(p);
    return body;
}

static void parse_if(Parser *p, Node *node) {
    for (;;) {
        node->a = parse_tuple(p, parse_or);
        node->body = parse_body(p, " elif else endif");
        bool is_elif = skip_name(p, "elif");
        if (!is_elif || p->failed) break;
        Node *next = new_node(p, NODE_IF);
        next->op = 1;
        node = node->other = next;
    }
    if (skip_name(p, "else"))
        node->other = parse_last_body(p, " endif");
    else
        advance(p);
}

static void parse_for(Parser *p, Node *node) {
    node->a = parse_target(p, false);
    if (!skip_name(p, "in")) parse_fail(p, "'in' is missing");
    node->b = parse_tuple(p, parse_or);
    if (skip_name(p, "if")) node->c = parse_expression(p);
    if (is_name(p->token, "recursive")) parse_fail(p, "recursive loops are not known here");
    p->loops++;
    node->body = parse_body(p, " else endfor");
    p->loops--;
    if (skip_name(p, "else"))
        node->other = parse_last_body(p, " endfor");
    else
        advance(p);
}

static void parse_set(Parser *p, Node *node) {
    node->a = parse_target(p, true);
    if (skip_op(p, '=')) {
        node->b = parse_tuple(p, parse_expression);
    } else {
        if (skip_op(p, '|')) node->c = parse_filters(p, NULL);
        node->body = parse_last_body(p, " endset");
    }
}

static void parse_parameters(Parser *p, Node *macro) {
    Node **tail = &macro->args;
    expect_op(p, '(');
    while (!p->failed && !is_op(p->token, ')')) {
        Node *parameter = new_node(p, NODE_ARGUMENT);
        parameter->text = expect_name(p);
        if (skip_op(p, '=')) parameter->a = parse_expression(p);
        *tail = parameter, tail = &parameter->next;
        if (!skip_op(p, ',')) break;
    }
    expect_op(p, ')');
}

static void parse_macro_body(Parser *p, Node *macro, const char *end) {
    unsigned uses = p->uses, loops = p->loops;
    p->uses = p->loops = 0;
    macro->body = parse_last_body(p, end);
    macro->op = (uint8_t)p->uses;
    p->uses |= uses, p->loops = loops;
}

static void parse_macro(Parser *p, Node *node) {
    node->text = expect_name(p);
    parse_parameters(p, node);
    parse_macro_body(p, node, " endmacro");
}

static void parse_call_block(Parser *p, Node *node) {
    node->b = new_node(p, NODE_MACRO);
    node->b->text = (String){"caller", 6};
    if (is_op(p->token, '(')) parse_parameters(p, node->b);
    node->a = parse_expression(p);
    if (!p->failed && node->a->kind != NODE_CALL) parse_fail(p, "a call is missing");
    parse_macro_body(p, node->b, " endcall");
}

static void parse_filter_block(Parser *p, Node *node) {
    node->a = parse_filters(p, NULL);
    node->body = parse_last_body(p, " endfilter");
}

static void parse_with(Parser *p, Node *node) {
    for (Node **tail = &node->a; !p->failed && p->token.kind != CLOSE_TOKEN;) {
        Node *set = new_node(p, NODE_SET);
        set->a = parse_target(p, false);
        expect_op(p, '=');
        set->b = parse_expression(p);
        *tail = set, tail = &set->next;
        if (!skip_op(p, ',')) break;
    }
    node->body = parse_last_body(p, " endwith");
}

/* Marks what the model has said, for training; here it is a block like any other. */
static void parse_generation(Parser *p, Node *node) { node->body = parse_last_body(p, " endgeneration"); }

static void parse_jump(Parser *p, Node *node) {
    (void)node;
    if (p->loops == 0) parse_fail(p, "a break or continue is in no loop");
}

static const struct {
    const char *name;
    NodeKind kind;
    void (*parse)(Parser *p, Node *node);
} statements[] = {
    {"if", NODE_IF, parse_if},
    {"for", NODE_FOR, parse_for},
    {"set", NODE_SET, parse_set},
    {"macro", NODE_MACRO, parse_macro},
    {"call", NODE_CALL_BLOCK, parse_call_block},
    {"filter", NODE_FILTER_BLOCK, parse_filter_block},
    {"with", NODE_WITH, parse_with},
    {"generation", NODE_WITH, parse_generation},
    {"break", NODE_BREAK, parse_jump},
    {"continue", NODE_CONTINUE, parse_jump},
};

static Node *parse_statement(Parser *p) {
    Node *node = new_node(p, NODE_TEXT);
    String name = expect_name(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!string_equals(name, statements[i].name)) continue;
        node->kind = (uint8_t)statements[i].kind;
        statements[i].parse(p, node);
        return node;
    }
    return parse_fail(p, "'%.*s' is no statement known here", string_shown(name), name.data), node;
}

/* Whether the token is one of these words. */
static bool is_one_of(const Parser *p, const char *words) {
    String name = p->token.text;
    if (p->token.kind != NAME_TOKEN) return false;
    for (const char *at = words; (at = strstr(at, " ")) != NULL; at++)
        if (strncmp(at + 1, name.data, name.n) == 0 && (at[1 + name.n] == ' ' || !at[1 + name.n]))
            return true;
    return false;
}

/* Up to a statement that is one of the words `ends`, a blank before each; without words up to the end of the source. */
static Node *parse_statements(Parser *p, const char *ends) {
    Node *first = NULL, **tail = &first;
    while (p->token.kind != END_TOKEN) {
        Node *node = new_node(p, NODE_TEXT);
        if (p->token.kind == TEXT_TOKEN) {
            node->text = p->token.text;
            advance(p);
        } else if (p->token.kind == EXPRESSION_TOKEN) {
            advance(p);
            node->kind = NODE_OUTPUT;
            node->a = parse_tuple(p, parse_expression);
            if (!p->failed && node->a->kind == NODE_TUPLE && !node->a->a)
                parse_fail(p, "an expression is missing");
            expect_close(p);
        } else {
            advance(p); /* the tag */
            if (is_one_of(p, ends)) return first;
            node = parse_statement(p);
            expect_close(p);
        }
        *tail = node, tail = &node->next;
    }
    if (*ends) parse_fail(p, "the template ends before%s", ends);
    return first;
}

bool jinja_parse(Template *template, Error *error) {
    Parser parser = {.lexer = {.pool = &template->pool, .source = template->source, .line = 1},
                     .error = error};
    advance(&parser);
    template->body = parse_statements(&parser, "");
    return !parser.failed;
}
