/*
 * llama2.c's two files (karpathy/llama2.c, export.py and tokenizer.py), neither of which has a magic:
 *
 *   model, version 0: seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len),
 *     then F32 weights in a fixed order, each kind for all layers; a negative vocab_size says that the
 *     classifier has weights of its own.
 *   vocabulary: uint32 longest piece, then for each token a float score, an int32 length, the bytes.
 *
 * Both are presented under the names that a GGUF file of a Llama model has.
 */
#include "builder.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    HEADER_BYTES = 28,
    MAX_NUMBER = 1 << 24,
    MAX_LAYERS = 4096,
};

typedef struct Llama2cHeader {
    int32_t dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len;
} Llama2cHeader;

static bool is_plausible(int32_t number) { return number > 0 && number <= MAX_NUMBER; }

/* Copies the header. Numbers of the right order make a model of it, so that a wrong one among them is named below. */
static bool read_header(Llama2cHeader *header, const unsigned char *bytes, size_t n) {
    if (n < HEADER_BYTES) return false;
    memcpy(header, bytes, sizeof *header);
    atomic_signal_fence(memory_order_acquire); /* what is checked below is the copy, whatever the compiler */
    int32_t n_vocab =
        header->vocab_size > -MAX_NUMBER && header->vocab_size < 0 ? -header->vocab_size : header->vocab_size;
    return is_plausible(header->dim) && is_plausible(header->hidden_dim) && is_plausible(header->n_layers) &&
           is_plausible(n_vocab) && is_plausible(header->seq_len) && header->n_heads >= 0 &&
           header->n_kv_heads >= 0 && header->n_heads <= MAX_NUMBER && header->n_kv_heads <= MAX_NUMBER;
}

static bool recognise(const unsigned char *bytes, size_t n) {
    Llama2cHeader header;
    return read_header(&header, bytes, n);
}

/* A kind of weights: one tensor, or one for each layer, all layers together. */
typedef struct Llama2cKind {
    const char *name;    /* NULL: skipped (the RoPE tables, which attn computes) */
    uint64_t rows, cols; /* rows 0: a vector */
    bool in_layers;
} Llama2cKind;

/* The kinds in the file's order; returns how many. */
static size_t list_kinds(const Llama2cHeader *header, Llama2cKind kinds[static 16]) {
    uint64_t d = (uint64_t)header->dim, d_ff = (uint64_t)header->hidden_dim,
             n_head = (uint64_t)header->n_heads;
    uint64_t d_head = d / n_head, d_kv = d_head * (uint64_t)header->n_kv_heads;
    uint64_t n_vocab = (uint64_t)(header->vocab_size < 0 ? -header->vocab_size : header->vocab_size);
    const Llama2cKind all[] = {
        {"token_embd.weight", n_vocab, d, false},
        {"attn_norm.weight", 0, d, true},
        {"attn_q.weight", d, d, true},
        {"attn_k.weight", d_kv, d, true},
        {"attn_v.weight", d_kv, d, true},
        {"attn_output.weight", d, d, true},
        {"ffn_norm.weight", 0, d, true},
        {"ffn_gate.weight", d_ff, d, true},
        {"ffn_down.weight", d, d_ff, true},
        {"ffn_up.weight", d_ff, d, true},
        {"output_norm.weight", 0, d, false},
        {NULL, (uint64_t)header->seq_len, d_head / 2 * 2, false},
        {"output.weight", n_vocab, d, false},
    };
    size_t n = sizeof all / sizeof *all - (header->vocab_size > 0);
    memcpy(kinds, all, n * sizeof *kinds);
    return n;
}

static bool check_header(const Checkpoint *checkpoint, const Llama2cHeader *header, Error *error) {
    const char *path = checkpoint->path;
    if (header->n_heads == 0 || header->n_kv_heads == 0)
        return error_set(error,
                         "%s: llama2.c header with n_heads %" PRId32 ", n_kv_heads %" PRId32
                         "; neither may be 0 (or this is no checkpoint)",
                         path, header->n_heads, header->n_kv_heads);
    if (header->n_layers > MAX_LAYERS)
        return error_set(error,
                         "%s: llama2.c header with %" PRId32
                         " layers; at most %d are read (or this is no checkpoint)",
                         path, header->n_layers, MAX_LAYERS);
    if (header->n_heads % header->n_kv_heads != 0)
        return error_set(error,
                         "%s: llama2.c header with n_heads %" PRId32 ", not divisible by n_kv_heads %" PRId32
                         " (or this is no checkpoint)",
                         path, header->n_heads, header->n_kv_heads);
    if (header->dim % header->n_heads != 0)
        return error_set(error,
                         "%s: llama2.c header with dim %" PRId32 ", not divisible by n_heads %" PRId32
                         " (or this is no checkpoint)",
                         path, header->dim, header->n_heads);
    return true;
}

