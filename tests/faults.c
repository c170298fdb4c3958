/*
 * Calls of the system that fail on request. Linked with -Wl,--wrap=… for each function below, into faulty_run and
 * faulty_study, it stands between the programs and the C library:
 *
 *   ATTN_FAULT=malloc:3       the third allocation fails (of any kind: all that allocate count together)
 *   ATTN_FAULT=malloc:3+      that one and all after it
 *   ATTN_FAULT=fsync:1=TERM   at that call a signal is raised instead, and the call goes on (STOP: a test may then
 *                             change files, and CONT it)
 *   ATTN_FAULT=a:1,b:2        several
 *   ATTN_FAULT_LOG=FILE       gets a line "struck malloc 3" as a fault strikes, and, as the program ends in an
 *                             orderly way, "calls malloc 57" for each name; where none is to strike, also
 *                             "first 4a3f malloc 17" for a call from a place that none before it came from
 *
 * A test that calls the library itself is linked with it, too, and says by faults_arm what fails (tests/faults.h).
 *
 * A failing call sets errno, and a stream's error, as the real one would. What the C library calls within itself
 * is not seen: printf fails through fflush.
 */
#define _GNU_SOURCE

#include "faults.h"

#include <dirent.h>
#include <errno.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#else /* musl: no place is told from another, and calls are tried by their numbers alone */
#define backtrace(callers, n) ((void)(callers), 0)
#endif
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    MAX_NAMES = 64,
    MAX_FAULTS = 8,
    MAX_PLACES = 1 << 14,
    N_CALLERS = 8,     /* three of them here */
    IO_ERR_SEEN = 0x20 /* the flag that ferror reads, of glibc and musl */
};

typedef struct Fault {
    char name[32];
    unsigned long first; /* call that it strikes, from 1 */
    bool and_after;
    int signal; /* raised instead of failing, or 0 */
} Fault;

/* The calls of one name; those of one function find theirs by a search, once. */
typedef struct Calls {
    const char *name;
    atomic_ulong n;
} Calls;

static Fault faults[MAX_FAULTS];
static size_t n_faults;
static atomic_ulong n_struck;
static Calls calls[MAX_NAMES];
static atomic_size_t n_calls;
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;
static unsigned long first_calls[MAX_PLACES]; /* since faults_arm */
static size_t n_first_calls;
static const char *log_path;
extern const char __executable_start[], etext[]; /* the linker's */
static atomic_bool
    ready; /* what happens before main and behind it, as a sanitizer's own calls, is let through */

int __real_open(const char *path, int flags, ...);
int __real_close(int file);
ssize_t __real_write(int file, const void *bytes, size_t n);

static void log_line(const char *what, const char *name, unsigned long n) {
    char line[96];
    int file = log_path ? __real_open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file < 0) return;
    int length = snprintf(line, sizeof line, "%s %s %lu\n", what, name, n);
    if (__real_write(file, line, (size_t)length) != length) abort();
    __real_close(file);
}

static int signal_number(const char *name) {
    static const struct {
        const char *name;
        int number;
    } known[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"KILL", SIGKILL}, {"TERM", SIGTERM},
                 {"STOP", SIGSTOP}, {"QUIT", SIGQUIT}, {"PIPE", SIGPIPE}, {"BUS", SIGBUS},
                 {"XCPU", SIGXCPU}, {"USR1", SIGUSR1}, {"ALRM", SIGALRM}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return known[i].number;
    return -1;
}

/* "malloc:3", "malloc:3+", "fsync:1=TERM" */
static bool read_fault(const char *text, Fault *fault) {
    char signal_name[8] = "";
    int end = 0, plus = 0;
    *fault = (Fault){.signal = 0};
    if (sscanf(text, "%31[a-z_0-9]:%lu%n", fault->name, &fault->first, &end) != 2 || !fault->first)
        return false;
    sscanf(text + end, "+%n", &plus);
    fault->and_after = plus > 0;
    text += end + plus;
    if (!*text) return true;
    if (sscanf(text, "=%7[A-Z0-9]%n", signal_name, &end) != 1 || text[end]) return false;
    return (fault->signal = signal_number(signal_name)) > 0;
}

