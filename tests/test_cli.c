/*
 * The parts of cli/ alone, where no view, or no sane command line, takes them: columns of every kind in a table, widths of
 * characters, options, archives of odd arrays. Expected values are from the formats and from Unicode, by hand.
 */
#include "base/text.h"
#include "base/utf8.h"
#include "cli/npz.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/process.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "gguf.h"
#include "views/view.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Files and what is printed ---- */

/* Everything printed since capture_begin, NUL-terminated; valid until the next. */
static int real_stdout = -1;

static void capture_begin(void) {
    fflush(stdout);
    real_stdout = dup(STDOUT_FILENO);
    if (!freopen(scratch_path(), "w+", stdout)) exit(1);
}

static const char *capture_end(void) {
    static char text[4096];
    rewind(stdout);
    text[fread(text, 1, sizeof text - 1, stdout)] = '\0';
    fflush(stdout);
    dup2(real_stdout, STDOUT_FILENO);
    close(real_stdout);
    clearerr(stdout);
    return text;
}

static void check_text(const char *got, const char *expected) {
    CHECK(strcmp(got, expected) == 0, "expected:\n%s\ngot:\n%s", expected, got);
}

/* ---- Numbers for people ---- */

static void test_counts(void) {
    static const struct {
        double value;
        char format;
        const char *expected;
    } cases[] = {
        {1234567, 0, "1234567"},
        {1234567, ',', "1,234,567"},
        {123456, ',', "123,456"},
        {1e40, 0, "100000000000000003037860284270"}, /* as many digits as have room */
        {1e40, ',', "10,000,000,000,000,000,303,786"},
        {999, 'k', "999 "},
        {999.5, 'k', "1.00 k"},
        {12345678, 'k', "12.3 M"},
        {1e30, 'k', "1000000000000 E"}, /* no unit is larger */
        {1237000, 'B', "1.18 MiB"},
        {NAN, 'B', ""},
        {NAN, 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        format_count(text, cases[i].value, cases[i].format);
        check_text(text, cases[i].expected);
    }
}

/* ---- Tables ---- */

typedef struct Line {
    double real, bar, count;
    float narrow;
    size_t size;
    bool flag;
    const char *text;
    char name[8];
} Line;

static void show_pair(Report *report, const char *key, const void *cell) {
    const double *value = cell;
    if (report->json)
        json_reals(report, key, value, 2);
    else
        printf(" <%g %g>", value[0], value[1]);
}

#define AT(member) offsetof(Line, member)
static const Column columns[] = {
    {"real", "real", CELL_REAL, AT(real), 8, 2, .strong = 2, .need = 3},
    {"narrow", "narrow", CELL_FLOAT, AT(narrow), 9, 1, .unit = 100, .suffix = "%", .format = '+', .need = 1},
    {"size", "  size", CELL_SIZE, AT(size), 6, .need = 2},
    {"count", "count", CELL_COUNT, AT(count), 10, .format = ','},
    {"flag", "", CELL_BOOL, AT(flag)},
    {"text", " text", CELL_TEXT, AT(text), -7},
    {"name", "näme", CELL_NAME, AT(name), 6, .ascii = "name"},
    {"pair", " pair", CELL_SHOWN, AT(real), .show = show_pair},
    {"bar", "  bar", CELL_BAR, AT(bar), 10, .need = 4},
};
static const Table table = TABLE("lines", columns);
enum { REAL = 1, NARROW = 2, SIZE = 4, BAR = 1 << 8 };

static const Line lines[] = {
    {1.5, 0.5, 1234567, 0.25f, 7, true, "one", "a"},
    {NAN, 1, NAN, -1, SIZE_MAX, false, "two", "bcd"},
    {2, 0, 0x1p63, 0, 0, true, "three", "ef"},
};

static const char *shown(Report *report, Columns left_out) {
    capture_begin();
    report->out = stdout;
    if (report->json) json_object(report, NULL);
    table_show(report, &table, left_out, lines, 3, sizeof *lines);
    if (report->json) json_end_object(report);
    return capture_end();
}

static void test_table(void) {
    Report plain = {.width = 80};
    check_text(shown(&plain, BAR), "    real   narrow  size     count text    näme pair\n"
                                   "    1.50   +25.0%     7 1,234,567one         a <1.5 0.5>\n"
                                   "       -  -100.0%     -          two       bcd <nan 1>\n"
                                   "    2.00    +0.0%     09,223,372,036,854,775,808three      ef <2 0>\n");
    Report ascii = {.width = 80, .ascii = true, .bars = true};
    check_text(shown(&ascii, REAL | NARROW | SIZE), "     count text    name pair  bar\n"
                                                    " 1,234,567one         a <1.5 0.5>  #####\n"
                                                    "          two       bcd <nan 1>  ##########\n"
                                                    "9,223,372,036,854,775,808three      ef <2 0>\n");
    Report coloured = {.width = 80, .colour = true};
    check_text(shown(&coloured, (Columns) ~(REAL | SIZE)),
               "\033[1m    real  size\n\033[0m"
               "    1.50     7\n"
               "       -     -\n"
               "\033[1m    2.00\033[0m     0\n"); /* from `strong` on */
    Report narrow = {.width = 14, .bars = true, .ascii = true};
    check_text(shown(&narrow, (Columns) ~(REAL | BAR)), "    real  bar\n"
                                                        "    1.50  ##\n" /* 8 and 2 of 14 are taken */
                                                        "       -  ####\n"
                                                        "    2.00\n");
    narrow.width = 9; /* no room for the two spaces */
    check_text(shown(&narrow, (Columns) ~(REAL | BAR)), "    real  bar\n    1.50\n       -\n    2.00\n");
    narrow.width = 5; /* nor for the number */
    check_text(shown(&narrow, (Columns) ~(REAL | BAR)), "    real  bar\n    1.50\n       -\n    2.00\n");
    Report json = {.json = true};
    check_text(
        shown(&json, NARROW),
        "{\"lines\": [{\"real\": 1.5, \"size\": 7, \"count\": 1234567, \"flag\": true, \"text\": \"one\", "
        "\"name\": \"a\", \"pair\": [1.5, 0.5]}, "
        "{\"real\": null, \"size\": null, \"count\": null, \"flag\": false, \"text\": \"two\", "
        "\"name\": \"bcd\", \"pair\": [null, 1]}, "
        "{\"real\": 2, \"size\": 0, \"count\": 9.22337204e+18, \"flag\": true, \"text\": \"three\", "
        "\"name\": \"ef\", \"pair\": [2, 0]}]}\n");
}

/* 46 columns: real 8, narrow 9, size 6, count 10, text 7, name 6. The one needed least goes first. */
static void test_too_wide(void) {
    static const struct {
        Columns left_out;
        size_t width;
        Columns gone;
    } cases[] = {
        {0, 46, 0},
        {0, 45, NARROW},
        {0, 37, NARROW},
        {0, 36, NARROW | SIZE},
        {0, 30, NARROW | SIZE | REAL},
        {0, 0, NARROW | SIZE | REAL}, /* the others are always needed */
        {NARROW, 37, 0},
        {NARROW, 36, SIZE},
        {NARROW | SIZE, 22, REAL},
    };
    static const Table no_bar = {"lines", columns, sizeof columns / sizeof *columns - 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Columns gone = table_too_wide(&no_bar, cases[i].left_out, cases[i].width);
        CHECK(gone == cases[i].gone, "case %zu: 0x%x", i, (unsigned)gone);
    }
}

/* A note names what a file asks for and is not done: all steps of its order, and of its keys those that have room. */
static void test_not_done(void) {
    SamplingFields fields = {.n_passed_over = 1, .passed_over = {"xtc"}, .n_not_done = MAX_NOT_DONE + 3};
    char expected[64 + 5 * MAX_NOT_DONE];
    Report report = {.json = true};
    int n = sprintf(expected, "{\"not_done\": [\"xtc\"");
    for (size_t i = 0; i < MAX_NOT_DONE; i++) {
        fields.not_done[i] = (String){"k", 1};
        n += sprintf(expected + n, ", \"k\"");
    }
    sprintf(expected + n, "]}\n");
    capture_begin();
    report.out = stdout;
    json_object(&report, NULL);
    json_not_done(&report, &fields);
    json_end_object(&report);
    check_text(capture_end(), expected);
}

/* ---- Characters ---- */

/* The first and last of each range of EastAsianWidth.txt that a terminal shows wide, and their neighbours. */
static void test_widths(void) {
    static const struct {
        uint32_t c;
        size_t width;
    } cases[] = {
        {'a', 1},     {0x2ff, 1},   {0x300, 0},   {0x36f, 0},   {0x370, 1},   {0x10ff, 1},  {0x1100, 2},
        {0x115f, 2},  {0x1160, 0},  {0x2e7f, 1},  {0x2e80, 2},  {0xa4c6, 2},  {0xa4d0, 1},  {0xabff, 1},
        {0xac00, 2},  {0xd7a3, 2},  {0xd7a4, 1},  {0xf8ff, 1},  {0xf900, 2},  {0xfaff, 2},  {0xfb00, 1},
        {0xfdff, 1},  {0xfe00, 0},  {0xfe0f, 0},  {0xfe10, 2},  {0xfe2f, 0},  {0xfe30, 2},  {0xfe6b, 2},
        {0xfe70, 1},  {0xfefe, 1},  {0xff01, 2},  {0xff60, 2},  {0xff61, 1},  {0x1f321, 1}, {0x1f300, 2},
        {0x1faf8, 2}, {0x1fb00, 1}, {0x20000, 2}, {0x3fffd, 2}, {0x40000, 1},
    };
    const Report report = {.width = 80}, ascii = {.width = 80, .ascii = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4];
        size_t n = utf8_encode(cases[i].c, text), width = text_width(&report, text, n);
        CHECK(width == cases[i].width, "U+%04X is %zu columns wide", (unsigned)cases[i].c, width);
        CHECK(text_width(&ascii, text, n) == (cases[i].c < 0x80      ? 1
                                              : cases[i].c < 0x10000 ? 6
                                                                     : 7),
              "U+%04X in ASCII", (unsigned)cases[i].c);
    }
}

