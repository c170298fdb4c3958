/* Methods of lists, dicts and loops, global functions, and '…'.format(…). */
#include "base/utf8.h"
#include "jinja/jinja.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FUNCTION(name) static Any name(Render *r, Any self, const Any *p, const Args *args)
#define SHARED(name) Any name(Render *r, Any self, const Any *p, const Args *args)
#define UNUSED (void)r, (void)self, (void)p, (void)args

/* ---- Formats ---- */

/* Argument i, or undefined with an error. */
static Any argument(Render *r, const Args *args, size_t i) {
    return i < args->list.n ? args->list.items[i]
                            : fail(r, "a format has more places than there are arguments");
}

/* Finds the value that "{…}" names in a format, or an attribute or item of it. */
static Any format_field(Render *r, const Args *args, Text field, size_t *next) {
    size_t n = 0, digits = 0;
    while (n < field.n && field.data[n] != '.' && field.data[n] != '[')
        digits += field.data[n] >= '0' && field.data[n] <= '9', n++;
    Any v;
    if (n == 0)
        v = argument(r, args, (*next)++);
    else if (digits == n)
        v = argument(r, args, (size_t)strtoull(field.data, NULL, 10));
    else {
        Any dict = {.kind = VALUE_DICT, .items = &(List){args->keywords.items, args->keywords.n, 0}};
        const Any *keyword = dict_find(r, dict, value_text(text_part(field, 0, n)));
        v = keyword ? *keyword
                    : fail(r, "a format names '%.*s', which is not given",
                           string_shown((String){field.data, n}), field.data);
    }
    if (r->failed || n == field.n) return v;
    if (field.data[n] == '.') return value_attribute(r, v, bare(text_part(field, n + 1, field.n - n - 1)));
    return fail(r, "a format with '[' is not known here");
}

/*
 * The format behind ':' (Python's "Format Specification Mini-Language"):
 * [[fill]align][sign][0][width][,][.precision][type].
 */
typedef struct Spec {
    Text fill;
    char align, sign, group, type; /* 0: none is given */
    int width, precision;          /* precision −1: none */
    bool zeros;
} Spec;

enum { SPEC_MAX = 1 << 24 }; /* a width or precision */

static bool is_among(Text t, size_t at, const char *set) {
    return at < t.n && t.data[at] && strchr(set, t.data[at]);
}

/* Digits, *at behind them; `otherwise` where there are none. */
static int take_digits(Text t, size_t *at, int otherwise) {
    int number = is_among(t, *at, "0123456789") ? 0 : otherwise;
    for (; is_among(t, *at, "0123456789"); ++*at)
        if (number < SPEC_MAX) number = number * 10 + (t.data[*at] - '0');
    return number;
}

static Spec read_spec(Render *r, Text t) {
    Spec spec = {.fill = text_own(" ", 1), .precision = -1};
    uint32_t c;
    size_t at = t.n ? utf8_decode(t.data, t.n, &c) : 0;
    bool filled = is_among(t, at, "<>=^");
    if (filled) spec.fill = text_part(t, 0, at);
    at = filled ? at : 0;
    if (is_among(t, at, "<>=^")) spec.align = t.data[at++];
    if (is_among(t, at, "+- ")) spec.sign = t.data[at++];
    spec.zeros = !filled && is_among(t, at, "0");
    if (spec.zeros) spec.fill = text_part(t, at++, 1);
    spec.width = take_digits(t, &at, 0);
    if (is_among(t, at, ",_")) spec.group = t.data[at++];
    if (is_among(t, at, ".")) {
        at++;
        spec.precision = take_digits(t, &at, -1);
        if (spec.precision < 0) fail(r, "a format has a '.' without a precision");
    }
    if (is_among(t, at, "dfs")) spec.type = t.data[at++];
    if (at < t.n) fail(r, "a format with ':%.*s' is not known here", string_shown(bare(t)), t.data);
    if (spec.width >= SPEC_MAX || spec.precision >= SPEC_MAX) fail(r, "a format has too large a number");
    return spec;
}

/* A body, with its sign in front, in a field; `align` where the format names none. */
static void emit_field(Render *r, const Spec *spec, const char *sign, Text body, char align) {
    int64_t n = (int64_t)(strlen(sign) + text_characters(r, body));
    int64_t room = spec->width > n ? spec->width - n : 0;
    if (spec->align) align = spec->align;
    int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
    if (align == '=') emit_word(r, sign);
    for (int64_t i = 0; i < left && !r->failed; i++) emit(r, spec->fill);
    if (align != '=') emit_word(r, sign);
    emit(r, body);
    for (int64_t i = left; i < room && !r->failed; i++) emit(r, spec->fill);
}

