/*
 * llm.c's files (github.com/karpathy/llm.c, train_gpt2.py's write_model and write_tokenizer), little-endian. Both begin
 * with 256 int32:
 *   model: magic 20240326, version 3 (F32) or 5 (BF16), positions, vocabulary, layers, heads, width, rows of the
 *     embedding, which is padded; then GPT-2's weights in a fixed order, each kind for all layers.
 *   vocabulary: magic 20240328, version 1 or 2, number of tokens, the token that ends a text (version 2); then for each
 *     token its length in a byte, and its bytes. As in GPT-2, 256 tokens of one byte come first, then what was merged, in
 *     the order of merging.
 */
#include "base/utf8.h"
#include "builder.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_HEADER = 256,
    MODEL_MAGIC = 20240326,
    TOKENIZER_MAGIC = 20240328,
    MAX_NUMBER = 1 << 24,
    MAX_LAYERS = 4096,
    N_BYTES = 256,
    MAX_TOKEN = 255, /* bytes of a token */
};

typedef struct LlmcHeader {
    int32_t magic, version, n_ctx, n_vocab, n_layer, n_head, d_model, n_rows;
} LlmcHeader;

/* The head of the header, of either file. */
static bool read_header(LlmcHeader *header, const unsigned char *bytes, size_t n, int32_t magic) {
    if (n < N_HEADER * sizeof(int32_t)) return false;
    memcpy(header, bytes, sizeof *header);
    atomic_signal_fence(memory_order_acquire); /* what is checked below is the copy */
    return header->magic == magic;
}

static bool recognise(const unsigned char *bytes, size_t n) {
    LlmcHeader header;
    return read_header(&header, bytes, n, MODEL_MAGIC);
}

static bool is_plausible(int32_t number) { return number > 0 && number <= MAX_NUMBER; }

/* A kind of weights, in the file's order: one tensor, or one for each layer. */
typedef struct LlmcKind {
    const char *name;
    uint64_t rows, cols; /* rows 0: a vector */
    uint64_t padding;    /* rows behind these, which are left out */
    bool in_layers;
} LlmcKind;

enum { N_KINDS = 16 };

static void list_kinds(const LlmcHeader *header, LlmcKind kinds[static N_KINDS]) {
    uint64_t d = (uint64_t)header->d_model, n = (uint64_t)header->n_vocab;
    const LlmcKind all[N_KINDS] = {
        {"token_embd.weight", n, d, (uint64_t)header->n_rows - n, false},
        {"position_embd.weight", (uint64_t)header->n_ctx, d, 0, false},
        {"attn_norm.weight", 0, d, 0, true},
        {"attn_norm.bias", 0, d, 0, true},
        {"attn_qkv.weight", 3 * d, d, 0, true},
        {"attn_qkv.bias", 0, 3 * d, 0, true},
        {"attn_output.weight", d, d, 0, true},
        {"attn_output.bias", 0, d, 0, true},
        {"ffn_norm.weight", 0, d, 0, true},
        {"ffn_norm.bias", 0, d, 0, true},
        {"ffn_up.weight", 4 * d, d, 0, true},
        {"ffn_up.bias", 0, 4 * d, 0, true},
        {"ffn_down.weight", d, 4 * d, 0, true},
        {"ffn_down.bias", 0, d, 0, true},
        {"output_norm.weight", 0, d, 0, false},
        {"output_norm.bias", 0, d, 0, false},
    };
    memcpy(kinds, all, sizeof all);
}

/* Numbers are at most 2^26, layers 2^12: no product of these overflows. */
static uint64_t kind_weights(const LlmcKind *kind) {
    return ((kind->rows ? kind->rows : 1) + kind->padding) * kind->cols;
}

static bool check_header(const Checkpoint *checkpoint, const LlmcHeader *header, Error *error) {
    const char *path = checkpoint->path;
    if (header->version != 3 && header->version != 5)
        return error_set(error,
                         "%s: an llm.c checkpoint of version %" PRId32 "; 3 (F32) and 5 (BF16) are read",
                         path, header->version);
    if (!is_plausible(header->n_ctx) || !is_plausible(header->n_vocab) || !is_plausible(header->n_head) ||
        !is_plausible(header->d_model) || !is_plausible(header->n_rows) || header->n_layer <= 0 ||
        header->n_layer > MAX_LAYERS || header->n_rows < header->n_vocab ||
        header->d_model % header->n_head != 0)
        return error_set(error,
                         "%s: an llm.c checkpoint that cannot be: %" PRId32 " positions, %" PRId32
                         " of %" PRId32 " tokens, %" PRId32 " layers, %" PRId32 " heads, width %" PRId32,
                         path, header->n_ctx, header->n_vocab, header->n_rows, header->n_layer,
                         header->n_head, header->d_model);
    return true;
}

