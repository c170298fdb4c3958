/* For tests of a Hugging Face folder, which lies in scratch_folder (gguf.h). */
#ifndef ATTN_TEST_FOLDER_H
#define ATTN_TEST_FOLDER_H

#include "checkpoint/checkpoint.h"
#include "gguf.h"
#include "open.h"

#include <unistd.h>

static Error error; /* the last one */

static void put_text(const char *name, const char *text) { scratch_put(name, text, strlen(text)); }

static inline void drop(const char *name) { unlink(scratch_file(name)); }

/* A safetensors file of this header, and n_data bytes 0, 1, 2 … behind it; `padding` spaces end the header. */
static inline void put_safetensors(const char *name, const char *header, size_t padding, size_t n_data) {
    static unsigned char bytes[1 << 20];
    uint64_t n = strlen(header) + padding;
    memcpy(bytes, &n, sizeof n);
    memcpy(bytes + 8, header, strlen(header));
    memset(bytes + 8 + strlen(header), ' ', padding);
    for (size_t i = 0; i < n_data; i++) bytes[8 + n + i] = (unsigned char)i;
    scratch_put(name, bytes, 8 + (size_t)n + n_data);
}

/* Opens the folder, which must be refused by a line that says so. */
static void refuse(const char *says) {
    Checkpoint *checkpoint = checkpoint_open(scratch_folder, &error);
    CHECK(!checkpoint, "accepted, instead of: %s", says);
    CHECK(checkpoint || (strstr(error.message, says) &&
                         strncmp(error.message, scratch_folder, strlen(scratch_folder)) == 0),
          "'%s' does not say '%s'", error.message, says);
    checkpoint_close(checkpoint);
}

static Checkpoint *accept(const char *path) {
    Checkpoint *checkpoint = checkpoint_open(path, &error);
    CHECK(checkpoint, "%s", error.message);
    return checkpoint;
}

#endif
