/*
 * tokenizer.json: ids and texts against Hugging Face's own library (tests/data/tokenizer/json.cases, which
 * scripts/expect/tokenizer_json.js makes), normal forms against Python's unicodedata, what is refused, and hostile texts.
 */
#include "open.h"
#include "tokenizer.h"
#include "unicode/normalize.h"
#include "vocab/vocab_keys.h"

#include "gguf.h"

#include <sys/stat.h>

/* A tokenizer of a folder with these two files; `config` may be NULL. */
typedef struct Opened {
    Checkpoint *checkpoint;
    Tokenizer *tokenizer;
} Opened;

static void write_file(const char *name, const char *text, size_t n) {
    char path[sizeof scratch_folder + 32];
    snprintf(path, sizeof path, "%s/%s", scratch_folder, name);
    unlink(path);
    FILE *file = text ? fopen(path, "wb") : NULL;
    if (!file) return;
    fwrite(text, 1, n, file);
    fclose(file);
}

static Opened open_json(const char *json, size_t n, const char *config, Error *error) {
    write_file("tokenizer.json", json, n);
    write_file("tokenizer_config.json", config, config ? strlen(config) : 0);
    Opened opened = {.checkpoint = checkpoint_open(scratch_folder, error)};
    if (opened.checkpoint) opened.tokenizer = tokenizer_new(opened.checkpoint, error);
    return opened;
}

static void close_tokenizer(Opened opened) {
    tokenizer_free(opened.tokenizer);
    checkpoint_close(opened.checkpoint);
}

static size_t parse_hex(const char *text, char *out, char **end) {
    size_t n = 0;
    unsigned byte;
    for (; *text && *text != ' ' && sscanf(text, "%2x", &byte) == 1; text += 2) out[n++] = (char)byte;
    *end = (char *)(uintptr_t)text;
    return n;
}

static Tokens parse_ids(const char *text, char **end) {
    Tokens tokens = {0};
    for (*end = (char *)(uintptr_t)text;; text = *end) {
        long id = strtol(text, end, 10);
        if (*end == text) return tokens;
        tokens_push(&tokens, (int32_t)id, NULL);
    }
}

static TextBuffer decode(const Tokenizer *tokenizer, Tokens tokens, bool special) {
    TextBuffer out = {0};
    Detokenizer detokenizer = detokenizer_begin(tokenizer, special);
    for (size_t i = 0; i < tokens.n; i++) detokenizer_push(&detokenizer, tokens.ids[i], &out);
    detokenizer_end(&detokenizer, &out);
    return out;
}

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
    CHECK(n == 20, "%zu tokenizers", n);
}

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
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

/* A tokenizer.json with parts put in: model's further members, then members of the whole. */
static const char frame[] =
    "{\"version\": \"1.0\", \"model\": {%s \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}, "
    "%s \"decoder\": {\"type\": \"Fuse\"}}";

#define BPE "\"type\": \"BPE\","

