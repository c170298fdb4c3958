/* Errors are values: a function that can fail returns false or NULL and says here what went wrong. */
#ifndef ATTN_ERROR_H
#define ATTN_ERROR_H

#include <stdbool.h>

/* One line for a person: what, where (file, key, tensor), what to do. Never ends in a newline. */
typedef struct Error {
    char message[512];
    /* The question was put wrongly, whatever a file holds: exit code 2. error_set clears it; who knows so sets it afterwards. */
    bool usage;
} Error;

/*
 * Writes the formatted line to `error` (which may be NULL) and returns false, so that a function can
 * end with `return error_set(error, …)`. What is not safe to show (base/utf8.h), and a hostile file may put into
 * a name, gets its visible form; a line that is too long loses its middle.
 */
bool error_set(Error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
