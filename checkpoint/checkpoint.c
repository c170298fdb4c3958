/*
 * Its memory and files; what holds for every format, checked once a reader has filled in tensors and metadata; and below
 * that, the look-ups.
 */
#include "format.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are little-endian and used in place: this machine would have to swap every weight"
#endif

/* Memory that belongs to a checkpoint. Small pieces share the list's first block; each large one has its own. */
typedef struct Owned {
    struct Owned *next;
    size_t n_left; /* bytes of it that are not in use, its last */
    _Alignas(64) unsigned char bytes[];
} Owned;

enum { SHARED_BYTES = 16384, SMALL_BYTES = 2048 };

void *checkpoint_own(Checkpoint *checkpoint, size_t n, Error *error) {
    Owned *first = checkpoint->owned;
    bool is_small = n <= SMALL_BYTES;
    size_t whole = is_small ? n / 16 * 16 + 16 : n, room = is_small ? SHARED_BYTES : n;
    if (is_small && first && first->n_left >= whole) {
        first->n_left -= whole;
        return first->bytes + SHARED_BYTES - first->n_left - whole;
    }
    Owned *owned = room < SIZE_MAX - sizeof *owned ? bytes_new(sizeof *owned + room) : NULL;
    if (!owned) {
        error_set(error, "%s: not enough memory for %zu bytes", checkpoint->path, n);
        return NULL;
    }
    *owned = (Owned){.next = first, .n_left = room - whole};
    if (!is_small && first)
        owned->next = first->next, first->next = owned;
    else
        checkpoint->owned = owned;
    return owned->bytes;
}

static bool map_descriptor(MappedFile *file, int descriptor, Error *error) {
    const char *path = file->path;
    struct stat *status = &file->opened;
    if (fstat(descriptor, status) != 0)
        return error_set(error, "%s: cannot examine: %s", path, strerror(errno));
    if (!S_ISREG(status->st_mode))
        return error_set(error, "%s: not a regular file; a checkpoint must be one, so that it can be mapped",
                         path);
    if (status->st_size == 0)
        return error_set(error, "%s: the file is empty: download or convert it again", path);
    size_t n = (size_t)status->st_size;
    void *bytes = mmap(NULL, n, PROT_READ, MAP_SHARED, descriptor, 0);
    if (bytes == MAP_FAILED)
        return error_set(error, "%s: cannot map %zu bytes: %s", path, n, strerror(errno));
    file->bytes = bytes, file->n_bytes = n;
    /* Bytes that the page cache does not hold yet are then read in pages of 2 MB, where the file system has such. */
    madvise(bytes, n, MADV_HUGEPAGE);
    return true;
}

static bool map_path(MappedFile *file, Error *error) {
    /* A pipe without a writer must not block. */
    file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0) return error_set(error, "%s: cannot open: %s", file->path, strerror(errno));
    return map_descriptor(file, file->descriptor, error);
}

static bool map_given(MappedFile *file, const GivenFile *given, Error *error) {
    if (!given->bytes) return map_descriptor(file, given->descriptor, error);
    if (given->n_bytes == 0) return error_set(error, "%s: the file is empty", file->path);
    if ((uintptr_t)given->bytes % 16 != 0)
        return error_set(error, "%s: the bytes must begin at a multiple of 16, as malloc gives it",
                         file->path);
    file->bytes = given->bytes, file->n_bytes = given->n_bytes, file->borrowed = true;
    return true;
}

bool checkpoint_look(Checkpoint *checkpoint, const char *path, Error *error) {
    size_t n = checkpoint->n_places, length = strlen(path) + 1;
    char *name = checkpoint_own(checkpoint, length, error);
    Place *places = name ? realloc(checkpoint->places, (n + 1) * sizeof *places) : NULL;
    if (!places) return error_set(error, "%s: not enough memory", path);
    memcpy(name, path, length);
    checkpoint->places = places;
    places[n] = (Place){.path = name};
    if (stat(path, &places[n].found) != 0) places[n].found = (struct stat){0};
    checkpoint->n_places++;
    return true;
}

