/*
 * Upper, lower and title case of texts, as Python's str has them. Lower case is Unicode's table (unicode/mappings.h). Upper
 * case is the same table backwards, and a few characters that none has as its lower case. Left out are most of those that
 * become several characters, as Greek ones with accents do, digraphs that have a case for titles, and letters that
 * Unicode counts as numbers or symbols.
 */
#include "base/utf8.h"
#include "jinja/jinja.h"
#include "unicode/categories.h"
#include "unicode/mappings.h"

#include <string.h>

/* Chooses the case of a character: 'u' upper, 'l' lower, 's' the other one, 't' that of a title. */
typedef char CaseOf(bool is_first, uint32_t before);

enum { SIGMA = 0x3a3, FINAL_SIGMA = 0x3c2, STEPS_OF_A_CASE = 10, STEPS_OF_A_SEARCH = 40 };

static const Mappings *mappings_of(Render *r) {
    if (!r->mappings && charge(r, 10000)) { /* a millisecond */
        r->mappings = mappings_new();
        if (!r->mappings) fail(r, "not enough memory");
    }
    return r->mappings;
}

static bool is_of(uint32_t c, const char *category) {
    Property property;
    return property_find(category, 2, &property) && property_holds(property, c);
}

/* 'u', 'l' or 't': the case that a letter has; 0: none. */
static char case_of(uint32_t c) {
    if (c < 0x80) return c - 'A' < 26 ? 'u' : c - 'a' < 26 ? 'l' : 0;
    return is_of(c, "Lu") ? 'u' : is_of(c, "Ll") ? 'l' : is_of(c, "Lt") ? 't' : 0;
}

/* A word may have these between its letters. */
static bool is_within_word(uint32_t c) {
    return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xb7 || c == 0x2019 ||
           is_of(c, "Mn") || is_of(c, "Me") || is_of(c, "Cf") || is_of(c, "Lm") || is_of(c, "Sk");
}

/* Whether the nearest letter behind `at` in its word, or before it, has a case. */
static bool has_letter(Render *r, Text text, size_t at, bool behind) {
    while (charge(r, STEPS_OF_A_CASE) && (behind ? at < text.n : at > 0)) {
        uint32_t c;
        if (!behind) at = utf8_before(text.data, at);
        size_t n = utf8_decode(text.data + at, text.n - at, &c);
        if (!is_within_word(c)) return case_of(c) != 0;
        if (behind) at += n;
    }
    return false;
}

/* The characters that `c`, beyond ASCII, becomes, as UTF-8; 0 bytes: itself. */
static size_t lower_of(const Mappings *mappings, uint32_t c, char *out) {
    const Mapping *row = mapping_find(mappings->lower, c);
    size_t n = 0;
    for (uint32_t k = 0; row && k < row->n; k++) n += utf8_encode(mappings->chars[row->start + k], out + n);
    return n;
}

