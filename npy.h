/*
 * Arrays for NumPy: the .npy format, version 1.0 (numpy.lib.format), and what it shares with .npz (npz.h):
 * its header, and files that appear under their name only when they are whole.
 */
#ifndef ATTN_NPY_H
#define ATTN_NPY_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { NPY_HEADER_BYTES = 128, NPY_MAX_DIMS = 3 };

/* The header of an array in C order; dtype as NumPy writes it, "<f4". The items follow it. */
void npy_header(unsigned char header[NPY_HEADER_BYTES], const char *dtype, const size_t *shape,
                size_t n_dims);

/*
 * A file being written under a temporary name beside its own until it is whole; a link to a file stays one. What is
 * no regular file (a device, a pipe) is written in place instead, and stdout is refused. Starts as {0}.
 */
typedef struct OutputFile {
    FILE *file;
    char *path;
    char *temporary; /* "" when path is written in place, or the file has its name */
} OutputFile;

/* output_finish closes the file and gives it its name. After a failure, and at the end, output_abandon. */
bool output_open(OutputFile *output, const char *path, Error *error);
bool output_finish(OutputFile *output, Error *error);

/* Closes what is open, removes what is not whole, frees what output holds. */
void output_abandon(OutputFile *output);

/* Removes what is not whole, for a signal handler that ends the process. */
void output_remove_unfinished(void);

/* "PATH: cannot write: …" by errno; returns false. */
bool output_failed(const OutputFile *output, Error *error);

/* A float32 array being written row by row. */
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
