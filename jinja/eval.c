/* Expressions of templates (jinja.h), with the meaning that Python gives them within jinja2. */
#include "jinja/jinja.h"

#include <math.h>
#include <string.h>

/* ---- Attributes, items, slices ---- */

/* The error for what is asked of an undefined value. */
static Any fail_undefined(Render *r, Any v) {
    String name = string_of(v);
    if (v.owner == VALUE_ABSENT) return fail(r, "'%.*s' is undefined", string_shown(name), name.data);
    return fail(r, "%s has no '%.*s'", value_type(value_of_kind(v.owner)), string_shown(name), name.data);
}

static Any undefined(Any owner, String name) {
    return (Any){.kind = VALUE_UNDEFINED, .owner = owner.kind, .n = (uint32_t)name.n, .text = name.data};
}

/* The number of the word `name` among words, of which each may have a '!' behind it; -1: it is none of them. */
static int find_word(const char *words, String name) {
    for (int i = 0; *words; i++) {
        size_t n = strcspn(words, "! ");
        if (name.n == n && memcmp(words, name.data, n) == 0) return i;
        words += n + (words[n] == '!');
        words += *words == ' ';
    }
    return -1;
}

static Any loop_attribute(const Loop *loop, Any v, String name) {
    const int64_t i = (int64_t)loop->index, n = (int64_t)loop->n;
    switch (
        find_word("index index0 revindex revindex0 length first last depth depth0 previtem nextitem", name)) {
    case 0: return value_int(i + 1);
    case 1: return value_int(i);
    case 2: return value_int(n - i);
    case 3: return value_int(n - i - 1);
    case 4: return value_int(n);
    case 5: return value_bool(i == 0);
    case 6: return value_bool(i + 1 == n);
    case 7: return value_int(loop->depth + 1);
    case 8: return value_int(loop->depth);
    case 9: return i > 0 ? loop->items[i - 1] : undefined(v, name);
    case 10: return i + 1 < n ? loop->items[i + 1] : undefined(v, name);
    default: return undefined(v, name);
    }
}

/* A method, to be called later. */
static Any bind_method(Render *r, Any v, const Builtin *builtin) {
    Method *method = take(r, sizeof *method);
    if (!method) return value_of_kind(VALUE_UNDEFINED);
    *method = (Method){v, builtin};
    return (Any){.kind = VALUE_METHOD, .method = method};
}

Any value_attribute(Render *r, Any v, String name) {
    if (v.kind == VALUE_UNDEFINED) return fail_undefined(r, v);
    const Builtin *builtin = find_method(v, name);
    if (builtin) return bind_method(r, v, builtin);
    if (v.kind == VALUE_LOOP) return loop_attribute(v.loop, v, name);
    const Any *member =
        v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE ? dict_find(r, v, value_own(name)) : NULL;
    return member ? *member : undefined(v, name);
}

static bool is_sequence(Any v) {
    return v.kind == VALUE_STRING || v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}

Any value_item(Render *r, Any v, Any key) {
    if (v.kind == VALUE_UNDEFINED) return fail_undefined(r, v);
    String name = key.kind == VALUE_STRING ? string_of(key) : (String){"item", 4};
    if (v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE) {
        const Any *member = dict_find(r, v, key);
        if (member) return *member;
    } else if (is_integer(key) && is_sequence(v)) {
        int64_t n = value_length(r, v), at = key.integer < 0 ? key.integer + n : key.integer;
        if (at < 0 || at >= n) return undefined(v, name);
        if (v.kind != VALUE_STRING) return v.items->items[at];
        size_t from = text_offset(r, text_of(v), (size_t)at), to = text_offset(r, text_of(v), (size_t)at + 1);
        return value_text(text_part(text_of(v), from, to - from));
    }
    return key.kind == VALUE_STRING && v.kind != VALUE_NAMESPACE ? value_attribute(r, v, name)
                                                                 : undefined(v, name);
}

/* Where a bound of a slice of n items lies, for a step that goes up or down; an absent bound is one of the ends. */
static int64_t slice_bound(Render *r, const Node *node, int64_t n, bool down, bool is_end) {
    Any v = node ? eval(r, node) : value_of_kind(VALUE_NONE);
    if (v.kind == VALUE_NONE) return is_end == down ? (down ? -1 : 0) : (down ? n - 1 : n);
    if (!is_integer(v)) {
        fail(r, "a slice takes integers, not %s", value_type(v));
        return 0;
    }
    int64_t at = v.integer < 0 ? v.integer + n : v.integer, least = down ? -1 : 0, most = down ? n - 1 : n;
    return at < least ? least : at > most ? most : at;
}

