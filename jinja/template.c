/* Statements of templates (jinja.h), variables, macros, and template.h's functions. */
#include "jinja/template.h"
#include "base/locale.h"
#include "jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

/* ---- Variables ---- */

typedef struct Variable {
    String name;
    Any value;
    struct Variable *before;
} Variable;

static Any *find_here(Render *r, const Scope *scope, String name) {
    for (Variable *v = scope->variables; v && charge(r, 1); v = v->before)
        if (v->name.n == name.n && memcmp(v->name.data, name.data, name.n) == 0) return &v->value;
    return NULL;
}

Any *scope_find(Render *r, String name) {
    Any *value = NULL;
    for (const Scope *scope = r->scope; scope && !value && charge(r, 1); scope = scope->outer)
        value = find_here(r, scope, name);
    return value;
}

void scope_set(Render *r, String name, Any value) {
    Any *old = find_here(r, r->scope, name);
    if (old) {
        *old = value;
        return;
    }
    Variable *variable = take(r, sizeof *variable);
    if (!variable) return;
    *variable = (Variable){name, value, r->scope->variables};
    r->scope->variables = variable;
}

/* A new scope within `outer`, which becomes the current one; returns the one that was. */
static Scope *scope_open(Render *r, Scope *outer) {
    Scope *before = r->scope, *scope = take(r, sizeof *scope);
    if (!scope) return before;
    scope->outer = outer;
    r->scope = scope;
    return before;
}

static void assign_attribute(Render *r, const Node *target, Any value) {
    const Any *object = scope_find(r, target->a->text);
    if (!object || object->kind != VALUE_NAMESPACE)
        fail(r, "'%.*s' is no namespace", string_shown(target->a->text), target->a->text.data);
    else
        dict_set(r, *object, value_own(target->text), value);
}

static void assign(Render *r, const Node *target, Any value) {
    if (r->failed) return;
    if (target->kind == NODE_NAME) {
        scope_set(r, target->text, value);
    } else if (target->kind == NODE_GETATTR) {
        assign_attribute(r, target, value);
    } else {
        JinjaItems all = value_items(r, value);
        size_t n = 0;
        for (const Node *item = target->a; item; item = item->next) n++;
        if (n != all.n) fail(r, "%zu values do not go into %zu names", all.n, n);
        n = 0;
        for (const Node *item = target->a; item && !r->failed; item = item->next)
            assign(r, item, all.items[n++]);
    }
}

/* ---- Statements ---- */

typedef enum Flow { GO_ON, BREAK, CONTINUE } Flow;

static Flow run_statements(Render *r, const Node *first);

/* Runs statements in a scope of their own; what they print becomes a value. */
static Flow run_block(Render *r, const Node *body, Any *printed) {
    size_t start = r->out->n;
    Scope *before = scope_open(r, r->scope);
    Flow flow = run_statements(r, body);
    r->scope = before;
    *printed = cut(r, start);
    return flow;
}

static Flow run_if(Render *r, const Node *node) {
    for (;;) {
        if (value_truth(eval(r, node->a))) return run_statements(r, node->body);
        bool is_elif = node->other && node->other->kind == NODE_IF && node->other->op;
        if (!is_elif) return run_statements(r, node->other);
        node = node->other;
        r->line = node->line;
        if (!charge(r, 1)) return BREAK;
    }
}

/* The items for which the loop's condition holds. */
static JinjaItems select_items(Render *r, const Node *node, JinjaItems all) {
    Any chosen = value_new(r, VALUE_LIST);
    for (size_t i = 0; i < all.n && !r->failed; i++) {
        Scope *before = scope_open(r, r->scope);
        assign(r, node->a, all.items[i]);
        if (value_truth(eval(r, node->c))) list_push(r, chosen, all.items[i]);
        r->scope = before;
    }
    return r->failed ? (JinjaItems){0} : (JinjaItems){chosen.items->items, chosen.items->n};
}

/* "else" is for a loop of which no turn came to its end: none was there, or all were left. */
static Flow go_through(Render *r, const Node *node, Any over, int64_t depth) {
    static const String name = {"loop", 4};
    JinjaItems all = r->failed ? (JinjaItems){0} : value_items(r, over);
    if (node->c) all = select_items(r, node, all);
    Loop *loop = take(r, sizeof *loop);
    if (!loop) return GO_ON;
    *loop = (Loop){.items = all.items, .n = all.n, .node = node, .scope = r->scope, .depth = depth};
    Flow flow = GO_ON;
    bool ended = false;
    for (; loop->index < all.n && flow != BREAK && !r->failed; loop->index++) {
        Scope *before = scope_open(r, r->scope);
        scope_set(r, name, (Any){.kind = VALUE_LOOP, .loop = loop});
        assign(r, node->a, all.items[loop->index]);
        flow = run_statements(r, node->body);
        ended |= flow == GO_ON;
        r->scope = before;
    }
    if (ended || !node->other) return GO_ON;
    Scope *before = scope_open(r, r->scope);
    flow = run_statements(r, node->other); /* which may leave the loop around */
    r->scope = before;
    return flow;
}

