/*
 * A family's keys of metadata: "block_count" is "llama.block_count" in a file whose family is llama. A number is checked as
 * it is read. What a file has under that prefix and nobody asked for can be listed.
 */
#ifndef ATTN_KEYS_H
#define ATTN_KEYS_H

#include "checkpoint/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_ASKED = 96 };

typedef struct KeyReader {
    const Checkpoint *checkpoint;
    const char *prefix; /* general.architecture, as soon as it is known to be one of ours */
    Error *error;       /* the first one */
    bool ok;            /* nothing failed so far; what is read after that is 1 or nothing */
    const char *asked[MAX_ASKED];
    size_t n_asked;
} KeyReader;

/* Keeps the first error. Is false. */
bool keys_fail(KeyReader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef struct KeyName {
    char text[128];
} KeyName;

/* The name of a key in the file. The suffix is a literal: it is kept, as asked for. */
KeyName keys_name(KeyReader *reader, const char *suffix);

bool keys_has(KeyReader *reader, const char *suffix);

/* A number in 1 … max, or `otherwise` when the key is missing (0: it must not be). */
size_t keys_number(KeyReader *reader, const char *suffix, uint64_t max, size_t otherwise);

/* Reads likewise a number up to max that may be 0, which says the same as no key. */
size_t keys_count(KeyReader *reader, const char *suffix, uint64_t max, size_t otherwise);

/* Reads likewise a float in [least, ∞), which is `otherwise` when the key is missing (NAN: it must not be). */
float keys_float(KeyReader *reader, const char *suffix, float least, float otherwise);

/* Reads likewise one that is not 0; where it is, that says the same as no key. */
float keys_factor(KeyReader *reader, const char *suffix, float otherwise);

String keys_text(KeyReader *reader, const char *suffix, const char *otherwise);
bool keys_bool(KeyReader *reader, const char *suffix, bool otherwise);

/*
 * How many of the family's keys in the file are neither asked for nor in `idle`, a list of suffixes that ends with NULL (one
 * that ends with '.' stands for all that begin so), nor false or 0, which asks for nothing. The first `most` of their names
 * go to names, borrowed from the checkpoint.
 */
size_t keys_unread(const KeyReader *reader, const char *const *idle, String *names, size_t most);

#endif
