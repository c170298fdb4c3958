/*
 * Patterns: tests/data/tokenizer/patterns.cases, which scripts/expect/pattern_cases.py makes with another engine; categories, as
 * scripts/tables/unicode.py counts them; bytes that are no UTF-8; what is refused; and that time is linear, for texts and
 * expressions on which backtracking is not.
 */
#include "base/text.h"
#include "regex/pattern.h"
#include "unicode/categories.h"
#include "vocab/pretokenizers.h"

#include "tokenizers.h"

static Pattern *compile(const char *expression, size_t n) {
    Error error = {{0}};
    Pattern *pattern = pattern_new((String){expression, n}, &error);
    CHECK(pattern, "%.*s: %s", (int)n, expression, error.message);
    return pattern;
}

/* The matches of text[0, n), as "0,3 3,4". The text lies in memory of just its size. */
static TextBuffer find_all(const Pattern *pattern, const char *text, size_t n) {
    TextBuffer found = {0};
    char *exact = malloc(n + !n), word[64];
    uint16_t *states = malloc((n + !n) * sizeof *states);
    memcpy(exact, text, n);
    Matches matches = pattern_begin(pattern, exact, n, states);
    for (size_t start, end; pattern_next(&matches, &start, &end);) {
        int length = snprintf(word, sizeof word, "%s%zu,%zu", found.n ? " " : "", start, end);
        text_append(&found, word, (size_t)length);
    }
    free(states);
    free(exact);
    text_append(&found, "", 1);
    return found;
}

/* Appends the pieces of text[from, to), cut by the patterns. */
static void cut(Pattern *const *patterns, const char *text, size_t from, size_t to, TextBuffer *pieces) {
    if (from == to) return;
    if (!*patterns) {
        char word[64];
        int length = snprintf(word, sizeof word, "%s%zu,%zu", pieces->n ? " " : "", from, to);
        text_append(pieces, word, (size_t)length);
        return;
    }
    uint16_t *states = malloc((to - from) * sizeof *states);
    Matches matches = pattern_begin(*patterns, text + from, to - from, states);
    size_t done = from;
    for (size_t start, end; pattern_next(&matches, &start, &end); done = from + end) {
        cut(patterns + 1, text, done, from + start, pieces);
        cut(patterns + 1, text, from + start, from + end, pieces);
    }
    cut(patterns + 1, text, done, to, pieces);
    free(states);
}

static void close_all(Pattern **patterns) {
    for (; *patterns; patterns++) {
        pattern_free(*patterns);
        *patterns = NULL;
    }
}

/* Opens the patterns of a pre, which must be the published ones, in hexadecimal. */
static void open_pre(char *line, Pattern **patterns) {
    char *name = strtok(line, " "), *end;
    const Pretokenizer *pre = pretokenizer_find(string_from(name));
    CHECK(pre, "%s is not known", name);
    for (size_t i = 0; pre && i < MAX_PATTERNS && pre->patterns[i]; i++) {
        char *hex = strtok(NULL, " "), *expression = malloc(hex ? strlen(hex) : 1);
        size_t n = hex ? parse_hex(hex, expression, &end) : 0;
        CHECK(n == strlen(pre->patterns[i]) && memcmp(expression, pre->patterns[i], n) == 0,
              "%s: pattern %zu", name, i);
        patterns[i] = compile(pre->patterns[i], strlen(pre->patterns[i]));
        free(expression);
    }
    CHECK(!strtok(NULL, " "), "%s has too few patterns", name);
}

static void test_cases(void) {
    size_t n, n_texts = 0, n_pres = 0;
    char *data = read_whole("tests/data/tokenizer/patterns.cases", &n);
    Pattern *patterns[MAX_PATTERNS + 1] = {NULL};
    bool is_pre = false;
    for (char *line = data, *next; line && *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = '\0';
        char *bytes = malloc(strlen(line)), *at;
        if (strncmp(line, "text ", 5) == 0) {
            size_t n_bytes = parse_hex(line + 5, bytes, &at);
            const char *expected = strchr(line, ':') + 1;
            TextBuffer got = {0};
            if (is_pre) {
                cut(patterns, bytes, 0, n_bytes, &got);
                text_append(&got, "", 1);
            } else if (*patterns) {
                got = find_all(*patterns, bytes, n_bytes);
            }
            CHECK(got.data && strcmp(got.data, expected + (*expected == ' ')) == 0, "%s; got %s", line,
                  got.data);
            free(got.data);
            n_texts++;
        } else {
            close_all(patterns);
            is_pre = strncmp(line, "pre ", 4) == 0;
            n_pres += is_pre;
            if (is_pre)
                open_pre(line + 4, patterns);
            else
                *patterns = compile(bytes, parse_hex(line + 8, bytes, &at));
        }
        free(bytes);
    }
    CHECK(n_texts > 900 && n_pres > 15, "%zu texts, %zu pres", n_texts, n_pres);
    close_all(patterns);
    free(data);
}