MappedFile *checkpoint_map(Checkpoint *checkpoint, const char *path, Error *error) {
    size_t n = checkpoint->n_files;
    const GivenFile *given = checkpoint->given;
    MappedFile *files = realloc(checkpoint->files, (n + 1) * sizeof *files);
    if (files) checkpoint->files = files;
    if (!files || (!given && !checkpoint_look(checkpoint, path, error))) {
        error_set(error, "%s: not enough memory", path);
        return NULL;
    }
    checkpoint->n_files++;
    const char *kept = given ? checkpoint->path : checkpoint->places[checkpoint->n_places - 1].path;
    files[n] = (MappedFile){.path = kept, .descriptor = -1};
    bool ok = given ? map_given(&files[n], given, error) : map_path(&files[n], error);
    return ok ? &files[n] : NULL;
}

static bool file_changed(const MappedFile *file) {
    const struct stat *then = &file->opened;
    struct stat now;
    return fstat(file->descriptor, &now) == 0 &&
           (now.st_size != then->st_size || now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != then->st_mtim.tv_nsec);
}

bool checkpoint_changed(const Checkpoint *checkpoint) {
    bool changed = false;
    for (size_t i = 0; i < checkpoint->n_files; i++) changed = changed || file_changed(&checkpoint->files[i]);
    return changed;
}

static bool is_same_file(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* The name behind the last slash; *folder is what the path before it leads to, zeros where that is nothing. */
static void split_path(const char *path, const char **name, struct stat *folder) {
    char before[4096];
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    snprintf(before, sizeof before, "%.*s.", (int)(*name - path), path);
    if (stat(before, folder) != 0) *folder = (struct stat){0};
}

/* Compares the file, or its name in its folder, where another may have taken its place. */
static bool is_at(const Place *place, const struct stat *file, const char *name, const struct stat *folder) {
    const char *place_name;
    struct stat place_folder;
    if (place->found.st_ino && is_same_file(&place->found, file)) return true;
    split_path(place->path, &place_name, &place_folder);
    return strcmp(place_name, name) == 0 && is_same_file(&place_folder, folder);
}

bool checkpoint_reads(const Checkpoint *checkpoint, const char *path) {
    const char *name;
    struct stat file, folder;
    bool found = false;
    if (stat(path, &file) != 0) file = (struct stat){0};
    split_path(path, &name, &folder);
    for (size_t i = 0; i < checkpoint->n_places && !found; i++)
        found = is_at(&checkpoint->places[i], &file, name, &folder);
    return found;
}

bool refuse_changed(const MappedFile *file, Error *error) {
    return error_set(error, "%s: the file changed while it was read; try again when nobody writes to it",
                     file->path);
}

static int compare_names(const void *a, const void *b) {
    return string_compare((*(const Tensor *const *)a)->name, (*(const Tensor *const *)b)->name);
}

static int compare_places(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)(*(const Tensor *const *)a)->data,
              y = (uintptr_t)(*(const Tensor *const *)b)->data;
    return (x > y) - (x < y);
}

static int compare_keys(const void *a, const void *b) {
    return string_compare((*(const Entry *const *)a)->key, (*(const Entry *const *)b)->key);
}

/* Refuses keys that occur twice; leaves by_key sorted. */
static bool check_keys(Checkpoint *checkpoint, Error *error) {
    const char *path = checkpoint->path;
    size_t n = checkpoint->n_entries;
    if (n == 0) return true;
    const Entry **sorted = checkpoint->by_key = malloc(n * sizeof *sorted);
    if (!sorted) return error_set(error, "%s: not enough memory to index %zu keys", path, n);
    for (size_t i = 0; i < n; i++) sorted[i] = &checkpoint->entries[i];
    qsort(sorted, n, sizeof *sorted, compare_keys);
    for (size_t i = 1; i < n; i++)
        if (compare_keys(&sorted[i - 1], &sorted[i]) == 0)
            return error_set(error, "%s: metadata key '%.*s' occurs twice", path,
                             string_shown(sorted[i]->key), sorted[i]->key.data);
    return true;
}