static Any slice(Render *r, Any v, const Node *node) {
    if (v.kind == VALUE_UNDEFINED) return fail_undefined(r, v);
    if (!is_sequence(v)) return fail(r, "%s cannot be sliced", value_type(v));
    Any by = node->c ? eval(r, node->c) : value_int(1);
    if (by.kind == VALUE_NONE) by = value_int(1);
    if (!is_integer(by) || by.integer == 0) return fail(r, "a slice goes by an integer that is not 0");
    int64_t n = value_length(r, v), step = by.integer;
    int64_t at = slice_bound(r, node->a, n, step < 0, false),
            end = slice_bound(r, node->b, n, step < 0, true);
    if (r->failed) return by;
    if (v.kind == VALUE_STRING && step == 1) {
        size_t from = text_offset(r, text_of(v), (size_t)at);
        size_t to = end > at ? text_offset(r, text_of(v), (size_t)end) : from;
        return value_text(text_part(text_of(v), from, to - from));
    }
    JinjaItems all = value_items(r, v);
    Any part = value_new(r, v.kind == VALUE_TUPLE ? VALUE_TUPLE : VALUE_LIST);
    while (!r->failed && (step > 0 ? at < end : at > end)) {
        list_push(r, part, all.items[at]);
        if (step > 0 ? step >= end - at : step <= end - at) break; /* which could overflow */
        at += step;
    }
    if (v.kind != VALUE_STRING || r->failed) return part;
    size_t start = r->out->n;
    for (size_t i = 0; i < part.items->n; i++) emit(r, text_of(part.items->items[i]));
    return cut(r, start);
}

/* ---- Operators ---- */

static Any fail_operands(Render *r, const char *op, Any a, Any b) {
    if (a.kind == VALUE_UNDEFINED) return fail_undefined(r, a);
    if (b.kind == VALUE_UNDEFINED) return fail_undefined(r, b);
    return fail(r, "'%s' is not for %s and %s", op, value_type(a), value_type(b));
}

static Any integers(Render *r, uint8_t op, int64_t a, int64_t b) {
    int64_t result = 1;
    bool overflow = false;
    if (strchr("/%", op) || op == OP_FLOOR) {
        if (b == 0) return fail(r, "a division by zero");
        if (op == '/') return value_float((double)a / (double)b);
        if (b == -1) return op == '%' ? value_int(0) : integers(r, '-', 0, a);
        int64_t rest = a % b;
        bool away = rest != 0 && (rest < 0) != (b < 0); /* Python rounds down, C towards zero */
        return value_int(op == '%' ? rest + (away ? b : 0) : a / b - away);
    }
    if (op == OP_POWER) {
        if (b < 0 && a == 0) return fail(r, "a division by zero");
        if (b < 0) return value_float(pow((double)a, (double)b));
        if (a == 0 || a == 1) return value_int(b == 0 ? 1 : a);
        if (a == -1) return value_int(b % 2 ? -1 : 1);
        for (; b > 0 && !overflow; b--) overflow = __builtin_mul_overflow(result, a, &result);
    } else {
        overflow = op == '+'   ? __builtin_add_overflow(a, b, &result)
                   : op == '-' ? __builtin_sub_overflow(a, b, &result)
                               : __builtin_mul_overflow(a, b, &result);
    }
    return overflow ? fail(r, "an integer is too large") : value_int(result);
}

