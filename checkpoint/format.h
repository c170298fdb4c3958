/* The format readers of this folder share this with checkpoint.c. For this folder only. */
#ifndef ATTN_FORMAT_H
#define ATTN_FORMAT_H

#include "checkpoint.h"

#include <sys/stat.h>

/* Types of metadata values, with GGUF's numbers. */
typedef enum ValueType {
    VALUE_U8 = 0,
    VALUE_I8 = 1,
    VALUE_U16 = 2,
    VALUE_I16 = 3,
    VALUE_U32 = 4,
    VALUE_I32 = 5,
    VALUE_F32 = 6,
    VALUE_BOOL = 7,
    VALUE_STRING = 8,
    VALUE_ARRAY = 9,
    VALUE_U64 = 10,
    VALUE_I64 = 11,
    VALUE_F64 = 12,
    VALUE_N_TYPES
} ValueType;

/* Bytes of a value of fixed size; 0 for strings, arrays and numbers that are no type. */
size_t format_value_bytes(uint32_t type);

/*
 * One key and its value, which lies at data as GGUF lays it out: a string is a uint64 length and its
 * bytes, an array is n elements of type `element` one after another. It lies in memory that nobody else can change.
 */
typedef struct Entry {
    String key;
    ValueType type;
    ValueType element; /* of an array */
    uint64_t n;        /* elements of an array; bytes of a string */
    size_t n_bytes;    /* that an array's elements take */
    const unsigned char *data;
} Entry;

/* Reads an integer of any width; false if it is none, or negative. */
bool format_unsigned(const Entry *entry, uint64_t *value);

/* A file mapped read-only. */
typedef struct MappedFile {
    const char *path;
    const unsigned char *bytes; /* may change between two looks at one byte */
    size_t n_bytes;
    int descriptor;     /* of the open file */
    struct stat opened; /* what it was when it was opened */
    bool borrowed;      /* the bytes are somebody else's memory */
} MappedFile;

/* Where a file was looked for. */
typedef struct Place {
    const char *path;
    struct stat found; /* zeros where there was none */
} Place;

/* A format other than GGUF has its own name of a key: ".block_count" is "num_hidden_layers" in config.json. Both live for ever. */
typedef struct OwnName {
    const char *key, *name;
} OwnName;

enum { MAX_OWN_NAMES = 64 }; /* more have GGUF's */

struct Checkpoint {
    char *path; /* as it was given: a file or a folder */
    const char *format;
    MappedFile *files; /* [n_files] that hold its weights */
    size_t n_files;
    Place *places; /* [n_places] that opening it looked at */
    size_t n_places;
    Tensor *tensors; /* in the file's order */
    size_t n_tensors;
    Entry *entries; /* likewise */
    size_t n_entries;
    /* [n_own_names], the first of a key counts: errors tell a person's own name of it. */
    OwnName own_names[MAX_OWN_NAMES];
    size_t n_own_names;
    const Tensor **by_name;    /* the tensors sorted by name */
    const Entry **by_key;      /* the entries sorted by key */
    struct Owned *owned;       /* of checkpoint_own */
    struct Loading **loadings; /* [n_tensors] of checkpoint_lay_out, or NULL */
    void *loaded;              /* what checkpoint_weights made last */
    uint64_t n_turned;         /* bytes of weights that do not lie in a file */
    uint64_t n_left_out;       /* bytes of weights that are no part of the text model */
    bool vocabulary_only;      /* of a folder nothing else is read */
    const GivenFile *given;    /* while it is opened: the only file there is, which has no path; or NULL */
    Progress *progress;        /* while it is opened, or NULL */
    void *user;                /* what progress gets */
};

/*
 * Each reader looks at the first file's bytes and fills format, tensors and entries. It may leave names unsorted and
 * tensors overlapping: checkpoint.c checks that for all formats. What it has allocated when it fails is freed by
 * checkpoint_close.
 */
typedef struct Format {
    bool (*recognise)(const unsigned char *bytes, size_t n);
    bool (*read)(Checkpoint *checkpoint, Error *error);
} Format;

/* Keeps in mind that a file is looked for at path, for checkpoint_reads: before whoever opens it, or asks if it is there. */
bool checkpoint_look(Checkpoint *checkpoint, const char *path, Error *error);

/*
 * Maps one more file, checkpoint->files[n_files − 1] afterwards, which moves the others' structs. NULL with an error
 * that names it when it is no regular file, is empty, or cannot be mapped.
 */
MappedFile *checkpoint_map(Checkpoint *checkpoint, const char *path, Error *error);

/* Takes all files off again. */
void checkpoint_unmap(Checkpoint *checkpoint);

/*
 * n bytes of memory that checkpoint_close frees, not set to anything: names and values that the file lacks or that
 * must not change, weights that had to be turned. NULL with an error when memory runs out.
 */
void *checkpoint_own(Checkpoint *checkpoint, size_t n, Error *error);

extern const Format format_gguf;
extern const Format format_llmc;              /* a model */
extern const Format format_llmc_tokenizer;    /* its vocabulary */
extern const Format format_llama2c;           /* a model */
extern const Format format_llama2c_tokenizer; /* its vocabulary */

/* Sorts keys and tensors for look-ups; refuses those that occur twice, and tensors that share bytes. */
bool checkpoint_index(Checkpoint *checkpoint, Error *error);

/* Fails: two looks at the mapped bytes did not agree. */
bool refuse_changed(const MappedFile *file, Error *error);

enum { MAX_SAFETENSORS_HEADER = 100000000 /* bytes: the format's own limit */ };

/* Whether the bytes look like the beginning of a safetensors file. */
bool is_safetensors(const unsigned char *bytes, size_t n);

/* Each fails: it says what a file or folder is that is no checkpoint, and what to do with it. */
bool refuse_foreign(const MappedFile *file, Error *error);
/* Whether refuse_foreign has more to say than that it is none; what a text is that Git LFS left in a file's place, or NULL. */
bool is_foreign(const MappedFile *file);
const char *foreign_pointer(const char *text, size_t n);
bool refuse_folder(const char *path, Error *error);

/* Whether a folder has weights in files of formats that end in .gguf, .safetensors, .bin, .pt or .pth. */
bool folder_has_others(const char *path);

#define BIG_ENDIAN_GGUF                                                                                      \
    "a big-endian GGUF file; convert it with 'gguf-convert-endian FILE little' (of Python's package gguf)"

/* Bytes that a tensor takes at least: it has some even where its type does not tell how many. */
static inline uint64_t tensor_extent(const Tensor *tensor) { return tensor->n_bytes ? tensor->n_bytes : 1; }

/* a·b into *product; false when it overflows. */
static inline bool multiply(uint64_t a, uint64_t b, uint64_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

/* a + b into *sum; false when it overflows. */
static inline bool add(uint64_t a, uint64_t b, uint64_t *sum) { return !__builtin_add_overflow(a, b, sum); }

#endif
