/* Filters of templates, as jinja2's filters.py (3.1) defines them, and tojson as transformers does. */
#include "jinja/jinja.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name) static Any name(Render *r, Any self, const Any *p, const Args *args)
#define UNUSED (void)r, (void)self, (void)p, (void)args

/* The argument as a text, or `otherwise`. */
static Text text_or(Render *r, Any v, const char *otherwise) {
    return is_given(v) ? text_of(value_to_text(r, v)) : text_own(otherwise, strlen(otherwise));
}

static bool flag(Any v) { return is_given(v) && value_truth(v); }

/* Where an attribute is asked for: "a.b.0" of a value, or the value itself. */
static Any attribute_of(Render *r, Any v, Any path) {
    if (!is_given(path) || path.kind == VALUE_NONE) return v;
    if (is_integer(path)) return value_item(r, v, path);
    if (path.kind != VALUE_STRING) return fail(r, "%s is no attribute", value_type(path));
    for (size_t at = 0, n; at <= path.n && charge_bytes(r, path.n - at); at += n + 1) {
        const char *dot = memchr(path.text + at, '.', path.n - at);
        n = dot ? (size_t)(dot - path.text) - at : path.n - at;
        Any key = value_text(text_part(text_of(path), at, n));
        int64_t number = 0;
        bool digits = n > 0 && n < 9;
        for (size_t i = 0; i < n && digits; i++) {
            digits = key.text[i] >= '0' && key.text[i] <= '9';
            number = number * 10 + (key.text[i] - '0');
        }
        v = value_item(r, v, digits ? value_int(number) : key);
    }
    return v;
}

/* The key that orders texts without regard to case. */
static Any sort_key(Render *r, Any v, bool case_sensitive) {
    return v.kind == VALUE_STRING && !case_sensitive ? string_lower(r, v, NULL, NULL) : v;
}

/* ---- Sorting ---- */

typedef struct Row {
    Any key, value;
} Row;

/* A merge sort, which keeps the order of equals: [from, to) of rows, by way of `spare`. */
static void sort_rows(Render *r, Row *rows, Row *spare, size_t n, bool reverse) {
    if (n < 2 || !charge(r, n)) return;
    size_t half = n / 2, a = 0, b = half;
    sort_rows(r, rows, spare, half, reverse);
    sort_rows(r, rows + half, spare, n - half, reverse);
    for (size_t i = 0; i < n; i++) {
        int order = a == half ? 1 : b == n ? -1 : value_compare(r, rows[a].key, rows[b].key);
        if (reverse && a < half && b < n) order = -order;
        spare[i] = order <= 0 ? rows[a++] : rows[b++];
    }
    memcpy(rows, spare, n * sizeof *rows);
}

/* The items as rows, each with its key, and room for as many. NULL: there are none. */
static Row *rows_of(Render *r, JinjaItems all, Any attribute, bool case_sensitive) {
    Row *rows = r->failed || all.n == 0 ? NULL : take(r, 2 * all.n * sizeof *rows);
    for (size_t i = 0; rows && i < all.n && !r->failed; i++)
        rows[i] = (Row){sort_key(r, attribute_of(r, all.items[i], attribute), case_sensitive), all.items[i]};
    return rows;
}

static Any sorted(Render *r, JinjaItems all, Any attribute, bool case_sensitive, bool reverse) {
    Any list = value_new(r, VALUE_LIST);
    Row *rows = rows_of(r, all, attribute, case_sensitive);
    if (rows) sort_rows(r, rows, rows + all.n, all.n, reverse);
    for (size_t i = 0; rows && i < all.n && !r->failed; i++) list_push(r, list, rows[i].value);
    return list;
}

FILTER(filter_sort) { /* reverse case_sensitive attribute */
    (void)args;
    return sorted(r, value_items(r, self), p[2], flag(p[1]), flag(p[0]));
}