static Flow run_for(Render *r, const Node *node) {
    Any over = eval(r, node->b);
    return r->failed ? GO_ON : go_through(r, node, over, 0);
}

Any call_loop(Render *r, const Loop *loop, const Args *args) {
    if (!loop->node->op) return fail(r, "a loop that is not 'recursive' cannot be called");
    if (args->list.n != 1 || args->keywords.n)
        return fail(r, "a loop is called with one value to go through");
    size_t start = r->out->n;
    Scope *before = r->scope;
    r->scope = loop->scope;
    go_through(r, loop->node, args->list.items[0], loop->depth + 1);
    r->scope = before;
    return cut(r, start);
}

/* A block that is left sets nothing. */
static Flow run_set(Render *r, const Node *node) {
    Any value;
    Flow flow = GO_ON;
    if (node->b)
        value = eval(r, node->b);
    else
        flow = run_block(r, node->body, &value);
    if (flow != GO_ON) return flow;
    if (node->c) value = eval_filters(r, node->c, value);
    assign(r, node->a, value);
    return GO_ON;
}

/* All values are computed before any of them has its name. */
static Flow run_with(Render *r, const Node *node) {
    Any values = value_new(r, VALUE_LIST);
    for (const Node *set = node->a; set && !r->failed; set = set->next) list_push(r, values, eval(r, set->b));
    Scope *before = scope_open(r, r->scope);
    size_t i = 0;
    for (const Node *set = node->a; set && !r->failed; set = set->next)
        assign(r, set->a, values.items->items[i++]);
    Flow flow = run_statements(r, node->body);
    r->scope = before;
    return flow;
}

static Any new_macro(Render *r, const Node *node) {
    Macro *macro = take(r, sizeof *macro);
    if (!macro) return value_of_kind(VALUE_UNDEFINED);
    *macro = (Macro){node, r->scope};
    return (Any){.kind = VALUE_MACRO, .macro = macro};
}

/* The value of a block's filter or call, which jinja2 joins with the text around as it is. */
static void emit_block(Render *r, Any value) {
    if (value.kind != VALUE_STRING) fail(r, "a block makes %s, not a text", value_type(value));
    if (!r->failed) emit(r, text_of(value));
}

static void run_call_block(Render *r, const Node *node) {
    /* The call is as written, with one keyword more. */
    Any caller = new_macro(r, node->b);
    Node with_caller = *node->a;
    Node value = {.kind = NODE_CONST, .line = node->line, .value = caller};
    Node argument = {.kind = NODE_ARGUMENT, .text = {"caller", 6}, .a = &value, .next = node->a->args};
    with_caller.args = &argument;
    emit_block(r, eval(r, &with_caller));
}

static Flow run_statement(Render *r, const Node *node) {
    Any value;
    Flow flow;
    switch ((NodeKind)node->kind) {
    case NODE_TEXT: emit(r, text_own(node->text.data, node->text.n)); break;
    case NODE_OUTPUT:
        value = eval(r, node->a);
        if (!r->failed) emit_value(r, value, false);
        break;
    case NODE_IF: return run_if(r, node);
    case NODE_FOR: return run_for(r, node);
    case NODE_SET: return run_set(r, node);
    case NODE_WITH: return run_with(r, node);
    case NODE_MACRO: scope_set(r, node->text, new_macro(r, node)); break;
    case NODE_CALL_BLOCK: run_call_block(r, node); break;
    case NODE_FILTER_BLOCK:
        flow = run_block(r, node->body, &value);
        if (flow != GO_ON) return flow;
        emit_block(r, eval_filters(r, node->a, value));
        break;
    case NODE_BREAK: return BREAK;
    case NODE_CONTINUE: return CONTINUE;
    default: fail(r, "an expression is no statement");
    }
    return GO_ON;
}

static Flow run_statements(Render *r, const Node *first) {
    Flow flow = GO_ON;
    if (descend(r))
        for (const Node *node = first; node && flow == GO_ON && charge(r, 1); node = node->next) {
            r->line = node->line;
            flow = run_statement(r, node);
        }
    r->depth--;
    return flow;
}

/* ---- Macros ---- */

/* Gives each parameter its argument, or nothing; then its default, which sees the parameters and not what they hide. */
static void bind_parameters(Render *r, const Node *node, const Args *args, Any rest, Any keywords) {
    size_t at = 0;
    for (const Node *p = node->args; p && !r->failed; p = p->next, at++) {
        const Any *keyword = dict_find(r, keywords, value_own(p->text));
        Any value = {.kind = VALUE_UNDEFINED, .n = (uint32_t)p->text.n, .text = p->text.data};
        if (at < args->list.n)
            value = args->list.items[at];
        else if (keyword)
            value = *keyword;
        if (keyword && at < args->list.n)
            fail(r, "the argument '%.*s' is given twice", string_shown(p->text), p->text.data);
        scope_set(r, p->text, value);
    }
    for (; at < args->list.n && !r->failed; at++) list_push(r, rest, args->list.items[at]);
    at = 0;
    for (const Node *p = node->args; p && !r->failed; p = p->next, at++)
        if (p->a && at >= args->list.n && !dict_find(r, keywords, value_own(p->text)))
            scope_set(r, p->text, eval(r, p->a));
}

