/* The reader of JSON: every kind of value, what is refused and in which line, and hostile bytes. */
#include "cli/jsonvalue.h"
#include "test.h"

#include <stdbool.h>
#include <stdint.h>

static JsonValue *parse(const char *text) {
    Error error = {{0}};
    JsonValue *json = jsonvalue_parse(text, strlen(text), &error);
    CHECK(json != NULL, "%s: %s", text, error.message);
    return json;
}

/* Whether an object's member is of that kind. */
static bool is(const JsonValue *object, const char *key, JsonKind kind) {
    const JsonValue *value = jsonvalue_get(object, key);
    return value && value->kind == kind;
}

static void test_values(void) {
    JsonValue *json =
        parse(" {\"null\": null, \"yes\":true,\n\t\"no\" : false, \"a\": [1, [], {}, \"x\"], \"\": 7}\r\n");
    if (!json) return;
    CHECK(json->kind == JSON_OBJECT && json->n == 5, "%zu members", json->n);
    CHECK(is(json, "null", JSON_NULL), "null");
    CHECK(is(json, "yes", JSON_BOOL) && jsonvalue_get(json, "yes")->boolean, "true");
    CHECK(is(json, "no", JSON_BOOL) && !jsonvalue_get(json, "no")->boolean, "false");
    CHECK(is(json, "", JSON_NUMBER) && jsonvalue_get(json, "")->number == 7, "an empty key");
    const JsonValue *array = jsonvalue_get(json, "a");
    if (is(json, "a", JSON_ARRAY) && array->n == 4) {
        CHECK(array->items[0].kind == JSON_NUMBER && array->items[0].number == 1, "a number");
        CHECK(array->items[1].kind == JSON_ARRAY && array->items[1].n == 0, "an empty array");
        CHECK(array->items[2].kind == JSON_OBJECT && array->items[2].n == 0, "an empty object");
        CHECK(array->items[3].kind == JSON_TEXT && strcmp(array->items[3].text, "x") == 0, "a text");
    } else {
        CHECK(false, "no array of four");
    }
    CHECK(!jsonvalue_get(json, "none") && !jsonvalue_get(array, "a") && !jsonvalue_get(NULL, "a"),
          "found what is not there");
    jsonvalue_free(json);
    jsonvalue_free(NULL);
}

