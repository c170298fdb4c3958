#include "cli/editor.h"

#include "base/utf8.h"
#include "cli/input.h"
#include "cli/print.h"
#include "unicode/width.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CTRL(letter) ((letter)&0x1f)
enum { ESCAPE = 033, BACKSPACE = 0x7f, ALT = 0x100, DELETE = 0x200, PASTE };
enum { TAB_STOP = 8, LEAST_COLUMNS = 8, LONGEST_SEQUENCE = 12 };

struct Editor {
    const char *prompt;
    bool colour;
    TextBuffer line;
    size_t cursor;
    TextBuffer cut; /* what went last */

    TextBuffer
        *typed; /* [n_typed + 1] the lines before; the last is the new line while another one is shown */
    size_t n_typed, capacity;
    size_t shown; /* the one of them that the line is a copy of; n_typed: none */

    /* The state within a key, or a character, that is not whole yet. */
    enum { PLAIN, AFTER_ESCAPE, IN_SEQUENCE, LINUX_KEY } state;
    char sequence[LONGEST_SEQUENCE]; /* behind "ESC [", or the O of "ESC O" and what is behind it */
    size_t n_sequence;
    char bytes[4];
    size_t n_bytes;
    bool pastes, pastes_too_much;
    size_t n_end; /* bytes of what ends a paste */
    TextBuffer pasted;

    /* The state of the screen. */
    bool rings, clears;
    size_t columns, top; /* columns 0: nothing is shown; the first row */
    size_t above, below; /* rows on the screen that are not the cursor's */
};

Editor *editor_new(const char *prompt, bool colour) {
    Editor *editor = calloc(1, sizeof *editor);
    TextBuffer *typed = grow(NULL, sizeof *typed, 1, &(size_t){0});
    if (!editor || !typed) {
        free(editor);
        free(typed);
        return NULL;
    }
    typed[0] = (TextBuffer){0};
    *editor = (Editor){.prompt = prompt, .colour = colour, .typed = typed, .capacity = 1};
    return editor;
}

void editor_free(Editor *editor) {
    if (!editor) return;
    for (size_t i = 0; i <= editor->n_typed; i++) free(editor->typed[i].data);
    free(editor->typed);
    free(editor->line.data);
    free(editor->cut.data);
    free(editor->pasted.data);
    free(editor);
}

const TextBuffer *editor_line(const Editor *editor) { return &editor->line; }
size_t editor_cursor(const Editor *editor) { return editor->cursor; }

/* ---- Places in the line ---- */

static size_t row_begin(const Editor *editor, size_t at) {
    while (at > 0 && editor->line.data[at - 1] != '\n') at--;
    return at;
}

static size_t row_end(const Editor *editor, size_t at) {
    while (at < editor->line.n && editor->line.data[at] != '\n') at++;
    return at;
}

static size_t behind(const Editor *editor, size_t at) {
    return at < editor->line.n ? at + unicode_cluster(editor->line.data + at, editor->line.n - at) : at;
}

