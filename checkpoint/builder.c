#include "builder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 128 };

bool builder_fail(Builder *builder, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (builder->ok) error_set(builder->error, "%s: %s", builder->checkpoint->path, text);
    return builder->ok = false;
}

void *builder_room(Builder *builder, size_t n) {
    void *room = builder->ok ? checkpoint_own(builder->checkpoint, n, builder->error) : NULL;
    builder->ok = room != NULL;
    return room;
}

static String copy_text(Builder *builder, const char *text) {
    size_t n = strlen(text);
    char *copy = builder_room(builder, n + 1);
    if (copy) memcpy(copy, text, n + 1);
    return (String){copy, n};
}

/* The key with the architecture before it, if it begins with a '.'. */
static const char *whole_key(const Builder *builder, const char *key, char whole[MAX_NAME]) {
    snprintf(whole, MAX_NAME, "%s%s", *key == '.' ? builder->architecture : "", key);
    return whole;
}

void builder_own_name(Builder *builder, const char *key, const char *name) {
    Checkpoint *checkpoint = builder->checkpoint;
    if (checkpoint->n_own_names < MAX_OWN_NAMES)
        checkpoint->own_names[checkpoint->n_own_names++] = (OwnName){key, name};
}

bool builder_has(const Builder *builder, const char *key) {
    char whole[MAX_NAME];
    whole_key(builder, key, whole);
    for (size_t i = 0; i < builder->checkpoint->n_entries; i++)
        if (string_equals(builder->checkpoint->entries[i].key, whole)) return true;
    return false;
}

void builder_entry(Builder *builder, const char *key, Entry entry) {
    Checkpoint *checkpoint = builder->checkpoint;
    char whole[MAX_NAME];
    entry.key = copy_text(builder, whole_key(builder, key, whole));
    if (builder->ok && checkpoint->n_entries == builder->entries_room) {
        size_t more = 2 * builder->entries_room + 32;
        Entry *entries = realloc(checkpoint->entries, more * sizeof *entries);
        if (!entries) builder_fail(builder, "not enough memory for its metadata");
        if (entries) checkpoint->entries = entries, builder->entries_room = more;
    }
    if (builder->ok) checkpoint->entries[checkpoint->n_entries++] = entry;
}

static void add_value(Builder *builder, const char *key, ValueType type, const void *value, size_t n) {
    void *copy = builder_room(builder, n);
    if (!copy) return;
    memcpy(copy, value, n);
    builder_entry(builder, key, (Entry){.type = type, .data = copy});
}

void builder_u32(Builder *builder, const char *key, uint64_t value) {
    uint32_t number = (uint32_t)value;
    char whole[MAX_NAME];
    if (value > UINT32_MAX)
        builder_fail(builder, "'%s' would be %" PRIu64 ", which is too large", whole_key(builder, key, whole),
                     value);
    else
        add_value(builder, key, VALUE_U32, &number, sizeof number);
}

void builder_f32(Builder *builder, const char *key, double value) {
    float number = (float)value;
    add_value(builder, key, VALUE_F32, &number, sizeof number);
}

void builder_bool(Builder *builder, const char *key, bool value) {
    add_value(builder, key, VALUE_BOOL, &(unsigned char){value}, 1);
}

void builder_string(Builder *builder, const char *key, String value) {
    uint64_t n = value.n;
    unsigned char *copy = builder_room(builder, sizeof n + value.n + STRING_PADDING);
    if (!copy) return;
    memcpy(copy, &n, sizeof n);
    memcpy(copy + sizeof n, value.data, value.n);
    builder_entry(builder, key, (Entry){.type = VALUE_STRING, .n = n, .data = copy});
}

void builder_array(Builder *builder, const char *key, ValueType element, uint64_t n, const void *data,
                   size_t n_bytes) {
    builder_entry(builder, key,
                  (Entry){.type = VALUE_ARRAY, .element = element, .n = n, .n_bytes = n_bytes, .data = data});
}

Tensor *builder_tensor(Builder *builder, const Tensor *tensor, const char *format, ...) {
    Checkpoint *checkpoint = builder->checkpoint;
    char name[MAX_NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    String copy = copy_text(builder, name);
    if (builder->ok && checkpoint->n_tensors == builder->tensors_room) {
        size_t more = 2 * builder->tensors_room + 64;
        Tensor *tensors = realloc(checkpoint->tensors, more * sizeof *tensors);
        if (!tensors) builder_fail(builder, "not enough memory for its tensors");
        if (tensors) checkpoint->tensors = tensors, builder->tensors_room = more;
    }
    if (!builder->ok) return NULL;
    Tensor *made = &checkpoint->tensors[checkpoint->n_tensors++];
    *made = *tensor;
    made->name = copy;
    return made;
}
