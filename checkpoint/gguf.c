/*
 * GGUF v2 and v3, little-endian (docs/gguf.md of ggml-org/ggml):
 *
 *   "GGUF", version, tensor count, metadata count
 *   metadata: key, type, value …
 *   tensor infos: name, dimensions, type, offset into the data …
 *   padding to the alignment, then the data
 *
 * Every count and length is held against the bytes that remain before it is used. All before the data is read from a
 * copy, because what others write to the file shows in a mapping at once: a length that was checked there could be
 * another one when it is used.
 */
#include "format.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ALIGNMENT = 32, MAX_KEY_BYTES = 65535, MAX_ARRAY_DEPTH = 4 };

/* Least bytes that an entry or a tensor info can take: bounds what a count may claim. */
enum { MIN_ENTRY_BYTES = 8 + 1 + 4 + 1, MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8 };

/*
 * The types of ggml that dtype.h does not have (enum ggml_type of ggml.h, blocks of ggml-common.h, September 2026).
 * 31 to 33 and 36 to 38, which ggml has since removed, were Q4_0 and IQ4_NL with their rows interleaved.
 */
static const DTypeInfo other_types[] = {
    [9] = {"Q8_1", 32, 36},        [15] = {"Q8_K", 256, 292},     [16] = {"IQ2_XXS", 256, 66},
    [17] = {"IQ2_XS", 256, 74},    [18] = {"IQ3_XXS", 256, 98},   [19] = {"IQ1_S", 256, 50},
    [21] = {"IQ3_S", 256, 110},    [22] = {"IQ2_S", 256, 82},     [24] = {"I8", 1, 1},
    [25] = {"I16", 1, 2},          [26] = {"I32", 1, 4},          [27] = {"I64", 1, 8},
    [28] = {"F64", 1, 8},          [29] = {"IQ1_M", 256, 56},     [31] = {"Q4_0_4_4", 32, 18},
    [32] = {"Q4_0_4_8", 32, 18},   [33] = {"Q4_0_8_8", 32, 18},   [34] = {"TQ1_0", 256, 54},
    [35] = {"TQ2_0", 256, 66},     [36] = {"IQ4_NL_4_4", 32, 18}, [37] = {"IQ4_NL_4_8", 32, 18},
    [38] = {"IQ4_NL_8_8", 32, 18}, [40] = {"NVFP4", 64, 36},      [41] = {"Q1_0", 128, 18},
    [42] = {"Q2_0", 64, 18},
};

const DTypeInfo *checkpoint_type(uint32_t type) {
    if (dtype_info(type)) return dtype_info(type);
    bool known = type < sizeof other_types / sizeof *other_types && other_types[type].name;
    return known ? &other_types[type] : NULL;
}

typedef struct Cursor {
    const MappedFile *file;
    const unsigned char *at, *end;
    Error *error;
} Cursor;

static size_t remaining(const Cursor *cursor) { return (size_t)(cursor->end - cursor->at); }

/* A copy has all that was there a moment ago. */
static bool cut(const Cursor *cursor, const char *what) {
    const MappedFile *file = cursor->file;
    if (cursor->end != file->bytes + file->n_bytes) return refuse_changed(file, cursor->error);
    return error_set(cursor->error, "%s: the file ends at byte %zu inside %s; is it cut?", file->path,
                     file->n_bytes, what);
}

/* Copies n bytes, and returns where the next ones lie. No compiler reads them again instead of keeping the copy. */
static const unsigned char *copy_once(void *value, const unsigned char *at, size_t n) {
    memcpy(value, at, n);
    atomic_signal_fence(memory_order_acquire);
    return at + n;
}

static bool take(Cursor *cursor, void *value, size_t n, const char *what) {
    if (remaining(cursor) < n) return cut(cursor, what);
    cursor->at = copy_once(value, cursor->at, n);
    return true;
}

static bool take_string(Cursor *cursor, String *string, const char *what) {
    uint64_t n = 0;
    if (!take(cursor, &n, sizeof n, what)) return false;
    if (n > remaining(cursor)) return cut(cursor, what);
    *string = (String){(const char *)cursor->at, (size_t)n};
    cursor->at += n;
    return true;
}

