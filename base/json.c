/*
 * Recursive descent over the text, one function for each kind of value, as deep as JSON_MAX_DEPTH. Values whose array
 * or object is not closed yet wait on a stack. When it closes they move, side by side, into the document's room, which
 * is a list of blocks, so that nothing there ever moves again.
 */
#include "base/json.h"

#include "base/locale.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NUMBER = 400,      /* characters: more than the longest double in full */
    FIRST_BLOCK = 4096,    /* bytes; each further block is as large as all before it */
    MAX_BLOCK = 1 << 20,   /* but no larger, unless one array or object needs it */
    MAX_INPUT = INT32_MAX, /* Json.n can count it */
};

typedef struct Block {
    struct Block *next;
    Json room[];
} Block;

/* The root comes first, so that its address is the document's. */
typedef struct Document {
    Json root;
    Block *blocks; /* the newest first */
    char *owned;   /* the text that json_take took */
} Document;

typedef struct Parser {
    const char *text;
    size_t n, at;
    int depth;
    Json *waiting; /* [n_waiting] */
    size_t n_waiting, waiting_room;
    Document *document;
    char *room; /* what is left of the newest block: n_room bytes */
    size_t n_room, n_taken;
    Error *error;
} Parser;

static bool fail(const Parser *parser, const char *what) {
    size_t line = 1;
    for (size_t i = 0; i < parser->at && i < parser->n; i++) line += parser->text[i] == '\n';
    return error_set(parser->error, "line %zu: %s", line, what);
}

/* n bytes of the document's room, or NULL. They are aligned if all that was taken before is of whole Jsons. */
static void *take_room(Parser *parser, size_t n) {
    n = (n + sizeof(Json) - 1) / sizeof(Json) * sizeof(Json);
    if (n > parser->n_room) {
        size_t size = parser->n_taken < MAX_BLOCK ? parser->n_taken : MAX_BLOCK;
        if (size < FIRST_BLOCK) size = FIRST_BLOCK;
        if (size < n) size = n;
        Block *block = malloc(sizeof *block + size);
        if (!block) {
            fail(parser, "not enough memory");
            return NULL;
        }
        block->next = parser->document->blocks;
        parser->document->blocks = block;
        parser->room = (char *)block->room, parser->n_room = size;
        parser->n_taken += size;
    }
    void *room = parser->room;
    parser->room += n, parser->n_room -= n;
    return room;
}

