/*
 * The tokenizer against ids from other implementations: llama.cpp's test vectors for GPT-2's and Llama 2's
 * vocabularies (../shared/data), and tests/data/tokenizer, which scripts/tokenizer_cases.py makes. Then what
 * holds for any bytes, and vocabularies that must be refused.
 */
#include "text/unicode.h"
#include "tokenizer.h"

#include "test.h"

#include <unistd.h>

static const char gpt2[] = "tests/data/tokenizer/gpt2.gguf";
static const char llama3[] = "tests/data/tokenizer/llama3.gguf";
static const char sentencepiece[] = "tests/data/tokenizer/sentencepiece.gguf";

/* A tokenizer and the checkpoint that it borrows from. */
typedef struct Opened {
    Checkpoint *checkpoint;
    Tokenizer *tokenizer;
} Opened;

static Opened open_tokenizer(const char *path) {
    Error error = {{0}};
    Opened opened = {.checkpoint = checkpoint_open(path, &error)};
    if (opened.checkpoint) opened.tokenizer = tokenizer_new(opened.checkpoint, &error);
    CHECK(opened.tokenizer, "%s", error.message);
    return opened;
}

static void close_tokenizer(Opened opened) {
    tokenizer_free(opened.tokenizer);
    checkpoint_close(opened.checkpoint);
}

static char *read_file(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*n + 1);
    *n = fread(data, 1, *n, file);
    data[*n] = 0;
    fclose(file);
    return data;
}

static Tokens encode(const Tokenizer *tokenizer, const char *text, size_t n, unsigned flags) {
    Tokens tokens = {0};
    Error error = {{0}};
    CHECK(tokenizer_encode(tokenizer, text, n, flags, &tokens, &error), "%s", error.message);
    return tokens;
}

static TextBuffer decode(const Tokenizer *tokenizer, Tokens tokens, bool special) {
    TextBuffer out = {0};
    Detokenizer detokenizer = detokenizer_begin(tokenizer, special);
    for (size_t i = 0; i < tokens.n; i++)
        CHECK(detokenizer_push(&detokenizer, tokens.ids[i], &out), "out of memory");
    CHECK(detokenizer_end(&detokenizer, &out), "out of memory");
    return out;
}

/* Reads "1 2 3"; *end is after the last number. */
static Tokens parse_ids(const char *text, char **end) {
    Tokens tokens = {0};
    for (*end = (char *)(uintptr_t)text;; text = *end) {
        long id = strtol(text, end, 10);
        if (*end == text) return tokens;
        tokens_push(&tokens, (int32_t)id, NULL);
    }
}

static size_t parse_hex(const char *text, char *out, char **end) {
    size_t n = 0;
    unsigned byte;
    for (; sscanf(text, "%2x", &byte) == 1 && *text != ' '; text += 2) out[n++] = (char)byte;
    *end = (char *)(uintptr_t)text;
    return n;
}

static void check_ids(Tokens got, Tokens expected, const char *what) {
    bool same =
        got.n == expected.n && (!got.n || memcmp(got.ids, expected.ids, got.n * sizeof *got.ids) == 0);
    CHECK(same, "%s", what);
    for (size_t i = 0; !same && i < got.n; i++) printf(" %d", got.ids[i]);
    if (!same) printf(" given\n");
}

/* Checks every line of a file that scripts/tokenizer_cases.py describes. */
static void check_cases(const char *vocabulary, const char *cases) {
    Opened opened = open_tokenizer(vocabulary);
    size_t n, n_cases = 0;
    char *data = read_file(cases, &n);
    CHECK(data, "%s is missing", cases);
    for (char *line = data ? strtok(data, "\n") : NULL; line && opened.tokenizer; line = strtok(NULL, "\n")) {
        char *bytes = malloc(strlen(line)), *at;
        if (strncmp(line, "encode ", 7) == 0) {
            unsigned flags = (unsigned)strtoul(line + 7, &at, 10);
            size_t n_bytes = parse_hex(at + 1, bytes, &at);
            Tokens expected = parse_ids(strchr(at, ':') + 1, &at);
            Tokens got = encode(opened.tokenizer, bytes, n_bytes, flags);
            check_ids(got, expected, line);
            tokens_free(&got);
            tokens_free(&expected);
        } else {
            bool special = strtoul(line + 7, &at, 10);
            Tokens ids = parse_ids(at, &at);
            size_t n_bytes = parse_hex(strchr(at, ':') + 2, bytes, &at);
            TextBuffer got = decode(opened.tokenizer, ids, special);
            CHECK(got.n == n_bytes && (!n_bytes || memcmp(got.data, bytes, n_bytes) == 0), "%s", line);
            free(got.data);
            tokens_free(&ids);
        }
        free(bytes);
        n_cases++;
    }
    CHECK(n_cases > 100, "%s has %zu cases", cases, n_cases);
    free(data);
    close_tokenizer(opened);
}

static void test_cases_gpt2(void) { check_cases(gpt2, "tests/data/tokenizer/gpt2.cases"); }
static void test_cases_llama3(void) { check_cases(llama3, "tests/data/tokenizer/llama3.cases"); }
static void test_cases_sentencepiece(void) {
    check_cases(sentencepiece, "tests/data/tokenizer/sentencepiece.cases");
}

static void test_cases_llama2c(void) {
    const char *path = "../shared/data/llama2c/tok512.bin";
    if (access(path, R_OK) != 0) SKIP("%s is missing", path);
    check_cases(path, "tests/data/tokenizer/tok512.cases");
}

