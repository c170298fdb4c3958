/*
 * Templates: what Python's jinja2 and npm's @huggingface/jinja give (scripts/expect/template_cases.py, which made
 * tests/data/templates), what is refused and how it is said, and programs that would never end.
 */
#include "bad.h"
#include "cli/input.h"
#include "jinja/template.h"
#include "page/sha256.h"
#include "test.h"

#include <locale.h>
#include <pthread.h>
#include <time.h>

enum { NOW = 1721894400 };

/* The context of most tests. */
static Json *context;

static Json *read_json(const char *path) {
    Error error = {{0}};
    TextBuffer text = {0};
    Json *json = read_text(path, 1 << 20, &text, &error) ? json_take(text.data, text.n, &error) : NULL;
    CHECK(json != NULL, "%s: %s", path, error.message);
    return json;
}

/* Gives what a template makes of a context, with a NUL behind it, or NULL with an error. The caller frees it. */
static char *render(String source, const Json *with, size_t *n, Error *error) {
    TextBuffer out = {0};
    Template *template = template_parse(source, error);
    bool ok = template && template_render(template, with, NOW, &out, NULL, error);
    *n = out.n;
    CHECK(ok || out.n == 0, "an error leaves text behind");
    ok = ok && text_append(&out, "", 1);
    template_free(template);
    if (!ok) free(out.data);
    return ok ? out.data : NULL;
}

static void test_cases(void) {
    Json *cases = read_json("tests/data/templates/cases.json");
    if (!cases) return;
    CHECK(cases->n > 600, "%u cases", cases->n);
    for (size_t i = 1; i < cases->n; i++) {
        const Json *want = json_item(json_item(cases, i), 1);
        String source = json_string(json_item(json_item(cases, i), 0));
        Error error = {{0}};
        size_t n = 0;
        char *got = render(source, json_item(cases, 0), &n, &error);
        if (want->kind == JSON_NULL)
            CHECK(!got && error.message[0], "%.*s: no error, but %s", (int)source.n, source.data, got);
        else
            CHECK(got && n == want->n && memcmp(got, want->text, n) == 0, "%.*s:\n%s\n, not\n%.*s",
                  (int)source.n, source.data, got ? got : error.message, (int)want->n, want->text);
        free(got);
    }
    json_free(cases);
}

/* '…'.format(value), as Python has it (scripts/expect/format_cases.py). */
static void test_formats(void) {
    static const char source[] = "{{ c[0].format(c[1]) }}";
    Json *cases = read_json("tests/data/templates/formats.json");
    if (!cases) return;
    CHECK(cases->n > 1000, "%u cases", cases->n);
    for (size_t i = 0; i < cases->n; i++) {
        const Json *row = json_item(cases, i), *want = json_item(row, 2);
        const Json members[] = {{.kind = JSON_TEXT, .n = 1, .text = "c"}, *row};
        const Json with = {.kind = JSON_OBJECT, .n = 1, .items = members};
        String form = json_string(json_item(row, 0));
        Error error = {{0}};
        size_t n = 0;
        char *got = render((String){source, sizeof source - 1}, &with, &n, &error);
        if (want->kind == JSON_NULL)
            CHECK(!got, "case %zu, '%.*s': no error, but %s", i, (int)form.n, form.data, got);
        else
            CHECK(got && n == want->n && memcmp(got, want->text, n) == 0,
                  "case %zu, '%.*s': '%s', not '%.*s'", i, (int)form.n, form.data, got ? got : error.message,
                  (int)want->n, want->text);
        free(got);
    }
    json_free(cases);
}