/* Puts a value on the stack. */
static bool push(Parser *parser, Json value) {
    if (parser->n_waiting == parser->waiting_room) {
        size_t more = parser->waiting_room ? 2 * parser->waiting_room : 64;
        Json *waiting = realloc(parser->waiting, more * sizeof *waiting); /* input < 2^31: no overflow */
        if (!waiting) return fail(parser, "not enough memory");
        parser->waiting = waiting, parser->waiting_room = more;
    }
    parser->waiting[parser->n_waiting++] = value;
    return true;
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

/* Digits [begin, end) as an integer; false where no int64 holds it. */
static bool to_integer(const char *text, size_t begin, size_t end, int64_t *value) {
    bool is_negative = text[begin] == '-';
    uint64_t size = 0, most = (uint64_t)INT64_MAX + is_negative;
    for (size_t i = begin + is_negative; i < end; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (size > (most - digit) / 10) return false;
        size = 10 * size + digit;
    }
    *value = is_negative ? (int64_t)(0 - size) : (int64_t)size;
    return true;
}

static double to_double(const char *text, size_t n) {
    char number[MAX_NUMBER + 1];
    memcpy(number, text, n);
    number[n] = '\0';
    return strtod(number, NULL);
}

static bool parse_number(Parser *parser, Json *value) {
    size_t begin = parser->at;
    take(parser, '-');
    bool ok = take(parser, '0') || take_digits(parser), is_integer = true;
    if (ok && take(parser, '.')) ok = take_digits(parser) > 0, is_integer = false;
    if (ok && (take(parser, 'e') || take(parser, 'E'))) {
        if (!take(parser, '-')) take(parser, '+');
        ok = take_digits(parser) > 0, is_integer = false;
    }
    if (!ok) return fail(parser, "this is no JSON number");
    if (parser->at - begin > MAX_NUMBER) return fail(parser, "a number has too many digits");
    int64_t integer;
    value->is_integer = is_integer && to_integer(parser->text, begin, parser->at, &integer);
    if (value->is_integer) {
        value->number = (double)integer;
        /* The rest that the double lacks, less than 2^10; modulo 2^64, since the nearest to INT64_MAX is 2^63. */
        uint64_t nearest = value->number < 0 ? (uint64_t)(int64_t)value->number : (uint64_t)value->number;
        value->n = (uint32_t)((uint64_t)integer - nearest);
        return true;
    }
    value->number = to_double(parser->text + begin, parser->at - begin);
    return isfinite(value->number) || fail(parser, "a number is too large");
}

bool json_integer(const Json *json, int64_t *value) {
    if (!json || json->kind != JSON_NUMBER || !json->is_integer) return false;
    uint64_t nearest = json->number < 0 ? (uint64_t)(int64_t)json->number : (uint64_t)json->number;
    *value = (int64_t)(nearest + (uint64_t)(int64_t)(int32_t)json->n);
    return true;
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

/* Reads what follows a backslash; appends the character to out, of n_out bytes. */
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

/* Goes on to the next quote or backslash; false where a character before it may not stand in a text. */
static bool skip_plain(Parser *parser) {
    while (parser->at < parser->n) {
        unsigned char c = (unsigned char)parser->text[parser->at];
        if (c == '"' || c == '\\') return true;
        if (c < 0x20) return fail(parser, "a line break or control character within a text");
        uint32_t code = c;
        size_t n = c < 0x80 ? 1 : utf8_decode(parser->text + parser->at, parser->n - parser->at, &code);
        if (code >= UTF8_INVALID) return fail(parser, "a text is not UTF-8");
        parser->at += n;
    }
    return fail(parser, "a text has no closing quote");
}

/* A text from its first escape on, whose first characters [begin, at) are plain: it gets room of its own. */
static bool parse_escaped(Parser *parser, size_t begin, Json *value) {
    size_t end = parser->at, n = parser->at - begin;
    while (end < parser->n && parser->text[end] != '"') end += parser->text[end] == '\\' ? 2 : 1;
    if (end >= parser->n) return fail(parser, "a text has no closing quote");
    char *out =
        take_room(parser, end - begin + STRING_PADDING); /* an escape is longer than what it stands for */
    if (!out) return false;
    memcpy(out, parser->text + begin, n);
    while (!take(parser, '"')) {
        parser->at++; /* the backslash */
        if (!parse_escape(parser, out, &n)) return false;
        size_t plain = parser->at;
        if (!skip_plain(parser)) return false;
        memcpy(out + n, parser->text + plain, parser->at - plain);
        n += parser->at - plain;
    }
    memset(out + n, 0, STRING_PADDING);
    value->text = out, value->n = (uint32_t)n;
    return true;
}

static bool parse_text(Parser *parser, Json *value) {
    if (!take(parser, '"')) return fail(parser, "a text in double quotes should stand here");
    size_t begin = parser->at;
    value->kind = JSON_TEXT;
    if (!skip_plain(parser)) return false;
    if (peek(parser) == '\\') return parse_escaped(parser, begin, value);
    value->text = parser->text + begin, value->n = (uint32_t)(parser->at++ - begin);
    return true;
}

/* A key with a hash, so that sorting seldom compares texts. */
typedef struct HashedKey {
    uint64_t hash;
    String key;
} HashedKey;

static int compare_hashed(const void *a, const void *b) {
    const HashedKey *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : string_compare(x->key, y->key);
}

static bool check_keys(const Parser *parser, const Json *object) {
    if (object->n < 2) return true;
    HashedKey *keys = malloc(object->n * sizeof *keys);
    if (!keys) return fail(parser, "not enough memory");
    for (size_t i = 0; i < object->n; i++) {
        String key = json_key(object, i);
        keys[i] = (HashedKey){string_hash(key, TEXT_HASH), key};
    }
    qsort(keys, object->n, sizeof *keys, compare_hashed);
    bool ok = true;
    for (size_t i = 1; ok && i < object->n; i++)
        if (compare_hashed(&keys[i - 1], &keys[i]) == 0)
            ok = fail(parser, "an object that ends here has a key twice");
    free(keys);
    return ok;
}

static bool parse_value(Parser *parser, Json *value);

/* One item of an array, or a key and its value, onto the stack. */
static bool parse_item(Parser *parser, bool has_key) {
    Json value = {0};
    if (has_key) {
        Json key = {0};
        if (!parse_text(parser, &key)) return false;
        skip_space(parser);
        if (!take(parser, ':')) return fail(parser, "a key wants a ':' behind it");
        skip_space(parser);
        if (!push(parser, key)) return false;
    }
    return parse_value(parser, &value) && push(parser, value);
}

/* The rest of an array or object, whose bracket is taken. */
static bool parse_items(Parser *parser, Json *value) {
    bool is_object = value->kind == JSON_OBJECT;
    char close = is_object ? '}' : ']';
    size_t first = parser->n_waiting;
    if (++parser->depth > JSON_MAX_DEPTH) return fail(parser, "too many brackets within each other");
    skip_space(parser);
    if (!take(parser, close)) {
        do {
            skip_space(parser);
            if (!parse_item(parser, is_object)) return false;
            skip_space(parser);
        } while (take(parser, ','));
        if (!take(parser, close))
            return fail(parser,
                        is_object ? "a ',' or '}' should stand here" : "a ',' or ']' should stand here");
        size_t n = parser->n_waiting - first;
        Json *items = take_room(parser, n * sizeof *items);
        if (!items) return false;
        memcpy(items, parser->waiting + first, n * sizeof *items);
        parser->n_waiting = first;
        value->items = items, value->n = (uint32_t)(is_object ? n / 2 : n);
    }
    parser->depth--;
    return !is_object || check_keys(parser, value);
}

static bool take_word(Parser *parser, const char *word) {
    size_t n = strlen(word);
    if (parser->n - parser->at < n || memcmp(parser->text + parser->at, word, n) != 0) return false;
    parser->at += n;
    return true;
}

/* *value is all zeros, a null. */
static bool parse_value(Parser *parser, Json *value) {
    char c = peek(parser);
    if (c == '"') return parse_text(parser, value);
    if (c == '[' || c == '{') {
        parser->at++;
        value->kind = c == '[' ? JSON_ARRAY : JSON_OBJECT;
        return parse_items(parser, value);
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        value->kind = JSON_NUMBER;
        return parse_number(parser, value);
    }
    if (take_word(parser, "null")) return true;
    value->kind = JSON_BOOL;
    value->boolean = take_word(parser, "true");
    if (value->boolean || take_word(parser, "false")) return true;
    return fail(parser,
                parser->at < parser->n ? "a JSON value should stand here" : "the file ends too early");
}

static bool parse_document(Parser *parser) {
    if (!parser->document) return fail(parser, "not enough memory");
    if (parser->n > MAX_INPUT) return fail(parser, "JSON of 2 GiB and more is not read");
    skip_space(parser);
    if (!parse_value(parser, &parser->document->root)) return false;
    skip_space(parser);
    return parser->at == parser->n || fail(parser, "there is more text behind the JSON value");
}

Json *json_parse(const char *text, size_t n, Error *error) {
    Parser parser = {.text = text, .n = n, .error = error, .document = calloc(1, sizeof(Document))};
    const PlainLocale locale = locale_begin();
    bool ok = parse_document(&parser);
    locale_end(locale);
    free(parser.waiting);
    if (ok) return &parser.document->root;
    if (parser.document) json_free(&parser.document->root);
    return NULL;
}

Json *json_take(char *text, size_t n, Error *error) {
    Json *json = json_parse(text, n, error);
    if (json)
        ((Document *)(void *)json)->owned = text;
    else
        free(text);
    return json;
}

void json_free(Json *json) {
    if (!json) return;
    Document *document = (Document *)(void *)json;
    for (Block *block = document->blocks, *next; block; block = next) next = block->next, free(block);
    free(document->owned);
    free(document);
}

const Json *json_get(const Json *object, const char *key) {
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (size_t i = 0; i < object->n; i++)
        if (string_equals(json_key(object, i), key)) return json_item(object, i);
    return NULL;
}
