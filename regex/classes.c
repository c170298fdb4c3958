/* Escapes and classes of a regular expression, and what they mean as sets of characters. */
#include "regex/classes.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

int reader_fail(Reader *reader, const char *what) {
    error_set(reader->error, "the pattern '%.*s': %s at byte %zu", string_shown(reader->text),
              reader->text.data, what, reader->at);
    return FAILED;
}

int reader_out_of_memory(Reader *reader) {
    error_set(reader->error, "not enough memory for a pattern");
    return FAILED;
}

int reader_peek(const Reader *reader, size_t ahead) {
    return reader->at + ahead < reader->text.n ? (unsigned char)reader->text.data[reader->at + ahead] : -1;
}

/* Takes the word if it comes next. */
bool reader_take(Reader *reader, const char *word) {
    size_t n = strlen(word);
    if (reader->text.n - reader->at < n || memcmp(reader->text.data + reader->at, word, n) != 0) return false;
    reader->at += n;
    return true;
}

/* Adds what a letter after a backslash names. */
bool reader_add_named(CharSet *set, char name) {
    Property property;
    switch (name) {
    case 'd': return property_find("Nd", 2, &property) && charset_add_property(set, property);
    case 's': /* White_Space */
        return property_find("Z", 1, &property) && charset_add_property(set, property) &&
               charset_add(set, '\t', '\r') && charset_add(set, 0x85, 0x85);
    default: { /* w */
        static const char parts[][3] = {"L", "M", "Nd", "Nl", "Pc"};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (!property_find(parts[i], strlen(parts[i]), &property) || !charset_add_property(set, property))
                return false;
        /* Other_Alphabetic; and what Oniguruma has in Latin-1. */
        return charset_add(set, 0x24b6, 0x24e9) && charset_add(set, 0x1f130, 0x1f149) &&
               charset_add(set, 0x1f150, 0x1f169) && charset_add(set, 0x1f170, 0x1f189) &&
               charset_add(set, 0xb2, 0xb3) && charset_add(set, 0xb9, 0xb9) && charset_add(set, 0xbc, 0xbe);
    }
    }
}

/* Reads up to `max` hexadecimal digits; −1 when there is none, or no such code point. */
static long read_hex(Reader *reader, int max) {
    long value = -1;
    for (int i = 0; i < max; i++, reader->at++) {
        int c = reader_peek(reader, 0) | 0x20, digit = c >= '0' && c <= '9'   ? c - '0'
                                                       : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                                              : -1;
        if (digit < 0) break;
        value = (value < 0 ? 0 : value << 4) | digit;
        if (value > 0x10ffff) return -1;
    }
    return value;
}

/* \x41, \u0041, \x{1F600}, \u{1F600} */
static int read_code(Reader *reader, int n_digits, CharSet *set, uint32_t *c) {
    bool braces = reader_take(reader, "{");
    long value = read_hex(reader, braces ? 8 : n_digits);
    if (value < 0 || (braces && !reader_take(reader, "}"))) return reader_fail(reader, "not a code point");
    *c = (uint32_t)value;
    return charset_add(set, *c, *c) ? 1 : reader_out_of_memory(reader);
}

/* \p{…}, \P{…}, \p{^…}, \pL */
static int read_property(Reader *reader, bool inverted, CharSet *set) {
    static const uint32_t cased = 0x7; /* Lu, Ll and Lt */
    Property property;
    bool braces = reader_take(reader, "{");
    if (braces && reader_take(reader, "^")) inverted = !inverted;
    size_t room = reader->text.n - reader->at;
    String name = {reader->text.data + reader->at, room > 0};
    if (braces)
        for (name.n = 0; name.n < room && name.data[name.n] != '}';) name.n++;
    if (name.n + braces > room || !property_find(name.data, name.n, &property))
        return reader_fail(reader, "a property that is not known (categories and some scripts are)");
    uint32_t some = property.categories & cased;
    if (reader->ignore_case && (property.script || (some && some != cased)))
        return reader_fail(reader, "a property that tells cases apart within (?i)");
    reader->at += name.n + braces;
    CharSet named = {0};
    bool ok = charset_add_property(&named, property);
    charset_sort(&named);
    ok = ok && (!inverted || charset_invert(&named)) && charset_add_set(set, &named);
    free(named.ranges);
    return ok ? 0 : reader_out_of_memory(reader);
}

/*
 * Reads what follows a backslash and adds it to the set. Returns 1 if it is one character, *c, 0 if it is several, or
 * FAILED.
 */
int reader_escape(Reader *reader, CharSet *set, uint32_t *c) {
    static const char letters[] = "nrtfvae", values[] = "\n\r\t\f\v\a\033";
    int name = reader_peek(reader, 0);
    const char *letter = name > 0 ? strchr(letters, name) : NULL;
    reader->at += name >= 0;
    if (name == 'p' || name == 'P') return read_property(reader, name == 'P', set);
    if (name == 'x') return read_code(reader, 2, set, c);
    if (name == 'u') return read_code(reader, 4, set, c);
    if (name > 0 && strchr("dswDSW", name)) {
        CharSet named = {0};
        bool ok = reader_add_named(&named, (char)(name | 0x20));
        charset_sort(&named);
        ok = ok && (name & 0x20 || charset_invert(&named)) && charset_add_set(set, &named);
        free(named.ranges);
        return ok ? 0 : reader_out_of_memory(reader);
    }
    bool is_word = (name >= '0' && name <= '9') || ((name | 0x20) >= 'a' && (name | 0x20) <= 'z');
    if (!letter && (is_word || name < 0 || name >= 0x80)) {
        reader->at -= name >= 0;
        return reader_fail(reader, "an escape that is not supported");
    }
    *c = letter ? (uint32_t)values[letter - letters] : (uint32_t)name;
    return charset_add(set, *c, *c) ? 1 : reader_out_of_memory(reader);
}