/* Every pattern of the table compiles. */
static void test_pres(void) {
    static const char *const names[] = {"default", "laguna",    "ufakzeka", "minicpm5",
                                        "youtu",   "chameleon", "tiny_aya", "lfm2",
                                        "megrez",  "llama4",    "spark2_5", "command-r"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const Pretokenizer *pre = pretokenizer_find(string_from(names[i]));
        CHECK(pre, "%s", names[i]);
        for (size_t k = 0; pre && k < MAX_PATTERNS && pre->patterns[k]; k++)
            pattern_free(compile(pre->patterns[k], strlen(pre->patterns[k])));
    }
    CHECK(!pretokenizer_find((String){"gpt", 3}) && !pretokenizer_find((String){"gpt-2 ", 6}) &&
              !pretokenizer_find((String){"", 0}),
          "no names");
}

static void fnv1a(uint64_t *hash, unsigned value) { *hash = (*hash ^ value) * 0x100000001b3u; }

/* FNV-1a over the indices of all code points, as scripts/tables/unicode.py prints it. */
static void test_categories(void) {
    static const char *const categories = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";
    static const char *const scripts[] = {"Arabic", "Cyrillic", "Devanagari", "Greek",    "Han",
                                          "Hangul", "Hebrew",   "Hiragana",   "Katakana", "Khmer",
                                          "Lao",    "Latin",    "Myanmar",    "Thai"};
    unsigned char *category = calloc(0x110000, 1), *script = calloc(0x110000, 1);
    Property property;
    uint32_t first, last;
    for (unsigned i = 0; i < 30; i++)
        for (size_t at = property_find(categories + 2 * (size_t)i, 2, &property) ? 0 : SIZE_MAX;
             property_next(property, &at, &first, &last);)
            memset(category + first, (int)i, last - first + 1);
    for (unsigned i = 0; i < 14; i++)
        for (size_t at = property_find(scripts[i], strlen(scripts[i]), &property) ? 0 : SIZE_MAX;
             property_next(property, &at, &first, &last);)
            memset(script + first, (int)i + 1, last - first + 1);
    uint64_t hashes[2] = {0xcbf29ce484222325u, 0xcbf29ce484222325u};
    for (uint32_t c = 0; c < 0x110000; c++) fnv1a(&hashes[0], category[c]), fnv1a(&hashes[1], script[c]);
    CHECK(hashes[0] == 0xacf70e64b1071b66u, "0x%016llx", (unsigned long long)hashes[0]);
    CHECK(hashes[1] == 0x838f9baf7a9e8176u, "0x%016llx", (unsigned long long)hashes[1]);
    CHECK(property_find("L", 1, &property) && property_holds(property, 0x10ffff) == false, "beyond letters");
    for (uint32_t c = 0; c < 0x3000; c++)
        CHECK(property_holds(property, c) == (category[c] < 5), "U+%04X", c);
    CHECK(!property_holds(property, 0x110000), "no code point");
    CHECK(!property_find("Lx", 2, &property) && !property_find("", 0, &property) &&
              !property_find("Script=", 7, &property) && !property_find("Klingon", 7, &property),
          "no properties");
    free(category);
    free(script);
}

static void check_found(const char *expression, const char *text, size_t n, const char *expected) {
    Pattern *pattern = compile(expression, strlen(expression));
    if (!pattern) return;
    TextBuffer got = find_all(pattern, text, n);
    CHECK(strcmp(got.data, expected) == 0, "%s: %s, expected %s", expression, got.data, expected);
    free(got.data);
    pattern_free(pattern);
}

/* A byte that is no character is one by itself, and of no class but the negated ones. */
static void test_bytes(void) {
    static const char text[] = "a\xff\xe2\x82 \xc3\xa9\x80\xf0\x9f\x98"; /* é among pieces */
    check_found("[^a]", text, sizeof text - 1, "1,2 2,3 3,4 4,5 5,7 7,8 8,9 9,10 10,11");
    check_found("\\S+", text, sizeof text - 1, "0,4 5,11");
    check_found("\\p{L}", text, sizeof text - 1, "0,1 5,7");
    check_found("\\P{L}+", text, sizeof text - 1, "1,5 7,11");
    check_found(".$", text, sizeof text - 1, "10,11");
    check_found("\\p{Any}", text, sizeof text - 1, "0,1 4,5 5,7");
    check_found("(?<=[^a])\\W", text, sizeof text - 1, "2,3 3,4 4,5 7,8 8,9 9,10 10,11");
}

