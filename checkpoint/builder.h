/* Readers of formats other than GGUF make these: metadata and tensors under GGUF's names. For this folder only. */
#ifndef ATTN_BUILDER_H
#define ATTN_BUILDER_H

#include "format.h"

/* `ok` turns false at the first error, which `error` then has, and stays so; what is made afterwards is dropped. */
typedef struct Builder {
    Checkpoint *checkpoint;
    Error *error;
    const char *architecture; /* stands before keys that begin with a '.' */
    size_t entries_room, tensors_room;
    bool ok;
} Builder;

/* Fails, as error_set does, behind the checkpoint's path. */
bool builder_fail(Builder *builder, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* n bytes that live as long as the checkpoint; NULL once it has failed. */
void *builder_room(Builder *builder, size_t n);

/* One entry of metadata. Keys and values are copied, but for the data of an array, which stays where it is. */
void builder_u32(Builder *builder, const char *key,
                 uint64_t value); /* that is at most UINT32_MAX: fails otherwise */
void builder_f32(Builder *builder, const char *key, double value);
void builder_bool(Builder *builder, const char *key, bool value);
void builder_string(Builder *builder, const char *key, String value);
void builder_array(Builder *builder, const char *key, ValueType element, uint64_t n, const void *data,
                   size_t n_bytes);
void builder_entry(Builder *builder, const char *key, Entry entry); /* whose data stay where they are, too */

/* Errors name a key, which begins with a '.', as config.json does. */
void builder_own_name(Builder *builder, const char *key, const char *name);

/* Whether there is an entry of that key already. */
bool builder_has(const Builder *builder, const char *key);

/* One tensor, whose name is the formatted text and is copied; NULL once it has failed. */
Tensor *builder_tensor(Builder *builder, const Tensor *tensor, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