/* Whether these are the first 16 digits of the text's SHA-256. */
static bool has_digest(const char *text, size_t n, String digits) {
    unsigned char digest[SHA256_BYTES];
    char hex[17];
    sha256(digest, text, n);
    for (int i = 0; i < 8; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return string_equals(digits, hex);
}

/* The chat templates that llama.cpp keeps, on fifteen conversations each. */
static void test_oracle(void) {
    const char *given = getenv("ORACLE"), *home = getenv("HOME");
    char path[4096];
    int known = 0;
    Json *rows = read_json("tests/data/templates/oracle.json");
    Json *conversations = read_json("tests/data/templates/conversations.json");
    for (size_t i = 0; rows && conversations && i < rows->n; i++) {
        String name = json_key(rows, i);
        const Json *row = json_item(rows, i);
        snprintf(path, sizeof path, "%s%s/source/models/templates/%.*s",
                 given  ? given
                 : home ? home
                        : ".",
                 given ? "" : "/oracle", (int)name.n, name.data);
        TextBuffer source = {0};
        bool same = read_text(path, 1 << 20, &source, NULL) &&
                    has_digest(source.data, source.n, json_string(json_item(row, 0)));
        known += same;
        for (size_t j = 0; same && j < conversations->n; j++) {
            const Json *want = json_item(row, j + 1);
            Error error = {{0}};
            size_t n = 0;
            char *got = render((String){source.data, source.n}, json_item(conversations, j), &n, &error);
            if (want->kind == JSON_NULL)
                CHECK(!got, "%.*s, conversation %zu: no error", (int)name.n, name.data, j);
            else
                CHECK(got && has_digest(got, n, json_string(want)), "%.*s, conversation %zu: %s", (int)name.n,
                      name.data, j, got ? "another text" : error.message);
            free(got);
        }
        free(source.data);
    }
    json_free(rows);
    json_free(conversations);
    if (!known) SKIP("no chat templates of ../shared/oracle");
}

#define TEN_X "xxxxxxxxxx"
#define HUNDRED_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X
#define LONG "the chat template says: " HUNDRED_X HUNDRED_X HUNDRED_X HUNDRED_X

/* A wrong template is told: where, and in one line that a terminal may be given. */
static void test_errors(void) {
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"a\nb {{ x.y }}", "the chat template, line 2: 'x' is undefined"},
        {"{% set a = {} %}\n\n{{ a.b.c }}", "the chat template, line 3: a dict has no 'b'"},
        {"{% for i in [1] %}\n{{ 1 + 'x' }}\n{% endfor %}",
         "the chat template, line 2: '+' is not for an int and a str"},
        {"{% macro m() %}\n\n{{ 1 // 0 }}{% endmacro %}{{ m() }}",
         "the chat template, line 3: a division by zero"},
        {"\n{% if true %}", "the chat template, line 2: the template ends before elif else endif"},
        {"{% if true %}{% endfor %}", "the chat template, line 1: 'endfor' is no statement known here"},
        {"{% include 'x' %}", "the chat template, line 1: 'include' is no statement known here"},
        {"{{ 1", "the chat template, line 1: a tag has no end"},
        {"{{ 'a }}", "the chat template, line 1: a string has no end"},
        {"{{ \"\\xZZ\" }}", "the chat template, line 1: a string has an escape that is none"},
        {"{{ 1 ? 2 }}", "the chat template, line 1: a character that means nothing here"},
        {"{{ (1 }}", "the chat template, line 1: ')' is missing"},
        {"{{ 1) }}", "the chat template, line 1: a bracket closes that was not opened"},
        {"{{ l|batch('2') }}", "the chat template, line 1: a batch has an integer of items, not a str"},
        {"{{ [1, 2 }}", "the chat template, line 1: ']' is missing"},
        {"{{ f(a=1, 2) }}", "the chat template, line 1: an argument comes behind one that should follow it"},
        {"{{ 99999999999999999999 }}", "the chat template, line 1: a number is too large"},
        {"{{ 'x'|nope }}", "the chat template, line 1: no filter is named 'nope'"},
        {"{{ 1 is nope }}", "the chat template, line 1: no test is named 'nope'"},
        {"{{ 'x'.replace('a') }}", "the chat template, line 1: replace lacks 'new'"},
        {"{{ [1]|join(e=2) }}", "the chat template, line 1: join has no argument 'e'"},
        {"{{ [1]|join(d=',', e=2) }}", "the chat template, line 1: join has no argument 'e'"},
        {"{{ 'x'.upper(1) }}", "the chat template, line 1: upper takes 0 arguments, not 1"},
        {"{% macro m(a) %}{% endmacro %}{{ m(b=1) }}",
         "the chat template, line 1: macro 'm' has no argument 'b'"},
        {"{% break %}", "the chat template, line 1: a break or continue is in no loop"},
        {"{% set a, b = [1] %}", "the chat template, line 1: 1 values do not go into 2 names"},
        {"{% set none = 1 %}", "the chat template, line 1: 'none' cannot be another value's name"},
        {"{% for loop in l %}", "the chat template, line 1: 'loop' is set in a loop"},
        {"{% macro m(a=1, b) %}", "the chat template, line 1: a default is missing"},
        {"{{ 1 is odd is true }}", "the chat template, line 1: a test follows a test"},
        {"{{ dict(a=1, a=2) }}", "the chat template, line 1: the argument 'a' is given twice"},
        {"{{ l|5 }}", "the chat template, line 1: a name is missing"},
        {"{% macro 5() %}{% endmacro %}", "the chat template, line 1: a name is missing"},
        {"{{ x < y }}", "the chat template, line 1: 'x' is undefined"},
        {"{{ 1 < y }}", "the chat template, line 1: 'y' is undefined"},
        {"{{ 9 ** 99 }}", "the chat template, line 1: an integer is too large"},
        {"{{ 'a'.upper }}", "the chat template, line 1: a method has no text"},
        {"{{ [range]|tojson }}", "the chat template, line 1: a function is no JSON"},
        {"{{ [1]|tojson(separators='ab') }}", "the chat template, line 1: separators are two strings"},
        {"{{ {(1,): 2} }}", "the chat template, line 1: a tuple cannot be a key"},
        {"{{ 'a b'.rsplit(none, 1) }}", "the chat template, line 1: rsplit needs a separator"},
        {"{{ '{0[0]}'.format([5]) }}", "the chat template, line 1: a format with '[' is not known here"},
        {"{{ '{:{}}'.format('a', 5) }}",
         "the chat template, line 1: a format within a format is not known here"},
        {"{{ [1]|map(attribute=1.5)|list }}", "the chat template, line 1: a float is no attribute"},
        {"{{ (-9223372036854775807 - 1)|abs }}", "the chat template, line 1: an integer is too large"},
        {"{{ 'a'|abs }}", "the chat template, line 1: a str has no absolute value"},
        {"{{ 1.5|round(301) }}", "the chat template, line 1: a float cannot be rounded"},
        {"{{ 9000000000000000000|round(-19) }}",
         "the chat template, line 1: a number is too large to be rounded"},
        {"{{ 1.5|round(-301) }}", "the chat template, line 1: a float cannot be rounded"},
        {"{{ [9223372036854775807, 1]|sum }}", "the chat template, line 1: an integer is too large"},
        {"{{ '{:.301f}'.format(1.5) }}",
         "the chat template, line 1: a format of a float has a precision or ',' that is not known here"},
        {"{{ [1]|tojson(indent=65) }}",
         "the chat template, line 1: JSON is indented by a text, or up to 64 blanks"},
        {"{{ 1111111111111111111111111111111111111111111111111111111111111111 }}",
         "the chat template, line 1: a number has too many digits"},
        {"{{ 0b2 }}", "the chat template, line 1: a number has a digit that its base has not"},
        {"{{ raise_exception('x' * 500) }}", LONG},
        {"{{ '{" HUNDRED_X "}'.format() }}",
         "the chat template, line 1: a format names 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', "
         "which is not given"},
        {"{{ '{:02000,}'.format(5) }}", "the chat template, line 1: a format has too large a number"},
        {"{{ '{:9999999999}'.format('a') }}", "the chat template, line 1: a format has too large a number"},
        {"{{ '{:.16777216}'.format('a') }}", "the chat template, line 1: a format has too large a number"},
        {"{{ '%.301f' % 4 }}", "the chat template, line 1: a format has too large a number"},
        {"{{ '%16777216s' % 4 }}", "the chat template, line 1: a format has too large a number"},
        {"{{ '%x' % 1.5 }}", "the chat template, line 1: a format wants an integer, not a float"},
        {"{{ '%d' % n }}", "the chat template, line 1: a format wants a number, not an undefined value"},
        {"{{ '%#d' % 4 }}", "the chat template, line 1: a format has a '%' that is not known here"},
        {"{% for i in l %}{{ loop([1]) }}{% endfor %}",
         "the chat template, line 1: a loop that is not 'recursive' cannot be called"},
        {"{% for i in l recursive %}{{ loop() }}{% endfor %}",
         "the chat template, line 1: a loop is called with one value to go through"},
        {"{{ raise_exception('Roles must\\nalternate \\x1b[31m!') }}",
         "the chat template says: Roles must\\nalternate \\u001b[31m!"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        size_t n;
        char *got = render(string_from(cases[i].source), context, &n, &error);
        CHECK(!got && strcmp(error.message, cases[i].message) == 0, "%s: %s", cases[i].source,
              got ? got : error.message);
        free(got);
    }
}