/* Writes digits, with what is behind them, in groups of three; zeros in front where they fill `width`. */
static void group_digits(Render *r, const char *digits, char sign, int width, char *out, size_t room) {
    int n = (int)strspn(digits, "0123456789"), more = (int)strlen(digits) - n, all = n;
    while (all + (all - 1) / 3 + more < width) all++;
    if ((size_t)(all + all / 3 + more) >= room) {
        fail(r, "a format has too large a number");
        all = n = more = 0;
    }
    for (int i = 0; i < all; i++) {
        *out++ = i < all - n ? '0' : digits[i - (all - n)];
        if (i + 1 < all && (all - i - 1) % 3 == 0) *out++ = sign;
    }
    memcpy(out, digits + n, (size_t)more);
    out[more] = 0;
}

static void emit_number_as(Render *r, Any v, const Spec *spec) {
    enum { ROOM = 1024 };
    char digits[ROOM], grouped[ROOM], *body = digits;
    bool is_real = spec->type == 'f' || v.kind == VALUE_FLOAT, negative = number_of(v) < 0;
    char align = spec->align ? spec->align : spec->zeros ? '=' : '>';
    if (spec->type == 's' || (v.kind == VALUE_FLOAT && spec->type == 'd')) {
        fail(r, "a format wants %s, not %s", spec->type == 's' ? "a string" : "an int", value_type(v));
        return;
    }
    if (is_real ? spec->precision > 300 || (spec->type != 'f' && (spec->precision >= 0 || spec->group))
                : spec->precision >= 0) {
        fail(r, "a format of %s has a precision or ',' that is not known here", value_type(v));
        return;
    }
    charge(r, 10);
    if (spec->type == 'f') {
        negative = signbit(number_of(v));
        snprintf(digits, ROOM, "%.*f", spec->precision < 0 ? 6 : spec->precision, fabs(number_of(v)));
    } else if (is_real) {
        Any text = value_to_text(r, value_float(fabs(v.real)));
        negative = signbit(v.real);
        snprintf(digits, ROOM, "%.*s", (int)text.n, text.text);
    } else {
        snprintf(digits, ROOM, "%llu",
                 negative ? -(unsigned long long)v.integer : (unsigned long long)v.integer);
    }
    const char sign[] = {negative ? '-' : spec->sign == '-' ? 0 : spec->sign, 0};
    if (spec->group) {
        bool fills = align == '=' && spec->fill.n == 1 && *spec->fill.data == '0';
        group_digits(r, digits, spec->group, fills ? spec->width - (int)strlen(sign) : 0, grouped, ROOM);
        body = grouped;
    }
    emit_field(r, spec, sign, text_own(body, strlen(body)), align);
}

static void emit_text_as(Render *r, Any v, const Spec *spec) {
    Text text = text_of(v);
    if (spec->sign || spec->group || spec->align == '=' || (spec->type && spec->type != 's')) {
        fail(r, "a format of a number is given a str");
        return;
    }
    if (spec->precision >= 0) text.n = text_offset(r, text, (size_t)spec->precision);
    emit_field(r, spec, "", text, '<');
}

/* "{name!conversion:format}" without its brackets. */
static void emit_place(Render *r, const Args *args, Text place, size_t *next) {
    const char *colon = memchr(place.data, ':', place.n);
    size_t n_name = colon ? (size_t)(colon - place.data) : place.n;
    const char *mark = memchr(place.data, '!', n_name);
    Spec spec = {0};
    if (colon) spec = read_spec(r, text_part(place, n_name + 1, place.n - n_name - 1));
    if (mark) {
        size_t n = (size_t)(mark - place.data);
        if (n_name != n + 2 || !is_among(place, n + 1, "sr"))
            fail(r, "a format with '!%.*s' is not known here",
                 string_shown(bare(text_part(place, n + 1, n_name - n - 1))), mark + 1);
        n_name = n;
    }
    Any v = format_field(r, args, text_part(place, 0, n_name), next);
    if (r->failed) return;
    bool plain = !colon || n_name + 1 == place.n || (mark && n_name + 3 == place.n);
    if (mark) {
        size_t start = r->out->n;
        emit_value(r, v, mark[1] == 'r');
        v = cut(r, start);
    }
    if (r->failed) return;
    if (plain)
        emit_value(r, v, false);
    else if (v.kind == VALUE_STRING)
        emit_text_as(r, v, &spec);
    else if (is_number(v))
        emit_number_as(r, v, &spec);
    else
        fail(r, "a format with ':' is for numbers and strings, not for %s", value_type(v));
}

