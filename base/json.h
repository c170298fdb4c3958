/*
 * A strict reader of JSON (RFC 8259) for all that reads it: config.json, the header of safetensors, tokenizer.json with
 * its millions of values, conversations, worked examples. A value takes 16 bytes. Texts without escapes stay where they
 * lie in the input. Time is near-linear and memory at most some 50 times the input's bytes, whatever these are;
 * usual files take about twice their size.
 */
#ifndef ATTN_JSON_H
#define ATTN_JSON_H

#include "base/error.h"
#include "base/text.h"

enum { JSON_MAX_DEPTH = 64 }; /* of arrays and objects within each other */

typedef enum JsonKind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT } JsonKind;

typedef struct Json {
    uint8_t kind;    /* JsonKind */
    bool boolean;    /* of a JSON_BOOL */
    bool is_integer; /* of a JSON_NUMBER: it has no '.' and no exponent, and json_integer gives it */
    uint32_t n;      /* bytes of a text, items of an array, members of an object */
    union {
        double number;            /* the nearest */
        const char *text;         /* UTF-8, without a NUL; in the input or beside it */
        const struct Json *items; /* [n] of an array; [2n] of an object, each key (a text) before its value */
    };
} Json;

/*
 * Reads the n bytes of text (less than 2 GiB), which must be one value and white space. No object may have a key twice.
 * NULL with an error that begins with the number of the line where it went wrong. Texts may point into `text`, which
 * must live as long as they do; json_take frees it (malloc's) in json_free, or at once when it fails. json_free, which
 * takes what was returned and no part of it, accepts NULL.
 */
Json *json_parse(const char *text, size_t n, Error *error);
Json *json_take(char *text, size_t n, Error *error);
void json_free(Json *json);

/* The member of that name, by a search from the first; NULL when there is none, when `object` is none, or is NULL. */
const Json *json_get(const Json *object, const char *key);

/* Item i of an array, or the value of member i of an object, i < n. */
static inline const Json *json_item(const Json *json, size_t i) {
    return &json->items[json->kind == JSON_OBJECT ? 2 * i + 1 : i];
}

/* A text, which an escape may have put a NUL into; without bytes when `json` is none, or is NULL. */
static inline String json_string(const Json *json) {
    bool is_text = json && json->kind == JSON_TEXT;
    return (String){is_text ? json->text : "", is_text ? json->n : 0};
}

/* The key of member i of an object, i < n. An escape may have put a NUL into it, too. */
static inline String json_key(const Json *object, size_t i) { return json_string(&object->items[2 * i]); }

/* Whether it is that text; `json` may be NULL. */
static inline bool json_equals(const Json *json, const char *text) {
    return json && json->kind == JSON_TEXT && string_equals(json_string(json), text);
}

/* The exact integer; false when `json` is none that an int64 holds, or is NULL. */
bool json_integer(const Json *json, int64_t *value);

#endif
