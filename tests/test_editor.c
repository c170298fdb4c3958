/*
 * The line editor without a terminal: keys and the line they make, lines that come back, and what a terminal shows, which is
 * played here. Widths of characters are compared with those of the C library.
 */
#define _XOPEN_SOURCE 700 /* wcwidth */

#include "anykeys.h"
#include "cli/input.h"
#include "test.h"

#include <locale.h>
#include <stdint.h>
#include <wchar.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool press(Editor *editor, const char *keys) {
    bool goes_on = true;
    for (; *keys; keys++) goes_on = editor_press(editor, *keys) == EDITOR_GOES_ON && goes_on;
    return goes_on;
}

static bool holds(const Editor *editor, const char *text) {
    const TextBuffer *line = editor_line(editor);
    return line->n == strlen(text) && (line->n == 0 || memcmp(line->data, text, line->n) == 0);
}

/* ---- Keys ---- */

#define E_ACUTE "e\xcc\x81"
#define ASTRONAUT "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80"
#define GERMANY "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa"
#define FRANCE "\xf0\x9f\x87\xab\xf0\x9f\x87\xb7"
#define HAN "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab" /* three parts of one syllable */
#define NO_UTF8 "\xef\xbf\xbd"

static void test_keys(void) {
    static const struct {
        const char *keys, *line;
        size_t cursor;
    } cases[] = {
        {"abc", "abc", 3},
        {"abc\x02\x02X", "aXbc", 2},
        {"abc\033[D\033[DX", "aXbc", 2},
        {"abc\033OD\033OD\033OD\033ODX\033[CY\033OCZ", "XaYbZc", 5},
        {"abc\x01X\x05Y", "XabcY", 5},
        {"ab\033\rcd\x01X\x05Y", "ab\nXcdY", 7},
        {"abc\033[HX\033[FY", "XabcY", 5},
        {"abc\033[1~X\033[4~Y\033[7~Z\033[8~", "ZXabcY", 6},
        {"abc\033OHX\033OFY", "XabcY", 5},
        {"abc\x01\033[3~", "bc", 0},
        {"abc\x01\x04\x04", "c", 0},
        {"abc\033[3~\x04", "abc", 3},
        {"abc\x7f\x08", "a", 1},
        {"\x7f\x08\x0b\x15\x17\x19\033[3~\033[A\033[B\033d", "", 0},
        {"abc\x02\x0b", "ab", 2},
        {"abc\x02\x15", "c", 0},
        {"one two  \x17", "one ", 4},
        {"one two\033\x7f", "one ", 4},
        {"one two\033bX\033b\033bY", "Yone Xtwo", 1},
        {"one two\x01\033fX\033fY", "oneX twoY", 9},
        {"one two\x01\033d", " two", 0},
        {"one two\033[1;5DX\033[1;5D\033[1;3D\033[1;5CY", "oneY Xtwo", 4},
        {"one two\x17\x01\x19", "twoone ", 3},
        {"abc\003d", "d", 1},
        {"abc\003\x19", "abc", 3},
        {"a\tb", "a\tb", 3},
        /* Characters as people see them. */
        {"\xe6\x97\xa5\xe6\x9c\xac\x7f", "\xe6\x97\xa5", 3},
        {"a" E_ACUTE "b\x02\x02X", "aX" E_ACUTE "b", 2},
        {"a" E_ACUTE "\x7f", "a", 1},
        {"a" ASTRONAUT "\x7f", "a", 1},
        {GERMANY FRANCE "\x02X", GERMANY "X" FRANCE, 9},
        {HAN "\x02X", "X" HAN, 1},
        {"xa\xcc\x81\x02\x02\033[3~\033[3~", "", 0},
        {"e\x01\xcc\x81",
         "\xcc\x81"
         "e",
         2},
        /* Bytes that are no character. */
        {"a\xff"
         "b\xc3(",
         "a" NO_UTF8 "b" NO_UTF8 "(", 9},
        {"\xe6\x97\x02X", "X" NO_UTF8, 1},
        {"\xed\xa0\x80", NO_UTF8 NO_UTF8 NO_UTF8, 9},
        /* Rows. */
        {"a\033\rb", "a\nb", 3},
        {"abc\033\rd\033[AX\033[B\033[BY", "aXbc\ndY", 7},
        {"ab\033\rcd\x01X\x0b\x0b", "ab\nX", 4},
        {"ab\033\rcd\x15\x15\x15", "", 0},
        {"ab\033\rcd\x02\x02\x02X\033[AY", "abXY\ncd", 4},
        {"ab\033\rcd\x01\033[A\x0b\x0b", "cd", 0},
        /* A paste. */
        {"x\033[200~a\r\nb\rc\003", "", 0},
        {"x\033[200~a\r\nb\rc\n\033[31m\033[A\x01\xff\033[201~y", "xa\nb\nc\n\033[31m\033[A\x01" NO_UTF8 "y",
         20},
        {"\033[200~\033[20\033[201~y", "\033[20y", 5},
        {"ab\x02\033[200~12\033[201~", "a12b", 3},
        /* Keys that nobody knows, and none that is whole. */
        {"a\033[99;5;1xb\033[15~c\033[[Ad\033OPe\033xf\033\033\033[Dg", "abcdegf", 6},
        {"a\033[1;\x02"
         "b",
         "ba", 1},
        {"a\033[1111111111111111111111111111Cb", "ab", 2},
        {"a\033\xc3\xa9", "a\xc3\xa9", 3},
        {"\x0e\x0f\x10\x11\x12\x13\x14\x16\x18\x1d\x1e\x1f", "", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Editor *editor = editor_new("> ", false);
        CHECK(press(editor, cases[i].keys), "case %zu has an event", i);
        CHECK(holds(editor, cases[i].line) && editor_cursor(editor) == cases[i].cursor,
              "case %zu: '%.*s', %zu", i, (int)editor_line(editor)->n,
              editor_line(editor)->n ? editor_line(editor)->data : "", editor_cursor(editor));
        editor_free(editor);
    }
}

/* A paste that no line has room for is not taken, and a bell tells of it. */
static void test_long_paste(void) {
    Editor *editor = editor_new("> ", false);
    TextBuffer bytes = {0};
    press(editor, "a\033[200~");
    for (size_t i = 0; i <= MAX_LINE_BYTES; i++) editor_press(editor, 'b');
    press(editor, "\033[201~c");
    editor_draw(editor, 20, 5, &bytes);
    CHECK(holds(editor, "ac") && memchr(bytes.data, '\a', bytes.n), "%zu bytes", editor_line(editor)->n);
    free(bytes.data);
    editor_free(editor);
}

static void test_events(void) {
    static const struct {
        const char *keys;
        EditorEvent event;
    } cases[] = {
        {"\r", EDITOR_LINE},        {"ab\x02\n", EDITOR_LINE},
        {"\x04", EDITOR_END},       {"a\x7f\x04", EDITOR_END},
        {"\x03", EDITOR_INTERRUPT}, {"a\x1a", EDITOR_SUSPEND},
        {"a\x1c", EDITOR_QUIT},     {"a\x03", EDITOR_GOES_ON},
        {"a\x04", EDITOR_GOES_ON},  {"\033[200~\r", EDITOR_GOES_ON},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Editor *editor = editor_new("> ", false);
        EditorEvent event = EDITOR_GOES_ON;
        for (const char *key = cases[i].keys; *key; key++) {
            CHECK(event == EDITOR_GOES_ON, "case %zu: an early event", i);
            event = editor_press(editor, *key);
        }
        CHECK(event == cases[i].event, "case %zu: %d", i, (int)event);
        editor_free(editor);
    }
}

/* ---- Lines typed before ---- */

static void check_line(const Editor *editor, const char *text) {
    CHECK(holds(editor, text), "'%.*s', not '%s'", (int)editor_line(editor)->n,
          editor_line(editor)->n ? editor_line(editor)->data : "", text);
}

static void test_history(void) {
    static const char *const lines[] = {"one", "two", "two", "", "three"};
    Editor *editor = editor_new("> ", false);
    for (size_t i = 0; i < COUNT(lines); i++) {
        press(editor, lines[i]);
        CHECK(editor_press(editor, '\r') == EDITOR_LINE, "no line");
        editor_next(editor);
        check_line(editor, "");
    }
    static const struct {
        const char *keys, *line;
    } steps[] = {
        {"new", "new"},      {"\033[A", "three"},       {"\x10", "two"},
        {"\033OA", "one"},   {"\033[A", "one"},         {"!", "one!"},
        {"\033[B", "two"},   {"\033[A", "one"},         {"\x0e", "two"},
        {"\033[B", "three"}, {"\033[B", "new"},         {"\033[B", "new"},
        {"er", "newer"},     {"\033[A", "three"},       {"\x03", ""},
        {"\033[A", "two"},   {"\033[B\033[B", "newer"},
    };
    for (size_t i = 0; i < COUNT(steps); i++) {
        press(editor, steps[i].keys);
        check_line(editor, steps[i].line);
    }
    press(editor, "\033[A\033[A\r"); /* an old line becomes a new one */
    editor_next(editor);
    press(editor, "\033[A");
    check_line(editor, "two");
    press(editor, "\033[A");
    check_line(editor, "three");
    press(editor, "\003a\033\rb\r"); /* rows come back, and are gone through */
    editor_next(editor);
    press(editor, "\033[A");
    check_line(editor, "a\nb");
    press(editor, "\033[A\033[A");
    check_line(editor, "two");
    for (int i = 0; i < 200; i++) {
        char line[16];
        snprintf(line, sizeof line, "\003%d\r", i);
        press(editor, line);
        editor_next(editor);
    }
    for (int i = 0; i < 200; i++) press(editor, "\033[A");
    check_line(editor, "0");
    editor_free(editor);
}

/* ---- A terminal ---- */

enum { MOST_COLUMNS = 100, MOST_ROWS = 40, CELL = 64, SECOND = 1 /* half of a wide character */ };

typedef struct Screen {
    int columns, rows, row, column;
    bool full; /* the last column has been written, and the next character begins a row */
    char cells[MOST_ROWS][MOST_COLUMNS][CELL];
} Screen;

static void line_feed(Screen *screen) {
    if (++screen->row < screen->rows) return;
    screen->row--;
    memmove(screen->cells[0], screen->cells[1], sizeof screen->cells - sizeof screen->cells[0]);
    memset(screen->cells[screen->rows - 1], 0, sizeof screen->cells[0]);
}

static void play_character(Screen *screen, const char *text, size_t n, uint32_t c) {
    int width = wcwidth((wchar_t)c);
    CHECK(width >= 0, "U+%04X is none to show", (unsigned)c);
    if (width == 0) {
        int column = screen->column - !screen->full;
        if (column < 0) return;
        column -= *screen->cells[screen->row][column] == SECOND;
        char *cell = screen->cells[screen->row][column];
        if (strlen(cell) + n < CELL) strncat(cell, text, n);
        return;
    }
    if (screen->full || screen->column + width > screen->columns) {
        screen->column = 0, screen->full = false;
        line_feed(screen);
    }
    char *cell = screen->cells[screen->row][screen->column];
    memset(cell, 0, CELL * (size_t)width);
    memcpy(cell, text, n);
    if (width == 2) cell[CELL] = SECOND;
    screen->column += width;
    screen->full = screen->column == screen->columns;
    screen->column -= screen->full;
}

static void wipe(Screen *screen, int row, int column) {
    for (; row < screen->rows; row++, column = 0)
        memset(screen->cells[row][column], 0, (size_t)(MOST_COLUMNS - column) * CELL);
}

/* The length of a sequence that begins with "ESC [". */
static size_t play_control(Screen *screen, const char *text) {
    char *end;
    int n = (int)strtol(text + 2, &end, 10);
    switch (*end) {
    case 'A': screen->row = screen->row > n ? screen->row - n : 0; break;
    case 'B': screen->row = screen->row + n < screen->rows ? screen->row + n : screen->rows - 1; break;
    case 'H': screen->row = screen->column = 0; break;
    case 'J': wipe(screen, n == 2 ? 0 : screen->row, n == 2 ? 0 : screen->column); break;
    case ';':
    case 'm': end = strchr(end, 'm'); break;
    default: CHECK(false, "ESC [ %d %c", n, *end);
    }
    screen->full = screen->full && *end == 'm';
    return (size_t)(end + 1 - text);
}

static void play(Screen *screen, TextBuffer *bytes) {
    text_append(bytes, "", 1);
    for (size_t at = 0, length; at + 1 < bytes->n; at += length) {
        uint32_t c;
        const char *text = bytes->data + at;
        length = utf8_decode(text, bytes->n - 1 - at, &c);
        if (c == '\033')
            length = play_control(screen, text);
        else if (c == '\r')
            screen->column = 0, screen->full = false;
        else if (c == '\n')
            line_feed(screen);
        else if (c != '\a')
            play_character(screen, text, length, c);
    }
    free(bytes->data);
    *bytes = (TextBuffer){0};
}

static void draw(Editor *editor, Screen *screen) {
    TextBuffer bytes = {0};
    editor_draw(editor, (size_t)screen->columns, (size_t)screen->rows, &bytes);
    play(screen, &bytes);
}

/* The rows, with a bar between them, and without the spaces and rows at their end; valid until the next but one. */
static const char *shown(const Screen *screen) {
    static char texts[2][MOST_ROWS * MOST_COLUMNS * 8];
    static int last;
    char *text = texts[last = !last];
    size_t n = 0, end = 0;
    for (int i = 0; i < screen->rows; i++) {
        if (i > 0) text[n++] = '|';
        size_t row_end = n;
        for (int j = 0; j < screen->columns; j++) {
            const char *cell = screen->cells[i][j];
            if (*cell == SECOND) continue;
            n += (size_t)sprintf(text + n, "%s", *cell ? cell : " ");
            if (*cell && *cell != ' ') row_end = end = n;
        }
        n = row_end;
    }
    text[end] = '\0';
    return text;
}

static void test_screens(void) {
    static const struct {
        int columns, rows;
        const char *keys, *shown;
        int row, column;
    } cases[] = {
        {20, 5, "hello", "> hello", 0, 7},
        {20, 5, "hello\x01", "> hello", 0, 2},
        {10, 5, "abcdefg", "> abcdefg", 0, 9},
        {10, 5, "abcdefgh", "> abcdefgh", 1, 0},
        {10, 5, "abcdefgh\x02", "> abcdefgh", 0, 9},
        {10, 5, "abcdefghi", "> abcdefgh|i", 1, 1},
        {10, 5, "abcdefghi\x01", "> abcdefgh|i", 0, 2},
        {10, 5, "abcdefg\xe6\x97\xa5", "> abcdefg|\xe6\x97\xa5", 1,
         2}, /* a wide one has no room in the last column */
        {10, 5, "abcdefg\xe6\x97\xa5\x02", "> abcdefg|\xe6\x97\xa5", 1, 0},
        {20, 5, "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\x02X", "> \xe6\x97\xa5\xe6\x9c\xacX\xe8\xaa\x9e", 0, 7},
        {20, 5, "a" E_ACUTE "b\x02", "> a" E_ACUTE "b", 0, 4},
        {20, 5, "a\tb", "> a     b", 0, 9},
        {10, 5, "abcde\t\t", "> abcde", 1, 8},
        {20, 5, "\033[200~\033]0;x\x07\033[201~", "> \\u001b]0;x\\u0007", 0, 18},
        {20, 5,
         "\xe2\x80\xae"
         "a\x01\x06",
         "> \\u202ea", 0, 8},
        {10, 5, "\xe2\x80\xae\xe2\x80\xae", "> \\u202e|\\u202e", 1, 6},
        {20, 5, "ab\033\rcd\033\r", "> ab|cd", 2, 0},
        {20, 5, "ab\033\rcd\033[A", "> ab|cd", 0, 4},
        {10, 5, "abcdefgh\033\rc\033[A", "> abcdefgh|c", 0, 3},
        {10, 3, "a\033\rb\033\rc\033\rd\033\re", "c|d|e", 2, 1},
        {10, 3, "a\033\rb\033\rc\033\rd\033\re\033[A\033[A\033[A", "b|c|d", 0, 1},
        {10, 3, "a\033\rb\033\rc\033\rd\033\re\033[A\033[A\033[A\033[A", "> a|b|c", 0, 3},
        {10, 1, "abcdefghij", "ij", 0, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int colour = 0; colour < 2; colour++) {
            Screen screen = {.columns = cases[i].columns, .rows = cases[i].rows};
            Editor *editor = editor_new("> ", colour);
            for (const char *key = cases[i].keys; *key; key++) {
                editor_press(editor, *key);
                draw(editor, &screen);
            }
            CHECK(strcmp(shown(&screen), cases[i].shown) == 0 && screen.row == cases[i].row &&
                      screen.column == cases[i].column && !screen.full,
                  "case %zu: '%s', %d %d", i, shown(&screen), screen.row, screen.column);
            editor_free(editor);
        }
}

/* Where a line begins further down, it scrolls; below it the next one begins; Ctrl-L leaves it alone on the screen. */
static void test_place(void) {
    Screen screen = {.columns = 10, .rows = 4};
    Editor *editor = editor_new("> ", false);
    TextBuffer bytes = {0};
    text_append(&bytes, "x\r\ny\r\n", 6);
    play(&screen, &bytes);
    press(editor, "abcdefghijk\x01");
    draw(editor, &screen);
    CHECK(strcmp(shown(&screen), "x|y|> abcdefgh|ijk") == 0, "%s", shown(&screen));
    press(editor, "\x05lmnopqrst");
    draw(editor, &screen);
    CHECK(strcmp(shown(&screen), "y|> abcdefgh|ijklmnopqr|st") == 0, "%s", shown(&screen));
    press(editor, "\x01");
    draw(editor, &screen);
    editor_leave(editor, &bytes);
    play(&screen, &bytes);
    editor_next(editor);
    press(editor, "n");
    draw(editor, &screen);
    CHECK(strcmp(shown(&screen), "> abcdefgh|ijklmnopqr|st|> n") == 0, "%s", shown(&screen));
    press(editor, "\x0c");
    draw(editor, &screen);
    CHECK(strcmp(shown(&screen), "> n") == 0 && screen.row == 0 && screen.column == 3, "%s", shown(&screen));
    editor_free(editor);
}

/* Breaks rows again at another width, as terminals do that keep what has no room: each row by itself. */
static void resize(Screen *screen, int columns) {
    static Screen before;
    before = *screen;
    *screen = (Screen){.columns = columns, .rows = before.rows};
    for (int i = 0, to = 0; i < before.rows && to < screen->rows; i++) {
        int used = before.columns;
        while (used > 0 && !*before.cells[i][used - 1]) used--;
        for (int j = 0; j < used; j++)
            memcpy(screen->cells[to + j / columns][j % columns], before.cells[i][j], CELL);
        if (i == before.row)
            screen->row = to + before.column / columns, screen->column = before.column % columns;
        to += used > 0 ? (used + columns - 1) / columns : 1;
    }
}

/* A long line behind a row of none, the cursor within it. */
static void type_rows(Editor *editor) {
    press(editor, "\033\r\033\r");
    for (int i = 0; i < 5; i++) press(editor, "0123456789abcdefghij");
    press(editor, "\033\rrow\033\rthe last row, of more than 16\x01\033[A\033[A");
}

static void test_resize(void) {
    Screen screen = {.columns = 30, .rows = 20};
    Editor *editor = editor_new("> ", false);
    TextBuffer bytes = {0};
    text_append(&bytes, "above\r\n", 7);
    play(&screen, &bytes);
    type_rows(editor);
    draw(editor, &screen);
    static const int widths[] = {16, 30, 25, 40, 12};
    for (size_t i = 0; i < COUNT(widths); i++) {
        Screen fresh = {.columns = widths[i], .rows = 20};
        Editor *other = editor_new("> ", false);
        resize(&screen, widths[i]);
        draw(editor, &screen);
        text_append(&bytes, "above\r\n", 7);
        play(&fresh, &bytes);
        type_rows(other);
        draw(other, &fresh);
        CHECK(strcmp(shown(&screen), shown(&fresh)) == 0 && screen.row == fresh.row &&
                  screen.column == fresh.column,
              "%d columns: '%s', not '%s'; %d %d, not %d %d", widths[i], shown(&screen), shown(&fresh),
              screen.row, screen.column, fresh.row, fresh.column);
        editor_free(other);
    }
    editor_free(editor);
}

static uint64_t random_state = 1;
static unsigned below(unsigned n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

/* Key by key the screen becomes what it is where the line is drawn at once. */
static void test_drawn_at_once(void) {
    static const char *const keys[] = {
        "a",    "b ",   "\xe6\x97\xa5", E_ACUTE, GERMANY, "\t",     "\033\r", "\x7f",
        "\x02", "\x06", "\x01",         "\x05",  "\x17",  "\033[A", "\033[B", "\x15",
        "\x0b", "\x19", "\xe2\x80\xae", "\033b", "\033f", "\x04",   "word ",  "\xff"};
    for (int i = 0; i < 60; i++) {
        Screen screen = {.columns = 8 + (int)below(20), .rows = 40};
        Editor *editor = editor_new("> ", false);
        TextBuffer bytes = {0};
        press(editor, "x");
        for (int j = 0; j < 60; j++) {
            Screen fresh = {.columns = screen.columns, .rows = 40};
            press(editor, keys[below((unsigned)COUNT(keys))]);
            draw(editor, &screen);
            if (j % 6) continue;
            editor_leave(editor, &bytes);
            bytes.n = 0;
            draw(editor, &fresh);
            CHECK(strcmp(shown(&screen), shown(&fresh)) == 0 && fresh.row == screen.row &&
                      fresh.column == screen.column,
                  "%d, %d: '%s', not '%s'; %d %d, not %d %d", i, j, shown(&screen), shown(&fresh), screen.row,
                  screen.column, fresh.row, fresh.column);
        }
        free(bytes.data);
        editor_free(editor);
    }
}

/* ---- Anything ---- */

static void test_any_keys(void) {
    static const char *const pieces[] = {"\033[", "\033O", "\033[200~", "\033[201~", "\033", "~", ";5", "\r"};
    for (int i = 0; i < 1500; i++) {
        unsigned char keys[400];
        size_t n = 0;
        while (n < 60 + below(300)) {
            const char *piece = below(4) ? NULL : pieces[below((unsigned)COUNT(pieces))];
            if (!piece) keys[n++] = (unsigned char)(below(3) ? below(128) : below(256));
            for (; piece && *piece; piece++) keys[n++] = (unsigned char)*piece;
        }
        const char *wrong = try_keys(keys, n);
        CHECK(!wrong, "%d: %s", i, wrong);
    }
}

/* Bytes beyond 16 MiB have no room and are not taken; and a paste that large takes no longer than reading it. */
static void test_long(void) {
    enum { MIB = 1 << 20 };
    Editor *editor = editor_new("> ", false);
    TextBuffer screen = {0};
    press(editor, "ab\x02");
    for (int i = 0; i < 2; i++) {
        press(editor, "\033[200~");
        for (int j = 0; j < 12 * MIB; j++) editor_press(editor, 'x');
        press(editor, "\033[201~");
        CHECK(editor_line(editor)->n == 12 * MIB + 2, "%zu bytes", editor_line(editor)->n);
    }
    editor_draw(editor, 80, 24, &screen);
    CHECK(screen.n < 6000 && memchr(screen.data, '\a', screen.n), "%zu bytes drawn", screen.n);
    free(screen.data);
    editor_free(editor);
}

/* ---- Characters ---- */

/* Where the C library has another opinion, in Unicode 15: formats that are shown in another form, or rare; and these two. */
static bool is_disputed(uint32_t c) {
    return !utf8_is_safe(c) || c == 0x180e || (c >= 0x13430 && c <= 0x13438) ||
           (c >= 0x1bca0 && c <= 0x1bca3) || (c >= 0x1d173 && c <= 0x1d17a) || (c >= 0x3248 && c <= 0x324f) ||
           (c >= 0x4dc0 && c <= 0x4dff);
}

static void test_widths(void) {
    static const struct {
        uint32_t c;
        size_t width;
    } cases[] = {{'a', 1},     {0xe9, 1},    {0x301, 0},   {0x10ff, 1},  {0x1100, 2},  {0x1160, 0},
                 {0x200d, 0},  {0x231a, 2},  {0x2500, 1},  {0x2e80, 2},  {0x3000, 2},  {0x303f, 1},
                 {0x3248, 1},  {0x4e00, 2},  {0xac00, 2},  {0xd7a3, 2},  {0xd7a4, 1},  {0xf900, 2},
                 {0xfe0f, 0},  {0xff01, 2},  {0xff61, 1},  {0x1f1e6, 1}, {0x1f300, 2}, {0x1f321, 1},
                 {0x1f600, 2}, {0x20000, 2}, {0x3fffd, 2}, {0x3fffe, 1}, {0x10ffff, 1}};
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK(unicode_width(cases[i].c) == cases[i].width, "U+%04X: %zu", (unsigned)cases[i].c,
              unicode_width(cases[i].c));
#ifndef __GLIBC__
    SKIP("no other opinion: this C library's widths are of another Unicode");
#endif
    size_t n_compared = 0, n_differ = 0;
    for (uint32_t c = ' '; c < 0x110000; c++) {
        int width = wcwidth((wchar_t)c);
        if (width < 0 || is_disputed(c)) continue;
        n_compared++;
        if (unicode_width(c) == (size_t)width) continue;
        if (n_differ++ < 10)
            printf("U+%04X: %zu, by the C library %d\n", (unsigned)c, unicode_width(c), width);
    }
    CHECK(n_compared > 100000 && n_differ < 400, "%zu of %zu differ", n_differ, n_compared);
}

/* As python3-regex's \\X has them. */
static void test_clusters(void) {
    static const struct {
        const char *text;
        size_t n;
    } cases[] = {
        {"a\u200cb", 4},      /* a joiner */
        {"a\u200d\u3042", 4}, /* joins pictures only */
        {"\U0001f468\u200d\U0001f680\u3042", 11},
        {"\U0001f44d\U0001f3fbx", 8}, /* the colour of a skin */
        {"\uff76\uff9e\uff76", 6},    /* a half-wide voiced kana */
        {"\uac00\u11a8\uac00", 6},    /* Hangul, and its older letters */
        {"\ua960\u1160\u1100", 6},
        {"\uac00\u3042", 3},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t n = unicode_cluster(cases[i].text, strlen(cases[i].text));
        CHECK(n == cases[i].n, "case %zu: %zu", i, n);
    }
}

int main(void) {
    if (!setlocale(LC_CTYPE, "C.UTF-8") && !setlocale(LC_CTYPE, "en_US.UTF-8")) {
        puts("skipped: no locale with UTF-8");
        return test_end();
    }
    RUN(test_keys);
    RUN(test_events);
    RUN(test_long_paste);
    RUN(test_history);
    RUN(test_screens);
    RUN(test_place);
    RUN(test_resize);
    RUN(test_drawn_at_once);
    RUN(test_any_keys);
    RUN(test_long);
    RUN(test_widths);
    RUN(test_clusters);
    return test_end();
}
