/* Values of templates (jinja.h): memory, texts, lists, dicts, and comparisons. */
#include "base/utf8.h"
#include "jinja/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct PoolBlock {
    struct PoolBlock *before;
    max_align_t data[];
} PoolBlock;

void *pool_take(Pool *pool, size_t n) {
    enum { ALIGN = sizeof(max_align_t), SMALL = 1 << 12, LARGE = 1 << 18 };
    pool->full = n > pool->most;
    if (pool->full) return NULL;
    n = (n + ALIGN - 1) / ALIGN * ALIGN;
    if (n > pool->left) {
        size_t size = pool->used < SMALL   ? SMALL
                      : pool->used < LARGE ? pool->used
                                           : LARGE; /* blocks double */
        if (size < n) size = n;
        pool->full = size > pool->most - pool->used;
        if (pool->full) return NULL;
        PoolBlock *block = calloc(1, sizeof *block + size);
        if (!block) return NULL;
        block->before = pool->blocks;
        pool->blocks = block;
        pool->used += size;
        if (size - n <= pool->left) return block->data; /* what is left elsewhere is more */
        pool->next = (char *)block->data;
        pool->left = size;
    }
    void *taken = pool->next;
    pool->next += n;
    pool->left -= n;
    return taken;
}

void pool_free(Pool *pool) {
    for (PoolBlock *block = pool->blocks, *before; block; block = before) {
        before = block->before;
        free(block);
    }
}

/* ---- Errors and bounds ---- */

Any fail(Render *r, const char *format, ...) {
    char what[400];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (!r->failed) error_set(r->error, "the chat template, line %u: %s", r->line, what);
    r->failed = true;
    return value_of_kind(VALUE_UNDEFINED);
}

bool charge(Render *r, size_t steps) {
    if (r->failed) return false;
    r->steps += steps; /* of a text or list in memory: far from 2^32 */
    if (r->steps >= TEMPLATE_MAX_STEPS) fail(r, "it takes too long");
    return !r->failed;
}

bool descend(Render *r) {
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!r->stack) r->stack = here;
    const size_t n = here < r->stack ? r->stack - here : here - r->stack;
    if (++r->depth > TEMPLATE_MAX_DEPTH || n > TEMPLATE_MAX_STACK) fail(r, "too much within each other");
    return charge(r, 1);
}

void *take(Render *r, size_t n) {
    void *taken = r->failed ? NULL : pool_take(&r->pool, n);
    if (!taken && r->pool.full) fail(r, "it takes more than %d MB of memory", TEMPLATE_MAX_MEMORY >> 20);
    if (!taken) fail(r, "not enough memory");
    return taken;
}

/* ---- Texts ---- */

void emit(Render *r, Text text) {
    if (!charge_bytes(r, text.n)) return;
    if (r->out->n - r->out_start + text.n > TEMPLATE_MAX_OUTPUT)
        fail(r, "it makes more than %d MB of text", TEMPLATE_MAX_OUTPUT >> 20);
    else if (!text_append(r->out, text.data, text.n) ||
             !(text.marks ? text_append(r->marks, text.marks, text.n)
                          : text_append_times(r->marks, 0, text.n)))
        fail(r, "not enough memory for its text");
}

void emit_word(Render *r, const char *word) { emit(r, text_own(word, strlen(word))); }

/* The marks of n bytes that are all from outside. */
static const char *foreign_marks(Render *r, size_t n) {
    if (n > r->n_foreign) {
        size_t more = n > 2 * r->n_foreign ? n : 2 * r->n_foreign;
        char *ones = take(r, more);
        if (!ones) return NULL;
        r->foreign = memset(ones, 1, more);
        r->n_foreign = more;
    }
    return r->foreign;
}

void emit_for(Render *r, const char *word, Text of) {
    size_t n = strlen(word);
    emit(r, (Text){word, n, of.marks && *of.marks ? foreign_marks(r, n) : NULL});
}

