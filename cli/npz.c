/*
 * The archive (PKWARE's APPNOTE.TXT, version 6.3): for each array a local header and the .npy file, then the
 * central directory, which tells where each local header is, then the end, which tells where the directory
 * is. Sizes and places stand in ZIP64 fields throughout, so that nothing is too large, and nothing depends on
 * what is. A checksum stands before what it sums up: hence the second pass over the file.
 */
#include "cli/npz.h"

#include "cli/print.h"
#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VERSION_ZIP64 = 45,
    DATE_NONE = 1 << 5 | 1, /* 1980-01-01: the same arrays give the same bytes */
    LOCAL_BYTES = 30 + 20,  /* of a local header with its ZIP64 field, beside the name */
    CENTRAL_BYTES = 46 + 28,
    END_BYTES = 56 + 20 + 22,
    READ_BYTES = 1 << 18, /* a piece of the checksums' pass */
};

static const uint64_t IN_ZIP64 = UINT64_MAX; /* cut to the field's width: "see the ZIP64 field" */

typedef struct Member {
    uint64_t header, data, end; /* offsets of the local header, the .npy file, and what follows it */
    uint32_t crc;
} Member;

struct NpzWriter {
    OutputFile output;
    const NpzArray *arrays; /* [n] borrowed */
    Member *members;        /* [n] */
    size_t n;
    uint32_t crc[8][256];  /* crc[k][byte]: the checksum of a byte and k zero bytes behind it */
    unsigned char *buffer; /* [READ_BYTES] */
};

uint64_t npz_array_bytes(const NpzArray *array) {
    uint64_t bytes = array->item_bytes;
    for (size_t i = 0; i < array->n_dims; i++) bytes *= array->shape[i];
    return bytes;
}

/* Appends the low n_bytes of value, as all of zip's numbers are stored. */
static unsigned char *put(unsigned char *at, uint64_t value, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++) *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

static unsigned char *put_name(unsigned char *at, const NpzArray *array) {
    size_t n = strlen(array->key);
    memcpy(at, array->key, n);
    memcpy(at + n, ".npy", 4);
    return at + n + 4;
}

/* The part that both headers of a member share: version, flags, method (stored), time, date, checksum, sizes, name. */
static unsigned char *put_facts(unsigned char *at, const NpzArray *array, const Member *member) {
    at = put(at, VERSION_ZIP64, 2);
    at = put(at, 0, 2 + 2 + 2);
    at = put(at, DATE_NONE, 2);
    at = put(at, member->crc, 4);
    at = put(put(at, IN_ZIP64, 4), IN_ZIP64, 4);
    return put(at, strlen(array->key) + 4, 2);
}

static unsigned char *put_local(unsigned char *at, const NpzArray *array, const Member *member) {
    at = put_facts(put(at, 0x04034b50, 4), array, member);
    at = put_name(put(at, 20, 2), array);
    at = put(put(at, 1, 2), 16, 2); /* the ZIP64 field */
    return put(put(at, member->end - member->data, 8), member->end - member->data, 8);
}

static unsigned char *put_central(unsigned char *at, const NpzArray *array, const Member *member) {
    at = put(put(at, 0x02014b50, 4), VERSION_ZIP64, 2);
    at = put_facts(at, array, member);
    at = put(at, 28, 2);
    at = put(at, 0, 2 + 2 + 2); /* comment, disk, attributes within … */
    at = put(at, 0, 4);         /* … and outside */
    at = put_name(put(at, IN_ZIP64, 4), array);
    at = put(put(at, 1, 2), 24, 2);
    at = put(put(at, member->end - member->data, 8), member->end - member->data, 8);
    return put(at, member->header, 8);
}

