/*
 * zip (PKWARE's APPNOTE, sections 4.3 and 4.5.3): entries, each a header and its data; the directory, which has a record
 * for each of them; records about where the directory lies, the last of the file. Numbers that do not fit 32 bits have
 * all of these set, and lie in an extra field of zip64. All headers are copied before they are looked at. CRC-32 sums are
 * not checked: that would read all weights before the first is used, and no other format has any.
 */
#include "zip.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the records without what varies. */
enum { HEADER = 30, RECORD = 46, END = 22, LOCATOR = 20, END64 = 56 };

enum { MAX_DIRECTORY = 1 << 26 };

static bool fail(const MappedFile *file, const char *what, Error *error) {
    return error_set(error, "%s: its zip archive %s", file->path, what);
}

static bool fail_entry(const MappedFile *file, String name, const char *what, Error *error) {
    return error_set(error, "%s: the entry '%.*s' of its zip archive %s", file->path, string_shown(name),
                     name.data, what);
}

static uint64_t number(const void *at, size_t n) {
    uint64_t value = 0;
    memcpy(&value, at, n);
    return value;
}

static uint32_t u16(const void *at) { return (uint32_t)number(at, 2); }
static uint64_t u32(const void *at) { return number(at, 4); }
static uint64_t u64(const void *at) { return number(at, 8); }

/* Copies n bytes at `at` of the file, if it has them and they begin with that mark. */
static bool copy(void *to, const MappedFile *file, uint64_t at, size_t n, const char mark[static 4]) {
    if (at > file->n_bytes || n > file->n_bytes - at) return false;
    memcpy(to, file->bytes + at, n);
    atomic_signal_fence(memory_order_acquire); /* what is checked is what is used */
    return memcmp(to, mark, 4) == 0;
}

bool zip_recognise(const unsigned char *bytes, size_t n) { return n >= 4 && memcmp(bytes, "PK\3\4", 4) == 0; }

typedef struct Directory {
    uint64_t begin, n_bytes, n;
} Directory;

/* Where the directory lies: just before what says so. */
static bool find_directory(Directory *directory, const MappedFile *file, Error *error) {
    unsigned char end[END], locator[LOCATOR], end64[END64];
    uint64_t at = file->n_bytes - END, sum;
    if (file->n_bytes < END || !copy(end, file, at, END, "PK\5\6") || u16(end + 20) != 0)
        return fail(file, "has no end; is the file cut?", error);
    if (u16(end + 4) != 0 || u16(end + 6) != 0 || u16(end + 8) != u16(end + 10))
        return fail(file, "has parts in other files", error);
    *directory = (Directory){.begin = u32(end + 16), .n_bytes = u32(end + 12), .n = u16(end + 10)};
    if (at >= LOCATOR && copy(locator, file, at - LOCATOR, LOCATOR, "PK\6\7")) {
        uint64_t where = u64(locator + 8), last = at - LOCATOR;
        if (where > last || last - where != END64 || !copy(end64, file, where, END64, "PK\6\6") ||
            u64(end64 + 4) != END64 - 12 || u32(end64 + 16) != 0 || u32(end64 + 20) != 0)
            return fail(file, "has an end that is damaged", error);
        Directory old = *directory,
                  new = {.begin = u64(end64 + 48), .n_bytes = u64(end64 + 40), .n = u64(end64 + 32)};
        if ((old.begin != UINT32_MAX && old.begin != new.begin) ||
            (old.n_bytes != UINT32_MAX && old.n_bytes != new.n_bytes) ||
            (old.n != UINT16_MAX && old.n != new.n))
            return fail(file, "says of its directory one thing and another", error);
        *directory = new;
        at = where;
    }
    if (!add(directory->begin, directory->n_bytes, &sum) || sum != at)
        return fail(file, "has its directory in another place than it says", error);
    if (directory->n_bytes > MAX_DIRECTORY || directory->n > directory->n_bytes / RECORD)
        return fail(file, "has a directory that is too large, or too small for its entries", error);
    return true;
}

/* Replaces those of the three numbers that have all bits set by what zip64's extra field has for them. */
static bool widen(uint64_t *numbers[3], const char *extra, size_t n) {
    bool wanted = false;
    for (size_t i = 0; i < 3; i++) wanted = wanted || *numbers[i] == UINT32_MAX;
    while (wanted && n >= 4) {
        size_t id = u16(extra), n_field = u16(extra + 2);
        extra += 4, n -= 4;
        if (n_field > n) return false;
        for (size_t i = 0; i < 3 && id == 1; i++) {
            if (*numbers[i] != UINT32_MAX) continue;
            if (n_field < 8) return false;
            *numbers[i] = u64(extra);
            extra += 8, n -= 8, n_field -= 8;
        }
        if (id == 1) return true;
        extra += n_field, n -= n_field;
    }
    return !wanted;
}