/* Refuses names that occur twice and tensors that share bytes; leaves by_name sorted. */
static bool check_tensors(Checkpoint *checkpoint, Error *error) {
    const char *path = checkpoint->path;
    size_t n = checkpoint->n_tensors;
    if (n == 0) return true;
    const Tensor **sorted = checkpoint->by_name = malloc(n * sizeof *sorted);
    if (!sorted) return error_set(error, "%s: not enough memory to index %zu tensors", path, n);
    for (size_t i = 0; i < n; i++) sorted[i] = &checkpoint->tensors[i];
    qsort(sorted, n, sizeof *sorted, compare_places);
    for (size_t i = 1; i < n; i++)
        if (sorted[i - 1]->data &&
            (const char *)sorted[i - 1]->data + tensor_extent(sorted[i - 1]) > (const char *)sorted[i]->data)
            return error_set(error, "%s: tensors '%.*s' and '%.*s' overlap", path,
                             string_shown(sorted[i - 1]->name), sorted[i - 1]->name.data,
                             string_shown(sorted[i]->name), sorted[i]->name.data);
    qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t i = 1; i < n; i++)
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            return error_set(error, "%s: tensor '%.*s' occurs twice", path, string_shown(sorted[i]->name),
                             sorted[i]->name.data);
    return true;
}

bool checkpoint_index(Checkpoint *checkpoint, Error *error) {
    free(checkpoint->by_key);
    free(checkpoint->by_name);
    checkpoint->by_key = NULL, checkpoint->by_name = NULL;
    return check_keys(checkpoint, error) && check_tensors(checkpoint, error);
}

void checkpoint_unmap(Checkpoint *checkpoint) {
    for (size_t i = 0; i < checkpoint->n_files; i++) {
        const MappedFile *file = &checkpoint->files[i];
        if (file->bytes && !file->borrowed) munmap((void *)(uintptr_t)file->bytes, file->n_bytes);
        if (file->descriptor >= 0) close(file->descriptor);
    }
    checkpoint->n_files = 0;
}

void checkpoint_close(Checkpoint *checkpoint) {
    if (!checkpoint) return;
    checkpoint_unmap(checkpoint);
    for (Owned *owned = checkpoint->owned, *next; owned; owned = next) next = owned->next, free(owned);
    free(checkpoint->files);
    free(checkpoint->places);
    free(checkpoint->loadings);
    free(checkpoint->loaded);
    free(checkpoint->path);
    free(checkpoint->tensors);
    free(checkpoint->entries);
    free(checkpoint->by_name);
    free(checkpoint->by_key);
    free(checkpoint);
}

const char *checkpoint_path(const Checkpoint *checkpoint) { return checkpoint->path; }
uint64_t checkpoint_turned_bytes(const Checkpoint *checkpoint) { return checkpoint->n_turned; }
uint64_t checkpoint_left_out_bytes(const Checkpoint *checkpoint) { return checkpoint->n_left_out; }
const char *checkpoint_format(const Checkpoint *checkpoint) { return checkpoint->format; }

uint64_t checkpoint_file_bytes(const Checkpoint *checkpoint) {
    uint64_t n = 0;
    for (size_t i = 0; i < checkpoint->n_files; i++) n += checkpoint->files[i].n_bytes;
    return n;
}

size_t checkpoint_n_tensors(const Checkpoint *checkpoint) { return checkpoint->n_tensors; }
const Tensor *checkpoint_tensor(const Checkpoint *checkpoint, size_t i) { return &checkpoint->tensors[i]; }

const Tensor *checkpoint_find(const Checkpoint *checkpoint, const char *name) {
    if (!checkpoint->n_tensors) return NULL;
    Tensor key = {.name = string_from(name)};
    const Tensor *pointer = &key;
    const Tensor **found = bsearch(&pointer, checkpoint->by_name, checkpoint->n_tensors,
                                   sizeof *checkpoint->by_name, compare_names);
    return found ? *found : NULL;
}

static const Entry *find_entry(const Checkpoint *checkpoint, const char *name) {
    if (!checkpoint->n_entries) return NULL;
    Entry key = {.key = string_from(name)};
    const Entry *pointer = &key;
    const Entry **found = bsearch(&pointer, checkpoint->by_key, checkpoint->n_entries,
                                  sizeof *checkpoint->by_key, compare_keys);
    return found ? *found : NULL;
}

size_t checkpoint_n_values(const Checkpoint *checkpoint) { return checkpoint->n_entries; }

Value checkpoint_value(const Checkpoint *checkpoint, size_t i) {
    const Entry *entry = &checkpoint->entries[i];
    size_t n_bytes = entry->type == VALUE_ARRAY    ? entry->n_bytes
                     : entry->type == VALUE_STRING ? sizeof(uint64_t) + (size_t)entry->n
                                                   : format_value_bytes(entry->type);
    return (Value){entry->key, entry->type, entry->element, entry->n, entry->data, n_bytes};
}

