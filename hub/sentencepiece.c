#include "sentencepiece.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* A field of a message (protobuf.dev, Encoding). */
typedef struct Field {
    uint64_t number, kind, value; /* what is no BYTES lies in value */
    String bytes;
} Field;

static bool take_varint(String *rest, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && rest->n > 0; shift += 7) {
        unsigned char byte = (unsigned char)*rest->data;
        rest->data++, rest->n--;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return shift < 63 || byte < 2;
    }
    return false;
}

/* Takes the first field off the rest of a message; false where there is none that is whole. */
static bool take_field(String *rest, Field *field) {
    uint64_t key, n;
    *field = (Field){0};
    if (!take_varint(rest, &key) || key < 8) return false;
    field->number = key >> 3, field->kind = key & 7;
    switch (field->kind) {
    case VARINT: return take_varint(rest, &field->value);
    case FIXED64: n = 8; break;
    case FIXED32: n = 4; break;
    case BYTES:
        if (take_varint(rest, &n)) break;
        return false;
    default: return false;
    }
    if (n > rest->n) return false;
    if (field->kind != BYTES) memcpy(&field->value, rest->data, (size_t)n);
    field->bytes = (String){rest->data, (size_t)n};
    rest->data += n, rest->n -= (size_t)n;
    return true;
}

static bool is(const Field *field, uint64_t number, uint64_t kind) {
    return field->number == number && field->kind == kind;
}

static bool malformed(Error *error) {
    return error_set(
        error, "not a SentencePiece model, or cut short (a pointer of Git-LFS? or tiktoken's file, which "
               "models of Llama 3 have under this name beside a tokenizer.json?)");
}

static bool read_piece(SentencePiece *model, String rest, Error *error) {
    Piece *piece = &model->pieces[model->n];
    Field field;
    *piece = (Piece){.text = {"", 0}, .type = PIECE_NORMAL};
    while (rest.n) {
        if (!take_field(&rest, &field)) return malformed(error);
        if (is(&field, 1, BYTES)) piece->text = field.bytes;
        if (is(&field, 2, FIXED32)) memcpy(&piece->score, &field.value, sizeof piece->score);
        if (is(&field, 3, VARINT))
            piece->type = field.value > 0 && field.value <= PIECE_BYTE ? (int32_t)field.value : 0;
    }
    if (piece->text.n == 0) return error_set(error, "piece %zu is empty", model->n);
    if (piece->type == 0) return error_set(error, "piece %zu is of a type that is not known", model->n);
    model->n++;
    return true;
}

static bool read_trainer(SentencePiece *model, String rest, Error *error) {
    Field field;
    while (rest.n) {
        if (!take_field(&rest, &field)) return malformed(error);
        if (is(&field, 3, VARINT)) model->model_type = field.value;
        if (is(&field, 24, VARINT)) model->suffixed = field.value != 0;
        if (is(&field, 46, BYTES)) model->bos = field.bytes;
        if (is(&field, 47, BYTES)) model->eos = field.bytes;
        if (is(&field, 48, BYTES)) model->pad = field.bytes;
    }
    return true;
}

static bool read_normalizer(SentencePiece *model, String rest, Error *error) {
    Field field;
    while (rest.n) {
        if (!take_field(&rest, &field)) return malformed(error);
        if (is(&field, 1, BYTES)) model->normalization = field.bytes;
        if (is(&field, 2, BYTES)) model->n_charsmap = field.bytes.n;
        if (is(&field, 3, VARINT)) model->add_dummy_prefix = field.value != 0;
        if (is(&field, 4, VARINT)) model->remove_extra_whitespaces = field.value != 0;
        if (is(&field, 5, VARINT)) model->escape_whitespaces = field.value != 0;
    }
    return true;
}

/* The fields of a ModelProto; without `model->pieces` only the number of pieces is counted. */
static bool read_model(SentencePiece *model, String rest, Error *error) {
    Field field;
    bool ok = true;
    for (model->n = 0; ok && rest.n;) {
        if (!take_field(&rest, &field)) return malformed(error);
        if (is(&field, 1, BYTES) && !model->pieces)
            model->n++;
        else if (is(&field, 1, BYTES))
            ok = read_piece(model, field.bytes, error);
        else if (is(&field, 2, BYTES))
            ok = read_trainer(model, field.bytes, error);
        else if (is(&field, 3, BYTES))
            ok = read_normalizer(model, field.bytes, error);
    }
    return ok;
}

bool sentencepiece_read(SentencePiece *model, const char *bytes, size_t n, Error *error) {
    *model = (SentencePiece){.model_type = 1, /* and other defaults of sentencepiece_model.proto */
                             .bos = {"<s>", 3},
                             .eos = {"</s>", 4},
                             .pad = {"<pad>", 5},
                             .normalization = {"", 0},
                             .add_dummy_prefix = true,
                             .remove_extra_whitespaces = true,
                             .escape_whitespaces = true};
    String all = {bytes, n};
    if (!read_model(model, all, error)) return false;
    if (model->n == 0) return malformed(error);
    model->pieces = malloc(model->n * sizeof *model->pieces);
    return model->pieces ? read_model(model, all, error)
                         : error_set(error, "not enough memory for its pieces");
}
