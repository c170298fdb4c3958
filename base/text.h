/* Strings, and text that grows. */
#ifndef ATTN_TEXT_H
#define ATTN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that are not NUL-terminated: a name or text of a file. Borrowed. */
typedef struct String {
    const char *data;
    size_t n; /* bytes */
} String;

static inline String string_from(const char *text) { return (String){text, strlen(text)}; }

/* Order by bytes, a prefix first: < 0, 0 or > 0. */
static inline int string_compare(String a, String b) {
    int order = memcmp(a.data, b.data, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* The same for qsort and bsearch, of arrays of strings. */
static inline int string_order(const void *a, const void *b) {
    return string_compare(*(const String *)a, *(const String *)b);
}

static inline bool string_equals(String a, const char *b) {
    return a.n == strlen(b) && memcmp(a.data, b, a.n) == 0;
}

static inline bool string_begins(String text, const char *begin) {
    size_t n = strlen(begin);
    return text.n >= n && memcmp(text.data, begin, n) == 0;
}

static inline bool string_ends(String text, const char *end) {
    size_t n = strlen(end);
    return text.n >= n && memcmp(text.data + text.n - n, end, n) == 0;
}

/* FNV-1a of a string; `hash` is that of the text before it, or TEXT_HASH where there is none. */
#define TEXT_HASH UINT64_C(0xcbf29ce484222325)
static inline uint64_t string_hash(String text, uint64_t hash) {
    for (size_t i = 0; i < text.n; i++) hash = (hash ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    return hash;
}

/* How much of a string from a file an error shows, for "%.*s": whatever its length, the line stays readable. */
static inline int string_shown(String string) { return string.n < 64 ? (int)string.n : 64; }

enum { STRING_PADDING = 8 /* bytes that can be read behind strings that say so, whatever they are */ };

/* All bits of a word's bytes from n ≤ 8 on, without a branch, which lengths of texts would mislead. */
static inline uint64_t bytes_from(size_t n) { return UINT64_MAX << 4 * n << 4 * n; }

/* The first n ≤ 8 bytes of a text with STRING_PADDING behind it, the others 0. */
static inline uint64_t padded_word(const char *text, size_t n) {
    uint64_t word;
    memcpy(&word, text, 8);
    return word & ~bytes_from(n);
}

/*
 * Moves `items`, an array of *capacity items of `size` bytes, to memory with room for `needed` items or more.
 * Capacities double, so that appending n items takes O(n) time. NULL when memory runs out; the array is then as it was.
 */
void *grow(void *items, size_t size, size_t needed, size_t *capacity);

/* Text under construction. Starts as {0}; the owner frees data. */
typedef struct TextBuffer {
    char *data; /* n bytes, not NUL-terminated */
    size_t n, capacity;
    size_t most; /* bytes that it may grow to; 0: as many as memory has */
} TextBuffer;

/* The text so far, whose data are never NULL. It holds until the text grows. */
static inline String text_string(const TextBuffer *text) {
    return (String){text->data ? text->data : "", text->n};
}

/*
 * Both are false when memory runs out, or the text would grow beyond `most`; it is then as it was. The second appends n times
 * that byte.
 */
bool text_append(TextBuffer *text, const void *bytes, size_t n);
bool text_append_times(TextBuffer *text, char byte, size_t n);

#endif
