/* The reader of JSON: every kind of value, what is refused and in which line, and hostile bytes. */
#include "base/json.h"
#include "test.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static Json *parse(const char *text) {
    Error error = {{0}};
    Json *json = json_parse(text, strlen(text), &error);
    CHECK(json != NULL, "%s: %s", text, error.message);
    return json;
}

/* Whether an object's member is of that kind. */
static bool is(const Json *object, const char *key, JsonKind kind) {
    const Json *value = json_get(object, key);
    return value && value->kind == kind;
}

static void test_values(void) {
    Json *json =
        parse(" {\"null\": null, \"yes\":true,\n\t\"no\" : false, \"a\": [1, [], {}, \"x\"], \"\": 7}\r\n");
    if (!json) return;
    CHECK(json->kind == JSON_OBJECT && json->n == 5, "%u members", json->n);
    CHECK(is(json, "null", JSON_NULL), "null");
    CHECK(is(json, "yes", JSON_BOOL) && json_get(json, "yes")->boolean, "true");
    CHECK(is(json, "no", JSON_BOOL) && !json_get(json, "no")->boolean, "false");
    CHECK(is(json, "", JSON_NUMBER) && json_get(json, "")->number == 7, "an empty key");
    const Json *array = json_get(json, "a");
    if (is(json, "a", JSON_ARRAY) && array->n == 4) {
        CHECK(array->items[0].kind == JSON_NUMBER && array->items[0].number == 1, "a number");
        CHECK(array->items[1].kind == JSON_ARRAY && array->items[1].n == 0, "an empty array");
        CHECK(array->items[2].kind == JSON_OBJECT && array->items[2].n == 0, "an empty object");
        CHECK(json_equals(&array->items[3], "x") && !json_equals(&array->items[0], "1"), "a text");
    } else {
        CHECK(false, "no array of four");
    }
    CHECK(!json_get(json, "none") && !json_get(array, "a") && !json_get(NULL, "a"),
          "found what is not there");
    json_free(json);
    json_free(NULL);
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
                   {"0e999999999", 0},
                   {"1e-999999999", 0},
                   {"1.7976931348623157e308", 1.7976931348623157e308},
                   {"9007199254740993", 9007199254740992.0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        Json *json = parse(numbers[i].text);
        CHECK(json && json->kind == JSON_NUMBER && json->number == numbers[i].value, "%s", numbers[i].text);
        json_free(json);
    }
    /* Read to the end of the bytes, not to a NUL. */
    Error error = {{0}};
    Json *json = json_parse("123456", 3, NULL);
    CHECK(json && json->number == 123, "123456 of which 3 bytes count");
    json_free(json);
    CHECK(!json_parse("\"\xe2\x82\xac\"", 3, &error) && strstr(error.message, "UTF-8"), "%s", error.message);
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
        Json *json = parse(texts[i].text);
        CHECK(json && json->kind == JSON_TEXT && json->n == texts[i].n &&
                  memcmp(json->text, texts[i].value, texts[i].n) == 0,
              "%s", texts[i].text);
        json_free(json);
    }
}

/* The longest double that printf("%f") writes has 317 characters; no number needs more than 400. */
static void test_long_numbers(void) {
    char text[403];
    Error error = {{0}};
    memset(text, '0', sizeof text);
    memcpy(text, "1.", 2);
    Json *json = json_parse(text, 400, &error);
    CHECK(json && json->number == 1, "%s", error.message);
    json_free(json);
    CHECK(!json_parse(text, 401, &error) &&
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
        Json *json = json_parse(wrong[i].text, strlen(wrong[i].text), &error);
        CHECK(!json, "accepted: %s", wrong[i].text);
        CHECK(strncmp(error.message, "line ", 5) == 0 && strstr(error.message, wrong[i].says), "%s: %s",
              wrong[i].text, error.message);
        json_free(json);
    }
    CHECK(!json_parse("[1\0]", 4, NULL), "a NUL is not the end");
}

static void test_depth(void) {
    char text[2 * (JSON_MAX_DEPTH + 1)];
    for (int depth = JSON_MAX_DEPTH; depth <= JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        Json *json = json_parse(text, 2 * (size_t)depth, NULL);
        CHECK((json != NULL) == (depth == JSON_MAX_DEPTH), "%d brackets", depth);
        json_free(json);
    }
    size_t n = 1 << 20;
    char *many = malloc(n);
    if (!many) return;
    memset(many, '[', n);
    CHECK(!json_parse(many, n, NULL), "%zu brackets", n);
    free(many);
}

