/*
 * Other GGUF files made of one: taken apart into keys, tensors and data, changed in one place or a few, and put
 * together again so that most lengths, offsets and counts are right, and a wrong one is wrong on purpose.
 */
#include "tests/fuzz/fuzz.h"

#include "checkpoint/format.h"
#include "tests/gguf.h"

#include <string.h>

enum { MOST = 96, MAX_DIMS = 6, POOL_BYTES = 1 << 19 };

typedef struct Bytes {
    unsigned char *at;
    size_t n;
} Bytes;

typedef struct FileKey {
    Bytes name, value; /* value: as it lies in the file */
    uint32_t type;
} FileKey;

typedef struct FileTensor {
    Bytes name, data;
    uint32_t n_dims, type;
    uint64_t dims[MAX_DIMS], offset_error;
} FileTensor;

typedef struct GgufFile {
    uint32_t version;
    FileKey keys[MOST];
    FileTensor tensors[MOST];
    size_t n_keys, n_tensors, alignment;
    uint64_t keys_error, tensors_error; /* added to the counts */
} GgufFile;

static unsigned char pool[POOL_BYTES]; /* of bytes that a change makes */
static size_t pool_n;

/* A copy of n bytes with room for `more` behind them. */
static Bytes keep(const void *bytes, size_t n, size_t more) {
    if (n + more > POOL_BYTES - pool_n) return (Bytes){pool, 0};
    Bytes copy = {pool + pool_n, n};
    if (n) memcpy(copy.at, bytes, n);
    pool_n += n + more;
    return copy;
}

/* ---- Reading ---- */

typedef struct Reader {
    unsigned char *at;
    size_t left;
    bool ok;
} Reader;

static Bytes take(Reader *reader, uint64_t n) {
    if (n > reader->left) reader->ok = false, n = 0;
    Bytes bytes = {reader->at, (size_t)n};
    reader->at += n, reader->left -= (size_t)n;
    return bytes;
}

static uint64_t number(Reader *reader, size_t n) {
    uint64_t value = 0;
    Bytes bytes = take(reader, n);
    if (bytes.n) memcpy(&value, bytes.at, bytes.n);
    return value;
}

static Bytes string(Reader *reader) { return take(reader, number(reader, 8)); }

static Bytes value_of(Reader *reader, uint32_t type) {
    unsigned char *begin = reader->at;
    if (type == VALUE_STRING) {
        string(reader);
    } else if (type == VALUE_ARRAY) {
        uint32_t element = (uint32_t)number(reader, 4);
        uint64_t n = number(reader, 8);
        size_t size = format_value_bytes(element);
        if (size) take(reader, n <= reader->left ? n * size : UINT64_MAX);
        for (uint64_t i = 0; !size && i < n && reader->ok; i++) string(reader);
    } else {
        take(reader, format_value_bytes(type));
    }
    return (Bytes){begin, (size_t)(reader->at - begin)};
}

static size_t rounded_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

/* Data reaches to where the next tensor's begins, in the order of the file. */
static void find_data(GgufFile *file, const uint64_t *offsets, unsigned char *data, size_t n) {
    for (size_t i = 0; i < file->n_tensors; i++) {
        uint64_t begin = offsets[i] < n ? offsets[i] : n, end = n;
        for (size_t k = 0; k < file->n_tensors; k++)
            if (offsets[k] > begin && offsets[k] < end) end = offsets[k];
        file->tensors[i].data = (Bytes){data + begin, (size_t)(end - begin)};
    }
}

