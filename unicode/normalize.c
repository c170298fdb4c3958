/*
 * Normal forms. Most characters stand for themselves whatever is around them, and are copied. The others, and the one
 * that each run of them follows, are a segment: decomposed; its marks ordered by class; composed again if asked for.
 */
#include "unicode/normalize.h"

#include "base/utf8.h"

#include <stdlib.h>

/* Characters under way, each as class << 56 | place << 21 | code: as numbers they sort by class, equal ones as they stood. */
typedef struct Segment {
    const Mappings *mappings;
    NormalForm form;
    uint64_t *chars;
    size_t n, capacity;
} Segment;

static uint32_t code_of(uint64_t c) { return (uint32_t)c & 0x1fffff; }
static unsigned class_of(uint64_t c) { return (unsigned)(c >> 56); }

bool text_append_character(TextBuffer *out, uint32_t c) {
    char bytes[4];
    return text_append(out, bytes, utf8_encode(c, bytes));
}

static bool push(Segment *segment, uint32_t code) {
    if (segment->n == segment->capacity) {
        uint64_t *chars = grow(segment->chars, sizeof *chars, segment->n + 1, &segment->capacity);
        if (!chars) return false;
        segment->chars = chars;
    }
    const Mapping *row = mapping_find(segment->mappings->classes, code);
    uint64_t class = row ? segment->mappings->chars[row->start] : 0;
    segment->chars[segment->n] = class << 56 | (uint64_t)segment->n << 21 | code;
    segment->n++;
    return true;
}

/* Adds what the character decomposes to. No decomposition is deeper than a few characters of the table. */
static bool decompose(Segment *segment, uint32_t code) {
    const Mapping *row = mapping_find(segment->mappings->decompositions, code);
    bool ok = true;
    if (row && (!row->compatibility || segment->form >= FORM_NFKD)) {
        for (uint32_t i = 0; ok && i < row->n; i++)
            ok = decompose(segment, segment->mappings->chars[row->start + i]);
        return ok;
    }
    uint32_t syllable = code - HANGUL_FIRST, tail = syllable % HANGUL_TAILS;
    if (code < HANGUL_FIRST || code > HANGUL_LAST) return push(segment, code);
    return push(segment, HANGUL_LEAD + syllable / (HANGUL_VOWELS * HANGUL_TAILS)) &&
           push(segment, HANGUL_VOWEL + syllable / HANGUL_TAILS % HANGUL_VOWELS) &&
           (!tail || push(segment, HANGUL_TAIL + tail));
}

static int compare_chars(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts each run of marks (characters of a class other than 0) by class. */
static void order(Segment *segment) {
    uint64_t *chars = segment->chars;
    for (size_t i = 0, end; i < segment->n; i = end + 1) {
        bool sorted = true;
        for (end = i; end < segment->n && class_of(chars[end]); end++)
            sorted = sorted && (end == i || class_of(chars[end - 1]) <= class_of(chars[end]));
        if (!sorted) qsort(chars + i, end - i, sizeof *chars, compare_chars);
    }
}

/* Composes each character with the last one of class 0, unless one between the two is of class 0, or of its own or a higher class. */
static void compose(Segment *segment) {
    uint64_t *chars = segment->chars;
    size_t starter = SIZE_MAX, n = 0;
    for (size_t i = 0; i < segment->n; i++) {
        unsigned class = class_of(chars[i]);
        bool is_blocked = starter == SIZE_MAX || (n - 1 > starter && class_of(chars[n - 1]) >= class);
        uint32_t composed =
            is_blocked ? 0 : mappings_compose(segment->mappings, code_of(chars[starter]), code_of(chars[i]));
        if (composed) {
            chars[starter] = composed;
            continue;
        }
        if (class == 0) starter = n;
        chars[n++] = chars[i];
    }
    segment->n = n;
}

static bool flush(Segment *segment, TextBuffer *out) {
    bool ok = true;
    order(segment);
    if (segment->form & 1) compose(segment);
    for (size_t i = 0; ok && i < segment->n; i++) ok = text_append_character(out, code_of(segment->chars[i]));
    segment->n = 0;
    return ok;
}

bool normalize_form(const Mappings *mappings, NormalForm form, const char *text, size_t n, TextBuffer *out) {
    Segment segment = {.mappings = mappings, .form = form};
    bool ok = true;
    for (size_t i = 0, length; ok && i < n; i += length) {
        uint32_t c, last = UTF8_INVALID;
        size_t end = i, last_length = 0; /* text[i, end) stays; the character `last` is its end */
        while (end < n) {
            length = utf8_decode(text + end, n - end, &c);
            if (!mappings_keep(mappings, c)) break;
            end += length, last = c, last_length = length;
        }
        /* The last one may compose with what follows. */
        size_t kept = end - i - (end < n && last < UTF8_INVALID ? last_length : 0);
        if (end > i)
            ok = flush(&segment, out) && text_append(out, text + i, kept) &&
                 (i + kept == end || push(&segment, last));
        length = end - i;
        if (ok && end < n) {
            length += utf8_decode(text + end, n - end, &c);
            ok = decompose(&segment, c);
        }
    }
    ok = ok && flush(&segment, out);
    free(segment.chars);
    return ok;
}

bool normalize_lower(const Mappings *mappings, const char *text, size_t n, TextBuffer *out) {
    bool ok = true;
    for (size_t i = 0, length; ok && i < n; i += length) {
        uint32_t c;
        length = utf8_decode(text + i, n - i, &c);
        const Mapping *row = c < 0x80 ? NULL : mapping_find(mappings->lower, c);
        char ascii = (char)(c - 'A' < 26 ? c | 0x20 : c);
        if (!row) ok = c < 0x80 ? text_append(out, &ascii, 1) : text_append(out, text + i, length);
        for (uint32_t k = 0; row && ok && k < row->n; k++)
            ok = text_append_character(out, mappings->chars[row->start + k]);
    }
    return ok;
}
