#include "checkpoint/keys.h"

#include "checkpoint/format.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool keys_fail(KeyReader *reader, const char *format, ...) {
    char text[sizeof reader->error->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (reader->ok) checkpoint_error(reader->checkpoint, reader->error, "%s", text);
    return reader->ok = false;
}

KeyName keys_name(KeyReader *reader, const char *suffix) {
    KeyName key;
    snprintf(key.text, sizeof key.text, "%s.%s", reader->prefix, suffix);
    if (reader->n_asked < MAX_ASKED) reader->asked[reader->n_asked++] = suffix;
    return key;
}

/* A key as whoever wrote the file knows it. */
static KeyName told(const KeyReader *reader, const char *suffix) {
    const Checkpoint *checkpoint = reader->checkpoint;
    KeyName key;
    for (size_t i = 0; i < checkpoint->n_own_names; i++)
        if (strcmp(checkpoint->own_names[i].key + 1, suffix) == 0) {
            snprintf(key.text, sizeof key.text, "\"%s\" of config.json", checkpoint->own_names[i].name);
            return key;
        }
    snprintf(key.text, sizeof key.text, "'%s.%s'", reader->prefix, suffix);
    return key;
}

static bool refuse_missing(KeyReader *reader, const char *suffix) {
    const KeyName key = told(reader, suffix);
    return keys_fail(reader, "%s%s is missing", *key.text == '"' ? "" : "metadata key ", key.text);
}

bool keys_has(KeyReader *reader, const char *suffix) {
    return checkpoint_has(reader->checkpoint, keys_name(reader, suffix).text);
}

size_t keys_number(KeyReader *reader, const char *suffix, uint64_t max, size_t otherwise) {
    const KeyName key = keys_name(reader, suffix);
    uint64_t value = otherwise;
    if (!reader->ok) return 1;
    if (!otherwise && !checkpoint_has(reader->checkpoint, key.text))
        refuse_missing(reader, suffix);
    else if (!checkpoint_u64(reader->checkpoint, key.text, &value, reader->error))
        reader->ok = false;
    else if (value == 0 || value > max)
        keys_fail(reader, "%s is %" PRIu64 ", expected 1 to %" PRIu64, told(reader, suffix).text, value, max);
    return reader->ok ? (size_t)value : 1;
}

size_t keys_count(KeyReader *reader, const char *suffix, uint64_t max, size_t otherwise) {
    const KeyName key = keys_name(reader, suffix);
    uint64_t value = otherwise;
    if (reader->ok) reader->ok = checkpoint_u64(reader->checkpoint, key.text, &value, reader->error);
    if (reader->ok && value > max)
        keys_fail(reader, "%s is %" PRIu64 ", which is absurd", told(reader, suffix).text, value);
    return reader->ok && value ? (size_t)value : otherwise;
}

float keys_float(KeyReader *reader, const char *suffix, float least, float otherwise) {
    const KeyName key = keys_name(reader, suffix);
    float value = otherwise;
    if (!reader->ok) return 1;
    if (isnan(otherwise) && !checkpoint_has(reader->checkpoint, key.text))
        refuse_missing(reader, suffix);
    else if (!checkpoint_f32(reader->checkpoint, key.text, &value, reader->error))
        reader->ok = false;
    else if (!(value >= least) || !isfinite(value))
        keys_fail(reader, "%s is %g, expected a number from %g on", told(reader, suffix).text, (double)value,
                  (double)least);
    return reader->ok ? value : 1;
}

float keys_factor(KeyReader *reader, const char *suffix, float otherwise) {
    float value = keys_float(reader, suffix, -FLT_MAX, otherwise);
    return value != 0 ? value : otherwise;
}

String keys_text(KeyReader *reader, const char *suffix, const char *otherwise) {
    String text = string_from(otherwise);
    const KeyName key = keys_name(reader, suffix);
    if (reader->ok) reader->ok = checkpoint_string(reader->checkpoint, key.text, &text, reader->error);
    return text;
}

bool keys_bool(KeyReader *reader, const char *suffix, bool otherwise) {
    bool value = otherwise;
    const KeyName key = keys_name(reader, suffix);
    if (reader->ok) reader->ok = checkpoint_bool(reader->checkpoint, key.text, &value, reader->error);
    return value;
}

/* Whether a suffix is the name, or begins with it where that ends with '.'. */
static bool is_called(String suffix, const char *name) {
    size_t n = strlen(name);
    return string_begins(suffix, name) && (suffix.n == n || name[n - 1] == '.');
}

/* Whether an entry's value asks for nothing: false or 0, or an array of these. */
static bool is_nothing(const Entry *entry) {
    const bool is_array = entry->type == VALUE_ARRAY;
    if (entry->type == VALUE_STRING || (is_array && entry->element == VALUE_STRING)) return false;
    const size_t n = is_array ? entry->n_bytes : format_value_bytes(entry->type);
    for (size_t i = 0; i < n; i++)
        if (entry->data[i]) return false;
    return true;
}

size_t keys_unread(const KeyReader *reader, const char *const *idle, String *names, size_t most) {
    const Checkpoint *checkpoint = reader->checkpoint;
    size_t n_prefix = strlen(reader->prefix), n = 0;
    for (size_t i = 0; i < checkpoint->n_entries; i++) {
        const Entry *entry = &checkpoint->entries[i];
        if (entry->key.n <= n_prefix + 1 || memcmp(entry->key.data, reader->prefix, n_prefix) != 0 ||
            entry->key.data[n_prefix] != '.')
            continue;
        const String suffix = {entry->key.data + n_prefix + 1, entry->key.n - n_prefix - 1};
        bool known = is_nothing(entry);
        for (size_t k = 0; !known && k < reader->n_asked; k++) known = is_called(suffix, reader->asked[k]);
        for (size_t k = 0; !known && idle[k]; k++) known = is_called(suffix, idle[k]);
        if (known) continue;
        if (n < most) names[n] = entry->key;
        n++;
    }
    return n;
}
