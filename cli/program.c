#include "cli/program.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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

static char installed[32]; /* what the programs' names begin with */

void name_program(const char *argv0, const char *name) {
    const char *slash = strrchr(argv0, '/'), *base = slash ? slash + 1 : argv0;
    size_t n = strlen(base), n_name = strlen(name);
    bool has_more = n > n_name && n - n_name < sizeof installed && strcmp(base + n - n_name, name) == 0;
    snprintf(installed, sizeof installed, "%.*s", has_more ? (int)(n - n_name) : 0, base);
}

/* Whether the text begins with a program's name and a space. */
static bool begins_with_program(const char *text) {
    return strncmp(text, "run ", 4) == 0 || strncmp(text, "study ", 6) == 0 ||
           strncmp(text, "quantize ", 9) == 0;
}

void print_help(FILE *file, const char *text) {
    static const char usage[] = "usage: ";
    for (; *text; text++) {
        if (*installed && strncmp(text, "./", 2) == 0 && begins_with_program(text + 2)) {
            fputs(installed, file);
            text += 2;
        } else if (*installed && strncmp(text, usage, sizeof usage - 1) == 0) {
            fprintf(file, "%s%s", usage, installed);
            text += sizeof usage - 1;
        }
        putc(*text, file);
    }
}

void print_error(const char *program, const Error *error) {
    fprintf(stderr, "%s: ", program);
    print_help(stderr, error->message);
    /* The engine knows no options. */
    static const char lacks_vocabulary[] = "name a file that does";
    size_t n = strlen(error->message), ending = sizeof lacks_vocabulary - 1;
    if (n > ending && strcmp(error->message + n - ending, lacks_vocabulary) == 0) fputs(" with -z", stderr);
    putc('\n', stderr);
}

void note_changed(const char *program, const Model *model) {
    Error line; /* which the path cannot break */
    if (!model || !checkpoint_changed(model_checkpoint(model))) return;
    error_set(&line, "%s: note: %s was written to while it was in use; old and new weights may be mixed here",
              program, checkpoint_path(model_checkpoint(model)));
    fprintf(stderr, "%s\n", line.message);
}

void print_not_done(FILE *out, const SamplingFields *fields) {
    for (size_t i = 0; i < fields->n_not_done && i < MAX_NOT_DONE; i++) {
        String name = fields->not_done[i];
        if (i) fputs(", ", out);
        print_json_characters(out, name.data, (size_t)string_shown(name));
    }
    if (fields->n_not_done > MAX_NOT_DONE) fprintf(out, " and %zu more", fields->n_not_done - MAX_NOT_DONE);
}

void note_not_done(const char *program, const SamplingFields *fields) {
    if (fields->n_not_done == 0) return;
    fprintf(stderr, "%s: note: the file asks for what is not done here: ", program);
    print_not_done(stderr, fields);
    fputc('\n', stderr);
}

bool end_output(const char *what, Error *error) {
    return (fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE ||
           error_set(error, "cannot write the %s: %s", what, strerror(errno));
}

bool shows_colour(Colour choice, int file) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (choice != COLOUR_AUTO) return choice == COLOUR_ON;
    return isatty(file) && !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
}

void show_progress(const char *what, size_t done, size_t total) {
    if (!isatty(STDERR_FILENO)) return;
    if (done < total)
        fprintf(stderr, "\r%s %zu/%zu", what, done, total);
    else
        fprintf(stderr, "\r\033[K");
}

bool progress_or_stop(void *user, const char *what, size_t done, size_t total) {
    (void)user;
    if (what) show_progress(what, done, total);
    return !interrupted();
}

uint64_t clock_seed(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) & (((uint64_t)1 << 53) - 1);
}

double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

void print_name(FILE *file, const char *name) {
    char shown[16];
    for (size_t at = 0, n = strlen(name); at < n;) {
        at += utf8_show(name + at, n - at, shown);
        fputs(shown, file);
    }
}

bool print_text(FILE *file, const char *text, size_t n, bool *cr) {
    if (!isatty(fileno(file))) return n == 0 || fwrite(text, 1, n, file) == n;
    char shown[16];
    for (size_t at = 0; at < n;) {
        char c = text[at];
        if (*cr && c != '\n') fputs("\\r", file);
        *cr = c == '\r';
        if (c == '\n' || c == '\t') putc(c, file);
        if (c == '\n' || c == '\t' || c == '\r') {
            at++;
            continue;
        }
        at += utf8_show(text + at, n - at, shown);
        fputs(shown, file);
    }
    return !ferror(file);
}

/* A code point as JSON writes it: one beyond 16 bits as two surrogates (RFC 8259, section 7). */
static void print_json_escape(FILE *file, uint32_t c) {
    if (c >= 0x10000) fprintf(file, "\\u%04x", 0xd800 + ((unsigned)c - 0x10000) / 0x400);
    fprintf(file, "\\u%04x", c < 0x10000 ? (unsigned)c : 0xdc00 + (unsigned)c % 0x400);
}

void print_json_characters(FILE *file, const char *text, size_t n) {
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t c;
        length = utf8_decode(text + i, n - i, &c);
        if (c >= UTF8_INVALID)
            fputs("\\ufffd", file);
        else if (c == '"' || c == '\\')
            fprintf(file, "\\%c", (char)c);
        else if (c == '\n')
            fputs("\\n", file);
        else if (c < 0x20 || !utf8_is_safe(c))
            print_json_escape(file, c);
        else
            fwrite(text + i, 1, length, file);
    }
}

void print_json_string(FILE *file, const char *text, size_t n) {
    putc('"', file);
    print_json_characters(file, text, n);
    putc('"', file);
}