static bool read_file(GgufFile *file, unsigned char *bytes, size_t n) {
    Reader reader = {bytes, n, true};
    uint64_t offsets[MOST];
    *file = (GgufFile){.alignment = 32};
    take(&reader, 4);
    file->version = (uint32_t)number(&reader, 4);
    uint64_t n_tensors = number(&reader, 8), n_keys = number(&reader, 8);
    for (; file->n_keys < MOST && file->n_keys < n_keys && reader.ok; file->n_keys++) {
        FileKey *key = &file->keys[file->n_keys];
        key->name = string(&reader);
        key->type = (uint32_t)number(&reader, 4);
        key->value = value_of(&reader, key->type);
        if (!reader.ok) return file->n_keys > 0;
        if (key->name.n == 17 && memcmp(key->name.at, "general.alignment", 17) == 0 && key->value.n == 4)
            memcpy(&file->alignment, key->value.at, 4);
    }
    if (file->alignment == 0 || file->alignment > 4096) file->alignment = 32;
    for (; file->n_tensors < MOST && file->n_tensors < n_tensors && reader.ok; file->n_tensors++) {
        FileTensor *tensor = &file->tensors[file->n_tensors];
        tensor->name = string(&reader);
        tensor->n_dims = (uint32_t)number(&reader, 4);
        for (uint32_t i = 0; i < tensor->n_dims && i < MAX_DIMS; i++) tensor->dims[i] = number(&reader, 8);
        tensor->type = (uint32_t)number(&reader, 4);
        offsets[file->n_tensors] = number(&reader, 8);
        if (!reader.ok) return true;
    }
    size_t begin = rounded_up(n - reader.left, file->alignment);
    find_data(file, offsets, bytes + begin, begin < n ? n - begin : 0);
    return true;
}

/* ---- Writing ---- */

static unsigned char written[1 << 18];
static size_t written_n;

static void put(const void *bytes, size_t n) {
    if (n > sizeof written - written_n) return;
    if (n) memcpy(written + written_n, bytes, n);
    written_n += n;
}

static void put_u32(uint32_t value) { put(&value, 4); }
static void put_u64(uint64_t value) { put(&value, 8); }

static void put_string(Bytes string) {
    put_u64(string.n);
    put(string.at, string.n);
}

static void pad(size_t alignment) {
    static const unsigned char zeros[4096];
    put(zeros, rounded_up(written_n, alignment) - written_n);
}

static void write_file(const GgufFile *file) {
    written_n = 0;
    put("GGUF", 4);
    put_u32(file->version);
    put_u64(file->n_tensors + file->tensors_error);
    put_u64(file->n_keys + file->keys_error);
    for (const FileKey *key = file->keys; key < file->keys + file->n_keys; key++) {
        put_string(key->name);
        put_u32(key->type);
        put(key->value.at, key->value.n);
    }
    uint64_t offset = 0;
    for (const FileTensor *tensor = file->tensors; tensor < file->tensors + file->n_tensors; tensor++) {
        put_string(tensor->name);
        put_u32(tensor->n_dims);
        put(tensor->dims, 8 * (tensor->n_dims < MAX_DIMS ? tensor->n_dims : MAX_DIMS));
        put_u32(tensor->type);
        put_u64(offset + tensor->offset_error);
        offset += rounded_up(tensor->data.n, file->alignment);
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        pad(file->alignment);
        put(file->tensors[i].data.at, file->tensors[i].data.n);
    }
}

/* ---- Changes ---- */

/* Bytes that libFuzzer has changed, a few more or fewer. */
static Bytes changed(Bytes bytes) {
    Bytes copy = keep(bytes.at, bytes.n, 64);
    if (copy.at == pool) return bytes;
    copy.n = LLVMFuzzerMutate(copy.at, copy.n, copy.n + 64);
    return copy;
}

/* A tokenizer.json. */
static Bytes changed_json(Bytes bytes) {
    Bytes copy = keep(bytes.at, bytes.n, 64);
    if (copy.at == pool) return bytes;
    copy.n = mutate_json(copy.at, copy.n, copy.n + 64);
    return copy;
}

static void change_scalar(unsigned char *at, uint32_t type) {
    uint64_t value = odd_number();
    double real = odd_real();
    float single = (float)real;
    if (type == VALUE_F32)
        memcpy(at, &single, 4);
    else if (type == VALUE_F64)
        memcpy(at, &real, 8);
    else
        memcpy(at, &value, format_value_bytes(type));
}