static Any reals(Render *r, uint8_t op, double a, double b) {
    if ((strchr("/%", op) || op == OP_FLOOR) && b == 0) return fail(r, "a division by zero");
    double rest;
    switch (op) {
    case '+': return value_float(a + b);
    case '-': return value_float(a - b);
    case '*': return value_float(a * b);
    case '/': return value_float(a / b);
    case OP_FLOOR: return value_float(floor(a / b));
    case '%': rest = fmod(a, b); return value_float(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    default: return value_float(pow(a, b));
    }
}

/* A string or list, several times. */
static Any repeat(Render *r, Any v, int64_t times) {
    size_t start = r->out->n;
    Any list = v.kind == VALUE_STRING ? v : value_new(r, v.kind);
    if (v.kind == VALUE_STRING ? v.n == 0 : v.items->n == 0) return v;
    for (; times > 0 && charge(r, 1); times--)
        if (v.kind == VALUE_STRING)
            emit(r, text_of(v));
        else
            for (size_t i = 0; i < v.items->n; i++) list_push(r, list, v.items->items[i]);
    return v.kind == VALUE_STRING ? cut(r, start) : list;
}

static Any concatenate(Render *r, Any a, Any b) {
    size_t start = r->out->n;
    if (a.kind == VALUE_STRING) {
        emit(r, text_of(a));
        emit(r, text_of(b));
        return cut(r, start);
    }
    Any both = value_new(r, a.kind);
    for (size_t i = 0; !r->failed && i < a.items->n; i++) list_push(r, both, a.items->items[i]);
    for (size_t i = 0; !r->failed && i < b.items->n; i++) list_push(r, both, b.items->items[i]);
    return both;
}

static Any eval_binary(Render *r, const Node *node) {
    Any a = eval(r, node->a), b = eval(r, node->b);
    uint8_t op = node->op;
    bool same_lists = a.kind == b.kind && (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE);
    const char name[] = {op == OP_FLOOR   ? '/'
                         : op == OP_POWER ? '*'
                                          : (char)op,
                         op >= OP_EQUAL ? (op == OP_FLOOR ? '/' : '*') : 0, 0};
    if (r->failed) return a;
    if (is_integer(a) && is_integer(b)) return integers(r, op, a.integer, b.integer);
    if (is_number(a) && is_number(b)) return reals(r, op, number_of(a), number_of(b));
    if (op == '+' && ((a.kind == VALUE_STRING && b.kind == VALUE_STRING) || same_lists))
        return concatenate(r, a, b);
    if (op == '*' && is_sequence(a) && is_integer(b)) return repeat(r, a, b.integer);
    if (op == '*' && is_sequence(b) && is_integer(a)) return repeat(r, b, a.integer);
    if (op == '%' && a.kind == VALUE_STRING) {
        Args args = {0};
        Any list = value_new(r, VALUE_LIST);
        if (b.kind != VALUE_TUPLE) list_push(r, list, b);
        if (r->failed) return a;
        args.list = b.kind == VALUE_TUPLE ? *b.items : *list.items;
        return call_filter(r, (String){"format", 6}, a, &args);
    }
    return fail_operands(r, name, a, b);
}

static bool compare(Render *r, uint8_t op, Any a, Any b) {
    if (op == OP_EQUAL) return value_equals(r, a, b);
    if (op == OP_UNEQUAL) return !value_equals(r, a, b);
    if (op == OP_IN) return value_contains(r, b, a);
    if (op == OP_NOT_IN) return !value_contains(r, b, a);
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
        fail_operands(r, "<", a, b);
        return false;
    }
    if (is_number(a) && is_number(b) && (isnan(number_of(a)) || isnan(number_of(b)))) return false;
    int order = value_compare(r, a, b);
    return op == '<' ? order < 0 : op == '>' ? order > 0 : op == OP_AT_MOST ? order <= 0 : order >= 0;
}

static Any eval_compare(Render *r, const Node *node) {
    Any a = eval(r, node->a);
    bool is = true;
    for (const Node *next = node->b; next && is && !r->failed; next = next->next) {
        Any b = eval(r, next->a);
        if (!r->failed) is = compare(r, next->op, a, b);
        a = b;
    }
    return value_bool(is);
}

static Any eval_sign(Render *r, const Node *node) {
    Any v = eval(r, node->a);
    if (v.kind == VALUE_UNDEFINED && !r->failed) return fail_undefined(r, v);
    if (!is_number(v)) return fail(r, "%s has no sign", value_type(v));
    if (node->kind == NODE_POSITIVE) return v.kind == VALUE_BOOL ? value_int(v.integer) : v;
    return v.kind == VALUE_FLOAT ? value_float(-v.real) : integers(r, '-', 0, v.integer);
}

/* ---- Calls ---- */

