/* Statements of templates, as jinja2's parser.py (3.1) has them: a source as a tree (jinja.h). */
#include "jinja/parser.h"

#include <string.h>

static Node *parse_statements(Parser *p, const char *ends);

/* Whether no further name can come, so that a comma before was the last. */
static bool is_target_end(const Parser *p) {
    return p->token.kind == CLOSE_TOKEN || is_op(p->token, ')') || is_name(p->token, "in");
}

/*
 * Reads the target of an assignment: names, in brackets or not, with commas between them; with `attributes` also one
 * name.name.
 */
static Node *parse_target(Parser *p, bool attributes) {
    Node *tuple = parser_node(p, NODE_TUPLE), **tail = &tuple->a;
    bool is_tuple = false;
    while (!p->failed && !is_target_end(p)) {
        Node *item;
        if (parser_skip_op(p, '(')) {
            item = parser_enter(p) ? parse_target(p, false) : &p->none;
            p->depth--;
            parser_expect_op(p, ')');
        } else {
            item = parser_node(p, NODE_NAME);
            item->text = parser_new_name(p);
            if (attributes && !is_tuple && parser_skip_op(p, '.')) {
                item = parser_node_of(p, NODE_GETATTR, item, NULL);
                item->text = parser_expect_name(p);
                return item;
            }
        }
        *tail = item, tail = &item->next;
        if (!parser_skip_op(p, ',')) break;
        is_tuple = true;
    }
    if (!tuple->a) parser_fail(p, "a name is missing");
    return is_tuple || p->failed ? tuple : tuple->a;
}

typedef enum TargetUse { GIVEN, LOOPED, SET } TargetUse;

/* Notes the names of a target: of `with`, of a loop, or of a statement that sets them. */
static void use_target(Parser *p, const Node *target, TargetUse use) {
    if (p->failed) return; /* p->none may be within itself */
    if (target->kind == NODE_TUPLE) {
        for (const Node *item = target->a; item; item = item->next) use_target(p, item, use);
    } else if (target->kind == NODE_GETATTR) {
        names_use(p, target->a->text, false);
    } else {
        if (use != GIVEN && p->fors && string_equals(target->text, "loop"))
            parser_fail(p, "'loop' is set in a loop");
        names_use(p, target->text, use == SET);
    }
}

/* Statements up to one of the words, which is then the token. */
static Node *parse_body(Parser *p, const char *ends) {
    parser_skip_op(p, ':');
    parser_expect_close(p);
    Node *body = parser_enter(p) ? parse_statements(p, ends) : NULL;
    p->depth--;
    return body;
}

/* Parses likewise up to this one word, which is taken. */
static Node *parse_last_body(Parser *p, const char *end) {
    Node *body = parse_body(p, end);
    parser_advance(p);
    return body;
}

/* Parses likewise a body that is a scope. */
static void parse_scope(Parser *p, Node **body, const char *end) {
    names_begin(p);
    *body = parse_last_body(p, end);
    names_end(p, body);
}

/* Parses the condition of an `if` or `elif`, and its body, whose names are those of a branch. */
static void parse_condition(Parser *p, Node *node, NameBranches *branches) {
    node->a = parse_tuple(p, parse_or);
    *branches = names_fork(p);
    node->body = parse_body(p, " elif else endif");
    names_branch(p, branches, 0);
}

static void parse_if(Parser *p, Node *node) {
    NameBranches branches, alone;
    parse_condition(p, node, &branches);
    while (!p->failed && parser_skip_name(p, "elif")) {
        Node *next = parser_node(p, NODE_IF);
        next->op = 1;
        node = node->other = next;
        parse_condition(p, node, &alone);
        names_join(p, &alone);
    }
    names_branch(p, &branches, 1);
    if (parser_skip_name(p, "else"))
        node->other = parse_last_body(p, " endif");
    else
        parser_advance(p);
    names_branch(p, &branches, 2);
    names_join(p, &branches);
}

static void parse_for(Parser *p, Node *node) {
    p->fors++;
    node->a = parse_target(p, false);
    if (!parser_skip_name(p, "in")) parser_fail(p, "'in' is missing");
    node->b = parse_tuple(p, parse_or);
    names_begin(p); /* the condition has a scope of its own, in which no statement is */
    use_target(p, node->a, LOOPED);
    if (parser_skip_name(p, "if")) node->c = parse_expression(p);
    names_end(p, NULL);
    if (parser_skip_name(p, "recursive")) node->op = 1;
    names_begin(p);
    use_target(p, node->a, LOOPED);
    unsigned loops = p->loops++;
    node->body = parse_body(p, " else endfor");
    p->loops = node->op ? 0 : loops; /* jinja2 makes a function of a recursive loop */
    names_end(p, &node->body);
    if (parser_skip_name(p, "else"))
        parse_scope(p, &node->other, " endfor");
    else
        parser_advance(p);
    p->loops = loops;
    p->fors--;
}