/* The end of the directory in ZIP64, where that is, and the end as programs without ZIP64 look for it. */
static unsigned char *put_end(unsigned char *at, size_t n, uint64_t directory, uint64_t end) {
    at = put(put(at, 0x06064b50, 4), 44, 8);
    at = put(put(at, VERSION_ZIP64, 2), VERSION_ZIP64, 2);
    at = put(at, 0, 8); /* disks */
    at = put(put(at, n, 8), n, 8);
    at = put(put(at, end - directory, 8), directory, 8);
    at = put(put(at, 0x07064b50, 4), 0, 4);
    at = put(put(at, end, 8), 1, 4);
    at = put(put(at, 0x06054b50, 4), 0, 4);
    at = put(put(at, IN_ZIP64, 2), IN_ZIP64, 2);
    at = put(put(at, IN_ZIP64, 4), IN_ZIP64, 4);
    return put(at, 0, 2);
}

/* CRC-32 of zip, eight bytes a step (Kounavis & Berry 2005, "slicing"). */
static void make_crc_tables(NpzWriter *writer) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        writer->crc[0][byte] = crc;
    }
    for (size_t k = 1; k < 8; k++)
        for (size_t byte = 0; byte < 256; byte++) {
            uint32_t before = writer->crc[k - 1][byte];
            writer->crc[k][byte] = before >> 8 ^ writer->crc[0][before & 255];
        }
}

static uint32_t crc_update(const NpzWriter *writer, uint32_t crc, const unsigned char *bytes, size_t n) {
    for (; n >= 8; n -= 8, bytes += 8) {
        uint32_t next = 0;
        for (size_t i = 0; i < 8; i++) {
            unsigned char byte = (unsigned char)(bytes[i] ^ (i < 4 ? crc >> 8 * i : 0));
            next ^= writer->crc[7 - i][byte];
        }
        crc = next;
    }
    for (; n > 0; n--, bytes++) crc = crc >> 8 ^ writer->crc[0][(crc ^ *bytes) & 255];
    return crc;
}

