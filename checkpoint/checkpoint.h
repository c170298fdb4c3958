/*
 * A checkpoint is named tensors and named metadata. The tensors' data are views into one file mapped read-only. Names
 * and metadata are copied: whoever writes to the file changes what is mapped, and a length or an index must stay what
 * it was when it was checked. open.h opens one; each format of single files has a file of its own in this
 * folder and speaks GGUF's names here, so that nobody above knows which it was. Every number from a file is checked
 * before it is used.
 */
#ifndef ATTN_CHECKPOINT_H
#define ATTN_CHECKPOINT_H

#include "base/error.h"
#include "base/text.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TENSOR_MAX_DIMS = 4 };

/* dims[0] varies fastest, as in GGUF: a matrix [rows][cols] has dims {cols, rows}. Unused dims are 1. */
typedef struct Tensor {
    String name;
    String own_name; /* of the folder's tensor that it is made of; "" in files of other formats */
    DType dtype;     /* the file's number; dtype_info is NULL where nothing here computes with such a type */
    uint32_t n_dims;
    uint64_t dims[TENSOR_MAX_DIMS];
    const void *data; /* borrowed until checkpoint_close */
    uint64_t n_bytes; /* 0 where checkpoint_type is NULL: nobody can tell where the data ends */
} Tensor;

/* How weights of any type of ggml lie in a file, also of those that dtype_info lacks; NULL for other numbers. */
const DTypeInfo *checkpoint_type(uint32_t type);

typedef struct Checkpoint Checkpoint;

/* A file without a path. */
typedef struct GivenFile {
    const void *bytes; /* [n_bytes] at a multiple of 16, and as they are until checkpoint_close; or NULL: */
    size_t n_bytes;
    int descriptor; /* of a file that is open for reading; all of it is mapped, and this not needed afterwards */
} GivenFile;

/*
 * Called from time to time during long work: `done` of `total` are finished. `what` names what is counted
 * ("tokens"); it is NULL when there is too little to report. At the end done = total. If it returns false, the work
 * stops and fails with the error "interrupted".
 */
typedef bool Progress(void *user, const char *what, size_t done, size_t total);

/* Accepts NULL. */
void checkpoint_close(Checkpoint *checkpoint);

const char *checkpoint_path(const Checkpoint *checkpoint);
const char *checkpoint_format(const Checkpoint *checkpoint);  /* "GGUF v3", "PyTorch" … */
uint64_t checkpoint_file_bytes(const Checkpoint *checkpoint); /* of all files that hold its weights */

/* Memory that its weights take beyond the files: those that a folder has in another order than GGUF. */
uint64_t checkpoint_turned_bytes(const Checkpoint *checkpoint);

/* Weights of a folder that are no part of the text model, and are left out: for pictures, for tokens further on. */
uint64_t checkpoint_left_out_bytes(const Checkpoint *checkpoint);

/*
 * Whether the file has been written to since it was opened, so that what was computed may be of old and new weights.
 * A file that was renamed, deleted, or replaced by another of its name has not: the mapping keeps it.
 */
bool checkpoint_changed(const Checkpoint *checkpoint);

/*
 * Whether the path is one of the files that it was read from, a folder's texts among them, by whatever name (a link, hard or
 * not); or the place of one that was looked for and was not there, and would be taken the next time.
 */
bool checkpoint_reads(const Checkpoint *checkpoint, const char *path);

/* Tensors in the file's order; checkpoint_tensor(i), i < checkpoint_n_tensors. */
size_t checkpoint_n_tensors(const Checkpoint *checkpoint);
const Tensor *checkpoint_tensor(const Checkpoint *checkpoint, size_t i);

/* The tensor called name, or NULL. */
const Tensor *checkpoint_find(const Checkpoint *checkpoint, const char *name);

typedef struct TensorName {
    char text[128];
} TensorName;

/*
 * The name of a tensor, which may be missing, as whoever made the file knows it: the folder's own, if it is there, or in another
 * layer; otherwise GGUF's.
 */
TensorName checkpoint_told(const Checkpoint *checkpoint, String name);