/* Programs that would go on for long, or want all memory, end with an error of these words. */
static void test_bounds(void) {
    static const struct {
        const char *source, *words;
    } cases[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "memory"},
        {"{% for i in range(10000000000) %}{% endfor %}", "memory"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too much within each other"},
        {"{% for i in l recursive %}{{ loop(l) }}{% endfor %}", "too much within each other"},
        {"{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
         "of memory"},
        {"{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}",
         "too much within each other"},
        {"{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l|tojson }}",
         "too much within each other"},
        {"{% set n = namespace(l=[], m=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% set n.m = [n.m] %}"
         "{% endfor %}{{ n.l == n.m }}",
         "too much within each other"},
        {"{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
         "too long"},
        {"{% set l = [1] %}{% set _ = l.append(l) %}{{ l }}", "too much within each other"},
        {"{{ 'x' * 1000000000 * 1000000000 }}", "too long"},
        {"{% set n = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
         "of memory"},
        {"{% set n = namespace(s='aaaaaaaaaa') %}{% for i in range(9) %}{% set n.s = n.s|replace('a', n.s) %}"
         "{% endfor %}",
         "text"},
        {"{% set n = namespace(s='a') %}{% for i in range(99999) %}{% set n.s = n.s ~ 'aaaaaaaaaaaaaaaa' %}"
         "{% endfor %}",
         "of memory"},
        {"{{ 'a'.center(9000000000000000000) }}", "too long"},
        {"{{ ('\xc3\xa9' * 2000000)|upper|length }}", "too long"},
        {"{{ l|batch(9223372036854775807, 0)|list }}", "of memory"},
        {"{{ 'a\\nb'|indent(9000000000000000000, true) }}", "too long"},
        {"{% set s = 'a' * 500000 %}{% for i in range(99999) %}{{ 'b' in s }}{% endfor %}", "too long"},
        {"{% set s = 'a' * 500000 %}{% for i in range(99999) %}{{ s.split('a')|length }}{% endfor %}", "t"},
        {"{{ ('a' * 4000000)|list|length }}", "of memory"},
        {"{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set _ = n.l.append([i, i]) %}{% endfor %}"
         "{% set d = dict(n.l) %}{% for i in range(99999) %}{% for k in d %}{% break %}{% endfor %}{% endfor %}",
         "of memory"},
        {"{% set l = range(999999)|list %}{% for i in range(99) %}{% set m = l + [1] %}{% endfor %}",
         "of memory"},
        {"{% set l = range(999999)|list %}{% for i in range(99) %}{% set m = [1] + l %}{% endfor %}",
         "of memory"},
        {"{% set s = 'ab' * 5000 %}{% for i in range(99999) %}{{ s[5000] }}{% endfor %}", "too long"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        size_t n;
        char *got = render(string_from(cases[i].source), context, &n, &error);
        CHECK(!got && strstr(error.message, cases[i].words), "%s: %s", cases[i].source,
              got ? "no error" : error.message);
        free(got);
    }
}

/*
 * Work on texts counts the bytes that it looks at: 60 times 8 MB are more than a rendering may see, whatever the work
 * is. Each of these took a minute, or some, that way, or more. And recursion ends as such.
 */
static void test_bombs(void) {
    static const char *const works[] = {"s.count('b')",
                                        "s.count('')",
                                        "s.rfind('a')",
                                        "s.find(t)",
                                        "s.split(t)|length",
                                        "s.replace('b', 'c')|length",
                                        "t in s",
                                        "s < r",
                                        "s <= r",
                                        "[s, r]|sort|length",
                                        "[s, r]|min|length",
                                        "[s, r]|max|length",
                                        "w.strip()",
                                        "w|trim('\\n ')",
                                        "w|int",
                                        "w|float",
                                        "s|wordcount",
                                        "q|tojson|length",
                                        "s[-1]",
                                        "[{}]|map(attribute=s)|list|length"};
    static const char *const others[] = {
        "{% set l = [] %}{% set _ = l.append(l) %}{{ l|map(*['map'] * 200000)|list|length }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}{{ l == k }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}{{ l < k }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}{{ [l, k]|sort }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{{ l in l }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}",
        "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
    };
    char source[1024];
    for (size_t i = 0; i < sizeof works / sizeof *works + sizeof others / sizeof *others; i++) {
        bool is_work = i < sizeof works / sizeof *works;
        const char *what = is_work ? works[i] : others[i - sizeof works / sizeof *works];
        if (is_work)
            snprintf(
                source, sizeof source,
                "{%% set a = 'a' * 1000 %%}{%% set w = (' ' * 1000) * %d %%}{%% set s = a * %d %%}{%% set r = s[1:] ~ 'a' %%}"
                "{%% set t = a * 4000 ~ 'b' %%}{%% set q = '\"\"' * 100000 %%}{%% for i in range(60) %%}"
                "{%% set x = %s %%}{%% endfor %%}",
                strchr(what, 'w') ? 8000 : 1, strchr(what, 's') ? 8000 : 1, what);
        Error error = {{0}};
        size_t n;
        clock_t start = clock();
        String text = string_from(is_work ? source : what);
        char *got = render(text, context, &n, &error);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC; /* of this process alone */
        CHECK(!got && strstr(error.message, is_work ? "it takes " : "too much within each other"), "%s: %s",
              what, got ? "no error" : error.message);
        CHECK(seconds < 10, "%s: %.1f s", what, seconds); /* sanitizers are slow */
        free(got);
    }
}

/* Lists stand in the order of their first items that differ, else the shorter one first, as Python has them. */
static void test_order_of_lists(void) {
    static const char source[] =
        "{{ [1, 2] < [1, 3] }} {{ [2] < [1, 9] }} {{ [1, 2] < [1, 2, 0] }} {{ [1, [2, 9]] > [1, [2, 4]] }} "
        "{{ (1, 2) >= (1, 3) }} {{ [] < [0] }} {{ [[2], [1, 5], [1]]|sort }} {{ [[1, 2], [3, 0], [3]]|max }}";
    static const char want[] = "True False True True False True [[1], [1, 5], [2]] [3, 0]";
    Error error = {{0}};
    size_t n = 0;
    char *got = render((String){source, sizeof source - 1}, context, &n, &error);
    CHECK(got && strcmp(got, want) == 0, "%s", got ? got : error.message);
    free(got);
}

/* No template of Python's could hold these: bytes that are no UTF-8 stay as they are, a lone surrogate becomes U+FFFD, NUL is text. */
static void test_odd_bytes(void) {
    static const char source[] = "\0\xff{{ '\xff\\ud800'|tojson(ensure_ascii=true) }}{{ ['\xe2\x82'] }}"
                                 "{{ '\x80\x80\x80\x80\x80 '.strip() }}",
                      want[] = "\0\xff\"\xff\\ufffd\"['\xe2\x82']\x80\x80\x80\x80\x80";
    Error error = {{0}};
    size_t n = 0;
    char *got = render((String){source, sizeof source - 1}, context, &n, &error);
    CHECK(got && n == sizeof want - 1 && memcmp(got, want, n) == 0, "%zu: %s", n, got ? got : error.message);
    free(got);
    got = render((String){"{{ \0 }}", 7}, context, &n, &error);
    CHECK(!got &&
              strcmp(error.message, "the chat template, line 1: a character that means nothing here") == 0,
          "%s", error.message);
    free(got);
}

/* As Python has it: what is no integer of the base may still be a decimal number, and a dict's members are no attributes. */
static void test_odd_numbers(void) {
    static const char source[] =
        "{{ ' 1_000 '|int(7, 8), '42.75'|int(7, 16), ' -1f '|int(7, 16), '1e3'|int(7, 16), '12'|int(7, 2), 'q'|int(7, 8), "
        "(-9223372036854775807 - 1.0)|int(7), {'a': 1}|attr('a') is defined }}";
    static const char want[] = "(512, 42, -31, 483, 12, 7, -9223372036854775808, False)";
    Error error = {{0}};
    size_t n = 0;
    char *got = render((String){source, sizeof source - 1}, context, &n, &error);
    CHECK(got && strcmp(got, want) == 0, "%s", got ? got : error.message);
    free(got);
}

/* Integers have 64 bits here, where Python's have no end: what is beyond is as good as no number. */
static void test_large_numbers(void) {
    static const char source[] =
        "{{ '1e19'|int(7) }} {{ 1e19|int(5) }} {{ -1e19|int(6) }} {{ 1e18|int(4) }} "
        "{{ '99999999999999999999'|int(3) }} {{ '1' * 65|int(8, 2) }} {{ ('1' * 65)|int(8, 2) }} {{ ('1' * 80)|int(9, 2) }} "
        "{{ '%d %d' % (1e19, -1e19) }}";
    static const char want[] =
        "7 5 6 1000000000000000000 3 11111111111111111111111111111111111111111111111111111111111111111 8 9 10000000000000000000 -10000000000000000000";
    Error error = {{0}};
    size_t n = 0;
    char *got = render((String){source, sizeof source - 1}, context, &n, &error);
    CHECK(got && strcmp(got, want) == 0, "%s", got ? got : error.message);
    free(got);
}

/* n times a text, then others, as one source. */
static void check_nested(const char *each, size_t n, const char *end, const char *words) {
    TextBuffer source = {0};
    Error error = {{0}};
    size_t n_out;
    for (size_t i = 0; i < n; i++) text_append(&source, each, strlen(each));
    text_append(&source, end, strlen(end));
    char *got = render((String){source.data, source.n}, context, &n_out, &error);
    CHECK(words ? !got && strstr(error.message, words) : got != NULL, "%s × %zu: %s", each, n,
          got ? "no error" : error.message);
    free(got);
    free(source.data);
}

/* The deepest calls on the stack that whoever embeds the engine must have (attn.h), of a source that is not worth it. */
static void *render_deep(void *source) {
    size_t n;
    Error error = {{0}};
    free(render(string_from(source), context, &n, &error));
    CHECK(strstr(error.message, "too much within each other"), "%s: %s", (char *)source, error.message);
    return NULL;
}

static void test_stack(void) {
    if (ADDRESS_SANITIZER) SKIP("a sanitizer takes more of the stack");
    static char *const deep[] = {
        "{% macro f(n, a=f(1)) %}{% endmacro %}{{ f('a') }}",
        "{% macro f(n) %}{{ f(f(f(n))) }}{% endmacro %}{{ f(1) }}",
        "{% macro f() %}{% call f() %}{{ f() }}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}",
    };
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        pthread_t thread;
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 512 << 10);
        CHECK(pthread_create(&thread, &small, render_deep, deep[i]) == 0, "no thread");
        pthread_join(thread, NULL);
        pthread_attr_destroy(&small);
    }
}