/* Integers of 64 bits are exact, and so is what is not an integer. */
static void test_integers(void) {
    static const struct {
        const char *text;
        int64_t value;
        double number;
    } integers[] = {{"0", 0, 0},
                    {"-0", 0, 0},
                    {"-1", -1, -1},
                    {"50257", 50257, 50257},
                    {"9007199254740993", 9007199254740993, 9007199254740992.0},
                    {"-9007199254740993", -9007199254740993, -9007199254740992.0},
                    {"9223372036854775807", INT64_MAX, 9223372036854775808.0},
                    {"9223372036854775295", 9223372036854775295, 9223372036854774784.0},
                    {"-9223372036854775808", INT64_MIN, -9223372036854775808.0}};
    static const char *const others[] = {"1.0",
                                         "1e0",
                                         "9223372036854775808",
                                         "-9223372036854775809",
                                         "1000000000000000019884624838656",
                                         "\"1\"",
                                         "true",
                                         "[1]"};
    int64_t value = 77;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        Json *json = parse(integers[i].text);
        CHECK(json_integer(json, &value) && value == integers[i].value && json->number == integers[i].number,
              "%s: %lld, %.17g", integers[i].text, (long long)value, json ? json->number : NAN);
        json_free(json);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        Json *json = parse(others[i]);
        CHECK(!json_integer(json, &value), "%s as an integer", others[i]);
        json_free(json);
    }
    CHECK(!json_integer(NULL, &value), "nothing as an integer");
}

/* A point is a point in any locale. */
static void test_locale(void) {
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    size_t i = 0;
    while (i < 4 && !setlocale(LC_NUMERIC, locales[i])) i++;
    Json *json = parse("1.5e-3");
    CHECK(json && json->number == 1.5e-3, "1.5e-3");
    json_free(json);
    setlocale(LC_NUMERIC, "C");
}

/* Texts without escapes are where the input has them, members in their order. */
static void test_places(void) {
    const char *text = "{\"b\": \"plain \xc3\xa9\", \"a\": \"\\u0061\", \"\\u0062b\": []}";
    Json *json = parse(text);
    if (!json) return;
    CHECK(json_string(json_get(json, "b")).data == text + 7, "a plain text was copied");
    CHECK(json_equals(json_get(json, "a"), "a") && !json_equals(json_get(json, "a"), "b") &&
              json_equals(json_get(json, "b"), "plain \xc3\xa9") && !json_equals(NULL, ""),
          "texts");
    static const char *const keys[] = {"b", "a", "bb"};
    for (size_t i = 0; i < 3; i++)
        CHECK(string_equals(json_key(json, i), keys[i]) && json_item(json, i) == json_get(json, keys[i]),
              "member %zu", i);
    json_free(json);
}

/* Memory is a small multiple of the input, and a value takes 16 bytes of it, however many there are. */
static void test_many(void) {
    enum { N = 300000 };
    char *text = malloc(32 * (size_t)N);
    if (!text) return;
    size_t n = 0;
    for (size_t i = 0; i < N; i++)
        n += (size_t)sprintf(text + n, "%c\"key %zu\\n\": [%zu]", i ? ',' : '{', i, i);
    text[n++] = '}';
    Error error = {{0}};
    Json *json = json_parse(text, n, &error);
    CHECK(json && json->n == N, "%s", error.message);
    for (size_t i = 0; json && i < N; i += 1000) {
        char key[32];
        int64_t value = -1;
        snprintf(key, sizeof key, "key %zu\n", i);
        CHECK(string_equals(json_key(json, i), key) &&
                  json_integer(json_item(json_item(json, i), 0), &value) && value == (int64_t)i,
              "%s", key);
    }
    json_free(json);
    n += (size_t)sprintf(text + n - 1, ", \"key 7\\n\": 1}") - 1;
    CHECK(!json_parse(text, n, &error) &&
              strcmp(error.message, "line 1: an object that ends here has a key twice") == 0,
          "%s", error.message);
    CHECK(sizeof(Json) == 16, "%zu bytes", sizeof(Json));
    json_free(json_take(text, 0, NULL)); /* frees the text */
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
        Json *json = json_parse(copy, i, NULL);
        CHECK(!json, "accepted the first %zu bytes", i);
        free(copy);
    }
    char changed[sizeof text];
    for (size_t i = 0; i < n; i++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(changed, text, n);
            changed[i] = (char)byte;
            Json *json = json_parse(changed, n, NULL);
            accepted += json != NULL;
            json_free(json);
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
    RUN(test_integers);
    RUN(test_locale);
    RUN(test_places);
    RUN(test_many);
    RUN(test_hostile);
    return test_end();
}