/* The text that a string's value holds is changed, its length told right. */
static Bytes changed_string(Bytes value) {
    if (value.n < 8) return value;
    Bytes text = {value.at + 8, value.n - 8};
    text = text.n && *text.at == '{' ? changed_json(text) : changed(text);
    Bytes whole = keep(&(uint64_t){text.n}, 8, text.n);
    if (whole.n < 8) return value;
    if (text.n) memcpy(whole.at + 8, text.at, text.n);
    whole.n += text.n;
    return whole;
}

/* Where element i of an array of strings begins, behind the array's head. */
static size_t string_at(Bytes value, uint64_t i) {
    Reader reader = {value.at + 12, value.n - 12, true};
    while (i-- > 0) string(&reader);
    return (size_t)(reader.at - value.at);
}

/* One element is dropped, doubled, changed, or put in the place of another; or the count alone is wrong. */
static Bytes changed_array(Bytes value) {
    uint32_t element;
    uint64_t n;
    memcpy(&element, value.at, 4);
    memcpy(&n, value.at + 4, 8);
    size_t size = format_value_bytes(element);
    Bytes out = keep(value.at, value.n, 4096);
    if (out.at == pool || out.n < 12) return value;
    uint64_t choice = random_below(12), i = random_below((size_t)n + 1);
    if (choice == 0) n = odd_number();
    if (choice == 1) element = (uint32_t)random_below(14);
    if (choice < 2 || n == 0 || i == n) {
        memcpy(out.at, &element, 4);
        memcpy(out.at + 4, &n, 8);
        return out;
    }
    if (n > value.n) return value; /* an earlier change told a wrong count */
    size_t begin = size ? 12 + (size_t)i * size : string_at(value, i);
    size_t end = size ? begin + size : string_at(value, i + 1);
    if (end > value.n) return value;
    Bytes old = {value.at + begin, end - begin}, new = old;
    uint64_t n_new = n;
    if (choice == 2) new.n = 0, n_new--;
    if (choice == 3) new = keep(old.at, old.n, old.n);
    if (choice == 3 && new.at != pool) memcpy(new.at + old.n, old.at, old.n), new.n += old.n, n_new++;
    if (choice > 3 && size) new = keep(old.at, old.n, 0), change_scalar(new.at, element);
    if (choice > 3 && !size) new = changed_string(old);
    if (choice > 9) {
        uint64_t k = random_below((size_t)n);
        size_t from = size ? 12 + (size_t)k * size : string_at(value, k);
        size_t to = size ? from + size : string_at(value, k + 1);
        if (to <= value.n) new = (Bytes){value.at + from, to - from};
    }
    if (value.n - old.n + new.n > value.n + 4096) return value;
    memcpy(out.at + begin, new.at, new.n);
    memcpy(out.at + begin + new.n, value.at + end, value.n - end);
    memcpy(out.at + 4, &n_new, 8);
    out.n = value.n - old.n + new.n;
    return out;
}

static void change_value(FileKey *key) {
    size_t size = format_value_bytes(key->type);
    if (size && key->value.n == size) {
        key->value = keep(key->value.at, size, 8);
        change_scalar(key->value.at, key->type);
        uint64_t small = random_below(20);
        if (random_below(2) && key->type != VALUE_F32 && key->type != VALUE_F64)
            memcpy(key->value.at, &small, size);
    } else if (key->type == VALUE_STRING && key->value.n >= 8) {
        key->value = changed_string(key->value);
    } else if (key->type == VALUE_ARRAY && key->value.n >= 12) {
        key->value = changed_array(key->value);
    }
}

static void change_key(GgufFile *file) {
    size_t i = (size_t)random_below(file->n_keys), k = (size_t)random_below(file->n_keys);
    FileKey *key = &file->keys[i], before = *key;
    switch (random_below(12)) {
    case 0: memmove(key, key + 1, (--file->n_keys - i) * sizeof *key); break;
    case 1:
        if (file->n_keys < MOST) file->keys[file->n_keys++] = before;
        break;
    case 2: *key = file->keys[k], file->keys[k] = before; break;
    case 3: key->type = (uint32_t)random_below(14); break;
    case 4: key->name = changed(key->name); break;
    case 5: key->value = file->keys[k].value, key->type = file->keys[k].type; break;
    default: change_value(key);
    }
}