FILTER(filter_dictsort) { /* case_sensitive by reverse */
    if (self.kind != VALUE_DICT) return fail(r, "%s is not sorted as a dict", value_type(self));
    Any items = dict_items(r, self, NULL, args);
    String by = bare(text_or(r, p[1], "key"));
    bool by_value = string_equals(by, "value");
    if (!by_value && !string_equals(by, "key")) return fail(r, "a dict is sorted by key or by value");
    if (r->failed) return self;
    return sorted(r, value_items(r, items), value_int(by_value), flag(p[0]), flag(p[2]));
}

/* The greatest item, or the smallest, of which there may be none. */
static Any extreme(Render *r, Any self, const Any *p, int sign) {
    JinjaItems all = value_items(r, self);
    Row *rows = rows_of(r, all, p[1], flag(p[0]));
    size_t best = 0;
    for (size_t i = 1; rows && i < all.n && !r->failed; i++)
        if (sign * value_compare(r, rows[i].key, rows[best].key) > 0) best = i;
    return rows ? rows[best].value : value_of_kind(VALUE_UNDEFINED);
}
FILTER(filter_max) { return (void)args, extreme(r, self, p, 1); }  /* case_sensitive attribute */
FILTER(filter_min) { return (void)args, extreme(r, self, p, -1); } /* case_sensitive attribute */

FILTER(filter_unique) { /* case_sensitive attribute */
    (void)args;
    JinjaItems all = value_items(r, self);
    Row *rows = rows_of(r, all, p[1], flag(p[0]));
    Any list = value_new(r, VALUE_GENERATOR);
    for (size_t i = 0; rows && i < all.n && !r->failed; i++) {
        size_t before = 0;
        while (before < i && !value_equals(r, rows[before].key, rows[i].key)) before++;
        if (before == i) list_push(r, list, rows[i].value);
    }
    return list;
}

/* ---- Lists ---- */

FILTER(filter_first) {
    UNUSED;
    JinjaItems all = value_items(r, self);
    return all.n ? all.items[0] : value_of_kind(VALUE_UNDEFINED);
}
FILTER(filter_last) {
    UNUSED;
    JinjaItems all = value_items(r, self);
    return all.n ? all.items[all.n - 1] : value_of_kind(VALUE_UNDEFINED);
}
FILTER(filter_length) { return UNUSED, value_int(value_length(r, self)); }

FILTER(filter_list) {
    UNUSED;
    JinjaItems all = value_items(r, self);
    Any list = value_new(r, VALUE_LIST);
    for (size_t i = 0; i < all.n && !r->failed; i++) list_push(r, list, all.items[i]);
    return list;
}

FILTER(filter_reverse) {
    UNUSED;
    size_t start = r->out->n;
    JinjaItems all = value_items(r, self);
    Any list = value_new(r, VALUE_GENERATOR);
    for (size_t i = all.n; i-- > 0 && !r->failed;)
        if (self.kind == VALUE_STRING)
            emit(r, text_of(all.items[i]));
        else
            list_push(r, list, all.items[i]);
    return self.kind == VALUE_STRING ? cut(r, start) : list;
}

/* Lists of so many items each. Of 0 the first is empty, and all items are in another; they are in one, if it is less. */
FILTER(filter_batch) { /* linecount fill_with */
    (void)args;
    if (!is_integer(p[0])) return fail(r, "a batch has an integer of items, not %s", value_type(p[0]));
    JinjaItems all = value_items(r, self);
    Any batches = value_new(r, VALUE_GENERATOR), batch = value_new(r, VALUE_LIST);
    if (all.n) list_push(r, batches, batch);
    for (size_t i = 0; i < all.n && !r->failed; i++) {
        if (batch.items->n == p[0].integer) list_push(r, batches, batch = value_new(r, VALUE_LIST));
        list_push(r, batch, all.items[i]);
    }
    bool fills = all.n && is_given(p[1]) && p[1].kind != VALUE_NONE;
    while (fills && !r->failed && batch.items->n < p[0].integer) list_push(r, batch, p[1]);
    return batches;
}