SHARED(string_format) {
    (void)p;
    Text s = text_of(self);
    size_t start = r->out->n, next = 0, plain = 0; /* from here on as it is */
    charge_characters(r, s.n);
    for (size_t at = 0; at < s.n && !r->failed;) {
        char c = s.data[at];
        if (c != '{' && c != '}') {
            at++;
            continue;
        }
        bool doubled = at + 1 < s.n && s.data[at + 1] == c;
        emit(r, text_part(s, plain, at - plain + doubled));
        plain = at += 2;
        if (doubled) continue;
        size_t from = at - 1;
        const char *end = c == '{' ? memchr(s.data + from, '}', s.n - from) : NULL;
        if (!end) return fail(r, "a format has a lone '%c'", c);
        size_t n = (size_t)(end - s.data) - from;
        if (memchr(s.data + from, '{', n)) return fail(r, "a format within a format is not known here");
        if (charge_bytes(r, n)) emit_place(r, args, text_part(s, from, n), &next);
        plain = at = from + n + 1;
    }
    if (plain < s.n) emit(r, text_part(s, plain, s.n - plain));
    return cut(r, start);
}

/* ---- Methods of dicts, lists, loops ---- */

FUNCTION(dict_get) { /* key default */
    (void)args;
    const Any *value = dict_find(r, self, p[0]);
    return value ? *value : is_given(p[1]) ? p[1] : value_of_kind(VALUE_NONE);
}

SHARED(dict_items) {
    UNUSED;
    Any list = value_new(r, VALUE_LIST);
    for (size_t i = 0; i < self.items->n && !r->failed; i += 2) {
        Any pair = value_new(r, VALUE_TUPLE);
        list_push(r, pair, self.items->items[i]);
        list_push(r, pair, self.items->items[i + 1]);
        list_push(r, list, pair);
    }
    return list;
}

/* The keys, or the values. */
static Any every_second(Render *r, Any dict, size_t from) {
    Any list = value_new(r, VALUE_LIST);
    for (size_t i = from; i < dict.items->n && !r->failed; i += 2) list_push(r, list, dict.items->items[i]);
    return list;
}
FUNCTION(dict_keys) { return (void)p, (void)args, every_second(r, self, 0); }
FUNCTION(dict_values) { return (void)p, (void)args, every_second(r, self, 1); }

static Any copy(Render *r, Any v) {
    Any other = value_new(r, v.kind);
    for (size_t i = 0; i < v.items->n && !r->failed; i++) list_push(r, other, v.items->items[i]);
    return other;
}
FUNCTION(list_copy) { return (void)p, (void)args, copy(r, self); }

FUNCTION(list_append) {
    (void)args;
    list_push(r, self, p[0]);
    return value_of_kind(VALUE_NONE);
}

FUNCTION(list_extend) {
    (void)args;
    JinjaItems all = value_items(r, p[0]);
    for (size_t i = 0; i < all.n && !r->failed; i++) list_push(r, self, all.items[i]);
    return value_of_kind(VALUE_NONE);
}

FUNCTION(list_pop) { /* index */
    (void)args;
    List *list = self.items;
    int64_t n = list->n, at = !is_given(p[0]) ? -1 : is_integer(p[0]) ? p[0].integer : n;
    if (at < 0) at += n;
    if (at < 0 || at >= n || !charge(r, (size_t)n / 4)) return fail(r, "there is nothing to pop");
    Any popped = list->items[at];
    list->n--;
    memmove(list->items + at, list->items + at + 1, (size_t)(n - 1 - at) * sizeof popped);
    return popped;
}

FUNCTION(list_index) {
    (void)args;
    for (size_t i = 0; i < self.items->n && !r->failed; i++)
        if (value_equals(r, self.items->items[i], p[0])) return value_int((int64_t)i);
    return fail(r, "the value is not in the list");
}

FUNCTION(list_count) {
    (void)args;
    int64_t n = 0;
    for (size_t i = 0; i < self.items->n && !r->failed; i++) n += value_equals(r, self.items->items[i], p[0]);
    return value_int(n);
}

FUNCTION(loop_cycle) {
    (void)p;
    if (args->list.n == 0) return fail(r, "loop.cycle needs values");
    return args->list.items[self.loop->index % args->list.n];
}

FUNCTION(loop_changed) {
    (void)args;
    bool same = is_given(self.loop->changed) && value_equals(r, self.loop->changed, p[0]);
    self.loop->changed = p[0];
    return value_bool(!same);
}

static const Builtin dict_methods[] = {{"copy", "", list_copy},
                                       {"get", "key! default", dict_get},
                                       {"items", "", dict_items},
                                       {"keys", "", dict_keys},
                                       {"values", "", dict_values}};
static const Builtin list_methods[] = {
    {"append", "object!", list_append},   {"copy", "", list_copy},         {"count", "value!", list_count},
    {"extend", "iterable!", list_extend}, {"index", "value!", list_index}, {"pop", "index", list_pop}};
