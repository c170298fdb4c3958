/* UTF-8, and what is safe to show. */
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* The first byte says how many follow, and in which range the second must be. The range keeps out
   overlong forms, surrogates and code points beyond U+10FFFF. */
size_t utf8_decode(const char *text, size_t n, uint32_t *code_point) {
    const unsigned char *s = (const unsigned char *)text;
    unsigned first = s[0], low = 0x80, high = 0xbf;
    if (first < 0x80) {
        *code_point = first;
        return 1;
    }
    *code_point = UTF8_INVALID;
    if (first < 0xc2 || first > 0xf4) return 1;
    size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
    uint32_t value = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (i == n) {
            *code_point = UTF8_CUT;
            return n;
        }
        if (s[i] < low || s[i] > high) return i;
        value = value << 6 | (s[i] & 0x3f);
        low = 0x80, high = 0xbf;
    }
    *code_point = value;
    return length;
}

size_t utf8_length(const char *text, size_t n) {
    uint32_t c;
    size_t length = utf8_decode(text, n, &c);
    return c < UTF8_INVALID ? length : 1;
}

size_t utf8_before(const char *text, size_t end) {
    size_t n = 1;
    while (n < end && n < 4 && utf8_continues(text[end - n])) n++;
    return end - n;
}

size_t utf8_encode(uint32_t c, char *out) {
    if (c < 0x80) return out[0] = (char)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(0xf00 >> n | c);
    return n;
}

bool utf8_is_valid(String text) {
    uint32_t c = 0;
    for (size_t at = 0; at < text.n && c < UTF8_INVALID;) at += utf8_decode(text.data + at, text.n - at, &c);
    return c < UTF8_INVALID;
}

bool utf8_is_safe(uint32_t c) {
    static const struct {
        uint32_t first, last;
    } unsafe[] = {
        {0x00, 0x08},     {0x0b, 0x1f},     {0x7f, 0x9f},       {0x61c, 0x61c},
        {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x206f},   {0xfdd0, 0xfdef},
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}, {0x110000, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe && unsafe[i].first <= c; i++)
        if (c <= unsafe[i].last) return false;
    return (c & 0xfffe) != 0xfffe;
}

size_t utf8_escape(const char *text, size_t n, char shown[16]) {
    uint32_t c;
    size_t length = utf8_decode(text, n, &c);
    if (c >= UTF8_INVALID) {
        snprintf(shown, 16, "\\x%02x", (unsigned)(unsigned char)text[0]);
        return 1;
    }
    if (c == '\n' || c == '\t' || c == '\r')
        snprintf(shown, 16, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
    else
        snprintf(shown, 16, "\\u%04x", (unsigned)c);
    return length;
}

size_t utf8_show(const char *text, size_t n, char shown[16]) {
    uint32_t c;
    size_t length = utf8_decode(text, n, &c);
    if (c < ' ' || !utf8_is_safe(c)) return utf8_escape(text, n, shown);
    memcpy(shown, text, length);
    shown[length] = '\0';
    return length;
}

bool utf8_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