static void test_nesting(void) {
    static const char deep[] = "too much within each other";
    check_nested("{{ ((((((((((1)))))))))) }}", 1000, "", NULL);
    check_nested("{% if true %}", 20000, "", deep);
    check_nested("{% for i in x %}", 15000, "", deep);
    check_nested("{% macro m() %}", 15000, "", deep);
    check_nested("{{", 1, "", "a tag has no end");
    static const char *const open[] = {"(", "[", "{1:", "-", "not ", "f(", "a[", "a if b else ", "'x'|f("};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        TextBuffer source = {0};
        text_append(&source, "{{ ", 3);
        for (size_t j = 0; j < 20000; j++) text_append(&source, open[i], strlen(open[i]));
        Error error = {{0}};
        size_t n;
        char *got = render((String){source.data, source.n}, context, &n, &error);
        CHECK(!got && strstr(error.message, deep), "%s: %s", open[i], error.message);
        free(got);
        free(source.data);
    }
    check_nested("{% if 0 %}{% elif 0 %}{% endif %}", 5000, "", NULL);
    check_nested("{% raw %}", 20000, "", "a raw block has no end");
    check_nested("{#", 100000, "", "a comment has no end");
    check_nested("{% set a = 1 %}{{ a }}", 11000, "", NULL);
    check_nested("xxxxxxxxxxxxxxxx", 20000, "", "bytes");
    TextBuffer names = {0};
    for (int j = 0; j < 2001; j++) {
        char one[16];
        text_append(&names, one, (size_t)snprintf(one, sizeof one, "{{a%d}}", j) + 1); /* and a NUL */
        names.n--;
        if (j == 1999) check_nested("", 0, names.data, NULL);
    }
    check_nested("", 0, names.data, "there are too many names");
    free(names.data);
    TextBuffer chain = {0}; /* each operator is a level down */
    text_append(&chain, "{{ 1", 4);
    for (size_t j = 0; j < 50000; j++) text_append(&chain, "+1", 2);
    text_append(&chain, " }}", 3);
    Error error = {{0}};
    size_t n;
    char *got = render((String){chain.data, chain.n}, context, &n, &error);
    CHECK(!got && strstr(error.message, deep), "%s", error.message);
    free(chain.data);
}

