/* Archives as torch.save writes them, put together by hand: tests make whole ones and others that nobody would write. */
#ifndef ATTN_TESTS_TORCH_H
#define ATTN_TESTS_TORCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The program of a pickle; what has no room is left out. */
typedef struct Program {
    unsigned char bytes[1 << 14];
    size_t n;
} Program;

static inline void program_put(Program *program, const void *bytes, size_t n) {
    if (n > sizeof program->bytes - program->n) return;
    memcpy(program->bytes + program->n, bytes, n);
    program->n += n;
}

/* Opcodes of a string literal, also those behind a NUL. */
#define PROGRAM_PUT(program, literal) program_put(program, literal, sizeof(literal) - 1)

static inline void program_text(Program *program, const char *text) {
    uint32_t n = (uint32_t)strlen(text);
    program_put(program, "X", 1);
    program_put(program, &n, 4);
    program_put(program, text, n);
}

static inline void program_integer(Program *program, int64_t value) {
    int32_t number = (int32_t)value;
    program_put(program, number == value ? "J" : "\x8a\x08", number == value ? 1 : 2);
    program_put(program, &value, number == value ? 4 : 8);
}

/* A tensor: offset and strides count weights; n is the storage's. */
typedef struct Saved {
    const char *name, *type; /* "Float" … */
    const char *key;
    int64_t n, offset;
    size_t n_dims;
    int64_t sizes[6], strides[6];
} Saved;

/* Its name and what makes it. */
static inline void program_tensor(Program *program, const Saved *saved) {
    program_text(program, saved->name);
    PROGRAM_PUT(program, "ctorch._utils\n_rebuild_tensor_v2\n((");
    program_text(program, "storage");
    PROGRAM_PUT(program, "ctorch\n");
    program_put(program, saved->type, strlen(saved->type));
    PROGRAM_PUT(program, "Storage\n");
    program_text(program, saved->key);
    program_text(program, "cpu");
    program_integer(program, saved->n);
    PROGRAM_PUT(program, "tQ");
    program_integer(program, saved->offset);
    for (int k = 0; k < 2; k++) {
        PROGRAM_PUT(program, "(");
        for (size_t i = 0; i < saved->n_dims; i++)
            program_integer(program, k ? saved->strides[i] : saved->sizes[i]);
        PROGRAM_PUT(program, "t");
    }
    PROGRAM_PUT(program, "\x89"
                         "ccollections\nOrderedDict\n)RtR");
}

enum { ARCHIVE_ENTRIES = 64 };

typedef struct Archive {
    unsigned char bytes[1 << 17];
    size_t n;
    struct {
        char name[64];
        size_t begin, n;
    } entries[ARCHIVE_ENTRIES];
    size_t n_entries;
} Archive;

static inline void archive_number(Archive *archive, uint64_t value, size_t n) {
    memcpy(archive->bytes + archive->n, &value, n);
    archive->n += n;
}

/* One entry, whose data begin at a multiple of 64; `shift`: so many bytes behind it. */
static inline void archive_add(Archive *archive, const char *name, const void *data, size_t n, size_t shift) {
    size_t i = archive->n_entries, n_name = strlen(name), extra;
    if (i == ARCHIVE_ENTRIES || archive->n + n + 2048 > sizeof archive->bytes) return;
    snprintf(archive->entries[i].name, sizeof archive->entries[i].name, "%s", name);
    archive->entries[i].begin = archive->n;
    archive->entries[i].n = n;
    archive->n_entries++;
    extra = 4 + (64 - (archive->n + 30 + n_name + 4) % 64) % 64 + shift;
    archive_number(archive, 0x04034b50, 4);
    archive_number(archive, 0, 2);
    archive_number(archive, 0x808, 2); /* UTF-8, sizes behind the data */
    for (int k = 0; k < 9; k++) archive_number(archive, 0, 2);
    archive_number(archive, n_name, 2);
    archive_number(archive, extra, 2);
    memcpy(archive->bytes + archive->n, name, n_name);
    archive->n += n_name;
    archive_number(archive, 0x4246, 2);
    archive_number(archive, extra - 4, 2);
    memset(archive->bytes + archive->n, 'Z', extra - 4);
    archive->n += extra - 4;
    if (n) memcpy(archive->bytes + archive->n, data, n);
    archive->n += n;
    archive_number(archive, 0x08074b50, 4);
    archive_number(archive, 0, 4);
    archive_number(archive, n, 4);
    archive_number(archive, n, 4);
}

/* The directory; with zip64, sizes and places in the wider fields that large files need. */
static inline void archive_end(Archive *archive, bool zip64) {
    size_t begin = archive->n, n = archive->n_entries, end;
    for (size_t i = 0; i < n; i++) {
        size_t n_name = strlen(archive->entries[i].name);
        archive_number(archive, 0x02014b50, 4);
        archive_number(archive, 0, 4);
        archive_number(archive, 0x808, 2);
        for (int k = 0; k < 5; k++) archive_number(archive, 0, 2);
        for (int k = 0; k < 2; k++) archive_number(archive, zip64 ? UINT32_MAX : archive->entries[i].n, 4);
        archive_number(archive, n_name, 2);
        archive_number(archive, zip64 ? 28 : 0, 2);
        for (int k = 0; k < 5; k++) archive_number(archive, 0, 2);
        archive_number(archive, zip64 ? UINT32_MAX : archive->entries[i].begin, 4);
        memcpy(archive->bytes + archive->n, archive->entries[i].name, n_name);
        archive->n += n_name;
        if (!zip64) continue;
        archive_number(archive, 1, 2);
        archive_number(archive, 24, 2);
        for (int k = 0; k < 2; k++) archive_number(archive, archive->entries[i].n, 8);
        archive_number(archive, archive->entries[i].begin, 8);
    }
    end = archive->n;
    if (zip64) {
        archive_number(archive, 0x06064b50, 4);
        archive_number(archive, 44, 8);
        archive_number(archive, 0, 4);
        archive_number(archive, 0, 8);
        archive_number(archive, n, 8);
        archive_number(archive, n, 8);
        archive_number(archive, end - begin, 8);
        archive_number(archive, begin, 8);
        archive_number(archive, 0x07064b50, 4);
        archive_number(archive, 0, 4);
        archive_number(archive, end, 8);
        archive_number(archive, 1, 4);
    }
    archive_number(archive, 0x06054b50, 4);
    archive_number(archive, 0, 4);
    for (int k = 0; k < 2; k++) archive_number(archive, zip64 ? UINT16_MAX : n, 2);
    archive_number(archive, zip64 ? UINT32_MAX : end - begin, 4);
    archive_number(archive, zip64 ? UINT32_MAX : begin, 4);
    archive_number(archive, 0, 2);
}

#endif
