/*
 * tokenizer.json: ids and texts against Hugging Face's own library (tests/data/tokenizer/json.cases, which
 * scripts/expect/tokenizer_json.js makes), normal forms against Python's unicodedata, what is refused, and hostile texts.
 */
#include "tokenizer_json.h"

#include "packing/vocabulary.h"

#include "unicode/normalize.h"
#include "vocab/vocab_keys.h"

static void check_line(const Tokenizer *tokenizer, const char *name, char *line) {
    char *bytes = malloc(strlen(line) + 1), *at;
    Error error = {{0}};
    bool encodes = strncmp(line, "encode ", 7) == 0, same;
    unsigned flag = (unsigned)strtoul(line + 7, &at, 10);
    if (encodes) {
        size_t n = parse_hex(at + 1, bytes, &at);
        Tokens expected = parse_ids(strchr(at, ':') + 1, &at), got = {0};
        CHECK(tokenizer_encode(tokenizer, bytes, n, flag, &got, &error), "%s", error.message);
        same = got.n == expected.n && (!got.n || memcmp(got.ids, expected.ids, got.n * sizeof *got.ids) == 0);
        tokens_free(&expected);
        tokens_free(&got);
    } else {
        Tokens ids = parse_ids(at, &at);
        size_t n = parse_hex(strchr(at, ':') + 2, bytes, &at);
        TextBuffer got = decode(tokenizer, ids, flag);
        same = got.n == n && (!n || memcmp(got.data, bytes, n) == 0);
        free(got.data);
        tokens_free(&ids);
    }
    CHECK(same, "%s: %.200s", name, line);
    free(bytes);
}

/* Calls `check` with each line of the cases; the tokenizers are opened on the way. */
static void for_lines(void (*check)(const Tokenizer *tokenizer, const char *name, char *line),
                      size_t *n_tokenizers) {
    FILE *file = fopen("tests/data/tokenizer/json.cases", "rb");
    char *line = NULL, name[64] = "";
    size_t room = 0;
    Opened opened = {0};
    CHECK(file, "tests/data/tokenizer/json.cases is missing");
    for (ssize_t n; file && (n = getline(&line, &room, file)) > 0;) {
        Error error = {{0}};
        line[--n] = 0;
        if (*line == '#') {
            snprintf(name, sizeof name, "%s", line + 2);
        } else if (strncmp(line, "tokenizer ", 10) == 0) {
            close_tokenizer(opened);
            opened = open_json(line + 10, (size_t)n - 10, NULL, &error);
            CHECK(opened.tokenizer, "%s: %s", name, error.message);
            ++*n_tokenizers;
        } else if (opened.tokenizer) {
            check(opened.tokenizer, name, line);
        }
    }
    close_tokenizer(opened);
    if (file) fclose(file);
    free(line);
}

static void test_cases(void) {
    size_t n = 0;
    for_lines(check_line, &n);
    CHECK(n == 24, "%zu tokenizers", n);
}

/* Texts that are no UTF-8, and what the cases do not have: nothing is read beyond the text, and byte-level BPE loses nothing. */
static void check_bytes(const Tokenizer *tokenizer, const char *name, char *line) {
    static const char common[] = " \tett'sS1\n\r.\xc3\xa9\xe2\x82\xf0\x9f\x98\x80\xcc\x81\xff<>";
    static const char *const exact[] = {"GPT-2", "Llama 3", "StarCoder", "BLOOM", "DeepSeek"};
    uint64_t state = strlen(line);
    bool is_exact = false;
    for (size_t i = 0; i < 5; i++) is_exact = is_exact || strcmp(name, exact[i]) == 0;
    for (int i = 0; i < 40 && !test_broken; i++) {
        size_t n = next_random(&state) % 48;
        char *text = malloc(n + !n);
        for (size_t k = 0; k < n; k++)
            text[k] = (char)(i % 2 ? next_random(&state)
                                   : (uint32_t)common[next_random(&state) % (sizeof common - 1)]);
        Tokens tokens = {0};
        Error error = {{0}};
        bool ok = tokenizer_encode(tokenizer, text, n, (unsigned)i % 4, &tokens, &error);
        CHECK(ok || strstr(error.message, "the vocabulary has no token for"), "%s: %s", name, error.message);
        size_t done = 0;
        for (size_t k = 0; k < tokens.n && is_exact && !(i & 3); k++) {
            String piece = tokenizer_piece(tokenizer, tokens.ids[k], true);
            CHECK(done + piece.n <= n && memcmp(text + done, piece.data, piece.n) == 0, "%s", name);
            done += piece.n;
        }
        CHECK(!is_exact || (i & 3) || done == n, "%s: %zu bytes of %zu", name, done, n);
        tokens_free(&tokens);
        free(text);
    }
}

