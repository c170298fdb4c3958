#include "cli/npy.h"

#include "base/memory.h"
#include "kernels/dtype.h"

#include <stdint.h>
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

/* Finds the value behind a key of the header, past spaces; NULL where the key is missing. */
static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    return at ? at + strlen(key) + strspn(at + strlen(key), ": ") : NULL;
}

/* The numbers of "(3, 4)" or "(4,)"; false where there are none, or more than two, or one is too large. */
static bool read_shape(const char *at, NpyArray *array) {
    size_t dims[2], n = 0;
    if (!at || *at++ != '(') return false;
    while (*at != ')') {
        char *end;
        at += strspn(at, " ");
        unsigned long long value = strtoull(at, &end, 10);
        if (*at < '0' || *at > '9' || n == 2 || value == 0 || value > UINT32_MAX) return false;
        dims[n++] = (size_t)value;
        at = end + strspn(end, ", ");
    }
    if (n == 0) return false;
    *array = (NpyArray){n == 2 ? dims[0] : 1, dims[n - 1], n == 1, NULL};
    return true;
}

/* The header, cut and ended by a zero, in `text` [size]; the bytes that it takes with all before it, or 0. */
static size_t read_header(const unsigned char *bytes, size_t n, char *text, size_t size) {
    if (n < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3) return 0;
    size_t before = bytes[6] == 1 ? 10 : 12, length = bytes[8] | (size_t)bytes[9] << 8;
    if (before == 12) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > n - before || length >= size) return 0;
    memcpy(text, bytes + before, length);
    text[length] = '\0';
    return before + length;
}

static float item_at(const unsigned char *data, size_t i, size_t width) {
    uint16_t half;
    float value;
    double wide;
    if (width == 2) return memcpy(&half, data + 2 * i, 2), f16_to_f32(half);
    if (width == 4) return memcpy(&value, data + 4 * i, 4), value;
    memcpy(&wide, data + 8 * i, 8);
    return (float)wide;
}

bool npy_read(const char *name, const void *bytes, size_t n, NpyArray *array, Error *error) {
    char header[1024];
    size_t before = read_header(bytes, n, header, sizeof header);
    const char *type = before ? value_of(header, "'descr'") : NULL,
               *order = before ? value_of(header, "'fortran_order'") : NULL;
    *array = (NpyArray){0};
    if (!before) return error_set(error, "%s: is no array of NumPy's format .npy, or cut short", name);
    bool is_float =
        type && strncmp(type, "'<f", 3) == 0 && strchr("248", type[3]) && type[3] && type[4] == '\'';
    if (!is_float)
        return error_set(error, "%s: its numbers are not float32, float64 or float16, little-endian", name);
    if (!read_shape(value_of(header, "'shape'"), array))
        return error_set(error, "%s: an array of one or two dimensions is wanted", name);
    if (!order || (strncmp(order, "False", 5) != 0 && !array->is_vector))
        return error_set(error, "%s: its rows do not lie one after another (fortran_order)", name);
    size_t width = (size_t)(type[3] - '0'), n_items = (n - before) / width;
    if (array->rows > n_items / array->cols || array->rows * array->cols * width != n - before)
        return error_set(error, "%s: %zu x %zu numbers of %zu bytes do not make the %zu bytes that it holds",
                         name, array->rows, array->cols, width, n - before);
    array->data = floats_new(array->rows, array->cols);
    if (!array->data) return error_set(error, "%s: not enough memory", name);
    for (size_t i = 0; i < n_items; i++)
        array->data[i] = item_at((const unsigned char *)bytes + before, i, width);
    return true;
}
