/*
 * The system that the engine finds in a page: memory, and output that goes to the page. There are no files, for the model is
 * given as bytes; so the module imports one call alone, WASI's fd_write.
 */
#include "wasm/system.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int fails(int why) {
    errno = why;
    return -1;
}

int open(const char *path, int flags, ...) {
    (void)path, (void)flags;
    return fails(ENOENT);
}

int close(int file) {
    (void)file;
    return 0;
}

int fstat(int file, struct stat *status) {
    (void)file, (void)status;
    return fails(EBADF);
}

int stat(const char *restrict path, struct stat *restrict status) {
    (void)path, (void)status;
    return fails(ENOENT);
}

/* Nobody asks what time it is but who guesses, and here nobody does. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock, (void)time;
    return fails(ENOSYS);
}

/* Memory is all that can be mapped. It is zeroed, and begins with a cache line, as pages do. */
void *mmap(void *address, size_t n, int protection, int flags, int file, off_t at) {
    (void)address, (void)protection, (void)flags, (void)file, (void)at;
    void *memory = system_room(n);
    if (memory) return memset(memory, 0, n);
    errno = ENOMEM;
    return MAP_FAILED;
}

int munmap(void *address, size_t n) {
    (void)n;
    free(address);
    return 0;
}

int madvise(void *address, size_t n, int advice) {
    (void)address, (void)n, (void)advice;
    return 0;
}

void *system_room(size_t n) {
    enum { CACHE_LINE = 64 };
    return n > SIZE_MAX - CACHE_LINE
               ? NULL
               : aligned_alloc(CACHE_LINE, (n + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    (void)path, (void)mode;
    errno = ENOENT;
    return NULL;
}

int access(const char *path, int mode) {
    (void)path, (void)mode;
    return fails(ENOENT);
}

ssize_t readlink(const char *restrict path, char *restrict to, size_t n) {
    (void)path, (void)to, (void)n;
    return fails(ENOENT);
}

char *strerror(int why) {
    static char missing[] = "there is no such file", other[] = "there is too little memory";
    return why == ENOENT ? missing : other;
}

char *getenv(const char *name) {
    (void)name;
    return NULL;
}

int isatty(int file) {
    (void)file;
    errno = ENOTTY;
    return 0;
}

/* stdio's tables ask these of WASI, and never call them: stdin is not read, stdout and stderr are not sought in. */
#define NOT_IMPORTED(name) __imported_wasi_snapshot_preview1_##name
int NOT_IMPORTED(fd_read)(int file, int list, int n, int to);
int NOT_IMPORTED(fd_seek)(int file, int64_t by, int from, int to);
int NOT_IMPORTED(fd_fdstat_get)(int file, int to);

int NOT_IMPORTED(fd_read)(int file, int list, int n, int to) {
    (void)file, (void)list, (void)n, (void)to;
    return EBADF;
}

int NOT_IMPORTED(fd_seek)(int file, int64_t by, int from, int to) {
    (void)file, (void)by, (void)from, (void)to;
    return EBADF;
}

int NOT_IMPORTED(fd_fdstat_get)(int file, int to) {
    (void)file, (void)to;
    return EBADF;
}

/* Angles of more than a million and a half, for which the C library has seven kilobytes: no text is as long. */
int __rem_pio2_large(double *x, double *y, int e, int n, int precision);
int __rem_pio2_large(double *x, double *y, int e, int n, int precision) {
    (void)x, (void)e, (void)n, (void)precision;
    y[0] = y[1] = NAN;
    return 0;
}