static void test_cut(void) {
    static const char text[] = "\xe2\x81\xa0\xe2\x81\xa5"
                               "a\r\t\n\x01\xff\xe2\x80\x8b\xc2\xad\xe4\xb8\xad\xe4\xb8\xadz";
    const Report report = {.width = 80}, ascii = {.width = 80, .ascii = true};
    capture_begin();
    print_column(&report, text, sizeof text - 1, 0);
    putchar('|');
    print_column(&report, "\xe4\xb8\xad\xe4\xb8\xadz", 7, 4); /* a wide one does not fit before the … */
    putchar('|');
    print_column(&ascii, "abcdef", 6, 4);
    putchar('|');
    print_quoted(&report, "abc", 3, 7);
    print_quoted(&report, "abc", 3, 5);
    print_quoted(&report, "abc", 3, 4);
    print_quoted(&report, "abc", 3, 3);
    check_text(capture_end(),
               "\\u2060\\u2065"
               "a\\r\\t\\n\\u0001\\xff\\u200b\\u00ad\xe4\xb8\xad\xe4\xb8\xadz|\xe4\xb8\xad… |abc~|"
               "\"abc\"  \"abc\"\"a…\"\"abc\"");
}

static void test_bars_and_heat(void) {
    const Report report = {.bars = true, .width = 80}, off = {.width = 80},
                 colour = {.colour = true, .width = 80}, ascii = {.bars = true, .ascii = true, .width = 80};
    size_t used[6];
    capture_begin();
    used[0] = print_bar(&report, 0.5, 5);
    used[1] = print_bar(&report, 2, 3);
    used[2] = print_bar(&report, NAN, 3);
    used[3] = print_bar(&off, 1, 3);
    used[4] = print_bar(&ascii, 0.5, 4);
    used[5] = print_bar(&report, -1, 3);
    for (double share = 0; share <= 1; share += 0.5) {
        putchar('|');
        print_heat(&ascii, share);
        print_heat(&report, share);
        print_heat(&colour, share);
    }
    print_style(&report, STYLE_BAD);
    print_styled(&colour, STYLE_GOOD, "%d", 7);
    check_text(capture_end(), "  ██▌  ███  ##"
                              "|      |++▒▒\033[48;5;32m  \033[0m|@@██\033[48;5;159m  \033[0m"
                              "\033[32m7\033[0m");
    static const size_t expected[] = {5, 5, 0, 0, 4, 0};
    for (size_t i = 0; i < 6; i++) CHECK(used[i] == expected[i], "bar %zu takes %zu columns", i, used[i]);
}

