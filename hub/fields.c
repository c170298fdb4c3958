/* Members of config.json by name, and what has been made of them. */
#include "hub.h"

#include <stdio.h>
#include <string.h>

const Json *hub_not_null(const Json *json) { return json && json->kind != JSON_NULL ? json : NULL; }

const Json *hub_find(const Json *config, const char *key) {
    const char *dot = strchr(key, '.');
    if (dot) {
        char first[32];
        snprintf(first, sizeof first, "%.*s", (int)(dot - key), key);
        return hub_find(hub_find(config, first), dot + 1);
    }
    const Json *own = json_get(json_get(config, "text_config"), key), *outer = json_get(config, key);
    return hub_not_null(own) || !outer ? own : outer;
}

const Json *hub_get(const Json *config, const char *key) { return hub_not_null(hub_find(config, key)); }

bool hub_listed(const char *list, const char *word) {
    char spaced[96];
    snprintf(spaced, sizeof spaced, " %s ", word);
    return !list || (strstr(list, spaced) != NULL) != (*list == '!');
}

double hub_real(Builder *builder, const Json *config, const char *key, double otherwise) {
    const Json *value = hub_get(config, key);
    if (value && value->kind != JSON_NUMBER)
        builder_fail(builder, "config.json: \"%s\" should be a number", key);
    return value && value->kind == JSON_NUMBER ? value->number : otherwise;
}

bool hub_bool(Builder *builder, const Json *config, const char *key, bool otherwise) {
    const Json *value = hub_get(config, key);
    if (value && value->kind != JSON_BOOL)
        builder_fail(builder, "config.json: \"%s\" should be true or false", key);
    return value && value->kind == JSON_BOOL ? value->boolean : otherwise;
}

void hub_add(Builder *builder, const char *gguf, ValueType type, const char *name, const Json *value) {
    int64_t integer = 0;
    builder_own_name(builder, gguf, name);
    if (type == VALUE_BOOL && value->kind == JSON_BOOL)
        builder_bool(builder, gguf, value->boolean);
    else if (type == VALUE_F32 && value->kind == JSON_NUMBER)
        builder_f32(builder, gguf, value->number);
    else if (type == VALUE_U32 && json_integer(value, &integer) && integer >= 0)
        builder_u32(builder, gguf, (uint64_t)integer);
    else
        builder_fail(builder, "config.json: \"%s\" should be %s", name,
                     type == VALUE_BOOL  ? "true or false"
                     : type == VALUE_F32 ? "a number"
                                         : "an integer of 0 or more");
}

uint64_t hub_number(const Builder *builder, const char *gguf) {
    char key[96];
    uint64_t value = 0;
    snprintf(key, sizeof key, "%s%s", builder->architecture, gguf);
    for (size_t i = 0; i < builder->checkpoint->n_entries; i++)
        if (string_equals(builder->checkpoint->entries[i].key, key))
            format_unsigned(&builder->checkpoint->entries[i], &value);
    return value;
}
