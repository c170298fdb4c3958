/* Readers of formats other than GGUF make these: metadata and tensors under GGUF's names. For this folder only. */
#ifndef ATTN_MAKE_H
#define ATTN_MAKE_H

#include "format.h"

/* `ok` turns false at the first error, which `error` then has, and stays so; what is made afterwards is dropped. */
typedef struct Maker {
    Checkpoint *checkpoint;
    Error *error;
    const char *architecture; /* stands before keys that begin with a '.' */
    size_t entries_room, tensors_room;
    bool ok;
} Maker;

/* Fails, as error_set does, behind the checkpoint's path. */
bool make_fail(Maker *maker, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* n bytes that live as long as the checkpoint; NULL once it has failed. */
void *make_room(Maker *maker, size_t n);

/* One entry of metadata. Keys and values are copied, but for the data of an array, which stays where it is. */
void make_u32(Maker *maker, const char *key,
              uint64_t value); /* that is at most UINT32_MAX: fails otherwise */
void make_f32(Maker *maker, const char *key, double value);
void make_bool(Maker *maker, const char *key, bool value);
void make_string(Maker *maker, const char *key, String value);
void make_array(Maker *maker, const char *key, ValueType element, uint64_t n, const void *data,
                size_t n_bytes);
void make_entry(Maker *maker, const char *key, Entry entry); /* whose data stay where they are, too */

/* Whether there is an entry of that key already. */
bool make_has(const Maker *maker, const char *key);

/* One tensor, whose name is the formatted text and is copied; NULL once it has failed. */
Tensor *make_tensor(Maker *maker, const Tensor *tensor, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