/* llama.cpp's vectors: texts, each closed by a line __ggml_vocab_test__, and a line of ids for each. */
static void check_vectors(const char *vocabulary, size_t n_expected) {
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[200];
    size_t n_texts, n_ids, n_cases = 0;
    snprintf(path, sizeof path, "%s.inp", vocabulary);
    char *texts = read_file(path, &n_texts);
    snprintf(path, sizeof path, "%s.out", vocabulary);
    char *ids = read_file(path, &n_ids);
    Opened opened = open_tokenizer(vocabulary);
    char *text = texts, *line = ids, *end;
    while (text && line && opened.tokenizer && (end = strstr(text, separator)) != NULL) {
        Tokens got = encode(opened.tokenizer, text, (size_t)(end - text), 0);
        char *next = strchr(line, '\n');
        CHECK(next, "fewer lines of ids than texts");
        if (!next) break;
        *next = 0;
        Tokens expected = parse_ids(line, &line);
        check_ids(got, expected, text);
        tokens_free(&got);
        tokens_free(&expected);
        text = end + strlen(separator);
        line = next + 1;
        n_cases++;
    }
    CHECK(n_cases == n_expected && text && !*text && line && !*line, "%zu cases, or something after them",
          n_cases);
    close_tokenizer(opened);
    free(texts);
    free(ids);
}

static void test_vectors_gpt2(void) {
    const char *path = "../shared/data/vocab/ggml-vocab-gpt-2.gguf";
    if (access(path, R_OK) != 0) SKIP("%s is missing", path);
    check_vectors(path, 46);
}

static void test_vectors_llama(void) {
    const char *path = "../shared/data/vocab/ggml-vocab-llama-spm.gguf";
    if (access(path, R_OK) != 0) SKIP("%s is missing", path);
    check_vectors(path, 46);
}