/* ---- Options ---- */

typedef struct Values {
    bool on, off;
    const char *text, *once, *colour;
    StringList list, idle;
    int64_t whole;
    size_t size;
    float real;
} Values;

#define OF(member) offsetof(Values, member)
static const Option known[] = {
    {"--on", "-o", OPTION_ON, OF(on), 0, 0},
    {"--off", NULL, OPTION_OFF, OF(off), 0, 0},
    {"--text", NULL, OPTION_TEXT, OF(text), 0, 0},
    {"--once", NULL, OPTION_ONCE, OF(once), 0, 0},
    {"--list", NULL, OPTION_LIST, OF(list), 0, 0},
    {"--whole", "-w", OPTION_INT, OF(whole), -5, 9e15},
    {"--size", NULL, OPTION_SIZE, OF(size), 1, 100},
    {"--real", NULL, OPTION_REAL, OF(real), 0, 2},
    {"--colour", "-co", OPTION_SWITCH, OF(colour), 0, 0},
};

/* The words of a line, split at spaces and parsed; false where they are refused. */
static bool parse(const char *line, Values *values, const char *words[2], Error *error) {
    static char copy[256];
    char *argv[32] = {(char[]){"program"}};
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    static const ForeignOption foreign[] = {{{"--number", "-nr"}, "--whole"},
                                            {{"-dev", "--device"}, .takes = TAKES_VALUE},
                                            {{"-q", "--quick"}, .takes = TAKES_SWITCH},
                                            {{"--loud"}}};
    static const ForeignOptions others = {foreign, sizeof foreign / sizeof *foreign};
    const Options tables = {.table = known,
                            .n = sizeof known / sizeof *known,
                            .values = values,
                            .foreign = &others,
                            .idle = &values->idle};
    return options_parse(&tables, 1, argc, argv, words, 2, error);
}