/* The entry's own header has to say the same as its record in the directory, which begins at `most`. */
static bool find_data(ZipEntry *entry, const char *record, const MappedFile *file, uint64_t most,
                      Error *error) {
    unsigned char header[HEADER];
    if (!copy(header, file, entry->begin, HEADER, "PK\3\4"))
        return fail_entry(file, entry->name, "is not where the directory says", error);
    bool comes_later = u16(header + 6) & 8; /* the sizes stand behind the data */
    for (size_t i = 18; i < 26; i += 4)
        if (u32(header + i) != UINT32_MAX && u32(header + i) != entry->n_bytes &&
            !(comes_later && u32(header + i) == 0))
            return fail_entry(file, entry->name, "has a size here and another one there", error);
    uint64_t n_name = u16(header + 26), data = entry->begin + HEADER + n_name + u16(header + 28), end;
    if (!add(data, entry->n_bytes, &end) || end > most)
        return fail_entry(file, entry->name, "does not lie before the directory", error);
    if (memcmp(header + 6, record + 8, 4) != 0 || n_name != entry->name.n ||
        memcmp(file->bytes + entry->begin + HEADER, entry->name.data, entry->name.n) != 0)
        return fail_entry(file, entry->name, "does not have its own header", error);
    entry->data = file->bytes + data;
    return true;
}

/* Reads the record at *at, and moves there to the next one; the directory begins at `most`. */
static bool read_record(ZipEntry *entry, const char **at, const char *end, const MappedFile *file,
                        uint64_t most, Error *error) {
    const char *record = *at;
    size_t left = (size_t)(end - record);
    if (left < RECORD || memcmp(record, "PK\1\2", 4) != 0)
        return fail(file, "has a directory that is damaged", error);
    size_t n_name = u16(record + 28), n_extra = u16(record + 30),
           whole = RECORD + n_name + n_extra + u16(record + 32);
    if (left < whole) return fail(file, "has a directory that is damaged", error);
    *at += whole;
    uint64_t n_packed = u32(record + 20);
    *entry =
        (ZipEntry){.name = {record + RECORD, n_name}, .n_bytes = u32(record + 24), .begin = u32(record + 42)};
    if (!widen((uint64_t *[]){&entry->n_bytes, &n_packed, &entry->begin}, record + RECORD + n_name,
               n_extra) ||
        u16(record + 34) != 0)
        return fail_entry(file, entry->name, "has a record that is damaged", error);
    if (u16(record + 10) != 0 || (u16(record + 8) & 1) || n_packed != entry->n_bytes)
        return fail_entry(file, entry->name,
                          "is compressed, so that its weights cannot be used where they lie: torch.save "
                          "does not do that; unpack it, and pack it again without",
                          error);
    return find_data(entry, record, file, most, error);
}

static int compare_places(const void *a, const void *b) {
    const ZipEntry *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static int compare_names(const void *a, const void *b) {
    return string_compare(((const ZipEntry *)a)->name, ((const ZipEntry *)b)->name);
}

bool zip_open(Zip *zip, const MappedFile *file, Error *error) {
    Directory directory = {0};
    *zip = (Zip){0};
    if (!find_directory(&directory, file, error)) return false;
    size_t n_bytes = (size_t)directory.n_bytes;
    zip->directory = malloc(n_bytes + 1);
    zip->entries = malloc(((size_t)directory.n + 1) * sizeof *zip->entries);
    if (!zip->directory || !zip->entries)
        return fail(file, "has a directory for which there is not enough memory", error);
    memcpy(zip->directory, file->bytes + directory.begin, n_bytes);
    const char *at = zip->directory, *end = at + n_bytes;
    for (; zip->n < directory.n; zip->n++)
        if (!read_record(&zip->entries[zip->n], &at, end, file, directory.begin, error)) return false;
    if (at != end) return fail(file, "has more in its directory than it says", error);
    qsort(zip->entries, zip->n, sizeof *zip->entries, compare_places);
    for (size_t i = 1; i < zip->n; i++)
        if (zip->entries[i - 1].data + zip->entries[i - 1].n_bytes > file->bytes + zip->entries[i].begin)
            return fail_entry(file, zip->entries[i].name, "overlaps another one", error);
    qsort(zip->entries, zip->n, sizeof *zip->entries, compare_names);
    for (size_t i = 1; i < zip->n; i++)
        if (compare_names(&zip->entries[i - 1], &zip->entries[i]) == 0)
            return fail_entry(file, zip->entries[i].name, "is there twice", error);
    return true;
}

void zip_close(Zip *zip) {
    free(zip->directory);
    free(zip->entries);
}

const ZipEntry *zip_find(const Zip *zip, String name) {
    ZipEntry wanted = {.name = name};
    return bsearch(&wanted, zip->entries, zip->n, sizeof wanted, compare_names);
}