static size_t before(const Editor *editor, size_t at) {
    size_t from = row_begin(editor, at), next;
    if (from == at) return at - (at > 0);
    while ((next = behind(editor, from)) < at) from = next;
    return from;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

static size_t word_begin(const Editor *editor) {
    size_t at = editor->cursor;
    while (at > 0 && is_space(editor->line.data[at - 1])) at--;
    while (at > 0 && !is_space(editor->line.data[at - 1])) at--;
    return at;
}

static size_t word_end(const Editor *editor) {
    size_t at = editor->cursor;
    while (at < editor->line.n && is_space(editor->line.data[at])) at++;
    while (at < editor->line.n && !is_space(editor->line.data[at])) at++;
    return at;
}

/* Puts the cursor there; within a character, as where a mark has lost the letter before it, behind that. */
static void go_to(Editor *editor, size_t at) {
    editor->cursor = row_begin(editor, at);
    while (editor->cursor < at) editor->cursor = behind(editor, editor->cursor);
}

/* ---- Changes ---- */

/* Puts n bytes in the place of those from `from` to `to`, and the cursor behind them. What has no room is not taken. */
static void replace(Editor *editor, size_t from, size_t to, const char *bytes, size_t n) {
    TextBuffer *line = &editor->line;
    size_t n_before = line->n, longer = n > to - from ? n - (to - from) : 0;
    if (n == 0 && from == to) return;
    if (longer > MAX_LINE_BYTES - line->n || (longer && !text_append(line, bytes, longer))) {
        editor->rings = true;
        return;
    }
    memmove(line->data + from + n, line->data + to, n_before - to);
    if (n) memcpy(line->data + from, bytes, n);
    line->n = n_before - (to - from) + n;
    go_to(editor, from + n);
}

static void cut(Editor *editor, size_t from, size_t to) {
    if (from == to) return;
    editor->cut.n = 0;
    if (!text_append(&editor->cut, editor->line.data + from, to - from)) editor->rings = true;
    replace(editor, from, to, "", 0);
}

/* A byte of a character; what is none becomes U+FFFD. */
static void type(Editor *editor, char byte) {
    uint32_t c;
    editor->bytes[editor->n_bytes++] = byte;
    while (editor->n_bytes > 0) {
        size_t length = utf8_decode(editor->bytes, editor->n_bytes, &c);
        if (c == UTF8_CUT) return;
        bool valid = c < UTF8_INVALID;
        replace(editor, editor->cursor, editor->cursor, valid ? editor->bytes : "\xef\xbf\xbd",
                valid ? length : 3);
        editor->n_bytes -= length;
        memmove(editor->bytes, editor->bytes + length, editor->n_bytes);
    }
}

static void end_character(Editor *editor) {
    if (editor->n_bytes > 0) replace(editor, editor->cursor, editor->cursor, "\xef\xbf\xbd", 3);
    editor->n_bytes = 0;
}

/* Takes what was pasted, as UTF-8 with newlines alone. */
static void end_paste(Editor *editor) {
    TextBuffer text = {0};
    const char *from = editor->pasted.data;
    size_t n = editor->pasted.n, length;
    bool ok = !editor->pastes_too_much;
    for (size_t at = 0; ok && at < n; at += length) {
        uint32_t c;
        length = utf8_decode(from + at, n - at, &c);
        if (c == '\r' && at + 1 < n && from[at + 1] == '\n') continue;
        ok = c == '\r'           ? text_append(&text, "\n", 1)
             : c >= UTF8_INVALID ? text_append(&text, "\xef\xbf\xbd", 3)
                                 : text_append(&text, from + at, length);
    }
    if (ok && text.n > 0) replace(editor, editor->cursor, editor->cursor, text.data, text.n);
    editor->rings = editor->rings || !ok;
    editor->pastes = editor->pastes_too_much = false;
    editor->n_end = 0;
    free(text.data);
    free(editor->pasted.data);
    editor->pasted = (TextBuffer){0};
}

static void paste(Editor *editor, char byte) {
    static const char end[] = "\033[201~";
    TextBuffer *pasted = &editor->pasted;
    editor->n_end = byte == end[editor->n_end] ? editor->n_end + 1 : byte == ESCAPE;
    if (pasted->n > MAX_LINE_BYTES || !text_append(pasted, &byte, 1)) editor->pastes_too_much = true;
    if (editor->n_end < sizeof end - 1) return;
    pasted->n = pasted->n < editor->n_end ? 0 : pasted->n - editor->n_end;
    end_paste(editor);
}

/* ---- Lines typed before ---- */

void editor_next(Editor *editor) {
    TextBuffer *last = &editor->typed[editor->n_typed], *line = &editor->line;
    bool same =
        editor->n_typed > 0 && last[-1].n == line->n && memcmp(last[-1].data, line->data, line->n) == 0;
    free(last->data);
    *last = (TextBuffer){0};
    TextBuffer *larger = line->n == 0 || same ? NULL
                         : editor->n_typed + 2 <= editor->capacity
                             ? editor->typed
                             : grow(editor->typed, sizeof *larger, editor->n_typed + 2, &editor->capacity);
    if (larger) {
        editor->typed = larger;
        larger[editor->n_typed++] = *line;
        larger[editor->n_typed] = *line = (TextBuffer){0};
    }
    line->n = editor->cursor = 0;
    editor->shown = editor->n_typed;
}

static void recall(Editor *editor, size_t which) {
    TextBuffer *line = &editor->line, *new_line = &editor->typed[editor->n_typed];
    if (which > editor->n_typed) return;
    if (editor->shown == editor->n_typed) {
        free(new_line->data);
        *new_line = *line;
        *line = (TextBuffer){0};
    }
    line->n = 0;
    if (!text_append(line, editor->typed[which].data, editor->typed[which].n)) editor->rings = true;
    editor->shown = which;
    editor->cursor = line->n;
}

/* A row up or down, at the same character; from the first and the last one to another line. */
static void change_row(Editor *editor, bool down) {
    size_t begin = row_begin(editor, editor->cursor), end = row_end(editor, editor->cursor), to;
    if (down ? end == editor->line.n : begin == 0) {
        recall(editor,
               down ? editor->shown + 1 : editor->shown - 1); /* of 0 that is beyond all of them, too */
        return;
    }
    to = down ? end + 1 : row_begin(editor, begin - 1);
    for (size_t at = begin; at < editor->cursor && to < row_end(editor, to); at = behind(editor, at))
        to = behind(editor, to);
    editor->cursor = to;
}

/* ---- Keys ---- */

static EditorEvent act(Editor *editor, int key) {
    size_t at = editor->cursor, n = editor->line.n, begin = row_begin(editor, at), end = row_end(editor, at);
    switch (key) {
    case '\r':
    case '\n': editor->cursor = n; return EDITOR_LINE;
    case CTRL('C'):
        if (n == 0) return EDITOR_INTERRUPT;
        cut(editor, 0, n);
        break;
    case CTRL('D'):
        if (n == 0) return EDITOR_END;
        replace(editor, at, behind(editor, at), "", 0);
        break;
    case CTRL('Z'): return EDITOR_SUSPEND;
    case CTRL('\\'): return EDITOR_QUIT;
    case '\t': replace(editor, at, at, "\t", 1); break;
    case ALT | '\r':
    case ALT | '\n': replace(editor, at, at, "\n", 1); break;
    case CTRL('L'): editor->clears = true; break;
    case PASTE: editor->pastes = true; break;
    case CTRL('B'): go_to(editor, before(editor, at)); break;
    case CTRL('F'): go_to(editor, behind(editor, at)); break;
    case ALT | 'b': go_to(editor, word_begin(editor)); break;
    case ALT | 'f': go_to(editor, word_end(editor)); break;
    case CTRL('A'): editor->cursor = begin; break;
    case CTRL('E'): editor->cursor = end; break;
    case CTRL('P'): change_row(editor, false); break;
    case CTRL('N'): change_row(editor, true); break;
    case BACKSPACE:
    case CTRL('H'): replace(editor, before(editor, at), at, "", 0); break;
    case DELETE: replace(editor, at, behind(editor, at), "", 0); break;
    case ALT | BACKSPACE:
    case ALT | CTRL('H'):
    case CTRL('W'): cut(editor, word_begin(editor), at); break;
    case ALT | 'd': cut(editor, at, word_end(editor)); break;
    case CTRL('U'): cut(editor, begin < at || at == 0 ? begin : at - 1, at); break; /* or the newline */
    case CTRL('K'): cut(editor, at, end > at || end == n ? end : at + 1); break;
    case CTRL('Y'): replace(editor, at, at, editor->cut.data, editor->cut.n); break;
    default: break;
    }
    return EDITOR_GOES_ON;
}

/* The key that a whole sequence stands for; 0: none that is known. Of xterm, VT220, rxvt and the console of Linux. */
static int key_of(const char *sequence) {
    static const struct {
        const char *sequence;
        int key;
    } keys[] = {
        {"A", CTRL('P')},    {"OA", CTRL('P')},   {"B", CTRL('N')},    {"OB", CTRL('N')}, {"C", CTRL('F')},
        {"OC", CTRL('F')},   {"D", CTRL('B')},    {"OD", CTRL('B')},   {"H", CTRL('A')},  {"OH", CTRL('A')},
        {"1~", CTRL('A')},   {"7~", CTRL('A')},   {"F", CTRL('E')},    {"OF", CTRL('E')}, {"4~", CTRL('E')},
        {"8~", CTRL('E')},   {"1;5C", ALT | 'f'}, {"1;3C", ALT | 'f'}, {"5C", ALT | 'f'}, {"Oc", ALT | 'f'},
        {"1;5D", ALT | 'b'}, {"1;3D", ALT | 'b'}, {"5D", ALT | 'b'},   {"Od", ALT | 'b'}, {"3~", DELETE},
        {"3;5~", ALT | 'd'}, {"200~", PASTE},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].sequence, sequence) == 0) return keys[i].key;
    return 0;
}