/*
 * Metadata as GGUF lays them out, in the file's order, for writers of other files: checkpoint_value(i), i <
 * checkpoint_n_values. All is borrowed.
 */
typedef struct Value {
    String key;
    uint32_t type;    /* GGUF's number (enum ValueType of format.h) */
    uint32_t element; /* of an array, whose n elements follow each other in data */
    uint64_t n;
    const void *data; /* of a string its length, a uint64, and its bytes */
    size_t n_bytes;
} Value;

size_t checkpoint_n_values(const Checkpoint *checkpoint);
Value checkpoint_value(const Checkpoint *checkpoint, size_t i);

/* Whether the metadata has the key, of any type; whether its value is an array. */
bool checkpoint_has(const Checkpoint *checkpoint, const char *key);

/* Whether it holds a vocabulary: GGUF's keys, or a tokenizer.json. */
bool checkpoint_has_vocabulary(const Checkpoint *checkpoint);
bool checkpoint_is_array(const Checkpoint *checkpoint, const char *key);

/* Writes the formatted line to *error, with the path of the file before it, and returns false. */
bool checkpoint_error(const Checkpoint *checkpoint, Error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Metadata by key. A missing key leaves *value as it was and succeeds; a key of another type, or an
 * integer that is negative or too large, fails with an error that names it. Where an integer is expected, an array of
 * equal ones (a number for each layer) will do.
 */
bool checkpoint_u64(const Checkpoint *checkpoint, const char *key, uint64_t *value, Error *error);
bool checkpoint_f32(const Checkpoint *checkpoint, const char *key, float *value, Error *error);
bool checkpoint_number(const Checkpoint *checkpoint, const char *key, double *value,
                       Error *error); /* an integer or a real number of any type */
bool checkpoint_bool(const Checkpoint *checkpoint, const char *key, bool *value, Error *error);
bool checkpoint_string(const Checkpoint *checkpoint, const char *key, String *value, Error *error);

/*
 * The strings of an array one after another, where they lie: for a vocabulary, whose hundreds of thousands
 * are looked at once. A missing key gives next = NULL, n = 0 and succeeds.
 */
typedef struct StringArray {
    size_t n; /* strings left */
    const char *next, *end;
} StringArray;

bool checkpoint_strings(const Checkpoint *checkpoint, const char *key, StringArray *array, Error *error);

/* The next string, which is then taken off the array; n > 0. */
static inline String string_array_take(StringArray *array) {
    uint64_t n;
    memcpy(&n, array->next, sizeof n);
    String string = {array->next + sizeof n, (size_t)n};
    array->next = string.data + n;
    array->n--;
    return string;
}

/* The bytes of all strings left. */
static inline size_t string_array_bytes(const StringArray *array) {
    return (size_t)(array->end - array->next) - array->n * sizeof(uint64_t);
}

/* Numbers of one size where they lie, which may be anywhere. A missing key gives data = NULL, n = 0 and succeeds. */
typedef struct NumberArray {
    size_t n;
    const unsigned char *data;
} NumberArray;

/* An array of bools where they lie, flag i at i · stride: 0 or 1. A missing key gives data = NULL, n = 0 and succeeds. */
typedef struct FlagArray {
    size_t n, stride;
    const unsigned char *data;
} FlagArray;

/* Bools, or integers of 0 and 1, as some writers store them. */
bool checkpoint_flags(const Checkpoint *checkpoint, const char *key, FlagArray *flags, Error *error);
bool checkpoint_f32s(const Checkpoint *checkpoint, const char *key, NumberArray *array, Error *error);
bool checkpoint_i32s(const Checkpoint *checkpoint, const char *key, NumberArray *array,
                     Error *error); /* or uint32 */

static inline float f32_at(const NumberArray *array, size_t i) {
    float value;
    memcpy(&value, array->data + i * sizeof value, sizeof value);
    return value;
}

static inline int32_t i32_at(const NumberArray *array, size_t i) {
    int32_t value;
    memcpy(&value, array->data + i * sizeof value, sizeof value);
    return value;
}

#endif
