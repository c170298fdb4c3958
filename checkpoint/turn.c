/* Weights that a folder has in another order than GGUF: each tensor is turned once, when it is opened. */
#include "hub.h"

#include "kernels/dtype.h"

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

/* CodeGen's four parts hold q, v, k. */
static void regroup_codegen(unsigned char *to, const unsigned char *from, size_t n_bytes) {
    enum { PARTS = 4 };
    static const size_t places[3] = {0, 2, 1};
    size_t each = n_bytes / (3 * PARTS);
    for (size_t part = 0; part < 3; part++)
        for (size_t i = 0; i < PARTS; i++, to += each) memcpy(to, from + (3 * i + places[part]) * each, each);
}

static void add_one(float *to, const Stored *from) {
    size_t n = (size_t)from->n_bytes / from->item_bytes;
    for (size_t i = 0; i < n; i++) {
        _Alignas(4) unsigned char item[4];
        memcpy(item, from->data + i * from->item_bytes, from->item_bytes);
        dtype_unpack(to + i, from->dtype, item, 1);
        to[i] += 1;
    }
}

void turn_run(const Turning *turning) {
    const Stored *from = turning->from;
    size_t rows = (size_t)from->dims[1], cols = (size_t)from->dims[0], n_bytes = (size_t)from->n_bytes;
    switch (turning->turn) {
    case TURN_TRANSPOSE:
        if (from->item_bytes == 4)
            transpose(turning->to, from->data, rows, cols, 4);
        else
            transpose(turning->to, from->data, rows, cols, 2);
        break;
    case TURN_QKV: {
        size_t head = n_bytes / (size_t)(turning->n_head + 2 * turning->n_head_kv); /* bytes of one's rows */
        size_t queries = (size_t)(turning->n_head / turning->n_head_kv) * head;
        regroup(turning->to, from->data, (size_t)turning->n_head_kv, (const size_t[]){queries, head, head});
        break;
    }
    case TURN_CODEGEN: regroup_codegen(turning->to, from->data, n_bytes); break;
    case TURN_GAIN: add_one((float *)(void *)turning->to, from); break;
    default: memcpy(turning->to, from->data, n_bytes);
    }
}