bool checkpoint_has(const Checkpoint *checkpoint, const char *key) {
    return find_entry(checkpoint, key) != NULL;
}

bool checkpoint_has_vocabulary(const Checkpoint *checkpoint) {
    return checkpoint_has(checkpoint, "tokenizer.ggml.model") ||
           checkpoint_has(checkpoint, "tokenizer.huggingface.json");
}

bool checkpoint_is_array(const Checkpoint *checkpoint, const char *key) {
    const Entry *entry = find_entry(checkpoint, key);
    return entry && entry->type == VALUE_ARRAY;
}

bool checkpoint_error(const Checkpoint *checkpoint, Error *error, const char *format, ...) {
    char text[sizeof error->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(error, "%s: %s", checkpoint->path, text);
}

size_t format_value_bytes(uint32_t type) {
    static const unsigned char bytes[VALUE_N_TYPES] = {
        [VALUE_U8] = 1,  [VALUE_I8] = 1,   [VALUE_U16] = 2, [VALUE_I16] = 2, [VALUE_U32] = 4, [VALUE_I32] = 4,
        [VALUE_F32] = 4, [VALUE_BOOL] = 1, [VALUE_U64] = 8, [VALUE_I64] = 8, [VALUE_F64] = 8,
    };
    return type < VALUE_N_TYPES ? bytes[type] : 0;
}

static const char *type_name(ValueType type) {
    static const char *const names[VALUE_N_TYPES] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                     "int32",  "float32", "bool",   "string", "array",
                                                     "uint64", "int64",   "float64"};
    return names[type];
}

static bool wrong_type(const Checkpoint *checkpoint, const Entry *entry, const char *wanted, Error *error) {
    return error_set(error, "%s: metadata key '%.*s' is of type %s%s%s, expected %s", checkpoint->path,
                     string_shown(entry->key), entry->key.data, type_name(entry->type),
                     entry->type == VALUE_ARRAY ? " of " : "",
                     entry->type == VALUE_ARRAY ? type_name(entry->element) : "", wanted);
}

/* Reads an integer of any width; false if it is none, or negative. */
static bool read_unsigned(uint32_t type, const unsigned char *data, uint64_t *value) {
    size_t n = format_value_bytes(type);
    *value = 0;
    switch (type) {
    case VALUE_U8:
    case VALUE_U16:
    case VALUE_U32:
    case VALUE_U64: memcpy(value, data, n); return true; /* little-endian: the low bytes come first */
    case VALUE_I8:
    case VALUE_I16:
    case VALUE_I32:
    case VALUE_I64: memcpy(value, data, n); return !(data[n - 1] & 0x80);
    default: return false;
    }
}

bool format_unsigned(const Entry *entry, uint64_t *value) {
    return read_unsigned(entry->type, entry->data, value);
}

/* Reads one likewise, or an array of equal ones. */
static bool read_equal(const Entry *entry, uint64_t *value) {
    size_t n = format_value_bytes(entry->element);
    if (entry->type != VALUE_ARRAY) return read_unsigned(entry->type, entry->data, value);
    for (size_t i = 1; i < entry->n; i++)
        if (memcmp(entry->data, entry->data + i * n, n) != 0) return false;
    return entry->n > 0 && read_unsigned(entry->element, entry->data, value);
}

bool checkpoint_u64(const Checkpoint *checkpoint, const char *key, uint64_t *value, Error *error) {
    const Entry *entry = find_entry(checkpoint, key);
    uint64_t read;
    if (!entry) return true;
    if (!read_equal(entry, &read)) return wrong_type(checkpoint, entry, "an integer ≥ 0", error);
    *value = read;
    return true;
}

bool checkpoint_f32(const Checkpoint *checkpoint, const char *key, float *value, Error *error) {
    const Entry *entry = find_entry(checkpoint, key);
    double wide;
    if (!entry) return true;
    if (entry->type == VALUE_F32)
        memcpy(value, entry->data, sizeof *value);
    else if (entry->type == VALUE_F64)
        memcpy(&wide, entry->data, sizeof wide), *value = (float)wide;
    else
        return wrong_type(checkpoint, entry, "float32", error);
    return true;
}