/* A template may be used again; text is appended, and stays as it was when there is an error. */
static void test_again(void) {
    static const char source[] = "{% set l = messages %}{{ l.pop() }}{{ l }}{{ 1 // n }}";
    Error error = {{0}};
    TextBuffer out = {0};
    Template *template = template_parse((String){source, sizeof source - 1}, &error);
    Json *one = json_parse("{\"messages\": [1, 2], \"n\": 1}", 28, &error);
    Json *zero = json_parse("{\"messages\": [1, 2], \"n\": 0}", 28, &error);
    if (!template || !one || !zero) {
        CHECK(false, "%s", error.message);
        return;
    }
    for (int i = 0; i < 2; i++)
        CHECK(template_render(template, one, NOW, &out, NULL, &error), "%s", error.message);
    CHECK(!template_render(template, zero, NOW, &out, NULL, &error), "no error");
    CHECK(out.n == 10 && memcmp(out.data, "2[1]12[1]1", 10) == 0, "%.*s", (int)out.n, out.data);
    template_free(template);
    template_free(NULL);
    json_free(one);
    json_free(zero);
    free(out.data);
}

/* Templates know no locale but C, whatever the process has. */
static void test_locale(void) {
    Error error = {{0}};
    size_t n;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) SKIP("there is no locale de_DE.UTF-8");
    char source[] = "{{ 0.5 }} {{ '3.75' | float }} {{ [1/2] | tojson }} {{ strftime_now('%A') }}";
    char *text = render((String){source, sizeof source - 1}, context, &n, &error);
    CHECK(text && strcmp(text, "0.5 3.75 [0.5] Thursday") == 0, "%s%s", text ? text : "", error.message);
    free(text);
    Json *json = json_parse("[1.5e3]", 7, &error);
    CHECK(json && json_item(json, 0)->number == 1500, "%s", error.message);
    json_free(json);
    error_set(&error, "%g", 1.5);
    CHECK(strcmp(error.message, "1.5") == 0, "%s", error.message);
    setlocale(LC_ALL, "C");
}

int main(void) {
    context = json_parse("{\"l\": [1, 2]}", 13, NULL);
    RUN(test_cases);
    RUN(test_formats);
    RUN(test_oracle);
    RUN(test_errors);
    RUN(test_bounds);
    RUN(test_bombs);
    RUN(test_order_of_lists);
    RUN(test_odd_bytes);
    RUN(test_odd_numbers);
    RUN(test_large_numbers);
    RUN(test_nesting);
    RUN(test_stack);
    RUN(test_locale);
    RUN(test_again);
    json_free(context);
    return test_end();
}
