/*
 * A strict reader of JSON (RFC 8259), for worked examples and for tests that read back what the study program
 * writes. The writer is report.h's.
 */
#ifndef ATTN_JSON_H
#define ATTN_JSON_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    JSON_MAX_DEPTH = 64,       /* of arrays and objects within each other */
    JSON_MAX_VALUES = 1000000, /* a value of two bytes takes 64 and more of memory */
};

typedef enum JsonKind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT } JsonKind;

/* A value and all that is in it. Fields of other kinds than its own are zero. */
typedef struct JsonValue {
    JsonKind kind;
    bool boolean;
    double number;
    char *text; /* UTF-8, a NUL behind it */
    size_t text_n;
    struct JsonValue *items; /* [n] of an array or object */
    char **keys;             /* [n] of an object; no two alike */
    size_t n;
} JsonValue;

/*
 * Reads the n bytes of text, which must be one value and white space. NULL with an error that begins with the
 * number of the line where it went wrong. jsonvalue_free accepts NULL.
 */
JsonValue *jsonvalue_parse(const char *text, size_t n, Error *error);
void jsonvalue_free(JsonValue *json);

/* The member of that name; NULL when there is none, when `object` is none, or is NULL. */
const JsonValue *jsonvalue_get(const JsonValue *object, const char *key);

#endif
