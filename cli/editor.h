/*
 * A line that is being typed: in go the bytes that a terminal sends for keys, out come the bytes that show the line
 * there. It reads and writes nothing itself (cli/talk.c does).
 *
 * The line is UTF-8: what is none becomes U+FFFD. The cursor stands between characters as people see them (unicode/width.h).
 * A character that a terminal must not be given (base/utf8.h) is shown in its visible form.
 *
 *   Left, Right, Ctrl-B, Ctrl-F             a character          Backspace, Del, Ctrl-H, Ctrl-D    a character goes
 *   Ctrl- or Alt-Left, -Right, Alt-B, -F    a word               Ctrl-W, Alt-Backspace, Alt-D      a word goes
 *   Home, End, Ctrl-A, Ctrl-E               an end of the row    Ctrl-U, Ctrl-K                    the row up to there goes
 *   Up, Down, Ctrl-P, Ctrl-N                a row, or a line     Ctrl-C                            the line goes
 *                                           typed before         Ctrl-Y                            what went last comes back
 *   Alt-Enter                               another row          Ctrl-L                            clears the screen
 *
 * Pasted text (in brackets, xterm's mode 2004) becomes part of the line as it is, however many rows it has.
 */
#ifndef ATTN_EDITOR_H
#define ATTN_EDITOR_H

#include "base/text.h"

#include <stdbool.h>

typedef struct Editor Editor;

/* A key may ask for more than a change of the line. */
typedef enum EditorEvent {
    EDITOR_GOES_ON,
    EDITOR_LINE,      /* Enter */
    EDITOR_END,       /* Ctrl-D where nothing is typed */
    EDITOR_INTERRUPT, /* Ctrl-C likewise */
    EDITOR_QUIT,      /* Ctrl-\ */
    EDITOR_SUSPEND,   /* Ctrl-Z */
} EditorEvent;

/* The prompt, ASCII, is borrowed. NULL: not enough memory. */
Editor *editor_new(const char *prompt, bool colour);
void editor_free(Editor *editor);

EditorEvent editor_press(Editor *editor, char byte);

/* The line, and how many of its bytes stand before the cursor. */
const TextBuffer *editor_line(const Editor *editor);
size_t editor_cursor(const Editor *editor);

/* Begins another line. Up brings back the one that was, unless it was empty or the same as the one before it. */
void editor_next(Editor *editor);

/*
 * Appends what shows the line on a terminal of this size, in the place of what was shown last. Of a line with more rows
 * than the terminal those around the cursor are shown.
 */
void editor_draw(Editor *editor, size_t columns, size_t rows, TextBuffer *screen);

/* Appends what takes the terminal's cursor below the line, where the next editor_draw begins. */
void editor_leave(Editor *editor, TextBuffer *screen);

#endif