static void test_refusals(void) {
    static const struct {
        const char *model, *whole, *says;
    } wrong[] = {
        {"\"type\": \"WordPiece\",", "", "a model of a type that is not supported: 'WordPiece'"},
        {"\"type\": \"WordLevel\",", "", "a model of a type that is not supported: 'WordLevel'"},
        {"\"type\": null,", "", "a model of a type that is not supported: ''"},
        {BPE "\"dropout\": 0.1,", "", "an option of BPE that is not supported: 'dropout'"},
        {BPE "\"end_of_word_suffix\": \"</w>\",", "",
         "an option of BPE that is not supported: 'end_of_word_suffix'"},
        {BPE "\"continuing_subword_prefix\": \"##\",", "", "not supported: 'continuing_subword_prefix'"},
        {BPE "\"unk_token\": \"x\",", "", "not in the vocabulary: unk_token 'x'"},
        {BPE "\"fuse_unk\": 1,", "", "not true or false: 'fuse_unk'"},
        {BPE, "\"normalizer\": {\"type\": \"Precompiled\"},",
         "a normalizer of a type that is not known: 'Precompiled'"},
        {BPE, "\"normalizer\": {\"type\": \"BertNormalizer\"},", "not known: 'BertNormalizer'"},
        {BPE, "\"normalizer\": {\"type\": \"Sequence\"},", "not a list: 'normalizers'"},
        {BPE, "\"normalizer\": {\"type\": \"Strip\"},", "not true or false: 'strip_left'"},
        {BPE, "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(a\"}, \"content\": \"\"},",
         "'(a'"},
        {BPE, "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {}, \"content\": \"\"},",
         "not a text: 'String'"},
        {BPE, "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},", "not known: 'BertPreTokenizer'"},
        {BPE, "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": 1},",
         "not a list: 'pretokenizers'"},
        {BPE, "\"pre_tokenizer\": {\"type\": \"Punctuation\", \"behavior\": \"x\"},",
         "a behavior that is not known: 'x'"},
        {BPE,
         "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"},",
         "a prepend_scheme that is not known: 'last'"},
        {BPE, "\"pre_tokenizer\": {\"type\": \"ByteLevel\"},", "not true or false: 'add_prefix_space'"},
        {BPE, "\"post_processor\": {\"type\": \"x\"},", "a post_processor of a type that is not known: 'x'"},
        {BPE, "\"post_processor\": {\"type\": \"BertProcessing\"},", "without cls and sep: 'BertProcessing'"},
        {BPE, "\"post_processor\": {\"type\": \"Sequence\"},", "not a list: 'processors'"},
        {BPE, "\"post_processor\": {\"type\": \"Sequence\", \"processors\": {}},",
         "not a list: 'processors'"},
        {BPE,
         "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"a\"}}, "
         "{\"SpecialToken\": {\"id\": \"a\"}}, {\"Sequence\": {}}], \"special_tokens\": {\"a\": {\"ids\": [0]}}},",
         "more than one token put beside the text: 'post_processor'"},
        {BPE, "\"added_tokens\": {},", "not a list: 'added_tokens'"},
        {BPE, "\"added_tokens\": [{\"content\": \"x\"}],", "an added token without content or id: 'x'"},
        {BPE, "\"added_tokens\": [{\"content\": \"\", \"id\": 3}],", "an added token is empty: 'content'"},
        {BPE, "\"added_tokens\": [{\"content\": \"x\", \"id\": 4}],",
         "the id is not the next behind the vocabulary, of 'x'"},
        {BPE, "\"added_tokens\": [{\"content\": \"x\", \"id\": 99999999}],",
         "the id is far beyond all tokens, of 'x'"},
        {BPE, "\"added_tokens\": [{\"content\": \"x\", \"id\": 3}, {\"content\": \"x\", \"id\": 4}],",
         "two tokens have the same content"},
        {BPE, "\"decoder\": 1,", "an object that ends here has a key twice"},
        {BPE, "]", "tokenizer.json: line 1: "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char json[2048];
        Error error = {{0}};
        int n = snprintf(json, sizeof json, frame, wrong[i].model, wrong[i].whole);
        Opened opened = open_json(json, (size_t)n, NULL, &error);
        CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, wrong[i].says),
              "expected '%s', got '%s'", wrong[i].says, error.message);
        close_tokenizer(opened);
    }
}

/* The same with one part of it put in, whose quotes are single ones here; "model" and "decoder" take the place of these. */
static Opened open_with(const char *part, const char *value, Error *error) {
    static char json[1 << 14];
    const char *model = "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2}, 'merges': ['a b']}",
               *decoder = "{'type': 'Fuse'}";
    bool is_model = strcmp(part, "model") == 0, is_decoder = strcmp(part, "decoder") == 0;
    int n = snprintf(json, sizeof json, "{'model': %s, 'decoder': %s", is_model ? value : model,
                     is_decoder ? value : decoder);
    if (!is_model && !is_decoder) n += snprintf(json + n, sizeof json - (size_t)n, ", '%s': %s", part, value);
    n += snprintf(json + n, sizeof json - (size_t)n, "}");
    for (char *c = json; *c; c++)
        if (*c == '\'') *c = '"';
    return open_json(json, (size_t)n, NULL, error);
}

static void check_refused(const char *part, const char *value, const char *says) {
    Error error = {{0}};
    Opened opened = open_with(part, value, &error);
    CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, says), "%s %s: '%s', not '%s'",
          part, value, error.message, says);
    close_tokenizer(opened);
}

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A256 A64 A64 A64 A64
#define WITHOUT_NAME                                                                                         \
    "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': 'a'}}, {'Sequence': {}}]"
#define UNIGRAM "{'type': 'Unigram', 'vocab': "
#define LETTERS "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2}, 'merges': "

