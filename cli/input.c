#include "cli/input.h"

#include "cli/print.h"
#include "cli/process.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool too_long(const char *name, size_t most, Error *error) {
    return error_set(error, "%s: has more than %zu bytes, the most that is read", name, most);
}

bool read_text(const char *path, size_t most, TextBuffer *text, Error *error) {
    bool from_stdin = strcmp(path, "-") == 0, ok = true;
    const char *name = from_stdin ? "stdin" : path;
    FILE *file = from_stdin ? stdin : fopen(path, "rb");
    struct stat status;
    if (!file) return error_set(error, "%s: cannot open: %s", path, strerror(errno));
    if (!from_stdin && fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode))
        ok = (uint64_t)status.st_size <= most || too_long(name, most, error);
    errno = 0;
    while (ok && !feof(file) && !ferror(file) && !interrupted()) {
        if (text->capacity - text->n < 65536) {
            size_t capacity = 2 * text->capacity + 65536;
            char *data = realloc(text->data, capacity);
            if (!data)
                ok = error_set(error, "%s: not enough memory for its %zu bytes and more", name, text->n);
            if (ok) text->data = data, text->capacity = capacity;
        }
        size_t room = text->capacity - text->n, left = most + 1 - text->n;
        if (ok) text->n += fread(text->data + text->n, 1, room < left ? room : left, file);
        if (ok && text->n > most) ok = too_long(name, most, error);
    }
    if (ok && !feof(file)) /* Ctrl-C sets no errno where it came between two reads */
        ok = error_set(error, "%s: cannot read: %s", name, strerror(interrupted() ? EINTR : errno));
    if (!from_stdin) fclose(file);
    return ok;
}

bool read_line(TextBuffer *line, bool *ends, Error *error) {
    char c = '\0';
    int next = 0;
    line->n = 0;
    while (c != '\n' && line->n <= MAX_LINE_BYTES && (next = getc(stdin)) != EOF) {
        c = (char)next;
        if (c != '\n' && !text_append(line, &c, 1))
            return error_set(error, "stdin: not enough memory for a line of %zu bytes", line->n);
    }
    if (c == '\n' && line->n > 0 && line->data[line->n - 1] == '\r') line->n--;
    *ends = (next == EOF && line->n == 0) || interrupted();
    if (line->n > MAX_LINE_BYTES) return too_long("a line of stdin", MAX_LINE_BYTES, error);
    return interrupted() || !ferror(stdin) || error_set(error, "stdin: cannot read: %s", strerror(errno));
}

bool read_prompt_text(const char *path, TextBuffer *text, Error *error) {
    if (!read_text(path ? path : "-", MAX_TEXT_BYTES, text, error)) return false;
    if (text->n == 0 || text->data[text->n - 1] != '\n') return true;
    text->n--;
    if (text->n > 0 && text->data[text->n - 1] == '\r') text->n--;
    return true;
}

static const char *find_default(char *buffer, size_t size) {
    static const char here[] = "model.bin", installed[] = "share/attn/model.gguf";
    if (access(here, R_OK) == 0) return here;
    ssize_t n = readlink("/proc/self/exe", buffer, size);
    if (n <= 0 || (size_t)n == size) return NULL;
    for (int up = 0; up < 2; up++) /* /usr/bin/attn-run, /usr/bin/, /usr/ */
        do n--;
        while (n > 0 && buffer[n - 1] != '/');
    if (n <= 0 || (size_t)n + sizeof installed > size) return NULL;
    memcpy(buffer + n, installed, sizeof installed);
    return access(buffer, R_OK) == 0 ? buffer : NULL;
}

const char *default_model(const char *program, const char *and, char *buffer, size_t size) {
    const char *path = find_default(buffer, size);
    if (!path) return NULL;
    fprintf(stderr, "%s: note: no model is named; taking ", program);
    print_name(stderr, path);
    fprintf(stderr, "%s\n", and);
    return path;
}

bool is_model_name(const char *path, Error *error) {
    bool is_text = strchr(path, ' ') || !strpbrk(path, "./");
    return !is_text || access(path, F_OK) == 0 ||
           error_set(error, "there is no file '%s'; a text to begin with stands behind -p: -p '%s'", path,
                     path);
}