unsigned long faults_arm(const char *given) {
    char copy[256], *rest = copy;
    snprintf(copy, sizeof copy, "%s", given);
    n_faults = n_first_calls = 0;
    for (size_t i = 0; i < atomic_load(&n_calls); i++) atomic_store(&calls[i].n, 0);
    for (char *one; (one = strsep(&rest, ",")) && *one; n_faults++)
        if (n_faults == MAX_FAULTS || !read_fault(one, &faults[n_faults])) {
            fprintf(stderr, "'%s' is no fault such as malloc:3, malloc:3+, fsync:1=TERM\n", one);
            _exit(99);
        }
    return atomic_exchange(&n_struck, 0);
}

const unsigned long *faults_first_calls(size_t *n) {
    *n = n_first_calls;
    return first_calls;
}

static void __attribute__((constructor)) begin(void) {
    const char *given = getenv("ATTN_FAULT");
    log_path = getenv("ATTN_FAULT_LOG");
    faults_arm(given ? given : "");
}

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
int __wrap_main(int argc, char **argv) {
    atomic_store(&ready, true);
    int code = __real_main(argc, argv);
    atomic_store(&ready, false);
    return code;
}

static void __attribute__((destructor)) end(void) {
    for (size_t i = 0; i < atomic_load(&n_calls); i++)
        log_line("calls", calls[i].name, atomic_load(&calls[i].n));
}

/* Their place among the first n; n: they have none. */
static size_t find_calls(const char *name, size_t n) {
    size_t i = 0;
    while (i < n && strcmp(calls[i].name, name) != 0) i++;
    return i;
}

/*
 * Notes a call from another place than all before it: one with others of the last callers. Its number is the same in each run
 * of a program.
 */
static void note_place(const char *name, unsigned long n) {
    static atomic_ullong known[MAX_PLACES];
    void *callers[N_CALLERS];
    int n_callers = backtrace(callers, N_CALLERS);
    unsigned long long place = 0;
    for (int i = 0; i < n_callers; i++) {
        uintptr_t at = (uintptr_t)callers[i] - (uintptr_t)__executable_start;
        if (at < (uintptr_t)(etext - __executable_start)) place = (place ^ at) * 0x9E3779B97F4A7C15u;
    }
    place ^= place >> 32;
    for (size_t i = place % MAX_PLACES; known[i] != place; i = (i + 1) % MAX_PLACES) {
        if (known[i]) continue; /* there is always a free one */
        char what[40];
        known[i] = place;
        first_calls[n_first_calls++] = n;
        snprintf(what, sizeof what, "first %llx", place);
        log_line(what, name, n);
        return;
    }
}

/* A signal's handler must not wait for the lock, which the code that it interrupts may hold: what is known needs none. */
static Calls *calls_of(const char *name) {
    size_t n = atomic_load(&n_calls), i = find_calls(name, n);
    if (i < n) return &calls[i];
    pthread_mutex_lock(&naming);
    n = atomic_load(&n_calls);
    i = find_calls(name, n);
    if (i == MAX_NAMES) abort();
    calls[i].name = name;
    if (i == n) atomic_store(&n_calls, n + 1);
    pthread_mutex_unlock(&naming);
    return &calls[i];
}

/* Counts a call; whether it is to fail. */
static bool strikes(const char *name) {
    if (!atomic_load(&ready)) return false;
    unsigned long n = atomic_fetch_add(&calls_of(name)->n, 1) + 1;
    if (n_faults == 0) note_place(name, n);
    for (size_t i = 0; i < n_faults; i++) {
        const Fault *fault = &faults[i];
        if (strcmp(fault->name, name) != 0 || (fault->and_after ? n < fault->first : n != fault->first))
            continue;
        int before = errno;
        atomic_fetch_add(&n_struck, 1);
        log_line("struck", name, n);
        errno = before;
        if (!fault->signal) return true;
        raise(fault->signal);
    }
    return false;
}