/* Rows and columns are at most 2^24 (d_kv ≤ dim), layers 2^12: the bytes of a kind in all layers cannot overflow. */
static uint64_t kind_bytes(const Llama2cKind *kind) {
    return (kind->rows ? kind->rows : 1) * kind->cols * sizeof(float);
}

static bool check_size(const Checkpoint *checkpoint, const Llama2cHeader *header, const Llama2cKind *kinds,
                       size_t n_kinds, Error *error) {
    uint64_t total = HEADER_BYTES;
    bool fits = true;
    for (size_t i = 0; i < n_kinds; i++)
        fits =
            fits &&
            add(total, kind_bytes(&kinds[i]) * (kinds[i].in_layers ? (uint64_t)header->n_layers : 1), &total);
    if (!fits || total != checkpoint->files->n_bytes)
        return error_set(error,
                         "%s: a llama2.c checkpoint of these shapes (dim %" PRId32 ", %" PRId32 " layers, "
                         "vocabulary %" PRId32 ") has %" PRIu64
                         " bytes, the file %zu; is it cut, or no checkpoint?",
                         checkpoint->path, header->dim, header->n_layers, header->vocab_size,
                         fits ? total : UINT64_MAX, checkpoint->files->n_bytes);
    return true;
}

static void add_metadata(Builder *builder, const Llama2cHeader *header) {
    builder_string(builder, "general.architecture", string_from("llama"));
    builder_u32(builder, ".embedding_length", (uint64_t)header->dim);
    builder_u32(builder, ".feed_forward_length", (uint64_t)header->hidden_dim);
    builder_u32(builder, ".block_count", (uint64_t)header->n_layers);
    builder_u32(builder, ".attention.head_count", (uint64_t)header->n_heads);
    builder_u32(builder, ".attention.head_count_kv", (uint64_t)header->n_kv_heads);
    builder_u32(builder, ".context_length", (uint64_t)header->seq_len);
    builder_f32(builder, ".attention.layer_norm_rms_epsilon", 1e-5); /* fixed in llama2.c's code */
}

static void add_tensor(Builder *builder, const Llama2cKind *kind, unsigned layer, const unsigned char *data) {
    char prefix[24] = "";
    if (kind->in_layers) snprintf(prefix, sizeof prefix, "blk.%u.", layer);
    Tensor tensor = {.dtype = DTYPE_F32,
                     .n_dims = kind->rows ? 2 : 1,
                     .dims = {kind->cols, kind->rows ? kind->rows : 1, 1, 1},
                     .data = data,
                     .n_bytes = kind_bytes(kind)};
    builder_tensor(builder, &tensor, "%s%s", prefix, kind->name);
}

static bool read(Checkpoint *checkpoint, Error *error) {
    Llama2cHeader header;
    Llama2cKind kinds[16];
    if (!read_header(&header, checkpoint->files->bytes, checkpoint->files->n_bytes))
        return refuse_changed(checkpoint->files, error);
    if (!check_header(checkpoint, &header, error)) return false;
    size_t n_kinds = list_kinds(&header, kinds);
    if (!check_size(checkpoint, &header, kinds, n_kinds, error)) return false;

    /* The size fits, so that the file has at least one float for each tensor. */
    Builder builder = {.checkpoint = checkpoint, .error = error, .architecture = "llama", .ok = true};
    checkpoint->format = "llama2.c version 0";
    add_metadata(&builder, &header);
    const unsigned char *at = checkpoint->files->bytes + HEADER_BYTES;
    for (size_t i = 0; i < n_kinds; i++)
        for (unsigned layer = 0; layer < (kinds[i].in_layers ? (unsigned)header.n_layers : 1); layer++) {
            if (kinds[i].name) add_tensor(&builder, &kinds[i], layer, at);
            at += kind_bytes(&kinds[i]);
        }
    return builder.ok;
}

const Format format_llama2c = {recognise, read};

enum { N_BYTE_TOKENS = 256, FIRST_BYTE_TOKEN = 3 };

/* Its first token is always <unk>. */
static bool recognise_tokenizer(const unsigned char *bytes, size_t n) {
    return n >= 17 && memcmp(bytes + 8, "\5\0\0\0<unk>", 9) == 0;
}