/* A byte of a sequence (ECMA-48, section 5.4), which its last one ends; what is too long is no key. */
static int continue_sequence(Editor *editor, unsigned char byte) {
    bool of_console = editor->n_sequence == 0 && byte == '[';
    if (editor->n_sequence < LONGEST_SEQUENCE - 1) editor->sequence[editor->n_sequence++] = (char)byte;
    if (byte < 0x40) return 0;
    editor->state = of_console ? LINUX_KEY : PLAIN; /* F1 to F5 there: "ESC [ [ A" */
    editor->sequence[editor->n_sequence] = '\0';
    return of_console ? 0 : key_of(editor->sequence);
}

EditorEvent editor_press(Editor *editor, char byte) {
    const unsigned char c = (unsigned char)byte;
    int key = c;
    if (editor->pastes && c != CTRL('C')) { /* which gets a person out of a paste that does not end */
        paste(editor, byte);
        return EDITOR_GOES_ON;
    }
    if (editor->pastes) end_paste(editor);
    bool is_text = c >= ' ' && c != BACKSPACE;
    if (!is_text && (editor->state == IN_SEQUENCE || editor->state == LINUX_KEY)) editor->state = PLAIN;
    switch (editor->state) {
    case PLAIN:
        if (is_text) {
            type(editor, byte);
            return EDITOR_GOES_ON;
        }
        end_character(editor);
        if (c == ESCAPE) editor->state = AFTER_ESCAPE;
        break;
    case AFTER_ESCAPE:
        if (c == ESCAPE) break;
        editor->state = c == '[' || c == 'O' ? IN_SEQUENCE : PLAIN;
        editor->sequence[0] = 'O';
        editor->n_sequence = c == 'O';
        if (c >= 0x80) type(editor, byte);
        key = editor->state == PLAIN ? ALT | c : 0;
        break;
    case IN_SEQUENCE: key = continue_sequence(editor, c); break;
    case LINUX_KEY:
        editor->state = PLAIN;
        key = 0;
        break;
    }
    return act(editor, key);
}

