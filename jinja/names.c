/*
 * Which scope of a template a name belongs to (parser.h). As jinja2's idtracking.py (3.1) has it, that is the outermost one
 * that uses it. If what this scope does with the name first is to set it, and in no `if`, then the name is undefined
 * until that is done, for scopes within and macros too, even where the context has such a variable.
 */
#include "jinja/parser.h"

#include <string.h>

typedef struct UsedName {
    String name;
    bool is_set; /* by what uses it first */
    struct UsedName *before;
} UsedName;

static const UsedName *find_name(const NameScope *scope, String name) {
    const UsedName *used = scope->names;
    while (used && (used->name.n != name.n || memcmp(used->name.data, name.data, name.n) != 0))
        used = used->before;
    return used;
}

void names_begin(Parser *p) {
    NameScope *scope = parser_take(p, sizeof *scope);
    if (!scope) return;
    *scope = (NameScope){.outer = p->scope, .before = p->scopes};
    p->scope = p->scopes = scope;
}

void names_end(Parser *p, Node **body) {
    if (p->failed) return;
    p->scope->body = body;
    p->scope = p->scope->outer;
}

void names_use(Parser *p, String name, bool sets) {
    if (p->failed || find_name(p->scope, name)) return;
    if (p->names++ == TEMPLATE_MAX_NAMES) parser_fail(p, "there are too many names");
    UsedName *used = parser_take(p, sizeof *used);
    if (!used) return;
    *used = (UsedName){name, sets && !p->scope->ifs, p->scope->names};
    p->scope->names = used;
}

void names_hide(Parser *p) {
    for (const NameScope *scope = p->scopes; scope; scope = scope->before)
        for (const UsedName *used = scope->names; used && !p->failed; used = used->before) {
            const NameScope *outer = used->is_set ? scope->outer : scope;
            while (outer && !find_name(outer, used->name)) outer = outer->outer;
            if (outer) continue;
            Node *target = parser_node(p, NODE_NAME), *value = parser_node(p, NODE_CONST),
                 *set = parser_node_of(p, NODE_SET, target, value);
            target->text = used->name;
            value->value =
                (Any){.kind = VALUE_UNDEFINED, .n = (uint32_t)used->name.n, .text = used->name.data};
            set->next = *scope->body;
            *scope->body = set;
        }
}