/* The next token's score and piece at *at; false when the file ends inside it. */
static bool next_piece(const unsigned char **at, const unsigned char *end, float *score, String *piece) {
    int32_t n;
    if ((size_t)(end - *at) < sizeof *score + sizeof n) return false;
    memcpy(score, *at, sizeof *score);
    memcpy(&n, *at + sizeof *score, sizeof n);
    atomic_signal_fence(memory_order_acquire); /* the length that is checked is the one that is used */
    *at += sizeof *score + sizeof n;
    if (n < 0 || n > end - *at) return false;
    *piece = (String){(const char *)*at, (size_t)n};
    *at += n;
    return true;
}

/* The most that write_piece makes of a piece. */
static size_t piece_room(String piece) { return sizeof(uint64_t) + 3 * piece.n; }

/* Writes a piece as GGUF has it: length, then bytes, with ▁ for the space that llama2.c puts back. */
static unsigned char *write_piece(unsigned char *out, String piece) {
    bool is_padded = piece.n > 2 && piece.data[0] == '\n' && piece.data[1] == '<'; /* "\n<s>\n" */
    if (is_padded) piece = (String){piece.data + 1, piece.n - 2};
    unsigned char *at = out + sizeof(uint64_t);
    for (size_t i = 0; i < piece.n; i++)
        if (piece.data[i] == ' ')
            memcpy(at, "\xe2\x96\x81", 3), at += 3;
        else
            *at++ = (unsigned char)piece.data[i];
    uint64_t n = (uint64_t)(at - out) - sizeof n;
    memcpy(out, &n, sizeof n);
    return at;
}

/* 1 normal, 2 unknown, 3 control, 6 byte: the file does not say, but its exporter fixes the places. */
static int32_t token_type(size_t id) {
    if (id < FIRST_BYTE_TOKEN) return id == 0 ? 2 : 3;
    return id < FIRST_BYTE_TOKEN + N_BYTE_TOKENS ? 6 : 1;
}

static bool read_tokenizer(Checkpoint *checkpoint, Error *error) {
    const unsigned char *begin = checkpoint->files->bytes + sizeof(uint32_t),
                        *end = checkpoint->files->bytes + checkpoint->files->n_bytes;
    const unsigned char *at = begin;
    size_t n = 0, n_text = 0;
    float score;
    String piece;
    while (at < end) {
        if (!next_piece(&at, end, &score, &piece))
            return error_set(error, "%s: a llama2.c vocabulary that ends inside token %zu; is it cut?",
                             checkpoint->path, n);
        n++;
        n_text += piece_room(piece);
    }
    if (n < FIRST_BYTE_TOKEN + N_BYTE_TOKENS)
        return error_set(
            error,
            "%s: a llama2.c vocabulary of %zu tokens; the special and byte tokens alone are %d; is it cut?",
            checkpoint->path, n, FIRST_BYTE_TOKEN + N_BYTE_TOKENS);
    checkpoint->format = "llama2.c vocabulary";
    Builder builder = {.checkpoint = checkpoint, .error = error, .ok = true};
    unsigned char *owned =
        builder_room(&builder, n * (sizeof score + sizeof(int32_t)) + n_text + STRING_PADDING);
    if (!owned) return false;

    unsigned char *scores = owned, *types = owned + n * sizeof score, *text = types + n * sizeof(int32_t),
                  *out = text;
    at = begin;
    for (size_t id = 0; id < n; id++) {
        int32_t type = token_type(id);
        if (!next_piece(&at, end, &score, &piece) || piece_room(piece) > (size_t)(text + n_text - out))
            return refuse_changed(checkpoint->files, error);
        memcpy(scores + id * sizeof score, &score, sizeof score);
        memcpy(types + id * sizeof type, &type, sizeof type);
        out = write_piece(out, piece);
    }
    builder_string(&builder, "tokenizer.ggml.model", string_from("llama"));
    builder_array(&builder, "tokenizer.ggml.tokens", VALUE_STRING, n, text, (size_t)(out - text));
    builder_array(&builder, "tokenizer.ggml.scores", VALUE_F32, n, scores, n * sizeof score);
    builder_array(&builder, "tokenizer.ggml.token_type", VALUE_I32, n, types, n * sizeof(int32_t));
    return builder.ok;
}

const Format format_llama2c_tokenizer = {recognise_tokenizer, read_tokenizer};
