#include "make.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 128 };

bool make_fail(Maker *maker, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (maker->ok) error_set(maker->error, "%s: %s", maker->checkpoint->path, text);
    return maker->ok = false;
}

void *make_room(Maker *maker, size_t n) {
    void *room = maker->ok ? checkpoint_own(maker->checkpoint, n, maker->error) : NULL;
    maker->ok = room != NULL;
    return room;
}

static String copy_text(Maker *maker, const char *text) {
    size_t n = strlen(text);
    char *copy = make_room(maker, n + 1);
    if (copy) memcpy(copy, text, n + 1);
    return (String){copy, n};
}

/* The key with the architecture before it, if it begins with a '.'. */
static const char *whole_key(const Maker *maker, const char *key, char whole[MAX_NAME]) {
    snprintf(whole, MAX_NAME, "%s%s", *key == '.' ? maker->architecture : "", key);
    return whole;
}

bool make_has(const Maker *maker, const char *key) {
    char whole[MAX_NAME];
    whole_key(maker, key, whole);
    for (size_t i = 0; i < maker->checkpoint->n_entries; i++)
        if (string_equals(maker->checkpoint->entries[i].key, whole)) return true;
    return false;
}

void make_entry(Maker *maker, const char *key, Entry entry) {
    Checkpoint *checkpoint = maker->checkpoint;
    char whole[MAX_NAME];
    entry.key = copy_text(maker, whole_key(maker, key, whole));
    if (maker->ok && checkpoint->n_entries == maker->entries_room) {
        size_t more = 2 * maker->entries_room + 32;
        Entry *entries = realloc(checkpoint->entries, more * sizeof *entries);
        if (!entries) make_fail(maker, "not enough memory for its metadata");
        if (entries) checkpoint->entries = entries, maker->entries_room = more;
    }
    if (maker->ok) checkpoint->entries[checkpoint->n_entries++] = entry;
}

static void add_value(Maker *maker, const char *key, ValueType type, const void *value, size_t n) {
    void *copy = make_room(maker, n);
    if (!copy) return;
    memcpy(copy, value, n);
    make_entry(maker, key, (Entry){.type = type, .data = copy});
}

void make_u32(Maker *maker, const char *key, uint64_t value) {
    uint32_t number = (uint32_t)value;
    char whole[MAX_NAME];
    if (value > UINT32_MAX)
        make_fail(maker, "'%s' would be %" PRIu64 ", which is too large", whole_key(maker, key, whole),
                  value);
    else
        add_value(maker, key, VALUE_U32, &number, sizeof number);
}

void make_f32(Maker *maker, const char *key, double value) {
    float number = (float)value;
    add_value(maker, key, VALUE_F32, &number, sizeof number);
}

void make_bool(Maker *maker, const char *key, bool value) {
    add_value(maker, key, VALUE_BOOL, &(unsigned char){value}, 1);
}

void make_string(Maker *maker, const char *key, String value) {
    uint64_t n = value.n;
    unsigned char *copy = make_room(maker, sizeof n + value.n + STRING_PADDING);
    if (!copy) return;
    memcpy(copy, &n, sizeof n);
    memcpy(copy + sizeof n, value.data, value.n);
    make_entry(maker, key, (Entry){.type = VALUE_STRING, .n = n, .data = copy});
}

void make_array(Maker *maker, const char *key, ValueType element, uint64_t n, const void *data,
                size_t n_bytes) {
    make_entry(maker, key,
               (Entry){.type = VALUE_ARRAY, .element = element, .n = n, .n_bytes = n_bytes, .data = data});
}

Tensor *make_tensor(Maker *maker, const Tensor *tensor, const char *format, ...) {
    Checkpoint *checkpoint = maker->checkpoint;
    char name[MAX_NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    String copy = copy_text(maker, name);
    if (maker->ok && checkpoint->n_tensors == maker->tensors_room) {
        size_t more = 2 * maker->tensors_room + 64;
        Tensor *tensors = realloc(checkpoint->tensors, more * sizeof *tensors);
        if (!tensors) make_fail(maker, "not enough memory for its tensors");
        if (tensors) checkpoint->tensors = tensors, maker->tensors_room = more;
    }
    if (!maker->ok) return NULL;
    Tensor *made = &checkpoint->tensors[checkpoint->n_tensors++];
    *made = *tensor;
    made->name = copy;
    return made;
}
