#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct NpyWriter {
    OutputFile output;
};

/* The temporary name of the file being written: there is one at a time. */
static const char *volatile unfinished;

void output_remove_unfinished(void) {
    if (unfinished) unlink(unfinished);
}

bool output_failed(const OutputFile *output, Error *error) {
    return error_set(error, "%s: cannot write: %s", output->path, strerror(errno));
}

/* A temporary file has the permissions that fopen would give it (mkstemp's are the owner's alone). */
bool output_open(OutputFile *output, const char *path, Error *error) {
    struct stat status, out;
    bool exists = stat(path, &status) == 0, in_place = exists && !S_ISREG(status.st_mode);
    bool is_stdout = exists && !in_place && fstat(STDOUT_FILENO, &out) == 0 && out.st_ino == status.st_ino &&
                     out.st_dev == status.st_dev;
    if (is_stdout || strcmp(path, "-") == 0)
        return error_set(error, "%s: this goes to a file, not to stdout; name one", path);
    output->path = exists && !in_place ? realpath(path, NULL) : strdup(path);
    if (!output->path) return error_set(error, "%s: cannot write: %s", path, strerror(errno));
    size_t n = strlen(output->path) + sizeof ".XXXXXX";
    output->temporary = calloc(1, n);
    if (!output->temporary) return error_set(error, "%s: not enough memory", path);
    if (in_place) { /* a device or pipe must not be replaced */
        output->file = fopen(path, "wb");
        return output->file || output_failed(output, error);
    }
    snprintf(output->temporary, n, "%s.XXXXXX", output->path);
    int file = mkstemp(output->temporary);
    if (file < 0) {
        output_failed(output, error);
        output->temporary[0] = '\0';
        return false;
    }
    unfinished = output->temporary;
    mode_t mask = umask(0);
    umask(mask);
    output->file = fchmod(file, 0666 & ~mask) == 0 ? fdopen(file, "wb") : NULL;
    if (output->file) return true;
    output_failed(output, error);
    close(file);
    return false;
}

bool output_finish(OutputFile *output, Error *error) {
    bool failed = fflush(output->file) != 0 || ferror(output->file);
    failed = fclose(output->file) != 0 || failed;
    output->file = NULL;
    if (failed || (output->temporary[0] && rename(output->temporary, output->path) != 0))
        return output_failed(output, error);
    unfinished = NULL;
    output->temporary[0] = '\0';
    return true;
}

void output_abandon(OutputFile *output) {
    if (output->file) fclose(output->file);
    unfinished = NULL;
    if (output->temporary && output->temporary[0]) unlink(output->temporary);
    free(output->path);
    free(output->temporary);
    *output = (OutputFile){0};
}

/* Magic, version, length of the rest, and a Python dict, padded so that items begin at a multiple of 64. */
void npy_header(unsigned char header[NPY_HEADER_BYTES], const char *dtype, const size_t *shape,
                size_t n_dims) {
    char dims[24 * NPY_MAX_DIMS] = "", *at = dims;
    for (size_t i = 0; i < n_dims; i++) /* a tuple of one ends in a comma */
        at += sprintf(at, "%s%zu%s", i ? ", " : "", shape[i], n_dims == 1 ? "," : "");
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    int n = snprintf((char *)header + 10, NPY_HEADER_BYTES - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, dims);
    memset(header + 10 + n, ' ', NPY_HEADER_BYTES - 11 - (size_t)n);
    header[NPY_HEADER_BYTES - 1] = '\n';
}

NpyWriter *npy_create(const char *path, size_t rows, size_t cols, Error *error) {
    NpyWriter *writer = calloc(1, sizeof *writer);
    if (!writer) {
        error_set(error, "%s: not enough memory", path);
        return NULL;
    }
    if (output_open(&writer->output, path, error)) {
        unsigned char header[NPY_HEADER_BYTES];
        npy_header(header, "<f4", (size_t[]){rows, cols}, 2);
        if (fwrite(header, 1, sizeof header, writer->output.file) == sizeof header) return writer;
        output_failed(&writer->output, error);
    }
    npy_abandon(writer);
    return NULL;
}

bool npy_write(NpyWriter *writer, const float *values, size_t n, Error *error) {
    return fwrite(values, sizeof *values, n, writer->output.file) == n ||
           output_failed(&writer->output, error);
}

bool npy_finish(NpyWriter *writer, Error *error) {
    bool ok = output_finish(&writer->output, error);
    npy_abandon(writer);
    return ok;
}

void npy_abandon(NpyWriter *writer) {
    if (!writer) return;
    output_abandon(&writer->output);
    free(writer);
}