static void test_options(void) {
    Values values = {.off = true};
    const char *words[2] = {NULL, NULL};
    Error error = {{0}};
    bool ok = parse("a -o --off --text x --text y --once z --list 1 --list 2 -w -5 --size 100 --real 0.5 - ",
                    &values, words, &error);
    CHECK(ok, "%s", error.message);
    CHECK(values.on && !values.off && strcmp(values.text, "y") == 0 && strcmp(values.once, "z") == 0,
          "texts");
    CHECK(values.list.n == 2 && strcmp(values.list.items[1], "2") == 0, "%zu in the list", values.list.n);
    CHECK(values.whole == -5 && values.size == 100 && values.real == 0.5f, "numbers");
    CHECK(strcmp(words[0], "a") == 0 && strcmp(words[1], "-") == 0, "words: '-' is one");

    static const char *const refused[][2] = {
        {"--once a --once b", "--once is given twice: 'a' and 'b'; choose one"},
        {"--whole 1x", "--whole takes a whole number from -5 to 9000000000000000, not '1x'"},
        {"--whole -6", "not '-6'"},
        {"--whole x", "not 'x'"},
        {"--whole 9000000000000001", "not '9000000000000001'"},
        {"--whole 99999999999999999999", "not '99999999999999999999'"},
        {"--size 0", "--size takes a whole number from 1 to 100, not '0'"},
        {"--real 1x", "--real takes a number from 0 to 2, not '1x'"},
        {"--real x", "not 'x'"},
        {"--real nan", "not 'nan'"},
        {"--real 2.5", "not '2.5'"},
        {"--real -1", "not '-1'"},
        {"--real", "--real needs a value"},
        {"a b c", "two models at most: 'c' after 'b'"},
        {"--on=1", "--on takes no value"},
        {"--off=", "--off takes no value"},
        {"--size=0", "--size takes a whole number from 1 to 100, not '0'"},
        {"--real=", "not ''"},
        {"--once=a --once b", "--once is given twice: 'a' and 'b'; choose one"},
        {"--rael=1", "unknown option --rael; did you mean --real?"},
        {"-w=3", "unknown option -w=3: see --help"}, /* short ones have none */
        {"--device", "--device needs a value"},
        {"-dev", "-dev needs a value"},
        {"--quick=on --ralE", "unknown option --ralE; did you mean --real?"},
        {"--ralE", "unknown option --ralE; did you mean --real?"},
        {"--whoel 1",
         "unknown option --whoel; did you mean --whole?"}, /* two letters changed places: one slip */
        {"--quantum", "unknown option --quantum: see --help"},
        {"--an-option-that-nobody-could-have-meant",
         "unknown option --an-option-that-nobody-could-have-meant: see --help"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Values none = {.off = true};
        words[0] = words[1] = NULL;
        CHECK(!parse(refused[i][0], &none, words, &error), "%s: taken", refused[i][0]);
        const char *tail = error.message + strlen(error.message) - strlen(refused[i][1]);
        CHECK(strlen(error.message) >= strlen(refused[i][1]) && strcmp(tail, refused[i][1]) == 0, "%s: '%s'",
              refused[i][0], error.message);
    }

    /* A value behind "="; other programs' words, which are passed over with what belongs to them. */
    static const struct {
        const char *line;
        int64_t whole;
        const char *text, *words, *idle;
    } taken[] = {
        {"--whole=-3 a --text=", -3, "", "a", ""},
        {"--text=--whole=4 --whole 5", 5, "--whole=4", "", ""},
        {"--number 7 b", 7, "", "b", ""},
        {"-nr 8 --text=a=b", 8, "a=b", "", ""},
        {"--number=9", 9, "", "", ""},
        {"-dev gpu a --device=cpu b --device --on", 0, "", "a b", "-dev --device=cpu --device"},
        {"-q a -q on b -q", 0, "", "a b", "-q -q -q"},
        {"-q 1 -q -1 --quick=x a --loud b", 0, "", "a b", "-q -q --quick=x --loud"},
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        char said[2][128] = {"", ""};
        values = (Values){.text = ""};
        words[0] = words[1] = NULL;
        CHECK(parse(taken[i].line, &values, words, &error), "%s: %s", taken[i].line, error.message);
        for (size_t k = 0; k < 2; k++)
            if (words[k]) strcat(strcat(said[0], k ? " " : ""), words[k]);
        for (size_t k = 0; k < values.idle.n; k++)
            strcat(strcat(said[1], k ? " " : ""), values.idle.items[k]);
        check_text(said[0], taken[i].words);
        check_text(said[1], taken[i].idle);
        check_text(values.text, taken[i].text);
        CHECK(values.whole == taken[i].whole && !values.on, "%s: %d", taken[i].line, (int)values.whole);
    }
    /* "--color" alone is what llama.cpp's users type */
    static const char *const switches[][3] = {
        {"--colour", "on", ""},           {"-co --whole 3 a", "on", "a"}, {"a --colour off", "off", "a"},
        {"--colour auto a", "auto", "a"}, {"--colour=no a", "no", "a"},   {"--colour= -o", "", ""}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        values = (Values){0};
        words[0] = words[1] = NULL;
        CHECK(parse(switches[i][0], &values, words, &error), "%s: %s", switches[i][0], error.message);
        check_text(values.colour ? values.colour : "none", switches[i][1]);
        check_text(words[0] ? words[0] : "", switches[i][2]);
    }
    const char *one[1] = {NULL};
    char *argv[] = {(char[]){"program"}, (char[]){"a"}, (char[]){"b"}};
    CHECK(!options_parse(NULL, 0, 3, argv, one, 1, &error), "two words for one");
    check_text(error.message, "one model at a time: 'b' after 'a'");
    char *four[] = {argv[0], argv[1], argv[2], argv[1], argv[2]};
    const char *three[3] = {NULL};
    CHECK(!options_parse(NULL, 0, 5, four, three, 3, &error), "four words for three");
    check_text(error.message, "one word too many: 'b' after 'a'");
    CHECK(!options_parse(NULL, 0, 2, argv, one, 0, &error), "a word for none");
    check_text(error.message, "unexpected word 'a'");
}

/* llama.cpp's string_process_escapes, case by case. */
static void test_escapes(void) {
    static const char *const cases[][2] = {
        {"a", "a"},
        {"", ""},
        {"\\n\\r\\t\\'\\\"", "\n\r\t'\""},
        {"\\\\n", "\\n"},
        {"\\x41\\xc3\\xA9\\x0a", "A\xc3\xa9\n"},
        {"\\x4", "\\x4"},
        {"\\xg1\\x1g\\x", "\\xg1\\x1g\\x"},
        {"\\q\\", "\\q\\"},
        {"\\x00", "\\x00"}, /* which would end the text */
        {"caf\xc3\xa9\\", "caf\xc3\xa9\\"},
    };
    static const Option escaped[] = {{"--text", NULL, OPTION_TEXT, OF(text), .escape = true},
                                     {"--list", NULL, OPTION_LIST, OF(list), .escape = true},
                                     {"--once", NULL, OPTION_ONCE, OF(once)}};
    Values values;
    const Options options = {escaped, 3, &values};
    Error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *memory = NULL;
        values = (Values){.text = i % 2 ? NULL : cases[i][0],
                          .once = cases[i][0],
                          .list = {.items = {cases[i][0], "x", cases[i][0]}, .n = 3}};
        CHECK(options_unescape(&options, &memory, &error), "%s", error.message);
        if (values.text) check_text(values.text, cases[i][1]);
        for (size_t k = 0; k < 3; k += 2) check_text(values.list.items[k], cases[i][1]);
        check_text(values.once, cases[i][0]);
        CHECK((values.text != NULL) == (i % 2 == 0), "case %zu", i);
        free(memory);
    }
}

