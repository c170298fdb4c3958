#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool error_set(Error *error, const char *format, ...) {
    if (!error) return false;
    char line[8192]; /* room for the longest path and for what is wrong with it */
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    static const char gap[] = " ... ";
    size_t n = strlen(line), room = sizeof error->message - 1, head = room / 4;
    if (n > room) {
        size_t tail = room - head - (sizeof gap - 1);
        memcpy(line + head, gap, sizeof gap - 1);
        memmove(line + head + sizeof gap - 1, line + n - tail, tail + 1);
    }
    memcpy(error->message, line, strlen(line) + 1);
    for (char *c = error->message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return false;
}