/* Steps over n strings, in a loop of its own: a vocabulary has hundreds of thousands. */
static bool skip_strings(Cursor *cursor, uint64_t n) {
    const unsigned char *at = cursor->at, *end = cursor->end;
    for (; n > 0; n--) {
        uint64_t length;
        if ((size_t)(end - at) < sizeof length) break;
        at = copy_once(&length, at, sizeof length);
        if (length > (size_t)(end - at)) break;
        at += length;
    }
    cursor->at = at;
    return n == 0 || cut(cursor, "a metadata string");
}

static bool skip_array(Cursor *cursor, Entry *entry, int depth);

/* Steps over one value of a type, leaving entry's data and n on it; entry->key is for messages. */
static bool skip_value(Cursor *cursor, Entry *entry, uint32_t type) {
    String string;
    entry->data = cursor->at;
    if (type == VALUE_ARRAY) return skip_array(cursor, entry, 0);
    if (type == VALUE_STRING) {
        if (!take_string(cursor, &string, "a metadata string")) return false;
        entry->n = string.n;
        return true;
    }
    size_t n = format_value_bytes(type);
    if (n == 0)
        return error_set(cursor->error, "%s: metadata key '%.*s' has unknown type %" PRIu32,
                         cursor->file->path, string_shown(entry->key), entry->key.data, type);
    if (remaining(cursor) < n) return cut(cursor, "a metadata value");
    cursor->at += n;
    return true;
}

static bool skip_array(Cursor *cursor, Entry *entry, int depth) {
    uint32_t element = 0;
    uint64_t n = 0, bytes = 0;
    if (!take(cursor, &element, sizeof element, "a metadata array") ||
        !take(cursor, &n, sizeof n, "a metadata array"))
        return false;
    if (depth > MAX_ARRAY_DEPTH)
        return error_set(cursor->error, "%s: metadata key '%.*s' nests arrays too deeply", cursor->file->path,
                         string_shown(entry->key), entry->key.data);
    if (element >= VALUE_N_TYPES)
        return error_set(cursor->error, "%s: metadata key '%.*s' is an array of unknown type %" PRIu32,
                         cursor->file->path, string_shown(entry->key), entry->key.data, element);
    size_t size = format_value_bytes(element), least = size ? size : sizeof(uint64_t);
    if (!multiply(n, least, &bytes) || bytes > remaining(cursor))
        return error_set(cursor->error,
                         "%s: metadata key '%.*s' claims %" PRIu64 " elements, more than the file holds",
                         cursor->file->path, string_shown(entry->key), entry->key.data, n);
    const unsigned char *data = cursor->at;
    if (size) cursor->at += bytes;
    if (element == VALUE_STRING && !skip_strings(cursor, n)) return false;
    for (uint64_t i = 0; element == VALUE_ARRAY && i < n; i++)
        if (!skip_array(cursor, entry, depth + 1)) return false;
    entry->element = (ValueType)element;
    entry->n = n;
    entry->n_bytes = (size_t)(cursor->at - data);
    entry->data = data;
    return true;
}

static bool read_entry(Cursor *cursor, Entry *entry) {
    uint32_t type = 0;
    if (!take_string(cursor, &entry->key, "a metadata key")) return false;
    if (entry->key.n == 0 || entry->key.n > MAX_KEY_BYTES)
        return error_set(cursor->error, "%s: a metadata key of %zu bytes; 1 to %d are allowed",
                         cursor->file->path, entry->key.n, MAX_KEY_BYTES);
    if (!take(cursor, &type, sizeof type, "a metadata type")) return false;
    if (!skip_value(cursor, entry, type)) return false;
    entry->type = (ValueType)type;
    return true;
}

/* Bytes of a tensor from its dims and type; all are checked. They stay 0 where the type's blocks are not known. */
static bool tensor_size(const Cursor *cursor, Tensor *tensor) {
    const char *path = cursor->file->path, *name = tensor->name.data;
    int n_name = string_shown(tensor->name);
    const DTypeInfo *info = checkpoint_type(tensor->dtype);
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] == 0)
            return error_set(cursor->error, "%s: tensor '%.*s' has a dimension of 0", path, n_name, name);
        if (!multiply(n, tensor->dims[i], &n))
            return error_set(cursor->error, "%s: tensor '%.*s' has more weights than can be counted", path,
                             n_name, name);
    }
    if (!info) return true;
    if (tensor->dims[0] % info->block != 0)
        return error_set(cursor->error,
                         "%s: tensor '%.*s' of type %s has rows of %" PRIu64 ", not a multiple of %zu", path,
                         n_name, name, info->name, tensor->dims[0], info->block);
    if (!multiply(n / info->block, info->block_bytes, &tensor->n_bytes))
        return error_set(cursor->error, "%s: tensor '%.*s' has more bytes than can be counted", path, n_name,
                         name);
    return true;
}