static void test_utf8(void) {
    for (uint32_t c = 0, decoded; c < 0x110000; c++) {
        char s[4];
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        s[0] = (char)(c < 0x80 ? c : (0xf00u >> n & 0xf0u) | c >> 6 * (n - 1));
        for (size_t i = 1; i < n; i++) s[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
        size_t length = utf8_decode(s, n, &decoded);
        bool surrogate = c >= 0xd800 && c < 0xe000;
        CHECK(surrogate ? length == 1 && decoded == UTF8_INVALID : length == n && decoded == c, "U+%04X", c);
        if (n > 1 && !surrogate)
            CHECK(utf8_decode(s, n - 1, &decoded) == n - 1 && decoded == UTF8_CUT, "U+%04X without its end",
                  c);
    }
}

/* Every byte string comes back: as joined pieces, and, where it is UTF-8, from the detokenizer. */
static void check_round_trip(const Tokenizer *tokenizer, const char *text, size_t n, const char *what) {
    Tokens tokens = encode(tokenizer, text, n, 0);
    TextBuffer pieces = {.data = malloc(n * 4 + 16)};
    for (size_t i = 0; i < tokens.n && pieces.n <= n; i++) {
        String piece = tokenizer_piece(tokenizer, tokens.ids[i], false);
        memcpy(pieces.data + pieces.n, piece.data, piece.n);
        pieces.n += piece.n;
    }
    size_t n_prefix =
        detokenizer_begin(tokenizer, false).at_start && n; /* the space that SentencePiece adds */
    CHECK(pieces.n == n_prefix + n && memcmp(pieces.data + n_prefix, text, n) == 0, "%s: %zu bytes from %zu",
          what, pieces.n, n);
    free(pieces.data);
    tokens_free(&tokens);
}

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void check_random_bytes(const char *path) {
    static const char common[] = "  ett'sS1\n\r.\xc3\xa9\xe2\x82\xf0\x9f\x98\x80\xff";
    Opened opened = open_tokenizer(path);
    uint64_t state = 1;
    for (int i = 0; opened.tokenizer && !test_broken && i < 3000; i++) {
        char text[64];
        size_t n = next_random(&state) % sizeof text;
        for (size_t k = 0; k < n; k++)
            text[k] = (char)(i % 2 ? next_random(&state)
                                   : (uint32_t)common[next_random(&state) % (sizeof common - 1)]);
        check_round_trip(opened.tokenizer, text, n, path);
    }
    close_tokenizer(opened);
}

static void test_random_bytes(void) {
    check_random_bytes(gpt2);
    check_random_bytes(llama3);
    check_random_bytes(sentencepiece);
}

/* A long run is one word of byte-level BPE, so this hangs if merging is quadratic. */
static void check_long_runs(const char *path) {
    static const char *const units[] = {"a",    " ",  "1",      "\n", "'", "the ", "\xf0\x9f\x98\x80",
                                        "\xff", "ab", "\t \r\n"};
    enum { N = 200000 };
    Opened opened = open_tokenizer(path);
    char *text = malloc(N);
    for (size_t u = 0; opened.tokenizer && u < sizeof units / sizeof *units; u++) {
        for (size_t i = 0, length = strlen(units[u]); i < N; i++) text[i] = units[u][i % length];
        check_round_trip(opened.tokenizer, text, N, units[u]);
    }
    free(text);
    close_tokenizer(opened);
}

static void test_long_runs(void) {
    check_long_runs(gpt2);
    check_long_runs(llama3);
    check_long_runs(sentencepiece);
}

/*
 * In a long text, remembered words must get the ids that each word gets in a text of its own. There are more
 * different words than are remembered, and some are longer than what is remembered. NULs are words that differ only
 * in length. Each run of letters and of NULs is a word to both patterns. To SentencePiece a space begins a word, and
 * it puts one in front of a text as well.
 */
static void check_words(const char *path, bool is_sentence) {
    enum { N_WORDS = 150000, LONGEST = 20 };
    Opened opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    char *text = malloc(N_WORDS * (LONGEST + 1));
    Tokens expected = {0};
    size_t n = 0;
    uint64_t state = 3;
    for (int i = 0; i < N_WORDS; i++) {
        char word[LONGEST + 1];
        size_t length = 1 + next_random(&state) % (next_random(&state) % LONGEST + 1);
        bool letters = is_sentence || i % 2;
        for (size_t k = 0; k < length; k++) word[k] = letters ? "etaoinsh"[next_random(&state) % 8] : 0;
        if (is_sentence && i) text[n++] = ' ';
        memcpy(text + n, word, length);
        n += length;
        Tokens alone = encode(opened.tokenizer, word, length, 0);
        for (size_t k = 0; k < alone.n; k++) tokens_push(&expected, alone.ids[k], NULL);
        tokens_free(&alone);
    }
    Tokens got = encode(opened.tokenizer, text, n, 0);
    CHECK(got.n == expected.n && memcmp(got.ids, expected.ids, got.n * sizeof *got.ids) == 0,
          "%s: %zu tokens, %zu word by word", path, got.n, expected.n);
    tokens_free(&got);
    tokens_free(&expected);
    free(text);
    close_tokenizer(opened);
}

static void test_words(void) {
    check_words(gpt2, false);
    check_words(llama3, false);
    check_words(sentencepiece, true);
}

static void test_detokenizer_holds_back(void) {
    static const char emoji[] = "\xf0\x9f\x98\x80";
    Opened opened = open_tokenizer(gpt2);
    if (!opened.tokenizer) return;
    Detokenizer detokenizer = detokenizer_begin(opened.tokenizer, false);
    TextBuffer out = {0};
    for (size_t i = 0; i < 4; i++) {
        Tokens byte = encode(opened.tokenizer, emoji + i, 1, 0);
        CHECK(byte.n == 1, "%zu tokens", byte.n);
        detokenizer_push(&detokenizer, byte.ids[0], &out);
        CHECK(out.n == (i == 3 ? 4 : 0), "%zu bytes after %zu", out.n, i + 1);
        if (i == 0) detokenizer_push(&detokenizer, -1, &out); /* ids that do not exist are nothing */
        tokens_free(&byte);
    }
    Tokens cut = encode(opened.tokenizer, emoji, 3, 0);
    for (size_t i = 0; i < cut.n; i++) detokenizer_push(&detokenizer, cut.ids[i], &out);
    CHECK(out.n == 4, "a character that is cut is held back");
    detokenizer_end(&detokenizer, &out);
    CHECK(out.n == 7 && memcmp(out.data, "\xf0\x9f\x98\x80\xef\xbf\xbd", 7) == 0, "%zu bytes", out.n);
    tokens_free(&cut);
    free(out.data);
    close_tokenizer(opened);
}

static void check_piece(const Tokenizer *tokenizer, int32_t id, bool special, const char *expected) {
    String piece = tokenizer_piece(tokenizer, id, special);
    CHECK(piece.n == strlen(expected) && memcmp(piece.data, expected, piece.n) == 0, "token %d: '%.*s'", id,
          (int)piece.n, piece.data);
}

static void test_pieces_and_ends(void) {
    Opened opened = open_tokenizer(sentencepiece); /* <unk> <s> </s> and 256 bytes come first */
    if (!opened.tokenizer) return;
    int32_t n = (int32_t)tokenizer_n_vocab(opened.tokenizer);
    CHECK(n == 483 && strcmp(tokenizer_kind(opened.tokenizer), "SentencePiece BPE") == 0, "%d", n);
    CHECK(tokenizer_bos(opened.tokenizer) == 1 && tokenizer_eos(opened.tokenizer) == 2,
          "llama.cpp's defaults");
    CHECK(tokenizer_adds_bos(opened.tokenizer), "the default");
    check_piece(opened.tokenizer, 0, false, "");
    check_piece(opened.tokenizer, 0, true, "<unk>");
    check_piece(opened.tokenizer, 1, false, "");
    check_piece(opened.tokenizer, 1, true, "<s>");
    check_piece(opened.tokenizer, 3 + 0x0a, false, "\n");
    check_piece(opened.tokenizer, 3 + 0xff, false, "\xff");
    check_piece(opened.tokenizer, n - 3, false, "<tag>");
    check_piece(opened.tokenizer, -1, true, "");
    check_piece(opened.tokenizer, n, true, "");
    int32_t ends[] = {1, 2, n - 1}, others[] = {0, 3, n - 2, -1, n};
    for (size_t i = 0; i < 3; i++) CHECK(tokenizer_is_end(opened.tokenizer, ends[i]), "token %d", ends[i]);
    for (size_t i = 0; i < 5; i++)
        CHECK(!tokenizer_is_end(opened.tokenizer, others[i]), "token %d", others[i]);
    close_tokenizer(opened);

    opened = open_tokenizer(llama3);
    if (!opened.tokenizer) return;
    CHECK(tokenizer_adds_bos(opened.tokenizer), "as the file says");
    CHECK(strcmp(tokenizer_kind(opened.tokenizer), "byte-level BPE (llama-bpe)") == 0, "kind");
    Tokens eot = encode(opened.tokenizer, "<|eot_id|>", 10, ENCODE_SPECIAL);
    CHECK(eot.n == 1 && tokenizer_is_end(opened.tokenizer, eot.ids[0]), "known by its name");
    tokens_free(&eot);
    close_tokenizer(opened);
}

/* Writes GGUF metadata, for vocabularies as small or as broken as a test wants them. */
typedef struct Writer {
    FILE *file;
    uint64_t n_entries;
} Writer;

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

static void put(Writer *writer, const void *data, size_t n) { fwrite(data, 1, n, writer->file); }
static void put_u32(Writer *writer, uint32_t value) { put(writer, &value, sizeof value); }
static void put_u64(Writer *writer, uint64_t value) { put(writer, &value, sizeof value); }

static void put_string(Writer *writer, const char *text) {
    put_u64(writer, strlen(text));
    put(writer, text, strlen(text));
}

static void put_key(Writer *writer, const char *key, uint32_t type) {
    char name[64];
    snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
    put_string(writer, name);
    put_u32(writer, type);
    writer->n_entries++;
}

static void add_string(Writer *writer, const char *key, const char *value) {
    put_key(writer, key, STRING);
    put_string(writer, value);
}

static void add_u32(Writer *writer, const char *key, uint32_t value) {
    put_key(writer, key, U32);
    put_u32(writer, value);
}

static void add_true(Writer *writer, const char *key) {
    put_key(writer, key, BOOL);
    put(writer, "\1", 1);
}

/* An array of the words of a text, which '|' separates; NULL: none. */
static void add_strings(Writer *writer, const char *key, const char *words) {
    uint64_t n = words != NULL;
    for (const char *c = words; c && *c; c++) n += *c == '|';
    put_key(writer, key, ARRAY);
    put_u32(writer, STRING);
    put_u64(writer, n);
    for (size_t length; n--; words += length + (n > 0)) {
        length = strcspn(words, "|");
        put_u64(writer, length);
        put(writer, words, length);
    }
}

/* An array of 32-bit numbers of that type. */
static void add_numbers(Writer *writer, const char *key, uint32_t type, const void *values, size_t n) {
    put_key(writer, key, ARRAY);
    put_u32(writer, type);
    put_u64(writer, n);
    put(writer, values, n * 4);
}

static Writer begin_file(char path[static 32]) {
    strcpy(path, "/tmp/attn-test-XXXXXX");
    Writer writer = {.file = fdopen(mkstemp(path), "wb")};
    put(&writer, "GGUF", 4);
    put_u32(&writer, 3);
    put_u64(&writer, 0); /* tensors */
    put_u64(&writer, 0); /* entries: finish_file */
    return writer;
}

static void finish_file(Writer *writer) {
    static const char padding[32] = {0};
    put(writer, padding, (size_t)(-ftell(writer->file) & 31));
    fseek(writer->file, 16, SEEK_SET);
    put_u64(writer, writer->n_entries);
    fclose(writer->file);
}

/* Ends the file. The tokenizer must refuse it, with an error that contains the words. */
static void check_refused(Writer *writer, const char *path, const char *words) {
    Error error = {{0}};
    finish_file(writer);
    Checkpoint *checkpoint = checkpoint_open(path, &error);
    CHECK(checkpoint, "%s", error.message);
    Tokenizer *tokenizer = checkpoint ? tokenizer_new(checkpoint, &error) : NULL;
    CHECK(!tokenizer && strstr(error.message, words), "expected '%s', got '%s'", words, error.message);
    tokenizer_free(tokenizer);
    checkpoint_close(checkpoint);
    unlink(path);
}

/* gpt2 with tokens and merges as given. */
static Writer begin_gpt2(char path[static 32], const char *tokens, const char *merges) {
    Writer writer = begin_file(path);
    add_string(&writer, "model", "gpt2");
    add_strings(&writer, "tokens", tokens);
    add_strings(&writer, "merges", merges);
    return writer;
}

static void test_refuses_models(void) {
    char path[32];
    Writer writer = begin_file(path);
    check_refused(&writer, path, "tokenizer.ggml.model is missing");
    writer = begin_file(path);
    add_string(&writer, "model", "bert");
    check_refused(&writer, path, "'bert' is not supported");
    writer = begin_file(path);
    add_u32(&writer, "model", 1);
    check_refused(&writer, path, "tokenizer.ggml.model");
    writer = begin_gpt2(path, "a|b", "a b");
    add_string(&writer, "pre", "qwen3000");
    check_refused(&writer, path, "'qwen3000' is not supported");
    writer = begin_gpt2(path, "a|b", "a b");
    add_u32(&writer, "pre", 1);
    check_refused(&writer, path, "tokenizer.ggml.pre' is of type uint32, expected string");
}

static void test_refuses_tokens(void) {
    static const int32_t types[] = {1, 1, 7};
    char path[32];
    Writer writer = begin_file(path);
    add_string(&writer, "model", "gpt2");
    check_refused(&writer, path, "tokenizer.ggml.tokens");
    writer = begin_gpt2(path, NULL, NULL);
    check_refused(&writer, path, "tokenizer.ggml.tokens");
    writer = begin_file(path);
    add_string(&writer, "model", "gpt2");
    add_numbers(&writer, "tokens", I32, types, 3);
    check_refused(&writer, path, "tokenizer.ggml.tokens");
    for (size_t n = 2; n <= 3; n++) { /* too few, then one that is no type */
        writer = begin_gpt2(path, "a|b|ab", "a b");
        add_numbers(&writer, "token_type", I32, types, n);
        check_refused(&writer, path, "tokenizer.ggml.token_type");
    }
    writer = begin_gpt2(path, "a|b|ab", "a b");
    add_numbers(&writer, "token_type", F32, types, 3);
    check_refused(&writer, path, "tokenizer.ggml.token_type");
}

static void test_refuses_merges(void) {
    static const char *const merges[] = {"",      "a",   " ",   "a ",  " b",   "a  b", "ab",
                                         "a b c", "a c", "c a", "b a", "a b|", "ab b", "a b|b a"};
    char path[32];
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        Writer writer = begin_gpt2(path, "a|b|ab", merges[i]);
        check_refused(&writer, path, "tokenizer.ggml.merges");
    }
    Writer writer = begin_file(path);
    add_string(&writer, "model", "gpt2");
    add_strings(&writer, "tokens", "a|b");
    check_refused(&writer, path, "tokenizer.ggml.merges is missing");
}

