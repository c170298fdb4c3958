/* Filters and methods of strings, as Python has them, for texts in UTF-8. Upper and lower case: case.c. */
#include "base/utf8.h"
#include "jinja/jinja.h"
#include "unicode/categories.h"

#include <string.h>

#define METHOD(name) static Any name(Render *r, Any self, const Any *p, const Args *args)
#define SHARED(name) Any name(Render *r, Any self, const Any *p, const Args *args)
#define UNUSED (void)r, (void)self, (void)p, (void)args

static bool is_some(Any v) { return is_given(v) && v.kind != VALUE_NONE; }
static bool flag(Any v) { return is_given(v) && value_truth(v); }

static int64_t integer_or(Render *r, Any v, int64_t otherwise) {
    if (!is_some(v)) return otherwise;
    if (is_integer(v)) return v.integer;
    fail(r, "an integer is wanted here, not %s", value_type(v));
    return otherwise;
}

/* A text that must be one. */
static Text text_in(Render *r, Any v) {
    if (v.kind != VALUE_STRING) fail(r, "a string is wanted here, not %s", value_type(v));
    return v.kind == VALUE_STRING ? text_of(v) : text_own("", 0);
}

/* ---- White space, parts ---- */

static Any strip(Render *r, Any self, Any chars, bool left, bool right) {
    Any text = value_to_text(r, self);
    Text set = is_some(chars) ? text_in(r, chars) : (Text){0};
    return r->failed ? text : value_text(text_strip(r, text_of(text), set, left, right));
}
SHARED(string_strip) { return (void)args, strip(r, self, p[0], true, true); }
METHOD(method_lstrip) { return (void)args, strip(r, self, p[0], true, false); }
METHOD(method_rstrip) { return (void)args, strip(r, self, p[0], false, true); }

/*
 * The characters from p[0] up to p[1] of a text, as a slice has them, and how many are before them. False where the first comes
 * behind the end: nothing is there, not even an empty text.
 */
static bool range_of(Render *r, Any self, const Any *p, Text *range, int64_t *from) {
    *range = text_of(self), *from = 0;
    if (!is_given(p[0])) return true;
    int64_t n = (int64_t)text_characters(r, *range), start = integer_or(r, p[0], 0),
            end = integer_or(r, p[1], n);
    end = end < 0 ? end + n : end < n ? end : n;
    start = start < 0 ? start + n : start;
    if (start < 0) start = 0;
    if (r->failed || start > n || start > (end < 0 ? 0 : end)) return false;
    size_t at = text_offset(r, *range, (size_t)start);
    *range = text_part(*range, at, text_offset(r, *range, end < 0 ? 0 : (size_t)end) - at);
    *from = start;
    return true;
}

/* Whether the text begins, or ends, with the other. */
static bool has_end(Render *r, Text text, Any other, bool at_end) {
    Text part = text_in(r, other);
    if (part.n > text.n) return false;
    return text_equals(r, text_part(text, at_end ? text.n - part.n : 0, part.n), part);
}

/* Asks the same of a text, or of each in a tuple. */
static Any has_ends(Render *r, Any self, const Any *p, bool at_end) {
    bool has = false;
    Text range;
    int64_t from;
    const Args one = {.list = {.items = (Any[]){p[0]}, .n = 1}};
    const List *others = p[0].kind == VALUE_TUPLE ? p[0].items : &one.list;
    bool is_there = range_of(r, self, p + 1, &range, &from);
    for (size_t i = 0; i < others->n && !has && !r->failed; i++)
        has = has_end(r, range, others->items[i], at_end) && is_there;
    return value_bool(has);
}
METHOD(method_startswith) { return (void)args, has_ends(r, self, p, false); }
METHOD(method_endswith) { return (void)args, has_ends(r, self, p, true); }

METHOD(method_removeprefix) {
    (void)args;
    bool has = has_end(r, text_of(self), p[0], false);
    return has ? value_text(text_part(text_of(self), p[0].n, self.n - p[0].n)) : self;
}
METHOD(method_removesuffix) {
    (void)args;
    bool has = has_end(r, text_of(self), p[0], true);
    return has ? value_text(text_part(text_of(self), 0, self.n - p[0].n)) : self;
}

static bool space_at(Text s, size_t at, size_t *n) {
    uint32_t c;
    *n = utf8_decode(s.data + at, s.n - at, &c);
    return utf8_is_space(c);
}