/* Each part must have these, and of this kind. */
static void test_refused_parts(void) {
    static const struct {
        const char *part, *value, *says;
    } wrong[] = {
        {"normalizer", "{'type': 'Prepend'}", "not a text: 'prepend'"},
        {"normalizer", "{'type': 'Prepend', 'prepend': 5}", "not a text: 'prepend'"},
        {"normalizer", "{'type': 'Prepend', 'prepend': '" A256 "a'}", "longer than 256 bytes: '" A64},
        {"normalizer", "{'type': 'Replace', 'pattern': {'String': 'a'}}", "not a text: 'content'"},
        {"normalizer", "{'type': 'Strip', 'strip_left': true}", "not true or false: 'strip_right'"},
        {"normalizer", "{'type': 'Sequence', 'normalizers': {}}", "not a list: 'normalizers'"},
        {"normalizer", "{'type': 'Sequence', 'normalizers': [{'type': 'X'}, {'type': 'NFC'}]}",
         "not known: 'X'"},
        {"pre_tokenizer", "{'type': 'ByteLevel', 'add_prefix_space': true, 'use_regex': 1}",
         "not true or false: 'use_regex'"},
        {"pre_tokenizer",
         "{'type': 'Sequence', 'pretokenizers': [{'type': 'ByteLevel', 'add_prefix_space': true}, "
         "{'type': 'ByteLevel', 'add_prefix_space': true}]}",
         "twice in the pre_tokenizer: 'ByteLevel'"},
        {"pre_tokenizer",
         "{'type': 'Sequence', 'pretokenizers': [{'type': 'ByteLevel', 'add_prefix_space': true}, "
         "{'type': 'Metaspace', 'replacement': '_'}]}",
         "behind ByteLevel, in the pre_tokenizer: 'Metaspace'"},
        {"pre_tokenizer", "{'type': 'Metaspace'}", "not a text: 'replacement'"},
        {"pre_tokenizer", "{'type': 'Metaspace', 'replacement': '_', 'add_prefix_space': 1}",
         "not true or false: 'add_prefix_space'"},
        {"pre_tokenizer", "{'type': 'Metaspace', 'replacement': '_', 'split': 1}",
         "not true or false: 'split'"},
        {"pre_tokenizer",
         "{'type': 'Metaspace', 'replacement': '_', 'add_prefix_space': false, 'prepend_scheme': 'first'}",
         "no add_prefix_space, but prepend_scheme 'first'"},
        {"pre_tokenizer", "{'type': 'Split'}", "not a text: 'String'"},
        {"pre_tokenizer", "{'type': 'Split', 'pattern': {'String': 'a'}}",
         "a behavior that is not known: ''"},
        {"pre_tokenizer", "{'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Removed'}",
         "not true or false: 'invert'"},
        {"pre_tokenizer", "{'type': 'Digits'}", "not true or false: 'individual_digits'"},
        {"pre_tokenizer", "{'type': 'Sequence'}", "not a list: 'pretokenizers'"},
        {"pre_tokenizer", "{'type': 'Sequence', 'pretokenizers': [{'type': 'X'}, {'type': 'Whitespace'}]}",
         "not known: 'X'"},
        {"post_processor", "{'type': 'TemplateProcessing'}", "not a list: 'single'"},
        {"post_processor", "{'type': 'TemplateProcessing', 'single': {}}", "not a list: 'single'"},
        {"post_processor", "{'type': 'TemplateProcessing', 'single': []}", "no text in the template"},
        {"post_processor", WITHOUT_NAME "}", "not one token, in the post_processor: 'a'"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': []}",
         "not one token, in the post_processor: 'a'"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'b': {'ids': [0]}}}", "not one token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {}}}", "not one token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': {}}}}", "not one token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': [0, 1]}}}", "not one token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': ['a']}}}",
         "an id that is no token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': [-1]}}}",
         "an id that is no token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': [3]}}}", "an id that is no token"},
        {"post_processor",
         "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {}}], 'special_tokens': {'a': {'ids': [0]}}}",
         "not one token, in the post_processor: ''"},
        {"post_processor",
         "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': 0}}], 'special_tokens': {'a': {'ids': [0]}}}",
         "not one token, in the post_processor: ''"},
        {"post_processor", "{'type': 'BertProcessing', 'cls': {}}", "without cls and sep: 'BertProcessing'"},
        {"post_processor", "{'type': 'BertProcessing', 'cls': ['a']}",
         "without cls and sep: 'BertProcessing'"},
        {"post_processor", "{'type': 'RobertaProcessing', 'cls': ['a', 0]}", "without cls and sep: 'Roberta"},
        {"post_processor", "{'type': 'RobertaProcessing', 'cls': ['a', 0], 'sep': {}}",
         "without cls and sep"},
        {"post_processor", "{'type': 'RobertaProcessing', 'cls': ['a', 0], 'sep': ['b']}",
         "without cls and sep"},
        {"post_processor", "{'type': 'BertProcessing', 'cls': ['a', 'a'], 'sep': ['b', 1]}",
         "an id that is no token"},
        {"post_processor", "{'type': 'BertProcessing', 'cls': ['a', 0], 'sep': ['b', 3]}",
         "an id that is no token"},
        {"post_processor", "{'type': 'Sequence', 'processors': [{'type': 'X'}, {'type': 'ByteLevel'}]}",
         "not known: 'X'"},
        {"decoder", "null", "missing: 'decoder'"},
        {"decoder", "{'type': 'Sequence'}", "a list is missing in the decoder: 'Sequence'"},
        {"decoder", "{'type': 'Sequence', 'decoders': {}}", "a list is missing in the decoder: 'Sequence'"},
        {"decoder", "{'type': 'Replace', 'content': ''}", "not a text: 'String'"},
        {"decoder", "{'type': 'Replace', 'pattern': {'String': 'a'}}", "not a text, in the decoder: ''"},
        {"decoder", "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 5}",
         "not a text, in the decoder"},
        {"decoder", "{'type': 'Metaspace'}", "not a text, in the decoder: ''"},
        {"decoder", "{'type': 'Metaspace', 'replacement': '_', 'add_prefix_space': 1}",
         "not true or false: 'add_prefix_space'"},
        {"decoder", "{'type': 'Strip', 'content': 'a'}", "without start and stop, in the decoder: 'Strip'"},
        {"decoder", "{'type': 'Strip', 'content': 'a', 'start': 1}", "without start and stop"},
        {"decoder", "{'type': 'Strip', 'content': 'a', 'start': -1, 'stop': 0}", "without start and stop"},
        {"decoder", "{'type': 'Strip', 'content': '', 'start': 1, 'stop': 0}", "not one character"},
        {"decoder", "{'type': 'Strip', 'content': 'ab', 'start': 1, 'stop': 0}", "not one character"},
        {"decoder", "{'type': 'Strip', 'content': '" A64 "', 'start': 1, 'stop': 0}", "not one character"},
        {"decoder",
         "{'type': 'Sequence', 'decoders': [{'type': 'Fuse'}, {'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}, "
         "{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}]}",
         "twice, in the decoder: 'Strip'"},
        {"model", LETTERS "{}}", "missing in the model: 'merges'"},
        {"model", LETTERS "[], 'ignore_merges': 5}", "not true or false: 'ignore_merges'"},
        {"model", LETTERS "[], 'byte_fallback': 5}", "not true or false: 'byte_fallback'"},
        {"model", "{'type': 'BPE', 'vocab': 5, 'merges': []}", "missing in the model: 'vocab'"},
        {"model", "{'type': 'BPE', 'vocab': {'a': -1}, 'merges': []}", "a token without an id: 'a'"},
        {"model", UNIGRAM "[]}", "no tokens: 'vocab'"},
        {"model", UNIGRAM "[5]}", "not a list of texts and scores: 'vocab'"},
        {"model", UNIGRAM "[[5, 0]]}", "not a list of texts and scores: 'vocab'"},
        {"model", UNIGRAM "[['a', 'x']]}", "not a list of texts and scores: 'vocab'"},
        {"model", UNIGRAM "[['" A256 A256 "a', 0]]}", "a piece of more than 512 bytes: 'aaa"},
        {"model", UNIGRAM "[['a', 0]], 'unk_id': 'a'}", "not the id of a token: 'unk_id'"},
        {"model", UNIGRAM "[['a', 0]], 'unk_id': -1}", "not the id of a token: 'unk_id'"},
        {"model", UNIGRAM "[['a', 0]], 'byte_fallback': 5}", "not true or false: 'byte_fallback'"},
        {"added_tokens", "[{'id': 3}]", "an added token without content or id: ''"},
        {"added_tokens", "[{'id': 3, 'content': 5}]", "an added token without content or id: ''"},
        {"added_tokens", "[{'id': -1, 'content': 'x'}]", "an added token without content or id: 'x'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'special': 5}]", "not true or false: 'special'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'single_word': 5}]", "not true or false: 'single_word'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'lstrip': 5}]", "not true or false: 'lstrip'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'rstrip': 5}]", "not true or false: 'rstrip'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'normalized': 5}]", "not true or false: 'normalized'"},
        {"added_tokens", "[{'id': 3, 'content': '" A256 "a'}]", "an added token longer than 256 bytes: 'aaa"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_refused(wrong[i].part, wrong[i].value, wrong[i].says);
}

