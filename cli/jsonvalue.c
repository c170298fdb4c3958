/*
 * Recursive descent over the text, one function for each kind of value. A value under way is always a tree
 * that jsonvalue_free can take: what fails halfway leaves nothing behind.
 */
#include "cli/jsonvalue.h"

#include "text/unicode.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBER = 400 }; /* characters: more than the longest double that printf("%f") writes */

typedef struct Parser {
    const char *text;
    size_t n, at;
    int depth;
    size_t n_values;
    Error *error;
} Parser;

static bool fail(const Parser *parser, const char *what) {
    size_t line = 1;
    for (size_t i = 0; i < parser->at && i < parser->n; i++) line += parser->text[i] == '\n';
    return error_set(parser->error, "line %zu: %s", line, what);
}

static void skip_space(Parser *parser) {
    while (parser->at < parser->n && memchr(" \t\r\n", parser->text[parser->at], 4)) parser->at++;
}

/* The next character, or NUL at the end. */
static char peek(const Parser *parser) { return parser->at < parser->n ? parser->text[parser->at] : '\0'; }

static bool take(Parser *parser, char c) {
    if (parser->at >= parser->n || parser->text[parser->at] != c) return false;
    parser->at++;
    return true;
}

static size_t take_digits(Parser *parser) {
    size_t begin = parser->at;
    while (peek(parser) >= '0' && peek(parser) <= '9') parser->at++;
    return parser->at - begin;
}

static bool parse_number(Parser *parser, double *number) {
    size_t begin = parser->at;
    take(parser, '-');
    bool ok = take(parser, '0') || take_digits(parser);
    if (ok && take(parser, '.')) ok = take_digits(parser) > 0;
    if (ok && (take(parser, 'e') || take(parser, 'E'))) {
        if (!take(parser, '-')) take(parser, '+');
        ok = take_digits(parser) > 0;
    }
    size_t n = parser->at - begin;
    char digits[MAX_NUMBER + 1]; /* strtod wants a NUL behind the last */
    if (!ok) return fail(parser, "this is no JSON number");
    if (n > MAX_NUMBER) return fail(parser, "a number has too many digits");
    memcpy(digits, parser->text + begin, n);
    digits[n] = '\0';
    *number = strtod(digits, NULL);
    return isfinite(*number) || fail(parser, "a number is too large");
}

/* Four hexadecimal digits of a \u escape. */
static bool parse_hex(Parser *parser, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < 4; i++) {
        char c = peek(parser);
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) return fail(parser, "\\u wants four hexadecimal digits");
        *value = *value * 16 + digit;
        parser->at++;
    }
    return true;
}

static bool is_high_surrogate(uint32_t c) { return c >= 0xd800 && c < 0xdc00; }
static bool is_low_surrogate(uint32_t c) { return c >= 0xdc00 && c < 0xe000; }

/* A code point that no surrogate is left in, as 1 to 4 bytes. Returns their number. */
static size_t utf8_encode(uint32_t c, char *out) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

/* What follows a backslash; appends the character to out, of n_out bytes. */
static bool parse_escape(Parser *parser, char *out, size_t *n_out) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = peek(parser);
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        parser->at++;
        out[(*n_out)++] = meanings[name - names];
        return true;
    }
    if (!take(parser, 'u')) return fail(parser, "unknown escape after \\");
    uint32_t code, low;
    if (!parse_hex(parser, &code)) return false;
    if (is_high_surrogate(code)) {
        if (!take(parser, '\\') || !take(parser, 'u')) return fail(parser, "half a \\u surrogate pair");
        if (!parse_hex(parser, &low)) return false;
        if (!is_low_surrogate(low)) return fail(parser, "half a \\u surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (is_low_surrogate(code)) {
        return fail(parser, "half a \\u surrogate pair");
    }
    *n_out += utf8_encode(code, out + *n_out);
    return true;
}

static bool parse_text(Parser *parser, char **text, size_t *n_text) {
    if (!take(parser, '"')) return fail(parser, "a text in double quotes should stand here");
    size_t end = parser->at;
    while (end < parser->n && parser->text[end] != '"') end += parser->text[end] == '\\' ? 2 : 1;
    if (end >= parser->n) return fail(parser, "a text has no closing quote");
    *n_text = 0;
    *text = malloc(end - parser->at + 1); /* an escape is never shorter than what it stands for */
    if (!*text) return fail(parser, "not enough memory");
    while (!take(parser, '"')) {
        uint32_t c;
        size_t n = utf8_decode(parser->text + parser->at, parser->n - parser->at, &c);
        if (c >= UTF8_INVALID) return fail(parser, "a text is not UTF-8");
        if (c < 0x20) return fail(parser, "a line break or control character within a text");
        if (c == '\\') {
            parser->at++;
            if (!parse_escape(parser, *text, n_text)) return false;
        } else {
            memcpy(*text + *n_text, parser->text + parser->at, n);
            *n_text += n;
            parser->at += n;
        }
    }
    (*text)[*n_text] = '\0';
    return true;
}

static bool parse_value(Parser *parser, JsonValue *value);

