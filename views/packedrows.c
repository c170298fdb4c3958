#include "views/packedrows.h"

#include <math.h>
#include <stdlib.h>

static bool push(PackedRows *packed, unsigned char byte) {
    if (packed->n == packed->capacity) {
        size_t capacity = 2 * packed->capacity + 256;
        unsigned char *bytes = realloc(packed->bytes, capacity);
        if (!bytes) return false;
        packed->bytes = bytes;
        packed->capacity = capacity;
    }
    packed->bytes[packed->n++] = byte;
    return true;
}

bool packed_rows_finish(PackedRows *packed) {
    size_t left = packed->zeros;
    if (left == 0) return true;
    packed->zeros = 0;
    if (!push(packed, 0)) return false;
    for (; left > 127; left >>= 7)
        if (!push(packed, (unsigned char)(left | 128))) return false;
    return push(packed, (unsigned char)left);
}

bool packed_rows_add(PackedRows *packed, const float *row, size_t n, float least) {
    for (size_t i = 0; i < n; i++) {
        long level = lrintf(row[i] * 255);
        if (level <= 0 || row[i] < least)
            packed->zeros++;
        else if (!packed_rows_finish(packed) || !push(packed, (unsigned char)(level < 255 ? level : 255)))
            return false;
    }
    return true;
}
