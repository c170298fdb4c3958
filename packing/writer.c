#include "packing/writer.h"

#include <string.h>

enum { VERSION = 3, TYPE_U32 = 4, TYPE_ARRAY = 9, QUANTIZATION_VERSION = 2, DEFAULT_ALIGNMENT = 32 };

static const char file_type_key[] = "general.file_type", version_key[] = "general.quantization_version";

bool writer_add(GgufWriter *writer, const void *bytes, size_t n) {
    writer->at += n;
    return fwrite(bytes, 1, n, writer->file) == n;
}

bool writer_pad(GgufWriter *writer) {
    static const char zeros[4096];
    uint64_t n = (writer->alignment - writer->at % writer->alignment) % writer->alignment;
    bool ok = true;
    for (; ok && n > sizeof zeros; n -= sizeof zeros) ok = writer_add(writer, zeros, sizeof zeros);
    return ok && writer_add(writer, zeros, (size_t)n);
}

static bool put_u32(GgufWriter *writer, uint32_t value) { return writer_add(writer, &value, sizeof value); }
static bool put_u64(GgufWriter *writer, uint64_t value) { return writer_add(writer, &value, sizeof value); }

static bool put_string(GgufWriter *writer, const char *text, size_t n) {
    return put_u64(writer, n) && writer_add(writer, text, n);
}

static bool put_number(GgufWriter *writer, const char *key, uint32_t value) {
    return put_string(writer, key, strlen(key)) && put_u32(writer, TYPE_U32) && put_u32(writer, value);
}

static bool put_value(GgufWriter *writer, const Value *value) {
    return put_string(writer, value->key.data, value->key.n) && put_u32(writer, value->type) &&
           (value->type != TYPE_ARRAY || (put_u32(writer, value->element) && put_u64(writer, value->n))) &&
           writer_add(writer, value->data, value->n_bytes);
}

/* Which keys of a file are carried over as they are. */
typedef enum Part {
    OF_MODEL,
    OF_MODEL_ALONE, /* whose vocabulary is another file's */
    OF_VOCABULARY,
} Part;

static bool is_carried(const Value *value, Part part) {
    if (string_begins(value->key, "tokenizer.")) return part != OF_MODEL_ALONE;
    return part != OF_VOCABULARY && !string_equals(value->key, file_type_key) &&
           !string_equals(value->key, version_key) && !string_begins(value->key, "split.");
}

static uint64_t count_carried(const Checkpoint *checkpoint, Part part) {
    uint64_t n = 0;
    for (size_t i = 0; checkpoint && i < checkpoint_n_values(checkpoint); i++) {
        Value value = checkpoint_value(checkpoint, i);
        n += is_carried(&value, part);
    }
    return n;
}

static bool put_metadata(GgufWriter *writer, const Checkpoint *checkpoint, Part part) {
    bool ok = true;
    for (size_t i = 0; checkpoint && ok && i < checkpoint_n_values(checkpoint); i++) {
        Value value = checkpoint_value(checkpoint, i);
        if (is_carried(&value, part)) ok = put_value(writer, &value);
    }
    return ok;
}

uint64_t writer_tensor_bytes(const Tensor *tensor, DType dtype) {
    const DTypeInfo *info = dtype_info(dtype);
    uint64_t n = 1;
    if (dtype == tensor->dtype) return tensor->n_bytes;
    for (uint32_t i = 0; i < tensor->n_dims; i++) n *= tensor->dims[i];
    return n / info->block * info->block_bytes;
}

static bool put_tensors(GgufWriter *writer, const Checkpoint *checkpoint, const DType *types) {
    uint64_t offset = 0;
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        if (!put_string(writer, tensor->name.data, tensor->name.n) || !put_u32(writer, tensor->n_dims) ||
            !writer_add(writer, tensor->dims, tensor->n_dims * sizeof *tensor->dims) ||
            !put_u32(writer, types[i]) || !put_u64(writer, offset))
            return false;
        uint64_t end = offset + writer_tensor_bytes(tensor, types[i]);
        offset = (end + writer->alignment - 1) / writer->alignment * writer->alignment;
    }
    return true;
}

bool writer_begin(GgufWriter *writer, FILE *file, const Checkpoint *checkpoint, const Checkpoint *vocabulary,
                  const DType *types, uint32_t file_type) {
    *writer = (GgufWriter){.file = file, .alignment = DEFAULT_ALIGNMENT};
    checkpoint_u64(checkpoint, "general.alignment", &writer->alignment, NULL); /* the reader has checked it */
    const Part part = vocabulary ? OF_MODEL_ALONE : OF_MODEL;
    uint64_t n_values = 2 + count_carried(checkpoint, part) + count_carried(vocabulary, OF_VOCABULARY);
    return writer_add(writer, "GGUF", 4) && put_u32(writer, VERSION) &&
           put_u64(writer, checkpoint_n_tensors(checkpoint)) && put_u64(writer, n_values) &&
           put_metadata(writer, checkpoint, part) && put_metadata(writer, vocabulary, OF_VOCABULARY) &&
           put_number(writer, version_key, QUANTIZATION_VERSION) &&
           put_number(writer, file_type_key, file_type) && put_tensors(writer, checkpoint, types) &&
           writer_pad(writer);
}
