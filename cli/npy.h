/* Arrays for NumPy: the .npy format, version 1.0 (numpy.lib.format), and its header, which .npz needs too (npz.h). */
#ifndef ATTN_NPY_H
#define ATTN_NPY_H

#include "base/error.h"
#include "cli/output.h"

#include <stdbool.h>
#include <stddef.h>

enum { NPY_HEADER_BYTES = 128, NPY_MAX_DIMS = 3 };

/* The header of an array in C order; dtype as NumPy writes it, "<f4". The items follow it. */
void npy_header(unsigned char header[NPY_HEADER_BYTES], const char *dtype, const size_t *shape,
                size_t n_dims);

/* A float32 array being written row by row. */
typedef struct NpyWriter NpyWriter;

/* Begins path as a float32 array [rows][cols]. NULL with an error when it cannot be written, or is one of the inputs. */
NpyWriter *npy_create(const char *path, const Inputs *inputs, size_t rows, size_t cols, Error *error);

/* Appends n floats. */
bool npy_write(NpyWriter *writer, const float *values, size_t n, Error *error);

/* Ends the file and gives it its name. Frees the writer, also on failure. */
bool npy_finish(NpyWriter *writer, Error *error);

/* Gives the file up and removes it. Accepts NULL. */
void npy_abandon(NpyWriter *writer);

/* An array that was read: a vector is one row. */
typedef struct NpyArray {
    size_t rows, cols;
    bool is_vector; /* it has one dimension */
    float *data;    /* [rows][cols], to be freed */
} NpyArray;

/*
 * Reads n bytes of the format .npy, any version: one or two dimensions of float16, float32 or float64, little-endian, in C
 * order. Fails, with an error behind `name`, on anything else, and on bytes that are missing or left over.
 */
bool npy_read(const char *name, const void *bytes, size_t n, NpyArray *array, Error *error);

#endif
