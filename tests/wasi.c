/*
 * For tests of the WebAssembly build under node's WASI, whose C library lacks mappings and temporary files. A file is read
 * into memory, whole; anonymous memory is zeroed. Both begin with a cache line, as pages do.
 */
#include "tests/wasi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CACHE_LINE = 64 };

int mkstemp(char *path) {
    char *last = path + strlen(path) - 1;
    for (*last = 'a'; *last <= 'z'; ++*last) {
        int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file >= 0) return file;
    }
    return -1;
}

char *mkdtemp(char *path) {
    char *last = path + strlen(path) - 1;
    for (*last = 'a'; *last <= 'z'; ++*last)
        if (mkdir(path, 0700) == 0) return path;
    return NULL;
}

static int read_whole(int file, char *to, size_t n, off_t at) {
    while (n > 0) {
        ssize_t done = pread(file, to, n, at);
        if (done <= 0) return -1;
        to += done, n -= (size_t)done, at += done;
    }
    return 0;
}

void *mmap(void *address, size_t n, int protection, int flags, int file, off_t at) {
    (void)address, (void)protection;
    size_t whole = (n + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    char *memory = whole < n ? NULL : aligned_alloc(CACHE_LINE, whole);
    if (!memory) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (flags & MAP_ANONYMOUS) {
        memset(memory, 0, n);
    } else if (read_whole(file, memory, n, at) != 0) {
        free(memory);
        return MAP_FAILED;
    }
    return memory;
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
