/* tokenizer.model: messages of protobuf within each other, whose lengths stay right. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { KIND_BYTES = 2, MOST_MORE = 64, MOST_HEAD = 20 };

/* A field lies at [begin, end) of a message, its content from `body` on. */
typedef struct Field {
    size_t begin, body, end;
    uint64_t key;
} Field;

static uint64_t varint(const unsigned char *bytes, size_t n, size_t *at) {
    uint64_t value = 0;
    for (unsigned shift = 0; *at < n && shift < 64; shift += 7) {
        unsigned char byte = bytes[(*at)++];
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) break;
    }
    return value;
}

static size_t put_varint(unsigned char *bytes, uint64_t value) {
    size_t n = 0;
    for (; value > 127; value >>= 7) bytes[n++] = (unsigned char)(value | 128);
    bytes[n++] = (unsigned char)value;
    return n;
}

/* Some field, whose end is within the n > 0 bytes. */
static Field some_field(const unsigned char *bytes, size_t n) {
    Field field = {0};
    size_t at = 0;
    for (uint64_t skip = random_below(random_below(2) ? 8 : 400); at < n; skip--) {
        field = (Field){.begin = at, .key = varint(bytes, n, &at)};
        uint64_t kind = field.key & 7, length = kind == KIND_BYTES ? varint(bytes, n, &at)
                                                : kind == 1        ? 8
                                                                   : 4;
        field.body = at;
        if (kind == 0)
            varint(bytes, n, &at);
        else
            at = length < n - at ? at + (size_t)length : n;
        field.end = at;
        if (skip == 0) break;
    }
    return field;
}

/* Writes a field with another content, of at most MOST_MORE bytes more; returns its bytes. */
static size_t change_field(const unsigned char *bytes, Field field, unsigned char *out) {
    size_t n = field.end - field.body, n_head = put_varint(out, random_below(12) ? field.key : odd_number());
    float real = (float)odd_real();
    if ((field.key & 7) == 0)
        return n_head + put_varint(out + n_head, random_below(2) ? odd_number() : random_below(8));
    if ((field.key & 7) != KIND_BYTES) return memcpy(out + n_head, &real, sizeof real), n_head + sizeof real;
    unsigned char *content = out + MOST_HEAD; /* where no head reaches */
    memcpy(content, bytes + field.body, n);
    if (n) n = (random_below(2) ? mutate_message : LLVMFuzzerMutate)(content, n, n + MOST_MORE - MOST_HEAD);
    n_head += put_varint(out + n_head, random_below(20) ? n : odd_number());
    memmove(out + n_head, content, n);
    return n_head + n;
}

size_t mutate_message(unsigned char *bytes, size_t n, size_t room) {
    if (n == 0 || random_below(8) == 0) return LLVMFuzzerMutate(bytes, n, room);
    Field field = some_field(bytes, n);
    size_t n_field = field.end - field.begin, n_new = 0;
    unsigned char *changed = malloc(2 * n_field + MOST_MORE + MOST_HEAD);
    uint64_t choice = random_below(8);
    if (choice == 0) /* twice; otherwise not at all, or another */
        for (; n_new < 2 * n_field; n_new += n_field) memcpy(changed + n_new, bytes + field.begin, n_field);
    else if (choice > 1)
        n_new = change_field(bytes, field, changed);
    if (n - n_field + n_new <= room) {
        memmove(bytes + field.begin + n_new, bytes + field.end, n - field.end);
        memcpy(bytes + field.begin, changed, n_new);
        n = n - n_field + n_new;
    }
    free(changed);
    return n;
}