/* Marks are kept only of a text whose bytes come from both. */
Any cut(Render *r, size_t start) {
    size_t n = r->out->n - start, at = r->marks_start + (start - r->out_start);
    char *text = n && !r->failed ? take(r, n) : NULL;
    const char *marks = NULL;
    if (text) {
        const char *made = r->marks->data + at;
        memcpy(text, r->out->data + start, n);
        if (memchr(made, 1, n)) {
            char *both = memchr(made, 0, n) ? take(r, n) : NULL;
            marks = both ? memcpy(both, made, n) : foreign_marks(r, n);
        }
    }
    r->out->n = start;
    r->marks->n = at;
    return value_text((Text){text ? text : "", text ? n : 0, text ? marks : NULL});
}

size_t text_find(Render *r, Text text, Text needle, size_t from) {
    if (needle.n > text.n - from) return text.n + 1;
    const char *at = text.data + from, *last = text.data + text.n - needle.n;
    if (needle.n == 0) return from;
    for (; at <= last; at++) {
        const char *found = memchr(at, needle.data[0], (size_t)(last - at) + 1);
        size_t passed = (size_t)((found ? found : last) - at);
        if (!charge_bytes(r, passed + (found ? needle.n : 0)) || !found) break;
        if (memcmp(found, needle.data, needle.n) == 0) return (size_t)(found - text.data);
        at = found;
    }
    return text.n + 1;
}

size_t text_find_last(Render *r, Text text, Text needle, size_t end) {
    for (size_t at = end >= needle.n ? end - needle.n + 1 : 0; at-- > 0 && charge_bytes(r, needle.n);)
        if (memcmp(text.data + at, needle.data, needle.n) == 0) return at;
    return text.n + 1;
}

bool text_equals(Render *r, Text a, Text b) {
    return a.n == b.n && charge_bytes(r, a.n) && memcmp(a.data, b.data, a.n) == 0;
}

int text_compare(Render *r, Text a, Text b) {
    return charge_bytes(r, a.n < b.n ? a.n : b.n) ? string_compare(bare(a), bare(b)) : 0;
}

size_t text_characters(Render *r, Text text) {
    size_t n = 0;
    if (!charge_bytes(r, text.n)) return 0;
    for (size_t i = 0; i < text.n; i++) n += !utf8_continues(text.data[i]);
    return n;
}

size_t text_offset(Render *r, Text text, size_t character) {
    size_t at = 0;
    while (at < text.n && (utf8_continues(text.data[at]) || character-- > 0)) at++;
    charge_bytes(r, at);
    return at;
}

/* Whether the n bytes at c, a character, are to be stripped. */
static bool is_stripped(Render *r, Text set, const char *c, size_t n) {
    uint32_t code;
    if (!charge_characters(r, set.n)) return false;
    if (!set.data) return utf8_decode(c, n, &code), utf8_is_space(code);
    for (size_t at = 0, size; at < set.n; at += size) {
        size = utf8_decode(set.data + at, set.n - at, &code);
        if (size == n && memcmp(set.data + at, c, n) == 0) return true;
    }
    return false;
}

Text text_strip(Render *r, Text text, Text set, bool left, bool right) {
    uint32_t code;
    size_t from = 0, end = text.n;
    while (left && from < end) {
        size_t n = utf8_decode(text.data + from, end - from, &code);
        if (!is_stripped(r, set, text.data + from, n)) break;
        from += n;
    }
    while (right && from < end) {
        size_t begin = from + utf8_before(text.data + from, end - from);
        if (!is_stripped(r, set, text.data + begin, end - begin)) break;
        end = begin;
    }
    return text_part(text, from, end - from);
}

/* ---- Lists and dicts ---- */

Any value_new(Render *r, ValueKind kind) {
    Any value = value_of_kind(kind);
    value.items = take(r, sizeof *value.items);
    return value.items ? value : value_of_kind(VALUE_UNDEFINED);
}

void list_push(Render *r, Any list, Any item) {
    if (!charge(r, 1)) return;
    List *items = list.items;
    if (items->n == items->capacity) {
        size_t capacity = items->capacity ? 2 * (size_t)items->capacity : 4;
        Any *larger = take(r, capacity * sizeof *larger);
        if (!larger) return;
        if (items->n) memcpy(larger, items->items, items->n * sizeof *larger);
        items->items = larger;
        items->capacity = (uint32_t)capacity;
    }
    items->items[items->n++] = item;
}

