#include "stored.h"

#include <stdlib.h>

/* The types that nothing here computes with are known by their sizes. */
static const struct {
    const char *name;
    unsigned bits; /* of a weight */
    bool is_known;
    DType dtype;
} types[] = {
    {"F32", 32, true, DTYPE_F32},   {"F16", 16, true, DTYPE_F16},   {"BF16", 16, true, DTYPE_BF16},
    {.name = "F64", .bits = 64},    {.name = "I64", .bits = 64},    {.name = "U64", .bits = 64},
    {.name = "I32", .bits = 32},    {.name = "U32", .bits = 32},    {.name = "I16", .bits = 16},
    {.name = "U16", .bits = 16},    {.name = "I8", .bits = 8},      {.name = "U8", .bits = 8},
    {.name = "BOOL", .bits = 8},    {.name = "F8_E4M3", .bits = 8}, {.name = "F8_E5M2", .bits = 8},
    {.name = "F8_E8M0", .bits = 8}, {.name = "F4", .bits = 4},      {.name = "C64", .bits = 64},
};

bool stored_room(StoredTensors *stored, size_t more) {
    Stored *tensors = realloc(stored->tensors, (stored->n + more + 1) * sizeof *tensors);
    if (tensors) stored->tensors = tensors;
    return tensors != NULL;
}

void stored_free(StoredTensors *stored) {
    for (size_t i = 0; i < stored->n_headers; i++) json_free(stored->headers[i]);
    free(stored->headers);
    free(stored->tensors);
}

unsigned stored_type(Stored *tensor) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!string_equals(tensor->type, types[i].name)) continue;
        tensor->dtype = types[i].dtype;
        tensor->item_bytes = types[i].is_known ? types[i].bits / 8 : 0;
        return types[i].bits;
    }
    return 0;
}

const char *stored_dimension(Stored *tensor, size_t i, uint64_t size, uint64_t *n_weights) {
    if (i == 0) {
        for (size_t k = 0; k < TENSOR_MAX_DIMS; k++) tensor->dims[k] = 1;
        tensor->n_dims = 1;
    }
    if (!multiply(*n_weights, size, n_weights)) return "has a shape that cannot be counted";
    if (size == 1) return NULL;
    if (i >= TENSOR_MAX_DIMS) { /* the patches of a picture; the text model has none */
        tensor->flaw = "has more than four dimensions";
        return NULL;
    }
    tensor->dims[i] = size;
    tensor->n_dims = (uint32_t)i + 1;
    return NULL;
}
