#include "cli/program.h"

#include "cli/output.h"
#include "text/unicode.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_US = 100000 }; /* after Ctrl-C, to notice it and end in order */

static volatile sig_atomic_t stopped_by; /* a signal that asked for an end, or 0 */
static pthread_t main_thread;
static char cut_short[96]; /* what on_bus_error says: it must not format anything itself */

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
    while (ok && !feof(file) && !ferror(file) && !stopped_by) {
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
        ok = error_set(error, "%s: cannot read: %s", name, strerror(stopped_by ? EINTR : errno));
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
    *ends = (next == EOF && line->n == 0) || stopped_by;
    if (line->n > MAX_LINE_BYTES) return too_long("a line of stdin", MAX_LINE_BYTES, error);
    return stopped_by || !ferror(stdin) || error_set(error, "stdin: cannot read: %s", strerror(errno));
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

const char *default_model(const char *program, char *buffer, size_t size) {
    const char *path = find_default(buffer, size);
    if (!path) return NULL;
    fprintf(stderr, "%s: note: no model is named; taking ", program);
    print_name(stderr, path);
    putc('\n', stderr);
    return path;
}

/* setitimer is on no list of what a handler may call, but it is no more than a call of the system. */
static void set_grace(suseconds_t us) {
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = us}, NULL);
}

/* As if nobody had caught the signal; within its handler, when that returns. */
static void end_by(int signal_number) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* The main thread writes files, and is not to go on with one that is removed meanwhile. */
static void on_signal(int signal_number) {
    if (!pthread_equal(pthread_self(), main_thread)) {
        pthread_kill(main_thread, signal_number);
        return;
    }
    if (!stopped_by && (signal_number == SIGINT || output_is_finished())) {
        stopped_by = signal_number;
        if (!output_is_finished()) set_grace(GRACE_US);
        return;
    }
    output_remove_unfinished();
    end_by(signal_number == SIGALRM && stopped_by ? stopped_by
                                                  : signal_number); /* SIGALRM: the grace is over */
}

/* Reading a mapping beyond the end that its file has by now, or where its disk fails. Of several threads one speaks. */
static void on_bus_error(int signal_number) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    (void)signal_number;
    while (atomic_flag_test_and_set(&told)) pause();
    ssize_t written = write(STDERR_FILENO, cut_short, strlen(cut_short));
    (void)written;
    output_remove_unfinished();
    _exit(EXIT_BAD_INPUT);
}

/*
 * A standard stream that is closed would be the next file that is opened: a model read as the prompt, a text written into
 * an output. Each is opened the wrong way round, so that reading or writing fails as it does while it is closed.
 */
static void occupy_closed_streams(void) {
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0) open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void catch_signals(const char *program) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    /* Restarted, or a text half written would be lost. Reading goes on, too, until the grace is over. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    occupy_closed_streams();
    sigfillset(&action.sa_mask);
    main_thread = pthread_self();
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        sigaction(ends[i], NULL, &before);
        if (before.sa_handler != SIG_IGN || ends[i] == SIGALRM)
            sigaction(ends[i], &action, NULL); /* nohup and & ask not to be heard */
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    snprintf(cut_short, sizeof cut_short,
             "%s: the model's file was cut short, or could not be read further\n", program);
    signal(SIGBUS, on_bus_error);
}

bool interrupted(void) { return stopped_by; }

void forget_interrupt(void) {
    if (stopped_by != SIGINT) return;
    set_grace(0);
    stopped_by = 0;
}

void note_changed(const char *program, const Model *model) {
    Error line; /* which the path cannot break */
    if (!model || !checkpoint_changed(model_checkpoint(model))) return;
    error_set(&line, "%s: note: %s was written to while it was in use; old and new weights may be mixed here",
              program, checkpoint_path(model_checkpoint(model)));
    fprintf(stderr, "%s\n", line.message);
}

void last_words(void) { set_grace(0); }

bool end_output(const char *what, Error *error) {
    return (fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE ||
           error_set(error, "cannot write the %s: %s", what, strerror(errno));
}

int end_program(int code) {
    if (code == EXIT_SUCCESS || !stopped_by) return code;
    fflush(NULL);
    end_by(stopped_by);
    return EXIT_INTERRUPTED;
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

uint64_t peak_rss_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

void print_name(FILE *file, const char *name) {
    char shown[16];
    for (size_t at = 0, n = strlen(name); at < n;) {
        at += unicode_show(name + at, n - at, shown);
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
        at += unicode_show(text + at, n - at, shown);
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
        else if (c < 0x20 || !unicode_is_safe(c))
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
