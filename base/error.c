#include "base/error.h"

#include "base/locale.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Copies a line as a terminal may show it, as far as there is room. Returns its length. */
static size_t show_line(char *to, size_t room, const char *from) {
    size_t used = 0;
    char shown[16];
    for (size_t at = 0, n = strlen(from); at < n;) {
        at += utf8_show(from + at, n - at, shown);
        size_t length = strlen(shown);
        if (used + length >= room) break;
        memcpy(to + used, shown, length);
        used += length;
    }
    to[used] = '\0';
    return used;
}

bool error_set(Error *error, const char *format, ...) {
    if (!error) return false;
    char text[8192], line[8192]; /* room for the longest path and for what is wrong with it */
    va_list args;
    const PlainLocale locale = locale_begin();
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    locale_end(locale);
    static const char gap[] = " ... ";
    size_t n = show_line(line, sizeof line, text), room = sizeof error->message - 1;
    if (n > room) {
        size_t head = room / 4, tail = n - (room - head - (sizeof gap - 1));
        while (utf8_continues(line[head])) head--;
        while (utf8_continues(line[tail])) tail++;
        memcpy(line + head, gap, sizeof gap - 1);
        memmove(line + head + sizeof gap - 1, line + tail, n - tail + 1);
    }
    memcpy(error->message, line, strlen(line) + 1);
    error->usage = false;
    return false;
}
