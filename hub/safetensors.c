/*
 * safetensors (github.com/huggingface/safetensors): uint64 length of the header, the header, the data.
 *
 *   {"__metadata__": {…}, "name": {"dtype": "F32", "shape": [rows, cols], "data_offsets": [begin, end]}, …}
 *
 * Offsets count from the end of the header. Every number is checked here: that a tensor has just the bytes that its
 * shape and type ask for, that they lie in the file, and that no two tensors share any.
 */
#include "safetensors.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static bool fail(const MappedFile *file, const Stored *tensor, const char *what, Error *error) {
    return error_set(error, "%s: tensor '%.*s' %s", file->path, string_shown(tensor->name), tensor->name.data,
                     what);
}

/* An integer ≥ 0 of the header. */
static bool to_unsigned(const Json *json, uint64_t *value) {
    int64_t number;
    if (!json_integer(json, &number) || number < 0) return false;
    *value = (uint64_t)number;
    return true;
}

/* Fills in dims; *n_weights is their product. */
static bool read_shape(Stored *tensor, const Json *shape, uint64_t *n_weights, const MappedFile *file,
                       Error *error) {
    const char *wrong =
        stored_dimension(tensor, 0, *n_weights = 1, n_weights); /* for a shape without sizes */
    for (size_t i = 0; i < shape->n && !wrong; i++) {
        uint64_t size;
        wrong = to_unsigned(&shape->items[shape->n - 1 - i], &size)
                    ? stored_dimension(tensor, i, size, n_weights)
                    : "has a shape that cannot be counted";
    }
    return !wrong || fail(file, tensor, wrong, error);
}

/* One member of the header; its data begins at `data`, of n_data bytes. */
static bool read_tensor(Stored *tensor, const Json *json, const unsigned char *data, size_t n_data,
                        const MappedFile *file, Error *error) {
    const Json *type = json_get(json, "dtype"), *shape = json_get(json, "shape"),
               *offsets = json_get(json, "data_offsets");
    uint64_t begin, end, n_weights, n_bits;
    tensor->type = json_string(type);
    if (!type || type->kind != JSON_TEXT || !shape || shape->kind != JSON_ARRAY || !offsets ||
        offsets->kind != JSON_ARRAY || offsets->n != 2 || !to_unsigned(&offsets->items[0], &begin) ||
        !to_unsigned(&offsets->items[1], &end))
        return fail(file, tensor, "lacks its dtype, shape or data_offsets", error);
    if (!read_shape(tensor, shape, &n_weights, file, error)) return false;
    if (begin > end || end > n_data)
        return error_set(error,
                         "%s: tensor '%.*s' lies at %" PRIu64 " to %" PRIu64
                         " of the file's %zu bytes of data; "
                         "is it cut?",
                         file->path, string_shown(tensor->name), tensor->name.data, begin, end, n_data);
    unsigned bits = stored_type(tensor);
    bool fits = !bits || (multiply(n_weights, bits, &n_bits) && n_bits % 8 == 0 && n_bits / 8 == end - begin);
    if (!fits)
        return error_set(error,
                         "%s: tensor '%.*s' of type %.*s has %" PRIu64 " bytes, which do not fit its shape",
                         file->path, string_shown(tensor->name), tensor->name.data,
                         string_shown(tensor->type), tensor->type.data, end - begin);
    tensor->data = data + begin;
    tensor->n_bytes = end - begin;
    return true;
}

static int compare_places(const void *a, const void *b) {
    const Stored *x = *(const Stored *const *)a, *y = *(const Stored *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes); /* those without bytes first */
}

static bool check_places(const Stored *tensors, size_t n, const MappedFile *file, Error *error) {
    const Stored **sorted = n ? malloc(n * sizeof *sorted) : NULL;
    bool ok = !n || sorted || error_set(error, "%s: not enough memory to index %zu tensors", file->path, n);
    for (size_t i = 0; sorted && i < n; i++) sorted[i] = &tensors[i];
    if (sorted) qsort(sorted, n, sizeof *sorted, compare_places);
    for (size_t i = 1; ok && i < n; i++)
        if (sorted[i - 1]->data + sorted[i - 1]->n_bytes > sorted[i]->data)
            ok = error_set(error, "%s: tensors '%.*s' and '%.*s' overlap", file->path,
                           string_shown(sorted[i - 1]->name), sorted[i - 1]->name.data,
                           string_shown(sorted[i]->name), sorted[i]->name.data);
    free(sorted);
    return ok;
}

/* The header as JSON, whose text it owns; *n is where the data begins. */
static Json *read_header(const MappedFile *file, size_t *n, Error *error) {
    uint64_t length = 0;
    Error why;
    if (file->n_bytes < sizeof length) {
        error_set(error, "%s: a safetensors file has more than %zu bytes", file->path, file->n_bytes);
        return NULL;
    }
    memcpy(&length, file->bytes, sizeof length);
    atomic_signal_fence(memory_order_acquire); /* the length that is checked is the one that is used */
    if (length > MAX_SAFETENSORS_HEADER || length > file->n_bytes - sizeof length) {
        error_set(error, "%s: no safetensors file, or cut: its header would have %" PRIu64 " bytes of %zu",
                  file->path, length, file->n_bytes);
        return NULL;
    }
    char *text = malloc((size_t)length + 1);
    if (!text) {
        error_set(error, "%s: not enough memory for its header", file->path);
        return NULL;
    }
    memcpy(text, file->bytes + sizeof length, (size_t)length);
    *n = sizeof length + (size_t)length;
    Json *json = json_take(text, (size_t)length, &why);
    if (!json) error_set(error, "%s: its header is no JSON: %s", file->path, why.message);
    if (json && json->kind != JSON_OBJECT) {
        error_set(error, "%s: its header is no JSON object", file->path);
        json_free(json);
        return NULL;
    }
    return json;
}

bool safetensors_read(StoredTensors *stored, const MappedFile *file, Error *error) {
    size_t n_header;
    Json **headers = realloc(stored->headers, (stored->n_headers + 1) * sizeof *headers);
    if (!headers) return error_set(error, "%s: not enough memory", file->path);
    stored->headers = headers;
    Json *header = read_header(file, &n_header, error);
    if (!header) return false;
    headers[stored->n_headers++] = header;
    if (!stored_room(stored, header->n))
        return error_set(error, "%s: not enough memory to index its tensors", file->path);
    Stored *tensors = stored->tensors;
    size_t first = stored->n;
    for (size_t i = 0; i < header->n; i++) {
        Stored *tensor = &tensors[stored->n];
        *tensor = (Stored){.name = json_key(header, i)};
        if (string_equals(tensor->name, "__metadata__")) continue;
        if (!read_tensor(tensor, json_item(header, i), file->bytes + n_header, file->n_bytes - n_header, file,
                         error))
            return false;
        stored->n++;
    }
    return check_places(tensors + first, stored->n - first, file, error);
}