/* Characters that look like a quantifier and are none, groups of nothing, sets that are empty or long. */
static void test_odd(void) {
    static const char *const cases[][3] = {
        {"a{5", "aa{5", "1,4"},
        {"a{,5}", "a{,5}", "0,5"},
        {"a{/}", "a{/}", "0,4"},
        {"a{x}", "a{x}", "0,4"},
        {"a{2}+", "aaaaa", "0,2 2,4"},
        {"a{1,2}+", "aaaaa", "0,2 2,4 4,5"},
        {"(?i:a(?-i:b))", "AB Ab", "3,5"},
        {"(?i:\\p{L})", "a1", "0,1"},
        {"(?i:\\p{N})", "a1", "1,2"},
        {"(?i:[^b])", "aBb", "0,1"},
        {"[a&&b]|c", "abc", "2,3"},
        {"[a&&b]|[c&&d]|e", "abe", "2,3"},
        {"[a-]", "a-b", "0,1 1,2"},
        {"[]a]", "]b", "0,1"},
        {"\\x{41}\\x42\\u0043\\u{44}", "ABCD", "0,4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_found(cases[i][0], cases[i][1], strlen(cases[i][1]), cases[i][2]);
    char expression[8192] = "[";
    for (size_t i = 1; i < 8190; i++) expression[i] = i % 2 ? 'a' : 'c';
    expression[8190] = ']';
    check_found(expression, "abc", 3, "0,1 2,3");
    /* nine sets, by the bits of a character: each of 512 is a class of its own */
    size_t n = 0;
    for (unsigned bit = 0; bit < 9; bit++) {
        expression[n++] = '[';
        for (unsigned c = 0; c < 512; c++) {
            if (!(c >> bit & 1)) continue;
            expression[n++] = (char)0xe4, expression[n++] = (char)(0xb8 | c >> 6),
            expression[n++] = (char)(0x80 | (c & 63));
        }
        expression[n++] = ']';
    }
    Error error = {{0}};
    CHECK(!pattern_new((String){expression, n}, &error) && strstr(error.message, "more than 255 classes"),
          "%zu: %s", n, error.message);
    /* eight of them again, without five letters, in a chain: 2^12 states of 253 classes, twice since it looks behind */
    error.message[0] = '\0';
    n = (size_t)sprintf(expression, "(?<=x)");
    for (unsigned bit = 12; bit-- > 0;) {
        n += (size_t)sprintf(expression + n, bit < 8 ? "[" : "\\p{Any}");
        for (unsigned c = 0; bit < 8 && c < 256; c++) {
            if ((c < 17 && !(c & (c - 1))) || !(c >> bit & 1)) continue;
            expression[n++] = (char)0xe4, expression[n++] = (char)(0xb8 | c >> 6),
            expression[n++] = (char)(0x80 | (c & 63));
        }
        if (bit < 8) expression[n++] = ']';
    }
    CHECK(!pattern_new((String){expression, n}, &error) && strstr(error.message, "too many states"), "%s",
          error.message);
}

static void test_refusals(void) {
    static const char *const refused[][2] = {
        {"+a", "a quantifier of nothing"},
        {"?a", "a quantifier of nothing"},
        {"a{1,1001}", "out of range"},
        {"a{99999999999}", "out of range"},
        {"()++", "a possessive quantifier"},
        {"(?<=)", "a lookbehind"},
        {"\\x{41", "not a code point"},
        {"\\x{ }", "not a code point"},
        {"\\x{:}", "not a code point"},
        {"\\x{g}", "not a code point"},
        {"[a-", "a [ without its ]"},
        {"(?i:\\p{Han})", "tells cases apart"},
        {"(?i:[\xc3\xa9])", "letters beyond ASCII"},
        {"\\\xc3\xa9", "an escape that is not supported"},
        {"(", "a ( without its )"},
        {"a)", "a ) without its ("},
        {"[a", "a [ without its ]"},
        {"[^]", "without its ]"},
        {"a**", "a quantifier after a quantifier"},
        {"*a", "a quantifier of nothing"},
        {"a{2,1}", "out of range"},
        {"a{1001}", "out of range"},
        {"((a{1000}){1000}){1000}", "too large"},
        {"((){1000}){1000}", "too large"},
        {"(?<n>a)", "a group of a kind"},
        {"(?>a)", "a group of a kind"},
        {"(a)\\1", "an escape that is not supported"},
        {"\\", "an escape"},
        {"\\p{Foo}", "a property that is not known"},
        {"\\p{L", "a property that is not known"},
        {"(?i:\xc3\xa9)", "letters beyond ASCII"},
        {"(?i:\\p{Lu})", "tells cases apart"},
        {"(?<=ab)", "a lookbehind"},
        {"(ab)++", "a possessive quantifier"},
        {"\\x{110000}", "not a code point"},
        {"[[:alpha:]]", "a POSIX class"},
        {"[z-a]", "not a range"},
        {"[a-\\d]", "not a range"},
        {"\xff", "no UTF-8"},
        {".{20}a", "too many states"},
        {".{16}a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s|t|u",
         "too many states"},                         /* too much work for the states' rows */
        {"a{1000}a{1000}", "too many states"},       /* too many targets of too many states */
        {"a{700}a{700}|b|c|d|e", "too many states"}, /* too much work for these */
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Error error = {{0}};
        Pattern *pattern = pattern_new(string_from(refused[i][0]), &error);
        CHECK(!pattern && strstr(error.message, refused[i][1]), "%s: '%s'", refused[i][0], error.message);
        pattern_free(pattern);
    }
    char deep[201];
    Error error = {{0}};
    memset(deep, '(', 100), memset(deep + 100, ')', 100), deep[200] = '\0';
    CHECK(!pattern_new((String){deep, 200}, &error) && strstr(error.message, "one within the other"), "%s",
          error.message);
    memset(deep, '[', 100), memset(deep + 100, ']', 100);
    CHECK(!pattern_new((String){deep, 200}, &error) && strstr(error.message, "one within the other"), "%s",
          error.message);
    char *longer = calloc(9000, 1);
    memset(longer, 'a', 9000);
    CHECK(!pattern_new((String){longer, 9000}, &error) && strstr(error.message, "longer than"), "%s",
          error.message);
    for (int i = 0; i < 600; i += 2) longer[i] = (char)0xc4, longer[i + 1] = (char)(0x80 | (i / 2 & 63));
    for (int i = 128; i < 600; i += 2) longer[i] = (char)(0xc4 + i / 128);
    CHECK(!pattern_new((String){longer, 600}, &error) && strstr(error.message, "256 sets"), "%s",
          error.message);
    free(longer);
}

/* Backtracking takes quadratic time or worse here; this hangs if we do. */
static void test_long_texts(void) {
    enum { N = 1 << 20 };
    static const struct {
        const char *expression, *unit, *end;
        size_t n_matches;
    } cases[] = {
        {"a*b|a", "a", "", N},
        {"(?:a*)*b", "a", "", 0},
        {"\\s+$", " ", "x", 0},
        {"\\d{1,3}(?=(?:\\d{3})*\\b)", "1", "", (N + 2) / 3},
        {"(?=(\\d{3})+(?!\\d))", "7", "", N / 3},
        {"(?:a|aa)+$", "a", "b", 0},
        {"a(?=[ab]*c)", "ab", "", 0},
        {"(?<=b)a", "ba", "", N / 2},
        {"\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", "\t", "x", 2},
        {"\\p{Han}+|\\p{L}", "\xe6\xb0\xb4", "", 1},
    };
    char *text = malloc(N);
    uint16_t *states = malloc(N * sizeof *states);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n_unit = strlen(cases[i].unit), n = N - N % n_unit, n_matches = 0, start, end;
        for (size_t k = 0; k < n; k++) text[k] = cases[i].unit[k % n_unit];
        if (*cases[i].end) text[n - 1] = *cases[i].end;
        Pattern *pattern = compile(cases[i].expression, strlen(cases[i].expression));
        if (!pattern) continue;
        Matches matches = pattern_begin(pattern, text, n, states);
        while (pattern_next(&matches, &start, &end)) n_matches++;
        CHECK(n_matches == cases[i].n_matches, "%s: %zu", cases[i].expression, n_matches);
        pattern_free(pattern);
    }
    free(states);
    free(text);
}

int main(void) {
    RUN(test_categories);
    RUN(test_cases);
    RUN(test_pres);
    RUN(test_bytes);
    RUN(test_odd);
    RUN(test_refusals);
    RUN(test_long_texts);
    return test_end();
}