/* 32 steps are the most, of whatever kind the next is. */
static void test_too_many_steps(void) {
    static const struct {
        const char *part, *list, *each, *last, *says;
        int n;
    } cases[] = {
#define NORMALIZER "normalizer", "normalizers", "{'type': 'NFC'}"
#define TOO_MANY "more steps than 32: 'normalizer'"
        {NORMALIZER, "{'type': 'NFC'}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'Prepend', 'prepend': 'a'}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'b'}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'Strip', 'strip_left': true, 'strip_right': true}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'StripAccents'}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'Nmt'}", TOO_MANY, 31}, /* which are two */
#undef TOO_MANY
#define CUTS "pre_tokenizer", "pretokenizers", "{'type': 'WhitespaceSplit'}"
#define TOO_MANY "more steps than 32: 'pre_tokenizer'"
        {CUTS, "{'type': 'Whitespace'}", TOO_MANY, 32},
        {CUTS, "{'type': 'Punctuation'}", TOO_MANY, 32},
        {CUTS, "{'type': 'Digits', 'individual_digits': true}", TOO_MANY, 32},
        {CUTS, "{'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Removed', 'invert': false}",
         TOO_MANY, 32},
        {CUTS, "{'type': 'Metaspace', 'replacement': '_'}", TOO_MANY, 30}, /* three */
        {CUTS, "{'type': 'Metaspace', 'replacement': '_'}", TOO_MANY, 31},
        {CUTS, "{'type': 'Metaspace', 'replacement': '_'}", TOO_MANY, 32},
        {CUTS, "{'type': 'ByteLevel', 'add_prefix_space': true}", TOO_MANY, 30}, /* three */
        {CUTS, "{'type': 'ByteLevel', 'add_prefix_space': true}", TOO_MANY, 31},
        {CUTS, "{'type': 'ByteLevel', 'add_prefix_space': true}", TOO_MANY, 32},
#undef TOO_MANY
#define DECODER_STEPS "decoder", "decoders", "{'type': 'ByteFallback'}"
#define TOO_MANY "more than 32 steps in the decoder: "
        {DECODER_STEPS, "{'type': 'ByteLevel'}", TOO_MANY "'ByteLevel'", 32},
        {DECODER_STEPS, "{'type': 'Metaspace', 'replacement': '_'}", TOO_MANY "'Metaspace'", 32},
        {DECODER_STEPS, "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'b'}",
         TOO_MANY "'Replace'", 32},
        {DECODER_STEPS, "{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}", TOO_MANY "'Strip'", 32},
#undef TOO_MANY
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char value[2048];
        int n = snprintf(value, sizeof value, "{'type': 'Sequence', '%s': [", cases[i].list);
        for (int k = 0; k < cases[i].n; k++)
            n += snprintf(value + n, sizeof value - (size_t)n, "%s, ", cases[i].each);
        snprintf(value + n, sizeof value - (size_t)n, "%s]}", cases[i].last);
        check_refused(cases[i].part, value, cases[i].says);
    }
}