static bool check_size(const Checkpoint *checkpoint, const LlmcHeader *header, const LlmcKind *kinds,
                       uint64_t item, Error *error) {
    uint64_t total = N_HEADER * sizeof(int32_t), n;
    bool fits = true;
    for (size_t i = 0; i < N_KINDS; i++)
        fits = fits &&
               multiply(kind_weights(&kinds[i]), item * (kinds[i].in_layers ? (uint64_t)header->n_layer : 1),
                        &n) &&
               add(total, n, &total);
    if (fits && total == checkpoint->files->n_bytes) return true;
    return error_set(error,
                     "%s: an llm.c checkpoint of its shapes has %" PRIu64 " bytes, the file %zu; is it cut?",
                     checkpoint->path, fits ? total : UINT64_MAX, checkpoint->files->n_bytes);
}

static void add_metadata(Builder *builder, const LlmcHeader *header) {
    builder_string(builder, "general.architecture", string_from("gpt2"));
    builder_u32(builder, ".context_length", (uint64_t)header->n_ctx);
    builder_u32(builder, ".embedding_length", (uint64_t)header->d_model);
    builder_u32(builder, ".feed_forward_length", 4 * (uint64_t)header->d_model);
    builder_u32(builder, ".block_count", (uint64_t)header->n_layer);
    builder_u32(builder, ".attention.head_count", (uint64_t)header->n_head);
    builder_f32(builder, ".attention.layer_norm_epsilon", 1e-5); /* fixed in llm.c's code */
}

static bool read(Checkpoint *checkpoint, Error *error) {
    LlmcHeader header;
    LlmcKind kinds[N_KINDS];
    if (!read_header(&header, checkpoint->files->bytes, checkpoint->files->n_bytes, MODEL_MAGIC))
        return refuse_changed(checkpoint->files, error);
    if (!check_header(checkpoint, &header, error)) return false;
    bool is_f32 = header.version == 3;
    uint64_t item = is_f32 ? 4 : 2;
    list_kinds(&header, kinds);
    if (!check_size(checkpoint, &header, kinds, item, error)) return false;
    Builder builder = {.checkpoint = checkpoint, .error = error, .architecture = "gpt2", .ok = true};
    checkpoint->format = is_f32 ? "llm.c version 3" : "llm.c version 5";
    add_metadata(&builder, &header);
    const unsigned char *at = checkpoint->files->bytes + N_HEADER * sizeof(int32_t);
    for (size_t i = 0; i < N_KINDS; i++)
        for (int32_t layer = 0; layer < (kinds[i].in_layers ? header.n_layer : 1); layer++) {
            uint64_t rows = kinds[i].rows ? kinds[i].rows : 1;
            Tensor tensor = {.dtype = is_f32 ? DTYPE_F32 : DTYPE_BF16,
                             .n_dims = kinds[i].rows ? 2 : 1,
                             .dims = {kinds[i].cols, rows, 1, 1},
                             .data = at,
                             .n_bytes = rows * kinds[i].cols * item};
            char prefix[24] = "";
            if (kinds[i].in_layers) snprintf(prefix, sizeof prefix, "blk.%" PRId32 ".", layer);
            builder_tensor(&builder, &tensor, "%s%s", prefix, kinds[i].name);
            at += kind_weights(&kinds[i]) * item;
        }
    return builder.ok;
}

const Format format_llmc = {recognise, read};

static bool recognise_tokenizer(const unsigned char *bytes, size_t n) {
    LlmcHeader header;
    return read_header(&header, bytes, n, TOKENIZER_MAGIC);
}

/* The tokens' bytes, and their ids by them: an open hash table, whose ids begin at 1 so that 0 is an empty place. */
typedef struct TokenIndex {
    String *texts; /* [n] */
    uint32_t *places;
    size_t n, mask;
} TokenIndex;