static bool write_at(const NpzWriter *writer, const void *bytes, size_t n, uint64_t offset, Error *error) {
    const char *at = bytes;
    while (n > 0) {
        ssize_t written = pwrite(fileno(writer->output.file), at, n, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return output_failed(&writer->output, error);
        at += written, n -= (size_t)written, offset += (uint64_t)written;
    }
    return true;
}

/* Gives each member its place; false when the offsets would overflow. */
static bool place_members(NpzWriter *writer, uint64_t *end) {
    const uint64_t limit = INT64_MAX / 2;
    uint64_t directory_bytes = END_BYTES;
    *end = 0;
    for (size_t i = 0; i < writer->n; i++) {
        const NpzArray *array = &writer->arrays[i];
        uint64_t name = strlen(array->key) + 4, bytes = array->item_bytes;
        for (size_t j = 0; j < array->n_dims; j++)
            if (__builtin_mul_overflow(bytes, array->shape[j], &bytes)) return false;
        Member *member = &writer->members[i];
        member->header = *end;
        member->data = *end + LOCAL_BYTES + name;
        if (bytes > limit - member->data) return false;
        member->end = *end = member->data + NPY_HEADER_BYTES + bytes;
        directory_bytes += CENTRAL_BYTES + name;
    }
    *end += directory_bytes;
    return true;
}

/* All bytes of the file at once: better to hear now that the disk is full than after an hour. */
static bool take_room(const NpzWriter *writer, uint64_t bytes, Error *error) {
    int file = fileno(writer->output.file);
    int code = posix_fallocate(file, 0, (off_t)bytes);
    if (code == EINVAL || code == EOPNOTSUPP) /* the file system cannot tell */
        code = ftruncate(file, (off_t)bytes) == 0 ? 0 : errno;
    if (code == 0) return true;
    return error_set(error, "%s: cannot write its %.1f MB: %s", writer->output.path, (double)bytes / 1e6,
                     strerror(code));
}

static bool begin(NpzWriter *writer, const char *path, const Inputs *inputs, Error *error) {
    uint64_t bytes;
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return error_set(error, "%s: is no regular file; an .npz is not written in order, so it needs one",
                         path);
    if (!place_members(writer, &bytes))
        return error_set(error, "%s: the arrays are too large for a file", path);
    if (!output_open(&writer->output, path, inputs, error) || !take_room(writer, bytes, error)) return false;
    for (size_t i = 0; i < writer->n; i++) {
        const NpzArray *array = &writer->arrays[i];
        unsigned char header[NPY_HEADER_BYTES];
        npy_header(header, array->dtype, array->shape, array->n_dims);
        if (!write_at(writer, header, sizeof header, writer->members[i].data, error)) return false;
    }
    make_crc_tables(writer);
    return true;
}

NpzWriter *npz_create(const char *path, const Inputs *inputs, const NpzArray *arrays, size_t n_arrays,
                      Error *error) {
    NpzWriter *writer = malloc(sizeof *writer);
    Member *members = calloc(n_arrays, sizeof *members);
    unsigned char *buffer = malloc(READ_BYTES);
    if (!writer || !members || !buffer) {
        error_set(error, "%s: not enough memory", path);
        free(writer);
        free(members);
        free(buffer);
        return NULL;
    }
    *writer = (NpzWriter){.arrays = arrays, .members = members, .n = n_arrays, .buffer = buffer};
    if (begin(writer, path, inputs, error)) return writer;
    npz_abandon(writer);
    return NULL;
}

bool npz_write(NpzWriter *writer, size_t array, size_t first, const void *items, size_t n, Error *error) {
    size_t item_bytes = writer->arrays[array].item_bytes;
    uint64_t offset = writer->members[array].data + NPY_HEADER_BYTES + (uint64_t)first * item_bytes;
    return write_at(writer, items, n * item_bytes, offset, error);
}

/* Reads the member back for its checksum. */
static bool sum_up(NpzWriter *writer, Member *member, Error *error) {
    uint32_t crc = UINT32_MAX;
    for (uint64_t at = member->data; at < member->end;) {
        uint64_t left = member->end - at;
        ssize_t n = pread(fileno(writer->output.file), writer->buffer,
                          left < READ_BYTES ? (size_t)left : READ_BYTES, (off_t)at);
        if (interrupted()) return error_set(error, "interrupted");
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return error_set(error, "%s: cannot read back what was written%s%s", writer->output.path,
                             n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
        crc = crc_update(writer, crc, writer->buffer, (size_t)n);
        at += (uint64_t)n;
    }
    member->crc = ~crc;
    return true;
}

static bool finish(NpzWriter *writer, Error *error) {
    unsigned char bytes[CENTRAL_BYTES + END_BYTES + sizeof((NpzArray *)NULL)->key + 4];
    uint64_t directory = writer->n ? writer->members[writer->n - 1].end : 0, at = directory;
    for (size_t i = 0; i < writer->n; i++) {
        const NpzArray *array = &writer->arrays[i];
        Member *member = &writer->members[i];
        show_progress("checksums", i, writer->n);
        if (!sum_up(writer, member, error)) return false;
        size_t n = (size_t)(put_local(bytes, array, member) - bytes);
        if (!write_at(writer, bytes, n, member->header, error)) return false;
        n = (size_t)(put_central(bytes, array, member) - bytes);
        if (!write_at(writer, bytes, n, at, error)) return false;
        at += n;
    }
    size_t n = (size_t)(put_end(bytes, writer->n, directory, at) - bytes);
    return write_at(writer, bytes, n, at, error) && output_finish(&writer->output, error);
}

bool npz_finish(NpzWriter *writer, Error *error) {
    bool ok = finish(writer, error);
    show_progress("checksums", writer->n, writer->n);
    npz_abandon(writer);
    return ok;
}

void npz_abandon(NpzWriter *writer) {
    if (!writer) return;
    output_abandon(&writer->output);
    free(writer->members);
    free(writer->buffer);
    free(writer);
}