/* A program installed as attn-run calls itself so; files' names stay. */
static void test_names(void) {
    static const char said[] =
        "usage: run MODEL\nsee ./run --help, ./study page, ./quantize a; ./run.gguf, ./model.bin\n";
    static const struct {
        const char *argv0, *name, *expected;
    } cases[] = {
        {"./run", "run", said},
        {"run", "run", said},
        {"build/x/study", "study", said},
        {"", "run", said},
        {"/opt/other", "run", said},
        {"/attn-longer-than-any-name-there-could-be-run", "run", said},
        {"attn-run", "run",
         "usage: attn-run MODEL\nsee attn-run --help, attn-study page, attn-quantize a; ./run.gguf, ./model.bin\n"},
        {"/usr/bin/my.quantize", "quantize",
         "usage: my.run MODEL\nsee my.run --help, my.study page, my.quantize a; ./run.gguf, ./model.bin\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        size_t n = 0;
        FILE *file = open_memstream(&text, &n);
        name_program(cases[i].argv0, cases[i].name);
        print_help(file, said);
        fclose(file);
        check_text(text, cases[i].expected);
        free(text);
    }
    name_program("", "run");
}

/* Of more options than are compared, those behind are not guessed; a list holds what its array does. */
static void test_many_options(void) {
    static char names[130][8];
    static Option many[130];
    for (size_t i = 0; i < 130; i++) {
        snprintf(names[i], sizeof names[i], "--%03zu", i);
        many[i] = (Option){names[i], NULL, OPTION_LIST, OF(list), 0, 0};
    }
    static const ForeignOption quick[] = {{{"-q"}}};
    static const ForeignOptions others = {quick, 1};
    static char *many_words[200];
    StringList idle = {.n = 0};
    static char quick_word[] = "-q";
    for (size_t i = 0; i < 200; i++) many_words[i] = quick_word;
    const Options few = {.foreign = &others, .idle = &idle};
    Error none = {{0}};
    CHECK(options_parse(&few, 1, 200, many_words, NULL, 0, &none) && idle.n == 128, "%zu", idle.n);
    strcpy(names[127], "--abcde"), strcpy(names[129], "--vwxyz");
    Values values = {.on = false};
    const Options tables = {many, 130, &values};
    Error error = {{0}};
    char program[] = "program", near[] = "--abcdf", far[] = "--vwxyy", good[] = "--vwxyz";
    CHECK(!options_parse(&tables, 1, 2, (char *[]){program, near}, NULL, 0, &error), "unknown");
    check_text(error.message, "unknown option --abcdf; did you mean --abcde?");
    CHECK(!options_parse(&tables, 1, 2, (char *[]){program, far}, NULL, 0, &error), "unknown");
    check_text(error.message, "unknown option --vwxyy: see --help");
    const Options asked = {many, 130, &values, .no_files = true}; /* as a page asks, which is shown no help */
    CHECK(!options_parse(&asked, 1, 2, (char *[]){program, far}, NULL, 0, &error), "unknown");
    check_text(error.message, "unknown option --vwxyy");
    enum { MOST = sizeof values.list.items / sizeof *values.list.items };
    char *argv[2 * MOST + 3] = {program};
    for (size_t i = 1; i < sizeof argv / sizeof *argv; i++) argv[i] = i % 2 ? good : near;
    CHECK(options_parse(&tables, 1, 2 * MOST + 1, argv, NULL, 0, &error) && values.list.n == MOST,
          "%zu in the list", values.list.n);
    values.list.n = 0;
    CHECK(!options_parse(&tables, 1, 2 * MOST + 3, argv, NULL, 0, &error), "one more");
    CHECK(strncmp(error.message, "--vwxyz may be given ", 21) == 0, "%s", error.message);
}

/* Nothing took no time: no division by it. */
static void test_summary(void) {
    const Summary nothing = {.model = "m", .end = "limit"};
    capture_begin();
    summary_print_json(&nothing);
    const char *json = capture_end();
    CHECK(strstr(json,
                 "{\"model\": \"m\", \"text\": \"\", \"tokens\": [], \"logprobs\": [], \"stop\": \"limit\", "
                 "\"seed\": 0, \"timings\": {\"load_ms\": 0.000, \"prompt_n\": 0, \"prompt_ms\": 0.000, "
                 "\"prompt_per_second\": 0.000, ") == json,
          "%s", json);
}

static void test_nearest(void) {
    static const char *const names[] = {"score", "ablate", "a-name-of-more-than-thirty-two-letters"};
    const char *nearest = nearest_name("socre", names, 3);
    CHECK(nearest && strcmp(nearest, "score") == 0, "two letters changed places");
    nearest = nearest_name("abalte", names, 3);
    CHECK(nearest && strcmp(nearest, "ablate") == 0, "likewise");
    CHECK(!nearest_name("sco", names, 3), "two slips of three letters are another word");
    CHECK(!nearest_name("a-name-of-more-than-thirty-two-lettes", names, 3),
          "names this long are not compared");
}

static void test_lists(void) {
    bool chosen[11];
    Error error = {{0}};
    static const struct {
        const char *list, *expected;
    } cases[] = {{NULL, "1111111111"}, {"0", "1000000000"}, {"1,3-5,9", "0101110001"}, {"3-3", "0001000000"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        chosen[10] = cases[i].list != NULL; /* beyond the end, and left alone */
        CHECK(parse_list("--on", cases[i].list, "layer", 10, chosen, &error), "%s", error.message);
        CHECK(chosen[10] == (cases[i].list != NULL), "case %zu: beyond the end", i);
        for (size_t k = 0; k < 10; k++)
            CHECK(chosen[k] == (cases[i].expected[k] == '1'), "case %zu, item %zu", i, k);
    }
    static const char *const wrong[] = {
        "", "a", "1,", "1-", "1-x", "1-:", "-1", "2-1", "1;2", "1:", "1,,2", ":"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!parse_list("--on", wrong[i], "layer", 10, chosen, &error), "'%s' is taken", wrong[i]);
        CHECK(strstr(error.message, "is no list of layers such as 0,3,5-7") && error.usage, "%s: %s",
              wrong[i], error.message);
    }
    CHECK(!parse_list("--on", "3-10", "layer", 10, chosen, &error), "there is no 10");
    check_text(error.message, "--on: layer 10 does not exist: there are 10, from 0 on");
    CHECK(!error.usage, "another model may have it");
    CHECK(!parse_list("--on", "3-99999999999999999999", "layer", 10, chosen, &error), "there is none such");
    check_text(error.message, "--on: no layer has so large a number: there are 10, from 0 on");

    unsigned long long layer = 0, head = 0;
    bool one;
    const char *at = "L12H3,";
    CHECK(parse_head(&at, &layer, &head, &one) && one && layer == 12 && head == 3 && *at == ',', "L12H3");
    at = "L7Hx";
    CHECK(parse_head(&at, &layer, &head, &one) && !one && layer == 7 && *at == 'H', "L7");
    at = "L:";
    CHECK(!parse_head(&at, &layer, &head, &one), "a letter behind nine");
}

/* ---- Archives ---- */

static uint32_t number_at(const char *bytes) {
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) value = value << 8 | (unsigned char)bytes[i];
    return value;
}