Any call_macro(Render *r, const Macro *macro, const Args *args) {
    static const String caller = {"caller", 6}, varargs = {"varargs", 7}, kwargs = {"kwargs", 6};
    const Node *node = macro->node;
    Any rest = value_new(r, VALUE_TUPLE), unknown = value_new(r, VALUE_DICT);
    List list = args->keywords;
    Any keywords = {.kind = VALUE_DICT, .items = &list};
    size_t start = r->out->n;
    Scope *before = scope_open(r, macro->scope);
    bind_parameters(r, node, args, rest, keywords);
    if (node->op & USES_CALLER) {
        const Any none = {.kind = VALUE_UNDEFINED, .n = (uint32_t)caller.n, .text = caller.data};
        const Any *given = dict_find(r, keywords, value_own(caller));
        scope_set(r, caller, given ? *given : none);
    }
    for (size_t i = 0; i < list.n && !r->failed; i += 2)
        if (!find_here(r, r->scope, string_of(list.items[i])))
            dict_set(r, unknown, list.items[i], list.items[i + 1]);
    if (!r->failed && unknown.items->n > 0 && !(node->op & USES_KWARGS)) {
        String name = string_of(unknown.items->items[0]);
        fail(r, "macro '%.*s' has no argument '%.*s'", string_shown(node->text), node->text.data,
             string_shown(name), name.data);
    }
    if (!r->failed && rest.items->n > 0 && !(node->op & USES_VARARGS))
        fail(r, "macro '%.*s' is given too many arguments", string_shown(node->text), node->text.data);
    if (node->op & USES_VARARGS) scope_set(r, varargs, rest);
    if (node->op & USES_KWARGS) scope_set(r, kwargs, unknown);
    run_statements(r, node->body);
    r->scope = before;
    return cut(r, start);
}

/* ---- The face ---- */

/* The source with newlines as Unix writes them, without the last; NULs behind it. */
static bool copy_source(Template *template, String source) {
    char *copy = pool_take(&template->pool, source.n + 8);
    size_t n = 0;
    if (!copy) return false;
    for (size_t i = 0; i < source.n; i++) {
        bool cr = source.data[i] == '\r';
        if (cr && i + 1 < source.n && source.data[i + 1] == '\n') i++;
        copy[n++] = cr ? '\n' : source.data[i];
    }
    if (n > 0 && copy[n - 1] == '\n') n--;
    memset(copy + n, 0, source.n + 8 - n);
    template->source = (String){copy, n};
    return true;
}

Template *template_parse(String source, Error *error) {
    if (source.n > TEMPLATE_MAX_BYTES)
        return error_set(error, "the chat template has %zu bytes, more than %d", source.n,
                         TEMPLATE_MAX_BYTES),
               NULL;
    Template *template = calloc(1, sizeof *template);
    if (template) template->pool.most = TEMPLATE_MAX_MEMORY;
    bool ok = template && copy_source(template, source);
    const PlainLocale locale = locale_begin();
    if (!ok)
        error_set(error, "not enough memory for the chat template");
    else
        ok = jinja_parse(template, error);
    locale_end(locale);
    if (ok) return template;
    template_free(template);
    return NULL;
}

void template_free(Template *template) {
    if (template) pool_free(&template->pool);
    free(template);
}

bool template_render(const Template *template, const Json *context, int64_t now, TextBuffer *out,
                     TextBuffer *marks, Error *error) {
    TextBuffer own_marks = {0};
    if (!marks) marks = &own_marks;
    Render r = {.pool = {.most = TEMPLATE_MAX_MEMORY},
                .out = out,
                .marks = marks,
                .out_start = out->n,
                .marks_start = marks->n,
                .error = error,
                .line = 1,
                .now = now};
    const PlainLocale locale = locale_begin();
    scope_open(&r, NULL);
    for (size_t i = 0; !r.failed && i < context->n; i++) {
        String name = json_key(context, i);
        bool is_token = string_ends(
            name, "_token"); /* a special one, by the name of transformers: the template's own word */
        scope_set(&r, name, value_from_json(&r, json_item(context, i), is_token));
    }
    scope_open(&r, r.scope);
    if (!r.failed) run_statements(&r, template->body);
    locale_end(locale);
    if (r.failed) out->n = r.out_start, marks->n = r.marks_start;
    free(own_marks.data);
    free(r.mappings);
    pool_free(&r.pool);
    return !r.failed;
}