static const Builtin loop_methods[] = {{"changed", "value!", loop_changed}, {"cycle", "*", loop_cycle}};

#define FIND(table) find_builtin(table, sizeof table / sizeof *table, name)

const Builtin *find_method(Any self, String name) {
    switch ((ValueKind)self.kind) {
    case VALUE_STRING: return find_builtin(string_methods, n_string_methods, name);
    case VALUE_LIST: return FIND(list_methods);
    case VALUE_DICT: return FIND(dict_methods);
    case VALUE_LOOP: return FIND(loop_methods);
    default: return NULL;
    }
}

/* ---- Global functions ---- */

FUNCTION(function_range) { /* start stop step */
    (void)self, (void)args;
    int64_t bounds[3] = {0, 0, 1};
    for (size_t i = 0; i < 3; i++) {
        if (is_given(p[i]) && !is_integer(p[i]))
            return fail(r, "a range is of integers, not of %s", value_type(p[i]));
        if (is_given(p[i])) bounds[i] = p[i].integer;
    }
    if (!is_given(p[1])) bounds[1] = bounds[0], bounds[0] = 0;
    int64_t step = bounds[2], stop = bounds[1];
    if (step == 0) return fail(r, "a range cannot go by 0");
    Any list = value_new(r, VALUE_LIST);
    for (int64_t i = bounds[0]; !r->failed && (step > 0 ? i < stop : i > stop);) {
        list_push(r, list, value_int(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return list;
}

/* dict(…) and namespace(…): what another one has, or pairs, and keywords. */
static Any new_dict(Render *r, ValueKind kind, Any from, const Args *args) {
    Any dict = value_new(r, VALUE_DICT);
    if (is_given(from) && from.kind == VALUE_DICT) {
        dict = copy(r, from);
    } else if (is_given(from)) {
        JinjaItems all = value_items(r, from);
        for (size_t i = 0; i < all.n && !r->failed; i++) {
            JinjaItems pair = value_items(r, all.items[i]);
            if (pair.n != 2)
                fail(r, "a dict is made of pairs");
            else
                dict_set(r, dict, pair.items[0], pair.items[1]);
        }
    }
    for (size_t i = 0; i < args->keywords.n; i += 2)
        dict_set(r, dict, args->keywords.items[i], args->keywords.items[i + 1]);
    if (!r->failed) dict.kind = (uint8_t)kind;
    return dict;
}

static Any first_of(const Args *args) {
    return args->list.n > 0 ? args->list.items[0] : value_of_kind(VALUE_ABSENT);
}
FUNCTION(function_dict) { return (void)self, (void)p, new_dict(r, VALUE_DICT, first_of(args), args); }
FUNCTION(function_namespace) {
    return (void)self, (void)p, new_dict(r, VALUE_NAMESPACE, first_of(args), args);
}

FUNCTION(function_raise_exception) {
    (void)self, (void)args;
    String message = string_of(value_to_text(r, p[0]));
    if (!r->failed)
        error_set(r->error, "the chat template says: %.*s", message.n < 400 ? (int)message.n : 400,
                  message.data);
    r->failed = true;
    return value_of_kind(VALUE_UNDEFINED);
}

/* strftime's conversions by themselves, in the language of the C locale. */
FUNCTION(function_strftime_now) { /* format */
    (void)self, (void)args;
    Text format = text_of(value_to_text(r, p[0]));
    time_t now = (time_t)r->now;
    struct tm tm;
    size_t start = r->out->n;
    if (!gmtime_r(&now, &tm)) return fail(r, "the time has no date");
    for (size_t at = 0; at < format.n && charge(r, 1);) {
        char one[] = {'%', 0, 0, 0}, text[64];
        size_t n = 1;
        if (format.data[at] == '%' && at + 1 < format.n) {
            bool minus = format.data[at + 1] == '-' && at + 2 < format.n; /* without zeros in front */
            one[1] = format.data[at + 1];
            if (minus) one[2] = format.data[at + 2];
            n = minus ? 3 : 2;
        }
        if (one[1] && strchr("aAbBcdDeFHIjmMnpRStTuUwWxXyY%", one[n - 1])) {
            charge(r, 10);
            emit(r, text_own(text, strftime(text, sizeof text, one, &tm)));
        } else {
            emit(r, text_part(format, at, n));
        }
        at += n;
    }
    return cut(r, start);
}

static const Builtin functions[] = {
    {"dict", "*", function_dict},
    {"namespace", "*", function_namespace},
    {"raise_exception", "message!", function_raise_exception},
    {"range", "start! stop step", function_range},
    {"strftime_now", "format!", function_strftime_now},
};

const Builtin *find_function(String name) { return FIND(functions); }