/* One array of 600,001 bytes, more than the checksums' pass reads at once; its CRC-32 by the definition. */
static void test_large_member(void) {
    enum { N = 600001, NAME = 5 };
    const NpzArray array = {"x", "|u1", 1, 1, {N}};
    Error error = {{0}};
    NpzWriter *writer = npz_create(scratch_file("x.npz"), &(Inputs){0}, &array, 1, &error);
    unsigned char *items = malloc(N);
    for (size_t i = 0; i < N; i++) items[i] = (unsigned char)(i * 7 >> 3);
    bool ok = writer && npz_write(writer, 0, 1, items + 1, N - 1, &error) && /* in any order */
              npz_write(writer, 0, 0, items, 1, &error) && npz_finish(writer, &error);
    CHECK(ok, "%s", error.message);
    size_t n = 0;
    char *file = read_whole(scratch_file("x.npz"), &n);
    const size_t data = 30 + NAME + 20;
    if (file && n > data + 128 + N) {
        uint32_t crc = UINT32_MAX;
        for (size_t i = data; i < data + 128 + N; i++) {
            crc ^= (unsigned char)file[i];
            for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        }
        CHECK(number_at(file + 14) == ~crc, "the checksum is %x", number_at(file + 14));
        CHECK(memcmp(file + data + 128, items, N) == 0, "the items");
        CHECK(n == data + 128 + N + 46 + NAME + 28 + 98, "%zu bytes", n);
    }
    free(file);
    free(items);
    unlink(scratch_file("x.npz"));
}