static void parse_set(Parser *p, Node *node) {
    node->a = parse_target(p, true);
    if (parser_skip_op(p, '=')) {
        node->b = parse_tuple(p, parse_expression);
        use_target(p, node->a, SET);
    } else {
        use_target(p, node->a, SET);
        if (parser_skip_op(p, '|')) node->c = parse_filters(p, NULL);
        parse_scope(p, &node->body, " endset");
    }
}

static void parse_parameters(Parser *p, Node *macro) {
    Node **tail = &macro->args;
    bool has_default = false;
    parser_expect_op(p, '(');
    while (!p->failed && (macro->args || !is_op(p->token, ')'))) {
        Node *parameter = parser_node(p, NODE_ARGUMENT);
        parameter->text = parser_new_name(p);
        names_use(p, parameter->text, false);
        if (has_default && !is_op(p->token, '=')) parser_fail(p, "a default is missing");
        has_default = parser_skip_op(p, '=');
        if (has_default) parameter->a = parse_expression(p);
        *tail = parameter, tail = &parameter->next;
        if (!parser_skip_op(p, ',')) break;
    }
    parser_expect_op(p, ')');
}

/* The rest of a macro, of which the names that it is given have been noted. */
static void parse_macro_body(Parser *p, Node *macro, const char *end) {
    unsigned uses = p->uses, loops = p->loops;
    p->uses = p->loops = 0;
    macro->body = parse_last_body(p, end);
    names_end(p, &macro->body);
    macro->op = (uint8_t)p->uses;
    for (const Node *own = macro->args; own; own = own->next) macro->op &= (uint8_t)~special_name(own->text);
    p->uses |= uses, p->loops = loops;
}

static void parse_macro(Parser *p, Node *node) {
    node->text = parser_new_name(p);
    names_use(p, node->text, true);
    names_begin(p);
    parse_parameters(p, node);
    parse_macro_body(p, node, " endmacro");
}

static void parse_call_block(Parser *p, Node *node) {
    node->b = parser_node(p, NODE_MACRO);
    node->b->text = (String){"caller", 6};
    names_begin(p);
    NameScope *scope = p->scope;
    if (is_op(p->token, '(')) parse_parameters(p, node->b);
    p->scope = scope->outer; /* of the call itself */
    node->a = parse_expression(p);
    p->scope = scope;
    if (!p->failed && node->a->kind != NODE_CALL) parser_fail(p, "a call is missing");
    parse_macro_body(p, node->b, " endcall");
}

static void parse_filter_block(Parser *p, Node *node) {
    node->a = parse_filters(p, NULL);
    parse_scope(p, &node->body, " endfilter");
}

static void parse_with(Parser *p, Node *node) {
    for (Node **tail = &node->a; !p->failed && (node->a || p->token.kind != CLOSE_TOKEN);) {
        Node *set = parser_node(p, NODE_SET);
        set->a = parse_target(p, false);
        parser_expect_op(p, '=');
        set->b = parse_expression(p);
        *tail = set, tail = &set->next;
        if (!parser_skip_op(p, ',')) break;
    }
    names_begin(p);
    for (const Node *set = node->a; set; set = set->next) use_target(p, set->a, GIVEN);
    node->body = parse_last_body(p, " endwith");
    names_end(p, &node->body);
}

/* Marks what the model has said, for training; here it is a block like any other. */
static void parse_generation(Parser *p, Node *node) {
    unsigned loops = p->loops;
    p->loops = 0; /* jinja2 calls it */
    parse_scope(p, &node->body, " endgeneration");
    p->loops = loops;
}

static void parse_jump(Parser *p, Node *node) {
    (void)node;
    if (p->loops == 0) parser_fail(p, "a break or continue is in no loop");
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
    Node *node = parser_node(p, NODE_TEXT);
    String name = parser_expect_name(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!string_equals(name, statements[i].name)) continue;
        node->kind = (uint8_t)statements[i].kind;
        statements[i].parse(p, node);
        return node;
    }
    return parser_fail(p, "'%.*s' is no statement known here", string_shown(name), name.data), node;
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
        Node *node = parser_node(p, NODE_TEXT);
        if (p->token.kind == TEXT_TOKEN) {
            node->text = p->token.text;
            parser_advance(p);
        } else if (p->token.kind == EXPRESSION_TOKEN) {
            parser_advance(p);
            node->kind = NODE_OUTPUT;
            node->a = parse_tuple(p, parse_expression);
            parser_expect_close(p);
        } else {
            parser_advance(p); /* the tag */
            if (is_one_of(p, ends)) return first;
            node = parse_statement(p);
            parser_expect_close(p);
        }
        *tail = node, tail = &node->next;
    }
    if (*ends) parser_fail(p, "the template ends before%s", ends);
    return first;
}

bool jinja_parse(Template *template, Error *error) {
    Parser parser = {.lexer = {.pool = &template->pool, .source = template->source, .line = 1},
                     .error = error};
    names_begin(&parser);
    parser_advance(&parser);
    template->body = parse_statements(&parser, "");
    names_end(&parser, &template->body);
    names_hide(&parser);
    return !parser.failed;
}