/* Room for one more item, a null, in `value`; *capacity is what there is room for. */
static bool add_item(Parser *parser, JsonValue *value, size_t *capacity) {
    if (++parser->n_values == JSON_MAX_VALUES) return fail(parser, "there are more than a million values");
    if (value->n == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 4;
        JsonValue *items =
            more < SIZE_MAX / sizeof *items ? realloc(value->items, more * sizeof *items) : NULL;
        if (items) value->items = items;
        char **keys = items && value->kind == JSON_OBJECT ? realloc(value->keys, more * sizeof *keys) : NULL;
        if (keys) value->keys = keys;
        if (!items || (value->kind == JSON_OBJECT && !keys)) return fail(parser, "not enough memory");
        *capacity = more;
    }
    value->items[value->n] = (JsonValue){.kind = JSON_NULL};
    if (value->kind == JSON_OBJECT) value->keys[value->n] = NULL;
    value->n++;
    return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool check_keys(const Parser *parser, const JsonValue *object) {
    if (object->n < 2) return true;
    char **sorted = malloc(object->n * sizeof *sorted);
    if (!sorted) return fail(parser, "not enough memory");
    memcpy(sorted, object->keys, object->n * sizeof *sorted);
    qsort(sorted, object->n, sizeof *sorted, by_text);
    bool ok = true;
    for (size_t i = 1; ok && i < object->n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            ok = fail(parser, "an object that ends here has a key twice");
    free(sorted);
    return ok;
}

static bool parse_member(Parser *parser, JsonValue *value) {
    if (value->kind == JSON_OBJECT) {
        char **key = &value->keys[value->n - 1];
        size_t n;
        if (!parse_text(parser, key, &n)) return false;
        if (strlen(*key) != n) return fail(parser, "a key holds a NUL");
        skip_space(parser);
        if (!take(parser, ':')) return fail(parser, "a key wants a ':' behind it");
        skip_space(parser);
    }
    return parse_value(parser, &value->items[value->n - 1]);
}

/* The rest of an array or object, whose bracket is taken. */
static bool parse_items(Parser *parser, JsonValue *value) {
    char close = value->kind == JSON_ARRAY ? ']' : '}';
    size_t capacity = 0;
    if (++parser->depth > JSON_MAX_DEPTH) return fail(parser, "too many brackets within each other");
    skip_space(parser);
    if (!take(parser, close)) {
        do {
            skip_space(parser);
            if (!add_item(parser, value, &capacity) || !parse_member(parser, value)) return false;
            skip_space(parser);
        } while (take(parser, ','));
        if (!take(parser, close))
            return fail(parser,
                        close == ']' ? "a ',' or ']' should stand here" : "a ',' or '}' should stand here");
    }
    parser->depth--;
    return value->kind == JSON_ARRAY || check_keys(parser, value);
}

static bool take_word(Parser *parser, const char *word) {
    size_t n = strlen(word);
    if (parser->n - parser->at < n || memcmp(parser->text + parser->at, word, n) != 0) return false;
    parser->at += n;
    return true;
}

static bool parse_value(Parser *parser, JsonValue *value) {
    if (take(parser, '[')) {
        value->kind = JSON_ARRAY;
        return parse_items(parser, value);
    }
    if (take(parser, '{')) {
        value->kind = JSON_OBJECT;
        return parse_items(parser, value);
    }
    if (peek(parser) == '"') {
        value->kind = JSON_TEXT;
        return parse_text(parser, &value->text, &value->text_n);
    }
    if (peek(parser) == '-' || (peek(parser) >= '0' && peek(parser) <= '9')) {
        value->kind = JSON_NUMBER;
        return parse_number(parser, &value->number);
    }
    if (take_word(parser, "null")) return true;
    value->kind = JSON_BOOL;
    value->boolean = take_word(parser, "true");
    if (value->boolean || take_word(parser, "false")) return true;
    return fail(parser,
                parser->at < parser->n ? "a JSON value should stand here" : "the file ends too early");
}

static void free_items(JsonValue *value) {
    for (size_t i = 0; i < value->n; i++) {
        free_items(&value->items[i]);
        if (value->keys) free(value->keys[i]);
    }
    free(value->items);
    free(value->keys);
    free(value->text);
}

JsonValue *jsonvalue_parse(const char *text, size_t n, Error *error) {
    Parser parser = {.text = text, .n = n, .error = error};
    JsonValue *root = calloc(1, sizeof *root);
    if (!root) {
        fail(&parser, "not enough memory");
        return NULL;
    }
    skip_space(&parser);
    bool ok = parse_value(&parser, root);
    skip_space(&parser);
    if (ok && parser.at < n) ok = fail(&parser, "there is more text behind the JSON value");
    if (ok) return root;
    jsonvalue_free(root);
    return NULL;
}

void jsonvalue_free(JsonValue *json) {
    if (!json) return;
    free_items(json);
    free(json);
}

const JsonValue *jsonvalue_get(const JsonValue *object, const char *key) {
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (size_t i = 0; i < object->n; i++)
        if (strcmp(object->keys[i], key) == 0) return &object->items[i];
    return NULL;
}