static void test_no_member(void) {
    Error error = {{0}};
    NpzWriter *writer = npz_create(scratch_file("x.npz"), &(Inputs){0}, NULL, 0, &error);
    CHECK(writer && npz_finish(writer, &error), "%s", error.message);
    size_t n = 0;
    char *file = read_whole(scratch_file("x.npz"), &n);
    CHECK(file && n == 98 && memcmp(file, "PK\6\6", 4) == 0, "%zu bytes: a directory of none", n);
    free(file);
    unlink(scratch_file("x.npz"));
}

/* Sizes that no file can have, by the product or by the sum; nothing may be left behind. */
static void test_too_large(void) {
    const NpzArray arrays[][2] = {
        {{"a", "<f4", 4, 2, {SIZE_MAX / 2, 3}}, {"b", "<f4", 4, 1, {1}}},
        {{"a", "<f4", 4, 1, {SIZE_MAX / 16}}, {"b", "<f4", 4, 1, {SIZE_MAX / 16}}},
    };
    for (size_t i = 0; i < 2; i++) {
        Error error = {{0}};
        CHECK(!npz_create(scratch_file("x.npz"), &(Inputs){0}, arrays[i], 2, &error), "case %zu is taken", i);
        CHECK(strstr(error.message, "x.npz: the arrays are too large for a file"), "%s", error.message);
        CHECK(access(scratch_file("x.npz"), F_OK) != 0, "a file is left");
    }
}