/* A function that, when `name` strikes, sets errno to `code` and returns `failure`. */
#define WRAP(function, name, code, failure, type, parameters, arguments)                                     \
    type __real_##function parameters;                                                                       \
    type __wrap_##function parameters;                                                                       \
    type __wrap_##function parameters {                                                                      \
        if (!strikes(name)) return __real_##function arguments;                                              \
        errno = code;                                                                                        \
        return failure;                                                                                      \
    }

/* The Makefile reads the names: WRAP and a name begin a line, so does the type of what is written out below. */
WRAP(malloc, "malloc", ENOMEM, NULL, void *, (size_t n), (n))
WRAP(calloc, "malloc", ENOMEM, NULL, void *, (size_t n, size_t size), (n, size))
WRAP(realloc, "malloc", ENOMEM, NULL, void *, (void *old, size_t n), (old, n))
WRAP(aligned_alloc, "malloc", ENOMEM, NULL, void *, (size_t to, size_t n), (to, n))
WRAP(strdup, "malloc", ENOMEM, NULL, char *, (const char *text), (text))
WRAP(strndup, "malloc", ENOMEM, NULL, char *, (const char *text, size_t n), (text, n))
WRAP(realpath, "malloc", ENOMEM, NULL, char *, (const char *path, char *to), (path, to))
WRAP(getline, "malloc", ENOMEM, -1, ssize_t, (char **line, size_t *n, FILE *from), (line, n, from))
WRAP(opendir, "malloc", ENOMEM, NULL, DIR *, (const char *path), (path))
WRAP(mmap, "mmap", ENOMEM, MAP_FAILED, void *,
     (void *at, size_t n, int protection, int flags, int file, off_t offset),
     (at, n, protection, flags, file, offset))
WRAP(pthread_create, "pthread_create", 0, EAGAIN, int,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument),
     (thread, attributes, body, argument))
