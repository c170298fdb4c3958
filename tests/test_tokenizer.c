/*
 * The tokenizer against ids from other implementations: llama.cpp's test vectors for GPT-2's and Llama 2's
 * vocabularies (../shared/data), and tests/data/tokenizer, which scripts/expect/tokenizer_cases.py makes. Then what
 * holds for any bytes.
 */
#include "base/utf8.h"

#include "tokenizers.h"

static const char gpt2[] = "tests/data/tokenizer/gpt2.gguf";
static const char llama3[] = "tests/data/tokenizer/llama3.gguf";
static const char sentencepiece[] = "tests/data/tokenizer/sentencepiece.gguf";

/* Checks every line of a file that scripts/expect/tokenizer_cases.py describes. */
static void check_cases(const char *vocabulary, const char *cases) {
    Opened opened = open_tokenizer(vocabulary);
    size_t n, n_cases = 0;
    char *data = read_whole(cases, &n);
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

/* scripts/expect/tokenizer_folders.py: tokenizer.model by SentencePiece, vocab.json and merges.txt by the plain loop. */
static void test_cases_folders(void) {
    check_cases("tests/data/tokenizer/folders/fallback", "tests/data/tokenizer/folders/fallback.cases");
    check_cases("tests/data/tokenizer/folders/plain", "tests/data/tokenizer/folders/plain.cases");
    check_cases("tests/data/tokenizer/folders/bytes", "tests/data/tokenizer/folders/bytes.cases");
}

static void test_cases_llama2c(void) {
    const char *path = "../shared/data/llama2c/tok512.bin";
    if (access(path, R_OK) != 0) SKIP("%s is missing", path);
    check_cases(path, "tests/data/tokenizer/tok512.cases");
}

/* llama.cpp's vectors: texts, each but perhaps the last closed by a line __ggml_vocab_test__, and a line of ids for each. */
static void check_vectors(const char *vocabulary, size_t n_expected) {
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[320];
    size_t n_texts = 0, n_ids, n_cases = 0;
    snprintf(path, sizeof path, "%s.inp", vocabulary);
    char *texts = read_whole(path, &n_texts);
    snprintf(path, sizeof path, "%s.out", vocabulary);
    char *ids = read_whole(path, &n_ids);
    Opened opened = open_tokenizer(vocabulary);
    char *text = texts, *line = ids, *end;
    while (text && line && opened.tokenizer && *text) {
        if (!(end = strstr(text, separator))) end = texts + n_texts;
        Tokens got = encode(opened.tokenizer, text, (size_t)(end - text), 0);
        char *next = strchr(line, '\n');
        CHECK(next, "fewer lines of ids than texts");
        if (!next) break;
        *next = 0;
        Tokens expected = parse_ids(line, &line);
        check_ids(got, expected, text);
        tokens_free(&got);
        tokens_free(&expected);
        text = end < texts + n_texts ? end + strlen(separator) : end;
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

/* The vocabularies that llama.cpp's source carries with their cases (../shared/oracle). */
static void test_vectors_oracle(void) {
    static const struct {
        const char *name;
        size_t n_cases;
    } vocabularies[] = {
        {"command-r", 46}, {"deepseek-coder", 46}, {"deepseek-llm", 46}, {"falcon", 46},    {"gemma-4", 46},
        {"gpt-2", 46},     {"llama-bpe", 46},      {"llama-spm", 46},    {"mpt", 46},       {"phi-3", 46},
        {"qwen2", 46},     {"qwen35", 50},         {"refact", 46},       {"starcoder", 46},
    };
    const char *given = getenv("ORACLE"), *home = getenv("HOME");
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s%s/source/models/ggml-vocab-%s.gguf",
                 given  ? given
                 : home ? home
                        : "",
                 given ? "" : "/oracle", vocabularies[i].name);
        if (access(path, R_OK) != 0) SKIP("%s is missing (../shared/oracle/README.md)", path);
        check_vectors(path, vocabularies[i].n_cases);
    }
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

int main(void) {
    RUN(test_utf8);
    RUN(test_cases_gpt2);
    RUN(test_cases_llama3);
    RUN(test_cases_sentencepiece);
    RUN(test_cases_folders);
    RUN(test_cases_llama2c);
    RUN(test_vectors_gpt2);
    RUN(test_vectors_llama);
    RUN(test_vectors_oracle);
    RUN(test_random_bytes);
    RUN(test_long_runs);
    RUN(test_words);
    RUN(test_detokenizer_holds_back);
    RUN(test_pieces_and_ends);
    return test_end();
}