FILTER(filter_join) { /* d attribute */
    (void)args;
    Text between = text_or(r, p[0], "");
    JinjaItems all = value_items(r, self);
    size_t start = r->out->n;
    for (size_t i = 0; i < all.n && !r->failed; i++) {
        if (i > 0) emit(r, between);
        Any item = attribute_of(r, all.items[i], p[1]);
        if (!r->failed) emit_value(r, item, false);
    }
    return cut(r, start);
}

FILTER(filter_sum) { /* attribute start */
    (void)args;
    JinjaItems all = value_items(r, self);
    Any sum = is_given(p[1]) ? p[1] : value_int(0);
    for (size_t i = 0; i < all.n && !r->failed; i++) {
        Any item = attribute_of(r, all.items[i], p[0]);
        if (!is_number(sum) || !is_number(item))
            return fail(r, "a sum is of numbers, not of %s", value_type(item));
        bool real = sum.kind == VALUE_FLOAT || item.kind == VALUE_FLOAT;
        if (real)
            sum = value_float(number_of(sum) + number_of(item));
        else if (__builtin_add_overflow(sum.integer, item.integer, &sum.integer))
            return fail(r, "an integer is too large");
    }
    return sum;
}

/* The arguments behind the first n. */
static Args rest_of(const Args *args, uint32_t n) {
    Args rest = *args;
    n = n < rest.list.n ? n : rest.list.n;
    rest.list.n -= n;
    if (n) rest.list.items += n;
    return rest;
}

static Any keyword(const Args *args, const char *name) {
    for (size_t i = 0; i < args->keywords.n; i += 2)
        if (string_equals(string_of(args->keywords.items[i]), name)) return args->keywords.items[i + 1];
    return value_of_kind(VALUE_ABSENT);
}

/* map("filter", its arguments …), map(attribute="a.b", default=…) */
FILTER(filter_map) {
    (void)p;
    JinjaItems all = value_truth(self) ? value_items(r, self) : (JinjaItems){0}; /* None, too, has nothing */
    Any list = value_new(r, VALUE_GENERATOR), attribute = keyword(args, "attribute"),
        otherwise = keyword(args, "default");
    Args rest = rest_of(args, 1);
    bool has_name = args->list.n > 0 && args->list.items[0].kind == VALUE_STRING;
    if (!has_name && !is_given(attribute)) return fail(r, "map lacks a filter or an attribute");
    for (size_t i = 0; i < all.n && !r->failed; i++) {
        Any v = is_given(attribute) ? attribute_of(r, all.items[i], attribute)
                                    : call_filter(r, string_of(args->list.items[0]), all.items[i], &rest);
        list_push(r, list, v.kind == VALUE_UNDEFINED && is_given(otherwise) ? otherwise : v);
    }
    return list;
}

/* The items that a test, named by argument `at`, holds for or not; without one, those that are true or not. */
static Any select_items(Render *r, Any self, const Args *args, uint32_t at, bool wanted) {
    JinjaItems all = value_truth(self) ? value_items(r, self) : (JinjaItems){0};
    Any list = value_new(r, VALUE_GENERATOR);
    Args rest = rest_of(args, at + 1);
    Any attribute = at > 0 && args->list.n > 0 ? args->list.items[0] : value_of_kind(VALUE_ABSENT);
    bool has_test = args->list.n > at;
    if (at > 0 && !is_given(attribute)) return fail(r, "an attribute is missing");
    if (has_test && args->list.items[at].kind != VALUE_STRING) return fail(r, "a test is named by a string");
    for (size_t i = 0; i < all.n && !r->failed; i++) {
        Any v = attribute_of(r, all.items[i], attribute);
        bool holds = !r->failed &&
                     (has_test ? call_test(r, string_of(args->list.items[at]), v, &rest) : value_truth(v));
        if (holds == wanted) list_push(r, list, all.items[i]);
    }
    return list;
}
FILTER(filter_select) { return (void)p, select_items(r, self, args, 0, true); }
FILTER(filter_reject) { return (void)p, select_items(r, self, args, 0, false); }
FILTER(filter_selectattr) { return (void)p, select_items(r, self, args, 1, true); }
FILTER(filter_rejectattr) { return (void)p, select_items(r, self, args, 1, false); }