static void add_keyword(Render *r, Any keywords, Any name, Any value) {
    if (dict_find(r, keywords, name))
        fail(r, "the argument '%.*s' is given twice", string_shown(string_of(name)), name.text);
    dict_set(r, keywords, name, value);
}

static void eval_arguments(Render *r, const Node *node, Args *args) {
    Any list = {.kind = VALUE_LIST, .items = &args->list},
        keywords = {.kind = VALUE_DICT, .items = &args->keywords};
    for (; node && !r->failed; node = node->next) {
        Any v = eval(r, node->a);
        if (r->failed) return;
        if (node->op == '*') {
            JinjaItems all = value_items(r, v);
            for (size_t i = 0; i < all.n; i++) list_push(r, list, all.items[i]);
        } else if (node->op == OP_POWER) {
            if (v.kind != VALUE_DICT) fail(r, "'**' is for a dict, not for %s", value_type(v));
            for (size_t i = 0; !r->failed && i < v.items->n; i += 2) {
                if (v.items->items[i].kind != VALUE_STRING) fail(r, "a keyword is no string");
                add_keyword(r, keywords, v.items->items[i], v.items->items[i + 1]);
            }
        } else if (node->text.n) {
            add_keyword(r, keywords, value_own(node->text), v);
        } else {
            list_push(r, list, v);
        }
    }
}

/* A filter may call filters: each is a level down. */
static Any enter_builtin(Render *r, const Builtin *builtin, Any self, const Any *p, const Args *args) {
    Any v = descend(r) ? builtin->call(r, self, p, args) : self;
    r->depth--;
    return v;
}

Any call_builtin(Render *r, const Builtin *builtin, Any self, const Args *args) {
    Any p[MAX_PARAMETERS] = {0};
    if (r->failed) return self;
    if (strcmp(builtin->parameters, "*") == 0) return enter_builtin(r, builtin, self, p, args);
    size_t n = 0;
    for (const char *at = builtin->parameters; *at; n++) {
        size_t size = strcspn(at, " ");
        bool must = at[size - 1] == '!';
        String name = {at, size - must};
        const Any *keyword = NULL;
        for (size_t i = 0; i < args->keywords.n; i += 2)
            if (string_compare(string_of(args->keywords.items[i]), name) == 0)
                keyword = &args->keywords.items[i + 1];
        p[n] = n < args->list.n ? args->list.items[n] : keyword ? *keyword : p[n];
        if (must && !is_given(p[n])) return fail(r, "%s lacks '%.*s'", builtin->name, (int)name.n, name.data);
        at += size + (at[size] == ' ');
    }
    if (args->list.n > n) return fail(r, "%s takes %zu arguments, not %u", builtin->name, n, args->list.n);
    for (size_t i = 0; i < args->keywords.n; i += 2) {
        String name = string_of(args->keywords.items[i]);
        if (find_word(builtin->parameters, name) < 0)
            return fail(r, "%s has no argument '%.*s'", builtin->name, string_shown(name), name.data);
    }
    return enter_builtin(r, builtin, self, p, args);
}

const Builtin *find_builtin(const Builtin *table, size_t n, String name) {
    for (size_t i = 0; i < n; i++)
        if (string_equals(name, table[i].name)) return &table[i];
    return NULL;
}

Any call_value(Render *r, Any callee, const Args *args) {
    switch ((ValueKind)callee.kind) {
    case VALUE_MACRO: return call_macro(r, callee.macro, args);
    case VALUE_LOOP: return call_loop(r, callee.loop, args);
    case VALUE_FUNCTION: return call_builtin(r, callee.builtin, callee, args);
    case VALUE_METHOD: return call_builtin(r, callee.method->builtin, callee.method->self, args);
    case VALUE_UNDEFINED: return fail_undefined(r, callee);
    default: return fail(r, "%s cannot be called", value_type(callee));
    }
}

static Any eval_call(Render *r, const Node *node) {
    Args args = {0};
    const Node *callee = node->a;
    const Builtin *method = NULL;
    Any self;
    if (callee->kind == NODE_GETATTR) { /* a method that is called at once needs no value of its own */
        self = eval(r, callee->a);
        method = find_method(self, callee->text);
        if (!method) self = value_attribute(r, self, callee->text);
    } else {
        self = eval(r, callee);
    }
    eval_arguments(r, node->args, &args);
    if (r->failed) return self;
    return method ? call_builtin(r, method, self, &args) : call_value(r, self, &args);
}

