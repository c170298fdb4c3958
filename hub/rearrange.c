/* Weights that a folder has in another order than GGUF: each tensor is turned once, when it is opened. */
#include "hub.h"

#include "kernels/dtype.h"

#include <math.h>
#include <string.h>

enum { TILE = 32 /* rows and columns: what is read and written of it lies in L1 */ };

/* to[j][i] = from[i][j], for i < rows, j < cols; `size` bytes each, a constant where this is inlined. */
static inline void transpose(unsigned char *to, const unsigned char *from, size_t rows, size_t cols,
                             size_t size) {
    for (size_t i0 = 0; i0 < rows; i0 += TILE)
        for (size_t j0 = 0; j0 < cols; j0 += TILE)
            for (size_t j = j0; j < j0 + TILE && j < cols; j++)
                for (size_t i = i0; i < i0 + TILE && i < rows; i++)
                    memcpy(to + (j * rows + i) * size, from + (i * cols + j) * size, size);
}

/* Blocks [group][part] become [part][group]; a part p has sizes[p] bytes, the same in each of n groups. */
static void regroup(unsigned char *to, const unsigned char *from, size_t n, const size_t sizes[3]) {
    size_t group = sizes[0] + sizes[1] + sizes[2], begin = 0;
    for (size_t part = 0; part < 3; begin += sizes[part++])
        for (size_t i = 0; i < n; i++, to += sizes[part]) memcpy(to, from + i * group + begin, sizes[part]);
}

/* CodeGen's parts hold q, v, k. */
static void regroup_codegen(unsigned char *to, const unsigned char *from, size_t n_bytes, size_t n_parts) {
    static const size_t places[3] = {0, 2, 1};
    size_t each = n_bytes / (3 * n_parts);
    for (size_t part = 0; part < 3; part++)
        for (size_t i = 0; i < n_parts; i++, to += each)
            memcpy(to, from + (3 * i + places[part]) * each, each);
}

/* Columns of each expert's [cols][2·rows] become rows, the even ones of the gate, the odd ones of up. */
static void part_columns(unsigned char *to, const Stored *from, size_t n_expert, size_t cols, size_t rows2) {
    size_t size = from->item_bytes, half = (size_t)from->n_bytes / 2;
    for (size_t e = 0; e < n_expert; e++)
        for (size_t row = 0; row < rows2; row++)
            for (size_t col = 0; col < cols; col++)
                memcpy(to + row % 2 * half + ((e * (rows2 / 2) + row / 2) * cols + col) * size,
                       from->data + ((e * cols + col) * rows2 + row) * size, size);
}

enum { BLOCK = 32, NIBBLES = BLOCK / 2, MXFP4_BYTES = 1 + NIBBLES };

/* A block: byte i has weights 2i and 2i + 1. ggml puts weights i and i + 16 into a byte, behind the scale. */
static void pack_mxfp4(unsigned char *to, const unsigned char *from, unsigned char scale) {
    *to++ = scale;
    for (unsigned i = 0; i < NIBBLES; i++) {
        unsigned low = from[i / 2] >> 4 * (i % 2) & 15, high = from[i / 2 + NIBBLES / 2] >> 4 * (i % 2) & 15;
        *to++ = (unsigned char)(low | high << 4);
    }
}

static void part_mxfp4(const Rearrangement *rearrangement) {
    const Stored *from = rearrangement->from;
    size_t n_blocks = (size_t)from->dims[1], n_rows = (size_t)(from->dims[2] * from->dims[3]),
           n = rearrangement->n_parts;
    for (size_t row = 0; row < n_rows; row++)
        for (size_t b = 0; b < n_blocks; b++) {
            size_t block = row * n_blocks + b, place = (row % n * (n_rows / n) + row / n) * n_blocks + b;
            pack_mxfp4(rearrangement->to + place * MXFP4_BYTES, from->data + block * NIBBLES,
                       rearrangement->scales->data[block]);
        }
}

/* Items [first, first + n) as floats, from whatever address. */
static void unpack(float *to, const Stored *from, size_t first, size_t n) {
    enum { SOME = 256 };
    _Alignas(4) unsigned char items[4 * SOME];
    for (size_t i = 0; i < n; i += SOME) {
        size_t m = n - i < SOME ? n - i : SOME;
        memcpy(items, from->data + (first + i) * from->item_bytes, m * from->item_bytes);
        dtype_unpack(to + i, from->dtype, items, m);
    }
}

static void change_numbers(float *to, const Stored *from, Arrangement arrangement) {
    size_t n = (size_t)from->n_bytes / from->item_bytes;
    unpack(to, from, 0, n);
    for (size_t i = 0; i < n; i++) to[i] = arrangement == ARRANGE_GAIN ? to[i] + 1 : -expf(to[i]);
}

/* Divides each row by its length, as PyTorch's normalize does: a row of zeros stays. */
static void make_unit(float *to, const Stored *from, size_t rows, size_t cols) {
    for (size_t row = 0; row < rows; row++, to += cols) {
        double sum = 0;
        unpack(to, from, row * cols, cols);
        for (size_t i = 0; i < cols; i++) sum += (double)to[i] * (double)to[i];
        double length = fmax(sqrt(sum), 1e-12);
        for (size_t i = 0; i < cols; i++) to[i] = (float)((double)to[i] / length);
    }
}

void rearrange(const Rearrangement *rearrangement) {
    const Stored *from = rearrangement->from;
    size_t rows = (size_t)from->dims[1], cols = (size_t)from->dims[0], n_expert = (size_t)from->dims[2],
           n_bytes = (size_t)from->n_bytes;
    switch (rearrangement->arrangement) {
    case ARRANGE_TRANSPOSE:
        for (size_t i = 0; i < n_expert; i++) {
            size_t place = i * (n_bytes / n_expert);
            if (from->item_bytes == 4)
                transpose(rearrangement->to + place, from->data + place, rows, cols, 4);
            else
                transpose(rearrangement->to + place, from->data + place, rows, cols, 2);
        }
        break;
    case ARRANGE_COLUMNS: /* biases are [n_expert][2·rows] */
        if (from->n_dims == 2)
            part_columns(rearrangement->to, from, rows, 1, cols);
        else
            part_columns(rearrangement->to, from, n_expert, rows, cols);
        break;
    case ARRANGE_MXFP4: part_mxfp4(rearrangement); break;
    case ARRANGE_QKV: {
        size_t head = n_bytes / (size_t)(rearrangement->n_head +
                                         2 * rearrangement->n_head_kv); /* bytes of one's rows */
        size_t queries = (size_t)(rearrangement->n_head / rearrangement->n_head_kv) * head;
        regroup(rearrangement->to, from->data, (size_t)rearrangement->n_head_kv,
                (const size_t[]){queries, head, head});
        break;
    }
    case ARRANGE_CODEGEN:
        regroup_codegen(rearrangement->to, from->data, n_bytes, rearrangement->n_parts);
        break;
    case ARRANGE_UNIT: make_unit((float *)(void *)rearrangement->to, from, rows, cols); break;
    case ARRANGE_GAIN:
    case ARRANGE_DECAY:
        change_numbers((float *)(void *)rearrangement->to, from, rearrangement->arrangement);
        break;
    default: memcpy(rearrangement->to, from->data, n_bytes);
    }
}
