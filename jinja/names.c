/*
 * Which scope of a template a name belongs to (parser.h). As jinja2's idtracking.py (3.1) has it, that is the outermost one
 * that uses it. If what this scope does with the name first is to set it, then the name is undefined until that is done, for
 * scopes within and macros too, even where the context has such a variable. An `if` sets it so when `if`, `elif` and `else`
 * all do; without an `elif`, or in one alone, jinja2 takes the name from the context.
 */
#include "jinja/parser.h"

#include <string.h>

typedef struct UsedName {
    String name;
    bool is_set;  /* by what uses it first */
    bool is_ever; /* set, by what uses it first or later */
    struct UsedName *before;
} UsedName;

/* The name among those from `used` on, up to `end`. */
static UsedName *find_among(UsedName *used, const UsedName *end, String name) {
    while (used != end && (used->name.n != name.n || memcmp(used->name.data, name.data, name.n) != 0))
        used = used->before;
    return used != end ? used : NULL;
}

static UsedName *find_name(const NameScope *scope, String name) {
    return find_among(scope->names, NULL, name);
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
    if (p->failed) return;
    UsedName *used = find_name(p->scope, name);
    if (used) used->is_ever |= sets;
    if (used) return;
    if (p->names++ == TEMPLATE_MAX_NAMES) parser_fail(p, "there are too many names");
    used = parser_take(p, sizeof *used);
    if (!used) return;
    *used = (UsedName){name, sets, sets, p->scope->names};
    p->scope->names = used;
}

NameBranches names_fork(const Parser *p) {
    return (NameBranches){.before = p->scope ? p->scope->names : NULL};
}

void names_branch(Parser *p, NameBranches *branches, size_t i) {
    if (p->failed) return;
    branches->names[i] = p->scope->names;
    p->scope->names = branches->before;
}

void names_join(Parser *p, const NameBranches *branches) {
    const UsedName *before = branches->before;
    for (size_t i = N_BRANCHES; i-- > 0 && !p->failed;) { /* what the last one says of a name counts */
        UsedName *later = p->scope->names;
        for (UsedName *used = branches->names[i], *next; used && used != before; used = next) {
            next = used->before;
            UsedName *known = find_among(later, before, used->name);
            if (known) {
                known->is_ever |= used->is_ever;
                p->names--;
                continue;
            }
            bool all = used->is_set && i == N_BRANCHES - 1;
            for (size_t j = 0; j < i && all; j++) {
                const UsedName *other =
                    branches->names[j] ? find_among(branches->names[j], before, used->name) : NULL;
                all = other && other->is_ever;
            }
            used->is_set = all;
            used->before = p->scope->names;
            p->scope->names = used;
        }
    }
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
