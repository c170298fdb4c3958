#include "unicode/width.h"

#include "base/utf8.h"
#include "unicode/categories.h"

#include <stdbool.h>
#include <string.h>

/* Written by scripts/tables/unicode.py from Unicode 15.0. */
static const struct Range {
    uint32_t first, last;
} wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x23f0, 0x23f0},
    {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267f, 0x267f},
    {0x2693, 0x2693},   {0x26a1, 0x26a1},   {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},
    {0x26ce, 0x26ce},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
    {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
    {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
    {0x27b0, 0x27b0},   {0x27bf, 0x27bf},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},
    {0x2e80, 0x303e},   {0x3041, 0x3247},   {0x3250, 0x4dbf},   {0x4e00, 0xa4c6},   {0xa960, 0xa97c},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6b},   {0xff01, 0xff60},
    {0xffe0, 0xffe6},   {0x16fe0, 0x1b2fb}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
    {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393},
    {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e},
    {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e}, {0x1f550, 0x1f567},
    {0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
    {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6df}, {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc},
    {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945}, {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faf8},
    {0x20000, 0x3fffd},
};

static bool has_category(uint32_t c, const char *name, const char *other) {
    Property property, or_this;
    property_find(name, strlen(name), &property);
    property_find(other, strlen(other), &or_this);
    property.categories |= or_this.categories;
    return property_holds(property, c);
}

static bool is_between(uint32_t c, uint32_t first, uint32_t last) { return c >= first && c <= last; }

/* Hangul's vowels and final consonants, which stand with the letter before (The Unicode Standard, section 3.12). */
static bool completes_syllable(uint32_t c) {
    return is_between(c, 0x1160, 0x11ff) || is_between(c, 0xd7b0, 0xd7fb);
}

static bool is_joiner(uint32_t c) { return is_between(c, 0x200b, 0x200d) || is_between(c, 0x2060, 0x2065); }

size_t unicode_width(uint32_t c) {
    if (c < 0x300) return 1;
    if (has_category(c, "Mn", "Me") || is_joiner(c) || completes_syllable(c)) return 0;
    size_t low = 0,
           high = sizeof wide /
                  sizeof *wide; /* ranges before `low` end before c, from `high` on they begin after it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_between(c, wide[middle].first, wide[middle].last)) return 2;
        if (wide[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return 1;
}

static bool is_regional(uint32_t c) { return is_between(c, 0x1f1e6, 0x1f1ff); }

static bool is_hangul(uint32_t c) {
    return is_between(c, 0x1100, 0x11ff) || is_between(c, 0xa960, 0xa97c) || is_between(c, 0xac00, 0xd7fb);
}

/* Whether c goes on with what ends with `before`, which began with a flag's first letter and has one character so far. */
static bool goes_on(uint32_t before, uint32_t c, bool half_flag) {
    enum { ZWNJ = 0x200c, ZWJ = 0x200d };
    if (c < 0x300) return false;
    if (half_flag && is_regional(c)) return true;
    if (before == ZWJ && has_category(c, "So", "So")) return true;
    if (is_hangul(before) && completes_syllable(c)) return true;
    return c == ZWNJ || c == ZWJ || is_between(c, 0x1f3fb, 0x1f3ff) || is_between(c, 0xff9e, 0xff9f) ||
           has_category(c, "M", "M");
}

size_t unicode_cluster(const char *text, size_t n) {
    uint32_t before, c;
    if (n > 1 && is_between((unsigned char)text[0], ' ', '~') && (unsigned char)text[1] < 0x80) return 1;
    size_t first = utf8_decode(text, n, &before), at = first, length;
    if (before < ' ' || !utf8_is_safe(before)) return at; /* which is shown in another form */
    bool is_flag = is_regional(before);
    for (; at < n; at += length, before = c) {
        length = utf8_decode(text + at, n - at, &c);
        if (!goes_on(before, c, is_flag && at == first)) break;
    }
    return at;
}