/* A text becomes these tokens, and they become a text again. */
static void test_parts(void) {
    static const struct {
        const char *part, *value, *text, *ids, *shown;
    } cases[] = {
        {"normalizer", "{'type': 'Strip', 'strip_left': true, 'strip_right': false}",
         "\t\xc2\x85\xc2\xa0\xe1\x9a\x80\xe2\x80\x83\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\x9f\xe3\x80\x80"
         "abb",
         "2 1", "abb"},
        {"normalizer", "{'type': 'Strip', 'strip_left': false, 'strip_right': true}", "aab \n\xe3\x80\x80",
         "0 2", "aab"},
        {"normalizer", "{'type': 'Strip', 'strip_left': true, 'strip_right': true}", " \t ", "", ""},
        {"normalizer", "{'type': 'Prepend', 'prepend': 'a'}", "b", "2", "ab"},
        {"normalizer", "{'type': 'Prepend', 'prepend': 'a'}", "", "", ""},
        {"normalizer", "{'type': 'Replace', 'pattern': {'String': ''}, 'content': 'a'}", "b", "1", "b"},
        {"pre_tokenizer",
         "{'type': 'Split', 'pattern': {'String': ''}, 'behavior': 'Isolated', 'invert': false}", "ab", "2",
         "ab"},
        {"pre_tokenizer",
         "{'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Removed', 'invert': true}", "abba",
         "0 0", "aa"},
        {"decoder",
         "{'type': 'Sequence', 'decoders': [{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}, {'type': 'Fuse'}]}",
         "aab", "0 2", "b"},
        {"decoder", "{'type': 'Metaspace', 'replacement': 'b', 'add_prefix_space': false}", "ba", "1 0",
         " a"},
        {"decoder", "{'type': 'Metaspace', 'replacement': 'b'}", "bab", "1 2", "a "},
        {"model", LETTERS "['#version: 0.2', ['a', 'b']], 'dropout': 0, 'end_of_word_suffix': ''}", "aab",
         "0 2", "aab"},
        {"model",
         "{'type': 'BPE', 'vocab': {'a': 0, '<0xC3>': 1, '<0xa9>': 2, '<0xA9>': 3, '<0xG0>': 4, '<0x0G>': 5, '<0x00)': 6}, "
         "'merges': [], 'byte_fallback': true}",
         "a\xc3\xa9", "0 1 3", "a<0xC3><0xA9>"},
        {"added_tokens", "[{'id': 3, 'content': 'xa', 'special': true}]", "axab", "0 3 1", "axab"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        Tokens tokens = {0};
        char got[64] = "";
        Opened opened = open_with(cases[i].part, cases[i].value, &error);
        bool ok = opened.tokenizer && tokenizer_encode(opened.tokenizer, cases[i].text, strlen(cases[i].text),
                                                       ENCODE_SPECIAL, &tokens, &error);
        for (size_t k = 0; k < tokens.n && k < 9; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", k ? " " : "", tokens.ids[k]);
        CHECK(ok && strcmp(got, cases[i].ids) == 0, "%s: '%s' %s", cases[i].value, got, error.message);
        TextBuffer shown = ok ? decode(opened.tokenizer, tokens, true) : (TextBuffer){0};
        CHECK(shown.n == strlen(cases[i].shown) &&
                  (!shown.n || memcmp(shown.data, cases[i].shown, shown.n) == 0),
              "%s: '%.*s'", cases[i].value, (int)shown.n, shown.data ? shown.data : "");
        free(shown.data);
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
}

static void test_refuses_models(void) {
    static const struct {
        const char *json, *says;
    } wrong[] = {
        {"{}", "missing: 'model'"},
        {"{\"model\": {\"type\": \"BPE\"}}", "missing in the model: 'vocab'"},
        /* no type: what the library takes it for, by the members that are there */
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"unk_token\": \"a\", \"continuing_subword_prefix\": \"##\", "
         "\"max_input_chars_per_word\": 100}}",
         "a model of a type that is not supported: 'WordPiece'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"unk_token\": \"a\", \"continuing_subword_prefix\": \"##\"}}",
         "a model of a type that is not supported: 'WordLevel'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}}}", "missing in the model: 'merges'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}", "missing in the model: 'merges'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": \"0\"}, \"merges\": []}}",
         "a token without an id: 'a'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}",
         "an id that another token has, of 'b'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}", "no tokens: 'vocab'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": [[\"a\", 0]], \"merges\": []}}",
         "not an object: 'vocab'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}}",
         "makes a token that is not in"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"ab\": 1}, \"merges\": [\"a b\"]}}",
         "merges: 'b' is not in"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}",
         "not two parts with a space between: 'a'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b c\"]}}",
         "not two parts with a space between"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}",
         "not two parts with a space between"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}", "missing: 'decoder'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": {\"a\": 0}}}", "not a list: 'vocab'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\"]]}}",
         "not a list of texts and scores: 'vocab'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0], [\"a\", 1]]}}",
         "two pieces are the same: 'vocab'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]], \"unk_id\": 1}}",
         "not the id of a token: 'unk_id'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}, \"decoder\": {\"type\": \"CTC\"}}",
         "a decoder of a type that is not known: 'CTC'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}, \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
         "[{\"type\": \"Fuse\"}, {\"type\": \"ByteLevel\"}]}}",
         "behind Fuse, in the decoder: 'ByteLevel'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}, \"decoder\": {\"type\": \"Strip\", \"content\": \" \", "
         "\"start\": 0, \"stop\": 1}}",
         "a stop other than 0 is not supported, in the decoder: 'Strip'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Error error = {{0}};
        Opened opened = open_json(wrong[i].json, strlen(wrong[i].json), NULL, &error);
        CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, wrong[i].says),
              "expected '%s', got '%s'", wrong[i].says, error.message);
        close_tokenizer(opened);
    }
}