/* Somebody cuts the temporary file while it is being written: its checksums cannot be told. */
static void test_cut_archive(void) {
    const NpzArray array = {"x", "<f4", 4, 1, {1000}};
    Error error = {{0}};
    NpzWriter *writer = npz_create(scratch_file("x.npz"), &(Inputs){0}, &array, 1, &error);
    CHECK(writer, "%s", error.message);
    if (!writer) return;
    for (int file = 3; file < 64; file++) { /* it may have no name */
        char link[32], path[512] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, scratch_folder))
            CHECK(truncate(link, 100) == 0, "%s is not cut", path);
    }
    CHECK(!npz_finish(writer, &error), "finished");
    CHECK(strstr(error.message, "x.npz: cannot read back what was written"), "%s", error.message);
    CHECK(access(scratch_file("x.npz"), F_OK) != 0, "a file is left");
}

/* ---- Byte strings ---- */

static void test_buffers(void) {
    size_t capacity = 0;
    int32_t *items = grow(NULL, sizeof *items, 100, &capacity);
    CHECK(items && capacity == 128, "room for %zu", capacity);
    CHECK(!grow(items, sizeof *items, SIZE_MAX / 2 + 2, &capacity), "no power of two is as large");
    CHECK(!grow(items, sizeof *items, SIZE_MAX / 4 + 2, &capacity), "a product beyond SIZE_MAX");
    CHECK(capacity == 128, "and the old items stay: %zu", capacity);
    free(items);
    TextBuffer text = {0};
    CHECK(text_append(&text, "abc", 3) && text_append(&text, NULL, 0) && text.n == 3, "%zu", text.n);
    CHECK(!text_append(&text, "", SIZE_MAX - 1) && text.n == 3, "a length that wraps around");
    CHECK(memcmp(text.data, "abc", 3) == 0, "the text stays");
    free(text.data);
}

/* How a process ends to which Ctrl-C comes, and which then works for three times the grace. */
static int interrupted_while(bool patient) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        catch_signals("test_cli");
        if (patient) expect_interrupt();
        raise(SIGINT);
        for (struct timespec left = {0, 300000000}; nanosleep(&left, &left) != 0;) {
        }
        _exit(interrupted() ? 3 : 4);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void test_grace(void) {
    CHECK(interrupted_while(false) == 128 + SIGINT, "who notices nothing is ended");
    CHECK(interrupted_while(true) == 3, "who expects it may take long");
}

int main(void) {
    scratch_begin();
    RUN(test_counts);
    RUN(test_table);
    RUN(test_too_wide);
    RUN(test_not_done);
    RUN(test_widths);
    RUN(test_cut);
    RUN(test_bars_and_heat);
    RUN(test_options);
    RUN(test_escapes);
    RUN(test_names);
    RUN(test_many_options);
    RUN(test_summary);
    RUN(test_nearest);
    RUN(test_lists);
    RUN(test_large_member);
    RUN(test_no_member);
    RUN(test_too_large);
    RUN(test_cut_archive);
    RUN(test_buffers);
    RUN(test_grace);
    scratch_end();
    return test_end();
}
