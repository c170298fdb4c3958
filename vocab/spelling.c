#include "vocab/spelling.h"

#include "base/utf8.h"

/*
 * GPT-2 spells each byte as a visible character (Radford et al. 2019, bytes_to_unicode in encoder.py):
 * printable Latin-1 as itself, the other 68 bytes, in order, as U+0100 and up. −1: not such a character.
 */
static int spelt_byte(uint32_t c) {
    if ((c > 0x20 && c < 0x7f) || (c > 0xa0 && c < 0x100 && c != 0xad)) return (int)c;
    if (c >= 0x100 && c < 0x121) return (int)(c - 0x100);
    if (c >= 0x121 && c < 0x143) return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

uint32_t spell_byte(char byte) {
    uint32_t c = (unsigned char)byte;
    if (spelt_byte(c) == (int)c) return c;
    return c <= 0x20 ? 0x100 + c : c == 0xad ? 0x143 : 0x121 + c - 0x7f;
}

/*
 * Whether all 8 bytes lie between ! and ~: visible ASCII, which is spelt as itself. A byte's highest bit is set
 * if it is not ASCII, if it lies beyond ~ and 1 is added, or if it lies before ! and ! is subtracted. Only a byte
 * that is out of range already carries over into the next.
 */
static bool is_visible(uint64_t word) {
    const uint64_t each = 0x0101010101010101u;
    return ((word | (word + each * (0x80 - 0x7f)) | (word - each * 0x21)) & each * 0x80) == 0;
}

size_t unspell_bytes(String text, char *out, bool *is_spelt) {
    const uint64_t visible = 0x6161616161616161u;
    size_t n = (text.n >= 2) & (memcmp(text.data, "\xc4\xa0", 2) == 0), i = 2 * n;
    *out = ' '; /* if the text begins with one */
    while (i < text.n) {
        size_t n_word = text.n - i < 8 ? text.n - i : 8;
        uint64_t word = padded_word(text.data + i, n_word);
        if (is_visible(word |
                       (visible &
                        bytes_from(n_word)))) { /* most are: no loop, whose end a processor cannot predict */
            memcpy(out + n, &word, 8);
            i += n_word, n += n_word;
            continue;
        }
        uint32_t c;
        i += utf8_decode(text.data + i, text.n - i, &c);
        int byte = spelt_byte(c);
        if (byte < 0) {
            *is_spelt = false;
            memcpy(out, text.data, text.n);
            return text.n;
        }
        out[n++] = (char)byte;
    }
    return n;
}

bool append_unspelt(String text, TextBuffer *out) {
    static const char padding[STRING_PADDING];
    size_t start = out->n, copy = start + text.n + STRING_PADDING;
    if (!text_append(out, text.data, text.n) || !text_append(out, padding, STRING_PADDING) ||
        !text_append(out, text.data, text.n) || !text_append(out, padding, STRING_PADDING))
        return false;
    bool is_spelt;
    out->n = start + unspell_bytes((String){out->data + copy, text.n}, out->data + start, &is_spelt);
    return true;
}

size_t unspell_spaces(String text, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < text.n;) {
        bool is_space = text.n - i >= 3 && memcmp(text.data + i, "\xe2\x96\x81", 3) == 0;
        out[n++] = is_space ? ' ' : text.data[i];
        i += is_space ? 3 : 1;
    }
    return n;
}

int named_byte(String name, bool any_case) {
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    size_t n = any_case ? 32 : 16;
    if (name.n != 6 || memcmp(name.data, "<0x", 3) != 0 || name.data[5] != '>') return -1;
    const char *high = memchr(digits, name.data[3], n), *low = memchr(digits, name.data[4], n);
    return high && low ? (int)((high - digits) % 16 << 4 | (low - digits) % 16) : -1;
}