const Any *dict_find(Render *r, Any dict, Any key) {
    for (size_t i = 0; !r->failed && i < dict.items->n; i += 2)
        if (value_equals(r, dict.items->items[i], key)) return &dict.items->items[i + 1];
    return NULL;
}

void dict_set(Render *r, Any dict, Any key, Any value) {
    if (r->failed) return;
    if (is_list(key) || key.kind == VALUE_DICT) {
        fail(r, "%s cannot be a key", value_type(key));
        return;
    }
    const Any *old = dict_find(r, dict, key);
    if (old) {
        dict.items->items[old - dict.items->items] = value;
    } else {
        list_push(r, dict, key);
        list_push(r, dict, value);
    }
}

/* Within an array or object only roles are the template's own. */
Any value_from_json(Render *r, const Json *json, bool own) {
    int64_t integer;
    String text;
    Any value = value_of_kind(VALUE_NONE);
    switch ((JsonKind)json->kind) {
    case JSON_NULL: break;
    case JSON_BOOL: return value_bool(json->boolean);
    case JSON_NUMBER: return json_integer(json, &integer) ? value_int(integer) : value_float(json->number);
    case JSON_TEXT:
        text = json_string(json);
        return value_text((Text){text.data, text.n, own ? NULL : foreign_marks(r, text.n)});
    case JSON_ARRAY:
    case JSON_OBJECT:
        value = value_new(r, json->kind == JSON_ARRAY ? VALUE_LIST : VALUE_DICT);
        for (size_t i = 0; !r->failed && i < json->n; i++) {
            bool is_role = json->kind == JSON_OBJECT && string_equals(json_key(json, i), "role");
            if (json->kind == JSON_OBJECT)
                list_push(r, value, value_from_json(r, &json->items[2 * i], is_role));
            list_push(r, value, value_from_json(r, json_item(json, i), is_role));
        }
        break;
    }
    return value;
}

/* ---- All kinds ---- */

const char *value_type(Any v) {
    static const char *const names[] = {[VALUE_ABSENT] = "nothing",  [VALUE_UNDEFINED] = "an undefined value",
                                        [VALUE_NONE] = "None",       [VALUE_BOOL] = "a bool",
                                        [VALUE_INT] = "an int",      [VALUE_FLOAT] = "a float",
                                        [VALUE_STRING] = "a str",    [VALUE_LIST] = "a list",
                                        [VALUE_TUPLE] = "a tuple",   [VALUE_GENERATOR] = "a generator",
                                        [VALUE_DICT] = "a dict",     [VALUE_NAMESPACE] = "a namespace",
                                        [VALUE_LOOP] = "a loop",     [VALUE_MACRO] = "a macro",
                                        [VALUE_METHOD] = "a method", [VALUE_FUNCTION] = "a function"};
    return names[v.kind];
}

bool value_truth(Any v) {
    switch ((ValueKind)v.kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOL:
    case VALUE_INT: return v.integer != 0;
    case VALUE_FLOAT: return v.real != 0;
    case VALUE_STRING: return v.n > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT: return v.items->n > 0;
    default: return true;
    }
}

int64_t value_length(Render *r, Any v) {
    switch ((ValueKind)v.kind) {
    case VALUE_UNDEFINED: return 0;
    case VALUE_STRING: return (int64_t)text_characters(r, text_of(v));
    case VALUE_LIST:
    case VALUE_TUPLE: return v.items->n;
    case VALUE_DICT: return v.items->n / 2;
    case VALUE_LOOP: return (int64_t)v.loop->n;
    default: fail(r, "%s has no length", value_type(v)); return 0;
    }
}