static size_t upper_of(Render *r, uint32_t c, bool title, char *out) {
    static const struct {
        uint16_t code;
        char upper[6], title[6];
    } others[] = {{0xb5, "Μ", "Μ"},     {0xdf, "SS", "Ss"},   {0x131, "I", "I"},      {0x17f, "S", "S"},
                  {0x3c2, "Σ", "Σ"},    {0x3d0, "Β", "Β"},    {0x3d1, "Θ", "Θ"},      {0x3d5, "Φ", "Φ"},
                  {0x3f5, "Ε", "Ε"},    {0x587, "ԵՒ", "Եւ"},  {0x1e9b, "Ṡ", "Ṡ"},     {0xfb00, "FF", "Ff"},
                  {0xfb01, "FI", "Fi"}, {0xfb02, "FL", "Fl"}, {0xfb03, "FFI", "Ffi"}, {0xfb04, "FFL", "Ffl"},
                  {0xfb05, "ST", "St"}, {0xfb06, "ST", "St"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *to = title ? others[i].title : others[i].upper;
        if (others[i].code == c) return memcpy(out, to, strlen(to)), strlen(to);
    }
    bool is_georgian = c >= 0x10d0 && c <= 0x10ff; /* whose titles have no case */
    const MappingTable lower = r->mappings->lower;
    for (size_t i = 0; !(title && is_georgian) && i < lower.n; i++)
        if (lower.rows[i].n == 1 && r->mappings->chars[lower.rows[i].start] == c)
            return charge(r, STEPS_OF_A_SEARCH), utf8_encode(lower.rows[i].code, out);
    charge(r, STEPS_OF_A_SEARCH);
    return 0;
}

/* Writes the character of `length` bytes at `at` in its new case. Returns how many bytes it has then, at most twice as many. */
static size_t turn(Render *r, Text text, size_t at, size_t length, uint32_t c, char to, char *out) {
    char is = case_of(c);
    size_t n = 0;
    if (to == 's') to = is == 'u' ? 'l' : is == 'l' ? 'u' : 0;
    if (c < 0x80) {
        *out = is && is != (to == 'l' ? 'l' : 'u') && to ? (char)(c ^ 0x20) : (char)c;
        return 1;
    }
    if (!charge(r, STEPS_OF_A_CASE) || c > 0x10ffff || !to || !mappings_of(r))
        n = 0;
    else if (to != 'l')
        n = upper_of(r, c, to == 't', out);
    else if (c == SIGMA)
        n = utf8_encode(has_letter(r, text, at, false) && !has_letter(r, text, at + length, true)
                            ? FINAL_SIGMA
                            : SIGMA + 0x20,
                        out);
    else
        n = lower_of(r->mappings, c, out);
    if (n == 0) memcpy(out, text.data + at, n = length);
    return n;
}

static Any with_case(Render *r, Any v, CaseOf *wanted) {
    const Any value = value_to_text(r, v);
    const Text text = text_of(value);
    size_t n = 0, more = 0;
    if (r->failed || text.n == 0 || !charge_characters(r, text.n)) return value;
    for (size_t i = 0; i < text.n; i++) more += (text.data[i] & 0x80) != 0;
    char *out = take(r, text.n + more), *marks = out && text.marks ? take(r, text.n + more) : NULL;
    uint32_t before = ' ', c;
    for (size_t at = 0, length; !r->failed && at < text.n; at += length, before = c) {
        length = utf8_decode(text.data + at, text.n - at, &c);
        size_t made = turn(r, text, at, length, c, wanted(at == 0, before), out + n);
        if (marks) memset(marks + n, text.marks[at], made);
        n += made;
    }
    return r->failed ? value : value_text((Text){out, n, marks});
}

static char upper(bool is_first, uint32_t before) { return (void)is_first, (void)before, 'u'; }
static char lower(bool is_first, uint32_t before) { return (void)is_first, (void)before, 'l'; }
static char swapped(bool is_first, uint32_t before) { return (void)is_first, (void)before, 's'; }
static char first_upper(bool is_first, uint32_t before) { return (void)before, is_first ? 't' : 'l'; }
static char words_upper(bool is_first, uint32_t before) { return is_first || !case_of(before) ? 't' : 'l'; }
/* The filter's words begin behind these only. */
static char titled(bool is_first, uint32_t before) {
    return is_first || (before < 0x80 && before && strchr("-({[<", (int)before)) || utf8_is_space(before)
               ? 'u'
               : 'l';
}

#define SHARED(name) Any name(Render *r, Any self, const Any *p, const Args *args)
SHARED(string_upper) { return (void)p, (void)args, with_case(r, self, upper); }
SHARED(string_lower) { return (void)p, (void)args, with_case(r, self, lower); }
SHARED(string_capitalize) { return (void)p, (void)args, with_case(r, self, first_upper); }
SHARED(string_title_filter) { return (void)p, (void)args, with_case(r, self, titled); }
SHARED(string_title) { return (void)p, (void)args, with_case(r, self, words_upper); }
SHARED(string_swapcase) { return (void)p, (void)args, with_case(r, self, swapped); }

/* Whether a text has letters, and all of them are of this case. */
bool text_has_case(Render *r, Text text, char wanted) {
    bool has = false;
    uint32_t c;
    for (size_t at = 0; at < text.n && charge(r, text.data[at] & 0x80 ? STEPS_OF_A_CASE : 1);
         at += utf8_decode(text.data + at, text.n - at, &c)) {
        utf8_decode(text.data + at, text.n - at, &c);
        char is = case_of(c);
        if (is && is != wanted) return false;
        has = has || is;
    }
    return has;
}