Any eval_filters(Render *r, const Node *filter, Any v) {
    bool deeper = descend(r);
    if (deeper && filter->a)
        v = filter->a->kind == NODE_FILTER ? eval_filters(r, filter->a, v) : eval(r, filter->a);
    r->depth--;
    Args args = {0};
    r->line = filter->line;
    eval_arguments(r, filter->args, &args);
    return r->failed ? v : call_filter(r, filter->text, v, &args);
}

static Any eval_test(Render *r, const Node *node) {
    Args args = {0};
    Any v = eval(r, node->a);
    eval_arguments(r, node->args, &args);
    return value_bool(!r->failed && call_test(r, node->text, v, &args));
}

/* ---- The rest ---- */

static Any eval_name(Render *r, String name) {
    const Any *variable = scope_find(r, name);
    if (variable) return *variable;
    const Builtin *function = find_function(name);
    if (function) return (Any){.kind = VALUE_FUNCTION, .builtin = function};
    return undefined(value_of_kind(VALUE_ABSENT), name);
}

static Any eval_list(Render *r, const Node *node) {
    Any list = value_new(r, node->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE);
    for (const Node *item = node->a; item && !r->failed; item = item->next) list_push(r, list, eval(r, item));
    return list;
}

static Any eval_dict(Render *r, const Node *node) {
    Any dict = value_new(r, VALUE_DICT);
    for (const Node *key = node->a; key && !r->failed; key = key->next->next) {
        Any k = eval(r, key), v = eval(r, key->next);
        dict_set(r, dict, k, v);
    }
    return dict;
}

static Any eval_concat(Render *r, const Node *node) {
    size_t start = r->out->n;
    for (const Node *item = node->a; item && !r->failed; item = item->next) {
        Any v = eval(r, item);
        if (!r->failed) emit_value(r, v, false);
    }
    return cut(r, start);
}

static Any eval_item(Render *r, const Node *node) {
    Any v = eval(r, node->a);
    if (r->failed) return v;
    bool is_folded =
        node->a->kind == NODE_CONST && v.kind != VALUE_STRING; /* by jinja2, for which it is undefined */
    if (node->b->kind == NODE_SLICE)
        return is_folded ? undefined(v, (String){"slice", 5}) : slice(r, v, node->b);
    Any key = eval(r, node->b);
    return r->failed ? v : value_item(r, v, key);
}

static Any eval_node(Render *r, const Node *node) {
    Any a;
    switch ((NodeKind)node->kind) {
    case NODE_CONST: return node->value;
    case NODE_NAME: return eval_name(r, node->text);
    case NODE_LIST:
    case NODE_TUPLE: return eval_list(r, node);
    case NODE_DICT: return eval_dict(r, node);
    case NODE_CONCAT: return eval_concat(r, node);
    case NODE_GETATTR: a = eval(r, node->a); return r->failed ? a : value_attribute(r, a, node->text);
    case NODE_GETITEM: return eval_item(r, node);
    case NODE_CALL: return eval_call(r, node);
    case NODE_FILTER: return eval_filters(r, node, value_of_kind(VALUE_ABSENT));
    case NODE_TEST: return eval_test(r, node);
    case NODE_NOT: return value_bool(!value_truth(eval(r, node->a)));
    case NODE_NEGATIVE:
    case NODE_POSITIVE: return eval_sign(r, node);
    case NODE_AND: a = eval(r, node->a); return value_truth(a) ? eval(r, node->b) : a;
    case NODE_OR: a = eval(r, node->a); return value_truth(a) ? a : eval(r, node->b);
    case NODE_BINARY: return eval_binary(r, node);
    case NODE_COMPARE: return eval_compare(r, node);
    case NODE_CONDITION:
        if (value_truth(eval(r, node->a))) return eval(r, node->b);
        return node->c ? eval(r, node->c) : undefined(value_of_kind(VALUE_ABSENT), (String){"else", 4});
    default: return fail(r, "a statement is no expression");
    }
}

Any eval(Render *r, const Node *node) {
    Any v = value_of_kind(VALUE_UNDEFINED);
    uint32_t line = r->line;
    r->line = node->line;
    if (descend(r)) v = eval_node(r, node);
    r->depth--;
    if (!r->failed) r->line = line;
    return v;
}
