#include "measures/packedrows.h"

#include <math.h>
#include <string.h>

/* Appends half a byte. */
static bool push(PackedRows *packed, size_t nibble) {
    if (packed->half) {
        packed->bytes[packed->n - 1] |= (unsigned char)(nibble << 4);
        packed->half = false;
        return true;
    }
    if (packed->n == packed->capacity) {
        size_t capacity = 2 * packed->capacity + 256;
        unsigned char *bytes = arena_new(packed->arena, capacity, 1);
        if (!bytes) return false;
        if (packed->n > 0) memcpy(bytes, packed->bytes, packed->n);
        packed->bytes = bytes;
        packed->capacity = capacity;
    }
    packed->bytes[packed->n++] = (unsigned char)nibble;
    packed->half = true;
    return true;
}

bool packed_rows_finish(PackedRows *packed) {
    size_t left = packed->zeros;
    if (left == 0) return true;
    packed->zeros = 0;
    if (!push(packed, 0)) return false;
    for (; left > 7; left >>= 3)
        if (!push(packed, (left & 7) | 8)) return false;
    return push(packed, left);
}

static bool push_level(PackedRows *packed, size_t level) {
    if (level < 15) return push(packed, level);
    return push(packed, 15) && push(packed, level & 15) && push(packed, level >> 4);
}

bool packed_rows_add(PackedRows *packed, const float *row, size_t n, float least) {
    for (size_t i = 0; i < n; i++) {
        long level = lrintf(row[i] * 255);
        if (level <= 0 || row[i] < least)
            packed->zeros++;
        else if (!packed_rows_finish(packed) || !push_level(packed, level < 255 ? (size_t)level : 255))
            return false;
    }
    return true;
}