FILTER(filter_items) {
    if (self.kind == VALUE_UNDEFINED) return value_new(r, VALUE_GENERATOR);
    if (self.kind != VALUE_DICT) return fail(r, "%s has no items", value_type(self));
    Any items = dict_items(r, self, p, args);
    if (!r->failed) items.kind = VALUE_GENERATOR;
    return items;
}

/* A dict's members are none of its attributes, which are its methods alone. */
FILTER(filter_attr) {
    const String name = string_of(value_to_text(r, p[0]));
    (void)args;
    if (self.kind == VALUE_DICT && !find_method(self, name)) self = value_new(r, VALUE_DICT);
    return r->failed ? self : value_attribute(r, self, name);
}

/* ---- Numbers ---- */

/*
 * The number that a text is, all of it but white space and underscores, or that a value is: false where it is no integer of that
 * base, or none that is held; *real is then what it is as a decimal number, or NAN.
 */
static bool read_number(Render *r, Any v, int base, int64_t *integer, double *real) {
    char digits[80], *end = digits;
    if (is_integer(v)) return *integer = v.integer, *real = (double)v.integer, true;
    if (v.kind == VALUE_FLOAT) return *real = v.real, *integer = 0, false;
    if (v.kind != VALUE_STRING) return *real = NAN, false;
    Text text = text_strip(r, text_of(v), (Text){0}, true, true);
    size_t n = 0;
    for (size_t i = 0; i < text.n && n + 1 < sizeof digits; i++)
        if (text.data[i] != '_') digits[n++] = text.data[i];
    digits[n] = 0;
    *real = NAN;
    if (n == 0 || n + 1 == sizeof digits) return false;
    if (!strpbrk(digits, "xXpP(")) *real = strtod(digits, &end);
    if (*end) *real = NAN;
    errno = 0;
    *integer = strtoll(digits, &end, base);
    if (!*end && errno && base != 10) *real = NAN;
    return !*end && !errno;
}

FILTER(filter_int) { /* default base */
    int64_t integer, base = is_given(p[1]) && is_integer(p[1]) ? p[1].integer : 10;
    double real;
    (void)args;
    if (self.kind == VALUE_UNDEFINED) return value_attribute(r, self, (String){"int", 3});
    if (read_number(r, self, base >= 2 && base <= 36 ? (int)base : 10, &integer, &real))
        return value_int(integer);
    if (real >= -0x1p63 && real < 0x1p63) return value_int((int64_t)real);
    return is_given(p[0]) ? p[0] : value_int(0);
}

FILTER(filter_float) { /* default */
    int64_t integer;
    double real;
    (void)args;
    if (self.kind == VALUE_UNDEFINED) return value_attribute(r, self, (String){"float", 5});
    read_number(r, self, 10, &integer, &real);
    return !isnan(real) ? value_float(real) : is_given(p[0]) ? p[0] : value_float(0);
}

FILTER(filter_abs) {
    UNUSED;
    if (self.kind == VALUE_FLOAT) return value_float(fabs(self.real));
    if (!is_integer(self)) return fail(r, "%s has no absolute value", value_type(self));
    if (self.integer == INT64_MIN) return fail(r, "an integer is too large");
    return value_int(self.integer < 0 ? -self.integer : self.integer);
}

