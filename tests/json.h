/* Texts of JSON as C has them, for tests. */
#ifndef TESTS_JSON_H
#define TESTS_JSON_H

#include "base/json.h"

#include <stdio.h>

/* The string, or as much of it as fits; good until the eighth call from now. */
static inline const char *c_text(String string) {
    static char texts[8][1024];
    static size_t next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0], "%.*s", (int)(string.n < 1024 ? string.n : 1023), string.data);
    return text;
}

/* How many values an array or object has; 0 of others. */
static inline size_t n_items(const Json *json) {
    return json->kind == JSON_ARRAY || json->kind == JSON_OBJECT ? json->n : 0;
}

#endif
