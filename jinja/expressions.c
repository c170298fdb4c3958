/* Expressions of templates, by recursive descent; grammar and precedences are those of jinja2's parser.py (3.1). */
#include "jinja/parser.h"

#include <string.h>

/* The token after the current one. */
static Token look(const Parser *p) {
    Lexer ahead = p->lexer;
    Token token = {.kind = END_TOKEN};
    if (!p->failed && !lexer_next(&ahead, &token, NULL)) token = (Token){.kind = END_TOKEN};
    return token;
}

/* The arguments of a call, from its bracket on. */
static Node *parse_arguments(Parser *p) {
    Node *first = NULL, **tail = &first;
    /* Of a value, a name, '*' and '**': up to which of these sorts may stand before it. */
    static const uint8_t most[] = {0, 2, 1, 2};
    size_t last = 0;
    parser_expect_op(p, '(');
    while (!p->failed && !is_op(p->token, ')')) {
        Node *node = parser_node(p, NODE_ARGUMENT);
        if (is_op(p->token, '*') || is_op(p->token, OP_POWER)) {
            node->op = p->token.op;
            parser_advance(p);
        } else if (p->token.kind == NAME_TOKEN && is_op(look(p), '=')) {
            node->text = parser_expect_name(p);
            parser_advance(p);
        }
        size_t sort = node->op == '*' ? 2 : node->op ? 3 : node->text.n > 0;
        if (last > most[sort]) parser_fail(p, "an argument comes behind one that should follow it");
        if (sort > last) last = sort;
        node->a = parse_expression(p);
        *tail = node, tail = &node->next;
        if (!parser_skip_op(p, ',')) break;
    }
    parser_expect_op(p, ')');
    return first;
}

/* Items with commas between them, up to `close`, which is left. */
static Node *parse_items(Parser *p, char close, bool pairs) {
    Node *first = NULL, **tail = &first;
    while (!p->failed && !is_op(p->token, (unsigned char)close)) {
        Node *item = parse_expression(p);
        *tail = item, tail = &item->next;
        if (pairs) {
            parser_expect_op(p, ':');
            item = parse_expression(p);
            *tail = item, tail = &item->next;
        }
        if (!parser_skip_op(p, ',')) break;
    }
    return first;
}

Node *parse_tuple(Parser *p, Parse *parse) {
    Node *tuple = parser_node(p, NODE_TUPLE), **tail = &tuple->a;
    bool is_tuple = false;
    while (p->token.kind != CLOSE_TOKEN && !is_op(p->token, ')') && !p->failed) {
        *tail = parse(p);
        tail = &(*tail)->next;
        if (!is_op(p->token, ',')) break;
        is_tuple = true;
        parser_advance(p);
    }
    if (!tuple->a) parser_fail(p, "an expression is missing");
    return is_tuple || p->failed ? tuple : tuple->a;
}

unsigned special_name(String name) {
    return string_equals(name, "varargs")  ? USES_VARARGS
           : string_equals(name, "kwargs") ? USES_KWARGS
           : string_equals(name, "caller") ? USES_CALLER
                                           : 0;
}

/* Whether the name is that of a value. */
static bool is_constant(String name, Any *value) {
    static const char *const names[] = {"false", "False", "true", "True", "none", "None"};
    size_t i = 0;
    while (i < 6 && !string_equals(name, names[i])) i++;
    if (i < 6) *value = i < 4 ? value_bool(i >= 2) : value_of_kind(VALUE_NONE);
    return i < 6;
}

String parser_new_name(Parser *p) {
    String name = parser_expect_name(p);
    if (!p->failed && is_constant(name, &p->none.value))
        parser_fail(p, "'%.*s' cannot be another value's name", (int)name.n, name.data);
    return name;
}

static Node *parse_primary(Parser *p) {
    Node *node = parser_node(p, NODE_CONST);
    Token token = p->token;
    if (token.kind == CONST_TOKEN) {
        node->value = token.value;
        for (parser_advance(p); node->value.kind == VALUE_STRING && p->token.kind == CONST_TOKEN &&
                                p->token.value.kind == VALUE_STRING;
             parser_advance(p)) { /* strings that follow each other are one */
            String a = string_of(node->value), b = string_of(p->token.value);
            char *both = parser_take(p, a.n + b.n + 1);
            if (!both) return node;
            memcpy(both, a.data, a.n);
            memcpy(both + a.n, b.data, b.n);
            node->value = value_text(text_own(both, a.n + b.n));
        }
    } else if (token.kind == NAME_TOKEN) {
        parser_advance(p);
        if (is_constant(token.text, &node->value)) return node;
        node->kind = NODE_NAME;
        node->text = token.text;
        names_use(p, token.text, false);
        p->uses |= special_name(token.text);
    } else if (parser_skip_op(p, '(')) {
        node->kind = NODE_TUPLE;
        if (!is_op(p->token, ')')) node = parse_tuple(p, parse_expression);
        parser_expect_op(p, ')');
    } else if (parser_skip_op(p, '[')) {
        node->kind = NODE_LIST;
        node->a = parse_items(p, ']', false);
        parser_expect_op(p, ']');
    } else if (parser_skip_op(p, '{')) {
        node->kind = NODE_DICT;
        node->a = parse_items(p, '}', true);
        parser_expect_op(p, '}');
    } else {
        parser_fail(p, "an expression is missing");
    }
    return node;
}

