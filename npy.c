#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct NpyWriter {
    FILE *file;
    char *path;
    char *temporary; /* "" when path is written in place, or the file has its name */
};

static bool cannot_write(const NpyWriter *writer, Error *error) {
    return error_set(error, "%s: cannot write: %s", writer->path, strerror(errno));
}

/* A new file beside path, with the permissions that fopen would give it (mkstemp's are the owner's alone). */
static bool open_temporary(NpyWriter *writer, const char *path, Error *error) {
    size_t n = strlen(path) + sizeof ".XXXXXX";
    writer->path = strdup(path);
    writer->temporary = malloc(n);
    if (!writer->path || !writer->temporary) return error_set(error, "%s: not enough memory", path);
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) { /* a device or pipe must not be replaced */
        writer->temporary[0] = '\0';
        writer->file = fopen(path, "wb");
        return writer->file || cannot_write(writer, error);
    }
    snprintf(writer->temporary, n, "%s.XXXXXX", path);
    int file = mkstemp(writer->temporary);
    if (file < 0) {
        cannot_write(writer, error);
        writer->temporary[0] = '\0';
        return false;
    }
    mode_t mask = umask(0);
    umask(mask);
    writer->file = fchmod(file, 0666 & ~mask) == 0 ? fdopen(file, "wb") : NULL;
    if (writer->file) return true;
    cannot_write(writer, error);
    close(file);
    return false;
}

NpyWriter *npy_create(const char *path, size_t rows, size_t cols, Error *error) {
    NpyWriter *writer = calloc(1, sizeof *writer);
    if (!writer) {
        error_set(error, "%s: not enough memory", path);
        return NULL;
    }
    if (open_temporary(writer, path, error)) {
        /* magic, version, length of the header, which is padded so that the data begins at a multiple of 64 */
        unsigned char header[128] = "\x93NUMPY\x01\x00\x76\x00";
        int n = snprintf((char *)header + 10, sizeof header - 10,
                         "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", rows, cols);
        memset(header + 10 + n, ' ', sizeof header - 11 - (size_t)n);
        header[sizeof header - 1] = '\n';
        if (fwrite(header, 1, sizeof header, writer->file) == sizeof header) return writer;
        cannot_write(writer, error);
    }
    npy_abandon(writer);
    return NULL;
}

bool npy_write(NpyWriter *writer, const float *values, size_t n, Error *error) {
    return fwrite(values, sizeof *values, n, writer->file) == n || cannot_write(writer, error);
}

bool npy_finish(NpyWriter *writer, Error *error) {
    int failed = fclose(writer->file);
    writer->file = NULL;
    bool ok = !failed && (!writer->temporary[0] || rename(writer->temporary, writer->path) == 0);
    if (ok)
        writer->temporary[0] = '\0';
    else
        cannot_write(writer, error);
    npy_abandon(writer);
    return ok;
}

void npy_abandon(NpyWriter *writer) {
    if (!writer) return;
    if (writer->file) fclose(writer->file);
    if (writer->temporary && writer->temporary[0]) unlink(writer->temporary);
    free(writer->path);
    free(writer->temporary);
    free(writer);
}
