/* Any bytes as keys: the line stays UTF-8, the cursor between two characters, and the screen gets nothing that steers it but ours. */
#ifndef ATTN_TEST_ANYKEYS_H
#define ATTN_TEST_ANYKEYS_H

#include "base/utf8.h"
#include "cli/editor.h"
#include "unicode/width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of a control that the editor itself writes: colours, a way up or down, the rest or all of the screen wiped. */
static size_t own_control(const char *text, size_t n) {
    static const char *const whole[] = {"\r\n",       "\r\033[J", "\r",           "\a",
                                        "\033[1;32m", "\033[0m",  "\033[H\033[2J"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (n >= strlen(whole[i]) && memcmp(text, whole[i], strlen(whole[i])) == 0) return strlen(whole[i]);
    size_t digits = n > 3 && memcmp(text, "\033[", 2) == 0 ? strspn(text + 2, "0123456789") : 0;
    return digits > 0 && digits < 6 && strchr("AB", text[2 + digits]) ? digits + 3 : 0;
}

/* Says what is wrong with the editor, or with what it has just drawn; NULL: nothing. */
static const char *wrong_with(const Editor *editor, const TextBuffer *screen) {
    const TextBuffer *line = editor_line(editor);
    size_t cursor = editor_cursor(editor), at = 0;
    uint32_t c;
    while (at < line->n) {
        at += utf8_decode(line->data + at, line->n - at, &c);
        if (c >= UTF8_INVALID) return "the line is no UTF-8";
    }
    if (cursor > line->n) return "the cursor is behind the line";
    for (at = 0; at < cursor;) at += unicode_cluster(line->data + at, line->n - at);
    if (at != cursor) return "the cursor is within a character";
    for (at = 0; at < screen->n;) {
        size_t own = own_control(screen->data + at, screen->n - at);
        at += own ? own : utf8_decode(screen->data + at, screen->n - at, &c);
        if (!own && (c < ' ' || !utf8_is_safe(c))) return "the screen gets what is not safe";
    }
    return NULL;
}

/* Presses n keys, on a terminal that the first two say the size of; what then is wrong. */
static const char *try_keys(const unsigned char *keys, size_t n) {
    Editor *editor = editor_new("> ", n > 0 && keys[0] % 2);
    size_t columns = n > 0 ? keys[0] % 40 : 20, rows = n > 1 ? keys[1] % 12 : 5;
    const char *wrong = editor ? NULL : "no memory";
    for (size_t i = 2; !wrong && i < n; i++) {
        TextBuffer screen = {0};
        EditorEvent event = editor_press(editor, (char)keys[i]);
        if (event == EDITOR_SUSPEND) columns = 7 + columns % 50; /* somebody has resized it meanwhile */
        editor_draw(editor, columns, rows, &screen);
        if (event != EDITOR_GOES_ON && event != EDITOR_SUSPEND) {
            wrong = wrong_with(editor, &screen);
            editor_leave(editor, &screen);
            editor_next(editor);
        }
        if (!wrong) wrong = wrong_with(editor, &screen);
        free(screen.data);
    }
    editor_free(editor);
    return wrong;
}

#endif