/* Words between white space, all but the first `most` as one; the rest keeps the white space behind it. */
static Any split_words(Render *r, Any self, int64_t most) {
    Text s = text_of(self);
    Any list = value_new(r, VALUE_LIST);
    charge_characters(r, s.n);
    for (size_t at = 0, n; charge(r, 1);) {
        while (at < s.n && space_at(s, at, &n)) at += n;
        if (at >= s.n) break;
        size_t from = at;
        if (most >= 0 && list.items->n >= (uint64_t)most)
            at = s.n;
        else
            while (at < s.n && !space_at(s, at, &n)) at += n;
        list_push(r, list, value_text(text_part(s, from, at - from)));
    }
    return list;
}

METHOD(method_split) { /* sep maxsplit */
    (void)args;
    int64_t most = integer_or(r, p[1], -1);
    if (!is_some(p[0])) return split_words(r, self, most);
    Text s = text_of(self), between = text_in(r, p[0]);
    if (between.n == 0) return fail(r, "an empty separator");
    Any list = value_new(r, VALUE_LIST);
    size_t from = 0, at;
    while ((most < 0 || most-- > 0) && (at = text_find(r, s, between, from)) <= s.n) {
        list_push(r, list, value_text(text_part(s, from, at - from)));
        from = at + between.n;
    }
    list_push(r, list, value_text(text_part(s, from, s.n - from)));
    return list;
}

METHOD(method_rsplit) { /* sep maxsplit */
    int64_t most = integer_or(r, p[1], -1);
    if (most < 0) return method_split(r, self, p, args);
    if (!is_some(p[0])) return fail(r, "rsplit needs a separator");
    Text s = text_of(self), between = text_in(r, p[0]);
    if (between.n == 0) return fail(r, "an empty separator");
    Any reversed = value_new(r, VALUE_LIST), list = value_new(r, VALUE_LIST);
    size_t end = s.n, at;
    while (most-- > 0 && (at = text_find_last(r, s, between, end)) <= s.n) {
        list_push(r, reversed, value_text(text_part(s, at + between.n, end - at - between.n)));
        end = at;
    }
    list_push(r, list, value_text(text_part(s, 0, end)));
    for (size_t i = r->failed ? 0 : reversed.items->n; i-- > 0;) list_push(r, list, reversed.items->items[i]);
    return list;
}

