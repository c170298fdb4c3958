#include "cli/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct NpyWriter {
    OutputFile output;
};

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

NpyWriter *npy_create(const char *path, const Inputs *inputs, size_t rows, size_t cols, Error *error) {
    NpyWriter *writer = calloc(1, sizeof *writer);
    if (!writer) {
        error_set(error, "%s: not enough memory", path);
        return NULL;
    }
    if (output_open(&writer->output, path, inputs, error)) {
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