static void test_any_bytes(void) {
    size_t n = 0;
    for_lines(check_bytes, &n);
}

/* Hangs if something takes quadratic time. Once for each tokenizer, at its second case, a space. */
static void check_long(const Tokenizer *tokenizer, const char *name, char *line) {
    static const char *const units[] = {"a",   " ",   "\t",           "1",         "\xcc\x81\xcc\xa3",
                                        "<a>", "the", "\xea\xb0\x81", "e\xcc\x81", "\xff"};
    enum { N = 60000 };
    if (strncmp(line, "encode 3 20 ", 12) != 0) return;
    char *text = malloc(N);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        Tokens tokens = {0};
        Error error = {{0}};
        for (size_t i = 0, length = strlen(units[u]); i < N; i++) text[i] = units[u][i % length];
        bool ok = tokenizer_encode(tokenizer, text, N, ENCODE_SPECIAL, &tokens, &error);
        CHECK(ok || strstr(error.message, "the vocabulary has no token for"), "%s: %s", name, error.message);
        tokens_free(&tokens);
    }
    free(text);
}

static void test_long_texts(void) {
    size_t n = 0;
    for_lines(check_long, &n);
}

static uint64_t fnv1a(uint64_t hash, TextBuffer text) {
    for (size_t i = 0; i < text.n; i++) hash = (hash ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    return hash;
}

/* scripts/tables/mappings.py prints the expected hashes: each character between letters and marks that it may compose with, or change places. */
static void test_normal_forms(void) {
    static const uint64_t expected[] = {[FORM_NFC] = 0xc1bdb5be7ed3ef10u,
                                        [FORM_NFD] = 0x46e517461ef2f72du,
                                        [FORM_NFKC] = 0x15b02b0e5eb21614u,
                                        [FORM_NFKD] = 0x746070b62fa4b307u};
    Mappings *mappings = mappings_new();
    uint64_t hash[4], lower = 0xcbf29ce484222325u;
    TextBuffer text = {0}, out = {0};
    for (int form = 0; form < 4; form++) hash[form] = lower;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        text.n = out.n = 0;
        text_append_character(&text, c);
        normalize_lower(mappings, text.data, text.n, &out);
        lower = fnv1a(lower, out);
        text.n = 0;
        text_append(&text, "e\xcc\xa3", 3);
        text_append_character(&text, c);
        text_append(&text, "\xcc\x81o", 3);
        text_append_character(&text, c);
        text_append(&text, "\xcc\x81", 2);
        for (int form = 0; form < 4; form++) {
            out.n = 0;
            normalize_form(mappings, (NormalForm)form, text.data, text.n, &out);
            hash[form] = fnv1a(hash[form], out);
        }
    }
    for (int form = 0; form < 4; form++)
        CHECK(hash[form] == expected[form], "form %d: 0x%016llx", form, (unsigned long long)hash[form]);
    CHECK(lower == 0xc319d02e8283b91eu, "0x%016llx", (unsigned long long)lower);
    free(text.data);
    free(out.data);
    free(mappings);
}

/* Writes the keys as a GGUF file without tensors. */
static void write_keys(const VocabKeys *keys) {
    TextBuffer file = {0};
    const uint32_t version = 3;
    const uint64_t n_tensors = 0, n_keys = keys->n;
    text_append(&file, "GGUF", 4);
    text_append(&file, &version, 4);
    text_append(&file, &n_tensors, 8);
    text_append(&file, &n_keys, 8);
    for (const Value *value = keys->values; value < keys->values + keys->n; value++) {
        uint64_t n = value->key.n;
        text_append(&file, &n, 8);
        text_append(&file, value->key.data, value->key.n);
        text_append(&file, &value->type, 4);
        if (value->type == ARRAY) text_append(&file, &value->element, 4);
        if (value->type == ARRAY) text_append(&file, &value->n, 8);
        text_append(&file, value->data, value->n_bytes);
    }
    scratch_write((const unsigned char *)file.data, file.n);
    free(file.data);
}

