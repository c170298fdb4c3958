/* The entries of a zip archive where they lie in a mapped file. For this folder only. */
#ifndef ATTN_ZIP_H
#define ATTN_ZIP_H

#include "checkpoint/format.h"

typedef struct ZipEntry {
    String name;               /* in Zip.directory */
    const unsigned char *data; /* [n_bytes] in the file */
    uint64_t n_bytes;
    uint64_t begin; /* where its own header lies in the file */
} ZipEntry;

typedef struct Zip {
    char *directory;   /* a copy */
    ZipEntry *entries; /* [n], sorted by name */
    size_t n;
} Zip;

/* Whether the bytes begin as those of an archive do. */
bool zip_recognise(const unsigned char *bytes, size_t n);

/*
 * Reads the directory of an archive that has its entries as they are, not compressed, and nothing behind the
 * directory but its end. No name occurs twice, no two entries share bytes. Fails with an error that names the file.
 * zip_close also takes what failed.
 */
bool zip_open(Zip *zip, const MappedFile *file, Error *error);
void zip_close(Zip *zip);

/* The entry of that name, or NULL. */
const ZipEntry *zip_find(const Zip *zip, String name);

#endif