/* Lines end with "\n", "\r\n" and what else Python counts as such. */
static Any split_lines(Render *r, Text s, bool keeps) {
    Any list = value_new(r, VALUE_LIST);
    for (size_t at = 0, from = 0, n; at < s.n && charge(r, 1); at += n) {
        uint32_t c;
        n = utf8_decode(s.data + at, s.n - at, &c);
        bool ends =
            (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
        if (c == '\r' && at + 1 < s.n && s.data[at + 1] == '\n') n = 2;
        if (!ends && at + n < s.n) continue;
        size_t end = !ends || keeps ? at + n : at;
        list_push(r, list, value_text(text_part(s, from, end - from)));
        from = at + n;
    }
    return list;
}
METHOD(method_splitlines) { return (void)args, split_lines(r, text_of(self), flag(p[0])); }

/* Cuts a text at the first, or last, `by`: the part before it, `by` itself, and the part behind it. */
static Any partition(Render *r, Any self, Any by, bool last) {
    Text s = text_of(self), between = text_in(r, by);
    if (between.n == 0) return fail(r, "an empty separator");
    size_t at = last ? text_find_last(r, s, between, s.n) : text_find(r, s, between, 0), n = between.n;
    Any parts = value_new(r, VALUE_TUPLE);
    if (at > s.n) at = last ? 0 : s.n, n = 0;
    list_push(r, parts, value_text(text_part(s, 0, at)));
    list_push(r, parts, value_text(text_part(s, at, n)));
    list_push(r, parts, value_text(text_part(s, at + n, s.n - at - n)));
    return parts;
}
METHOD(method_partition) { return (void)args, partition(r, self, p[0], false); }
METHOD(method_rpartition) { return (void)args, partition(r, self, p[0], true); }

METHOD(method_join) {
    (void)args;
    JinjaItems all = value_items(r, p[0]);
    size_t start = r->out->n;
    for (size_t i = 0; i < all.n && !r->failed; i++) {
        if (i > 0) emit(r, text_of(self));
        emit(r, text_in(r, all.items[i]));
    }
    return cut(r, start);
}

/* ---- Finding ---- */

static int64_t find_character(Render *r, Any self, const Any *p, bool last) {
    int64_t from;
    Text s, needle = text_in(r, p[0]);
    if (!range_of(r, self, p + 1, &s, &from) || r->failed) return -1;
    size_t at = last ? text_find_last(r, s, needle, s.n) : text_find(r, s, needle, 0);
    return at > s.n ? -1 : from + (int64_t)text_characters(r, text_part(s, 0, at));
}
METHOD(method_find) { return (void)args, value_int(find_character(r, self, p, false)); }
METHOD(method_rfind) { return (void)args, value_int(find_character(r, self, p, true)); }

static Any find_or_fail(Render *r, Any self, const Any *p, bool last) {
    int64_t at = find_character(r, self, p, last);
    return at < 0 ? fail(r, "the substring is not there") : value_int(at);
}
METHOD(method_index) { return (void)args, find_or_fail(r, self, p, false); }
METHOD(method_rindex) { return (void)args, find_or_fail(r, self, p, true); }

METHOD(method_count) {
    (void)args;
    int64_t n = 0;
    Text s, needle = text_in(r, p[0]);
    if (!range_of(r, self, p + 1, &s, &n)) return value_int(0);
    if (needle.n == 0) return value_int((int64_t)text_characters(r, s) + 1);
    n = 0;
    for (size_t at = 0; !r->failed && (at = text_find(r, s, needle, at)) <= s.n; at += needle.n) n++;
    return value_int(n);
}

SHARED(string_replace) { /* old new count */
    (void)args;
    Any text = value_to_text(r, self);
    Text s = text_of(text), old = text_of(value_to_text(r, p[0])), new = text_of(value_to_text(r, p[1]));
    int64_t most = integer_or(r, p[2], -1);
    size_t start = r->out->n, from = 0, at = 0;
    while (!r->failed && (most < 0 || most-- > 0)) {
        at = text_find(r, s, old, from);
        if (at > s.n) break;
        emit(r, text_part(s, from, at - from));
        emit(r, new);
        from = at + old.n;
        if (old.n) continue;
        if (at == s.n) break; /* an empty text lies before each character, and at the end */
        size_t n = text_offset(r, text_part(s, at, s.n - at), 1);
        emit(r, text_part(s, at, n));
        from = at + n;
    }
    emit(r, text_part(s, from, s.n - from));
    return cut(r, start);
}

METHOD(method_replace) { return text_in(r, p[0]), text_in(r, p[1]), string_replace(r, self, p, args); }

/* ---- Layout ---- */

SHARED(string_indent) { /* width first blank */
    (void)args;
    Text text = text_in(r, self), by = text_own("", 0);
    int64_t width = is_some(p[0]) && p[0].kind == VALUE_STRING ? 0 : integer_or(r, p[0], 4);
    if (is_some(p[0]) && p[0].kind == VALUE_STRING) by = text_of(p[0]);
    size_t start = r->out->n;
    emit(r, text);
    emit_word(r, "\n"); /* so that a line is left behind the last end of one */
    Any lines = split_lines(r, text_of(cut(r, start)), false);
    for (size_t i = 0, n = r->failed ? 0 : lines.items->n; i < n && !r->failed; i++) {
        Text line = text_of(lines.items->items[i]);
        if (i > 0) emit_word(r, "\n");
        if (i == 0 ? flag(p[1]) : line.n > 0 || flag(p[2])) {
            emit(r, by);
            for (int64_t j = 0; j < width && charge(r, 1); j++) emit_word(r, " ");
        }
        emit(r, line);
    }
    return cut(r, start);
}

/* A text among fillers, `left` of them of 2 before it where both sides get some. */
static Any justify(Render *r, Any self, const Any *p, bool before, bool behind) {
    int64_t width = integer_or(r, p[0], 0), length = (int64_t)text_characters(r, text_of(self));
    int64_t n = width > length ? width - length : 0;
    Text with = is_some(p[1]) ? text_in(r, p[1]) : text_own(" ", 1);
    int64_t left = !before ? 0 : !behind ? n : n / 2 + (n & width & 1);
    size_t start = r->out->n;
    for (int64_t i = 0; i < left && charge(r, 1); i++) emit(r, with);
    emit(r, text_of(self));
    for (int64_t i = left; behind && i < n && charge(r, 1); i++) emit(r, with);
    return cut(r, start);
}
METHOD(method_ljust) { return (void)args, justify(r, self, p, false, true); }
METHOD(method_rjust) { return (void)args, justify(r, self, p, true, false); }
METHOD(method_center) { return (void)args, justify(r, self, p, true, true); }

METHOD(method_zfill) {
    (void)args;
    Text s = text_of(self);
    size_t start = r->out->n, sign = s.n > 0 && (*s.data == '-' || *s.data == '+');
    int64_t n = integer_or(r, p[0], 0) - (int64_t)text_characters(r, s);
    emit(r, text_part(s, 0, sign));
    for (; n > 0 && charge(r, 1); n--) emit_word(r, "0");
    emit(r, text_part(s, sign, s.n - sign));
    return cut(r, start);
}

SHARED(string_escape) {
    UNUSED;
    static const char *const names[] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"};
    Any text = value_to_text(r, self);
    Text s = text_of(text);
    size_t start = r->out->n, plain = 0; /* from here on as it is */
    charge_characters(r, s.n);
    for (size_t i = 0; i < s.n && !r->failed; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c >= sizeof names / sizeof *names || !names[c]) continue;
        emit(r, text_part(s, plain, i - plain));
        emit_for(r, names[c], text_part(s, i, 1));
        plain = i + 1;
    }
    emit(r, text_part(s, plain, s.n - plain));
    return cut(r, start);
}