/* GGUF can say this of each tokenizer of the cases: the name of its cuts, or why nothing. */
static const struct {
    const char *name, *says;
} keys_of[] = {
    {"GPT-2", "gpt-2"},
    {"Llama 3", "llama-bpe"},
    {"GPT-4", "dbrx"},
    {"Qwen", "dbrx"},
    {"RoBERTa", "no name of tokenizer.ggml.pre stands for"},
    {"GPT-NeoX", "no name of tokenizer.ggml.pre stands for"},
    {"Falcon", "no name of tokenizer.ggml.pre stands for"},
    {"StarCoder", "starcoder"},
    {"BLOOM", "bloom"},
    {"DeepSeek", "deepseek-v3"},
    {"Llama 2", "not all that make a token"},
    {"Gemma", "not all that make a token"},
    {"Metaspace", "not all that make a token"},
    {"unknown characters", "without ▁ for spaces"},
    {"T5", "Unigram"},
    {"Unigram of bytes", "Unigram"},
    {"words", "without ▁ for spaces"},
    {"ties", "Unigram"},
    {"GPT-2 of 2020", "gpt-2"},
    {"Unigram of 2020", "Unigram"},
    {"empty matches", "without ▁ for spaces"},
    {"a word alone", "normalises text in a way that"},
    {"pieces that are unknown", "Unigram"},
    {"bytes that are unknown", "gpt-2"},
};

/* Once for each tokenizer: its keys, and what the tokenizer that they make does with a text of all kinds. */
static void check_keys(const Tokenizer *tokenizer, const char *name, char *line) {
    static char text[1 << 13];
    char *at = strchr(line, ' ');
    if (strncmp(line, "encode 3 41", 11) != 0) return; /* "A small engine …" */
    size_t n = parse_hex(strchr(at + 1, ' ') + 1, text, &at), row = 0;
    while (strcmp(keys_of[row].name, name) != 0) row++;
    Error error = {{0}};
    Checkpoint *folder = checkpoint_open(scratch_folder, &error), *file = NULL;
    VocabKeys keys = {0};
    if (!vocab_keys_make(&keys, folder, &error)) {
        CHECK(strstr(error.message, keys_of[row].says), "%s: %s", name, error.message);
    } else {
        String pre = {0};
        Tokens expected = {0}, got = {0};
        write_keys(&keys);
        file = checkpoint_open(scratch_path(), &error);
        Tokenizer *made = file ? tokenizer_new(file, &error) : NULL;
        CHECK(made && checkpoint_string(file, "tokenizer.ggml.pre", &pre, &error) &&
                  string_equals(pre, keys_of[row].says),
              "%s: %.*s %s", name, (int)pre.n, pre.data ? pre.data : "", error.message);
        bool ok = made &&
                  tokenizer_encode(tokenizer, text, n, ENCODE_ENDS | ENCODE_SPECIAL, &expected, &error) &&
                  tokenizer_encode(made, text, n, ENCODE_ENDS | ENCODE_SPECIAL, &got, &error);
        CHECK(ok && got.n == expected.n && memcmp(got.ids, expected.ids, got.n * sizeof *got.ids) == 0,
              "%s: %s", name, error.message);
        tokens_free(&expected);
        tokens_free(&got);
        tokenizer_free(made);
    }
    vocab_keys_free(&keys);
    checkpoint_close(file);
    checkpoint_close(folder);
}

static void test_keys(void) {
    size_t n = 0;
    for_lines(check_keys, &n);
}

/* The scores of what is merged as SentencePiece would: "ab", then "abc" of either two; and before them runs of "c", which mix. */
static void test_scores(void) {
    static const char json[] =
        "{\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"a\": 1, \"b\": 2, \"c\": 3, \"▁\": 4, "
        "\"ab\": 5, \"bc\": 6, \"abc\": 7, \"cc\": 8, \"ccc\": 9}, \"merges\": [\"cc c\", \"c c\", \"c cc\", \"a b\", \"ab c\", \"a bc\", \"b c\"]}, "
        "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}, "
        "\"decoder\": {\"type\": \"Fuse\"}}";
    static const float expected[] = {0, 0, 0, 0, 0, -2, -4, -3, -1, -1};
    Error error = {{0}};
    VocabKeys keys = {0};
    Opened opened = open_json(json, sizeof json - 1, NULL, &error);
    CHECK(opened.tokenizer && vocab_keys_make(&keys, opened.checkpoint, &error), "%s", error.message);
    bool found = false;
    for (size_t i = 0; i < keys.n; i++)
        if (string_equals(keys.values[i].key, "tokenizer.ggml.scores"))
            found = keys.values[i].n == 10 && memcmp(keys.values[i].data, expected, sizeof expected) == 0;
    CHECK(found, "no scores, or others");
    vocab_keys_free(&keys);
    close_tokenizer(opened);
}