static void test_refuses_scores(void) {
    static const float scores[] = {0, 0, 0, NAN};
    char path[32];
    Writer writer = begin_file(path);
    add_string(&writer, "model", "llama");
    add_strings(&writer, "tokens", "a|b|c|d");
    check_refused(&writer, path, "tokenizer.ggml.scores is missing");
    for (size_t n = 3; n <= 4; n++) { /* too few, then one that is no number */
        writer = begin_file(path);
        add_string(&writer, "model", "llama");
        add_strings(&writer, "tokens", "a|b|c|d");
        add_numbers(&writer, "scores", F32, scores, n);
        check_refused(&writer, path, "tokenizer.ggml.scores");
    }
    static const int32_t byte_type[] = {6};
    writer = begin_file(path);
    add_string(&writer, "model", "llama");
    add_strings(&writer, "tokens", "<0xG0>");
    add_numbers(&writer, "scores", F32, scores, 1);
    add_numbers(&writer, "token_type", I32, byte_type, 1);
    check_refused(&writer, path, "'<0xG0>'");
}

static void test_refuses_ids(void) {
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "eot_token_id", "unknown_token_id"};
    char path[32];
    for (size_t i = 0; i < 4; i++) {
        Writer writer = begin_gpt2(path, "a|b|ab", "a b");
        add_u32(&writer, keys[i], i % 2 ? 3 : UINT32_MAX);
        check_refused(&writer, path, keys[i]);
        writer = begin_gpt2(path, "a|b|ab", "a b");
        add_string(&writer, keys[i], "0");
        check_refused(&writer, path, keys[i]);
    }
    Writer writer = begin_gpt2(path, "a|b|ab", "a b");
    add_true(&writer, "add_bos_token");
    check_refused(&writer, path, "tokenizer.ggml.bos_token_id is missing");
    writer = begin_gpt2(path, "a|b|ab", "a b");
    add_true(&writer, "add_eos_token");
    check_refused(&writer, path, "tokenizer.ggml.eos_token_id is missing");
    static const char *const switches[] = {"add_bos_token", "add_eos_token", "add_space_prefix"};
    for (size_t i = 0; i < 3; i++) {
        writer = begin_gpt2(path, "a|b|ab", "a b");
        add_string(&writer, switches[i], "true");
        check_refused(&writer, path, switches[i]);
    }
}