/* Reads a character that stands for itself. */
int reader_literal(Reader *reader, CharSet *set, uint32_t *c) {
    size_t length = utf8_decode(reader->text.data + reader->at, reader->text.n - reader->at, c);
    if (*c >= UTF8_INVALID) return reader_fail(reader, "bytes that are no UTF-8");
    reader->at += length;
    return charset_add(set, *c, *c) ? 1 : reader_out_of_memory(reader);
}

static bool contains(const CharSet *set, uint32_t c) {
    for (size_t i = 0; i < set->n && set->ranges[i].first <= c; i++)
        if (c <= set->ranges[i].last) return true;
    return false;
}

/* Within (?i): adds the other case of each letter. Only ASCII's are known, with ſ and the sign of Kelvin. */
int reader_fold_case(Reader *reader, CharSet *set) {
    static const Property cased = {0x7, 0}; /* Lu, Ll and Lt */
    uint32_t first, last;
    charset_sort(set);
    for (size_t at = 0; property_next(cased, &at, &first, &last);)
        for (size_t i = 0; first >= 0x80 && i < set->n; i++)
            if (set->ranges[i].first <= last && set->ranges[i].last >= first)
                return reader_fail(reader, "letters beyond ASCII within (?i)");
    uint32_t found[26] = {0};
    for (uint32_t i = 0; i < 26; i++) found[i] = contains(set, 'a' + i) || contains(set, 'A' + i);
    for (uint32_t i = 0; i < 26; i++)
        if (found[i] && (!charset_add(set, 'a' + i, 'a' + i) || !charset_add(set, 'A' + i, 'A' + i)))
            return reader_out_of_memory(reader);
    if ((found['k' - 'a'] && !charset_add(set, 0x212a, 0x212a)) ||
        (found['s' - 'a'] && !charset_add(set, 0x17f, 0x17f)))
        return reader_out_of_memory(reader);
    charset_sort(set);
    return 0;
}

/* Reads one item of a class: a character, a range, an escape, or a class in it. */
static int read_item(Reader *reader, CharSet *set, CharSet *any) {
    uint32_t c = 0, last = 0;
    CharSet unused = {0};
    if (reader_take(reader, "[")) {
        if (reader_peek(reader, 0) == ':') return reader_fail(reader, "a POSIX class");
        CharSet inner = {0};
        int result = reader_class(reader, &inner);
        if (result >= 0 && !charset_add_set(any, &inner)) result = reader_out_of_memory(reader);
        free(inner.ranges);
        return result;
    }
    size_t before = reader->at;
    CharSet item = {0};
    int kind =
        reader_take(reader, "\\") ? reader_escape(reader, &item, &c) : reader_literal(reader, &item, &c);
    bool ok = kind < 0 || charset_add_set(kind == 1 ? set : any, &item);
    free(item.ranges);
    if (kind < 0) return FAILED;
    if (!ok) return reader_out_of_memory(reader);
    if (kind == 0 || reader_peek(reader, 0) != '-' || reader_peek(reader, 1) == ']' ||
        reader_peek(reader, 1) < 0)
        return 0;
    reader->at++;
    kind = reader_take(reader, "\\") ? reader_escape(reader, &unused, &last)
                                     : reader_literal(reader, &unused, &last);
    free(unused.ranges);
    if (kind < 0) return FAILED;
    if (kind != 1 || last < c) {
        reader->at = before;
        return reader_fail(reader, "not a range");
    }
    return charset_add(set, c, last) ? 0 : reader_out_of_memory(reader);
}

/* Reads a class, whose [ has been taken: items, and && between what must both hold. `set` is empty, and sorted afterwards. */
int reader_class(Reader *reader, CharSet *set) {
    bool inverted = reader_take(reader, "^"), has_left = false, ok = true;
    CharSet items = {0}, any = {0}; /* `any` holds for both cases */
    if (++reader->depth > MAX_DEPTH) return reader_fail(reader, "too many groups one within the other");
    for (bool is_first = true; ok; is_first = false) {
        bool at_end = !is_first && reader_take(reader, "]");
        if (at_end || reader_take(reader, "&&")) {
            ok = !reader->ignore_case || reader_fold_case(reader, &items) >= 0;
            ok = ok && (charset_add_set(&items, &any) || reader_out_of_memory(reader) >= 0);
            charset_sort(&items);
            if (has_left)
                ok = ok && (charset_intersect(set, &items) || reader_out_of_memory(reader) >= 0);
            else
                ok = ok && (charset_add_set(set, &items) || reader_out_of_memory(reader) >= 0);
            charset_sort(set);
            has_left = true;
            items.n = any.n = 0;
            if (at_end) break;
        } else {
            ok = (reader->at < reader->text.n || reader_fail(reader, "a [ without its ]") >= 0) &&
                 read_item(reader, &items, &any) >= 0;
        }
    }
    free(items.ranges);
    free(any.ranges);
    reader->depth--;
    if (!ok) return FAILED;
    return !inverted || charset_invert(set) ? 0 : reader_out_of_memory(reader);
}
