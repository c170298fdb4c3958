/*
 * Several arrays for NumPy in one file: .npz, a zip archive of .npy files, stored without compression. All
 * shapes are told at the start, so that every item has its place in the file and can be written in any order;
 * memory does not grow with the arrays.
 */
#ifndef ATTN_NPZ_H
#define ATTN_NPZ_H

#include "base/error.h"
#include "cli/npy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An array in C order. */
typedef struct NpzArray {
    char key[64];
    char dtype[24];    /* as NumPy writes it: "<f4", "<U7" */
    size_t item_bytes; /* of one item of that type */
    size_t n_dims, shape[NPY_MAX_DIMS];
} NpzArray;

/* Bytes of its items, whose product must not overflow: npz_create checks. */
uint64_t npz_array_bytes(const NpzArray *array);

/* An archive being written under a temporary name until it is whole. */
typedef struct NpzWriter NpzWriter;

/*
 * Begins path with n_arrays arrays whose items are zero, and takes the room on the disk. The arrays are
 * borrowed until the writer is freed. NULL with an error when the file cannot be written or the disk lacks
 * the room, and for a device or pipe, which has no places to write to.
 */
NpzWriter *npz_create(const char *path, const Inputs *inputs, const NpzArray *arrays, size_t n_arrays,
                      Error *error);

/* Writes n items of an array from item `first` on, in row-major order. */
bool npz_write(NpzWriter *writer, size_t array, size_t first, const void *items, size_t n, Error *error);

/*
 * Reads all back for the checksums (with progress on a terminal and an ear for Ctrl-C), ends the file and
 * gives it its name. Frees the writer, also on failure.
 */
bool npz_finish(NpzWriter *writer, Error *error);

/* Gives the file up and removes it. Accepts NULL. */
void npz_abandon(NpzWriter *writer);

#endif
