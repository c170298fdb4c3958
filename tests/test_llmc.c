/* llm.c's two files: where each weight lies, merges that its vocabulary does not tell, and what is refused. */
#include "checkpoint/checkpoint.h"
#include "gguf.h"
#include "open.h"
#include "test.h"

#include <inttypes.h>
#include <unistd.h>

enum { N_CTX = 5, N_VOCAB = 7, N_LAYER = 2, N_HEAD = 2, D = 4, N_ROWS = 8, MAX_FILE = 1 << 20 };

static Error error;
static unsigned char *bytes; /* [MAX_FILE] */

/* A model whose weights count from 0. Returns its size; there are item bytes to a weight. */
static size_t write_model(int32_t version, size_t item) {
    int32_t header[256] = {20240326, version, N_CTX, N_VOCAB, N_LAYER, N_HEAD, D, N_ROWS};
    size_t n = N_ROWS * D + N_CTX * D + N_LAYER * (4 * D + 12 * D * D + 9 * D) + 2 * D;
    memcpy(bytes, header, sizeof header);
    for (size_t i = 0; i < n; i++) {
        float value = (float)i;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        if (item == 2) bits >>= 16; /* BF16; only some of these numbers are exact */
        memcpy(bytes + 1024 + i * item, &bits, item);
    }
    scratch_write(bytes, 1024 + n * item);
    return 1024 + n * item;
}

static void test_model(void) {
    static const struct {
        const char *name;
        uint64_t cols, rows;
        size_t first; /* weight */
    } tensors[] = {
        {"token_embd.weight", D, N_VOCAB, 0},     {"position_embd.weight", D, N_CTX, 32},
        {"blk.0.attn_norm.weight", D, 1, 52},     {"blk.1.attn_norm.weight", D, 1, 56},
        {"blk.0.attn_norm.bias", D, 1, 60},       {"blk.0.attn_qkv.weight", D, 3 * D, 68},
        {"blk.1.attn_qkv.weight", D, 3 * D, 116}, {"blk.0.attn_qkv.bias", 3 * D, 1, 164},
        {"blk.0.attn_output.weight", D, D, 188},  {"blk.1.attn_output.bias", D, 1, 224},
        {"blk.0.ffn_norm.weight", D, 1, 228},     {"blk.0.ffn_norm.bias", D, 1, 236},
        {"blk.0.ffn_up.weight", D, 4 * D, 244},   {"blk.0.ffn_up.bias", 4 * D, 1, 372},
        {"blk.0.ffn_down.weight", 4 * D, D, 404}, {"blk.1.ffn_down.bias", D, 1, 536},
        {"output_norm.weight", D, 1, 540},        {"output_norm.bias", D, 1, 544},
    };
    for (size_t item = 2; item <= 4; item += 2) {
        write_model(item == 4 ? 3 : 5, item);
        Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
        CHECK(checkpoint, "%s", error.message);
        if (!checkpoint) continue;
        CHECK(checkpoint_n_tensors(checkpoint) == 4 + 12 * N_LAYER, "%zu tensors",
              checkpoint_n_tensors(checkpoint));
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
            const Tensor *tensor = checkpoint_find(checkpoint, tensors[i].name);
            CHECK(tensor && tensor->dims[0] == tensors[i].cols && tensor->dims[1] == tensors[i].rows &&
                      tensor->dtype == (item == 4 ? DTYPE_F32 : DTYPE_BF16) &&
                      tensor->n_bytes == tensors[i].cols * tensors[i].rows * item &&
                      memcmp(tensor->data, bytes + 1024 + tensors[i].first * item, (size_t)tensor->n_bytes) ==
                          0,
                  "%s", tensors[i].name);
        }
        uint64_t n_head = 0;
        CHECK(checkpoint_u64(checkpoint, "gpt2.attention.head_count", &n_head, &error) && n_head == N_HEAD,
              "heads");
        checkpoint_close(checkpoint);
    }
}

static void refuse(const char *says) {
    Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
    CHECK(!checkpoint && strstr(error.message, says), "'%s' does not say '%s'", error.message, says);
    checkpoint_close(checkpoint);
}