/* A character that nothing can write fails; the library would drop it, or fail as well. */
static void test_unknown_characters(void) {
    static const char *const jsons[] = {
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": {\"type\": \"Fuse\"}}",
        ("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": {\"type\": \"Fuse\"}, "
         "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}}"),
        "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", -1]]}, \"decoder\": {\"type\": \"Fuse\"}}"};
    for (size_t i = 0; i < sizeof jsons / sizeof *jsons; i++) {
        Error error = {{0}};
        Tokens tokens = {0};
        Opened opened = open_json(jsons[i], strlen(jsons[i]), NULL, &error);
        CHECK(opened.tokenizer, "%s", error.message);
        if (!opened.tokenizer) continue;
        CHECK(tokenizer_encode(opened.tokenizer, "aa", 2, 0, &tokens, &error) && tokens.n == 2, "%s",
              error.message);
        CHECK(!tokenizer_encode(opened.tokenizer, "ab", 2, 0, &tokens, &error) &&
                  strstr(error.message, "the vocabulary has no token for"),
              "'%s'", error.message);
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
}

/* Words of a user, between those of a template, are no special tokens: as they stand, or as a normaliser makes them. */
static void test_foreign_words(void) {
    static const char vocabulary[] =
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"<s>\": 1, \"<\": 2, \"s\": 3, "
        "\">\": 4}, \"merges\": []}, \"decoder\": {\"type\": \"Fuse\"}";
    static const struct {
        const char *normalizer, *normalized, *said, *ids;
    } cases[] = {
        {"null", "false", "a<s>", "1 0 2 3 4 1"},
        {"null", "true", "a<s>", "1 0 2 3 4 1"},
        {"{\"type\": \"Lowercase\"}", "false", "A<S>", "1 0 2 3 4 1"},
        {"{\"type\": \"Lowercase\"}", "true", "A<S>", "1 0 2 3 4 1"},
        {"{\"type\": \"NFC\"}", "true", "a<s>", "1 0 2 3 4 1"},
        {"{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}", "true", "a<s>", "1 0 2 3 4 1"},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"-\"}, \"content\": \"s\"}", "true", "a<->",
         "1 0 2 3 4 1"},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"-\"}, \"content\": \"\"}", "true", "-a<-s>-",
         "1 0 2 3 4 1"},
    };
    for (size_t i = 0, k = 0; i < sizeof cases / sizeof *cases;
         i += k, k = !k) { /* each twice: special, not special */
        char json[1024], got[64] = "";
        Error error = {{0}};
        Tokens tokens = {0};
        TextBuffer text = {0}, marks = {0};
        int n = snprintf(json, sizeof json,
                         "{%s, \"normalizer\": %s, \"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", "
                         "\"special\": %s, \"normalized\": %s}]}",
                         vocabulary, cases[i].normalizer, k ? "true" : "false", cases[i].normalized);
        Opened opened = open_json(json, (size_t)n, NULL, &error);
        size_t n_said = strlen(cases[i].said);
        bool ok = opened.tokenizer && text_append(&text, "<s>", 3) &&
                  text_append(&text, cases[i].said, n_said) && text_append(&text, "<s>", 3) &&
                  text_append_times(&marks, 0, 3) && text_append_times(&marks, 1, n_said) &&
                  text_append_times(&marks, 0, 3) &&
                  tokenizer_encode_marked(opened.tokenizer, (String){text.data, text.n}, marks.data, &tokens,
                                          &error);
        for (size_t j = 0; j < tokens.n && j < 12; j++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", j ? " " : "", tokens.ids[j]);
        CHECK(ok && strcmp(got, cases[i].ids) == 0, "%zu: '%s' %s", i, got, error.message);
        tokens_free(&tokens);
        free(text.data);
        free(marks.data);
        close_tokenizer(opened);
    }
}

