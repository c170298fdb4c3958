/* Float32 arrays for NumPy: the .npy format, version 1.0 (numpy.lib.format). */
#ifndef ATTN_NPY_H
#define ATTN_NPY_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

/* An array being written row by row, under a temporary name beside its own until it is whole. */
typedef struct NpyWriter NpyWriter;

/* Begins path as a float32 array [rows][cols]. NULL with an error when it cannot be written. */
NpyWriter *npy_create(const char *path, size_t rows, size_t cols, Error *error);

/* Appends n floats. */
bool npy_write(NpyWriter *writer, const float *values, size_t n, Error *error);

/* Ends the file and gives it its name. Frees the writer, also on failure. */
bool npy_finish(NpyWriter *writer, Error *error);

/* Gives the file up and removes it. Accepts NULL. */
void npy_abandon(NpyWriter *writer);

#endif