static void test_numbers(void) {
    static const struct {
        const char *text;
        double value;
    } numbers[] = {{"0", 0},
                   {"-0", 0},
                   {"12", 12},
                   {"-3.25", -3.25},
                   {"1e3", 1000},
                   {"1E+2", 100},
                   {"25e-2", 0.25},
                   {"0.1", 0.1},
                   {"1e-400", 0},
                   {"1.7976931348623157e308", 1.7976931348623157e308},
                   {"9007199254740993", 9007199254740992.0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        JsonValue *json = parse(numbers[i].text);
        CHECK(json && json->kind == JSON_NUMBER && json->number == numbers[i].value, "%s", numbers[i].text);
        jsonvalue_free(json);
    }
    /* Read to the end of the bytes, not to a NUL. */
    JsonValue *json = jsonvalue_parse("123456", 3, NULL);
    CHECK(json && json->number == 123, "123456 of which 3 bytes count");
    jsonvalue_free(json);
}

static void test_texts(void) {
    static const struct {
        const char *text, *value;
        size_t n;
    } texts[] = {{"\"\"", "", 0},
                 {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz", 10},
                 {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac", 6},
                 {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4},
                 {"\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf", 4},
                 {"\"\xe7\xac\x94\xf0\x9f\x98\x80\x7f\"", "\xe7\xac\x94\xf0\x9f\x98\x80\x7f", 8},
                 {"\"a\\u0000b\"", "a\0b", 3}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        JsonValue *json = parse(texts[i].text);
        CHECK(json && json->kind == JSON_TEXT && json->text_n == texts[i].n &&
                  memcmp(json->text, texts[i].value, texts[i].n + 1) == 0,
              "%s", texts[i].text);
        jsonvalue_free(json);
    }
}

/* The longest double that printf("%f") writes has 317 characters; no number needs more than 400. */
static void test_long_numbers(void) {
    char text[403];
    Error error = {{0}};
    memset(text, '0', sizeof text);
    memcpy(text, "1.", 2);
    JsonValue *json = jsonvalue_parse(text, 400, &error);
    CHECK(json && json->number == 1, "%s", error.message);
    jsonvalue_free(json);
    CHECK(!jsonvalue_parse(text, 401, &error) &&
              strcmp(error.message, "line 1: a number has too many digits") == 0,
          "%s", error.message);
}

static void test_refused(void) {
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "line 1: the file ends too early"},
        {" \n\n", "line 3: the file ends too early"},
        {"[1,\n2,\n]", "line 3: a JSON value"},
        {"[1 2]", "','"},
        {"[1", "','"},
        {"{\"a\" 1}", "':'"},
        {"{\"a\": 1,}", "double quotes"},
        {"{a: 1}", "double quotes"},
        {"{\"a\": 1\n, \"b\": 2, \"a\": 3}", "line 2: an object that ends here has a key twice"},
        {"{\"a\\u0000\": 1}", "NUL"},
        {"{\"a\": 1", "'}'"},
        {"[1]]", "more text"},
        {"1 2", "more text"},
        {"nul", "a JSON value"},
        {"True", "a JSON value"},
        {"'a'", "a JSON value"},
        {"// no\n1", "a JSON value"},
        {"NaN", "a JSON value"},
        {"-", "number"},
        {"+1", "a JSON value"},
        {".5", "a JSON value"},
        {"1.", "number"},
        {"1e", "number"},
        {"01", "more text"},
        {"-x", "number"},
        {"0x10", "more text"},
        {"1e999", "too large"},
        {"\"abc", "closing quote"},
        {"\"abc\\\"", "closing quote"},
        {"\"a\nb\"", "control character"},
        {"\"a\x01\"", "control character"},
        {"\"\\x\"", "escape"},
        {"\"\\u12g4\"", "hexadecimal"},
        {"\"\\u12\"", "hexadecimal"},
        {"\"\\ud800\"", "surrogate"},
        {"\"\\ud800\\n\"", "surrogate"},
        {"\"\\ud800\\ud800\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"},
        {"\"\xff\"", "UTF-8"},
        {"\"\xc0\x80\"", "UTF-8"},
        {"\"\xed\xa0\x80\"", "UTF-8"},
        {"\"\xe2\x82\"", "UTF-8"},
        {"\xef\xbb\xbf"
         "1",
         "a JSON value"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Error error = {{0}};
        JsonValue *json = jsonvalue_parse(wrong[i].text, strlen(wrong[i].text), &error);
        CHECK(!json, "accepted: %s", wrong[i].text);
        CHECK(strncmp(error.message, "line ", 5) == 0 && strstr(error.message, wrong[i].says), "%s: %s",
              wrong[i].text, error.message);
        jsonvalue_free(json);
    }
    CHECK(!jsonvalue_parse("[1\0]", 4, NULL), "a NUL is not the end");
}

static void test_depth(void) {
    char text[2 * (JSON_MAX_DEPTH + 1)];
    for (int depth = JSON_MAX_DEPTH; depth <= JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        JsonValue *json = jsonvalue_parse(text, 2 * (size_t)depth, NULL);
        CHECK((json != NULL) == (depth == JSON_MAX_DEPTH), "%d brackets", depth);
        jsonvalue_free(json);
    }
    size_t n = 1 << 20;
    char *many = malloc(n);
    if (!many) return;
    memset(many, '[', n);
    CHECK(!jsonvalue_parse(many, n, NULL), "%zu brackets", n);
    free(many);
}

/* As many as may be, and one more; the array counts, too. */
static void test_number_of_values(void) {
    size_t n = 2 * (size_t)JSON_MAX_VALUES;
    char *many = malloc(n + 1);
    if (!many) return;
    for (size_t i = 0; i < n; i += 2) memcpy(many + i, i ? ",1" : "[1", 2);
    for (size_t more = 0; more <= 1; more++) {
        Error error = {{0}};
        size_t end = n - 2 + 2 * more;
        many[end] = ']';
        JsonValue *json = jsonvalue_parse(many, end + 1, &error);
        CHECK((json != NULL) == (more == 0), "%zu more: %s", more, error.message);
        CHECK(!more || strstr(error.message, "more than a million values"), "%s", error.message);
        jsonvalue_free(json);
        memcpy(many + end, ",1", 2 - more);
    }
    free(many);
}

/* Every beginning of a text, and the text with any one byte changed, must neither crash nor leak. */
static void test_hostile(void) {
    static const char text[] =
        "{\"a\": [1.5e2, -0, \"\\ud83d\\ude00\\n\xc3\xa9\"], \"b\": {\"c\": [true, null]}}";
    size_t n = sizeof text - 1, accepted = 0;
    for (size_t i = 0; i < n; i++) {
        char *copy = malloc(i + 1); /* of just this size, so that a sanitizer sees a read beyond it */
        if (!copy) return;
        memcpy(copy, text, i);
        JsonValue *json = jsonvalue_parse(copy, i, NULL);
        CHECK(!json, "accepted the first %zu bytes", i);
        free(copy);
    }
    char changed[sizeof text];
    for (size_t i = 0; i < n; i++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(changed, text, n);
            changed[i] = (char)byte;
            JsonValue *json = jsonvalue_parse(changed, n, NULL);
            accepted += json != NULL;
            jsonvalue_free(json);
        }
    CHECK(accepted >= n && accepted < 128 * n, "%zu of %zu", accepted, 256 * n);
}

int main(void) {
    RUN(test_values);
    RUN(test_numbers);
    RUN(test_texts);
    RUN(test_long_numbers);
    RUN(test_refused);
    RUN(test_depth);
    RUN(test_number_of_values);
    RUN(test_hostile);
    return test_end();
}