/* SentencePiece's vocabulary has no <s> where its ids are missing and token 1 is: no BOS is put in front. */
static void test_no_bos(void) {
    static const float scores[] = {0};
    char path[32];
    Writer writer = begin_file(path);
    add_string(&writer, "model", "llama");
    add_strings(&writer, "tokens", "a");
    add_numbers(&writer, "scores", F32, scores, 1);
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    CHECK(tokenizer_bos(opened.tokenizer) == -1 && tokenizer_eos(opened.tokenizer) == -1, "no such tokens");
    CHECK(!tokenizer_adds_bos(opened.tokenizer), "nothing to add");
    close_tokenizer(opened);
    unlink(path);

    /* A file that gives the ends of a turn and of a text. */
    writer = begin_gpt2(path, "a|b|c", NULL);
    add_u32(&writer, "eot_token_id", 1);
    add_u32(&writer, "eos_token_id", 2);
    add_true(&writer, "add_space_prefix");
    finish_file(&writer);
    opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    for (int32_t id = 0; id < 3; id++)
        CHECK(tokenizer_is_end(opened.tokenizer, id) == (id > 0), "token %d", id);
    Tokens tokens = encode(opened.tokenizer, "ab", 2, ENCODE_ENDS);
    CHECK(tokens.n == 2 && tokens.ids[0] == 0, "bytes get no space in front: %zu tokens", tokens.n);
    tokens_free(&tokens);
    close_tokenizer(opened);
    unlink(path);
}

/* Tokens without text are no text: neither found, nor special, nor shown. */
static void test_empty_tokens(void) {
    static const int32_t types[] = {1, 3, 4, 1, 3};
    char path[32];
    Writer writer = begin_gpt2(path, "|||a|<x>", NULL);
    add_numbers(&writer, "token_type", I32, types, 5);
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    static const int32_t expected[] = {3, 4, 3};
    Tokens tokens = encode(opened.tokenizer, "a<x>a", 5, ENCODE_SPECIAL);
    check_ids(tokens, (Tokens){(int32_t *)(uintptr_t)expected, 3, 3}, "a, <x>, a");
    tokens_free(&tokens);
    for (int32_t id = 0; id < 3; id++) check_piece(opened.tokenizer, id, true, "");
    close_tokenizer(opened);
    unlink(path);
}

/* Llama 3 takes a whole word before it merges; a control token of the same name is not that word. */
static void test_whole_words(void) {
    for (int32_t type = 1; type <= 3; type += 2) {
        char path[32];
        const int32_t types[] = {1, 1, type};
        Writer writer = begin_gpt2(path, "a|b|ab", NULL);
        add_string(&writer, "pre", "llama-bpe");
        add_numbers(&writer, "token_type", I32, types, 3);
        finish_file(&writer);
        Opened opened = open_tokenizer(path);
        if (!opened.tokenizer) return;
        static const int32_t expected[] = {0, 1, 2};
        Tokens tokens = encode(opened.tokenizer, "ab", 2, 0);
        if (type == 1)
            check_ids(tokens, (Tokens){(int32_t *)(uintptr_t)expected + 2, 1, 1}, "ab");
        else
            check_ids(tokens, (Tokens){(int32_t *)(uintptr_t)expected, 2, 2}, "a, b");
        tokens_free(&tokens);
        close_tokenizer(opened);
        unlink(path);
    }
}

/* A vocabulary without some bytes: text that needs one gives no tokens, but an error that names the byte. */
static void test_missing_bytes(void) {
    char path[32];
    Error error = {{0}};
    Tokens tokens = {0};
    Writer writer = begin_gpt2(path, "a|b|ab", "a b");
    add_u32(&writer, "eos_token_id", 1);
    add_true(&writer, "add_eos_token");
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    CHECK(tokenizer_encode(opened.tokenizer, "aab", 3, ENCODE_ENDS, &tokens, &error), "%s", error.message);
    CHECK(tokens.n == 3 && tokens.ids[0] == 0 && tokens.ids[1] == 2 && tokens.ids[2] == 1, "a, ab, EOS");
    CHECK(!tokenizer_encode(opened.tokenizer, "ab.c", 4, 0, &tokens, &error), "no token for '.'");
    CHECK(strstr(error.message, "0x2e") && tokens.n == 3, "%s", error.message);
    tokens_free(&tokens);
    close_tokenizer(opened);
    unlink(path);

    /* SentencePiece has a token for what is unknown, by default the first. Without types, names mark bytes. */
    static const float scores[] = {0, 0, 0, 0, 0, -1};
    writer = begin_file(path);
    add_string(&writer, "model", "llama");
    add_strings(&writer, "tokens", "?|<0x61>|_|a|<0xC3>|_a");
    add_numbers(&writer, "scores", F32, scores, 6);
    finish_file(&writer);
    opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    CHECK(tokenizer_encode(opened.tokenizer, "_aa\xc3\xc3\xa9", 6, 0, &tokens, &error), "%s", error.message);
    static const int32_t expected[] = {0, 5, 3, 4, 0}; /* the space in front and é are unknown */
    check_ids(tokens, (Tokens){(int32_t *)(uintptr_t)expected, 5, 5}, "?, _a, a, a byte, ?");
    tokens_free(&tokens);
    close_tokenizer(opened);
    unlink(path);
}