enum { MAX_PROBES = 256 /* as in vocab/vocab.c: a hostile file's texts may share their hash */ };

/* The id of these bytes, or SIZE_MAX; where it is, or would be, in *place, SIZE_MAX where nothing near is free. */
static size_t find_token(const TokenIndex *tokens, const char *text, size_t n, size_t *place) {
    const uint64_t hash = string_hash((String){text, n}, TEXT_HASH);
    *place = (size_t)(hash ^ hash >> 29) & tokens->mask;
    for (size_t probe = 0; probe < MAX_PROBES; probe++, *place = (*place + 1) & tokens->mask) {
        size_t id = tokens->places[*place];
        if (id == 0) return SIZE_MAX;
        if (tokens->texts[id - 1].n == n && memcmp(tokens->texts[id - 1].data, text, n) == 0) return id - 1;
    }
    *place = SIZE_MAX;
    return SIZE_MAX;
}

/*
 * The two parts that were merged last to make token `id`: its bytes, merged as long as tokens before it tell how, the
 * earliest of them first (Sennrich et al. 2016, arXiv:1508.07909). The bytes of the first part, or 0 if no two are left.
 */
static size_t split_token(const TokenIndex *tokens, size_t id) {
    unsigned char ends[MAX_TOKEN + 1] = {0}; /* of the parts, which are numbered from 1 */
    size_t pairs[MAX_TOKEN]; /* what parts i + 1 and i + 2 make; SIZE_MAX: nothing before this token */
    String text = tokens->texts[id];
    size_t n = text.n, place;
    for (size_t i = 0; i < n; i++) ends[i + 1] = (unsigned char)(i + 1);
    for (size_t i = 0; i + 1 < n; i++) pairs[i] = find_token(tokens, text.data + i, 2, &place);
    while (n > 2) {
        size_t best = id, at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            if (pairs[i] < best) best = pairs[i], at = i;
        if (best == id) return 0;
        memmove(ends + at + 1, ends + at + 2, n - at - 1);
        memmove(pairs + at, pairs + at + 1, (n - at - 2) * sizeof *pairs);
        n--;
        for (size_t i = at ? at - 1 : 0; i <= at && i + 1 < n; i++)
            pairs[i] = find_token(tokens, text.data + ends[i], (size_t)(ends[i + 2] - ends[i]), &place);
    }
    return ends[1];
}

/* A token's bytes as GPT-2's vocabulary shows them: printable ones of Latin-1 as they are, others from U+0100 on. */
static char *show_bytes(char *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned byte = (unsigned char)text[i], shown = byte;
        if (byte <= ' ')
            shown = 0x100 + byte;
        else if (byte >= 0x7f && byte <= 0xa0)
            shown = 0x100 + 33 + byte - 0x7f;
        else if (byte == 0xad)
            shown = 0x100 + 67;
        out += utf8_encode(shown, out);
    }
    return out;
}

/* Finishes a string of GGUF that began at `begin`, behind whose length its bytes are. */
static void end_string(char *begin, const char *end) {
    uint64_t n = (uint64_t)(end - begin) - sizeof n;
    memcpy(begin, &n, sizeof n);
}

/* Lists the tokens of a copy of the file; fails where it is cut, or a token occurs twice. */
static bool list_tokens(TokenIndex *tokens, const char *at, const char *end, const char *path, Error *error) {
    for (size_t id = 0; id < tokens->n; id++) {
        size_t n = at < end ? (unsigned char)*at : 0, place;
        if (at >= end || n > (size_t)(end - at - 1))
            return error_set(error, "%s: an llm.c vocabulary that ends inside token %zu; is it cut?", path,
                             id);
        tokens->texts[id] = (String){at + 1, n};
        if (n == 0 || find_token(tokens, at + 1, n, &place) != SIZE_MAX || (id < N_BYTES && n != 1))
            return error_set(error, "%s: token %zu of an llm.c vocabulary cannot be: %s", path, id,
                             n == 0   ? "it has no bytes"
                             : n == 1 ? "it occurs twice"
                                      : "it occurs twice, or is none of the 256 bytes");
        if (place == SIZE_MAX)
            return error_set(error, "%s: too many tokens of an llm.c vocabulary share a hash value", path);
        tokens->places[place] = (uint32_t)id + 1;
        at += n + 1;
    }
    return at == end || error_set(error, "%s: %zu bytes follow the last token", path, (size_t)(end - at));
}

