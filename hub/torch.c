/*
 * pytorch_model.bin: a state dict by torch.save, since PyTorch 1.6 a zip archive. PREFIX/data.pkl is a pickle that makes a
 * dictionary of names and tensors, each of which is
 *
 *   torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
 *
 * or torch._utils._rebuild_parameter(tensor, …) of one; a storage is ("storage", torch.FloatStorage, key, device, n), and its
 * weights lie in PREFIX/data/KEY. Offsets and strides count weights. Every number is checked here.
 */
#include "torch.h"
#include "pickle.h"
#include "zip.h"

#include <inttypes.h>
#include <string.h>

/* The globals that a pickle of weights asks for: functions, and behind them types of storages. */
enum { REBUILD_TENSOR, REBUILD_PARAMETER, FIRST_STORAGE };

static const char *const globals[] = {
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "torch FloatStorage",
    "torch HalfStorage",
    "torch BFloat16Storage",
    "torch DoubleStorage",
    "torch LongStorage",
    "torch IntStorage",
    "torch ShortStorage",
    "torch CharStorage",
    "torch ByteStorage",
    "torch BoolStorage",
};

#define ALONE "a state dict alone is read, as torch.save(model.state_dict(), PATH) writes it"

/* The same types, by their names in safetensors. */
static const char *const types[] = {"F32", "F16", "BF16", "F64", "I64", "I32", "I16", "I8", "U8", "BOOL"};

typedef struct Reader {
    const MappedFile *file;
    Error *error;
    Zip zip;
    String prefix; /* of all entries, with the '/' */
    Pickle pickle;
} Reader;

static bool fail(const Reader *reader, String tensor, const char *what) {
    return error_set(reader->error, "%s: tensor '%.*s' %s", reader->file->path, string_shown(tensor),
                     tensor.data, what);
}

/* The entry PREFIXfolderNAME, or NULL. */
static const ZipEntry *find(const Reader *reader, const char *folder, String name) {
    char path[512];
    size_t n_prefix = reader->prefix.n, n_folder = strlen(folder);
    if (n_prefix + n_folder + name.n > sizeof path) return NULL;
    memcpy(path, reader->prefix.data, n_prefix);
    memcpy(path + n_prefix, folder, n_folder);
    memcpy(path + n_prefix + n_folder, name.data, name.n);
    return zip_find(&reader->zip, (String){path, n_prefix + n_folder + name.n});
}

/* The pickle, in the only folder that the archive has. */
static const ZipEntry *find_pickle(Reader *reader) {
    static const char name[] = "data.pkl";
    for (size_t i = 0; i < reader->zip.n; i++) {
        const ZipEntry *entry = &reader->zip.entries[i];
        const char *slash = memchr(entry->name.data, '/', entry->name.n);
        size_t n = slash ? (size_t)(slash - entry->name.data) + 1 : 0;
        if (string_equals((String){entry->name.data + n, entry->name.n - n}, name)) {
            reader->prefix = (String){entry->name.data, n};
            return entry;
        }
    }
    error_set(reader->error, "%s: this is a zip archive, but none of torch.save: it has no data.pkl",
              reader->file->path);
    return NULL;
}

static const PickleValue *item(const Reader *reader, PickleValue of, size_t i) {
    return &reader->pickle.items.data[(size_t)of.number + i];
}

/* A tuple of n values. */
static bool is_tuple(PickleValue value, size_t n) { return value.kind == PICKLE_TUPLE && value.n == n; }

/* The arguments of a call, of which there must be n; NULL if it is none of that function. */
static const PickleValue *arguments(const Reader *reader, PickleValue call, int function, size_t n) {
    if (call.kind != PICKLE_CALL || item(reader, call, 0)->number != function ||
        !is_tuple(*item(reader, call, 1), n))
        return NULL;
    return item(reader, *item(reader, call, 1), 0);
}

/* An integer ≥ 0. */
static bool to_unsigned(PickleValue value, uint64_t *number) {
    *number = (uint64_t)value.number;
    return value.kind == PICKLE_INTEGER && value.number >= 0;
}

/* A storage's entry, of `tensor`, whose type is noted; NULL with an error. */
static const ZipEntry *read_storage(const Reader *reader, Stored *tensor, PickleValue storage,
                                    size_t *bytes) {
    const PickleValue *key = storage.kind == PICKLE_PERSISTENT ? item(reader, storage, 0) : NULL;
    const PickleValue *parts = key && is_tuple(*key, 5) ? item(reader, *key, 0) : NULL;
    uint64_t n, n_bytes;
    if (!parts || parts[0].kind != PICKLE_TEXT ||
        !string_equals(pickle_text(&reader->pickle, parts[0]), "storage") || parts[1].kind != PICKLE_GLOBAL ||
        parts[1].number < FIRST_STORAGE || parts[2].kind != PICKLE_TEXT || !to_unsigned(parts[4], &n)) {
        fail(reader, tensor->name, "has no storage that is known");
        return NULL;
    }
    const char *type = types[parts[1].number - FIRST_STORAGE];
    tensor->type = string_from(type);
    *bytes = stored_type(tensor) / 8;
    const ZipEntry *entry = find(reader, "data/", pickle_text(&reader->pickle, parts[2]));
    if (!entry || !multiply(n, *bytes, &n_bytes) || entry->n_bytes != n_bytes) {
        fail(reader, tensor->name,
             entry ? "has a storage of another size than it says"
                   : "has its weights in no entry of the archive");
        return NULL;
    }
    return entry;
}