/* ---- The bytes of a text, and where they came from ---- */

/* Whether there are characters, and each has one of the two properties that \\p{…} names, or is white space. */
static Any all_are(Render *r, Any self, const char *one, const char *other) {
    Property properties[2] = {0};
    bool all = self.n > 0 && property_find(one, strlen(one), &properties[0]) &&
               property_find(other, strlen(other), &properties[1]);
    for (size_t at = 0, n; all && at < self.n && charge(r, 1); at += n) {
        uint32_t c;
        n = utf8_decode(self.text + at, self.n - at, &c);
        all = *one == 'Z' ? utf8_is_space(c)
                          : property_holds(properties[0], c) || property_holds(properties[1], c);
    }
    return value_bool(all);
}

/* Words are of letters, numbers and "_". */
SHARED(string_wordcount) {
    UNUSED;
    Any text = value_to_text(r, self);
    Property letters = {0}, numbers = {0};
    int64_t n = 0;
    bool known = property_find("L", 1, &letters) && property_find("N", 1, &numbers), within = false;
    for (size_t at = 0, size; known && at < text.n && charge(r, 1); at += size) {
        uint32_t c;
        size = utf8_decode(text.text + at, text.n - at, &c);
        bool is = c == '_' || property_holds(letters, c) || property_holds(numbers, c);
        n += is && !within;
        within = is;
    }
    return value_int(n);
}

METHOD(method_isdigit) { return (void)p, (void)args, all_are(r, self, "N", "N"); }
METHOD(method_isdecimal) { return (void)p, (void)args, all_are(r, self, "Nd", "Nd"); }
METHOD(method_isalpha) { return (void)p, (void)args, all_are(r, self, "L", "L"); }
METHOD(method_isalnum) { return (void)p, (void)args, all_are(r, self, "L", "N"); }
METHOD(method_isspace) { return (void)p, (void)args, all_are(r, self, "Z", "Z"); }
METHOD(method_islower) { return UNUSED, value_bool(text_has_case(r, text_of(self), 'l')); }
METHOD(method_isupper) { return UNUSED, value_bool(text_has_case(r, text_of(self), 'u')); }

const Builtin string_methods[] = {
    {"capitalize", "", string_capitalize},
    {"center", "width! fillchar", method_center},
    {"count", "sub! start end", method_count},
    {"endswith", "suffix! start end", method_endswith},
    {"find", "sub! start end", method_find},
    {"format", "*", string_format},
    {"index", "sub! start end", method_index},
    {"isalnum", "", method_isalnum},
    {"isalpha", "", method_isalpha},
    {"isdecimal", "", method_isdecimal},
    {"isdigit", "", method_isdigit},
    {"islower", "", method_islower},
    {"isnumeric", "", method_isdigit},
    {"isspace", "", method_isspace},
    {"isupper", "", method_isupper},
    {"join", "iterable!", method_join},
    {"ljust", "width! fillchar", method_ljust},
    {"lower", "", string_lower},
    {"lstrip", "chars", method_lstrip},
    {"partition", "sep!", method_partition},
    {"removeprefix", "prefix!", method_removeprefix},
    {"removesuffix", "suffix!", method_removesuffix},
    {"replace", "old! new! count", method_replace},
    {"rfind", "sub! start end", method_rfind},
    {"rindex", "sub! start end", method_rindex},
    {"rjust", "width! fillchar", method_rjust},
    {"rpartition", "sep!", method_rpartition},
    {"rsplit", "sep maxsplit", method_rsplit},
    {"rstrip", "chars", method_rstrip},
    {"split", "sep maxsplit", method_split},
    {"splitlines", "keepends", method_splitlines},
    {"startswith", "prefix! start end", method_startswith},
    {"strip", "chars", string_strip},
    {"swapcase", "", string_swapcase},
    {"title", "", string_title},
    {"upper", "", string_upper},
    {"zfill", "width!", method_zfill},
};
const size_t n_string_methods = sizeof string_methods / sizeof *string_methods;
