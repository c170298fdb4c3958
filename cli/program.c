#include "cli/program.h"

#include "cli/output.h"
#include "text/unicode.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_US = 100000 }; /* after Ctrl-C, to notice it and end in order */

static volatile sig_atomic_t was_interrupted;
static char cut_short[96]; /* what on_bus_error says: it must not format anything itself */

bool read_text(const char *path, TextBuffer *text, Error *error) {
    bool from_stdin = strcmp(path, "-") == 0;
    FILE *file = from_stdin ? stdin : fopen(path, "rb");
    if (!file) return error_set(error, "%s: cannot open: %s", path, strerror(errno));
    bool ok = true;
    errno = 0;
    while (ok && !feof(file) && !ferror(file) && !was_interrupted) {
        if (text->capacity - text->n < 65536) {
            size_t capacity = 2 * text->capacity + 65536;
            char *data = realloc(text->data, capacity);
            if (!data)
                ok = error_set(error, "%s: not enough memory for its %zu bytes and more", path, text->n);
            if (ok) text->data = data, text->capacity = capacity;
        }
        if (ok) text->n += fread(text->data + text->n, 1, text->capacity - text->n, file);
    }
    if (ok && ferror(file))
        ok = error_set(error, "%s: cannot read: %s", from_stdin ? "stdin" : path, strerror(errno));
    if (!from_stdin) fclose(file);
    return ok;
}

bool read_prompt_text(const char *path, TextBuffer *text, Error *error) {
    if (!read_text(path ? path : "-", text, error)) return false;
    if (text->n == 0 || text->data[text->n - 1] != '\n') return true;
    text->n--;
    if (text->n > 0 && text->data[text->n - 1] == '\r') text->n--;
    return true;
}

const char *default_model(char *buffer, size_t size) {
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

/* setitimer is on no list of what a handler may call, but it is no more than a call of the system. */
static void set_grace(suseconds_t us) {
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = us}, NULL);
}

static void on_interrupt(int signal_number) {
    (void)signal_number;
    was_interrupted = 1;
    set_grace(GRACE_US);
}

/* A file is being opened, say, or a layer computed, and nobody has looked at interrupted() since. */
static void on_grace_over(int signal_number) {
    (void)signal_number;
    output_remove_unfinished();
    _exit(EXIT_INTERRUPTED);
}

/* Reading a mapping beyond the end that its file has by now, or where its disk fails. */
static void on_bus_error(int signal_number) {
    (void)signal_number;
    ssize_t written = write(STDERR_FILENO, cut_short, strlen(cut_short));
    (void)written;
    output_remove_unfinished();
    _exit(EXIT_BAD_INPUT);
}

void catch_signals(const char *program) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}, before;
    sigaction(SIGINT, NULL, &before);
    if (before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL); /* nohup and & ask not to be heard */
    signal(SIGALRM, on_grace_over);
    signal(SIGPIPE, SIG_IGN);
    snprintf(cut_short, sizeof cut_short,
             "%s: the model's file was cut short, or could not be read further\n", program);
    signal(SIGBUS, on_bus_error);
}

bool interrupted(void) { return was_interrupted; }

void last_words(void) { set_grace(0); }

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

uint64_t peak_rss_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
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
        else if (c < 0x20 || c == 0x7f)
            fprintf(file, "\\u%04x", (unsigned)c);
        else
            fwrite(text + i, 1, length, file);
    }
}

void print_json_string(FILE *file, const char *text, size_t n) {
    putc('"', file);
    print_json_characters(file, text, n);
    putc('"', file);
}