/* Reads a tensor info; data still holds nothing, *offset is counted from the start of the data. */
static bool read_tensor(Cursor *cursor, Tensor *tensor, uint64_t *offset) {
    const char *path = cursor->file->path;
    uint32_t type = 0;
    if (!take_string(cursor, &tensor->name, "a tensor name")) return false;
    if (tensor->name.n == 0 || tensor->name.n > MAX_KEY_BYTES)
        return error_set(cursor->error, "%s: a tensor name of %zu bytes; 1 to %d are allowed", path,
                         tensor->name.n, MAX_KEY_BYTES);
    if (!take(cursor, &tensor->n_dims, sizeof tensor->n_dims, "a tensor's shape")) return false;
    if (tensor->n_dims == 0 || tensor->n_dims > TENSOR_MAX_DIMS)
        return error_set(cursor->error, "%s: tensor '%.*s' has %" PRIu32 " dimensions; 1 to %d are allowed",
                         path, string_shown(tensor->name), tensor->name.data, tensor->n_dims,
                         TENSOR_MAX_DIMS);
    for (uint32_t i = 0; i < TENSOR_MAX_DIMS; i++) {
        tensor->dims[i] = 1;
        if (i < tensor->n_dims && !take(cursor, &tensor->dims[i], sizeof tensor->dims[i], "a tensor's shape"))
            return false;
    }
    if (!take(cursor, &type, sizeof type, "a tensor's type") ||
        !take(cursor, offset, sizeof *offset, "a tensor's offset"))
        return false;
    tensor->dtype = (DType)type;
    return tensor_size(cursor, tensor);
}

/* The file's own alignment, or 32. Weights are read in place: 8 is the least that the format allows. */
static bool read_alignment(Cursor *cursor, const Entry *entries, size_t n, uint64_t *alignment) {
    static const char key[] = "general.alignment";
    *alignment = DEFAULT_ALIGNMENT;
    for (size_t i = 0; i < n; i++) {
        if (entries[i].key.n != sizeof key - 1 || memcmp(entries[i].key.data, key, sizeof key - 1) != 0)
            continue;
        uint32_t value = 0;
        if (entries[i].type == VALUE_U32) memcpy(&value, entries[i].data, sizeof value);
        if (value == 0 || value % 8 != 0)
            return error_set(cursor->error, "%s: general.alignment must be a uint32 multiple of 8",
                             cursor->file->path);
        *alignment = value;
    }
    return true;
}

/* Turns a tensor's offset into a pointer, once all its bytes, or where it begins, are known to lie in the file. */
static bool place_tensor(const Cursor *cursor, Tensor *tensor, uint64_t data_start, uint64_t offset,
                         uint64_t alignment) {
    const MappedFile *file = cursor->file;
    uint64_t begin, end;
    if (offset % alignment != 0)
        return error_set(cursor->error,
                         "%s: tensor '%.*s' lies at offset %" PRIu64
                         ", not a multiple of the alignment %" PRIu64,
                         file->path, string_shown(tensor->name), tensor->name.data, offset, alignment);
    if (!add(data_start, offset, &begin) || !add(begin, tensor_extent(tensor), &end) || end > file->n_bytes)
        return error_set(cursor->error,
                         "%s: tensor '%.*s' (%" PRIu64 " bytes at offset %" PRIu64 ") leaves the file of %zu "
                         "bytes; is it cut?",
                         file->path, string_shown(tensor->name), tensor->name.data, tensor->n_bytes, offset,
                         file->n_bytes);
    tensor->data = file->bytes + begin;
    return true;
}