/*
 * As quantize takes them in: keys that say all of it, each once and whatever the folder had of it, or why there are none. Many
 * special tokens, one of a long name, and letters that are no token tell nothing against them.
 */
static void test_added_keys(void) {
    static const struct {
        size_t n_special;
        int n_long;
        const char *prefix, *letters, *why;
    } cases[] = {
        {70, 0, "false", "\"a\":0,\"e\":1,\"A\":2", ""},
        {2, 101, "false", "\"a\":0,\"e\":1,\"A\":2", ""},
        {2, 0, "false", "\"b\":0,\"c\":1,\"d\":2", ""},
        {2, 0, "true", "\"a\":0,\"e\":1,\"A\":2", "no name of tokenizer.ggml.pre stands for"},
    };
    static const char config[] =
        "{\"bos_token\": \"<1>\", \"added_tokens_decoder\": {\"4\": {\"content\": \"<1>\"}}}";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char json[1 << 14];
        size_t n = cases[i].n_special, n_bos = 0;
        Error error = {{0}}, why = {{0}}, differs = {{0}};
        char *at = json + sprintf(json, "{\"added_tokens\":[");
        for (size_t id = 0; id < n; id++)
            at += sprintf(at, "%s{\"id\":%zu,\"content\":\"<%0*zu>\",\"special\":true}", id ? "," : "",
                          id + 3, cases[i].n_long, id);
        at += sprintf(
            at,
            "],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s},\"decoder\":{\"type\":"
            "\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{",
            cases[i].prefix);
        at += sprintf(at, "%s}}}", cases[i].letters);
        Opened opened = open_json(json, (size_t)(at - json), i ? NULL : config, &error);
        CHECK(opened.tokenizer && vocabulary_add(opened.checkpoint, &why, &differs, &error), "%zu: %s", i,
              error.message);
        CHECK(*cases[i].why ? strstr(why.message, cases[i].why) != NULL : !*why.message, "%zu: '%s'", i,
              why.message);
        CHECK(!*differs.message, "%zu: %s", i, differs.message);
        for (size_t k = 0; opened.tokenizer && k < checkpoint_n_values(opened.checkpoint); k++)
            n_bos += string_equals(checkpoint_value(opened.checkpoint, k).key, "tokenizer.ggml.bos_token_id");
        CHECK(opened.tokenizer && n_bos == (i == 0) &&
                  checkpoint_has(opened.checkpoint, "tokenizer.ggml.model") == !*cases[i].why,
              "%zu: %zu", i, n_bos);
        close_tokenizer(opened);
    }
}

