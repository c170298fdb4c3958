/* A buffer of text that grows. */
#ifndef ATTN_BUFFER_H
#define ATTN_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Moves `items`, an array of *capacity items of `size` bytes, to memory with room for `needed` items or more.
 * Capacities double, so that appending n items takes O(n) time. NULL when memory runs out; the array is then as it was.
 */
void *grow(void *items, size_t size, size_t needed, size_t *capacity);

/* Text under construction. Starts as {0}; the owner frees data. */
typedef struct TextBuffer {
    char *data; /* n bytes, not NUL-terminated */
    size_t n, capacity;
} TextBuffer;

/* Both are false when memory runs out; the text is then as it was. The second appends n times that byte. */
bool text_append(TextBuffer *text, const void *bytes, size_t n);
bool text_append_times(TextBuffer *text, char byte, size_t n);

#endif