/* Reads what stands in the brackets of a[…], which are open: an expression, or a slice. */
static Node *parse_subscript(Parser *p) {
    Node *slice = parser_node(p, NODE_SLICE), **parts[] = {&slice->a, &slice->b, &slice->c};
    bool colon = false;
    for (size_t i = 0;; i++) {
        if (!is_op(p->token, ':') && !is_op(p->token, ']')) *parts[i] = parse_expression(p);
        if (i == 2 || !parser_skip_op(p, ':')) break;
        colon = true;
    }
    if (!colon && !slice->a) parser_fail(p, "an expression is missing");
    return colon ? slice : slice->a;
}

static Node *parse_postfix(Parser *p, Node *node) {
    while (!p->failed) {
        if (is_op(p->token, '(')) {
            node = parser_node_of(p, NODE_CALL, node, NULL);
            node->args = parse_arguments(p);
        } else if (parser_skip_op(p, '[')) {
            node = parser_node_of(p, NODE_GETITEM, node, NULL);
            node->b = parse_subscript(p);
            parser_expect_op(p, ']');
        } else if (parser_skip_op(p, '.')) {
            bool number = p->token.kind == CONST_TOKEN && p->token.value.kind == VALUE_INT;
            node = parser_node_of(p, number ? NODE_GETITEM : NODE_GETATTR, node, NULL);
            if (number)
                node->b = parse_primary(p);
            else
                node->text = parser_expect_name(p);
        } else {
            break;
        }
    }
    return node;
}

Node *parse_filters(Parser *p, Node *node) {
    do {
        node = parser_node_of(p, NODE_FILTER, node, NULL);
        node->line = p->token.line;
        node->text = parser_expect_name(p);
        if (is_op(p->token, '(')) node->args = parse_arguments(p);
    } while (parser_skip_op(p, '|'));
    return node;
}

static Node *parse_test(Parser *p, Node *node) {
    bool negated = parser_skip_name(p, "not");
    node = parser_node_of(p, NODE_TEST, node, NULL);
    node->text = parser_expect_name(p);
    bool word = p->token.kind == NAME_TOKEN && !is_name(p->token, "else") && !is_name(p->token, "or") &&
                !is_name(p->token, "and");
    if (is_name(p->token, "is")) parser_fail(p, "a test follows a test");
    if (is_op(p->token, '(')) {
        node->args = parse_arguments(p);
    } else if (word || p->token.kind == CONST_TOKEN || is_op(p->token, '[') || is_op(p->token, '{')) {
        node->args = parser_node(p, NODE_ARGUMENT);
        node->args->a = parse_postfix(p, parse_primary(p));
    }
    return negated ? parser_node_of(p, NODE_NOT, node, NULL) : node;
}

static Node *parse_unary(Parser *p, bool filters) {
    Node *node;
    if (is_op(p->token, '-') || is_op(p->token, '+')) {
        NodeKind kind = p->token.op == '-' ? NODE_NEGATIVE : NODE_POSITIVE;
        parser_advance(p);
        node = parser_node(p, kind);
        if (parser_enter(p)) node->a = parse_unary(p, false);
        p->depth--;
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    while (filters && !p->failed)
        if (parser_skip_op(p, '|'))
            node = parse_filters(p, node);
        else if (parser_skip_name(p, "is"))
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
        parser_advance(p);
        Node *right = parse_binary(p, level + 1);
        if (op != '~') {
            node = parser_node_of(p, NODE_BINARY, node, right);
            node->op = op;
            continue;
        }
        if (!tail) tail = &node->next, node = parser_node_of(p, NODE_CONCAT, node, NULL);
        *tail = right, tail = &right->next;
    }
    return node;
}

/* The operator of a comparison that stands here, which is taken; 0: none. */
static uint8_t take_comparison(Parser *p) {
    uint8_t op = 0;
    if (p->token.kind == OPERATOR_TOKEN) {
        bool is = strchr("<>", p->token.op) || p->token.op >= OP_EQUAL; /* parse_binary has taken // and ** */
        op = is ? p->token.op : 0;
    } else if (is_name(p->token, "in")) {
        op = OP_IN;
    } else if (is_name(p->token, "not") && is_name(look(p), "in")) {
        op = OP_NOT_IN;
        parser_advance(p);
    }
    if (op) parser_advance(p);
    return op;
}

static Node *parse_comparison(Parser *p) {
    Node *node = parse_binary(p, 0), **tail = NULL;
    for (uint8_t op; (op = take_comparison(p)) != 0;) {
        if (!tail) node = parser_node_of(p, NODE_COMPARE, node, NULL), tail = &node->b;
        Node *operand = parser_node(p, NODE_OPERAND);
        operand->op = op;
        operand->a = parse_binary(p, 0);
        *tail = operand, tail = &operand->next;
    }
    return node;
}

static Node *parse_not(Parser *p) {
    if (!parser_skip_name(p, "not")) return parse_comparison(p);
    Node *node = parser_node(p, NODE_NOT);
    if (parser_enter(p)) node->a = parse_not(p);
    p->depth--;
    return node;
}

static Node *parse_and(Parser *p) {
    Node *node = parse_not(p);
    while (parser_skip_name(p, "and")) node = parser_node_of(p, NODE_AND, node, parse_not(p));
    return node;
}

Node *parse_or(Parser *p) {
    Node *node = parse_and(p);
    while (parser_skip_name(p, "or")) node = parser_node_of(p, NODE_OR, node, parse_and(p));
    return node;
}

Node *parse_expression(Parser *p) {
    Node *node = parser_enter(p) ? parse_or(p) : &p->none;
    while (parser_skip_name(p, "if")) {
        Node *test = parse_or(p);
        node = parser_node_of(p, NODE_CONDITION, test, node);
        if (parser_skip_name(p, "else")) node->c = parse_expression(p);
    }
    p->depth--;
    return node;
}