bool checkpoint_number(const Checkpoint *checkpoint, const char *key, double *value, Error *error) {
    const Entry *entry = find_entry(checkpoint, key);
    float single;
    uint64_t whole = 0;
    if (!entry) return true;
    if (entry->type == VALUE_F64) {
        memcpy(value, entry->data, sizeof *value);
    } else if (entry->type == VALUE_F32) {
        memcpy(&single, entry->data, sizeof single);
        *value = (double)single;
    } else if (read_unsigned(entry->type, entry->data, &whole)) {
        *value = (double)whole;
    } else if (whole) { /* negative */
        unsigned unused = 64 - 8 * (unsigned)format_value_bytes(entry->type);
        *value = -(double)((~(whole << unused) >> unused) + 1);
    } else {
        return wrong_type(checkpoint, entry, "a number", error);
    }
    return true;
}

bool checkpoint_bool(const Checkpoint *checkpoint, const char *key, bool *value, Error *error) {
    const Entry *entry = find_entry(checkpoint, key);
    if (!entry) return true;
    if (entry->type != VALUE_BOOL || *entry->data > 1)
        return wrong_type(checkpoint, entry, "bool (0 or 1)", error);
    *value = *entry->data;
    return true;
}

bool checkpoint_string(const Checkpoint *checkpoint, const char *key, String *value, Error *error) {
    const Entry *entry = find_entry(checkpoint, key);
    if (!entry) return true;
    if (entry->type != VALUE_STRING) return wrong_type(checkpoint, entry, "string", error);
    *value = (String){(const char *)entry->data + sizeof(uint64_t), (size_t)entry->n};
    return true;
}

/* The array under key if it has one of two element types; *entry is NULL if there is no such key. */
static bool find_array(const Checkpoint *checkpoint, const char *key, ValueType element, ValueType other,
                       const Entry **entry, Error *error) {
    *entry = find_entry(checkpoint, key);
    if (!*entry) return true;
    if ((*entry)->type == VALUE_ARRAY && ((*entry)->element == element || (*entry)->element == other))
        return true;
    char wanted[40] = "array of ";
    strcat(wanted, type_name(element));
    return wrong_type(checkpoint, *entry, wanted, error);
}

bool checkpoint_strings(const Checkpoint *checkpoint, const char *key, StringArray *array, Error *error) {
    const Entry *entry;
    *array = (StringArray){0};
    if (!find_array(checkpoint, key, VALUE_STRING, VALUE_STRING, &entry, error)) return false;
    if (entry)
        *array = (StringArray){(size_t)entry->n, (const char *)entry->data,
                               (const char *)entry->data + entry->n_bytes};
    return true;
}

/* Numbers of either type, which are of one size. */
static bool find_numbers(const Checkpoint *checkpoint, const char *key, ValueType element, ValueType other,
                         NumberArray *array, Error *error) {
    const Entry *entry;
    *array = (NumberArray){0};
    if (!find_array(checkpoint, key, element, other, &entry, error)) return false;
    if (entry) *array = (NumberArray){(size_t)entry->n, entry->data};
    return true;
}

bool checkpoint_flags(const Checkpoint *checkpoint, const char *key, FlagArray *flags, Error *error) {
    const Entry *entry = find_entry(checkpoint, key);
    *flags = (FlagArray){0};
    if (!entry) return true;
    const size_t size = entry->type == VALUE_ARRAY ? format_value_bytes(entry->element) : 0;
    bool ok = size > 0 && entry->element != VALUE_F32 && entry->element != VALUE_F64;
    for (size_t i = 0; ok && i < entry->n; i++) {
        const unsigned char *item = entry->data + i * size;
        ok = item[0] <= 1; /* little-endian: the low byte comes first */
        for (size_t k = 1; ok && k < size; k++) ok = item[k] == 0;
    }
    if (!ok) return wrong_type(checkpoint, entry, "array of bool (0 or 1)", error);
    *flags = (FlagArray){(size_t)entry->n, size, entry->data};
    return true;
}

bool checkpoint_f32s(const Checkpoint *checkpoint, const char *key, NumberArray *array, Error *error) {
    return find_numbers(checkpoint, key, VALUE_F32, VALUE_F32, array, error);
}

bool checkpoint_i32s(const Checkpoint *checkpoint, const char *key, NumberArray *array, Error *error) {
    return find_numbers(checkpoint, key, VALUE_I32, VALUE_U32, array, error);
}
