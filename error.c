#include "error.h"

#include <stdarg.h>
#include <stdio.h>

bool error_set(Error *error, const char *format, ...) {
    if (!error) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    for (char *c = error->message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return false;
}