/* ---- The screen ---- */

/* A way through the rows of the line, as they are on a terminal of so many columns. */
typedef struct Walk {
    size_t columns, stop;
    TextBuffer *screen; /* what gets the rows from first to last; or NULL */
    size_t first, last;
    size_t reflowed; /* columns of a terminal that breaks again what was broken for `columns` */

    size_t row, column;       /* where it is */
    bool passed;              /* the cursor */
    size_t cursor_row, above; /* rows, broken again, from `first` to the cursor's */
} Walk;

static bool is_shown(const Walk *walk) {
    return walk->screen && walk->row >= walk->first && walk->row <= walk->last;
}

static void put(Walk *walk, const char *text, size_t n) {
    if (is_shown(walk)) text_append(walk->screen, text, n);
}

/* The columns of a character of n bytes; what comes behind U+FE0F may be wide or not. */
static size_t width_of(const char *text, size_t n, size_t column) {
    char shown[16];
    size_t width = 0;
    uint32_t c;
    if (text[0] == '\t') return TAB_STOP - column % TAB_STOP;
    if (n == 1 && text[0] >= ' ' && text[0] <= '~') return 1;
    for (size_t at = 0; at < n;) {
        utf8_decode(text + at, n - at, &c);
        at += utf8_show(text + at, n - at, shown);
        width += c < ' ' || !utf8_is_safe(c) ? strlen(shown) : unicode_width(c) + (c == 0xfe0f);
    }
    return width;
}

static void show(Walk *walk, const char *text, size_t n) {
    char shown[16];
    size_t width = width_of(text, n, walk->column);
    for (size_t i = 0; text[0] == '\t' && i < width; i++) put(walk, " ", 1);
    for (size_t at = 0; text[0] != '\t' && at < n && is_shown(walk);) {
        at += utf8_show(text + at, n - at, shown);
        put(walk, shown, strlen(shown));
    }
    walk->column += width;
}