WRAP(getentropy, "getentropy", ENOSYS, -1, int, (void *bytes, size_t n), (bytes, n))
WRAP(pipe2, "pipe2", EMFILE, -1, int, (int files[2], int flags), (files, flags))
WRAP(socket, "socket", EMFILE, -1, int, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(setsockopt, "setsockopt", ENOPROTOOPT, -1, int,
     (int file, int level, int name, const void *value, socklen_t n), (file, level, name, value, n))
WRAP(listen, "listen", EADDRINUSE, -1, int, (int file, int n), (file, n))
WRAP(poll, "poll", ENOMEM, -1, int, (struct pollfd * files, nfds_t n, int ms), (files, n, ms))
WRAP(accept4, "accept4", EMFILE, -1, int,
     (int file, struct sockaddr *restrict from, socklen_t *restrict n, int flags), (file, from, n, flags))
WRAP(recv, "recv", ECONNRESET, -1, ssize_t, (int file, void *bytes, size_t n, int flags),
     (file, bytes, n, flags))
WRAP(send, "send", EPIPE, -1, ssize_t, (int file, const void *bytes, size_t n, int flags),
     (file, bytes, n, flags))
WRAP(fopen, "fopen", EMFILE, NULL, FILE *, (const char *path, const char *mode), (path, mode))
WRAP(fdopen, "fdopen", ENOMEM, NULL, FILE *, (int file, const char *mode), (file, mode))
WRAP(access, "access", ENOENT, -1, int, (const char *path, int mode), (path, mode))
WRAP(close, "close", EIO, (__real_close(file), -1), int, (int file), (file))
WRAP(write, "write", ENOSPC, -1, ssize_t, (int file, const void *bytes, size_t n), (file, bytes, n))
WRAP(pwrite, "pwrite", ENOSPC, -1, ssize_t, (int file, const void *bytes, size_t n, off_t at),
     (file, bytes, n, at))
WRAP(read, "read", EIO, -1, ssize_t, (int file, void *bytes, size_t n), (file, bytes, n))
WRAP(pread, "pread", EIO, -1, ssize_t, (int file, void *bytes, size_t n, off_t at), (file, bytes, n, at))
WRAP(posix_fallocate, "posix_fallocate", 0, ENOSPC, int, (int file, off_t at, off_t n), (file, at, n))
WRAP(ftruncate, "ftruncate", EIO, -1, int, (int file, off_t n), (file, n))
WRAP(fchmod, "fchmod", EPERM, -1, int, (int file, mode_t mode), (file, mode))
WRAP(fstat, "fstat", EIO, -1, int, (int file, struct stat *status), (file, status))
WRAP(fsync, "fsync", EIO, -1, int, (int file), (file))
WRAP(fdatasync, "fsync", EIO, -1, int, (int file), (file))
WRAP(linkat, "linkat", ENOSPC, -1, int,
     (int from_folder, const char *from, int to_folder, const char *to, int flags),
     (from_folder, from, to_folder, to, flags))
WRAP(rename, "rename", ENOSPC, -1, int, (const char *from, const char *to), (from, to))
WRAP(unlink, "unlink", EACCES, -1, int, (const char *path), (path))

/* Fails, and says so in the stream. */
static void stream_fails(FILE *stream, int code) {
    *(int *)(void *)stream |= IO_ERR_SEEN; /* flags come first */
    errno = code;
}

size_t __real_fwrite(const void *items, size_t size, size_t n, FILE *to);
size_t __wrap_fwrite(const void *items, size_t size, size_t n, FILE *to);
size_t __wrap_fwrite(const void *items, size_t size, size_t n, FILE *to) {
    if (!strikes("fwrite")) return __real_fwrite(items, size, n, to);
    stream_fails(to, ENOSPC);
    return 0;
}

size_t __real_fread(void *items, size_t size, size_t n, FILE *from);
size_t __wrap_fread(void *items, size_t size, size_t n, FILE *from);
size_t __wrap_fread(void *items, size_t size, size_t n, FILE *from) {
    if (!strikes("fread")) return __real_fread(items, size, n, from);
    stream_fails(from, EIO);
    return 0;
}

/* A signal's grace (cli/process.c) is twenty times as long, so that a slow disk does not decide how a test ends. */
int __real_setitimer(int which, const struct itimerval *value, struct itimerval *old);
int __wrap_setitimer(int which, const struct itimerval *value, struct itimerval *old);
int __wrap_setitimer(int which, const struct itimerval *value, struct itimerval *old) {
    struct itimerval longer = *value;
    longer.it_value.tv_sec = 20 * value->it_value.tv_usec / 1000000;
    longer.it_value.tv_usec = 20 * value->it_value.tv_usec % 1000000;
    return __real_setitimer(which, &longer, old);
}

int __real_fflush(FILE *stream);
int __wrap_fflush(FILE *stream);
int __wrap_fflush(FILE *stream) {
    if (!strikes("fflush")) return __real_fflush(stream);
    stream_fails(stream ? stream : stdout, ENOSPC);
    return EOF;
}

/* Where "memstream" strikes, memory runs out as the stream is closed: glibc then says that all is well, and gives no text. */
FILE *__real_open_memstream(char **bytes, size_t *n);
FILE *__wrap_open_memstream(char **bytes, size_t *n);
FILE *__wrap_open_memstream(char **bytes, size_t *n) {
    static char *lost;
    static size_t n_lost;
    if (strikes("malloc")) return errno = ENOMEM, NULL;
    if (!strikes("memstream")) return __real_open_memstream(bytes, n);
    *bytes = NULL, *n = 0;
    free(lost);
    return __real_open_memstream(&lost, &n_lost);
}

int __real_fclose(FILE *stream);
int __wrap_fclose(FILE *stream);
int __wrap_fclose(FILE *stream) {
    bool fails = strikes("fclose");
    int result = __real_fclose(stream); /* closed it is, whatever it says */
    if (!fails) return result;
    errno = EIO;
    return EOF;
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    if (!strikes("open")) return __real_open(path, flags, mode);
    errno = EMFILE;
    return -1;
}