FILTER(filter_round) { /* precision method */
    (void)args;
    int64_t digits = !is_given(p[0]) ? 0 : is_integer(p[0]) ? p[0].integer : INT64_MAX;
    String method = bare(text_or(r, p[1], "common"));
    if (!is_number(self) || digits < -300 || digits > 300)
        return fail(r, "%s cannot be rounded", value_type(self));
    double scale = pow(10, (double)digits), x = number_of(self);
    if (string_equals(method, "ceil")) return value_float(ceil(x * scale) / scale);
    if (string_equals(method, "floor")) return value_float(floor(x * scale) / scale);
    if (is_integer(self) && digits < 0) {
        const double rounded = rint(x * scale) / scale;
        if (fabs(rounded) > 9.2e18) return fail(r, "a number is too large to be rounded");
        return value_int((int64_t)rounded);
    }
    if (is_integer(self)) return value_int(self.integer);
    if (digits < 0 || digits > 17) return value_float(rint(x * scale) / scale);
    charge(r, 10);
    char text[400]; /* printf rounds what the number is exactly, as Python does */
    snprintf(text, sizeof text, "%.*f", (int)digits, x);
    return value_float(strtod(text, NULL));
}

/* ---- The rest ---- */

FILTER(filter_default) { /* default_value boolean */
    (void)args;
    bool keeps = self.kind != VALUE_UNDEFINED && !(flag(p[1]) && !value_truth(self));
    (void)r;
    return keeps ? self : is_given(p[0]) ? p[0] : value_text(text_own("", 0));
}

FILTER(filter_string) { return UNUSED, value_to_text(r, self); }
FILTER(filter_safe) { return UNUSED, self.kind == VALUE_UNDEFINED ? value_text(text_own("", 0)) : self; }

static const Builtin filters[] = {
    {"abs", "", filter_abs},
    {"attr", "name!", filter_attr},
    {"batch", "linecount! fill_with", filter_batch},
    {"capitalize", "", string_capitalize},
    {"count", "", filter_length},
    {"d", "default_value boolean", filter_default},
    {"default", "default_value boolean", filter_default},
    {"dictsort", "case_sensitive by reverse", filter_dictsort},
    {"e", "", string_escape},
    {"escape", "", string_escape},
    {"first", "", filter_first},
    {"float", "default", filter_float},
    {"format", "*", string_printf},
    {"indent", "width first blank", string_indent},
    {"int", "default base", filter_int},
    {"items", "", filter_items},
    {"join", "d attribute", filter_join},
    {"last", "", filter_last},
    {"length", "", filter_length},
    {"list", "", filter_list},
    {"lower", "", string_lower},
    {"map", "*", filter_map},
    {"max", "case_sensitive attribute", filter_max},
    {"min", "case_sensitive attribute", filter_min},
    {"reject", "*", filter_reject},
    {"rejectattr", "*", filter_rejectattr},
    {"replace", "old! new! count", string_replace},
    {"reverse", "", filter_reverse},
    {"round", "precision method", filter_round},
    {"safe", "", filter_safe},
    {"select", "*", filter_select},
    {"selectattr", "*", filter_selectattr},
    {"sort", "reverse case_sensitive attribute", filter_sort},
    {"string", "", filter_string},
    {"sum", "attribute start", filter_sum},
    {"title", "", string_title_filter},
    {"tojson", "ensure_ascii indent separators sort_keys", value_to_json},
    {"trim", "chars", string_strip},
    {"unique", "case_sensitive attribute", filter_unique},
    {"upper", "", string_upper},
    {"wordcount", "", string_wordcount},
};

const Builtin *find_filter(String name) {
    return find_builtin(filters, sizeof filters / sizeof *filters, name);
}

Any call_filter(Render *r, String name, Any self, const Args *args) {
    const Builtin *filter = find_filter(name);
    if (!filter) return fail(r, "no filter is named '%.*s'", string_shown(name), name.data);
    return call_builtin(r, filter, self, args);
}