static void test_refused_models(void) {
    static const struct {
        size_t place; /* in the header */
        int32_t value;
        const char *says;
    } wrong[] = {{1, 4, "of version 4; 3 (F32) and 5 (BF16) are read"},
                 {2, 0, "cannot be: 0 positions"},
                 {3, 9, "cannot be: 5 positions, 9 of 8 tokens"},
                 {3, 0, "0 of 8 tokens"},
                 {4, 0, "0 layers"},
                 {5, 0, "0 heads"},
                 {4, 1 << 20, "cannot be"},
                 {5, 3, "3 heads, width 4"},
                 {6, -4, "cannot be"},
                 {7, 1 << 25, "cannot be"},
                 {4, 3, "has 3024 bytes, the file 3216; is it cut?"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t n = write_model(3, 4);
        memcpy(bytes + 4 * wrong[i].place, &wrong[i].value, 4);
        scratch_write(bytes, n);
        if (wrong[i].place != 4 || wrong[i].value != 3) {
            refuse(wrong[i].says);
            continue;
        }
        char says[80];
        snprintf(says, sizeof says, "has %zu bytes, the file %zu; is it cut?", n + 4 * (12 * D * D + 13 * D),
                 n);
        refuse(says);
    }
    size_t n = write_model(5, 2);
    for (size_t cut = 1024; cut < n; cut += 97) {
        scratch_write(bytes, cut);
        refuse("is it cut?");
    }
}

/* The byte that GPT-2's vocabulary shows as this character, or -1: those that are not printable begin at U+0100. */
static int byte_of(unsigned shown) {
    unsigned n = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        if (printable ? shown == byte : shown == 256 + n++) return (int)byte;
    }
    return -1;
}

/* Writes a GGUF's vocabulary as llm.c does, and compares what is read back with it. */
static void check_vocabulary(const char *path, int32_t version) {
    Checkpoint *gguf = checkpoint_open(path, &error), *read = NULL;
    StringArray tokens = {0}, others = {0};
    uint64_t last = 0;
    if (!gguf || !checkpoint_strings(gguf, "tokenizer.ggml.tokens", &tokens, &error))
        SKIP("%s", error.message);
    checkpoint_u64(gguf, "tokenizer.ggml.eos_token_id", &last, &error);
    int32_t header[256] = {20240328, version, (int32_t)tokens.n, version == 2 ? (int32_t)last : 0};
    size_t at = sizeof header, n_tokens = tokens.n;
    memcpy(bytes, header, sizeof header);
    for (size_t id = 0; tokens.n; id++) {
        String text = string_array_take(&tokens);
        size_t n = 0;
        for (size_t i = 0; i < text.n; i++) {
            unsigned c = (unsigned char)text.data[i];
            if (c >= 0x80) c = (c & 0x1f) << 6 | (text.data[++i] & 0x3f);
            bytes[at + 1 + n++] = id == last ? (unsigned char)c : (unsigned char)byte_of(c);
        }
        bytes[at] = (unsigned char)n;
        at += n + 1;
    }
    scratch_write(bytes, at);
    read = checkpoint_open(scratch_path(), &error);
    CHECK(read, "%s", error.message);
    for (size_t k = 0; read && k < 2; k++) {
        const char *key = k ? "tokenizer.ggml.merges" : "tokenizer.ggml.tokens";
        checkpoint_strings(gguf, key, &tokens, &error);
        checkpoint_strings(read, key, &others, &error);
        CHECK(tokens.n == others.n && tokens.n > 100, "%s: %zu, not %zu", key, others.n, tokens.n);
        size_t n_wrong = 0;
        while (tokens.n && others.n)
            n_wrong += string_compare(string_array_take(&tokens), string_array_take(&others)) != 0;
        CHECK(n_wrong == 0, "%s: %zu differ", key, n_wrong);
    }
    uint64_t eos = 0;
    CHECK(read && checkpoint_u64(read, "tokenizer.ggml.eos_token_id", &eos, &error) && eos == last &&
              last + 1 == n_tokens,
          "the last token");
    checkpoint_close(read);
    for (size_t cut = 1024; cut < at; cut += at / 50) {
        scratch_write(bytes, cut);
        refuse("is it cut?");
    }
    bytes[at] = 0;
    scratch_write(bytes, at + 1);
    refuse("1 bytes follow the last token");
    checkpoint_close(gguf);
}

static void test_vocabulary(void) { check_vocabulary("weights/model.gguf", 2); }
static void test_gpt2s_vocabulary(void) { check_vocabulary("../shared/data/vocab/ggml-vocab-gpt-2.gguf", 1); }

