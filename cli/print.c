#include "cli/print.h"

#include "base/utf8.h"
#include "cli/process.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    static const char *const endings[][2] = {
        {"name a file that does", " with -z"},
        {"(tokenizer.chat_template); give one", " with --chat-template FILE"},
        {"give another temperature", " with --temp"},
        {"give another penalty_window", " with --repeat-last-n"}};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (string_ends(string_from(error->message), endings[i][0])) fputs(endings[i][1], stderr);
    putc('\n', stderr);
}

void print_name(FILE *file, const char *name) {
    char shown[16];
    for (size_t at = 0, n = strlen(name); at < n;) {
        at += utf8_show(name + at, n - at, shown);
        fputs(shown, file);
    }
}

/*
 * n bytes of a text that comes in pieces, unchanged, but in their visible form where the file is a terminal; there a CR
 * waits in *cr, false at first, for what follows: a newline swallows it.
 */
static bool print_text(FILE *file, const char *text, size_t n, bool *cr) {
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

bool shown_fail(Shown *shown, const char *what, const char *why) {
    shown->failed = true;
    return error_set(shown->error, "%s: %s", what, why);
}

bool shown_write(Shown *shown, const char *text, size_t n) {
    if (shown->piped_out || shown->failed) return false;
    if (print_text(stdout, text, n, &shown->cr) && fflush(stdout) == 0) return true;
    shown->piped_out = errno == EPIPE;
    return !shown->piped_out && shown_fail(shown, "cannot write the text", strerror(errno));
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

bool end_output(const char *what, Error *error) {
    return (fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE ||
           error_set(error, "cannot write the %s: %s", what, strerror(errno));
}