static bool recognise(const unsigned char *bytes, size_t n) {
    return n >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

static bool check_version(const Cursor *cursor, uint32_t version) {
    const char *path = cursor->file->path;
    if (version == 2 || version == 3) return true;
    if ((version & 0xffff) == 0 && version != 0)
        return error_set(cursor->error, "%s: this is %s", path, BIG_ENDIAN_GGUF);
    if (version == 1)
        return error_set(
            cursor->error,
            "%s: GGUF version 1 (of August 2023); versions 2 and 3 are read: convert the original model "
            "again, or download a newer conversion",
            path);
    return error_set(cursor->error, "%s: GGUF version %" PRIu32 "; versions 2 and 3 are read", path, version);
}

typedef struct Counts {
    uint64_t entries, tensors;
} Counts;

/* The header's fixed part. There is room for as much as it counts. */
static bool read_counts(Cursor *cursor, uint32_t *version, Counts *counts) {
    cursor->at += 4; /* "GGUF" */
    if (!take(cursor, version, sizeof *version, "the header") || !check_version(cursor, *version) ||
        !take(cursor, &counts->tensors, sizeof counts->tensors, "the header") ||
        !take(cursor, &counts->entries, sizeof counts->entries, "the header"))
        return false;
    if (counts->entries <= remaining(cursor) / MIN_ENTRY_BYTES &&
        counts->tensors <= remaining(cursor) / MIN_TENSOR_BYTES)
        return true;
    return error_set(cursor->error,
                     "%s: claims %" PRIu64 " metadata entries and %" PRIu64
                     " tensors, more than its %zu bytes hold",
                     cursor->file->path, counts->entries, counts->tensors, cursor->file->n_bytes);
}

/* Steps over the whole header; keeps none of it. */
static bool skip_header(Cursor *cursor) {
    uint32_t version;
    Counts counts;
    Entry entry;
    Tensor tensor;
    uint64_t offset;
    bool ok = read_counts(cursor, &version, &counts);
    for (uint64_t i = 0; ok && i < counts.entries; i++) ok = read_entry(cursor, &entry);
    for (uint64_t i = 0; ok && i < counts.tensors; i++) ok = read_tensor(cursor, &tensor, &offset);
    return ok;
}

/* The contents of one file; the arrays are malloc'ed. */
typedef struct GgufHeader {
    uint32_t version;
    Entry *entries;
    Tensor *tensors;
    size_t n_entries, n_tensors;
} GgufHeader;

/* Fills in entries and tensors from the n bytes of a header that lie in memory of our own. */
static bool read_copy(GgufHeader *header, const MappedFile *file, const unsigned char *bytes, size_t n,
                      Error *error) {
    Cursor cursor = {file, bytes, bytes + n, error};
    Counts counts;
    uint64_t alignment = 0;
    if (!read_counts(&cursor, &header->version, &counts)) return false;
    header->entries = calloc((size_t)counts.entries + 1, sizeof *header->entries);
    header->tensors = calloc((size_t)counts.tensors + 1, sizeof *header->tensors);
    uint64_t *offsets = calloc((size_t)counts.tensors + 1, sizeof *offsets);
    bool ok = header->entries && header->tensors && offsets;
    if (!ok) error_set(error, "%s: not enough memory to index the file", file->path);

    for (; ok && header->n_entries < counts.entries; header->n_entries++)
        ok = read_entry(&cursor, &header->entries[header->n_entries]);
    for (; ok && header->n_tensors < counts.tensors; header->n_tensors++)
        ok = read_tensor(&cursor, &header->tensors[header->n_tensors], &offsets[header->n_tensors]);
    ok = ok && (cursor.at == cursor.end || refuse_changed(file, error)) &&
         read_alignment(&cursor, header->entries, header->n_entries, &alignment);
    uint64_t data_start = ok ? (n + alignment - 1) / alignment * alignment : 0;
    for (size_t i = 0; ok && i < header->n_tensors; i++)
        ok = place_tensor(&cursor, &header->tensors[i], data_start, offsets[i], alignment);
    free(offsets);
    return ok;
}

/* A header is looked at twice: where it lies, for its length alone, then in the copy. */
static bool read_file(GgufHeader *header, Checkpoint *checkpoint, const MappedFile *file, Error *error) {
    Cursor cursor = {file, file->bytes, file->bytes + file->n_bytes, error};
    if (!skip_header(&cursor)) return false;
    size_t n = (size_t)(cursor.at - file->bytes);
    unsigned char *copy = checkpoint_own(checkpoint, n + STRING_PADDING, error);
    if (!copy) return false;
    memcpy(copy, file->bytes, n);
    return read_copy(header, file, copy, n, error);
}

/* An integer among a file's entries, or 0. */
static uint64_t number_of(const GgufHeader *header, const char *key) {
    uint64_t value = 0;
    for (size_t i = 0; i < header->n_entries; i++)
        if (string_equals(header->entries[i].key, key)) format_unsigned(&header->entries[i], &value);
    return value;
}

/* Parts have names that end in this; the first is number 1. */
enum { PART_BYTES = sizeof "-00001-of-00002.gguf", MAX_PARTS = 99999 };

static void part_ending(char ending[static PART_BYTES], uint64_t number, uint64_t n) {
    snprintf(ending, PART_BYTES, "-%05u-of-%05u.gguf", (unsigned)number % 100000, (unsigned)n % 100000);
}

/* Reads part `number` of n, whose path is the first's with another ending, and puts its tensors behind the others. */
static bool read_part(Checkpoint *checkpoint, char *path, uint64_t number, uint64_t n, Error *error) {
    part_ending(path + strlen(path) - (PART_BYTES - 1), number, n);
    const MappedFile *file = checkpoint_map(checkpoint, path, error);
    if (!file) return false;
    if (!recognise(file->bytes, file->n_bytes)) return refuse_foreign(file, error);
    GgufHeader header = {0};
    bool ok = read_file(&header, checkpoint, file, error);
    if (ok && (number_of(&header, "split.no") + 1 != number || number_of(&header, "split.count") != n))
        ok = error_set(error, "%s: is no part number %" PRIu64 " of %" PRIu64 ", as its name says", path,
                       number, n);
    size_t total = checkpoint->n_tensors + header.n_tensors;
    Tensor *tensors = ok ? realloc(checkpoint->tensors, (total + 1) * sizeof *tensors) : NULL;
    if (ok && !tensors) ok = error_set(error, "%s: not enough memory to index the file", path);
    if (tensors) {
        memcpy(tensors + checkpoint->n_tensors, header.tensors, header.n_tensors * sizeof *tensors);
        checkpoint->tensors = tensors, checkpoint->n_tensors = total;
    }
    free(header.entries);
    free(header.tensors);
    return ok;
}

/* The parts behind the first, if there are any. */
static bool read_parts(Checkpoint *checkpoint, const GgufHeader *first, Error *error) {
    uint64_t n = number_of(first, "split.count"), number = number_of(first, "split.no") + 1;
    if (n < 2) return true;
    if (checkpoint->given)
        return error_set(error,
                         "%s: this is part %" PRIu64 " of %" PRIu64
                         " of a split GGUF: open the first by its path, beside which the others are found",
                         checkpoint->path, number, n);
    size_t length = strlen(checkpoint->path);
    char ending[PART_BYTES];
    part_ending(ending, number, n);
    bool is_named = n <= MAX_PARTS && length >= PART_BYTES - 1 &&
                    strcmp(checkpoint->path + length - (PART_BYTES - 1), ending) == 0;
    if (!is_named)
        return error_set(error,
                         "%s: this is part %" PRIu64 " of %" PRIu64
                         " of a split GGUF: its name must end in '%s', "
                         "so that the others are found beside it",
                         checkpoint->path, number, n, ending);
    if (number != 1) {
        part_ending(ending, 1, n);
        return error_set(error, "%s: this is part %" PRIu64 " of a split GGUF: name the first, '…%s'",
                         checkpoint->path, number, ending);
    }
    char *path = strdup(checkpoint->path);
    bool ok = path || error_set(error, "%s: not enough memory", checkpoint->path);
    while (ok && number < n) ok = read_part(checkpoint, path, ++number, n, error);
    free(path);
    uint64_t n_tensors = number_of(first, "split.tensors.count");
    if (ok && n_tensors && n_tensors != checkpoint->n_tensors)
        ok = error_set(error, "%s: its parts have %zu tensors, but should have %" PRIu64, checkpoint->path,
                       checkpoint->n_tensors, n_tensors);
    return ok;
}

static bool read(Checkpoint *checkpoint, Error *error) {
    GgufHeader header = {0};
    bool ok = read_file(&header, checkpoint, checkpoint->files, error);
    checkpoint->format = header.version == 2 ? "GGUF v2" : "GGUF v3";
    checkpoint->entries = header.entries, checkpoint->n_entries = header.n_entries;
    checkpoint->tensors = header.tensors, checkpoint->n_tensors = header.n_tensors;
    return ok && read_parts(checkpoint, &header, error);
}

const Format format_gguf = {recognise, read};
