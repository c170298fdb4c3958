#include "base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *grow(void *items, size_t size, size_t needed, size_t *capacity) {
    size_t larger = *capacity < 64 ? 64 : *capacity;
    while (larger < needed && larger <= SIZE_MAX / 2) larger *= 2;
    if (larger < needed || larger > SIZE_MAX / size) return NULL;
    items = realloc(items, larger * size);
    if (items) *capacity = larger;
    return items;
}

static bool reserve(TextBuffer *out, size_t n) {
    if (out->most && n > out->most - out->n) return false;
    if (n <= out->capacity - out->n) return true;
    char *data = n > SIZE_MAX - out->n ? NULL : grow(out->data, 1, out->n + n, &out->capacity);
    if (data) out->data = data;
    return data != NULL;
}

bool text_append_times(TextBuffer *out, char byte, size_t n) {
    if (!reserve(out, n)) return false;
    if (n > 0) memset(out->data + out->n, byte, n);
    out->n += n;
    return true;
}

bool text_append(TextBuffer *out, const void *bytes, size_t n) {
    if (!reserve(out, n)) return false;
    if (n > 0) memcpy(out->data + out->n, bytes, n); /* of nothing, both may be NULL */
    out->n += n;
    return true;
}
