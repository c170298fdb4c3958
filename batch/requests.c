#include "batch/requests.h"

#include "cli/input.h"
#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 };

struct Requests {
    char *path; /* "stdin" */
    int file;
    TextBuffer text; /* read, and not given yet from `at` on */
    size_t at, number, n_lines;
    size_t n_skipped; /* bytes of the line under way that were not kept */
    bool ended, endless;
};

static bool is_blank(const char *text, size_t n) {
    while (n > 0 && strchr(" \t\r", text[n - 1]) && text[n - 1]) n--;
    return n == 0;
}

static bool failed(const Requests *requests, Error *error) {
    return error_set(error, "%s: cannot read: %s", requests->path, strerror(errno));
}

/* Counts the lines of a file, as far as it is read, and goes back to its beginning. */
static bool count_lines(Requests *requests, Error *error) {
    char block[READ_BYTES];
    bool blank = true;
    size_t length = 0;
    ssize_t n;
    while ((n = read(requests->file, block, sizeof block)) > 0 && length < MAX_SKIPPED_BYTES &&
           !interrupted())
        for (ssize_t i = 0; i < n; i++, length++)
            if (block[i] != '\n')
                blank = blank && is_blank(&block[i], 1);
            else
                requests->n_lines += !blank, blank = true, length = 0;
    requests->n_lines += !blank;
    return (n >= 0 && lseek(requests->file, 0, SEEK_SET) == 0) || failed(requests, error);
}

Requests *requests_open(const char *path, Error *error) {
    const bool is_stdin = strcmp(path, "-") == 0;
    struct stat status;
    Requests *requests = calloc(1, sizeof *requests);
    if (requests) *requests = (Requests){.path = strdup(is_stdin ? "stdin" : path), .file = STDIN_FILENO};
    if (!requests || !requests->path) {
        free(requests);
        error_set(error, "not enough memory");
        return NULL;
    }
    if (!is_stdin) requests->file = open(path, O_RDONLY);
    bool ok = (requests->file >= 0 && fstat(requests->file, &status) == 0) || failed(requests, error);
    if (ok && S_ISDIR(status.st_mode)) errno = EISDIR, ok = failed(requests, error);
    if (ok && !is_stdin && S_ISREG(status.st_mode)) ok = count_lines(requests, error);
    if (ok) return requests;
    requests_close(requests);
    return NULL;
}

void requests_close(Requests *requests) {
    if (!requests) return;
    if (requests->file > STDERR_FILENO) close(requests->file);
    free(requests->text.data);
    free(requests->path);
    free(requests);
}

size_t requests_n_lines(const Requests *requests) { return requests->n_lines; }

/* Reads some more. Of a line that is too long no more is kept than shows it. */
static bool read_more(Requests *requests, bool waits, bool *waited, Error *error) {
    char block[READ_BYTES];
    struct pollfd ready = {.fd = requests->file, .events = POLLIN};
    TextBuffer *text = &requests->text;
    *waited = poll(&ready, 1, waits ? -1 : 0) <= 0;
    if (*waited) return true;
    ssize_t n = read(requests->file, block, sizeof block);
    if (n < 0) /* another process may have read before us what was there */
        return errno == EINTR || errno == EAGAIN || failed(requests, error);
    requests->ended = n == 0;
    if (requests->at > 0 && requests->at >= text->n / 2) {
        memmove(text->data, text->data + requests->at, text->n - requests->at);
        text->n -= requests->at;
        requests->at = 0;
    }
    if (text->n - requests->at > MAX_LINE_BYTES && !memchr(block, '\n', (size_t)n)) {
        requests->n_skipped += (size_t)n;
        requests->endless = requests->n_skipped > MAX_SKIPPED_BYTES;
        requests->ended = requests->ended || requests->endless;
        return true;
    }
    requests->n_skipped = 0;
    return text_append(text, block, (size_t)n) || error_set(error, "not enough memory for a line");
}

bool requests_next(Requests *requests, bool waits, String *line, size_t *number, bool *ends, Error *error) {
    TextBuffer *text = &requests->text;
    *ends = false;
    for (size_t looked = 0;;) {
        const char *begin = text->n ? text->data + requests->at : "";
        size_t n = text->n - requests->at;
        const char *newline = n > looked ? memchr(begin + looked, '\n', n - looked) : NULL;
        if (newline || (requests->ended && n > 0)) {
            size_t length = newline ? (size_t)(newline - begin) : n;
            requests->at += length + (newline != NULL);
            requests->number++;
            looked = 0;
            if (requests->number == 1 && length >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0)
                begin += 3, length -= 3; /* the mark that some editors put in front */
            if (is_blank(begin, length)) continue;
            *line = (String){begin, length <= MAX_LINE_BYTES ? length : MAX_LINE_BYTES + 1};
            *number = requests->number;
            return true;
        }
        looked = n;
        bool waited = false;
        *ends = requests->ended || interrupted();
        if (*ends) return true;
        if (!read_more(requests, waits, &waited, error)) return false;
        *ends = waited && !waits;
        if (*ends) return true;
    }
}

bool requests_are_whole(const Requests *requests, Error *error) {
    return !requests->endless ||
           error_set(error, "%s: line %zu has no end within %d bytes; nothing behind it was read",
                     requests->path, requests->number, MAX_SKIPPED_BYTES);
}