/* As many bytes as a type wants, the old ones as far as they go and then again. */
static void refit(FileTensor *tensor) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims && i < MAX_DIMS; i++)
        n *= tensor->dims[i] < 65536 ? tensor->dims[i] : 1;
    for (size_t i = 0; i < N_GGUF_TYPES; i++) {
        if (gguf_types[i].type != tensor->type || n > (1 << 15)) continue;
        Bytes old = tensor->data, data = keep(NULL, 0, gguf_bytes(tensor->type, (size_t)n));
        if (data.at == pool) return;
        data.n = gguf_bytes(tensor->type, (size_t)n);
        for (size_t k = 0; k < data.n; k++) data.at[k] = old.n ? old.at[k % old.n] : 0;
        tensor->data = data;
    }
}

static void change_data(FileTensor *tensor) {
    if (tensor->data.n < 4) return;
    tensor->data = keep(tensor->data.at, tensor->data.n, 0);
    if (tensor->data.at == pool) return;
    for (uint64_t i = random_below(3) ? 1 : tensor->data.n / 4; i > 0; i--) {
        size_t at = (size_t)random_below(tensor->data.n / 4) * 4;
        float value = (float)odd_real();
        memcpy(tensor->data.at + at, &value, 4);
    }
}

static void change_tensor(GgufFile *file) {
    size_t i = (size_t)random_below(file->n_tensors), k = (size_t)random_below(file->n_tensors);
    FileTensor *tensor = &file->tensors[i], before = *tensor;
    switch (random_below(14)) {
    case 0: memmove(tensor, tensor + 1, (--file->n_tensors - i) * sizeof *tensor); break;
    case 1:
        if (file->n_tensors < MOST) file->tensors[file->n_tensors++] = before;
        break;
    case 2: *tensor = file->tensors[k], file->tensors[k] = before; break;
    case 3: tensor->type = (uint32_t)random_below(45); break;
    case 4: tensor->dims[random_below(2)] = odd_number(); break;
    case 5: tensor->dims[random_below(2)] = random_below(8) ? random_below(70) : 256, refit(tensor); break;
    case 6: tensor->n_dims = (uint32_t)random_below(7); break;
    case 7: tensor->offset_error = random_below(2) ? odd_number() : file->alignment; break;
    case 8: tensor->name = changed(tensor->name); break;
    case 9: tensor->data.n = (size_t)random_below(tensor->data.n + 1); break;
    case 10:
    case 11: tensor->type = gguf_types[random_below(N_GGUF_TYPES)].type, refit(tensor); break;
    default: change_data(tensor);
    }
}

static void change_header(GgufFile *file) {
    switch (random_below(4)) {
    case 0: file->version = (uint32_t)random_below(5); break;
    case 1: file->keys_error = odd_number(); break;
    case 2: file->tensors_error = odd_number(); break;
    default: file->alignment = (size_t)1 << random_below(10);
    }
}

size_t mutate_gguf(unsigned char *bytes, size_t n, size_t room) {
    static GgufFile file;
    pool_n = 1; /* nothing begins at its very start, which says that there was no room */
    if (!read_file(&file, bytes, n)) return LLVMFuzzerMutate(bytes, n, room);
    for (uint64_t i = random_below(4) ? 1 : 4; i > 0; i--) {
        uint64_t choice = random_below(16);
        if (choice < 8 && file.n_keys)
            change_key(&file);
        else if (choice < 15 && file.n_tensors)
            change_tensor(&file);
        else if (choice == 15)
            change_header(&file);
    }
    write_file(&file);
    if (written_n > room) return LLVMFuzzerMutate(bytes, n, room);
    memcpy(bytes, written, written_n);
    return written_n;
}