/* Tokens and merges under GGUF's keys; the token `last` ends a text. */
static void add_vocabulary(Builder *builder, const TokenIndex *tokens, size_t last, size_t n_text) {
    size_t n_merges = 0;
    char *texts = builder_room(builder, 2 * n_text + tokens->n * sizeof(uint64_t) + STRING_PADDING),
         *out = texts,
         *merges = builder_room(builder, 2 * n_text + tokens->n * (sizeof(uint64_t) + 1) + STRING_PADDING),
         *merge = merges;
    int32_t *types = builder_room(builder, tokens->n * sizeof *types);
    for (size_t id = 0; builder->ok && id < tokens->n; id++) {
        String text = tokens->texts[id];
        char *begin = out;
        types[id] = id == last ? 3 : 1; /* control, normal */
        out = id == last ? (char *)memcpy(out + sizeof(uint64_t), text.data, text.n) + text.n
                         : show_bytes(out + sizeof(uint64_t), text.data, text.n);
        end_string(begin, out);
        size_t first = id < N_BYTES || id == last ? 0 : split_token(tokens, id);
        if (first == 0) continue;
        begin = merge;
        merge = show_bytes(merge + sizeof(uint64_t), text.data, first);
        *merge++ = ' ';
        merge = show_bytes(merge, text.data + first, text.n - first);
        end_string(begin, merge);
        n_merges++;
    }
    if (!builder->ok) return;
    builder_string(builder, "tokenizer.ggml.model", string_from("gpt2"));
    builder_string(builder, "tokenizer.ggml.pre", string_from("gpt-2"));
    builder_array(builder, "tokenizer.ggml.tokens", VALUE_STRING, tokens->n, texts, (size_t)(out - texts));
    builder_array(builder, "tokenizer.ggml.token_type", VALUE_I32, tokens->n, types,
                  tokens->n * sizeof *types);
    builder_array(builder, "tokenizer.ggml.merges", VALUE_STRING, n_merges, merges, (size_t)(merge - merges));
    builder_u32(builder, "tokenizer.ggml.bos_token_id", last);
    builder_u32(builder, "tokenizer.ggml.eos_token_id", last);
}

static bool read_tokenizer(Checkpoint *checkpoint, Error *error) {
    LlmcHeader header;
    const MappedFile *file = checkpoint->files;
    const char *path = checkpoint->path;
    if (!read_header(&header, file->bytes, file->n_bytes, TOKENIZER_MAGIC))
        return refuse_changed(file, error);
    size_t n_text = file->n_bytes - N_HEADER * sizeof(int32_t),
           n = (size_t)header.n_ctx; /* the third number */
    if (header.version != 1 && header.version != 2)
        return error_set(error, "%s: an llm.c vocabulary of version %" PRId32 "; 1 and 2 are read", path,
                         header.version);
    if (header.n_ctx <= N_BYTES || n > n_text / 2)
        return error_set(error, "%s: an llm.c vocabulary of %" PRId32 " tokens in %zu bytes; is it cut?",
                         path, header.n_ctx, n_text);
    size_t last = header.version == 2 && header.n_vocab >= 0 ? (size_t)header.n_vocab : n - 1, n_places = 1;
    if (last >= n)
        return error_set(error, "%s: the token that ends a text is %zu of %zu in this llm.c vocabulary", path,
                         last, n);
    while (n_places < 2 * n) n_places *= 2;
    checkpoint->format = "llm.c vocabulary";
    Builder builder = {.checkpoint = checkpoint, .error = error, .ok = true};
    char *copy = builder_room(&builder, n_text);
    TokenIndex tokens = {malloc(n * sizeof *tokens.texts), calloc(n_places, sizeof *tokens.places), n,
                         n_places - 1};
    bool ok = copy && ((tokens.texts && tokens.places) || error_set(error, "%s: not enough memory", path));
    if (ok) {
        memcpy(copy, file->bytes + N_HEADER * sizeof(int32_t), n_text);
        ok = list_tokens(&tokens, copy, copy + n_text, path, error);
    }
    if (ok) add_vocabulary(&builder, &tokens, last, n_text);
    free(tokens.texts);
    free(tokens.places);
    return ok && builder.ok;
}

const Format format_llmc_tokenizer = {recognise_tokenizer, read_tokenizer};