static void end_row(Walk *walk) {
    if (walk->row < walk->last) put(walk, "\r\n", 2);
    if (walk->reflowed && !walk->passed && walk->row >= walk->first)
        walk->above += walk->column ? (walk->column + walk->reflowed - 1) / walk->reflowed : 1;
    walk->row++;
    walk->column = 0;
}

/* A character that has no room in its row begins the next one, and so does the cursor. */
static void take(const Editor *editor, Walk *walk) {
    const TextBuffer *line = &editor->line;
    size_t length;
    put(walk, editor->prompt, strlen(editor->prompt));
    walk->column = strlen(editor->prompt);
    if (walk->screen && editor->colour) text_append(walk->screen, TYPED_BEGIN, sizeof TYPED_BEGIN - 1);
    for (size_t at = 0;; at += length) {
        bool ends = at == line->n, breaks = !ends && line->data[at] == '\n';
        const char *text = ends ? "" : line->data + at; /* NULL where nothing is typed */
        length = ends ? 0 : unicode_cluster(text, line->n - at);
        size_t width = ends || breaks ? at == editor->cursor : width_of(text, length, walk->column);
        if (walk->column > 0 && walk->column + width > walk->columns) end_row(walk);
        if (at == editor->cursor) {
            walk->cursor_row = walk->row;
            walk->passed = true;
            if (walk->reflowed) walk->above += walk->column / walk->reflowed;
        }
        if (ends || at == walk->stop) break;
        if (breaks)
            end_row(walk);
        else
            show(walk, text, length);
    }
    if (walk->screen && editor->colour) text_append(walk->screen, TYPED_END, sizeof TYPED_END - 1);
}

static void move(TextBuffer *screen, size_t rows, char direction) {
    char text[32];
    if (rows > 0)
        text_append(screen, text, (size_t)snprintf(text, sizeof text, "\033[%zu%c", rows, direction));
}

static void write_control(TextBuffer *screen, const char *control) {
    text_append(screen, control, strlen(control));
}

void editor_draw(Editor *editor, size_t columns, size_t rows, TextBuffer *screen) {
    const size_t n = editor->line.n;
    if (columns < LEAST_COLUMNS) columns = LEAST_COLUMNS;
    if (rows == 0) rows = 1;
    if (editor->columns &&
        editor->columns != columns) { /* most terminals break rows again that have become too long */
        Walk shown = {.columns = editor->columns, .stop = n, .first = editor->top, .reflowed = columns};
        take(editor, &shown);
        editor->above = shown.above;
    }
    Walk all = {.columns = columns, .stop = n};
    take(editor, &all);
    size_t most = all.row + 1 > rows ? all.row + 1 - rows : 0, to = all.cursor_row; /* of the top */
    if (editor->top + rows <= to) editor->top = to + 1 - rows;
    if (editor->top > to) editor->top = to;
    if (editor->top > most) editor->top = most;

    if (editor->clears) write_control(screen, "\033[H\033[2J");
    if (!editor->clears) move(screen, editor->above, 'A');
    write_control(screen, "\r\033[J");
    size_t last = editor->top + rows - 1 < all.row ? editor->top + rows - 1 : all.row;
    take(editor,
         &(Walk){.columns = columns, .stop = n, .screen = screen, .first = editor->top, .last = last});
    move(screen, last - to, 'A');
    write_control(screen, "\r");
    /*
     * Its row up to the cursor once more: so that stands where the terminal takes it to be, whatever widths it knows.
     */
    take(editor,
         &(Walk){.columns = columns, .stop = editor->cursor, .screen = screen, .first = to, .last = to});
    if (editor->rings) write_control(screen, "\a");
    editor->rings = editor->clears = false;
    editor->columns = columns;
    editor->above = to - editor->top;
    editor->below = last - to;
}

void editor_leave(Editor *editor, TextBuffer *screen) {
    move(screen, editor->below, 'B');
    write_control(screen, "\r\n");
    editor->columns = editor->above = editor->below = editor->top = 0;
}