/* tokenizer_config.json has the last word on BOS and EOS. */
static void test_ends(void) {
    static const char json[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"<s>\": 1, \"</s>\": 2}, \"merges\": []}, "
        "\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true}, "
        "{\"id\": 2, \"content\": \"</s>\", \"special\": true}], \"decoder\": {\"type\": \"Fuse\"}, "
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, "
        "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [1]}}}}";
#define DECODER "\"added_tokens_decoder\": {\"1\": {\"content\": \"<s>\"}, \"2\": {\"content\": \"</s>\"}}"
    static const struct {
        const char *config, *ids;
    } cases[] = {
        {NULL, "1 0"},
        {"{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"," DECODER "}", "1 0"},
        {"{\"bos_token\": \"<s>\", \"add_bos_token\": false, \"eos_token\": \"</s>\"," DECODER "}", "0"},
        {"{\"bos_token\": \"<s>\", \"add_eos_token\": true, \"eos_token\": \"</s>\"," DECODER "}", "1 0 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        Tokens tokens = {0};
        char got[64] = "";
        Opened opened = open_json(json, sizeof json - 1, cases[i].config, &error);
        bool ok =
            opened.tokenizer && tokenizer_encode(opened.tokenizer, "a", 1, ENCODE_ENDS, &tokens, &error);
        for (size_t k = 0; k < tokens.n && k < 9; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", k ? " " : "", tokens.ids[k]);
        CHECK(ok && strcmp(got, cases[i].ids) == 0, "%zu: '%s' %s", i, got, error.message);
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
}

/* Vocabularies that are odd and hold together: empty and missing tokens, merges that specials take part in. */
static void test_odd_vocabularies(void) {
#define FUSE ", 'decoder': {'type': 'Fuse'}}"
    static const struct {
        const char *json, *config, *text, *ids; /* ids: or, behind a '!', what is said */
    } cases[] = {
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2, '': 3}, 'merges': ['a b']}" FUSE, NULL,
         "ab", "2"},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 2}, 'merges': [], 'unk_token': 'b'}" FUSE, NULL,
         "ax", "0 2"},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0}, 'merges': [], 'unk_token': ''}" FUSE, NULL, "a",
         "!not in the vocabulary: unk_token ''"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': null" FUSE, NULL, "ab", "2"},
        {"{'model': " LETTERS "['#version: 0.2', 'a b']}" FUSE, NULL, "ab", "2"},
        {"{'model': " LETTERS "[['a', 'b', 'a', 'b', 'a', 'b', 'a', 'b']]}" FUSE, NULL, "ab",
         "!not two parts"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': [{'id': 2, 'content': 'ab', 'special': true}]" FUSE,
         NULL, "ab", "0 1"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': [{'id': 0, 'content': 'a', 'special': true}]" FUSE,
         NULL, "bb", "1 1"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': [{'id': 1, 'content': 'b', 'special': true}]" FUSE,
         NULL, "aa", "0 0"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': [{'id': 2, 'content': 'ab', 'special': false}]" FUSE,
         NULL, "ab", "2"},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 2}, 'merges': []}, 'added_tokens': [{'id': 2, 'content': 'x'}]" FUSE,
         NULL, "a", "!an id that another token has, of 'x'"},
        {"{'model': " UNIGRAM "[['', 0], ['a', -1], ['b', -2]], 'unk_id': null}" FUSE, NULL, "ab", "1 2"},
        {"{'model': " LETTERS
         "['a b'], 'byte_fallback': true}, 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': "
         "false}" FUSE,
         NULL, "ab", "2"},
        {"{'model': {'type': 'BPE', 'byte_fallback': true, 'vocab': {'a': 0, '<0xC3>': 1, '<0xA9>': 2, '<0xc4>': 3, '<0xG0>': 4, "
         "'<0x0G>': 5, '<0xC4': 6, '<0xC4.': 7, '<1xC4>': 8, '?': 9}, 'merges': [], 'unk_token': '?'}" FUSE,
         NULL, "a\xc3\xa9\xc4\x84", "0 1 2 9"},
        {"{'model': " LETTERS "['a b']}, 'post_processor': " WITHOUT_NAME
         ", 'special_tokens': {'a': {'ids': [0]}}}" FUSE,
         "{\"bos_token\": \"b\", \"added_tokens_decoder\": {\"1\": {\"content\": \"b\"}}}", "b",
         "!it puts another token beside the text than BOS or EOS: 'post_processor'"},
        {"{'model': " LETTERS
         "['a b']}, 'post_processor': {'type': 'TemplateProcessing', 'single': [{'Sequence': {}}, "
         "{'SpecialToken': {'id': 'a'}}], 'special_tokens': {'a': {'ids': [0]}}}" FUSE,
         "{\"eos_token\": \"b\", \"added_tokens_decoder\": {\"1\": {\"content\": \"b\"}}}", "b",
         "!it puts another token beside the text than BOS or EOS: 'post_processor'"},
        {"{'model': " LETTERS "['a b']}, 'normalizer': {'type': 'Prepend', 'prepend': 'a'}" FUSE, NULL, "b",
         "2"},
        {"{'model': " LETTERS
         "['a b']}, 'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Strip', 'strip_left': true, "
         "'strip_right': true}, {'type': 'Strip', 'strip_left': true, 'strip_right': false}, {'type': 'Prepend', 'prepend': 'a'}]}" FUSE,
         NULL, "  b ", "2"},
        {"{'model': " LETTERS
         "['a b']}, 'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Strip', 'strip_left': true, "
         "'strip_right': true}, {'type': 'Prepend', 'prepend': 'a'}]}" FUSE,
         NULL, "   ", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[2048], got[64] = "";
        Error error = {{0}};
        Tokens tokens = {0};
        int n = snprintf(json, sizeof json, "%s", cases[i].json);
        for (char *c = json; *c; c++)
            if (*c == '\'') *c = '"';
        Opened opened = open_json(json, (size_t)n, cases[i].config, &error);
        const char *ids = cases[i].ids;
        if (*ids == '!') {
            CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, ids + 1), "%s: '%s'",
                  cases[i].json, error.message);
        } else {
            bool ok = opened.tokenizer && tokenizer_encode(opened.tokenizer, cases[i].text,
                                                           strlen(cases[i].text), 0, &tokens, &error);
            for (size_t k = 0; k < tokens.n && k < 9; k++)
                snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", k ? " " : "", tokens.ids[k]);
            CHECK(ok && strcmp(got, ids) == 0, "%s: '%s' %s", cases[i].json, got, error.message);
        }
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
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

int main(void) {
    scratch_begin();
    RUN(test_cases);
    RUN(test_any_bytes);
    RUN(test_long_texts);
    RUN(test_normal_forms);
    RUN(test_refusals);
    RUN(test_refuses_models);
    RUN(test_refused_parts);
    RUN(test_too_many_steps);
    RUN(test_parts);
    RUN(test_unknown_characters);
    RUN(test_foreign_words);
    RUN(test_ends);
    RUN(test_odd_vocabularies);
    RUN(test_keys);
    RUN(test_scores);
    write_file("tokenizer.json", NULL, 0);
    write_file("tokenizer_config.json", NULL, 0);
    scratch_end();
    return test_end();
}