/* GGUF's keys tell of merges, and of what a pipeline makes of text, by scores, or it is said why there are none. */
static void test_kept(void) {
#define MERGES(merges)                                                                                                                        \
    "{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'd': 3, '▁': 4, 'ab': 5, 'bc': 6, 'abc': 7, 'ad': 8, 'ac': 9, 'dd': 10}, " \
    "'merges': [" merges                                                                                                                      \
    "]}, 'normalizer': {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}" FUSE
#define SPACES(normalizer)                                                                                            \
    "{'model': {'type': 'BPE', 'vocab': {'a': 0}, 'merges': []}, 'normalizer': {'type': 'Sequence', 'normalizers': [" \
    "{'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}, " normalizer "]}" FUSE
#define BYTES(normalizer)                                                                                    \
    "{'model': {'type': 'BPE', 'vocab': {'a': 0}, 'merges': []}, 'normalizer': " normalizer                  \
    ", 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': false}" FUSE
    static const struct {
        const char *json, *says; /* NULL: these scores of bc, ab, abc, ad, ac, dd */
        float scores[6];
    } cases[] = {
        {MERGES("'b c', 'a b', 'ab c', 'a bc', 'a d', 'a c', 'd d'"), NULL, {-1, -2, -3, -4, -5, -6}},
        /* One that is there twice is the last. */
        {MERGES("'b c', 'a b', 'a bc', 'ab c', 'a bc', 'a d', 'a c', 'd d'"), NULL, {-1, -2, -3, -4, -5, -6}},
        /* Others between the two ways to "abc". */
        {MERGES("'b c', 'a b', 'ab c', 'a d', 'a c', 'a bc', 'd d'"),
         "not all that make a token, sorted by these",
         {0}},
        {MERGES("'b c', 'a b', 'ab c', 'd d', 'a bc', 'a d', 'a c'"),
         "not all that make a token, sorted by these",
         {0}},
        /* No pieces of the text itself: it ends sooner, or later. */
        {SPACES("{'type': 'Lowercase'}"), "normalises text in a way that", {0}},
        {SPACES("{'type': 'Replace', 'pattern': {'Regex': '[\\\\s\\\\S]'}, 'content': ''}"),
         "normalises text in a way that",
         {0}},
        {BYTES("{'type': 'Strip', 'strip_left': false, 'strip_right': true}"),
         "no name of tokenizer.ggml.pre stands for",
         {0}},
        {BYTES("{'type': 'Replace', 'pattern': {'Regex': '\\\\z'}, 'content': '!!'}"),
         "no name of tokenizer.ggml.pre stands for",
         {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const int ids[] = {6, 5, 7, 8, 9, 10};
        Error error = {{0}};
        VocabKeys keys = {0};
        Opened opened = open_quoted(cases[i].json, NULL, &error);
        bool ok = opened.tokenizer && vocab_keys_make(&keys, opened.checkpoint, &error);
        CHECK(ok == !cases[i].says && (ok || strstr(error.message, cases[i].says)), "%zu: %s", i,
              error.message);
        for (size_t k = 0; k < keys.n; k++)
            for (size_t j = 0; j < 6 && string_equals(keys.values[k].key, "tokenizer.ggml.scores"); j++)
                CHECK(((const float *)(const void *)keys.values[k].data)[ids[j]] == cases[i].scores[j],
                      "%zu: token %d", i, ids[j]);
        vocab_keys_free(&keys);
        close_tokenizer(opened);
    }
}

/* A file that has a key of a vocabulary already, and not its model: the key is there once, with the vocabulary's value. */
static void test_replaced_key(void) {
    static unsigned char file[1 << 12];
    Gguf gguf = gguf_begin(3);
    Error error = {{0}}, why = {{0}}, differs = {{0}};
    size_t n_pre = 0;
    String pre = {"", 0};
    gguf_string(&gguf, "tokenizer.ggml.pre", "odd");
    gguf_string(
        &gguf, "tokenizer.huggingface.json",
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0}}}");
    scratch_write(file, gguf_write(&gguf, file));
    Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
    CHECK(checkpoint && vocabulary_add(checkpoint, &why, &differs, &error), "%s", error.message);
    for (size_t i = 0; checkpoint && i < checkpoint_n_values(checkpoint); i++)
        n_pre += string_equals(checkpoint_value(checkpoint, i).key, "tokenizer.ggml.pre");
    CHECK(n_pre == 1 && checkpoint_string(checkpoint, "tokenizer.ggml.pre", &pre, NULL) &&
              string_equals(pre, "gpt-2"),
          "%zu: %.*s %s", n_pre, (int)pre.n, pre.data, why.message);
    checkpoint_close(checkpoint);
    gguf_string(&gguf, "tokenizer.ggml.remove_extra_whitespaces", "which only GGUF's vocabularies have");
    scratch_write(file, gguf_write(&gguf, file));
    checkpoint = checkpoint_open(scratch_path(), &error);
    CHECK(checkpoint && !vocabulary_add(checkpoint, &why, &differs, &error) &&
              strstr(error.message, "remove_extra_whitespaces"),
          "%s", error.message);
    checkpoint_close(checkpoint);
}

int main(void) {
    scratch_begin();
    RUN(test_cases);
    RUN(test_any_bytes);
    RUN(test_long_texts);
    RUN(test_normal_forms);
    RUN(test_keys);
    RUN(test_scores);
    RUN(test_added_keys);
    RUN(test_replaced_key);
    RUN(test_kept);
    write_file("tokenizer.json", NULL, 0);
    write_file("tokenizer_config.json", NULL, 0);
    scratch_end();
    return test_end();
}