JinjaItems value_items(Render *r, Any v) {
    Any list;
    if (!charge(r, 1)) return (JinjaItems){0};
    switch ((ValueKind)v.kind) {
    case VALUE_UNDEFINED: return (JinjaItems){0};
    case VALUE_LIST:
    case VALUE_TUPLE: return (JinjaItems){v.items->items, v.items->n};
    case VALUE_GENERATOR: {
        JinjaItems all = {v.items->items, v.items->n};
        v.items->n = 0; /* they can be had once */
        return all;
    }
    case VALUE_DICT:
        list = value_new(r, VALUE_LIST);
        for (size_t i = 0; !r->failed && i < v.items->n; i += 2) list_push(r, list, v.items->items[i]);
        break;
    case VALUE_STRING:
        list = value_new(r, VALUE_LIST);
        for (size_t at = 0, n; !r->failed && at < v.n; at += n) {
            uint32_t code;
            n = utf8_decode(v.text + at, v.n - at, &code);
            list_push(r, list, value_text(text_part(text_of(v), at, n)));
        }
        break;
    default: fail(r, "%s cannot be gone through", value_type(v)); return (JinjaItems){0};
    }
    return r->failed ? (JinjaItems){0} : (JinjaItems){list.items->items, list.items->n};
}

static bool lists_equal(Render *r, const List *a, const List *b) {
    bool equal = a->n == b->n && descend(r);
    for (size_t i = 0; equal && i < a->n; i++) equal = value_equals(r, a->items[i], b->items[i]);
    if (a->n == b->n) r->depth--;
    return equal;
}

static bool dicts_equal(Render *r, Any a, Any b) {
    bool equal = a.items->n == b.items->n && descend(r);
    for (size_t i = 0; equal && i < a.items->n; i += 2) {
        const Any *other = dict_find(r, b, a.items->items[i]);
        equal = other && value_equals(r, a.items->items[i + 1], *other);
    }
    if (a.items->n == b.items->n) r->depth--;
    return equal;
}

bool value_equals(Render *r, Any a, Any b) {
    if (!charge(r, 1)) return false;
    if (is_integer(a) && is_integer(b)) return a.integer == b.integer;
    if (is_number(a) && is_number(b)) return number_of(a) == number_of(b);
    if (a.kind != b.kind) return false;
    switch ((ValueKind)a.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: return true;
    case VALUE_STRING: return text_equals(r, text_of(a), text_of(b));
    case VALUE_LIST:
    case VALUE_TUPLE: return lists_equal(r, a.items, b.items);
    case VALUE_DICT: return dicts_equal(r, a, b);
    default: return a.items == b.items;
    }
}

int value_compare(Render *r, Any a, Any b) {
    if (!charge(r, 1)) return 0;
    if (is_number(a) && is_number(b)) {
        if (is_integer(a) && is_integer(b)) return (a.integer > b.integer) - (a.integer < b.integer);
        return (number_of(a) > number_of(b)) - (number_of(a) < number_of(b));
    }
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) return text_compare(r, text_of(a), text_of(b));
    if (is_list(a) && a.kind == b.kind) {
        int order = 0;
        if (descend(r))
            for (size_t i = 0; order == 0 && !r->failed && i < a.items->n && i < b.items->n; i++)
                if (!value_equals(r, a.items->items[i], b.items->items[i]))
                    order = value_compare(r, a.items->items[i], b.items->items[i]);
        r->depth--;
        return order ? order : (a.items->n > b.items->n) - (a.items->n < b.items->n);
    }
    fail(r, "%s and %s have no order", value_type(a), value_type(b));
    return 0;
}

bool value_contains(Render *r, Any container, Any item) {
    if (container.kind == VALUE_STRING) {
        if (item.kind != VALUE_STRING) fail(r, "%s cannot be in a string", value_type(item));
        return !r->failed && text_find(r, text_of(container), text_of(item), 0) <= container.n;
    }
    if (container.kind == VALUE_DICT && (item.kind == VALUE_LIST || item.kind == VALUE_DICT))
        fail(r, "%s cannot be a key", value_type(item));
    if (container.kind == VALUE_DICT) return dict_find(r, container, item) != NULL;
    JinjaItems all = value_items(r, container);
    for (size_t i = 0; !r->failed && i < all.n; i++)
        if (value_equals(r, all.items[i], item)) return true;
    return false;
}