/* GPT-2 spells a soft hyphen U+0143, so U+00AD stands for itself, with all of its word. */
static void test_soft_hyphen(void) {
    char path[32];
    Writer writer = begin_gpt2(path, "\xc2\xad|\xc4\xa0\xc2\xad|\xc5\x83", NULL);
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    check_piece(opened.tokenizer, 0, false, "\xc2\xad");
    check_piece(opened.tokenizer, 1, false, "\xc4\xa0\xc2\xad");
    check_piece(opened.tokenizer, 2, false, "\xad");
    close_tokenizer(opened);
    unlink(path);
}

/* How GPT-2 spells a byte, as UTF-8: its table written out (encoder.py, bytes_to_unicode). */
static size_t spell_byte(unsigned byte, char *out) {
    unsigned n_before = 0; /* lower bytes that are not spelt as themselves */
    bool is_itself = false;
    for (unsigned b = 0; b <= byte; b++) {
        is_itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b < byte) n_before += !is_itself;
    }
    unsigned c = is_itself ? byte : 256 + n_before;
    if (c < 0x80) {
        *out = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

/* Tokens of every length and of all bytes, mostly letters. What is not such a spelling stands for itself. */
static void test_spelling(void) {
    enum { N = 2000, LONGEST = 20 };
    static const char *const strangers[] = {
        "visible then\xc5\x84", "eight by\xc4\xa0", "eight\177by\xc4\xa0", "eight\377by\xc4\xa0", "\xc4",
        "\xe2\x96\x81tower"};
    enum { N_STRANGERS = sizeof strangers / sizeof *strangers };
    char path[32], (*texts)[LONGEST] = malloc(N * sizeof *texts);
    char *spelt = malloc(N * (2 * LONGEST + 1) + 200), *at = spelt;
    size_t *lengths = malloc(N * sizeof *lengths);
    uint64_t state = 4;
    for (size_t i = 0; i < N; i++) {
        lengths[i] = 1 + next_random(&state) % LONGEST;
        for (size_t k = 0; k < lengths[i]; k++) {
            unsigned byte = next_random(&state) % 256;
            if (i % 4 && byte % 8) byte = (unsigned char)"etaoinsh"[byte % 8];
            if (byte == '|') byte = ' '; /* separates the tokens in add_strings */
            texts[i][k] = (char)byte;
            at += spell_byte(byte, at);
        }
        *at++ = '|';
    }
    for (size_t i = 0; i < N_STRANGERS; i++) at += sprintf(at, "%s%s", i ? "|" : "", strangers[i]);
    Writer writer = begin_gpt2(path, spelt, NULL);
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    for (size_t i = 0; opened.tokenizer && i < N; i++) {
        String piece = tokenizer_piece(opened.tokenizer, (int32_t)i, false);
        CHECK(piece.n == lengths[i] && memcmp(piece.data, texts[i], piece.n) == 0, "token %zu", i);
    }
    for (int i = 0; opened.tokenizer && i < N_STRANGERS; i++)
        check_piece(opened.tokenizer, N + i, false, strangers[i]);
    close_tokenizer(opened);
    unlink(path);
    free(lengths);
    free(spelt);
    free(texts);
}

/*
 * Merges whose results are not neighbouring tokens, and a text that two tokens have: the first of them
 * counts, even if the second comes right after the previous result.
 */
static void test_merge_order(void) {
    char path[32];
    Writer writer = begin_gpt2(path, "a|b|c|abc|ab|abc|ca", "a b|ab c|c a");
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    static const int32_t expected[] = {4, 0, 3, 6}; /* ab, a; then abc, ca */
    Tokens tokens = encode(opened.tokenizer, "aba", 3, 0);
    check_ids(tokens, (Tokens){(int32_t *)(uintptr_t)expected, 2, 2}, "ab, a");
    tokens_free(&tokens);
    tokens = encode(opened.tokenizer, "abcca", 5, 0);
    check_ids(tokens, (Tokens){(int32_t *)(uintptr_t)expected + 2, 2, 2}, "abc, ca");
    tokens_free(&tokens);
    close_tokenizer(opened);
    unlink(path);
}

/* "abc" with scores for ab and bc: the higher one merges, the left one if they are equal. */
static void check_scores(float ab, float bc, bool left_first) {
    const float scores[] = {0, 0, 0, ab, bc};
    char path[32];
    Writer writer = begin_file(path);
    add_string(&writer, "model", "llama");
    add_strings(&writer, "tokens", "a|b|c|ab|bc");
    add_numbers(&writer, "scores", F32, scores, 5);
    put_key(&writer, "add_space_prefix", BOOL);
    put(&writer, "", 1);
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    Tokens tokens = encode(opened.tokenizer, "abc", 3, 0);
    CHECK(tokens.n == 2 && tokens.ids[0] == (left_first ? 3 : 0), "scores %g and %g", (double)ab, (double)bc);
    tokens_free(&tokens);
    close_tokenizer(opened);
    unlink(path);
}

static void test_scores(void) {
    check_scores(1, 2, false);
    check_scores(2, 1, true);
    check_scores(-1, -2, true);
    check_scores(-2, -1, false);
    check_scores(-1, 1e-30f, false);
    check_scores(3, INFINITY, false);
    check_scores(-INFINITY, -1e30f, false);
    check_scores(-7, -7, true);
    check_scores(0.0f, -0.0f, true);
    check_scores(-0.0f, 0.0f, true);
}

static uint64_t mix(uint64_t x) {
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
}

enum { MAX_PROBES = 256 }; /* of text/vocab.c, whose hash functions these are */

/* Whether a hash has the first place in a table of up to 300 entries. */
static bool is_first(uint64_t hash) { return hash >> 32 < UINT32_MAX / 600; }

/* Writes `n` texts of two characters of four bytes, all with the first place, '|' between them. */
static void write_colliding(char *at, size_t n) {
    for (uint32_t c = 0; n > 0; c++) {
        char bytes[8] = "\xf0\x9f....";
        uint64_t word;
        memcpy(bytes + 4, "\xf0\x9f", 2);
        for (int i = 0; i < 4; i++) bytes[i < 2 ? 2 + i : 4 + i] = (char)(0x80 | (c >> 6 * i & 63));
        memcpy(&word, bytes, 8);
        if (!is_first(mix(mix(8 ^ word)))) continue;
        memcpy(at, bytes, 8);
        at[8] = --n ? '|' : '\0';
        at += 9;
    }
}

static Writer begin_colliding(char path[static 32], const char *texts, size_t n) {
    static const float scores[MAX_PROBES + 1];
    static char tokens[(MAX_PROBES + 2) * 9];
    memcpy(tokens, texts, 9 * n);
    tokens[9 * n - 1] = '\0';
    Writer writer = begin_file(path);
    add_string(&writer, "model", "llama");
    add_strings(&writer, "tokens", tokens);
    add_numbers(&writer, "scores", F32, scores, n);
    return writer;
}

/* As many texts of one place as are looked at are found, and what would be one more is not; with it, the file is refused. */
static void test_colliding_texts(void) {
    static char texts[(MAX_PROBES + 1) * 9];
    char path[32];
    write_colliding(texts, MAX_PROBES + 1);
    Writer writer = begin_colliding(path, texts, MAX_PROBES);
    put_key(&writer, "add_space_prefix", BOOL);
    put(&writer, "", 1);
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    for (int32_t id = 0; opened.tokenizer && id <= MAX_PROBES; id++) {
        Tokens tokens = encode(opened.tokenizer, texts + 9 * id, 8, 0);
        if (id < MAX_PROBES)
            CHECK(tokens.n == 1 && tokens.ids[0] == id, "token %d", id);
        else
            CHECK(tokens.n == 2 && tokens.ids[0] == 0 && tokens.ids[1] == 0, "two unknown characters");
        tokens_free(&tokens);
    }
    close_tokenizer(opened);
    unlink(path);
    writer = begin_colliding(path, texts, MAX_PROBES + 1);
    check_refused(&writer, path, "tokenizer.ggml.tokens: too many texts share a hash value");
}

/* Header and tables of several hundred kilobytes lie in huge pages. */
static void test_many_tokens(void) {
    enum { N = 60000 };
    char path[32], *tokens = malloc(N * 5), *at = tokens;
    for (int i = 0; i < N; i++, at += 5) {
        for (int k = 0, rest = i; k < 4; k++, rest /= 26) at[k] = (char)('a' + rest % 26);
        at[4] = '|';
    }
    at[-1] = '\0';
    Writer writer = begin_gpt2(path, tokens, NULL);
    add_string(&writer, "pre", "llama-bpe");
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    for (int i = 0; opened.tokenizer && !test_broken && i < N; i++) {
        Tokens got = encode(opened.tokenizer, tokens + (ptrdiff_t)5 * i, 4, 0);
        CHECK(got.n == 1 && got.ids[0] == i, "token %d", i);
        tokens_free(&got);
    }
    close_tokenizer(opened);
    unlink(path);
    free(tokens);
}

/* A merge whose part is no token is never met: the part would have to be made first, or is a byte that has no token. */
static void test_unmet_merges(void) {
    char path[32];
    Error error = {{0}};
    Writer writer = begin_gpt2(path, "a|b|ab|az|abzz", "a z|a b|ab zz");
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    if (!opened.tokenizer) return;
    static const int32_t expected[] = {2, 0};
    Tokens tokens = encode(opened.tokenizer, "aba", 3, 0);
    check_ids(tokens, (Tokens){(int32_t *)(uintptr_t)expected, 2, 2}, "ab, a");
    CHECK(!tokenizer_encode(opened.tokenizer, "abzz", 4, 0, &tokens, &error), "no token for 'z'");
    CHECK(strstr(error.message, "0x7a"), "%s", error.message);
    tokens_free(&tokens);
    close_tokenizer(opened);
    unlink(path);
}

/* The first line that merges these two texts, from 1; 0: none does. */
static size_t merge_order(char (*merges)[8], size_t n, const char *left, size_t n_left, const char *right,
                          size_t n_right) {
    for (size_t i = 0; i < n; i++)
        if (strlen(merges[i]) == n_left + 1 + n_right && strncmp(merges[i], left, n_left) == 0 &&
            merges[i][n_left] == ' ' && strncmp(merges[i] + n_left + 1, right, n_right) == 0)
            return i + 1;
    return 0;
}

/* Merges text[0, n), by the definition: again and again the pair whose line comes first, of equals the leftmost. */
static size_t merge_plainly(char (*merges)[8], size_t n_merges, const char *text, size_t n, size_t *lengths) {
    for (size_t i = 0; i < n; i++) lengths[i] = 1;
    for (;;) {
        size_t best = 0, at = 0, start = 0;
        for (size_t i = 0; i + 1 < n; start += lengths[i++]) {
            const char *left = text + start;
            size_t order = merge_order(merges, n_merges, left, lengths[i], left + lengths[i], lengths[i + 1]);
            if (order && (!best || order < best)) best = order, at = i;
        }
        if (!best) return n;
        lengths[at] += lengths[at + 1];
        n--;
        memmove(lengths + at + 1, lengths + at + 2, (n - at - 1) * sizeof *lengths);
    }
}

/* Tokens of up to 6 letters, made in several ways, in any order, some of them listed again. */
static void test_merges_at_random(void) {
    enum { N_TOKENS = 2 + 4 + 8 + 16 + 32 + 64, N_MERGES = 150, N_TEXT = 40 };
    char texts[N_TOKENS][8], merges[N_MERGES][8], tokens[N_TOKENS * 8] = "", lines[N_MERGES * 8] = "";
    uint64_t state = 6;
    for (int round = 0; round < 40 && !test_broken; round++) {
        char path[32];
        size_t n = 0;
        *tokens = *lines = '\0';
        for (size_t length = 1; length <= 6; length++)
            for (unsigned bits = 0; bits < 1u << length; bits++, n++) {
                for (size_t i = 0; i < length; i++) texts[n][i] = "ab"[bits >> i & 1];
                texts[n][length] = '\0';
            }
        for (size_t i = n - 1; i > 0; i--) { /* shuffles */
            char swap[8];
            size_t j = next_random(&state) % (i + 1);
            memcpy(swap, texts[i], 8), memcpy(texts[i], texts[j], 8), memcpy(texts[j], swap, 8);
        }
        for (size_t i = 0; i < n; i++) strcat(strcat(tokens, i ? "|" : ""), texts[i]);
        for (size_t i = 0; i < N_MERGES; i++) {
            const char *token = texts[next_random(&state) % n];
            while (strlen(token) < 2) token = texts[next_random(&state) % n];
            size_t left = 1 + next_random(&state) % (strlen(token) - 1);
            snprintf(merges[i], 8, "%.*s %s", (int)left, token, token + left);
            strcat(strcat(lines, i ? "|" : ""), merges[i]);
        }
        Writer writer = begin_gpt2(path, tokens, lines);
        finish_file(&writer);
        Opened opened = open_tokenizer(path);
        for (int i = 0; opened.tokenizer && i < 20; i++) {
            char text[N_TEXT + 1] = {0};
            size_t lengths[N_TEXT], n_text = 1 + next_random(&state) % N_TEXT, at = 0;
            for (size_t k = 0; k < n_text; k++) text[k] = "ab"[next_random(&state) % 2];
            size_t n_expected = merge_plainly(merges, N_MERGES, text, n_text, lengths);
            Tokens got = encode(opened.tokenizer, text, n_text, 0);
            CHECK(got.n == n_expected, "'%s': %zu tokens, expected %zu", text, got.n, n_expected);
            for (size_t k = 0; k < got.n && !test_broken; at += lengths[k++])
                CHECK(strlen(texts[got.ids[k]]) == lengths[k] &&
                          strncmp(texts[got.ids[k]], text + at, lengths[k]) == 0,
                      "'%s': token %zu is '%s'", text, k, texts[got.ids[k]]);
            tokens_free(&got);
        }
        close_tokenizer(opened);
        unlink(path);
    }
}

/* Special tokens that begin alike, against the definition: leftmost, and there the longest. */
static void test_specials(void) {
    static const char *const texts[] = {"a",   "b",  "c",   "ab",   "aba", "abab", "ababa",
                                        "bba", "bb", "aab", "aabb", "abb", "bb"};
    static const int32_t types[] = {1, 1, 1, 3, 4, 3, 3, 3, 4, 4, 3, 3, 3};
    char path[32];
    Writer writer = begin_gpt2(path, "a|b|c|ab|aba|abab|ababa|bba|bb|aab|aabb|abb|bb", NULL);
    add_numbers(&writer, "token_type", I32, types, 13);
    finish_file(&writer);
    Opened opened = open_tokenizer(path);
    uint64_t state = 2;
    for (int i = 0; opened.tokenizer && !test_broken && i < 2000; i++) {
        char text[24] = {0};
        size_t n = next_random(&state) % sizeof text;
        for (size_t k = 0; k < n; k++) text[k] = "abc"[next_random(&state) % 3];
        unsigned flags = i % 2 ? ENCODE_SPECIAL : 0;
        Tokens expected = {0};
        for (size_t at = 0, length; at < n; at += length) {
            int32_t best = text[at] - 'a';
            length = 1;
            for (int32_t id = 3; id < 13; id++)
                if ((flags || types[id] == 4) && strlen(texts[id]) > length && strlen(texts[id]) <= n - at &&
                    strncmp(text + at, texts[id], strlen(texts[id])) == 0)
                    best = id, length = strlen(texts[id]);
            tokens_push(&expected, best, NULL);
        }
        Tokens got = encode(opened.tokenizer, text, n, flags);
        check_ids(got, expected, text);
        tokens_free(&got);
        tokens_free(&expected);
    }
    close_tokenizer(opened);
    unlink(path);
}

int main(void) {
    RUN(test_utf8);
    RUN(test_cases_gpt2);
    RUN(test_cases_llama3);
    RUN(test_cases_sentencepiece);
    RUN(test_cases_llama2c);
    RUN(test_vectors_gpt2);
    RUN(test_vectors_llama);
    RUN(test_random_bytes);
    RUN(test_long_runs);
    RUN(test_words);
    RUN(test_detokenizer_holds_back);
    RUN(test_pieces_and_ends);
    RUN(test_refuses_models);
    RUN(test_refuses_tokens);
    RUN(test_refuses_merges);
    RUN(test_refuses_scores);
    RUN(test_refuses_ids);
    RUN(test_no_bos);
    RUN(test_empty_tokens);
    RUN(test_whole_words);
    RUN(test_soft_hyphen);
    RUN(test_spelling);
    RUN(test_merge_order);
    RUN(test_missing_bytes);
    RUN(test_scores);
    RUN(test_colliding_texts);
    RUN(test_many_tokens);
    RUN(test_unmet_merges);
    RUN(test_merges_at_random);
    RUN(test_specials);
    return test_end();
}