/* Fills in dims and whether the weights lie one behind the other; *n_weights. */
static bool read_shape(const Reader *reader, Stored *tensor, PickleValue sizes, PickleValue strides,
                       uint64_t *n_weights) {
    const char *wrong =
        stored_dimension(tensor, 0, *n_weights = 1, n_weights); /* for a shape without sizes */
    bool is_whole = true;
    if (sizes.kind != PICKLE_TUPLE || !is_tuple(strides, sizes.n)) wrong = "has no shape";
    for (size_t i = 0; !wrong && i < sizes.n; i++) {
        uint64_t size, stride, expected = *n_weights;
        size_t from_first = sizes.n - 1 - i;
        if (!to_unsigned(*item(reader, sizes, from_first), &size) ||
            !to_unsigned(*item(reader, strides, from_first), &stride))
            wrong = "has a shape that cannot be counted";
        else
            wrong = stored_dimension(tensor, i, size, n_weights);
        if (!wrong && size != 1 && stride != expected) is_whole = false;
    }
    if (!is_whole && *n_weights)
        tensor->flaw = "is a view whose weights do not lie one behind the other; call .contiguous() on it "
                       "before torch.save";
    return !wrong || fail(reader, tensor->name, wrong);
}

/* A value of the dictionary. */
static bool read_tensor(const Reader *reader, Stored *tensor, PickleValue value) {
    const PickleValue *parameter = arguments(reader, value, REBUILD_PARAMETER, 3),
                      *parts = arguments(reader, parameter ? *parameter : value, REBUILD_TENSOR, 6);
    uint64_t offset, n_weights, n_bytes, begin, end;
    size_t bytes;
    if (!parts)
        return error_set(reader->error, "%s: '%.*s' is no tensor; " ALONE, reader->file->path,
                         string_shown(tensor->name), tensor->name.data);
    const ZipEntry *entry = read_storage(reader, tensor, parts[0], &bytes);
    if (!entry || !read_shape(reader, tensor, parts[2], parts[3], &n_weights)) return false;
    if (tensor->flaw) {
        tensor->type = (String){"", 0}, tensor->item_bytes = 0;
        return true;
    }
    if (!to_unsigned(parts[1], &offset) || !multiply(offset, bytes, &begin) ||
        !multiply(n_weights, bytes, &n_bytes) || !add(begin, n_bytes, &end) || end > entry->n_bytes)
        return fail(reader, tensor->name, "does not lie in its storage");
    tensor->data = entry->data + begin;
    tensor->n_bytes = n_bytes;
    return true;
}

static bool read_members(Reader *reader, StoredTensors *stored) {
    const PickleValues *members = &reader->pickle.members;
    if (members->n == 0) return error_set(reader->error, "%s: holds no tensors", reader->file->path);
    if (!stored_room(stored, members->n / 2))
        return error_set(reader->error, "%s: not enough memory to index its tensors", reader->file->path);
    for (size_t i = 0; i < members->n; i += 2) {
        Stored *tensor = &stored->tensors[stored->n];
        if (members->data[i].kind != PICKLE_TEXT)
            return error_set(reader->error, "%s: its dictionary has other keys than names",
                             reader->file->path);
        *tensor = (Stored){.name = pickle_text(&reader->pickle, members->data[i])};
        if (!read_tensor(reader, tensor, members->data[i + 1])) return false;
        stored->n++;
    }
    return true;
}

static bool read_pickle(Reader *reader, Checkpoint *checkpoint) {
    Error why;
    const MappedFile *file = reader->file;
    const ZipEntry *entry = find_pickle(reader);
    if (!entry) return false;
    const ZipEntry *order = find(reader, "", string_from("byteorder"));
    if (order && (order->n_bytes != 6 || memcmp(order->data, "little", 6) != 0))
        return error_set(reader->error,
                         "%s: its weights were written by a big-endian machine; save them on another",
                         file->path);
    if (entry->n_bytes > PICKLE_MAX_BYTES)
        return error_set(reader->error, "%s: its data.pkl has %" PRIu64 " bytes, more than any model's",
                         file->path, entry->n_bytes);
    size_t n = (size_t)entry->n_bytes;
    char *bytes = checkpoint_own(checkpoint, n + 1, reader->error);
    if (!bytes) return false;
    memcpy(bytes, entry->data, n);
    return pickle_read(&reader->pickle, bytes, n, globals, sizeof globals / sizeof *globals, &why) ||
           error_set(reader->error, "%s: its data.pkl %s; " ALONE, file->path, why.message);
}

bool torch_read(Checkpoint *checkpoint, StoredTensors *stored, const MappedFile *file, Error *error) {
    Reader reader = {.file = file, .error = error};
    bool ok = zip_open(&reader.zip, file, error) && read_pickle(&reader, checkpoint) &&
              read_members(&reader, stored);
    pickle_free(&reader.pickle);
    zip_close(&reader.zip);
    return ok;
}