/* The 256 bytes, and tokens of these texts behind them, n in all, as a vocabulary of this version whose last token is `last`. */
static void write_vocabulary(int32_t version, int32_t n, int32_t last, const char *const *texts,
                             size_t n_texts) {
    int32_t header[256] = {20240328, version, n, last};
    size_t at = sizeof header;
    memcpy(bytes, header, sizeof header);
    for (size_t byte = 0; byte < 256; byte++) bytes[at++] = 1, bytes[at++] = (unsigned char)byte;
    for (size_t i = 0; i < n_texts; i++) {
        bytes[at++] = (unsigned char)strlen(texts[i]);
        memcpy(bytes + at, texts[i], strlen(texts[i]));
        at += strlen(texts[i]);
    }
    scratch_write(bytes, at);
}

static void test_refused_vocabularies(void) {
    static const struct {
        int32_t version, n, last;
        const char *text, *says;
    } wrong[] = {
        {3, 257, 256, "ab", "an llm.c vocabulary of version 3; 1 and 2 are read"},
        {2, 256, 255, "ab", "of 256 tokens in 515 bytes; is it cut?"},
        {2, -1, 0, "ab", "of -1 tokens in 515 bytes; is it cut?"},
        {2, 999, 0, "ab", "of 999 tokens in 515 bytes; is it cut?"},
        {2, 257, 257, "ab", "the token that ends a text is 257 of 257 in this llm.c vocabulary"},
        {2, 257, 256, "a", "token 256 of an llm.c vocabulary cannot be: it occurs twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_vocabulary(wrong[i].version, wrong[i].n, wrong[i].last, &wrong[i].text, 1);
        refuse(wrong[i].says);
    }
    static const char *const twice[] = {"ab", "ab"}, *const empty[] = {"", "abcd"};
    write_vocabulary(2, 258, 257, empty, 2);
    refuse("token 256 of an llm.c vocabulary cannot be: it has no bytes");
    write_vocabulary(2, 258, 257, twice, 2);
    refuse("token 257 of an llm.c vocabulary cannot be: it occurs twice, or is none of the 256 bytes");
    write_vocabulary(1, 257, 256, twice, 1);
    bytes[1024] = 2; /* the first token takes the next one's length */
    scratch_write(bytes, 1024 + 512 + 3);
    refuse("token 0 of an llm.c vocabulary cannot be: it occurs twice, or is none of the 256 bytes");
}

/* A token that no merges make has none; a length below 0 of the last token means the last of all. */
static void test_unmerged(void) {
    static const char *const texts[] = {"ab", "xyz", "abc", "<end>"};
    Checkpoint *read = NULL;
    StringArray merges = {0};
    uint64_t eos = 0;
    write_vocabulary(2, 260, -1, texts, 4);
    read = checkpoint_open(scratch_path(), &error);
    CHECK(read && checkpoint_strings(read, "tokenizer.ggml.merges", &merges, &error) && merges.n == 2,
          "%zu merges", merges.n);
    CHECK(merges.n == 2 && string_equals(string_array_take(&merges), "a b") &&
              string_equals(string_array_take(&merges), "ab c"),
          "other merges");
    CHECK(read && checkpoint_u64(read, "tokenizer.ggml.eos_token_id", &eos, &error) && eos == 259, "%d",
          (int)eos);
    checkpoint_close(read);
}

/* Tokens whose hashes (FNV-1a, folded) begin at one place: a file of some KB is refused, and one of MB takes no hours. */
static void test_shared_hashes(void) {
    enum { N = 300, PLACES = 2048 /* of 556 tokens */ };
    static char room[N][4];
    const char *texts[N];
    size_t n = 0;
    for (uint32_t i = 0; n < N && i < 128 * 128 * 128; i++) {
        const char text[4] = {(char)(i >> 14 | 1), (char)(i >> 7 & 127), (char)(i & 127), 0};
        uint64_t hash = 0xcbf29ce484222325u;
        for (size_t k = 0; k < 3; k++) hash = (hash ^ (unsigned char)text[k]) * 0x100000001b3u;
        if (strlen(text) == 3 && ((hash ^ hash >> 29) & (PLACES - 1)) == 7 && (i >> 14 & 1))
            texts[n] = memcpy(room[n], text, 4), n++;
    }
    CHECK(n == N, "%zu texts", n);
    write_vocabulary(2, 256 + (int32_t)n, 256, texts, n);
    refuse("too many tokens of an llm.c vocabulary share a hash value");
}

int main(void) {
    scratch_begin();
    bytes = calloc(1, MAX_FILE);
    if (!bytes) return 1;
    RUN(test_model);
    RUN(test_refused_models);
    RUN(test_refused_vocabularies);
    RUN(test_unmerged);
    RUN(test_shared_hashes);
    RUN(test_vocabulary);
    RUN(test_gpt2s_vocabulary);
    free(bytes);
    scratch_end();
    return test_end();
}
